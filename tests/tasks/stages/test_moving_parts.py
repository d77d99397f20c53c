"""Stages that move a part of the workspace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.tasks.context import StageContext
from mygym.tasks.progress import Progress


@pytest.mark.parametrize("task", ["open_drawer", "open_door"])
def test_fingers_that_press_on_a_handle_gain_by_moving_around_it(task: str) -> None:
    """Fingers 15 mm beside the middle of a handle press on it and cannot pull it."""
    with RobotEnv(task) as env:
        env.reset(seed=0)
        index = env.task.stage_names.index("open")
        stage, bound, state = env.task.sequence.stages[index], env.task.stage_bindings[index], env.world.state
        progress = Progress.at_reset(state)
        target, potentials = StageContext(state, progress, env.goals, bound).target, []
        for away in (0.1, 0.03, 0.015, 0.008, 0.004, 0.0):
            moved = replace(state, ee_position=target + np.array([[0.0, 0.0, away]]))
            potentials.append(float(stage.potential(StageContext(moved, progress, env.goals, bound))[0]))
    assert np.diff(potentials[:5]).min() > 0.005
    assert potentials[5] == potentials[4], "the exact place does not matter"
