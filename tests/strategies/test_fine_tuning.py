"""Strategies that train few parameters of a pretrained policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import mygym
from mygym.errors import ConfigError
from mygym.runs.result import Result
from mygym.strategies.low_rank import LoRALinear
from tests.components import slow_except
from tests.runs.runners import config as small
from tests.runs.test_resuming import stopped

ALGORITHMS = slow_except(
    ["ppo", "a2c", "sac", "td3", "ddpg", "tqc", "crossq", "ppo_runner", "dagger"], ("ppo", "sac").__contains__
)


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    if algo in ("ppo", "ppo_runner"):
        params: dict[str, Any] = {"n_steps": 20, "batch_size": 20}
    elif algo == "a2c":
        params = {"n_steps": 20}
    else:
        params = {} if algo == "dagger" else {"learning_starts": 60}
    return small(algo, logdir, **{"algo_params": params, **more})


def tensors(run: Result) -> dict[str, torch.Tensor]:
    """Trained tensors: not those of the normaliser, nor those of target networks, which follow the others."""
    saved = load_file(run.path / "policy.safetensors")
    left_out = ("normalizer.", "actor_target.", "critic_target.")
    return {name: value for name, value in saved.items() if not name.startswith(left_out)}


def changed(first: Result, second: Result) -> set[str]:
    a, b = tensors(first), tensors(second)
    return {name for name in a.keys() & b.keys() if not torch.equal(a[name], b[name])}


def is_running_statistic(name: str) -> bool:
    endings = (".mean", ".var", ".variance", ".steps", ".count", ".ra_mean", ".ra_var")
    return "running_" in name or "num_batches" in name or name.endswith(endings)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Return a function that trains an algorithm for a moment, once."""
    folder = tmp_path_factory.mktemp("sources")
    return cache(lambda algo: mygym.train(config(algo, folder, steps=80)))


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_bitfit_trains_the_biases_alone(algo: str, sources: Callable[[str], Result], tmp_path: Path) -> None:
    source = sources(algo)
    result = mygym.train(config(algo, tmp_path / "run", strategy="bitfit", pretrained=str(source.path), seed=1))
    different = {name for name in changed(source, result) if not is_running_statistic(name)}
    assert any(name.endswith("bias") for name in different)
    assert all(name.endswith(("bias", "log_std")) for name in different)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_lora_trains_low_rank_changes_alone(algo: str, sources: Callable[[str], Result], tmp_path: Path) -> None:
    source = sources(algo)
    settings = {"strategy": "lora", "strategy_params": {"rank": 2}, "pretrained": str(source.path), "seed": 1}
    result = mygym.train(config(algo, tmp_path / "run", **settings))
    assert {name for name in changed(source, result) if not is_running_statistic(name)} <= {"log_std"}
    added = tensors(result).keys() - tensors(source).keys()
    assert added
    assert all(name.endswith((".lora_a", ".lora_b")) for name in added)
    assert any(tensors(result)[name].any() for name in added if name.endswith(".lora_b"))
    assert all(min(tensors(result)[name].shape) <= 2 for name in added)


def test_the_change_of_a_layer_is_scaled() -> None:
    layer = torch.nn.Linear(3, 2)
    changed_layer, x = LoRALinear(layer, rank=1, scale=5.0), torch.randn(4, 3)
    with torch.no_grad():
        changed_layer.lora_b.copy_(torch.tensor([[1.0], [-2.0]]))
    expected = layer(x) + 5.0 * (x @ changed_layer.lora_a.T) @ changed_layer.lora_b.T
    assert torch.allclose(changed_layer(x), expected, atol=1e-6)


def test_lora_begins_with_the_pretrained_policy_and_resumes(sources: Callable[[str], Result], tmp_path: Path) -> None:
    source = sources("ppo")
    settings = {"strategy": "lora", "pretrained": str(source.path)}
    params = {"learning_rate": 1e-30, "n_steps": 20}
    frozen = config("ppo", tmp_path / "frozen", **settings, steps=40, algo_params=params)
    frozen["algo_params"]["batch_size"] = 20
    first = mygym.load(mygym.train(frozen).path).model.policy
    observation, _ = first.obs_to_tensor({k: space.sample() for k, space in first.observation_space.spaces.items()})
    original = mygym.load(source.path).model.policy
    assert torch.equal(first._predict(observation, True), original._predict(observation, True))
    whole = mygym.train(config("ppo", tmp_path / "whole", **settings))
    resumed = mygym.train(resume=stopped(config("ppo", tmp_path / "stopped", **settings), step=130))
    assert changed(whole, resumed) == set()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "lora", "strategy_params": {"rank": 0}}, r"strategy_params\.rank: 0 "),
        ({"strategy": "lora", "algo": "sac", "framework": "jax"}, r"strategy: 'lora' cannot change the layers of"),
        ({"strategy": "bitfit", "algo": "ars"}, r"strategy: 'bitfit' requires actor optimizer"),
        ({"strategy": "bitfit", "algo": "trpo"}, r"strategy: 'bitfit' requires first order"),
        ({"strategy": "lora", "algo": "trpo"}, r"strategy: 'lora' requires first order"),
    ],
)
def test_what_cannot_be_fine_tuned_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train({"steps": 40, "logdir": str(tmp_path), **settings})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["bitfit", "lora"])
def test_another_robot_is_learned(strategy: str, tmp_path: Path) -> None:
    """A policy of one arm is adapted to another arm."""
    source = mygym.train({"algo": "ppo", "video": {"episodes": 0}, "logdir": str(tmp_path / "source")})
    moved = {"algo": "ppo", "robot": "kuka", "video": {"episodes": 0}, "steps": 60_000}
    moved |= {"pretrained": str(source.path), "strategy": strategy, "logdir": str(tmp_path / "run")}
    assert mygym.train(moved).success_rate >= 0.9
