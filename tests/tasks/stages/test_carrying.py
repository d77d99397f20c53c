"""Counters of stages of an object in the hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.stage import Stage
from mygym.tasks.state import Progress, State
from tests.tasks.states import stage_binding


def test_follow_counts_steps_in_a_row() -> None:
    """At the moving goal a step counts; away from it the count begins again."""
    follow: Stage = registry("stage").get("follow").load()
    assert follow.count is not None
    assert follow.waypoint is not None
    state = State.zeros(2, 7, 2, 1)
    progress = replace(Progress.at_reset(state), count=np.array([7, 7]))
    context = StageContext(state, progress, np.zeros((2, 1, 3)), stage_binding())
    state.object_position[:, 0] = follow.waypoint(context)
    state.object_position[1, 0] += (0.0, 0.0, 2 * context.thresholds.tolerance)
    assert follow.count(context).tolist() == [8, 0]
