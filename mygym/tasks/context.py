"""`StageContext`: a batch of episodes as the functions of one stage see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mygym.tasks.state import Progress, State, namespace
from mygym.types import Array, Vector


@dataclass(frozen=True)
class Thresholds:
    """Thresholds at which predicates begin to hold."""

    tolerance: float = 0.05
    """For the goal: m, or rad for a part that turns."""
    near: float = 0.08
    """m between the end effector and the object's centre, or the handle."""
    clear: float = 0.12
    """m between the end effector and the object's centre, or the handle, beyond which they are apart."""
    angle: float = 0.15
    """rad: of the goal's yaw."""
    rest: float = 0.05
    """m/s below which an object is at rest."""
    launch: float = 0.15
    """m/s, horizontal: speed above which an object that has left the hand was launched."""
    slack: float = 1.5
    """A distance predicate is lost only beyond `slack` times its threshold, so that it does not flicker at the edge."""


@dataclass(frozen=True)
class StageBinding:
    """Object or part, goal and thresholds of a stage in its task."""

    subtask: int
    """Index of the sub-task."""
    object: int | None
    """Slot of the object in `State`; None: the stage acts on a part, or without a target."""
    part: int | None
    """Slot of the articulated part (drawer, door, lever …) in `State`."""
    goal_slot: int
    """Slot of the sub-task's goal point in the goals `(N, G, 3)`."""
    path_slots: tuple[int, ...] = ()
    """Slots of the points before the goal, in order; empty: none."""
    yaw_slot: int | None = None
    """Slot whose first number is the object's goal yaw in rad; None: any yaw."""
    thresholds: Thresholds = Thresholds()
    label: str = ""
    """Name in results."""
    grip: Vector = (0.0, 0.0, 0.0)
    """m from the object's centre to the grip point, in the object's frame."""
    put_down_by: int | None = None
    """Index in the task of the stage that puts the object down at the goal; None: no stage does."""
    deceleration: float = 3.9
    """m/s² at which the object slows down when it glides or rolls."""
    rolls_by_axis: bool = True
    """Whether rolling friction slows each horizontal axis by itself, see `World.rolls_by_axis`."""


