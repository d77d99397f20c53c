"""What a stage sees: the state, the goal and the progress of the thing that it acts on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mygym.tasks.progress import Progress
from mygym.tasks.state import State, namespace
from mygym.types import Array

if TYPE_CHECKING:
    from mygym.tasks.stage import Stage


@dataclass(frozen=True)
class Thresholds:
    """Distances at which facts begin to hold."""

    tolerance: float = 0.05
    """Of the goal: m, or rad of a part that turns."""
    near: float = 0.08
    """m between the end effector and the object's centre, or the handle."""
    clear: float = 0.12
    """m between the end effector and the object's centre, or the handle, to be away from it."""
    angle: float = 0.15
    """rad: of the goal's heading."""
    rest: float = 0.05
    """m/s below which an object is at rest."""
    slack: float = 1.5
    """A distance fact once given is lost only beyond `slack` times its threshold: no flicker at the edge."""


@dataclass(frozen=True)
class BoundStage:
    """A stage bound to what it acts on."""

    stage: Stage
    subtask: int
    """Number of the sub-task that it belongs to."""
    object: int | None
    """Slot of the object in `State`; None: the stage acts on a part, or on nothing."""
    part: int | None
    """Slot of the drawer, door, lever … in `State`."""
    goal_slot: int
    """Slot of the sub-task's goal point in the goals `(N, G, 3)`."""
    path_slots: tuple[int, ...] = ()
    """Slots of the points on the way there, in order; empty: straight on."""
    yaw_slot: int | None = None
    """Slot of the heading (its first number, rad) that the object should have."""
    thresholds: Thresholds = Thresholds()
    label: str = ""
    """Its name in results."""
    grip: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """m from the object's centre to where the hand takes it, along its axes as it lies."""
    deceleration: float = 3.9
    """m/s² at which the object slows down when it glides or rolls on."""


@dataclass(slots=True)
class StageContext:
    """`N` episodes as one step sees them. Arrays are the engine's or views of them: nobody writes into them."""

    state: State
    progress: Progress
    goals: Array
    """`(N, G, 3)`: every goal point of the task, m in the world frame."""
    bound: BoundStage

    @property
    def thresholds(self) -> Thresholds:
        """Distances of the facts."""
        return self.bound.thresholds

    @property
    def goal(self) -> Array:
        """`(N, 3)` m, world frame; of a part its position (m or rad) comes first, then zeros."""
        return self.goals[:, self.bound.goal_slot]

    @property
    def path(self) -> Array:
        """`(N, P, 3)` m: the points to pass, the goal last."""
        return self.goals[:, [*self.bound.path_slots, self.bound.goal_slot]]

    @property
    def goal_yaw(self) -> Array:
        """`(N,)` rad: the yaw that the object should have."""
        return self.goals[:, self.bound.yaw_slot or 0, 0]

    @property
    def has_target(self) -> bool:
        """Whether there is an object or a part to act on, not just a point."""
        return self.bound.object is not None or self.bound.part is not None

    @property
    def target(self) -> Array:
        """`(N, 3)` m: what is approached: where the object is taken, the handle, or, without either, the goal."""
        if self.bound.object is not None:
            return self.grip_position(self.bound.grip)
        if self.bound.part is not None:
            return self.state.part_handle_position[:, self.bound.part]
        return self.goal

    @property
    def ee_position(self) -> Array:
        """`(N, 3)` m."""
        return self.state.ee_position

    @property
    def object_position(self) -> Array:
        """`(N, 3)` m: of the object that the stage acts on; of a part its handle's."""
        return self.target if self.bound.object is None else self.state.object_position[:, self.bound.object]

    def grip_position(self, grip: tuple[float, float, float]) -> Array:
        """`(N, 3)` m: the place on the object that is so far from its centre, along its axes as it lies."""
        if not any(grip):
            return self.object_position
        xp = namespace(self.state.time)
        cosine, sine = xp.cos(self.object_yaw), xp.sin(self.object_yaw)
        offset = [cosine * grip[0] - sine * grip[1], sine * grip[0] + cosine * grip[1], 0.0 * cosine + grip[2]]
        return self.object_position + xp.stack(offset, axis=-1)

    @property
    def object_velocity(self) -> Array:
        """`(N, 3)` m/s."""
        return self.state.object_velocity[:, self.bound.object or 0]

    @property
    def object_spin(self) -> Array:
        """`(N, 3)` rad/s."""
        return self.state.object_angular_velocity[:, self.bound.object or 0]

    @property
    def object_yaw(self) -> Array:
        """`(N,)` rad: the object's yaw, that of its x axis."""
        return yaw(self.state.object_orientation[:, self.bound.object or 0])

    @property
    def part_position(self) -> Array:
        """`(N,)` m or rad."""
        return self.state.part_position[:, self.bound.part or 0]

    @property
    def handle_motion(self) -> Array:
        """`(N, 3)`: how the part's handle moves with it, m/m or m/rad."""
        return self.state.part_handle_motion[:, self.bound.part or 0]

    @property
    def finger_contact(self) -> Array:
        """`(N, F)` bool: which fingers press on the object; `F` = 0 for a part."""
        if self.bound.object is None:
            return _none(self.state)
        return self.state.finger_contact[:, self.bound.object]

    @property
    def start_ee_position(self) -> Array:
        """`(N, 3)` m: where the end effector was when the stage began."""
        return self.progress.start_ee_position

    @property
    def start_object_position(self) -> Array:
        """`(N, 3)` m: where the object was when the stage began."""
        return self.progress.start_object_position[:, self.bound.object or 0]

    @property
    def start_part_position(self) -> Array:
        """`(N,)` m or rad: where the part was when the stage began."""
        return self.progress.start_part_position[:, self.bound.part or 0]

    @property
    def count(self) -> Array:
        """`(N,)`: what the stage has counted since it began, see `Stage.count`."""
        return self.progress.count


def yaw(orientation: Array) -> Array:
    """`(…,)` rad: the yaw of quaternions `(…, 4)`, that of their x axis seen from above."""
    xp = namespace(orientation)
    x, y, z, w = (orientation[..., i] for i in range(4))
    return xp.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def wrapped(angle: Array) -> Array:
    """The same angle within ±π."""
    xp = namespace(angle)
    return xp.atan2(xp.sin(angle), xp.cos(angle))


def _none(state: State) -> Array:
    xp = namespace(state.time)
    return xp.zeros((state.time.shape[0], 0), dtype=xp.bool)


@dataclass(slots=True)
class ArmCommand:
    """What an expert wants of a robot in a step; every array has the batch axis."""

    target: Array
    """`(N, 3)` m, world frame: where the end effector should be."""
    gripper: Array | float
    """`(N,)` or one for all: −1 closed to +1 open."""
    turn_by: Array | None = None
    """`(N,)` rad by which the tool should turn yet about the vertical; None: not at all."""
    second_target: Array | None = None
    """`(N, 3)` m: where the second arm's end effector should be; None: where it was at the reset."""
    second_gripper: Array | float = 1.0
    """`(N,)` or one for all: of the second arm."""


StartPose = Callable[[StageContext], Array]
"""Where the end effector should be when a stage begins, `(N, 3)` m."""
Condition = Callable[[StageContext], Array]
"""Whether something holds, `(N,)` bool."""
