"""Numbers of tasks: strict in those that ship, changed where they may be, and nobody's but their own."""

from __future__ import annotations

import pytest

from mygym.errors import ConfigError
from mygym.tasks.task import change_task, find_task, register_task
from tests.components import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_named_tasks_are_strict(name: str) -> None:
    task = find_task(name)
    turns = task.subtasks[0].part in ("fridge.door", "panel.switch", "panel.valve")
    flies = any("launched" in stage.gives for stage in task.plan.stages)  # into a basket, over a goal line
    assert 0 < task.tolerance <= (0.2 if turns else 0.15 if flies else 0.05), "m, or rad of what turns"
    assert task.hold >= 2
    assert task.help


def test_numbers_of_a_task_can_be_changed() -> None:
    task = change_task(find_task("reach"), {"tolerance": 0.01, "horizon": 7})
    assert (task.tolerance, task.horizon, task.steps[0].thresholds.tolerance) == (0.01, 7, 0.01)
    assert find_task("reach").horizon != 7
    with pytest.raises(ConfigError, match="did you mean 'horizon'"):
        change_task(task, {"horizonn": 7})


@pytest.mark.parametrize("numbers", [{"hold": 25}, {"hold": 9, "horizon": 9}, {"horizon": 3}, {"horizon": 2}])
def test_an_episode_that_is_too_short_to_hold_success_is_refused(numbers: dict[str, int]) -> None:
    task = find_task("reach")
    with pytest.raises(ConfigError, match=r"task_params\.hold: \d+ leaves no time.* less than the horizon"):
        change_task(task, numbers)
    change_task(task, {"hold": 24})
    change_task(task, {"horizon": 4})


def test_what_a_composition_means_does_not_depend_on_tasks_of_the_users() -> None:
    stages = ["approach", "push", "withdraw"]
    before = find_task(stages).horizon
    register_task("mine", stages, horizon=before + 7)
    assert find_task("mine").horizon == before + 7
    assert find_task(stages).horizon == before
