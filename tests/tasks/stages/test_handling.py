"""Potentials of stages that handle an object."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.tasks.context import StageContext
from mygym.tasks.state import Progress


def test_a_command_to_open_pays_before_the_fingers_leave_the_object() -> None:
    """A policy that holds the object must be led to a command that opens the hand farther than the object is wide."""
    env = RobotEnv("stack", task_params={"stages_done": 3})
    env.reset(seed=0)
    index = env.task.stage_names.index("drop")
    stage, bound = env.task.sequence.stages[index], env.task.stage_bindings[index]
    potentials = []
    for command in (-1.0, -0.6, -0.2):
        env.step(np.array([0.0, 0.0, 0.0, command], dtype=np.float32))
        state, goals = env.world.state, env.goals
        assert state.finger_contact[0, bound.object].all(), "the object is held"
        assert state.gripper_command[0] == pytest.approx(0.5 + 0.5 * command)
        potentials.append(float(stage.potential(StageContext(state, Progress.at_reset(state), goals, bound))[0]))
    assert np.diff(potentials).min() > 0.05
    env.close()


def test_a_peg_must_be_above_its_hole_before_it_is_lowered() -> None:
    """Beside the hole, the potential of `insert` grows with the height up to the edge of the hole."""
    env = RobotEnv("insert")
    env.reset(seed=0)
    index = env.task.stage_names.index("insert")
    stage, bound = env.task.sequence.stages[index], env.task.stage_bindings[index]
    state, goals = env.world.state, env.goals
    goal = goals[0, bound.goal_slot]

    def potential(beside: float, above: float) -> float:
        state.object_position[0, bound.object] = goal + np.array([beside, 0.0, above])
        return float(stage.potential(StageContext(state, Progress.at_reset(state), goals, bound))[0])

    assert potential(0.05, 0.06) > potential(0.05, 0.03) > potential(0.05, 0.0)
    assert potential(0.0, 0.0) > potential(0.0, 0.03) > potential(0.0, 0.06) > potential(0.05, 0.06)
    env.close()
