"""Every registered id, with robots and controllers: both environment checkers pass without warnings."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

import mygym
from mygym.envs.batch_vector_env import BatchVectorEnv
from mygym.envs.ids import ANY_TASK
from mygym.errors import ConfigError
from mygym.tasks.lookup import find_task
from tests.components import COMPOSITIONS, CONTROLS, COVERING, IDS, REWARDS, TASKS_QUICKLY, slow_except

KEYWORDS = [
    {"id": IDS[task], "robot": robot, "control": control, "goal_env": goal_env}
    for task, robot in COVERING
    for control in (CONTROLS if task == "reach" else CONTROLS[:1])
    for goal_env in (True, False)
]
KEYWORDS_QUICKLY = slow_except(
    KEYWORDS, lambda case: case["goal_env"] or (case["id"] == IDS["reach"] and case["control"] == CONTROLS[0])
)
"""The normal suite takes flat observations, which are the arrays of the dictionaries one after the other, once."""


def named(keywords: dict[str, Any]) -> str:
    return "-".join(str(value) for value in keywords.values())


def test_each_task_has_an_id_and_gym_v0_accepts_any_task() -> None:
    registered = {name for name in gymnasium.registry if name.startswith("mygym/")}
    assert {"mygym/Reach-v0", "mygym/Push-v0", "mygym/PickAndPlace-v0", "mygym/Gym-v0"} <= registered
    assert registered >= {*IDS.values(), ANY_TASK}


@pytest.mark.parametrize("keywords", KEYWORDS_QUICKLY, ids=named)
def test_the_checkers_of_gymnasium_and_stable_baselines_give_no_warning(keywords: dict[str, Any]) -> None:
    with warnings.catch_warnings(), gymnasium.make(**keywords) as env:
        warnings.simplefilter("error")
        # Rendering is checked below, once per id.
        check_env(env.unwrapped, skip_render_check=True)
        check_env_of_sb3(env.unwrapped, warn=True, skip_render_check=True)


QUICK_IDS = [ANY_TASK, *(IDS[task] for task in TASKS_QUICKLY if isinstance(task, str))]


@pytest.mark.parametrize("name", slow_except(sorted({*IDS.values(), ANY_TASK}), lambda name: name in QUICK_IDS))
def test_rendering_passes_the_checker(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gymnasium.make(name, render_mode="rgb_array", render_width=32, render_height=32) as env:
            image = env.unwrapped.reset() and env.unwrapped.render()
            assert image.shape == (32, 32, 3)
            assert image.dtype == np.uint8
            assert image.std() > 0


@pytest.mark.parametrize("name", slow_except(sorted({*IDS.values(), ANY_TASK}), lambda name: name in QUICK_IDS))
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


@pytest.mark.parametrize("name", ["Reach-v0", "Gym-v0", "Push-v0"])
def test_an_id_with_flat_observations_needs_no_arguments(name: str) -> None:
    with gymnasium.make(f"mygym-flat/{name}") as flat, gymnasium.make(f"mygym/{name}", goal_env=False) as env:
        assert isinstance(flat.observation_space, gymnasium.spaces.Box)
        assert flat.spec.max_episode_steps == env.spec.max_episode_steps
        assert_same(flat.reset(seed=3), env.reset(seed=3))
    assert {name.split("/")[1] for name in gymnasium.registry if name.startswith("mygym-flat/")} == {
        name.split("/")[1] for name in gymnasium.registry if name.startswith("mygym/")
    }


@pytest.mark.parametrize("gradient", [True, False])
def test_an_action_may_be_a_tensor(gradient: bool) -> None:
    action = torch.full((3,), 0.5, requires_grad=gradient)
    with warnings.catch_warnings(), gymnasium.make("mygym/Reach-v0") as env:
        warnings.simplefilter("error")
        env.reset(seed=0)
        result = env.unwrapped.step(action)
        env.reset(seed=0)
        assert_same(result, env.unwrapped.step(np.full(3, 0.5, np.float32)))


def test_environments_run_in_gymnasium_vectors() -> None:
    envs = gymnasium.make_vec("mygym/Push-v0", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=[1, 2, 3])
    assert observations["desired_goal"].shape == (3, 3)
    assert len(np.unique(observations["desired_goal"], axis=0)) == 3
    envs.step(envs.action_space.sample())
    envs.close()


@pytest.mark.parametrize(
    ("name", "keywords"), [("mygym/Push-v0", {"max_episode_steps": 4}), ("mygym-flat/Gym-v0", {"task": "lift"})]
)
def test_a_vector_without_a_mode_is_the_synchronous_one(name: str, keywords: dict[str, Any]) -> None:
    """The ids have a vector environment of their own, for engines with batches; it changes nothing for the others."""
    envs = [gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode, **keywords) for mode in (None, "sync")]
    for env in envs:
        assert isinstance(env, gymnasium.vector.SyncVectorEnv)
        env.action_space.seed(0)
    assert envs[0].metadata == envs[1].metadata
    assert envs[0].spec.id == name
    assert_same(envs[0].reset(seed=3), envs[1].reset(seed=3))
    for _ in range(5):
        assert_same(*(env.step(env.action_space.sample()) for env in envs))
    for each in envs:
        each.close()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [({"wrappers": [gymnasium.Wrapper]}, "wrappers"), ({"vector_kwargs": {"copy": False}}, "kwargs")],
)
def test_wrappers_of_a_vector_need_a_mode(arguments: dict[str, Any], why: str) -> None:
    """Gymnasium's rule for ids with a vector environment of their own."""
    with pytest.raises(gymnasium.error.Error, match=why):
        gymnasium.make_vec("mygym/Reach-v0", num_envs=2, **arguments)
    gymnasium.make_vec("mygym/Reach-v0", num_envs=2, vectorization_mode="sync", **arguments).close()


