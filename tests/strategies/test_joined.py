"""Tests of joined strategies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import mygym
from benchmarks.kills import differences
from mygym.cli.main import main
from mygym.config import load_file
from mygym.errors import ConfigError
from mygym.planning.resolve import from_python
from mygym.strategies import Strategy, register_strategy
from mygym.training.result import Result
from tests.training.test_resuming import config, stopped

CALLS: list[str] = []


class Rated(Strategy):
    """Raises the entropy coefficient before gradient steps.

    Args:
        rate: Increase of the coefficient in each step.
    """

    phase = "gradient"
    checkpointed = ("times",)

    def __init__(self, *, rate: float = 1e-3) -> None:
        self.rate = rate
        self.times = 0
        if rate <= 0:
            raise ConfigError(f"strategy_params.rate: {rate} is not above 0")

    def run_defaults(self) -> dict[str, Any]:
        return {"n_envs": 3}

    def prepare_model(self) -> None:
        CALLS.append(f"{self.name} prepares {len(self.training_env.get_attr('labels'))} environments")

    def begin_iteration(self) -> None:
        self.times += 1
        self.model.ent_coef = self.rate * self.times  # type: ignore[attr-defined]

    def on_evaluation(self, record: Any) -> None:
        CALLS.append(f"{self.name} evaluated at {record['steps']} steps")


@pytest.fixture(autouse=True)
def rated() -> None:
    CALLS.clear()
    register_strategy("rated")(Rated)


PARAMS = {"multitask": {"tasks": ["reach", "AG"], "sampler": "adaptive"}, "rated": {"rate": 2e-3}}
EVALUATED = {"every": 100, "episodes": 1, "final_episodes": 2}
OVERRIDES = {"strategy": "multitask+rated", "strategy_params": PARAMS, "eval": EVALUATED, "steps": 200}


def test_every_strategy_is_called_and_resumed(tmp_path: Path) -> None:
    reference = mygym.train(config("ppo", tmp_path / "whole", **OVERRIDES))
    assert set(Result.read(reference.path).success_by_task) == {"reach", "AG"}  # type: ignore[union-attr]
    assert CALLS[:2] == ["rated prepares 2 environments", "rated evaluated at 0 steps"]
    run = stopped(config("ppo", tmp_path / "stopped", **OVERRIDES), step=110)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []
    single = mygym.train(
        config(
            "ppo", tmp_path / "alone", **OVERRIDES | {"strategy": "multitask", "strategy_params": PARAMS["multitask"]}
        )
    )
    weights = [(path / "policy.safetensors").read_bytes() for path in (reference.path, single.path)]
    assert weights[0] != weights[1]


def test_a_resolved_config_has_the_parameters_of_each_strategy(tmp_path: Path) -> None:
    resolved = from_python({"strategy": "multitask+rated", "strategy_params": {"rated": {"rate": 0.5}}})
    params = resolved.config.strategy_params
    assert params["rated"] == {"rate": 0.5}
    assert params["multitask"]["tasks"] == ["reach", "push"]
    assert (resolved.config.n_envs, resolved.config.spaces) == (3, "shared")
    assert from_python(resolved.config).config == resolved.config


@pytest.mark.parametrize(
    ("strategy", "params", "why"),
    [
        ("multitask+multitask", {}, r"strategy: 'multitask\+multitask' names multitask twice"),
        ("multitask+ratet", {}, r"strategy: 'ratet' is not a known strategy.*rated"),
        ("multitask+", {}, "strategy: '' is not a known strategy"),
        ("multitask+rated", {"rate": 1}, r"strategy_params\.rate: 1 is none of multitask, rated; .*\{multitask: "),
        ("multitask+rated", {"rated": 1}, r"strategy_params\.rated: 1 is not a mapping"),
        ("multitask+rated", {"rated": {"rat": 1}}, r"strategy_params\.rated\.rat: .* not a parameter of rated"),
        ("multitask+rated", {"rated": {"rate": 0.0}}, r"^strategy_params\.rated\.rate: 0.0 is not above 0"),
        ("multitask+curriculum", {}, "joins multitask and curriculum, which both choose the task variants"),
    ],
)
def test_invalid_combinations_are_refused(strategy: str, params: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=why):
        mygym.train(config("sac", tmp_path, strategy=strategy, strategy_params=params, task="AGM"))
    assert list(tmp_path.iterdir()) == []


def test_flags_and_help_group_parameters_by_strategy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--strategy", "multitask+rated", "--help"])
    output = capsys.readouterr().out
    for name in ("multitask", "rated"):
        assert re.search(rf"strategy_params of {name}\b.*: --set strategy_params\.{name}\.NAME=VALUE", output)
    flags = [
        "--strategy",
        "multitask+rated",
        "--set",
        "strategy_params.rated.rate=0.25",
        "--steps",
        "64",
        "--algo",
        "ppo",
    ]
    fast = [
        "algo_params.n_steps=16",
        "algo_params.batch_size=16",
        "video.episodes=0",
        "eval.episodes=2",
        "eval.final_episodes=2",
    ]
    with pytest.raises(SystemExit, match="0"):
        main(["train", *flags, "--logdir", str(tmp_path), *(word for value in fast for word in ("--set", value))])
    run = Path(capsys.readouterr().out.rstrip().rpartition("run: ")[2])
    assert load_file(run / "config.yaml")["strategy_params"]["rated"] == {"rate": 0.25}


def test_errors_while_preparing_name_the_section(tmp_path: Path) -> None:
    params = {"distill": {"teacher": {"reach": "oracle"}}}
    with pytest.raises(ConfigError, match=r"^strategy_params\.distill\.teacher"):
        mygym.train(config("sac", tmp_path, strategy="multitask+distill", strategy_params=params))
    assert list(tmp_path.iterdir()) == []
