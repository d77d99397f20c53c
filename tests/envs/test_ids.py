"""Every registered id, with robots and controllers: both environment checkers pass without warnings."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

import mygym
from mygym.envs.ids import ANY_TASK
from mygym.tasks.lookup import find_task
from tests.components import COMPOSITIONS, CONTROLS, COVERING, IDS, REWARDS

KEYWORDS = [
    {"id": IDS[task], "robot": robot, "control": control, "goal_env": goal_env}
    for task, robot in COVERING
    for control in (CONTROLS if task == "reach" else CONTROLS[:1])
    for goal_env in (True, False)
]


def named(keywords: dict[str, Any]) -> str:
    return "-".join(str(value) for value in keywords.values())


def test_each_task_has_an_id_and_gym_v0_accepts_any_task() -> None:
    registered = {name for name in gymnasium.registry if name.startswith("mygym/")}
    assert {"mygym/Reach-v0", "mygym/Push-v0", "mygym/PickAndPlace-v0", "mygym/Gym-v0"} <= registered
    assert registered >= {*IDS.values(), ANY_TASK}


@pytest.mark.parametrize("keywords", KEYWORDS, ids=named)
def test_gymnasiums_checker_gives_no_warning(keywords: dict[str, Any]) -> None:
    with warnings.catch_warnings(), gymnasium.make(**keywords) as env:
        warnings.simplefilter("error")
        # Rendering is checked below, once per id.
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("keywords", KEYWORDS, ids=named)
def test_stable_baselines_checker_gives_no_warning(keywords: dict[str, Any]) -> None:
    with warnings.catch_warnings(), gymnasium.make(**keywords) as env:
        warnings.simplefilter("error")
        check_env_of_sb3(env.unwrapped, warn=True, skip_render_check=True)


@pytest.mark.parametrize("name", sorted({*IDS.values(), ANY_TASK}))
def test_rendering_passes_the_checker(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gymnasium.make(name, render_mode="rgb_array", render_width=32, render_height=32) as env:
            image = env.unwrapped.reset() and env.unwrapped.render()
            assert image.shape == (32, 32, 3)
            assert image.dtype == np.uint8
            assert image.std() > 0


@pytest.mark.parametrize("name", sorted({*IDS.values(), ANY_TASK}))
def test_two_instances_of_an_id_are_equal(name: str) -> None:
    task = next((task for task, known in IDS.items() if known == name), "reach")
    with gymnasium.make(name) as env, gymnasium.make(pickle.loads(pickle.dumps(env.spec))) as other:
        known = env.unwrapped.task
        assert known == other.unwrapped.task
        assert replace(known, parts=(), path_points={}) == find_task(task)  # both come from the workspace
        for seed in (5, None):
            first, second = env.reset(seed=seed), other.reset(seed=seed)
            assert_same(first, second)
            env.action_space.seed(0)
            for _ in range(20):
                action = env.action_space.sample()
                assert_same(env.step(action), other.step(action))


def assert_same(first: Any, second: Any) -> None:
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, tuple):
        for a, b in zip(first, second, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("task", ["reach", "AGMDW", ["approach", "push"]])
def test_any_task_can_be_made_from_names_letters_and_lists(task: str | list[str]) -> None:
    with gymnasium.make("mygym/Gym-v0", task=task) as env:
        assert env.unwrapped.task.stage_names == find_task(task).stage_names
        env.reset(seed=0)
        assert len(env.step(env.action_space.sample())) == 5


@pytest.mark.parametrize("task", COMPOSITIONS)
def test_every_composition_of_letters_passes_the_checker(task: str) -> None:
    with warnings.catch_warnings(), gymnasium.make(ANY_TASK, task=task, reward="staged") as env:
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("reward", REWARDS)
def test_the_documented_call_works(reward: str) -> None:
    keywords = {"robot": "panda", "workspace": "table", "control": "ee_delta", "reward": reward}
    with gymnasium.make("mygym/Reach-v0", **keywords) as env:
        observation, info = env.reset(seed=0)
        assert set(observation) == {"observation", "achieved_goal", "desired_goal"}
        assert info["is_success"] is False


def test_environments_run_in_gymnasium_vectors() -> None:
    envs = gymnasium.make_vec("mygym/Push-v0", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=[1, 2, 3])
    assert observations["desired_goal"].shape == (3, 3)
    assert len(np.unique(observations["desired_goal"], axis=0)) == 3
    envs.step(envs.action_space.sample())
    envs.close()


def test_make_env_accepts_a_config() -> None:
    with mygym.make_env({"task": "push", "robot": "kuka", "reward": "dense"}) as env:
        assert (env.task.name, env.robot.name, env.reward_kind) == ("push", "kuka", "dense")
    with mygym.make_env({"algo": "ars"}) as env:
        assert isinstance(env.observation_space, gymnasium.spaces.Box)
