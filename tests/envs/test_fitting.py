"""Objects that no hand takes, tops on which nothing stays, parts that do not go so far: refused, with what would do."""

from __future__ import annotations

from typing import Any

import pytest

from mygym.envs.grasping import check_objects
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import combinations, robots_for
from mygym.errors import ConfigError
from mygym.models.objects import load_object
from mygym.registry import registry
from mygym.sim.inference import find_robot, is_installed
from mygym.tasks.lookup import find_task


def drawer(*to: float) -> list[dict[str, Any]]:
    return [{"stages": ["approach", "open"], "part": "cabinet.drawer", "to": list(to)}]


def onto(base: str) -> list[dict[str, Any]]:
    return [{"stages": "AGMDW", "object": "cube", "onto": base}]


REFUSED = [
    (
        {"task": "pick_and_place", "task_params": {"object": "plate"}},
        ["task_params.object: 'plate'", "8.0 cm", "apple"],
    ),
    ({"task": "AGM", "task_params": {"object": "mug"}}, ["task_params.object: 'mug'", "too wide", "panda"]),
    ({"task": "AGM", "robot": "baxter", "task_params": {"object": "candle"}}, ["baxter's hand opens by 4.2 cm"]),
    ({"task": "build_tower", "task_params": {"objects": {"top": "bowl"}}}, ["task_params.objects.top: 'bowl'"]),
    (
        {"task": "AGM", "randomize": {"object_size": [0.5, 2.5]}},
        ["randomize.object_size: 2.5", "cube too wide", "at most 1.98"],
    ),
    ({"task": "stack", "task_params": {"objects": {"base": "ball"}}}, ["task_params.objects.base: 'ball'", "round"]),
    ({"task": onto("apple")}, ["task.0.onto: 'apple'", "round on top", "flat top, e.g. "]),
    ({"task": drawer(0.15, 0.5), "workspace": "drawer"}, ["task.0.to: [0.15, 0.5]", "0 to 0.24", "cabinet.drawer"]),
    ({"task": drawer(-0.1, 0.2), "workspace": "drawer"}, ["task.0.to: [-0.1, 0.2]", "0 to 0.24"]),
]


@pytest.mark.parametrize(("keywords", "words"), REFUSED)
def test_what_cannot_be_done_is_refused_with_what_can(keywords: dict[str, Any], words: list[str]) -> None:
    if not is_installed(keywords.get("robot", "panda")):
        pytest.skip("its model is in an extra")
    with pytest.raises(ConfigError) as error:
        RobotEnv(**keywords).close()
    for word in ("allowed", *words):
        assert word in str(error.value)


@pytest.mark.parametrize(
    "keywords",
    [
        {"task": "push", "task_params": {"object": "plate"}},
        {"task": "push", "randomize": {"object_size": [0.5, 2.5]}},
        {"task": "AGM", "randomize": {"object_size": [0.5, 1.98]}},
        {"task": onto("plate")},
        {"task": [{"stages": "AGM", "object": "cube", "onto": "apple"}]},  # held over it
        {"task": "reach", "task_params": {"distractors": ["plate"]}},
        {"task": drawer(0.0, 0.24), "workspace": "drawer"},
        {"task": [{"stages": "AGM", "object": "hammer", "grip": [0.02, 0.0, 0.0]}]},  # by its handle
    ],
)
def test_what_can_be_done_is_not_refused(keywords: dict[str, Any]) -> None:
    RobotEnv(**keywords).close()


def test_no_supported_combination_is_refused_for_its_objects() -> None:
    robots = {name: find_robot(name) for name in {one.robot for one in combinations()}}
    for one in combinations():
        task = find_task(one.task)
        objects = [load_object(registry("object").get(task.asset(role)).load()) for role in task.roles]
        check_objects(task, objects, robots[one.robot], 1.0, {})


@pytest.mark.parametrize("task", ["AGM", "open_drawer", "hand_over", "push"])
def test_robots_that_are_recommended_can_do_all_stages(task: str) -> None:
    found = robots_for(find_task(task))
    assert set(found) <= set(registry("robot").names())
    assert not {"so100", "so101"} & set(found) or task == "open_drawer"
    assert {"hand_over": "panda_pair"}.get(task, "panda") in found
    assert {one.robot for one in combinations() if one.task == task} <= set(found)


def test_a_robot_without_a_hand_is_told_of_those_that_can_grasp() -> None:
    with pytest.raises(ConfigError, match=r"robot: 'kuka' has no gripper.* panda") as error:
        RobotEnv("pick_and_place", robot="kuka")
    for one_jaw in ("so100", "so101", "z1"):
        assert one_jaw not in str(error.value).replace(",", "").split()
