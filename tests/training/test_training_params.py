"""Training parameters of runners in configs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.cli.describe import describe
from mygym.cli.train import train as train_command
from mygym.config import config_hash, load_file
from mygym.errors import ConfigError
from mygym.planning.resolve import from_python
from mygym.training.result import Curves
from mygym.training.runner import Loop, Runner
from tests.training.runners import Climber, config, registered
from tests.training.test_resuming import stopped


def test_training_parameters_come_from_signature_registration_and_user(tmp_path: Path) -> None:
    received: dict[str, Any] = {}

    class Recording(Climber):
        def training(self, loop: Loop, *, length: int = 20, greedy: bool = True) -> Curves:
            received.update(length=length, greedy=greedy)
            return super().training(loop, length=length, greedy=greedy)

    name = registered(Recording, training_defaults={"length": 10})
    resolved = from_python(config(name, tmp_path, training_params={"greedy": False}))
    assert resolved.config.training_params == {"length": 10, "greedy": False}
    assert resolved.origins["training_params.length"] == f"algorithm {name}"
    assert resolved.origins["training_params.greedy"] == "argument"
    assert from_python(config(name, tmp_path)).origins["training_params.greedy"] == "class Recording"
    assert "noise" in resolved.config.algo_params
    assert "length" not in resolved.config.algo_params
    result = mygym.train(resolved)
    assert received == {"length": 10, "greedy": False}
    assert load_file(result.path / "config.yaml")["training_params"] == {"length": 10, "greedy": False}


def test_training_parameters_shape_the_result() -> None:
    name = registered(Climber)
    hashes = [
        config_hash(from_python({"algo": name, "training_params": params}).values())
        for params in ({}, {"length": 20}, {"length": 21})
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    values = from_python({"algo": "ppo"}).values()
    assert config_hash(values) == config_hash({k: v for k, v in values.items() if k != "training_params"})


class Demanding(Runner):
    def training(self, loop: Loop, *, rounds: int, share: float = 0.5) -> Curves:
        return Curves()


@pytest.mark.parametrize(
    ("cls", "params", "words"),
    [
        (Climber, {"lenght": 5}, r"training_params\.lenght.*Climber\.training.*did you mean 'length'"),
        (Climber, {"length": "long"}, r"training_params\.length: 'long' has the wrong type; allowed: a whole number"),
        (Climber, {"greedy": 1}, r"training_params\.greedy: 1 has the wrong type; allowed: true or false"),
        (Climber, {"noise": 0.5}, r"training_params\.noise.*allowed: greedy, length"),
        (Demanding, {}, r"training_params\.rounds.*Demanding\.training needs.*|training_params\.rounds.*is missing"),
        (None, {"length": 5}, r"training_params\.length.*is not for ppo.*steps, n_envs, eval"),
    ],
)
def test_training_parameters_are_validated_first(
    cls: type[Runner] | None, params: Mapping[str, Any], words: str, tmp_path: Path
) -> None:
    name = registered(cls) if cls is not None else "ppo"
    with pytest.raises(ConfigError, match=words):
        mygym.train(config(name, tmp_path, training_params=params))
    assert list(tmp_path.iterdir()) == []


def without_a_loop(self: Any) -> None: ...


def with_two_arguments(self: Any, loop: Any, env: Any) -> None: ...


def with_a_parameter_by_position(self: Any, loop: Any, length: int = 25) -> None: ...


@pytest.mark.parametrize("training", [without_a_loop, with_two_arguments, with_a_parameter_by_position])
def test_a_training_of_another_signature_is_refused_before_the_run(training: Any, tmp_path: Path) -> None:
    name = registered(type("Wrong", (Climber,), {"training": training}))
    with pytest.raises(
        ConfigError, match=r"test_training_params\.py:\d+: Wrong\.training: \['self'.*\(self, loop, \*, "
    ):
        mygym.train(config(name, tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_runner_without_training_is_refused_before_the_run(tmp_path: Path) -> None:
    class Misspelt(Runner):
        """Has `train` in place of `training`."""

        def train(self, loop: Loop) -> None: ...

    with pytest.raises(ConfigError, match=r"test_training_params\.py:\d+: Misspelt lacks the method training$"):
        mygym.train(config(registered(Misspelt), tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("algo", "name", "value"), [("cem", "episodes", 0), ("bc", "gradient_steps", 0), ("dagger", "gradient_steps", -1)]
)
def test_training_parameters_have_ranges(algo: str, name: str, value: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"training_params\.{name}: {value} is out of range; allowed: .* 1$"):
        mygym.train({"algo": algo, "logdir": str(tmp_path), "training_params": {name: value}, "steps": 50})


def test_strict_requires_training_parameters(tmp_path: Path) -> None:
    values = from_python({"algo": "cem"}).values()
    assert from_python({**values, "strict": True}).config.training_params == values["training_params"]
    del values["training_params"]["episodes"]
    with pytest.raises(ConfigError, match=r"missing: training_params\.episodes"):
        from_python({**values, "strict": True})


def test_the_command_line_shows_and_sets_training_parameters(capsys: Any) -> None:
    train_command(["--algo", "cem", "--set", "training_params.episodes=7", "--explain"])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("training_params."))
    assert line.split() == ["training_params.episodes", "7", "flag"]
    describe(["algorithm", "cem", "--json"])
    description = json.loads(capsys.readouterr().out)["frameworks"]["pytorch"]
    assert set(description["training_params"]) == {"episodes"}
    assert "population" in description["algo_params"]
    describe(["algorithm", "ppo", "--json"])
    assert "training_params" not in json.loads(capsys.readouterr().out)["frameworks"]["pytorch"]


def test_resume_refuses_changed_training_parameters(tmp_path: Path) -> None:
    run = stopped(config(registered(Climber), tmp_path), step=150)
    with pytest.raises(ConfigError, match=r"training_params\.length"):
        mygym.train({"training_params": {"length": 5}}, resume=run)
