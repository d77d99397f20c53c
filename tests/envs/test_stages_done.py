"""Episodes that start after some stages, done by the scripted expert; goals on the surface."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

from mygym.engines.engine import BULLET, FUSED, MUJOCO
from mygym.envs import batches
from mygym.envs.batch_env import BatchEnv
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.planning.resolve import from_python
from mygym.tasks.lookup import find_task
from mygym.training import env_factory
from tests.components import TASKS, slow_except

SEVERAL = [task for task in (*TASKS, "AGMDW", "AGR") if len(find_task(task).stage_names) > 1]


@pytest.mark.parametrize("task", slow_except(SEVERAL, ("hand_over", "stack", "press", "maze", "AGMDW").__contains__))
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


@pytest.mark.parametrize(
    ("reward", "task_params"),
    [
        ("sparse", {"stages_done": 2}),
        ("staged", {"stages_done": 2}),
        ("shaped", {"starts": {"in_hand": 0.9}, "goals_on_surface": 0.5}),
    ],
)
def test_episodes_are_exact_and_can_be_restored(reward: str, task_params: dict[str, Any]) -> None:
    env, other = (RobotEnv("AGM", reward=reward, task_params=task_params) for _ in range(2))
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


@pytest.mark.parametrize("engine", [BULLET, MUJOCO, FUSED])
@pytest.mark.parametrize("later", [{"stages_done": 1}, {"starts": {"at_object": 1.0}}], ids=str)
def test_the_time_of_an_episode_begins_at_0(
    engine: str, later: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The world's time has the steps of the expert as well."""
    monkeypatch.setattr(batches, "POOL_OF_CONTACTS", 2)
    arguments = {"task": "push", "engine": engine, "observations": ["time", "ee_position"], "task_params": later}
    if engine == BULLET:
        with RobotEnv(**arguments) as env:
            times = [env.reset(seed=0)[0], *(env.step(np.zeros(3))[0] for _ in range(3))]
            assert env.world.state.time[0] > 0.2
    else:
        batch = BatchEnv(arguments, 2)
        times = [batch.reset(range(2)), *(batch.step(np.zeros((2, 3))).last for _ in range(3))]
        assert (batch.worlds.state.time > 0.2).all()
        env = batch  # type: ignore[assignment]
    shares = np.array([np.atleast_2d(each["observation"])[:, 0] for each in times])
    np.testing.assert_allclose(shares * env.task.horizon, np.arange(4)[:, None] + 0.0 * shares, atol=1e-5)


@pytest.mark.parametrize("engine", [MUJOCO, FUSED])
@pytest.mark.parametrize("later", [{"stages_done": 2}, {"starts": {"in_hand": 1.0}}], ids=str)
def test_figures_of_a_batch_begin_as_those_of_a_single_environment(
    engine: str, later: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "POOL_OF_CONTACTS", 2)
    arguments = {"task": "pick_and_place", "task_params": later}
    with RobotEnv(**arguments) as single:
        info = single.reset(seed=0)[1]
    assert (info["stage"], info["stages_done"], info["touched"]) == (2, 2, True)
    tasks = [{**each, "engine": engine, "spaces": "shared"} for each in ({"task": "reach"}, arguments)]
    for specs in (tasks[1:], tasks):  # the second environment plays the last task
        envs = BatchVecEnv(specs, 2)
        envs.seed(0)
        envs.reset()
        assert (envs.reset_infos[1]["stage"], envs.reset_infos[1]["stages_done"]) == (2, 2)
        if isinstance(envs.batch, BatchEnv):
            assert envs.batch.episodes.touched.tolist() == [True, True]


@pytest.mark.parametrize(("task", "count"), [("reach", 1), ("AGM", 3)])
def test_at_least_one_stage_must_remain(task: str, count: int) -> None:
    with pytest.raises(ConfigError, match=rf"task_params\.stages_done: {count}.* less than .* {count}"):
        RobotEnv(task, task_params={"stages_done": count})


# starts -------------------------------------------------------------------------------------------------------------


def stages_at_reset(env: Any, episodes: int) -> Counter[int]:
    return Counter(env.reset(seed=seed)[1]["stage"] for seed in range(episodes))


def test_a_share_of_the_episodes_starts_at_the_object_or_with_it_in_the_hand() -> None:
    with RobotEnv("pick_and_place", task_params={"starts": {"at_object": 0.3, "in_hand": 0.4}}) as env:
        counts = stages_at_reset(env, 60)
    assert counts.keys() == {0, 1, 2}
    assert 10 <= counts[1] <= 26, "30 % of 60, within two and a half standard deviations"
    assert 15 <= counts[2] <= 34


def test_a_share_of_the_episodes_starts_along_the_episode_of_the_expert() -> None:
    with RobotEnv("open_drawer", task_params={"starts": {"along_expert": 1.0}}) as env:
        reached = []
        for seed in range(30):
            env.reset(seed=seed)
            reached.append((int(env.progress.stage[0]), round(float(env.world.state.part_position[0, 0]), 2)))
    assert {stage for stage, _ in reached} >= {0, 1}
    assert len({opened for _, opened in reached}) >= 5, "the drawer is closed, or open by different distances"
    assert all(opened < 0.2 for _, opened in reached), "no episode starts at its end"


