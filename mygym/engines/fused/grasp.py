"""Grasps of a box between two fingers: when the fingers hold it, how it moves with them, when they let it go.

A box is held when both fingers press on opposite faces within limits in which Bullet's fingers hold a cube
(`mygym parity` counts how often Bullet agrees). It then follows the tool rigidly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mygym.engines.arrays import Arrays
from mygym.engines.fused.arm import BatchGripper
from mygym.engines.fused.box import GRAZE, TOUCHING, BatchBox
from mygym.types import Array

PRESS = 2e-4
"""m by which a finger overlaps a box that it squeezes."""

CLOSING = 0.003
"""m by which fingers around a box may be narrower than it before a step, as the tool turns in it."""


@dataclass(frozen=True)
class GraspLimits:
    """Limits within which fingers hold a box; measured in Bullet with a cube of 4 cm."""

    aside: float = 0.015
    """m: largest distance of the tool point from the centre of the box, across the closing axis."""
    above: float = 0.013
    """m: largest height of the tool point above the centre of the box."""
    angle: float = 0.3
    """rad: largest angle between the closing axis and an axis of the box."""
    speed: float = 0.5
    """m/s: largest speed of the tool relative to the box."""


class BatchGrasp:
    """Holds of `N` boxes.

    Args:
        gripper: The fingers.
        box: The boxes.
        count: `N`.
        arrays: Array library.
    """

    def __init__(self, gripper: BatchGripper, box: BatchBox, count: int, arrays: Arrays) -> None:
        self._gripper, self._box, self._arrays = gripper, box, arrays
        self.limits = GraspLimits()
        self.held: Array = arrays.zeros(count, dtype=arrays.xp.bool)
        """`(N,)` bool."""
        self.grip: Array = arrays.zeros(3, count)
        """`(3, N)` m: centres of held boxes from the tool points, in the axes of the tools."""
        self.turn: Array = arrays.zeros(count)
        """`(N,)` rad: yaw of held boxes beyond that of the tools."""
        self.thickness: Array = arrays.zeros(count)
        """`(N,)` m: width of the fingers on held boxes."""

    def reset(self, mask: Array) -> None:
        """Let go the boxes of `mask` `(N,)` bool."""
        self.held = self.held & ~mask

    def release(self, ee_velocity: Array) -> None:
        """Let go the boxes whose fingers are commanded to open, with the velocities `(3, N)` m/s of the tools."""
        xp = self._arrays.xp
        opens = self.held & (self._gripper.target > self.thickness - PRESS)
        self._box.velocity = xp.where(opens, ee_velocity, self._box.velocity)
        self.held = self.held & ~opens

    def limit_width(self, position: Array, rotation: Array, before: Array) -> None:
        """Stop the fingers at boxes between them; fingers that are closed already push a box, and stay closed.

        Args:
            position: `(3, N)` m: the tools.
            rotation: `(3, 3, N)`: their axes.
            before: `(N,)` m: widths before the step.
        """
        xp, gripper = self._arrays.xp, self._gripper
        offset, angle, thickness = self._relative(position, rotation)
        shape = gripper.model.shape
        across = max(self._box.half) + shape.radius
        between = (xp.abs(offset[0]) < across) & (xp.abs(offset[1]) < 0.5 * thickness)
        between = (
            between & (xp.abs(offset[2]) < self._box.rest_height + shape.tip - GRAZE) & (xp.abs(angle) < math.pi / 6)
        )
        between = between & (before > thickness - CLOSING)
        least = xp.where(self.held, self.thickness, xp.where(between, thickness, 0.0))
        gripper.width = xp.maximum(gripper.width, xp.clip(least - 2 * PRESS, 0.0, None))

    def carry(self, position: Array, rotation: Array, velocity: Array) -> None:
        """Move held boxes with tools at `(3, N)` m, axes `(3, 3, N)`, `(3, N)` m/s; the table stops them."""
        xp, box, held = self._arrays.xp, self._box, self.held
        carried = position + xp.sum(self.grip[:, None] * rotation, axis=0)
        slipped = xp.clip(box.rest_height - carried[2], 0.0, None)  # the table pushes the box up between the fingers
        carried[2] += slipped
        self.grip = self.grip + slipped * rotation[:, 2]
        yaw = self._yaw(rotation) + self.turn
        box.position = xp.where(held, carried, box.position)
        box.velocity = xp.where(held, velocity, box.velocity)
        box.spin = xp.where(held, 0.0, box.spin)
        box.yaw = xp.where(held, yaw, box.yaw)
        box.contact = box.contact | held

    def catch(self, position: Array, rotation: Array, velocity: Array) -> None:
        """Begin to hold the boxes that both fingers squeeze within the limits."""
        xp, box, gripper, limits = self._arrays.xp, self._box, self._gripper, self.limits
        both = box.contact[0] & box.contact[1] & ~self.held
        offset, angle, thickness = self._relative(position, rotation)
        speed = xp.sqrt(xp.sum((velocity - box.velocity) ** 2, axis=0))
        caught = (
            both
            & (gripper.width < thickness + 2 * TOUCHING)
            & (gripper.target < thickness - PRESS)
            & (xp.abs(offset[0]) < limits.aside)
            & (-offset[2] < limits.above)
            & (xp.abs(angle) < limits.angle)
            & (speed < limits.speed)
        )
        # A squeeze that does not hold counts as a touch of the first finger alone.
        box.contact[1] = box.contact[1] & (~both | caught)
        difference = box.position - position
        grip = xp.sum(rotation * difference[None], axis=1)
        self.grip = xp.where(caught, grip, self.grip)
        self.turn = xp.where(caught, box.yaw - self._yaw(rotation), self.turn)
        self.thickness = xp.where(caught, thickness, self.thickness)
        self.held = self.held | caught

    def _yaw(self, rotation: Array) -> Array:
        """`(N,)` rad: direction of the closing axis, seen from above."""
        axis = rotation[self._gripper.model.shape.axis]
        return self._arrays.xp.atan2(axis[1], axis[0])

    def _relative(self, position: Array, rotation: Array) -> tuple[Array, Array, Array]:
        """Return the box between the fingers.

        Returns:
            `(3, N)` m: its centre from the tool point across the fingers, along the closing axis, and up; `(N,)` rad
            from the nearest axis of the box to the closing axis; `(N,)` m between its faces along the closing axis.
        """
        xp, box = self._arrays.xp, self._box
        difference = box.position - position
        axis = rotation[self._gripper.model.shape.axis]
        offset = xp.stack(
            [
                axis[0] * difference[1] - axis[1] * difference[0],
                axis[0] * difference[0] + axis[1] * difference[1],
                difference[2],
            ]
        )
        angle = self._yaw(rotation) - box.yaw
        quarters = xp.round(angle / (0.5 * math.pi))
        angle = angle - 0.5 * math.pi * quarters
        along_x = xp.remainder(quarters, 2.0) == 0.0
        half = box.half[1] + (box.half[0] - box.half[1]) * xp.astype(along_x, angle.dtype)  # stays float32
        return offset, angle, 2.0 * half / xp.cos(angle)
