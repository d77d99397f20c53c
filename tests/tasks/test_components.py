"""Values of the built-in observation components, computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mygym.registry import registry
from mygym.tasks.context import EpisodeContext
from mygym.tasks.observations import find_component
from mygym.tasks.shared import SLOTS
from mygym.tasks.stage import register_stage
from tests.components import OBSERVATIONS
from tests.tasks.states import LISTED, random_state, worlds

N = 4


def context(composition: Any, seed: int = 0, clutter: int = 0) -> EpisodeContext:
    task, progress, state, goals = worlds(composition, seed, N)
    if clutter:
        state = random_state(np.random.default_rng(seed), N, len(task.roles) + clutter, len(task.parts), goals)
    return EpisodeContext(task, progress, state, goals)


def seen(name: str, now: EpisodeContext) -> Any:
    return find_component(name).function(now)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_the_help_of_a_component_begins_with_its_shape(name: str) -> None:
    assert registry("observation").get(name).help.startswith("`(N, ")
    assert find_component(name).bound > 0


@pytest.mark.parametrize("composition", ["reach", "pick_and_place", "AGFDW", *LISTED])
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_a_component_has_its_size_for_each_subject(name: str, composition: str) -> None:
    now = context(composition, clutter=2)
    task, component = now.task, find_component(name)
    counts = {
        "objects": len(task.roles),
        "parts": len(task.part_slots),
        "objects or parts": int(bool(task.roles or task.part_slots)),
        "distractors": now.state.object_position.shape[1] - len(task.roles),
        "sub-tasks": len(task.subtasks),
        "waypoints": int(any(bound.stage.waypoint is not None for bound in task.bound_stages)),
    }
    assert set(counts) == set(SLOTS)
    if component.of in SLOTS:
        assert seen(name, now).shape == (N, component.size * counts[component.of])


def test_touch_of_any_link_and_share_of_finger_contact() -> None:
    now = context("stack", clutter=1)
    now.state.touch[:] = [[True, False, True]] * N
    now.state.finger_contact[:] = [[[True, True], [True, False], [True, True]]] * N
    np.testing.assert_array_equal(seen("touch", now), [[1, 0]] * N)
    np.testing.assert_array_equal(seen("finger_contact", now), [[1, 0.5]] * N)


def test_flags_follow_the_active_stage() -> None:
    now = context("stack")  # AGMDW on the cube, then on the die
    now.progress.stage[:] = [0, 4, 5, 10]
    np.testing.assert_array_equal(seen("object_active", now), [[1, 0], [1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(seen("subtask", now), [[1, 0], [1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(seen("object_present", now), np.ones((N, 2)))
    names = seen("stage_name", now)
    stages = [entry.name for entry in registry("stage") if entry.built_in]
    assert [stages[row.argmax()] for row in names[:3]] == ["approach", "withdraw", "approach"]
    assert names.sum(axis=1).tolist() == [1, 1, 1, 0]


def test_user_defined_stages_share_a_column() -> None:
    width = seen("stage_name", context("push")).shape[1]
    shove = register_stage("shove", replace(registry("stage").get("push").load(), name="shove"))
    now = context(["approach", shove.name])
    now.progress.stage[:] = 1
    np.testing.assert_array_equal(seen("stage_name", now)[:, -1], np.ones(N))
    assert seen("stage_name", now).shape[1] == width


def test_the_goal_is_that_of_the_active_sub_task() -> None:
    now = context("push, reach")
    now.progress.stage[:] = [0, 2, 3, 4]
    first, second = now.goals[:, 0], now.goals[:, 1]
    expected = np.stack([first[0], first[1], second[2], second[3]])
    np.testing.assert_array_equal(seen("goal", now), expected)
    np.testing.assert_array_equal(seen("goal_from_ee", now), expected - now.state.ee_position)
    missing = expected - now.state.object_position[:, 0]
    missing[2:] = 0.0  # reaching acts on no object
    np.testing.assert_array_equal(seen("goal_from_object", now), missing)


def test_the_goal_of_a_part_is_its_position() -> None:
    now = context("handle")
    now.progress.stage[:] = 0
    left = now.goals[:, 0, 0] - now.state.part_position[:, 1]
    np.testing.assert_array_equal(seen("goal_from_object", now), np.stack([left, 0 * left, 0 * left], axis=1))
    np.testing.assert_array_equal(seen("goal_from_ee", now), np.zeros((N, 3)))
    np.testing.assert_array_equal(seen("part_active", now), np.ones((N, 1)))


def test_distractor_components_exclude_the_objects_of_the_task() -> None:
    now = context("pick_and_place", clutter=2)
    np.testing.assert_array_equal(seen("distractor_position", now), now.state.object_position[:, 1:].reshape(N, 6))
    from_ee = now.state.object_position[:, 1:] - now.state.ee_position[:, None]
    np.testing.assert_array_equal(seen("distractor_from_ee", now), from_ee.reshape(N, 6))


def test_time_is_a_share_of_the_horizon() -> None:
    now = context("reach")
    now.state.time[:] = [0.0, 0.04, 0.5, 1.0]  # 25 steps a second, of which reaching has 25
    np.testing.assert_allclose(seen("time", now)[:, 0], [0.0, 0.04, 0.5, 1.0])


def test_orientations_have_one_sign() -> None:
    now = context("reach")
    before = seen("ee_orientation", now)
    assert (before[:, 3] >= 0).all()
    now.state.ee_orientation *= -1
    np.testing.assert_array_equal(before, seen("ee_orientation", now))
