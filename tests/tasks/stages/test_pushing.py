"""The expert that pushes: how its tool gets behind the object."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.tasks.context import StageBinding, StageContext
from mygym.tasks.stages.pushing import PUSH
from mygym.tasks.state import Progress, State

CENTRE = (0.0, 0.0, 0.02)
"""m: of the object; its goal is 30 cm along x."""


def target(tool: tuple[float, float, float], touch: bool) -> np.ndarray:
    """Return where the expert sends a tool, `(3,)` m; a link of the robot may touch the object, which is at rest."""
    state = State.zeros(1, 7, objects=1)
    state.object_position[0, 0], state.ee_position[0], state.touch[0, 0] = CENTRE, tool, touch
    context = StageContext(
        state, Progress.at_reset(state), np.array([[(0.3, 0.0, 0.02)]]), StageBinding(0, 0, None, goal_slot=0)
    )
    assert PUSH.start_pose is not None
    moved: np.ndarray = PUSH.expert(context, PUSH.start_pose).target[0]
    return moved


def test_a_tool_on_top_of_the_object_steps_back() -> None:
    assert target((-0.02, 0.0, 0.05), touch=True)[0] < -0.05


@pytest.mark.parametrize("touch", [True, False])
def test_a_tool_far_behind_goes_down_whatever_touches_the_object(touch: bool) -> None:
    """A link that is not the tool may go on touching the object."""
    assert target((-0.2, 0.0, 0.065), touch) == pytest.approx((-0.2, 0.0, 0.02))


def test_a_tool_that_is_almost_behind_the_object_goes_down() -> None:
    """A short arm gets no nearer at the height at which it travels."""
    heights = [target((x, 0.0, 0.12), touch=False)[2] for x in (-0.036, -0.030)]
    assert heights[0] == pytest.approx(0.02)
    assert heights[1] > 0.1
