"""Episodes that begin where the scripted expert has done some stages."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.tasks.lookup import find_task
from tests.components import TASKS

SEVERAL = [task for task in (*TASKS, "AGMDW", "AGR") if len(find_task(task).stage_names) > 1]


@pytest.mark.parametrize("task", SEVERAL)
def test_an_episode_begins_in_the_stage_that_comes_next(task: str) -> None:
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
def test_it_is_the_same_after_any_history_and_goes_on_from_its_state(reward: str) -> None:
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
        one, again = env.step(action), other.step(action)
        assert all(np.array_equal(one[0][key], again[0][key]) for key in first)
        assert one[1:] == again[1:]
    env.close()
    other.close()


def test_its_horizon_is_its_own() -> None:
    env = RobotEnv("AGM", task_params={"stages_done": 2, "horizon": 12})
    env.reset(seed=0)
    ends = [env.step(np.zeros(4, dtype=np.float32))[3] for _ in range(12)]
    assert ends == [False] * 11 + [True]
    env.close()


@pytest.mark.parametrize(("task", "count"), [("reach", 1), ("AGM", 3)])
def test_there_is_a_stage_left(task: str, count: int) -> None:
    with pytest.raises(ConfigError, match=rf"task_params\.stages_done: {count}.* less than .* {count}"):
        RobotEnv(task, task_params={"stages_done": count})
