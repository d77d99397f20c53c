"""A run that trained can be loaded: the class of a user is constructed as training constructed it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

import mygym
from mygym.errors import MygymError, RunError
from mygym.registry import register_algorithm, registry
from mygym.training.result import Result
from mygym.training.runner import Loop, Runner
from tests.training.runners import config


class UsesPolicy(PPO):
    """Builds a network and its optimiser after the policy, with a parameter without default."""

    def __init__(self, policy: Any, env: Any, width: int, n_steps: int = 60, **kwargs: Any) -> None:
        super().__init__(policy, env, n_steps=n_steps, **{**kwargs, "batch_size": 60, "n_epochs": 1})
        self.predictor = torch.nn.Linear(self.policy.features_dim, width)
        self.predictor_optimizer = torch.optim.Adam(self.predictor.parameters(), 1e-3)


class LikeCleanRL(Runner):
    """Builds its optimiser in the constructor."""

    def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), 1e-3)

    def training(self, loop: Loop) -> Any:
        while loop.next_iteration():
            for _ in range(20):
                loop.step(self.predict(loop.observations)[0])
            loss = sum((parameter**2).sum() for parameter in self.policy.parameters())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loop.curves()


@pytest.mark.parametrize("cls", [UsesPolicy, LikeCleanRL])
def test_a_class_that_uses_the_policy_in_its_constructor_can_be_loaded(cls: type, tmp_path: Path) -> None:
    register_algorithm("mine", defaults={"width": 4} if cls is UsesPolicy else {})(cls)
    result = mygym.train(config("mine", tmp_path))
    assert result.status == "done"
    policies = [mygym.load(result.path / name) for name in ("policy.safetensors", "model.zip")]
    with mygym.make_env(result.path) as env:
        observation, _ = env.reset(seed=1)
    actions = [policy.predict(observation)[0] for policy in policies]
    np.testing.assert_array_equal(*actions)
    assert mygym.train({"steps": 360}, resume=result.path).status == "done"


class Lost:
    """Cannot be unpickled."""

    def __reduce__(self) -> Any:
        return (int, ("no number",))


def test_a_model_that_cannot_be_loaded_fails_before_the_training(tmp_path: Path) -> None:
    class Unloadable(PPO):
        def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
            super().__init__(policy, env, **kwargs)
            self.extra = Lost()

    register_algorithm("mine")(Unloadable)
    with pytest.raises(RunError, match=r"Unloadable can be trained, but not loaded: .*no number"):
        mygym.train(config("mine", tmp_path))
    path = next(tmp_path.rglob("result.json")).parent
    result = Result.read(path)
    assert result is not None
    assert (result.status, result.steps) == ("failed", 0)


def test_an_attribute_that_cannot_be_saved_is_named_before_the_training(tmp_path: Path) -> None:
    class Locking(PPO):
        def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
            super().__init__(policy, env, **kwargs)
            self.lock = threading.Lock()

    register_algorithm("mine")(Locking)
    with pytest.raises(RunError, match=r"^Locking\.lock cannot be saved: .*_excluded_save_params"):
        mygym.train(config("mine", tmp_path))

    class Leaving(Locking):
        def _excluded_save_params(self) -> list[str]:
            return [*super()._excluded_save_params(), "lock"]

    register_algorithm("mine", override=True)(Leaving)
    assert mygym.train(config("mine", tmp_path)).status == "done"


@pytest.mark.slow
def test_loading_a_fresh_model_does_not_change_the_run(tmp_path: Path) -> None:
    class Plain(PPO):
        """PPO as it is."""

    class Constructed(PPO):
        def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
            super().__init__(policy, env, **kwargs)

    files = []
    for name, cls in {"plain": Plain, "constructed": Constructed}.items():
        register_algorithm(name, defaults={"n_steps": 60, "batch_size": 60})(cls)
        files.append((mygym.train(config(name, tmp_path)).path / "policy.safetensors").read_bytes())
    assert files[0] == files[1]


def test_a_resumed_run_keeps_its_model_until_it_has_a_newer_one(tmp_path: Path) -> None:
    class Constructed(PPO):
        broken = False

        def __init__(self, policy: Any, env: Any, **kwargs: Any) -> None:
            super().__init__(policy, env, **kwargs)

        def train(self) -> None:
            if self.broken:
                raise ValueError("a mistake")
            super().train()

    register_algorithm("mine", defaults={"n_steps": 60, "batch_size": 60})(Constructed)
    path = mygym.train(config("mine", tmp_path)).path
    trained = (path / "policy.safetensors").read_bytes()
    Constructed.broken = True
    with pytest.raises(RunError, match="a mistake"):
        mygym.train({"steps": 360}, resume=path)
    assert (path / "policy.safetensors").read_bytes() == trained


def test_a_message_does_not_suggest_to_import_a_file_of_the_run(tmp_path: Path) -> None:
    register_algorithm("mine")(LikeCleanRL)
    path = mygym.train(config("mine", tmp_path)).path
    content = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps({**content, "algo_source": f"{path / 'theirs.py'}:3"}))
    registry("algorithm").remove("mine")
    with pytest.raises(MygymError, match="'mine' is not") as error:
        mygym.load(path)
    assert "theirs" not in str(error.value)
