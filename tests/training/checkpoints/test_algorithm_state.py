"""State of algorithms and environments: after loading, learning continues bit by bit as without a stop."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import MultiInputActorCriticPolicy

from mygym.algos.stable_baselines import PPO
from mygym.config import merged
from mygym.planning.resolve import from_python
from mygym.registry import algorithm, register_algorithm
from mygym.training import env_factory, model_factory
from mygym.training.checkpoints.checkpoints import ReplayLog
from mygym.training.checkpoints.serialization import from_files, to_files
from mygym.training.checkpoints.states import (
    algorithm_state,
    env_state,
    load_algorithm_state,
    load_env_state,
    load_random_state,
    random_state,
    unsaved,
)
from mygym.training.policy import weights as weights_of
from tests.components import COMBOS_OF_EACH_KIND, known, small

STEPS = 48


class Cell(NamedTuple):
    x: int
    y: int


@pytest.fixture
def build() -> Iterator[Any]:
    envs = []

    def make(algo: str, framework: str = "pytorch", **more: Any) -> tuple[Any, Any]:
        quick = {"algo": algo, "framework": framework, "n_envs": 2, "task_params": {"horizon": 10}}
        params = known(algorithm(algo, framework).combo()[0])
        rollouts = {"learning_starts": 22, "buffer_size": 200} | ({"n_steps": 16} if "gae_lambda" in params else {})
        quick["algo_params"] = small(algo, framework) | {k: v for k, v in rollouts.items() if k in params}
        config = from_python(merged(quick, more)).config
        env = env_factory.make_vec_env(config)
        envs.append(env)
        return model_factory.build_model(config, env), env

    yield make
    for env in envs:
        env.close()


def state_of(model: Any, env: Any, folder: Path) -> dict[str, Any]:
    """Return the state after a round trip through the checkpoint's files."""
    algorithm = model.state_dict() if hasattr(model, "state_dict") else algorithm_state(model)
    tree = {"algorithm": algorithm, "random": random_state(), "env": env_state(env)}
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


QUICK = [param for param in COMBOS_OF_EACH_KIND if param.values[1] == "pytorch" or param.values[0] == "sac"]
"""A single JAX algorithm: `test_resuming` stops and resumes others, in the slow tests."""


@pytest.mark.parametrize(("algo", "framework"), QUICK)
def test_learning_continues_from_a_state_as_without_a_stop(
    algo: str, framework: str, build: Any, tmp_path: Path
) -> None:
    model, env = build(algo, framework)
    assert unsaved(model) == []
    model.learn(STEPS)
    content = state_of(model, env, tmp_path)
    at_the_stop = weights(model)
    model.learn(STEPS, reset_num_timesteps=False)
    other, other_env = build(algo, framework)
    load(other, other_env, content)
    assert_same(weights(other), at_the_stop)
    other.learn(STEPS, reset_num_timesteps=False)
    assert other.num_timesteps == model.num_timesteps
    assert_same(weights(other), weights(model))
    assert any(not torch.equal(value, at_the_stop[key]) for key, value in weights(model).items())


@pytest.mark.parametrize(
    ("algo", "framework"),
    [("sac", "pytorch"), *(pytest.param(algo, "jax", marks=pytest.mark.slow) for algo in ("sac", "td3"))],
)
def test_config_repeats_the_decisions_of_the_class(algo: str, framework: str) -> None:
    """Otherwise a run from config.yaml would differ, e.g. in learning rates that follow a schedule."""
    resolved = from_python({"algo": algo, "framework": framework, "n_envs": 1, "algo_params": small(algo, framework)})
    held = []
    for _ in range(2):
        env = env_factory.make_vec_env(resolved.config)
        model = model_factory.build_model(resolved.config, env)
        env.close()
        resolved = from_python(model_factory.as_built(resolved, model).values())
        held.append(
            {name: value for name, value in vars(model).items() if isinstance(value, bool | int | float | None)}
        )
    assert held[0] == held[1]
    assert "gamma" in held[0]


class Wide(MultiInputActorCriticPolicy):
    """A policy whose attribute is not the parameter of the same name."""

    def __init__(self, *args: Any, factor: int = 2, **kwargs: Any) -> None:
        self.factor = 8 * factor
        super().__init__(*args, **{**kwargs, "net_arch": [self.factor]})


class Bonus(PPO):
    """An algorithm with such an attribute, and with a rollout of another length than it is given."""

    def __init__(self, policy: Any, env: Any, bonus: float = 50.0, n_steps: int = 8, **kwargs: Any) -> None:
        self.bonus = bonus / 100
        super().__init__(policy, env, n_steps=2 * n_steps, **kwargs)


def test_config_keeps_the_parameters_that_a_users_class_declares() -> None:
    register_algorithm("bonus", policy=Wide, defaults={"batch_size": 16}, run_defaults={"n_envs": 2})(Bonus)
    params = model_factory.explained(from_python({"algo": "bonus"})).config.algo_params
    assert (params["bonus"], params["n_steps"], params["policy_kwargs"]["factor"]) == (50.0, 8, 2)
    assert params["policy_kwargs"]["net_arch"] == [16], "a parameter of the library that the class has decided"


def test_state_is_a_copy(build: Any, tmp_path: Path) -> None:
    model, env = build("sac")
    model.learn(60)
    content = {"algorithm": model.state_dict(), "random": random_state(), "env": env_state(env)}
    before = {key: value.clone() for key, value in content["algorithm"]["parameters"]["policy"].items()}
    model.learn(120, reset_num_timesteps=False)
    assert_same(content["algorithm"]["parameters"]["policy"], before)


def test_normaliser_is_restored(build: Any, tmp_path: Path) -> None:
    model, env = build("ppo", normalize=True)
    model.learn(STEPS)
    other, other_env = build("ppo", normalize=True)
    load(other, other_env, state_of(model, env, tmp_path))
    for key, running in env.obs_rms.items():
        np.testing.assert_array_equal(running.mean, other_env.obs_rms[key].mean)
        np.testing.assert_array_equal(running.var, other_env.obs_rms[key].var)
        assert running.count == other_env.obs_rms[key].count > STEPS


def test_random_generators_are_restored() -> None:
    saved = random_state()
    drawn = [np.random.random(3).tolist(), torch.rand(3).tolist()]  # noqa: NPY002
    load_random_state(saved)
    assert [np.random.random(3).tolist(), torch.rand(3).tolist()] == drawn  # noqa: NPY002


def test_attributes_keep_their_types(build: Any, tmp_path: Path) -> None:
    model, env = build("ppo")
    weight = torch.ones(2)
    model.extra = {"visits": defaultdict(int, a=1), "tensor": weight, "cell": Cell(1, 2), "counts": Counter("aab")}
    content = state_of(model, env, tmp_path)
    model.extra["visits"]["b"] += 5
    weight.fill_(7)
    load(model, env, content)
    assert model.extra["tensor"] is weight
    assert weight.tolist() == [1, 1]
    assert (model.extra["cell"], model.extra["counts"]["z"], model.extra["visits"]["z"]) == (Cell(1, 2), 0, 0)
    assert model.extra["visits"] == {"a": 1, "z": 0}
