"""Arguments of environments and batches, of `reset` and of `step`: invalid values are refused, closed ones as well."""

from __future__ import annotations

import re
import warnings
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ClosedEnvironmentError

from mygym.envs.batch_env import BatchEnv
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.multi_task_batch import MultiTaskBatch
from mygym.envs.multi_task_env import MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("gamma", float("nan"), "finite numbers"),
        ("gamma", 1.5, "less than or equal to 1"),
        ("gamma", "x", "a number"),
        ("goal_env", "no", "true or false"),
        ("render_width", "a", "a whole number"),
        ("render_width", 0, "greater than or equal to 1"),
        ("render_height", 1.5, "a whole number"),
        ("render_mode", "humann", "did you mean 'human'"),
        ("robot", 5, "text"),
        ("workspace", 5, "text"),
        ("control", 5, "text"),
        ("reward", 5, "text"),
        ("camera", 5, "text"),
        ("observations", "ee_position", "a list"),
        ("observations", 5, "a list"),
        ("task_params", 5, "a mapping"),
        ("randomize", ["mass"], "a mapping"),
    ],
)
def test_an_invalid_argument_is_refused(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RobotEnv(**{name: value})
    for words in (f"{name}: {value!r}", allowed):
        assert words in str(caught.value)


def test_arrays_and_tuples_are_lists() -> None:
    spaces = []
    for names in (["ee_position", "goal"], ("ee_position", "goal"), np.array(["ee_position", "goal"])):
        with RobotEnv(observations=names, goal_env=np.bool_(True), render_width=np.int64(64)) as env:
            spaces.append(env.observation_space)
            assert list(env.components) == ["ee_position", "goal"]
    assert spaces[0] == spaces[1] == spaces[2]


@pytest.fixture(scope="module")
def env() -> Any:
    with RobotEnv() as env:
        yield env


@pytest.mark.parametrize("seed", [1.5, "1", -1, [1]])
def test_an_invalid_seed_is_refused(seed: Any, env: RobotEnv) -> None:
    with pytest.raises(ConfigError, match=r"seed: .* allowed: a whole number"):
        env.reset(seed=seed)


def test_whole_numbers_of_other_libraries_are_seeds(env: RobotEnv) -> None:
    goals = [env.reset(seed=seed)[0]["desired_goal"] for seed in (7, np.uint64(7), torch.tensor(7))]
    assert np.ptp(goals, axis=0).max() == 0.0


def test_options_are_a_mapping_and_have_no_effect_without_a_warning(env: RobotEnv) -> None:
    several = MultiTaskEnv([{}], ["reach"])
    for each in (env, several):
        with pytest.raises(ConfigError, match="options: 5"):
            each.reset(options=5)  # type: ignore[arg-type]
        with pytest.warns(UserWarning, match="'goal'"):
            each.reset(options={"goal": [0.1, 0.2, 0.3]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            each.reset(options={})
    several.close()


@pytest.mark.parametrize("action", [[1e154, -1e300, 0.0], torch.tensor([1.0, -1.0, 0.0])], ids=["huge", "tensor"])
def test_actions_of_any_size_and_type_are_clipped_without_warnings(action: Any, env: RobotEnv) -> None:
    results = []
    for each in (action, np.array([1.0, -1.0, 0.0])):
        env.reset(seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.append(env.step(each)[0]["observation"])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("method", ["reset", "step", "render", "picture"])
def test_a_closed_environment_is_not_used(method: str) -> None:
    env = RobotEnv(render_mode="rgb_array")
    env.reset(seed=0)
    env.close()
    with pytest.raises(ClosedEnvironmentError, match=f"{method}: <RobotEnv reach, panda, ee_delta> is closed"):
        getattr(env, method)(*([np.zeros(3)] if method == "step" else []))


def test_closing_twice_does_not_close_another_environment() -> None:
    env = RobotEnv()
    env.close()
    with RobotEnv() as other:  # Bullet gives it the same client
        assert other.world.client == env.world.client
        env.close()
        other.reset(seed=0)


def test_the_representation_names_task_and_robot(env: RobotEnv) -> None:
    assert repr(env) == "<RobotEnv reach, panda, ee_delta>"
    with MultiTaskEnv([{}, {"task": "push"}], ["reach", "push"]) as several:
        assert repr(several) == "<MultiTaskEnv reach, push>"


# Batches --------------------------------------------------------------------------------------------------------------

COUNT = 3

TWO_TASKS = [{"task": "reach"}, {"task": "reach", "reward": "dense"}]


def make_batch(**arguments: Any) -> Any:
    return gymnasium.make_vec("mygym/Reach-v0", num_envs=COUNT, **{"engine": "fused", **arguments})


@pytest.fixture(
    scope="module", params=[{}, {"output": "torch"}, {"engine": "mujoco"}], ids=["numpy", "torch", "mujoco"]
)
def batch(request: pytest.FixtureRequest) -> Any:
    with closing(make_batch(**request.param)) as envs:
        yield envs


@pytest.mark.parametrize("shape", [(3, 4), (3, 6), (3, 1), (1, 3), (4, 3), (3,), (), (3, 3, 1)], ids=str)
def test_actions_of_a_batch_have_one_shape(shape: tuple[int, ...], batch: Any) -> None:
    for actions in (np.zeros(shape, np.float32), torch.zeros(shape)):
        with pytest.raises(ValueError, match=re.escape(f"action has shape {shape}, needs (3, 3)")):
            batch.step(actions)
    batch.step(np.zeros((3, 3)).tolist())


def test_actions_of_several_tasks_have_one_shape() -> None:
    envs = MultiTaskBatch(TWO_TASKS, COUNT)
    envs.reset(0)
    for shape in ((3, 5), (1, 3), (4, 3)):
        with pytest.raises(ValueError, match="action has shape"):
            envs.step(np.zeros(shape))


@pytest.mark.parametrize("combined", [False, True])
def test_discrete_actions_of_a_batch_are_in_the_space(combined: bool) -> None:
    shape = (COUNT,) if combined else (COUNT, 3)
    with closing(make_batch(actions={"discrete": 3, "combined": combined})) as envs:
        envs.step(np.full(shape, 2))
        for value in (-1, 27, 1.0):
            with pytest.raises(ValueError, match=r"action \[.* is not in (Multi)?Discrete"):
                envs.step(np.full(shape, value))
        with pytest.raises(ValueError, match="action has shape"):
            envs.step(np.zeros((COUNT, 2), dtype=np.int64))


@pytest.mark.parametrize(
    ("seed", "value"),
    [(-1, "-1"), (1.5, "1.5"), ("1", "'1'"), ([1, -2, 3], "-2"), ([1, 2], "2 seeds are given"),
     (range(5), "5 seeds are given"), ([1, None, 2], "None"), (torch.tensor(1.5), "tensor"), (2**63 - 1, str(2**63))],
    ids=str,
)  # fmt: skip
def test_an_invalid_seed_of_a_batch_is_refused(seed: Any, value: str, batch: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        batch.reset(seed=seed)
    assert str(caught.value).startswith(f"seed: {value}")
    assert str(caught.value).endswith(f"allowed: a whole number from 0 to {2**63 - 1}, 3 of them, or None")


def test_an_invalid_seed_of_other_batches_is_refused() -> None:
    sb3 = BatchVecEnv(TWO_TASKS[0], COUNT)
    sb3.seed(-1)
    with pytest.raises(ConfigError, match="seed: -1"):
        sb3.reset()
    for envs in (BatchEnv(TWO_TASKS[0], COUNT), MultiTaskBatch(TWO_TASKS, COUNT)):
        with pytest.raises(ConfigError, match="seed: 2 seeds"):
            envs.reset([1, 2])


def test_seeds_of_a_batch_may_be_of_other_libraries(batch: Any) -> None:
    goals = [
        np.asarray(batch.reset(seed=seed)[0]["desired_goal"])
        for seed in (7, np.uint64(7), torch.tensor(7), [7, 8, 9], np.array([7, 8, 9]), torch.tensor([7, 8, 9]))
    ]
    assert np.ptp(goals, axis=0).max() == 0.0


@pytest.mark.parametrize("engine", ["fused", "mujoco", "pybullet"])
@pytest.mark.parametrize("count", [0, -1, 1.5, "a", None])
def test_an_invalid_number_of_environments_is_refused(count: Any, engine: str) -> None:
    with pytest.raises(ConfigError) as caught:
        gymnasium.make_vec("mygym/Push-v0", num_envs=count, engine=engine)
    assert str(caught.value) == f"num_envs: {count!r} is not allowed; allowed: a whole number, at least 1"


def test_an_invalid_number_of_environments_of_several_tasks_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_envs: 0 "):
        MultiTaskBatch(TWO_TASKS, 0)


def test_a_batch_warns_about_options(batch: Any) -> None:
    sb3 = BatchVecEnv(TWO_TASKS[0], COUNT)
    sb3.set_options({"goal": 1})
    for reset in (lambda: batch.reset(options={"goal": 1}), sb3.reset):
        with pytest.warns(UserWarning, match="'goal'"):
            reset()
    with pytest.raises(ConfigError, match="options: 5"):
        batch.reset(options=5)
    sb3.reset()  # a warning would be an error


@pytest.mark.parametrize("mode", ["human", "rgb_array"])
@pytest.mark.parametrize("engine", ["fused", "mujoco"])
def test_a_batch_has_no_render_mode(mode: str, engine: str) -> None:
    with pytest.raises(ConfigError, match=rf"^render_mode: '{mode}' .* engine {engine} .*allowed: None$"):
        make_batch(engine=engine, render_mode=mode)
    assert make_batch(engine=engine, render_mode=None).render_mode is None


def test_a_closed_batch_is_not_used() -> None:
    envs, sb3 = make_batch(), BatchVecEnv(TWO_TASKS[0], COUNT)
    for env in (envs, sb3):
        env.reset()
        env.close()
        env.close()
        for method, arguments in (("reset", ()), ("step", (np.zeros((COUNT, 3)),))):
            with pytest.raises(ClosedEnvironmentError, match=rf"{method}: Batch\w+\(.*num_envs=3\) is closed"):
                getattr(env, method)(*arguments)
