"""Parameters of tasks: built-in, changed and registered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mygym.errors import ConfigError, RegistryError
from mygym.tasks.lookup import find_task
from mygym.tasks.stage import SubTask
from mygym.tasks.task import change_task, register_task
from tests.components import TASKS


def test_named_tasks_have_strict_tolerances() -> None:
    for name in TASKS:
        task = find_task(name)
        turns = task.subtasks[0].part in ("fridge.door", "panel.switch", "panel.valve")
        flies = any("launched" in stage.gives for stage in task.sequence.stages)  # into a basket, over a goal line
        assert 0 < task.tolerance <= (0.2 if turns else 0.15 if flies else 0.05), "m, or rad of a part that turns"
        assert task.hold >= 2
        assert task.help


def test_parameters_of_a_task_can_be_changed() -> None:
    task = change_task(find_task("reach"), {"tolerance": 0.01, "horizon": 7})
    assert (task.tolerance, task.horizon, task.stage_bindings[0].thresholds.tolerance) == (0.01, 7, 0.01)
    assert find_task("reach").horizon != 7
    with pytest.raises(ConfigError, match="did you mean 'horizon'"):
        change_task(task, {"horizonn": 7})


@pytest.mark.parametrize("numbers", [{"hold": 25}, {"hold": 9, "horizon": 9}, {"horizon": 3}, {"horizon": 2}])
def test_an_episode_that_is_too_short_to_hold_success_is_refused(numbers: dict[str, int]) -> None:
    task = find_task("reach")
    with pytest.raises(ConfigError, match=r"task_params\.hold: \d+ .*horizon"):
        change_task(task, numbers)
    change_task(task, {"hold": 24})
    change_task(task, {"horizon": 4})


def test_compositions_do_not_depend_on_user_tasks() -> None:
    stages = ["approach", "push", "withdraw"]
    before = find_task(stages).horizon
    register_task("custom", stages, horizon=before + 7)
    assert find_task("custom").horizon == before + 7
    assert find_task(stages).horizon == before


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"tolerance": -0.03}, ["task wrong: tolerance: -0.03", "greater than 0"]),
        ({"tolerance": "small"}, ["tolerance: 'small'", "a number"]),
        ({"hold": 0}, ["hold: 0", "greater than or equal to 1"]),
        ({"horizon": 1.5}, ["horizon: 1.5", "a whole number"]),
        ({"rotation": (1.0, 0.0)}, ["rotation: (1.0, 0.0)", "must not be below the first number"]),
        ({"colors": {"cube": (1, 0, 0)}}, ["colors.cube", "a list of 4"]),
        ({"deceleration": 0}, ["task.0.deceleration: 0", "greater than 0"]),
        ({"run_defaults": ["ppo"]}, ["task wrong: run_defaults: ['ppo']", "a mapping"]),
        ({"run_defaults": {"algo": 5}}, ["task wrong: run_defaults.algo: 5", "a list of names"]),
        ({"run_defaults": {"algo": {"mujoco": [5]}}}, ["run_defaults.algo: {'mujoco': [5]}", "a mapping from engines"]),
        ({"tolerence": 0.03}, ["task wrong: 'tolerence'", "did you mean 'tolerance'"]),
        ({"onnto": "die"}, ["task wrong: 'onnto'", "did you mean 'onto'"]),
        ({"help": 3}, ["register_task: help: 3", "text"]),
        ({"parts": ("cabinet.drawer",)}, ["task wrong: 'parts'", "did you mean 'part'"]),
    ],
)
def test_an_invalid_registration_is_refused(numbers: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(RegistryError) as error:
        register_task("wrong", "AGM", **numbers)
    for word in words:
        assert word in str(error.value)
    with pytest.raises(ConfigError, match="'wrong'"):
        find_task("wrong")


@pytest.mark.parametrize("stages", [3, [3], [], "", [SubTask("AGM"), "push"]])
def test_stages_of_a_wrong_type_are_refused(stages: Any) -> None:
    with pytest.raises(RegistryError, match=f"register_task: stages: {re.escape(repr(stages))} "):
        register_task("wrong", stages)


def test_parameters_of_registered_sub_tasks_are_checked() -> None:
    with pytest.raises(RegistryError, match=r"task wrong: task.1.tolerance: -1 .* greater than 0"):
        register_task("wrong", [SubTask("AGMDW"), SubTask("A", tolerance=-1)])


def test_unknown_objects_are_refused_at_look_up() -> None:
    register_task("odd", "AGMDW", objects={"base": "cuube"}, onto="base")
    with pytest.raises(ConfigError, match=r"task odd: object: 'cuube' .*did you mean 'cube'"):
        find_task("odd")


@pytest.mark.parametrize(
    ("composition", "put_down_by"),
    [("AGM", None), ("AGMD", 3), ("AGMRDW", 4), ("AGMFRD", None), ("AGTD", None)],
)
def test_an_object_is_put_down_by_the_stage_that_releases_it_at_its_goal(
    composition: str, put_down_by: int | None
) -> None:
    """A moving goal takes the object away from its goal, so that the object is only released."""
    assert {binding.put_down_by for binding in find_task(composition).stage_bindings} == {put_down_by}
