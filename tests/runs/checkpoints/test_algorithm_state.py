"""Everything stateful goes back to where it was: learning goes on as if it had never stopped, to the bit."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from mygym.config import merged
from mygym.runs import factory
from mygym.runs.checkpoints.algorithm_state import algorithm_state, load_algorithm_state, unsaved
from mygym.runs.checkpoints.env_state import env_state, load_env_state
from mygym.runs.checkpoints.random_state import load_random_state, random_state
from mygym.runs.checkpoints.replay_log import ReplayLog
from mygym.runs.checkpoints.serialization import from_files, to_files
from mygym.runs.resolve_config import from_python
from mygym.runs.weights import weights as weights_of
from tests.components import COMBOS, small

STEPS = 130


class Place(NamedTuple):
    x: int
    y: int


@pytest.fixture
def made() -> Iterator[Any]:
    envs = []

    def make(algo: str, framework: str = "pytorch", **config: Any) -> tuple[Any, Any]:
        quick = {"algo": algo, "framework": framework, "n_envs": 2, "task_params": {"horizon": 20}}
        quick["algo_params"] = small(algo, framework)
        settled = from_python(merged(quick, config)).config
        env = factory.make_vec_env(settled)
        envs.append(env)
        return factory.build_model(settled, env), env

    yield make
    for env in envs:
        env.close()


def state_of(model: Any, env: Any, folder: Path) -> dict[str, Any]:
    """As a checkpoint holds it, through the file and back."""
    own = model.state_dict() if hasattr(model, "state_dict") else algorithm_state(model)
    tree = {"algorithm": own, "random": random_state(), "env": env_state(env)}
    loaded: dict[str, Any] = from_files(to_files(tree))
    if getattr(model, "replay_buffer", None) is not None:
        log = ReplayLog(Path(tempfile.mkdtemp(dir=folder)))
        loaded["replay"] = (log, log.save(model.replay_buffer, model.num_timesteps))
    return loaded


def load(model: Any, env: Any, content: dict[str, Any]) -> None:
    if hasattr(model, "load_state_dict"):
        model.load_state_dict(content["algorithm"])
    else:
        load_algorithm_state(model, content["algorithm"])
    if "replay" in content:
        log, saved = content["replay"]
        ReplayLog(log.folder).load(model.replay_buffer, saved, log.chunks, log.steps)
    assert load_env_state(env, content["env"])
    load_random_state(content["random"])


def weights(model: Any) -> dict[str, Any]:
    return {key: value.clone() for key, value in weights_of(model).items()}


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert torch.equal(value, second[key]), key


QUICK = [(algo, framework) for algo, framework in COMBOS if framework == "pytorch" or algo in ("sac", "ppo")]
"""Of JAX's two: the others are stopped and resumed in `test_resuming`."""


@pytest.mark.parametrize(("algo", "framework"), QUICK)
def test_learning_goes_on_from_a_state_as_if_it_had_never_stopped(
    algo: str, framework: str, made: Any, tmp_path: Path
) -> None:
    model, env = made(algo, framework)
    assert unsaved(model) == []
    model.learn(STEPS)
    content = state_of(model, env, tmp_path)
    at_the_stop = weights(model)
    model.learn(STEPS, reset_num_timesteps=False)
    other, other_env = made(algo, framework)
    load(other, other_env, content)
    assert_same(weights(other), at_the_stop)
    other.learn(STEPS, reset_num_timesteps=False)
    assert other.num_timesteps == model.num_timesteps
    assert_same(weights(other), weights(model))
    assert any(not torch.equal(value, at_the_stop[key]) for key, value in weights(model).items())


@pytest.mark.parametrize(("algo", "framework"), [("sac", "pytorch"), ("sac", "jax"), ("td3", "jax")])
def test_what_a_class_decided_is_the_same_when_its_config_is_repeated(algo: str, framework: str) -> None:
    """Else a run that starts again from config.yaml is another one, if only in the rates that follow a schedule."""
    settled = from_python({"algo": algo, "framework": framework, "n_envs": 1, "algo_params": small(algo, framework)})
    held = []
    for _ in range(2):
        env = factory.make_vec_env(settled.config)
        model = factory.build_model(settled.config, env)
        env.close()
        settled = from_python(factory.as_built(settled, model).values())
        held.append(
            {name: value for name, value in vars(model).items() if isinstance(value, bool | int | float | None)}
        )
    assert held[0] == held[1]
    assert "gamma" in held[0]


def test_a_state_is_a_copy(made: Any, tmp_path: Path) -> None:
    model, env = made("sac")
    model.learn(60)
    content = {"algorithm": model.state_dict(), "random": random_state(), "env": env_state(env)}
    before = {key: value.clone() for key, value in content["algorithm"]["parameters"]["policy"].items()}
    model.learn(120, reset_num_timesteps=False)
    assert_same(content["algorithm"]["parameters"]["policy"], before)


def test_the_normaliser_comes_back(made: Any, tmp_path: Path) -> None:
    model, env = made("ppo", normalize=True)
    model.learn(STEPS)
    other, other_env = made("ppo", normalize=True)
    load(other, other_env, state_of(model, env, tmp_path))
    for key, running in env.obs_rms.items():
        np.testing.assert_array_equal(running.mean, other_env.obs_rms[key].mean)
        np.testing.assert_array_equal(running.var, other_env.obs_rms[key].var)
        assert running.count == other_env.obs_rms[key].count > STEPS


def test_random_generators_come_back() -> None:
    saved = random_state()
    drawn = [np.random.random(3).tolist(), torch.rand(3).tolist()]  # noqa: NPY002
    load_random_state(saved)
    assert [np.random.random(3).tolist(), torch.rand(3).tolist()] == drawn  # noqa: NPY002


def test_attributes_come_back_in_their_types(made: Any, tmp_path: Path) -> None:
    model, env = made("ppo")
    weight = torch.ones(2)
    model.own = {"visits": defaultdict(int, a=1), "tensor": weight, "place": Place(1, 2), "counts": Counter("aab")}
    content = state_of(model, env, tmp_path)
    model.own["visits"]["b"] += 5
    weight.fill_(7)
    load(model, env, content)
    assert model.own["tensor"] is weight
    assert weight.tolist() == [1, 1]
    assert (model.own["place"], model.own["counts"]["z"], model.own["visits"]["z"]) == (Place(1, 2), 0, 0)
    assert model.own["visits"] == {"a": 1, "z": 0}
