"""Room in areas: invalid areas are refused with the share, the obstacle and a remedy; built-in areas are accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mygym.envs.areas import check_room
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import combinations
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.tasks.predicates import at_goal, register_predicate
from mygym.tasks.stage import register_stage
from mygym.tasks.task import register_task
from tests.components import HOSTED_QUICKLY, needs_extra

SQUARE = ((-0.1, -0.1), (0.1, 0.1))


def box(low_z: float, high_z: float, xy: tuple[tuple[float, float], tuple[float, float]] = SQUARE) -> dict[str, Any]:
    return {"low": [*xy[0], low_z], "high": [*xy[1], high_z]}


def at_the_cabinet(low_x: float, high_x: float) -> dict[str, Any]:
    return box(0.0, 0.0, ((low_x, -0.05), (high_x, 0.05)))


ON_PLATE = [{"stages": "AGMDW", "object": "cube", "onto": "plate"}]
OPENED = [
    {"stages": ["approach", "open", "withdraw"], "part": "cabinet.drawer"},
    {"stages": "AGMDW", "object": "cube", "area": "drawer"},
]

REFUSED = [
    # half of the 4 cm cube overlaps the front at 0.122 for x above 0.107: one of 5 points
    (
        "push",
        "drawer",
        {"object": at_the_cabinet(0.03, 0.13)},
        ["areas.object", "cube at 20% of the points inside cabinet"],
    ),
    (
        "push",
        "drawer",
        {"surface": at_the_cabinet(0.03, 0.13)},
        ["areas.surface", "goal of cube at 20% of the points inside cabinet"],
    ),
    ("push", None, {"object": box(-0.03, -0.03)}, ["areas.object", "cube at 100% of the points inside table"]),
    ("push", None, {"cube_start": box(-0.03, 0.0)}, ["areas.cube_start", "cube at 80% of the points inside table"]),
    ("stack", None, {"base_start": box(-0.03, -0.03)}, ["areas.base_start", "base at 100% of the points inside table"]),
    ("reach", None, {"reach": box(-0.04, 0.12)}, ["areas.reach", "the goal at 20% of the points inside table"]),
    (
        "pick_and_place",
        None,
        {"air": box(-0.02, 0.06)},
        ["areas.air", "the goal of cube at 20% of the points inside table"],
    ),
    (
        "push",
        None,
        {"surface": box(0.1, 0.2)},
        ["areas.surface", "goal of cube at 100% of the points in the air", "underside"],
    ),
    ("push", None, {"surface": box(0.0, 0.2)}, ["areas.surface", "goal of cube at 80% of the points in the air"]),
    ("AGMDW", None, {"surface": box(0.1, 0.1)}, ["areas.surface", "in the air"]),
    (
        "push",
        None,
        {"surface": box(-0.15, -0.15)},
        ["areas.surface", "100% of the points outside the workspace's bounds"],
    ),
]


@pytest.mark.parametrize(("task", "workspace", "areas", "words"), REFUSED)
def test_areas_without_room_are_refused(
    task: str, workspace: str | None, areas: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv(task, workspace=workspace, task_params={"areas": areas}).close()
    for word in ("task_params.areas", "e.g. with its centre at", "a smaller box, or another position", *words):
        assert word in str(error.value)


@pytest.mark.parametrize("half", [0.08, 0.06])
def test_some_goal_is_far_from_every_start(half: float) -> None:
    """The corners of 14.1 cm × 14.1 cm are 10 cm from its centre: the tolerance and the margin of push."""
    areas = {name: box(0.0, 0.0, ((-half, -half), (half, half))) for name in ("object", "surface")}
    if half < 0.0707:
        with pytest.raises(ConfigError, match=r"task_params\.areas: .* at least 0\.10 m from \[0"):
            RobotEnv("push", task_params={"areas": areas}).close()
    else:
        RobotEnv("push", task_params={"areas": areas}).close()


@needs_extra
def test_robots_with_small_areas_are_not_supported() -> None:
    """The area of G1 is 8 cm × 12 cm, and no workspace lists the task as unsuited."""
    register_task("sweep", ("approach", "push"))
    robots = {name: {robot for task, robot, _ in combinations((name,))} for name in ("reach", "sweep")}
    assert "g1" in robots["reach"] - robots["sweep"]
    assert "panda" in robots["sweep"]


@pytest.mark.parametrize(
    ("task", "workspace", "areas"),
    [
        ("push", "drawer", {"object": at_the_cabinet(-0.1, 0.08)}),  # under the handle
        ("reach", None, {"reach": box(0.0, 0.2)}),
        ("pick_and_place", None, {"air": box(0.0, 0.2)}),
        ("AGM", None, {"air": box(0.1, 0.2)}),
        ("push", None, {"surface": box(0.0, 0.03)}),  # within the tolerance of the table
        (ON_PLATE, None, {"object": box(0.0, 0.0, ((-0.15, -0.15), (0.15, 0.15)))}),
        (OPENED, "drawer", {"drawer": box(0.035, 0.035, ((-0.05, -0.1), (0.0, 0.1)))}),  # of the opened drawer
    ],
)
def test_areas_with_room_are_accepted(task: Any, workspace: str | None, areas: dict[str, Any]) -> None:
    RobotEnv(task, workspace=workspace, task_params={"areas": areas}).close()


@pytest.mark.parametrize(
    ("properties", "z", "fault"),
    [
        ({"places_object": True}, 0.2, "goal of cube at 100% of the points in the air"),
        ({"places_object": True}, 0.0, None),
        ({"strikes_goal": True}, 0.2, None),  # a point in the air may be struck
        ({"strikes_goal": True}, -0.03, "the goal at 100% of the points inside table"),
        ({}, -0.03, None),
    ],
)
def test_properties_of_user_defined_predicates_demand_room(
    properties: dict[str, bool], z: float, fault: str | None
) -> None:
    sweep = replace(registry("stage").get("push").load(), name="sweep", gives=("swept",))
    register_stage("sweep", sweep, override=True)
    register_predicate("swept", **properties, override=True)(at_goal)
    arguments: dict[str, Any] = {"task": ["approach", "sweep"], "task_params": {"areas": {"surface": box(z, z)}}}
    if fault is None:
        RobotEnv(**arguments).close()
        return
    with pytest.raises(ConfigError, match=fault):
        RobotEnv(**arguments).close()


@pytest.mark.parametrize(("task", "robot"), HOSTED_QUICKLY)
def test_builtin_areas_have_room(task: str, robot: str) -> None:
    with RobotEnv(task, robot=robot) as env:
        for name in env.areas:
            check_room(env.task, env.world, env.areas, name)


def test_checking_a_custom_area_does_not_change_the_episode() -> None:
    areas = {"object": {"low": [-0.15, -0.15, 0.0], "high": [0.15, 0.15, 0.0]}}  # as in the workspace
    with RobotEnv("push") as plain, RobotEnv("push", task_params={"areas": areas}) as checked:
        for env in (plain, checked):
            env.reset(seed=3)
        for _ in range(30):
            action = plain.expert_action()
            first, second = plain.step(action), checked.step(action)
            assert first[0]["observation"].tobytes() == second[0]["observation"].tobytes()
