"""Episodes that start after some stages, done by the scripted expert."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.tasks.lookup import find_task
from tests.components import TASKS

SEVERAL = [task for task in (*TASKS, "AGMDW", "AGR") if len(find_task(task).stage_names) > 1]


@pytest.mark.parametrize("task", SEVERAL)
def test_an_episode_starts_in_the_next_stage(task: str) -> None:
    stages = find_task(task).stage_names
    done = len(stages) - 1
    env = RobotEnv(task, task_params={"stages_done": done})
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        assert (info["stage"], info["stages_done"], info["elapsed_steps"]) == (done, done, 0)
        assert not info["is_success"]
        assert env.observation_space.contains(observation)
    env.close()


@pytest.mark.parametrize("reward", ["sparse", "staged"])
def test_episodes_are_exact_and_can_be_restored(reward: str) -> None:
    env, other = (RobotEnv("AGM", reward=reward, task_params={"stages_done": 2}) for _ in range(2))
    other.reset(seed=5)
    other.step(np.ones(4, dtype=np.float32))
    first, _ = env.reset(seed=1)
    second, _ = other.reset(seed=1)
    assert all(np.array_equal(first[key], second[key]) for key in first)
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 4)).astype(np.float32)
    for action in actions[:3]:
        env.step(action)
    other.load_state_dict(env.state_dict())
    for action in actions[3:]:
        step, restored = env.step(action), other.step(action)
        assert all(np.array_equal(step[0][key], restored[0][key]) for key in first)
        assert step[1:] == restored[1:]
    env.close()
    other.close()


def test_the_horizon_counts_from_the_reset() -> None:
    env = RobotEnv("AGM", task_params={"stages_done": 2, "horizon": 12})
    env.reset(seed=0)
    ends = [env.step(np.zeros(4, dtype=np.float32))[3] for _ in range(12)]
    assert ends == [False] * 11 + [True]
    env.close()


@pytest.mark.parametrize(("task", "count"), [("reach", 1), ("AGM", 3)])
def test_at_least_one_stage_must_remain(task: str, count: int) -> None:
    with pytest.raises(ConfigError, match=rf"task_params\.stages_done: {count}.* less than .* {count}"):
        RobotEnv(task, task_params={"stages_done": count})
