"""Policies without training have SB3's `predict` and are deterministic."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.registry import registry


@pytest.mark.parametrize("name", registry("policy").names())
def test_a_policy_predicts_batches_deterministically(name: str) -> None:
    envs = [RobotEnv("pick_and_place") for _ in range(2)]
    actions = []
    for _ in range(2):
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
        policy = registry("policy").get(name).load()(envs, 7)
        predicted, state = policy.predict(None, None, np.ones(2, dtype=bool), deterministic=True)
        assert predicted.shape == (2, 4)
        assert predicted.dtype == np.float32
        assert (np.abs(predicted) <= 1).all()
        assert state is None
        actions.append(predicted)
    np.testing.assert_array_equal(*actions)
    for env in envs:
        env.close()


def test_the_seed_of_the_random_policy_matters() -> None:
    env = RobotEnv()
    make = registry("policy").get("random").load()
    first, second = (make([env], seed).predict(None)[0] for seed in (1, 2))
    assert not np.array_equal(first, second)
    env.close()
