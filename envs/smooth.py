"""`ee_delta_smooth`: a custom controller, `ee_delta` with its actions smoothed by a first-order low-pass filter.

mygym train --task reach --control ee_delta_smooth --set control.gain=0.3
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mygym.robotics.controllers import EndEffectorDelta, register_controller, scale_to_unit
from mygym.types import FloatArray


@register_controller("ee_delta_smooth")
class EndEffectorDeltaSmooth(EndEffectorDelta):
    """Moves the commanded end-effector position by up to 5 cm, with smoothed actions.

    Args:
        gain: Share of the new action in the filtered action; the rest is the last filtered action.
        *args: Of `EndEffectorDelta`.
        **kwargs: Of `EndEffectorDelta`.
    """

    def __init__(self, *args: Any, gain: Annotated[float, Field(gt=0, le=1)] = 0.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gain = gain

    def reset(self, joint_position: FloatArray, ee_position: FloatArray) -> None:
        """Set the command to a measured posture, and the filtered action to zero."""
        super().reset(joint_position, ee_position)
        self.filtered = np.zeros(3)

    @property
    def command_offset_size(self) -> int:
        """6: three numbers of the position and three of the filter, without which the state would not be Markov."""
        return 6

    def command_offset(self, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the offset of the commanded position and the last displacement: `(6,)` m, world frame."""
        return np.append(super().command_offset(joint_position, ee_position), self.step * self.filtered)

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return joint targets for a displacement of `step` times the filtered action; the yaw is not filtered."""
        self.filtered = (1 - self.gain) * self.filtered + self.gain * action[:3]
        return super().command(np.append(self.filtered, action[3:]), joint_position, ee_position)

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        yaw_change: float,
    ) -> FloatArray:
        """Return the action whose filtered values, on average, equal the action of `ee_delta`, within its limits."""
        wanted = super().action_towards(ee_target, joint_position, joint_velocity, ee_position, yaw_change)
        repeat = self.action_repeat
        remembered = sum((1 - self.gain) ** step for step in range(1, repeat + 1))
        action = (repeat * wanted[:3] - remembered * self.filtered) / (repeat - remembered)
        return np.append(scale_to_unit(action), wanted[3:])
