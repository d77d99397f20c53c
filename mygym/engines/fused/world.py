"""A batch of worlds: an arm, and, for tasks with an object, two fingers and a box on a table.

A box is held when both fingers press on opposite faces within limits in which Bullet's fingers hold a cube
(`mygym parity` counts how often Bullet agrees). It then follows the tool rigidly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mygym.engines.arrays import Arrays, Rows, to_numpy
from mygym.engines.fused.arm import ArmModel, BatchArm, BatchGripper, GripperModel
from mygym.engines.fused.box import GRAZE, TOUCHING, BatchBox, BoxModel
from mygym.tasks.context import ArmCommand
from mygym.tasks.state import State
from mygym.types import Array

PRESS = 2e-4
"""m by which a finger overlaps a box that it squeezes."""

CLOSING = 0.003
"""m by which fingers around a box may be narrower than it before a step, as the tool turns in it."""


ASIDE, ABOVE, ANGLE, SPEED = 0.015, 0.013, 0.3, 0.5
"""Limits within which fingers hold a box, measured in Bullet with a cube of 4 cm: m from the centre of the box to the
tool point, across the closing axis and upwards; rad between the closing axis and an axis of the box; m/s of the tool
relative to the box."""


class BatchGrasp:
    """Holds of `N` boxes."""

    def __init__(self, gripper: BatchGripper, box: BatchBox, count: int, arrays: Arrays) -> None:
        self._gripper, self._box, self._arrays = gripper, box, arrays
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

        The tools are at `(3, N)` m, with axes `(3, 3, N)`; the widths before the step are `(N,)` m.
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
        xp, box, gripper = self._arrays.xp, self._box, self._gripper
        both = box.contact[0] & box.contact[1] & ~self.held
        offset, angle, thickness = self._relative(position, rotation)
        speed = xp.sqrt(xp.sum((velocity - box.velocity) ** 2, axis=0))
        caught = (
            both
            & (gripper.width < thickness + 2 * TOUCHING)
            & (gripper.target < thickness - PRESS)
            & (xp.abs(offset[0]) < ASIDE)
            & (-offset[2] < ABOVE)
            & (xp.abs(angle) < ANGLE)
            & (speed < SPEED)
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


LIFT = 0.0005
"""m above the top of a box at which fingers stop that come down on it."""


@dataclass(frozen=True)
class WorldModel:
    """Models of an arm and, where the task has them, of its gripper and a box; a box needs a gripper."""

    arm: ArmModel
    gripper: GripperModel | None = None
    box: BoxModel | None = None


class BatchWorld:
    """`N` worlds, each at the start of an episode at first; boxes are at the origin until `reset` places them.

    See `mygym.engines.world.BatchWorlds` for the methods.
    """

    def __init__(self, model: WorldModel, count: int, arrays: Arrays) -> None:
        self.count, self.arrays = count, arrays
        self._state: State | None = None
        self.arm = BatchArm(model.arm, count, arrays)
        self.box: BatchBox | None = None
        dt = model.arm.controller.dt
        self._has_gripper = model.gripper is not None
        self._moves_fingers = model.gripper is not None and model.gripper.moves
        if model.gripper is not None:
            self.gripper = BatchGripper(model.gripper, count, dt, arrays)
        if model.box is not None:
            self.box = BatchBox(model.box, count, dt, arrays)
            self.grasp = BatchGrasp(self.gripper, self.box, count, arrays)
            self.pressed: Array = arrays.zeros(count, dtype=arrays.xp.bool)
            """`(N,)` bool: the fingers are on top of the box."""
        self.action_size = len(model.arm.controller.names) + self._moves_fingers
        """`A`: those of the arm, and one for fingers that move."""
        self._constant = self._constant_state(model)

    def _constant_state(self, model: WorldModel) -> State:
        """Return a state with the arrays that stay as they are; a box has one density."""
        boxes = 0 if model.box is None else 1
        fingers = 2 if boxes and self._moves_fingers else 0
        state = State.zeros(self.count, len(model.arm.home), fingers, boxes)
        if model.box is not None:
            state.object_size[...] = model.box.size
        state = replace(state, object_middle=state.object_middle[:, :0], gripper_command=state.gripper_width)
        arrays = (getattr(state, name) for name in State.__slots__)
        return State(*(self.arrays.flags(each) if each.dtype == bool else self.arrays.floats(each) for each in arrays))

    action_repeat = 1
    randomized_fields = ("object_friction", "object_damping", "joint_gain")

    def reset(self, rows: Rows, poses: Array, parts: Array) -> None:
        """Put worlds at the start of an episode, see `BatchWorlds.reset`; boxes are upright, and there are no parts."""
        self._state, mask, arrays = None, rows.mask, self.arrays
        self.arm.reset(rows)
        if self._has_gripper:
            self.gripper.reset(mask)
        if self.box is not None:
            xp, pose = arrays.xp, poses[:, 0]
            position = rows.replaced(arrays.zeros(3, self.count), pose[:, :3].T)
            yaw = rows.replaced(arrays.zeros(self.count), 2.0 * xp.atan2(pose[:, 5], pose[:, 6]))
            self.grasp.reset(mask)
            self.box.reset(mask, position, yaw)
            self.pressed = self.pressed & ~mask

    def step_all(self, actions: Array) -> None:
        """Advance all worlds by a control step, with actions `(N, A)` that are clipped to [-1, 1]."""
        self.step(actions.T)

    def actions_towards(self, command: ArmCommand) -> Array:
        """Return the actions `(N, A)` of a command; there is one arm."""
        xp, arm = self.arrays.xp, self.arm
        zeros = arm.time * 0.0
        turn = zeros if command.yaw_change is None else zeros + command.yaw_change
        action = arm.controller.action_towards(command.target.T, arm.posture, arm.velocity, turn)
        if self._moves_fingers:
            action = xp.concat([action, (zeros + command.gripper)[None]])
        return xp.clip(action, -1.0, 1.0).T

    def randomize(self, values: Mapping[str, Array]) -> None:
        """Set the physical parameters of the episodes, see `BatchRandomization.values`."""
        self.arm.gain = values.get("joint_gain")
        if self.box is not None:
            friction, damping = values.get("object_friction"), values.get("object_damping")
            self.box.friction = None if friction is None else friction[0]
            self.box.damping = None if damping is None else damping[0]

    def step(self, action: Array) -> None:
        """Advance all worlds by a control step, with actions `(A, N)` that are clipped to [-1, 1]."""
        self._state = None
        arm, box = self.arm, self.box
        action = self.arrays.xp.clip(action, -1.0, 1.0)
        of_arm = action[:-1] if self._moves_fingers else action
        if box is None:
            if self._moves_fingers:
                self.gripper.drive(action[-1])
            arm.step(of_arm)
            return
        gripper, grasp = self.gripper, self.grasp
        shape = gripper.model.shape
        before, bottom_before = self._tips(arm.ee_position, gripper.width), arm.ee_position[2] - shape.tip
        width_before = gripper.width
        if gripper.model.moves:
            gripper.drive(action[-1])
        floor = self._floor(bottom_before, width_before)
        arm.step(of_arm, floor)
        if gripper.model.moves:
            grasp.release(arm.ee_velocity)
            grasp.limit_width(arm.ee_position, arm.rotation, width_before)
        bottom = arm.ee_position[2] - shape.tip
        ends = self._tips(arm.ee_position, gripper.width)
        box.advance(~grasp.held, ends, before, self.arrays.xp.stack([bottom_before, bottom]), shape)
        if gripper.model.moves:
            grasp.carry(arm.ee_position, arm.rotation, arm.ee_velocity)
            grasp.catch(arm.ee_position, arm.rotation, arm.ee_velocity)
        self.pressed = arm.ee_position[2] < floor + 2 * LIFT

    def _tips(self, position: Array, width: Array) -> tuple[Array, Array]:
        """Return x, y of the tips of both fingers, m, each `(2, N)`, for tool points `(3, N)` m and widths `(N,)` m."""
        shape, xp = self.gripper.model.shape, self.arrays.xp
        axis = self.arm.rotation[shape.axis]
        away = 0.5 * width + shape.centre
        x, y = away * axis[0], away * axis[1]
        return xp.stack([position[0] + x, position[0] - x]), xp.stack([position[1] + y, position[1] - y])

    def _floor(self, bottom: Array, width: Array) -> Array:
        """Return the least height `(N,)` m of the tool point where fingers come down on the box, else −1.

        Fingers that close while they come down meet the box if the width between them is too small at its top or at its
        sides. Fingers that are on top stay there until they are beside the box. `bottom` `(N,)` m is their lowest
        point, `width` `(N,)` m the width between them before they move in this step.
        """
        xp, box, shape = self.arrays.xp, self.box, self.gripper.model.shape
        assert box is not None
        top = box.position[2] + box.rest_height
        velocity, dt = self.arm.ee_velocity, self.arm.dt
        way = xp.clip(-velocity[2] * dt, 1e-3, None)  # m down in this step, if the tool moves on as before
        # Shares of the step until the fingers are as low as the top of the box, and until they are beside the box.
        begin, end = (xp.clip((bottom - top + depth) / way, 0.0, 1.0) for depth in (0.0, GRAZE))
        change = self.gripper.width - width
        x, y = self._tips(
            self.arm.ee_position + velocity * (begin * dt), width + xp.minimum(begin * change, end * change)
        )
        cosine, sine = xp.cos(box.yaw), xp.sin(box.yaw)
        dx, dy = x - box.position[0], y - box.position[1]
        beyond_x = xp.abs(cosine * dx + sine * dy) - box.half[0]
        beyond_y = xp.abs(cosine * dy - sine * dx) - box.half[1]
        beyond = xp.maximum(beyond_x, beyond_y)  # m of each finger beyond the edge
        # A single ball slips off an edge; two on opposite edges do not. (Two on the same edge would: this is stricter.)
        over = (xp.min(beyond, axis=0) < 0.7 * shape.radius) | (xp.max(beyond, axis=0) < shape.radius)
        on_top = over & ((bottom > top - LIFT) | self.pressed) & ~self.grasp.held
        return xp.where(on_top, top + shape.tip + LIFT, -1.0)

    @property
    def state(self) -> State:
        """The current states; arrays are views of the parts' arrays."""
        if self._state is None:
            self._state = self._measured()
        return self._state

    def _measured(self) -> State:
        """Return the state, whose arrays are views; arrays of parts and other arms are empty.

        A finger on top of the box touches it but does not count as a `finger_contact`, which is a contact between the
        fingers or from the side. `hit` is always false, and `object_depth` 0.
        """
        state, box, xp = self.arm.measured(self._constant), self.box, self.arrays.xp
        if self._has_gripper:
            state = replace(state, gripper_width=self.gripper.width, gripper_command=self.gripper.command)
        if box is None:
            return state
        position, half, zeros = box.position.T[:, None], 0.5 * box.yaw, self.arrays.zeros(self.count)
        if self._moves_fingers:
            state = replace(state, finger_contact=box.contact.T[:, None])
        return replace(
            state,
            touch=(box.contact[0] | box.contact[1] | self.pressed)[:, None],
            hit_position=position,
            object_position=position,
            object_orientation=xp.stack([zeros, zeros, xp.sin(half), xp.cos(half)]).T[:, None],
            object_velocity=box.velocity.T[:, None],
            object_angular_velocity=xp.stack([zeros, zeros, box.spin]).T[:, None],
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays whose last axis is `N`."""
        parts = self._parts()
        return {
            name: {key: to_numpy(getattr(part, key)).copy() for key in keys} for name, (part, keys) in parts.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        self._state = None
        for name, (part, keys) in self._parts().items():
            saved = state.get(name, state["arm"])  # in version 0.2, the commands were those of the arm
            for key in saved.keys() & set(keys):
                setattr(part, key, self.arrays.like(getattr(part, key), saved[key]))

    def variables(self) -> list[Array]:
        """Return the arrays on which the next steps depend, in the order of `set_variables`."""
        return [getattr(part, key) for part, keys in self._parts().values() for key in keys]

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Replace the arrays of `variables` by the next of `arrays`."""
        self._state = None
        for part, keys in self._parts().values():
            for key in keys:
                setattr(part, key, next(arrays))

    def copy_from(self, other: BatchWorld, source: Array, rows: Rows) -> None:
        """Put the worlds `rows` into the states of the worlds `source` `(n,)` of another batch."""
        self._state = None
        parts = other._parts()
        for name, (part, keys) in self._parts().items():
            for key in keys:
                setattr(part, key, rows.replaced(getattr(part, key), getattr(parts[name][0], key)[..., source]))

    def _parts(self) -> dict[str, tuple[Any, tuple[str, ...]]]:
        """Return name → component, and its arrays on which the next steps depend."""
        parts: dict[str, tuple[Any, tuple[str, ...]]] = {"arm": (self.arm, self.arm.STATE)}
        parts["controller"] = self.arm.controller, self.arm.controller.STATE
        if self._has_gripper:
            parts["gripper"] = self.gripper, ("width", "command")
        if self.box is not None:
            parts["box"] = self.box, ("position", "yaw", "velocity", "spin", "contact")
            parts["grasp"] = self.grasp, ("held", "grip", "turn", "thickness")
            parts["world"] = self, ("pressed",)
        return parts