@dataclass(slots=True)
class StageContext:
    """`N` episodes as a stage sees them. Read only: the arrays belong to the engine, or are views of them."""

    state: State
    progress: Progress
    goals: Array
    """`(N, G, 3)`: every goal point of the task, m in the world frame."""
    bound: StageBinding

    @property
    def thresholds(self) -> Thresholds:
        """Thresholds of the predicates."""
        return self.bound.thresholds

    @property
    def goal(self) -> Array:
        """`(N, 3)` m, world frame; for a part `(position, 0, 0)` in m or rad."""
        return self.goals[:, self.bound.goal_slot]

    @property
    def path(self) -> Array:
        """`(N, P, 3)` m: the points of the path; the goal is the last."""
        return self.goals[:, [*self.bound.path_slots, self.bound.goal_slot]]

    @property
    def goal_yaw(self) -> Array:
        """`(N,)` rad: goal yaw of the object."""
        return self.goals[:, self.bound.yaw_slot or 0, 0]

    @property
    def has_target(self) -> bool:
        """Whether the stage acts on an object or a part, not just on a point."""
        return self.bound.object is not None or self.bound.part is not None

    @property
    def target(self) -> Array:
        """`(N, 3)` m: point to approach: the object's grip point, the part's handle or, without either, the goal."""
        if self.bound.object is not None:
            return self.grip_position(self.bound.grip)
        if self.bound.part is not None:
            return self.state.part_handle_position[:, self.bound.part]
        return self.goal

    @property
    def ee_position(self) -> Array:
        """`(N, 3)` m: the end-effector point."""
        return self.state.ee_position

    @property
    def object_position(self) -> Array:
        """`(N, 3)` m: centre of mass of the stage's object, or the handle of its part."""
        return self.target if self.bound.object is None else self.state.object_position[:, self.bound.object]

    def grip_position(self, grip: Vector) -> Array:
        """`(N, 3)` m: a point of the object in the world frame.

        Args:
            grip: The point `(3,)` m in the object's frame, turned by its yaw only.
        """
        if not any(grip):
            return self._object_middle
        xp = namespace(self.state.time)
        cosine, sine = xp.cos(self.object_yaw), xp.sin(self.object_yaw)
        offset = [cosine * grip[0] - sine * grip[1], sine * grip[0] + cosine * grip[1], 0.0 * cosine + grip[2]]
        return self.object_position + xp.stack(offset, axis=-1)

    @property
    def _object_middle(self) -> Array:
        """`(N, 3)` m: middle of the object's volume."""
        position = self.object_position
        if self.bound.object is None:
            return position
        middles = self.state.object_middle
        if not middles.shape[1] or (type(middles) is np.ndarray and not middles.any()):
            return position
        middle = middles[:, self.bound.object]
        return position + rotated(middle, self.state.object_orientation[:, self.bound.object])

    @property
    def object_velocity(self) -> Array:
        """`(N, 3)` m/s: linear velocity of the object."""
        return self.state.object_velocity[:, self.bound.object or 0]

    @property
    def object_spin(self) -> Array:
        """`(N, 3)` rad/s: angular velocity of the object."""
        return self.state.object_angular_velocity[:, self.bound.object or 0]

    @property
    def object_yaw(self) -> Array:
        """`(N,)` rad: yaw of the object's x axis."""
        return yaw(self.state.object_orientation[:, self.bound.object or 0])

    @property
    def part_position(self) -> Array:
        """`(N,)` m or rad: joint position of the part."""
        return self.state.part_position[:, self.bound.part or 0]

    @property
    def handle_motion(self) -> Array:
        """`(N, 3)` m/m or m/rad: derivative of the handle's position by the part's joint position."""
        return self.state.part_handle_motion[:, self.bound.part or 0]

    @property
    def finger_contact(self) -> Array:
        """`(N, F)` bool: which fingers press on the object; `F` = 0 for a part."""
        if self.bound.object is None:
            xp = namespace(self.state.time)
            return xp.zeros_like(self.state.time[:, None][:, :0], dtype=xp.bool)
        return self.state.finger_contact[:, self.bound.object]

    @property
    def start_ee_position(self) -> Array:
        """`(N, 3)` m: end effector when the stage began."""
        return self.progress.start_ee_position

    @property
    def start_object_position(self) -> Array:
        """`(N, 3)` m: object when the stage began."""
        return self.progress.start_object_position[:, self.bound.object or 0]

    @property
    def start_part_position(self) -> Array:
        """`(N,)` m or rad: part when the stage began."""
        return self.progress.start_part_position[:, self.bound.part or 0]

    @property
    def count(self) -> Array:
        """`(N,)`: the stage's counter since it began, see `Stage.count`."""
        return self.progress.count


def yaw(orientation: Array) -> Array:
    """`(…,)` rad: yaw of the x axis of quaternions `(…, 4)`, seen from above."""
    xp = namespace(orientation)
    x, y, z, w = (orientation[..., i] for i in range(4))
    return xp.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def rotated(vector: Array, orientation: Array) -> Array:
    """`(N, 3)`: vectors `(N, 3)` rotated by quaternions `(N, 4)`."""
    xp = namespace(vector)
    axis, scalar = orientation[:, :3], orientation[:, 3:]

    def across(other: Array) -> Array:
        (ax, ay, az), (x, y, z) = (tuple(array[:, i] for i in range(3)) for array in (axis, other))
        return xp.stack([ay * z - az * y, az * x - ax * z, ax * y - ay * x], axis=-1)

    turned = across(vector)
    return vector + 2.0 * (scalar * turned + across(turned))


def wrapped(angle: Array) -> Array:
    """Return the same angle within ±π."""
    xp = namespace(angle)
    return xp.atan2(xp.sin(angle), xp.cos(angle))


@dataclass(slots=True)
class ArmCommand:
    """Command of an expert for one control step; every array has the batch axis."""

    target: Array
    """`(N, 3)` m, world frame: target of the end effector."""
    gripper: Array | float
    """`(N,)`, or a number for all: −1 closed to +1 open."""
    yaw_change: Array | None = None
    """`(N,)` rad: change of the tool's yaw that is still missing; None: no change."""
    second_target: Array | None = None
    """`(N, 3)` m: target of the second arm's end effector; None, or NaN in a row: its position at the reset."""
    second_gripper: Array | float = 1.0
    """`(N,)`, or a number for all: gripper of the second arm."""


StartPose = Callable[[StageContext], Array]
"""Function that returns where the end effector should be when a stage begins, `(N, 3)` m."""
Condition = Callable[[StageContext], Array]
"""Function that returns whether a condition holds, `(N,)` bool."""
