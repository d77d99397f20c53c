"""`JaxRunner`: its networks, random key and learning rate; the scaffolded runner trains in tests/cli/new."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from mygym.envs.robot_env import RobotEnv
from mygym.registry import Algorithm
from mygym.registry.algorithms import complete
from mygym.training.checkpoints.states import unsaved
from mygym.training.result import Curves
from mygym.training.runner import Loop


@cache
def shaker_class() -> Any:
    """Return a runner that scales the weights of the actor by random factors; JAX is imported when it is used."""
    import jax

    from mygym.training.jax_runner import JaxRunner

    class Shaker(JaxRunner):
        """Scales the weights of the actor."""

        def training(self, loop: Loop, *, noise: float = 0.1) -> Curves:
            policy = self.policy
            while loop.next_iteration():
                loop.step(np.zeros((1, 3)))
                factor = jax.numpy.exp(noise * jax.random.normal(self.next_key()))
                params = jax.tree.map(factor.__mul__, policy.actor_state.params)
                policy.actor_state = policy.actor_state.replace(params=params)
            return loop.curves()

    return Shaker


@pytest.fixture
def env() -> Iterator[DummyVecEnv]:
    envs = DummyVecEnv([lambda: RobotEnv(goal_env=False, task_params={"horizon": 5})])
    yield envs
    envs.close()


def shaker(env: DummyVecEnv, seed: int = 0) -> Any:
    return shaker_class()("MlpPolicy", env, seed=seed, device="cpu", policy_kwargs={"net_arch": [4]})


def test_a_state_continues_exactly_in_another_runner(env: DummyVecEnv, tmp_path: Path) -> None:
    first, second = shaker(env), shaker(env, seed=1)
    first.learn(2)
    assert unsaved(first) == []
    second.load_state_dict(first.state_dict())
    for runner in (first, second):
        runner.learn(4, reset_num_timesteps=False)
    observations = np.array([env.observation_space.sample() for _ in range(3)])
    actions = [runner.predict(observations, deterministic=True)[0] for runner in (first, second)]
    np.testing.assert_array_equal(*actions)
    np.testing.assert_array_equal(first.next_key(), second.next_key())
    first.save(tmp_path / "model.zip")
    loaded = shaker_class().load(tmp_path / "model.zip", env=env, device="cpu")
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], actions[0])


def test_the_learning_rate_reaches_both_optimizers(env: DummyVecEnv) -> None:
    runner = shaker(env)
    runner.learning_rate = 0.25
    runner.learn(1)
    policy = runner.policy
    rates = [state.opt_state[1].hyperparams["learning_rate"] for state in (policy.actor_state, policy.vf_state)]
    assert [float(rate) for rate in rates] == [0.25, 0.25]


def test_it_gets_flat_observations() -> None:
    entry = Algorithm("shaker", "jax", shaker_class())
    assert not complete(entry, {"policy": "MlpPolicy"}).dict_observations
    assert complete(entry, {"policy": "MlpPolicy", "dict_observations": True}).dict_observations
