"""Objects and goals are apart from each other, in their areas or on top of each other, unsolved at the reset."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.envs.placement import GAP, PART_SHARE, draw_goals, draw_poses, object_area
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.robotics.objects import ObjectSpec, load_object
from mygym.robotics.workspace import load_workspace
from mygym.tasks.lookup import find_task
from mygym.tasks.stage import register_stage
from mygym.tasks.task import change_task
from tests.components import SHIFT, needs_extra, several, tower

SEEDS = st.integers(0, 2**32 - 1)
TABLE = (np.array([-0.15, -0.15, 0.0]), np.array([0.15, 0.15, 0.0]))
OBJECTS = ["cube", "die", "block", "apple", "pen", "ball"]


def radius(spec: ObjectSpec) -> float:
    return math.hypot(*spec.size[:2]) / 2


def loaded(*names: str) -> list[ObjectSpec]:
    return [load_object(registry("object").get(name).load()) for name in names]


TOWER = tower("block", "cube", "die")

# objects ------------------------------------------------------------------------------------------------------------


@given(
    names=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=4, unique=True),
    distractors=st.lists(st.sampled_from(OBJECTS), max_size=3),
    size=st.floats(0.02, 0.3),
    turns=st.tuples(st.floats(-3, 3), st.floats(0, 2)),
    seed=SEEDS,
)
def test_objects_are_apart_or_a_lack_of_room_is_reported(
    names: list[str], distractors: list[str], size: float, turns: tuple[float, float], seed: int
) -> None:
    low, high = np.array([-size / 2, -size / 2, 0.0]), np.array([size / 2, size / 2, 0.0])
    rotation = (turns[0], turns[0] + turns[1])
    task = change_task(find_task(several(*names)), {"distractors": distractors, "rotation": rotation})
    specs = loaded(*names, *distractors)
    try:
        poses = draw_poses(np.random.default_rng(seed), task, specs, {"object": (low, high)})
    except ConfigError:
        rooms = sum(math.pi * (radius(spec) + GAP) ** 2 for spec in specs)
        assert rooms > 0.1 * size**2  # only if the area is small
        return
    again = draw_poses(np.random.default_rng(seed), task, specs, {"object": (low, high)})
    np.testing.assert_array_equal(poses, again)
    assert (poses[:, :2] >= low[:2]).all()
    assert (poses[:, :2] <= high[:2]).all()
    for (i, a), (j, b) in itertools.combinations(enumerate(poses), 2):
        assert math.dist(a[:2], b[:2]) > radius(specs[i]) + radius(specs[j]) + GAP
    for pose, spec in zip(poses, specs, strict=True):
        assert pose[2] == pytest.approx(spec.half_height)
        assert pose[3:5].tolist() == [0.0, 0.0]
        yaw = 2 * math.atan2(pose[5], pose[6])
        assert rotation[0] - 1e-9 <= yaw <= rotation[1] + 1e-9


def test_the_area_of_a_role_overrides_the_area_of_objects() -> None:
    areas = {"object": TABLE, "die_start": (TABLE[0] + 1.0, TABLE[1] + 1.0)}
    poses = draw_poses(np.random.default_rng(0), find_task(several("cube", "die")), loaded("cube", "die"), areas)
    assert (poses[0, :2] < 0.5).all()
    assert (poses[1, :2] > 0.5).all()
    assert object_area(areas, "distractor") is areas["object"]


# goals --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [several("cube", "die"), several("pen", "die", "apple"), TOWER, TOWER[::2]])
def test_goals_are_unsolved_and_apart_from_objects_and_each_other(task: Any, cached_env: Any) -> None:
    env = cached_env(task=task, task_params={"distractors": ["ball"]})
    roles, specs = env.task.roles, env.world.objects
    for seed in range(40):
        observation, info = env.reset(seed=seed)
        assert not info["is_success"]
        assert env.compute_reward(observation["achieved_goal"], observation["desired_goal"], info) == -1.0
        positions = dict(enumerate(env.world.state.object_position[0].copy()))
        for number, subtask in enumerate(env.task.subtasks):
            slot, goal = roles.index(subtask.object), env.goals[0, env.task.goal_slots[number].goal]
            assert np.linalg.norm(goal - positions[slot]) > env.task.tolerance
            for other, position in positions.items():
                if other != slot and not subtask.onto:
                    assert math.dist(goal[:2], position[:2]) > radius(specs[slot]) + radius(specs[other])
            positions[slot] = goal


@pytest.mark.parametrize("seed", range(5))
def test_objects_rest_at_the_goals_of_a_tower(seed: int, cached_env: Any) -> None:
    env = cached_env(task=TOWER)
    env.reset(seed=seed)
    goals = env.goals[0]
    assert (goals[:, :2] == goals[0, :2]).all()
    poses = np.concatenate([goals, np.tile([0.0, 0.0, 0.0, 1.0], (3, 1))], axis=1)
    env.world.reset(poses)
    for _ in range(25):
        env.world.step(np.zeros(env.world.action_size))
    np.testing.assert_allclose(env.world.state.object_position[0], goals, atol=0.004)


def test_a_goal_can_be_on_top_of_a_static_object(cached_env: Any) -> None:
    env = cached_env(task=[{"stages": "AGMDW", "object": "die", "onto": "block"}])
    for seed in range(10):
        env.reset(seed=seed)
        die, block = env.world.state.object_position[0]
        goal = env.goals[0, 0]
        np.testing.assert_allclose(goal[:2], block[:2])
        assert goal[2] == pytest.approx(block[2] + 0.0125 + die[2], abs=0.002)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"task": several("cube", "die", "apple")}, ["no room for 3 objects", "0.06 m apart", "smaller objects"]),
        ({"task": "push", "task_params": {"distractors": ["ball"] * 5}}, ["no room for 6 objects", "fewer"]),
    ],
)
def test_a_lack_of_room_for_objects_is_a_config_error(keywords: dict[str, Any], words: list[str]) -> None:
    small = {"areas": {"object": {"low": [0.0, 0.0, 0.0], "high": [0.06, 0.06, 0.0]}}}
    with pytest.raises(ConfigError) as error:
        RobotEnv(**{**keywords, "task_params": {**keywords.get("task_params", {}), **small}})
    for word in words:
        assert word in str(error.value)


def test_a_lack_of_room_for_a_goal_is_a_config_error() -> None:
    spot = {"object": {"low": [-0.1, -0.15, 0.0], "high": [0.1, -0.05, 0.0]}}
    spot["surface"] = {"low": [0.0, 0.1, 0.0], "high": [0.0, 0.1, 0.0]}
    with pytest.raises(ConfigError, match="no room for a goal beside 1 other"):
        RobotEnv(several("cube", "die"), task_params={"areas": spot})


@pytest.mark.parametrize("sides", [1, 2])
def test_one_of_several_areas_is_drawn(sides: int, cached_env: Any) -> None:
    names = ["surface", "air"][:sides]
    env = cached_env(task=[{"stages": "AGM", "area": names}])
    heights = np.array([env.reset(seed=seed)[0]["desired_goal"][2] for seed in range(30)])
    assert ((heights > 0.09).any(), (heights < 0.09).any()) == (sides == 2, True)


def test_yaw_goals_are_in_the_range_on_either_side(cached_env: Any) -> None:
    move = find_task("AGM").sequence.stages[-1]
    register_stage("twist", replace(move, name="twist", letter="", gives=("turned",), needs_tool_yaw=True))
    with RobotEnv([{"stages": ["approach", "grasp", "twist"], "to": [0.4, 0.6]}]) as env:
        changes = []
        for seed in range(30):
            env.reset(seed=seed)
            z, w = env.world.state.object_orientation[0, 0, 2:]
            changes.append(env.goals[0, env.task.goal_slots[0].yaw, 0] - 2 * math.atan2(z, w))
        assert (np.abs(changes) >= 0.4).all()
        assert (np.abs(changes) <= 0.6).all()
        assert 0 < (np.array(changes) > 0).sum() < 30
        assert env.builder.goal_space.names == ("end_effector_from_object", "yaw", "held")
        assert env.observation_space["desired_goal"].shape == (6,)


# parts of the workspace ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def shift() -> None:
    """Register a stage that moves parts of the workspace."""
    register_stage("shift", replace(SHIFT, ends=("near",)))


DRAWER: dict[str, Any] = {"stages": ["approach", "shift"], "part": "cabinet.drawer"}


@pytest.mark.parametrize("to", [None, [0.06, 0.12], [0.0, 0.24]])
def test_the_goal_of_a_part_is_in_its_range_and_unsolved(to: list[float] | None) -> None:
    with RobotEnv([DRAWER | {"to": to}], workspace="drawer", task_params={"tolerance": 0.02}) as env:
        low, high = to or (share * 0.24 for share in PART_SHARE)
        goals = []
        for seed in range(30):
            observation, _ = env.reset(seed=seed)
            goals.append(env.goals[0, 0, 0])
            assert observation["desired_goal"].tolist() == [np.float32(goals[-1])]
            assert observation["achieved_goal"] == pytest.approx([0.0], abs=1e-6)
            assert env._episodes.visible_goal() is None
        assert (np.array(goals) >= max(low, 0.02)).all()
        assert (np.array(goals) <= high).all()
        assert np.ptp(goals) > 0.5 * (high - low)


def test_the_reward_of_a_drawer_follows_its_position() -> None:
    with RobotEnv([DRAWER], workspace="drawer", reward="dense", task_params={"tolerance": 0.02}) as env:
        env.reset(seed=0)
        goal, achieved, rewards = env.goals[0, 0, 0], [], []
        for _ in range(80):
            missing = goal - env.world.state.part_position[0, 0]
            env.world.push_parts(np.array([np.clip(20 * missing, -1, 1)]))
            observation, reward, terminated, truncated, info = env.step(env.expert_action())
            achieved.append(observation["achieved_goal"])
            rewards.append(reward)
            assert env.compute_reward(achieved[-1], observation["desired_goal"], info) == reward
            if terminated or truncated:
                break
        assert rewards[0] < -0.05
        assert info["stages_done"] >= 0
        assert env.goal_distance() < 0.02
        relabelled = env.compute_reward(
            np.array(achieved), np.tile(achieved[-1], (len(achieved), 1)), [{}] * len(achieved)
        )
        np.testing.assert_allclose(relabelled, -np.abs(np.array(achieved) - achieved[-1])[:, 0], atol=1e-6)
        assert set(env.observation_space.spaces) == {"observation", "achieved_goal", "desired_goal"}


def test_two_goals_of_one_drawer_differ() -> None:
    opened = {"stages": ["approach", "shift", "leave"], "part": "cabinet.drawer", "to": [0.1, 0.2]}
    withdraw = find_task("AGMDW").sequence.stages[-1]
    register_stage("leave", replace(withdraw, name="leave", letter="", requires=("placed",)))
    with RobotEnv([opened, DRAWER | {"to": [0.0, 0.2]}], workspace="drawer", task_params={"tolerance": 0.04}) as env:
        for seed in range(20):
            env.reset(seed=seed)
            first, second = env.goals[0, :, 0]
            assert abs(first - second) >= 0.04


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"task": [DRAWER]}, ["workspace: 'table' has no part cabinet.drawer", "allowed: drawer"]),
        (
            {"task": [DRAWER | {"part": "cabinet.drawr"}], "workspace": "drawer"},
            ["task.0.part: 'cabinet.drawr'", "workspace drawer", "did you mean 'cabinet.drawer'"],
        ),
        ({"task": [DRAWER | {"part": "cabinet.drawr"}]}, ["task.0.part: ", "did you mean 'cabinet.drawer'"]),
        ({"task": [{"stages": "AGM", "path": "rim"}]}, ["task.0.path: 'rim' is no path of workspace table"]),
        ({"task": [{"stages": "AGM", "path": "solution"}]}, ["workspace: 'table'", "allowed: maze, verticalmaze"]),
        ({"task": [DRAWER | {"to": [0.0, 0.01]}], "workspace": "drawer"}, ["task.to", "no position", "wider range"]),
        ({"task": [{"stages": "AGM", "area": "shelf"}]}, ["task.0.area: 'shelf'", "task_params.areas.shelf"]),
        ({"task": [{"stages": "AGM", "area": "far_lft"}]}, ["task.0.area: 'far_lft'", "did you mean 'far_left'"]),
        ({"task": "throw", "workspace": "table"}, ["workspace: 'table' has no area left", "allowed: baskets;"]),
        ({"task": "insert", "workspace": "stairs"}, ["workspace: 'stairs'", "allowed: panel;"]),
        (
            {"task": "push", "workspace": "stairs"},
            ["workspace: 'stairs' has no area surface", "allowed: table, baskets"],
        ),
        ({"task": ["approach", "push"], "workspace": "stairs"}, ["workspace: 'stairs'", "baskets", "fridge", "table"]),
        pytest.param(
            {"task": "hand_over", "robot": "baxter"},
            ["robot: 'baxter' has no area other_side", "allowed: panda_pair"],
            marks=needs_extra,
        ),
    ],
)
def test_missing_parts_paths_and_areas_are_refused(keywords: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv(**keywords)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("corner", ["low", "high"])
def test_a_given_corner_keeps_the_other_corner_of_the_workspace(corner: str, cached_env: Any) -> None:
    area = load_workspace("table").areas["surface"]
    given = [0.0, 0.01, 0.0]
    low, high = cached_env(task="push", task_params={"areas": {"surface": {corner: given}}}).areas["surface"]
    assert (low.tolist(), high.tolist()) == ((given, [*area.high]) if corner == "low" else ([*area.low], given))


@pytest.mark.parametrize(
    ("areas", "words"),
    [
        ({"surfacee": {"low": [0, 0, 0]}}, ["task_params.areas: 'surfacee'", "did you mean 'surface'"]),
        ({"cube_start": {"low": [0, 0, 0]}}, ["task_params.areas.cube_start.high", "both corners, low and high"]),
        ({"surface": {"low": [0.5, 0, 0]}}, ["task_params.areas.surface.high", "below low [0.5, 0.0, 0.0]"]),
    ],
)
def test_invalid_areas_are_refused(areas: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv("push", task_params={"areas": areas})
    for word in words:
        assert word in str(error.value)


def test_goals_follow_from_the_generator(cached_env: Any) -> None:
    env = cached_env(task=TOWER)
    drawn = [draw_goals(np.random.default_rng(3), env.task, env.world, env.areas) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize(
    ("subtask", "task_params", "words"),
    [
        ({"stages": "AGMDW", "to": [0, 1]}, {}, ["task.0.to: [0.0, 1.0]", "no effect", "rotate"]),
        ({"stages": "AGR", "to": [0.5, 1.6]}, {}, ["task.0.to: [0.5, 1.6]", "below 1.57"]),
        ({"stages": "AGR", "to": [-1.7, -0.5]}, {"rotation": [0.1, 0.2]}, ["above -1.67"]),
    ],
)
def test_rotations_that_no_episode_can_have_are_refused(
    subtask: dict[str, Any], task_params: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv([subtask], task_params=task_params)
    for word in words:
        assert word in str(error.value)