def test_starts_draw_nothing_from_other_episodes() -> None:
    """Without the share, objects and goals are those of an environment without starts."""
    with RobotEnv("AGM") as plain, RobotEnv("AGM", task_params={"starts": {"in_hand": 0.5}}) as env:
        pairs = [(plain.reset(seed=seed)[0], *env.reset(seed=seed)) for seed in range(12)]
    assert {info["stage"] for *_, info in pairs} == {0, 2}
    for expected, observation, info in pairs:
        np.testing.assert_array_equal(expected["desired_goal"], observation["desired_goal"])
        assert info["stage"] == 2 or np.array_equal(expected["observation"], observation["observation"])


def test_evaluations_start_at_the_beginning() -> None:
    config = from_python({"task": "AG", "task_params": {"starts": {"at_object": 1.0}}, "n_envs": 1}).config
    with env_factory.make_env(config) as env:
        assert stages_at_reset(env, 3) == {0: 3}
    with contextlib.closing(env_factory.make_vec_env(config)) as training:
        training.reset()
        assert training.get_attr("progress")[0].stage[0] == 1


@pytest.mark.parametrize(
    ("task", "starts", "words"),
    [
        ("push", {"in_hand": 0.3}, ["in_hand", "no stage before the last gives held", "allowed: at_object"]),
        ("AG", {"in_hand": 0.3}, ["in_hand", "allowed: at_object"]),
        ("reach", {"at_object": 0.3}, ["at_object", "allowed: along_expert"]),
        ("AGM", {"at_object": 0.7, "in_hand": 0.7}, ["at most 1 together"]),
        ("AGM", {"on_foot": 0.7}, ["on_foot", "at_object"]),
    ],
)
def test_starts_that_a_task_does_not_pass(task: str, starts: dict[str, float], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv(task, task_params={"starts": starts})
    assert all(word in str(error.value) for word in ["task_params.starts", *words])


# goals on the surface -----------------------------------------------------------------------------------------------


def test_a_share_of_the_goals_is_on_the_surface() -> None:
    with RobotEnv("pick_and_place", task_params={"goals_on_surface": 0.3}) as env:
        heights = np.array([env.reset(seed=seed)[0]["desired_goal"][2] for seed in range(60)])
        height = env.world.objects[0].half_height
    low = np.isclose(heights, height, atol=1e-6)
    assert 10 <= low.sum() <= 26
    assert (heights[~low] > 0.1).all()


def test_evaluations_have_the_goals_of_the_task() -> None:
    config = from_python({"task": "pick_and_place", "task_params": {"goals_on_surface": 1.0}}).config
    with env_factory.make_env(config) as env:
        heights = [env.reset(seed=seed)[0]["desired_goal"][2] for seed in range(5)]
    with contextlib.closing(env_factory.make_vec_env(config)) as training:
        observation = training.reset()
    assert min(heights) > 0.1
    assert isinstance(observation, dict)
    assert (observation["desired_goal"][:, 2] < 0.1).all()


@pytest.mark.parametrize("task", ["push", "stack", "open_drawer"])
def test_only_goals_in_the_air_may_be_on_the_surface(task: str) -> None:
    with pytest.raises(ConfigError, match=rf"goals_on_surface.*goals are in the air.*{task}"):
        RobotEnv(task, task_params={"goals_on_surface": 0.3})


# shorter episodes in training ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["pybullet", "mujoco"])
def test_training_episodes_end_earlier_than_evaluations(engine: str) -> None:
    params = {"horizon": 9, "training_horizon": 5, "starts": {"along_expert": 0.0}}  # no episode begins at its goal
    config = from_python({"task": "push", "engine": engine, "n_envs": 2, "task_params": params}).config
    with contextlib.closing(env_factory.make_vec_env(config)) as training:
        training.reset()
        still = np.zeros((2, *training.action_space.shape))  # type: ignore[misc]
        outcomes = [training.step(still) for _ in range(5)]
    assert [list(dones) for _, _, dones, _ in outcomes] == [[False, False]] * 4 + [[True, True]]
    assert all(info["TimeLimit.truncated"] for info in outcomes[-1][3])
    with env_factory.make_env(config) as env:
        env.reset(seed=0)
        ends = [env.step(np.zeros(env.action_space.shape))[3] for _ in range(9)]  # type: ignore[arg-type]
    assert ends == [False] * 8 + [True]


def test_a_training_horizon_is_longer_than_the_hold() -> None:
    with pytest.raises(ConfigError, match=r"task_params\.hold.*less than the horizon, 5"):
        RobotEnv("push", task_params={"training_horizon": 5, "hold": 5})


def test_an_algorithm_may_shorten_the_training_episodes_of_a_task() -> None:
    config = from_python({"task": "slide", "algo": "xqc"}).config
    assert config.task_params.training_horizon is not None
    assert config.task_params.horizon is not None
    assert config.task_params.training_horizon < config.task_params.horizon
