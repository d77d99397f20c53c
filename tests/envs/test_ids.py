"""Every registered id, with every robot that can do its task, and with every controller: both checkers, no warnings."""

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


def test_there_is_an_id_for_each_task_and_one_for_any() -> None:
    registered = {name for name in gymnasium.registry if name.startswith("mygym/")}
    assert {"mygym/Reach-v0", "mygym/Push-v0", "mygym/PickAndPlace-v0", "mygym/Gym-v0"} <= registered
    assert registered >= {*IDS.values(), ANY_TASK}


@pytest.mark.parametrize("keywords", KEYWORDS, ids=named)
def test_gymnasiums_checker_has_nothing_to_say(keywords: dict[str, Any]) -> None:
    with warnings.catch_warnings(), gymnasium.make(**keywords) as env:
        warnings.simplefilter("error")
        # Rendering is checked below, once for each id.
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("keywords", KEYWORDS, ids=named)
def test_stable_baselines_checker_has_nothing_to_say(keywords: dict[str, Any]) -> None:
    with warnings.catch_warnings(), gymnasium.make(**keywords) as env:
        warnings.simplefilter("error")
        check_env_of_sb3(env.unwrapped, warn=True, skip_render_check=True)


@pytest.mark.parametrize("name", sorted({*IDS.values(), ANY_TASK}))
def test_the_checkers_find_rendering_in_order(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gymnasium.make(name, render_mode="rgb_array", render_width=32, render_height=32) as env:
            picture = env.unwrapped.reset() and env.unwrapped.render()
            assert picture.shape == (32, 32, 3)
            assert picture.dtype == np.uint8
            assert picture.std() > 0


@pytest.mark.parametrize("name", sorted({*IDS.values(), ANY_TASK}))
def test_two_instances_of_an_id_do_the_same(name: str) -> None:
    task = next((task for task, known in IDS.items() if known == name), "reach")
    with gymnasium.make(name) as one, gymnasium.make(pickle.loads(pickle.dumps(one.spec))) as other:
        known = one.unwrapped.task
        assert known == other.unwrapped.task
        assert replace(known, parts=(), path_points={}) == find_task(task)  # these two are the workspace's
        for seed in (5, None):
            first, second = one.reset(seed=seed), other.reset(seed=seed)
            assert_same(first, second)
            one.action_space.seed(0)
            for _ in range(20):
                action = one.action_space.sample()
                assert_same(one.step(action), other.step(action))


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


@pytest.mark.parametrize("said", ["reach", "AGMDW", ["approach", "push"]])
def test_any_task_can_be_made_from_names_letters_and_lists(said: str | list[str]) -> None:
    with gymnasium.make("mygym/Gym-v0", task=said) as env:
        assert env.unwrapped.task.stage_names == find_task(said).stage_names
        env.reset(seed=0)
        assert len(env.step(env.action_space.sample())) == 5


@pytest.mark.parametrize("said", COMPOSITIONS)
def test_every_composition_of_letters_passes_the_checker(said: str) -> None:
    with warnings.catch_warnings(), gymnasium.make(ANY_TASK, task=said, reward="staged") as env:
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("reward", REWARDS)
def test_the_issues_line_works(reward: str) -> None:
    keywords = {"robot": "panda", "workspace": "table", "control": "ee_delta", "reward": reward}
    with gymnasium.make("mygym/Reach-v0", **keywords) as env:
        observation, info = env.reset(seed=0)
        assert set(observation) == {"observation", "achieved_goal", "desired_goal"}
        assert info["is_success"] is False


def test_environments_run_in_gymnasiums_vectors() -> None:
    envs = gymnasium.make_vec("mygym/Push-v0", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=[1, 2, 3])
    assert observations["desired_goal"].shape == (3, 3)
    assert len(np.unique(observations["desired_goal"], axis=0)) == 3
    envs.step(envs.action_space.sample())
    envs.close()


def test_make_env_takes_a_config() -> None:
    with mygym.make_env({"task": "push", "robot": "kuka", "reward": "dense"}) as env:
        assert (env.task.name, env.robot.name, env.reward_kind) == ("push", "kuka", "dense")
    with mygym.make_env({"algo": "ars"}) as env:
        assert isinstance(env.observation_space, gymnasium.spaces.Box)
