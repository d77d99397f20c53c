"""Values of the built-in observation components, computed by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.registry import registry
from mygym.tasks.components import STAGE_COLUMNS
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import SLOTS, find_component
from tests.components import OBSERVATIONS
from tests.tasks.states import LISTED, random_state, worlds

N = 4


def context(composition: Any, seed: int = 0, clutter: int = 0) -> EpisodeContext:
    task, progress, state, goals = worlds(composition, seed, N)
    if clutter:
        state = random_state(np.random.default_rng(seed), N, len(task.roles) + clutter, len(task.parts), goals)
    return EpisodeContext(task, progress, state, goals, np.arange(N))


def values(name: str, episode: EpisodeContext) -> Any:
    return find_component(name).function(episode)


def test_the_help_of_a_component_begins_with_its_shape() -> None:
    for name in OBSERVATIONS:
        assert registry("observation").get(name).help.startswith("`(N, ")
        assert find_component(name).bound > 0


@pytest.mark.parametrize("composition", ["reach", "pick_and_place", "AGFDW", *LISTED])
def test_components_have_their_sizes_for_each_subject(composition: str) -> None:
    episode = context(composition, clutter=2)
    task = episode.task
    counts = {
        "objects": len(task.roles),
        "parts": len(task.part_slots),
        "objects or parts": int(bool(task.roles or task.part_slots)),
        "distractors": episode.state.object_position.shape[1] - len(task.roles),
        "sub-tasks": len(task.subtasks),
        "waypoints": int(any(stage.waypoint is not None for stage in task.sequence.stages)),
    }
    assert set(counts) == set(SLOTS)
    for name in OBSERVATIONS:
        component = find_component(name)
        if component.of in SLOTS:
            assert values(name, episode).shape == (N, component.size * counts[component.of]), name


def test_touch_of_any_link_and_share_of_finger_contact() -> None:
    episode = context("stack", clutter=1)
    episode.state.touch[:] = [[True, False, True]] * N
    episode.state.finger_contact[:] = [[[True, True], [True, False], [True, True]]] * N
    np.testing.assert_array_equal(values("touch", episode), [[1, 0]] * N)
    np.testing.assert_array_equal(values("finger_contact", episode), [[1, 0.5]] * N)


def test_flags_follow_the_active_stage() -> None:
    episode = context("stack")  # AGMDW on the cube, then on the die
    episode.progress.stage[:] = [0, 4, 5, 10]
    np.testing.assert_array_equal(values("object_active", episode), [[1, 0], [1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(values("subtask", episode), [[1, 0], [1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(values("object_present", episode), np.ones((N, 2)))
    names = values("stage_name", episode)
    assert [STAGE_COLUMNS[row.argmax()] for row in names[:3]] == ["approach", "withdraw", "approach"]
    assert names.sum(axis=1).tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("built_in", [False, True])
def test_further_stages_share_a_column_and_move_no_other(built_in: bool) -> None:
    """Policies of before keep their columns, whatever stages are added to mygym, or replaced by a user's file."""
    before = values("stage_name", context("push"))
    grasp, push = (registry("stage").get(name).load() for name in ("grasp", "push"))
    origin = str(Path(mygym.__file__).parent / "new.py") if built_in else __file__
    registry("stage").register("aim", replace(push, name="aim"), origin=origin)
    registry("stage").register("grasp", grasp, origin=__file__, override=True)
    assert registry("stage").get("aim").built_in == built_in
    np.testing.assert_array_equal(values("stage_name", context("push")), before)
    episode = context(["approach", "aim"])
    episode.progress.stage[:] = 1
    np.testing.assert_array_equal(values("stage_name", episode), [[0.0] * (before.shape[1] - 1) + [1.0]] * N)


def test_the_goal_is_that_of_the_active_sub_task() -> None:
    episode = context("push, reach")
    episode.progress.stage[:] = [0, 2, 3, 4]
    episode.state.object_middle[...] = 0.0
    first, second = episode.goals[:, 0], episode.goals[:, 1]
    expected = np.stack([first[0], first[1], second[2], second[3]])
    np.testing.assert_array_equal(values("goal", episode), expected)
    np.testing.assert_array_equal(values("goal_from_ee", episode), expected - episode.state.ee_position)
    target = np.concatenate([episode.state.object_position[:2, 0], second[2:]])
    np.testing.assert_array_equal(values("target_from_ee", episode), target - episode.state.ee_position)
    missing = expected - episode.state.object_position[:, 0]
    missing[2:] = 0.0  # reaching acts on no object
    np.testing.assert_array_equal(values("goal_from_object", episode), missing)


def test_the_goal_of_a_part_is_its_position() -> None:
    episode = context("handle")
    episode.progress.stage[:] = 0
    distance = episode.goals[:, 0, 0] - episode.state.part_position[:, 1]
    np.testing.assert_array_equal(
        values("goal_from_object", episode), np.stack([distance, 0 * distance, 0 * distance], axis=1)
    )
    np.testing.assert_array_equal(values("goal_from_ee", episode), np.zeros((N, 3)))
    handle = episode.state.part_handle_position[:, 1]
    np.testing.assert_array_equal(values("target_from_ee", episode), handle - episode.state.ee_position)
    np.testing.assert_array_equal(values("part_active", episode), np.ones((N, 1)))


def test_distractor_components_exclude_the_objects_of_the_task() -> None:
    episode = context("pick_and_place", clutter=2)
    np.testing.assert_array_equal(
        values("distractor_position", episode), episode.state.object_position[:, 1:].reshape(N, 6)
    )
    present = episode.state.object_present[:, 1:]
    np.testing.assert_array_equal(values("distractor_present", episode), present)
    from_ee = (episode.state.object_position[:, 1:] - episode.state.ee_position[:, None]) * present[:, :, None]
    np.testing.assert_array_equal(values("distractor_from_ee", episode), from_ee.reshape(N, 6))


@pytest.mark.parametrize("before", [0.0, 1.2])
def test_time_is_a_share_of_the_horizon(before: float) -> None:
    """The world has moved for `before` s when the episode begins behind stages of the expert."""
    episode = context("reach")
    episode.elapsed[:] = [0, 1, 12, 25]
    episode.state.time[:] = before + episode.elapsed / 25.0  # 25 steps a second, of which reaching has 25
    np.testing.assert_allclose(values("time", episode)[:, 0], [0.0, 0.04, 0.48, 1.0], atol=1e-12)


def test_orientations_have_one_sign() -> None:
    episode = context("reach")
    before = values("ee_orientation", episode)
    assert (before[:, 3] >= 0).all()
    episode.state.ee_orientation *= -1
    np.testing.assert_array_equal(before, values("ee_orientation", episode))