@pytest.mark.parametrize(("keywords", "steps"), [({}, 25), ({"max_episode_steps": 4}, 4)], ids=str)
def test_a_vector_of_the_fused_engine_is_a_batch(keywords: dict[str, Any], steps: int) -> None:
    named = gymnasium.make_vec("mygym/Reach-v0", num_envs=3, engine="fused", **keywords)
    alias = gymnasium.make_vec("mygym-fused/Reach-v0", num_envs=3, **keywords)
    assert isinstance(named, BatchVectorEnv)
    assert_same(named.reset(seed=0), alias.reset(seed=0))
    for step in range(1, steps + 1):
        assert named.spec.max_episode_steps == alias.spec.max_episode_steps == steps
        result = named.step(np.zeros((3, 3)))
        assert_same(result, alias.step(np.zeros((3, 3))))
        assert result[3].all() == (step == steps)


def test_a_spec_of_version_0_2_makes_its_environment() -> None:
    wrapper = {"name": "use_time_limit", "entry_point": "mygym.envs.ids:use_time_limit", "kwargs": {}}
    stored = {"id": "mygym/Reach-v0", "entry_point": "mygym.envs.robot_env:RobotEnv", "kwargs": {"task": "reach"}}
    stored |= {"max_episode_steps": 30, "additional_wrappers": [wrapper]}
    with gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(json.dumps(stored))) as env:
        assert (episode_length(env), env.unwrapped.spec.max_episode_steps) == (30, 30)


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_another_process_makes_an_id_with_the_module_before_it(start_method: str) -> None:
    envs = make_vec_env(
        "mygym:mygym/Reach-v0", vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": start_method}, seed=3
    )
    with gymnasium.make("mygym/Reach-v0") as env:
        assert_same({key: value[0] for key, value in envs.reset().items()}, env.reset(seed=3)[0])
    assert envs.get_attr("spec")[0].max_episode_steps == 25
    envs.close()


def test_make_env_accepts_a_config() -> None:
    with mygym.make_env({"task": "push", "robot": "kuka", "reward": "dense"}) as env:
        assert (env.task.name, env.robot.name, env.reward_kind) == ("push", "kuka", "dense")
    with mygym.make_env({"algo": "ars"}) as env:
        assert isinstance(env.observation_space, gymnasium.spaces.Box)


def episode_length(env: gymnasium.Env[Any, Any]) -> int:
    env.reset(seed=0)
    for step in range(1, 1000):
        *_, terminated, truncated, info = env.step(np.zeros(env.action_space.shape, np.float32))
        assert env.unwrapped.compute_truncated(None, None, info) == truncated
        if terminated or truncated:
            assert info["elapsed_steps"] == step
            return step
    return 1000


@pytest.mark.parametrize(
    ("keywords", "steps"),
    [
        ({}, 25),
        ({"max_episode_steps": 40}, 40),
        ({"max_episode_steps": 4}, 4),
        ({"task_params": {"horizon": 30}}, 30),
        ({"task_params": {"horizon": 30}, "max_episode_steps": 35}, 35),
        ({"max_episode_steps": -1}, 25),
    ],
    ids=str,
)
def test_the_spec_has_the_number_of_steps_after_which_episodes_are_truncated(
    keywords: dict[str, Any], steps: int
) -> None:
    with gymnasium.make("mygym/Reach-v0", **keywords) as env:
        assert env.spec is not None
        with gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())) as other:
            copied = pickle.loads(pickle.dumps(env.unwrapped))
            for each in (env, env.unwrapped, other, copied):
                assert each.spec.max_episode_steps == steps
                assert episode_length(each) == steps
            copied.close()
        with gymnasium.make(env.spec, max_episode_steps=45) as longer:
            assert (episode_length(longer), longer.spec.max_episode_steps) == (45, 45)


@pytest.mark.parametrize("arguments", [{}, {"engine": "mujoco"}, {"task_params": {"hold": 9}}], ids=str)
def test_an_episode_is_longer_than_success_must_hold(arguments: dict[str, Any]) -> None:
    steps = arguments.get("task_params", {"hold": 3})["hold"]
    for make in (gymnasium.make, partial(gymnasium.make_vec, num_envs=1)):
        with pytest.raises(ConfigError, match=rf"success must hold for {steps} "):
            make("mygym/Reach-v0", max_episode_steps=steps, **arguments)
        make("mygym/Reach-v0", max_episode_steps=steps + 1, **arguments).close()


def test_wrappers_and_vectors_know_the_number_of_steps() -> None:
    with gymnasium.make(ANY_TASK, task="push", goal_env=False) as env:
        assert gymnasium.wrappers.TimeAwareObservation(env).observation_space.shape is not None
    envs = gymnasium.make_vec("mygym/Reach-v0", num_envs=1, vectorization_mode="sync", max_episode_steps=30)
    assert envs.envs[0].spec.max_episode_steps == envs.envs[0].unwrapped.task.horizon == 30
    envs.close()
