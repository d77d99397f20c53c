"""Objects too wide to grasp, round bases and part goals out of range are refused with alternatives."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from mygym.config.loading import parse_overrides
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import check_objects, combinations, robots_for
from mygym.errors import ConfigError
from mygym.registry import ASSETS, registry
from mygym.robotics.objects import load_object, objects_for_hand
from mygym.robotics.robot import find_robot
from mygym.tasks.lookup import find_task
from mygym.tasks.predicates import free, register_predicate
from mygym.tasks.stage import register_stage


def drawer(*to: float) -> list[dict[str, Any]]:
    return [{"stages": ["approach", "open"], "part": "cabinet.drawer", "to": list(to)}]


def onto(base: str) -> list[dict[str, Any]]:
    return [{"stages": "AGMDW", "object": "cube", "onto": base}]


REFUSED = [
    (
        {"task": "pick_and_place", "task_params": {"object": "plate"}},
        ["task_params.object: 'plate'", "8.0 cm", "--set task_params.object=baton, or slab"],
    ),
    ({"task": "AGM", "task_params": {"object": "mug"}}, ["task_params.object: 'mug'", "too wide", "panda"]),
    ({"task": "AGM", "robot": "baxter", "task_params": {"object": "candle"}}, ["baxter's hand opens by 4.2 cm"]),
    ({"task": "build_tower", "task_params": {"objects": {"top": "bowl"}}}, ["task_params.objects.top: 'bowl'"]),
    (
        {"task": "AGM", "randomize": {"object_size": [0.5, 2.5]}},
        ["randomize.object_size: 2.5", "cube too wide", "at most 1.95"],
    ),
    (
        {"task": "reach", "control": {"gripper": "binary"}},
        ["control.gripper: 'binary' has no effect", "of reach on panda"],
    ),
    (
        {"task": "reach", "robot": "kuka", "spaces": "shared", "control": {"gripper": "binary"}},
        ["control.gripper: 'binary' has no effect", "of reach on kuka"],
    ),
    ({"task": "stack", "task_params": {"objects": {"base": "ball"}}}, ["task_params.objects.base: 'ball'", "round"]),
    ({"task": onto("apple")}, ["task.0.onto: 'apple'", "round on top", "flat top, e.g. "]),
    ({"task": drawer(0.15, 0.5), "workspace": "drawer"}, ["task.0.to: [0.15, 0.5]", "0 to 0.24", "cabinet.drawer"]),
    ({"task": drawer(-0.1, 0.2), "workspace": "drawer"}, ["task.0.to: [-0.1, 0.2]", "0 to 0.24"]),
]


@pytest.mark.parametrize(("keywords", "words"), REFUSED)
def test_infeasible_tasks_are_refused_with_alternatives(keywords: dict[str, Any], words: list[str]) -> None:
    if registry("robot").get(keywords.get("robot", "panda")).missing_extras:
        pytest.skip("needs the extra `robots`")
    with pytest.raises(ConfigError) as error:
        RobotEnv(**keywords).close()
    for word in ("allowed", *words):
        assert word in str(error.value)


@pytest.mark.parametrize("opening", [0.038, 0.03, 0.022])
@pytest.mark.parametrize("task", ["pick_and_place", "stack"])
def test_the_hint_for_a_narrow_hand_works(task: str, opening: float, tmp_path: Path) -> None:
    """The hint names a key and an object for this key: after it is followed, the hand is wide enough."""
    data = yaml.safe_load((ASSETS / "robots" / "panda.yaml").read_text())
    data["gripper"] |= {"width": opening, "open": [opening / 2, opening / 2]}
    (tmp_path / "narrow.yaml").write_text(yaml.safe_dump(data | {"urdf": str(ASSETS / "robots" / "panda.urdf")}))
    config: dict[str, Any] = {"task": task, "robot": str(tmp_path / "narrow.yaml")}
    with pytest.raises(ConfigError, match=r"'cube' is too wide.*--set \S+=\w+") as error:
        RobotEnv(**config).close()
    hint = re.search(r"--set (\S+=\w+)", str(error.value))
    assert hint
    with RobotEnv(**config, **parse_overrides([hint[1]])) as env:
        env.reset(seed=0)
        assert env.world.objects[0].name == hint[1].partition("=")[2]


def test_an_object_for_the_hand_is_the_most_similar_block() -> None:
    cube = load_object("cube")
    assert [objects_for_hand(width, cube)[0] for width in (0.05, 0.038, 0.03, 0.022)] == [
        "cube",
        "spacer",
        "hex_peg",
        "stick",
    ]
    assert objects_for_hand(0.0095, cube) == []


@pytest.mark.parametrize(
    "keywords",
    [
        {"task": "reach", "spaces": "shared", "control": {"gripper": "binary"}},
        {"task": "push", "task_params": {"object": "plate"}},
        {"task": "push", "randomize": {"object_size": [0.5, 2.5]}},
        {"task": "AGM", "randomize": {"object_size": [0.5, 1.95]}},
        {"task": onto("plate")},
        {"task": [{"stages": "AGM", "object": "cube", "onto": "apple"}]},  # not released
        {"task": "reach", "task_params": {"distractors": ["plate"]}},
        {"task": drawer(0.0, 0.24), "workspace": "drawer"},
        {"task": [{"stages": "AGM", "object": "hammer", "grip": [0.02, 0.0, 0.0]}]},  # grasped at its handle
    ],
)
def test_feasible_tasks_are_accepted(keywords: dict[str, Any]) -> None:
    RobotEnv(**keywords).close()


def test_objects_of_supported_combinations_are_accepted() -> None:
    robots = {name: find_robot(name) for name in {combination.robot for combination in combinations()}}
    for combination in combinations():
        task = find_task(combination.task)
        objects = [[load_object(registry("object").get(task.asset(role)).load())] for role in task.roles]
        check_objects(task, objects, robots[combination.robot], 1.0, {})


@pytest.mark.parametrize("task", ["AGM", "open_drawer", "hand_over", "push"])
def test_recommended_robots_can_do_all_stages(task: str) -> None:
    robots = robots_for(find_task(task))
    assert set(robots) <= set(registry("robot").names())
    assert ("z1" in robots) == (task in ("open_drawer", "push")), "its jaw cannot grasp"
    assert ("so101" in robots) == (task != "hand_over")
    assert {"hand_over": "panda_pair"}.get(task, "panda") in robots
    assert {robot for name, robot, _ in combinations() if name == task} <= set(robots)


def test_the_error_for_a_robot_without_gripper_lists_robots_that_can_grasp() -> None:
    with pytest.raises(ConfigError, match=r"robot: 'kuka' has no gripper.*panda") as error:
        RobotEnv("pick_and_place", robot="kuka")
    robots = str(error.value).replace(",", "").split()
    assert "so101" in robots
    assert "z1" not in robots, "its jaw cannot grasp"


def test_a_user_defined_stage_that_lets_an_object_go_needs_a_flat_base() -> None:
    release = replace(registry("stage").get("drop").load(), name="release", letter="", gives=("let_go",))
    register_stage("release", release, override=True)
    register_predicate("let_go", excludes=("held",), override=True)(free)
    stages = ["approach", "grasp", "move", "release"]
    with pytest.raises(ConfigError, match=r"task\.0\.onto: 'apple'"):
        RobotEnv([{"stages": stages, "object": "cube", "onto": "apple"}]).close()
    RobotEnv([{"stages": stages[:3], "object": "cube", "onto": "apple"}]).close()
