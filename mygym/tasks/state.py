"""`State`: the physical state of a batch of worlds, and `Progress`: what a task remembers of its episodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import array_api_compat
import numpy as np

from mygym.types import Array

CONTROL_HZ = 25.0
"""Control steps per simulated second."""

TIME_STEP = 1.0 / CONTROL_HZ
"""s: duration of a control step."""


def namespace(array: Array) -> Any:
    """Return the array-API namespace of an array; fast for numpy, because every control step calls it often."""
    if type(array) is np.ndarray:
        return np
    if array_api_compat.is_torch_array(array):
        from mygym.tasks import torch_namespace

        return torch_namespace
    return array_api_compat.array_namespace(array)


def on_host(array: Array) -> bool:
    """Return whether Python can read the array's values at once; on a GPU it would wait for all earlier operations."""
    return type(array) is np.ndarray or array.device.type == "cpu"


def constant(values: tuple[Any, ...], like: Array) -> Array:
    """Return numbers, in nested tuples, as an array with the library, dtype and device of `like`.

    Equal arguments give the same array, which must not be changed: on a GPU, a new array is a copy from the host, for
    which a step would wait.
    """
    return _constant(values, namespace(like), like.dtype, array_api_compat.device(like))


@cache
def _constant(values: tuple[Any, ...], xp: Any, dtype: Any, device: Any) -> Array:
    return xp.asarray(values, dtype=dtype, device=device)


@dataclass(slots=True)
class State:
    """Physical state of `N` worlds with `J` arm joints, `F` fingers, `k` objects and `p` articulated parts.

    A robot may have `A` arms: `ee_…`, the gripper and the fingers belong to the first, which acts in tasks of one arm.

    World frame: origin on the table top under the middle of the work area, z up. SI units, quaternions `(x, y, z, w)`.
    The engine owns these arrays and refills them in place: copy an array to keep it beyond a control step.
    """

    time: Array
    """`(N,)` simulated seconds since the reset."""
    ee_position: Array
    """`(N, 3)` m, the point between the finger tips (or the tool tip of a robot without a gripper)."""
    ee_orientation: Array
    """`(N, 4)` unit quaternion of the end-effector frame."""
    ee_velocity: Array
    """`(N, 3)` m/s, of the end-effector point."""
    tool_yaw: Array
    """`(N,)` rad: yaw of the tool relative to its home pose, see `yaw_between`; 0 if the tool cannot turn."""
    joint_position: Array
    """`(N, J)` rad, joints of all arms."""
    joint_velocity: Array
    """`(N, J)` rad/s, joints of all arms."""
    gripper_width: Array
    """`(N,)` m between the fingers, 0 for a robot without a gripper."""
    gripper_command: Array
    """`(N,)` commanded opening of the gripper, 0 closed to 1 open. Fingers on an object do not show it."""
    command_offset: Array
    """`(N, L)`: commanded minus measured position: 3 numbers in m, world frame, for end-effector controllers; J in rad
    for `joint_delta`; none for controllers that do not remember their command."""
    tool_yaw_offset: Array
    """`(N,)` rad: commanded minus measured tool yaw; 0 if it is not commanded."""
    finger_contact: Array
    """`(N, k, F)` bool: finger `f` pressed on object `k` at the end of the last control step."""
    touch: Array
    """`(N, k)` bool: any link of the robot, of any arm, pressed on object `k` at the end of the last control step."""
    object_depth: Array
    """`(N, k)` m: depth to which the robot has pressed object `k` into another body, such as the table. Bullet allows
    this, because its contacts yield to a strong arm."""
    hit: Array
    """`(N, k)` bool: object `k` met a body other than the robot in the last control step, or lies on it; false while
    the robot presses on the object."""
    hit_position: Array
    """`(N, k, 3)` m: position of object `k` when it met the other body; `object_position` without `hit`."""
    object_position: Array
    """`(N, k, 3)` m, centres of mass."""
    object_orientation: Array
    """`(N, k, 4)` unit quaternions."""
    object_velocity: Array
    """`(N, k, 3)` m/s."""
    object_angular_velocity: Array
    """`(N, k, 3)` rad/s."""
    part_position: Array
    """`(N, p)` m or rad: joint positions of drawers, doors, levers …"""
    part_velocity: Array
    """`(N, p)` m/s or rad/s."""
    part_handle_position: Array
    """`(N, p, 3)` m: handles of the parts."""
    part_handle_motion: Array
    """`(N, p, 3)` m/m or m/rad: derivative of each handle's position by the joint position."""
    second_ee_position: Array
    """`(N, A - 1, 3)` m: end-effector points of the arms after the first."""
    second_ee_orientation: Array
    """`(N, A - 1, 4)` unit quaternions."""
    second_ee_velocity: Array
    """`(N, A - 1, 3)` m/s."""
    second_gripper_width: Array
    """`(N, A - 1)` m."""
    second_finger_contact: Array
    """`(N, k, G)` bool: as `finger_contact`, for the `G` fingers of the second arm; `G = 0` if it has no gripper."""
    object_present: Array
    """`(N, k)` bool: whether the object is in this episode; the other numbers of an absent distractor are 0."""
    object_size: Array
    """`(N, k, 3)` m: edges of the object's bounding box, along the object's axes."""
    object_middle: Array
    """`(N, k, 3)` m: from the centre of mass to the middle of the object's volume, where a hand grasps it, along the
    object's axes; 0 for an object of one density, `(N, 0, 3)` if all objects are such."""

    @classmethod
    def zeros(
        cls,
        n: int,
        joints: int,
        fingers: int = 0,
        objects: int = 0,
        parts: int = 0,
        arms: int = 1,
        second_fingers: int = 0,
        lead: int = 0,
    ) -> State:
        """Return a state of `n` worlds with zeros, also in orientations; all objects are present.

        The engine fills it before use.

        Args:
            n: Number of worlds, the batch axis `N`.
            joints: Number of joints of all arms.
            fingers: Number of fingers of the first hand.
            objects: Number of objects, with distractors.
            parts: Number of articulated parts.
            arms: Number of arms.
            second_fingers: Number of fingers of the second hand.
            lead: Length `L` of `command_offset`.
        """
        return cls(
            time=np.zeros(n),
            ee_position=np.zeros((n, 3)),
            ee_orientation=np.zeros((n, 4)),
            ee_velocity=np.zeros((n, 3)),
            tool_yaw=np.zeros(n),
            joint_position=np.zeros((n, joints)),
            joint_velocity=np.zeros((n, joints)),
            gripper_width=np.zeros(n),
            gripper_command=np.ones(n),
            command_offset=np.zeros((n, lead)),
            tool_yaw_offset=np.zeros(n),
            finger_contact=np.zeros((n, objects, fingers), dtype=bool),
            touch=np.zeros((n, objects), dtype=bool),
            object_depth=np.zeros((n, objects)),
            hit=np.zeros((n, objects), dtype=bool),
            hit_position=np.zeros((n, objects, 3)),
            object_position=np.zeros((n, objects, 3)),
            object_orientation=np.zeros((n, objects, 4)),
            object_velocity=np.zeros((n, objects, 3)),
            object_angular_velocity=np.zeros((n, objects, 3)),
            part_position=np.zeros((n, parts)),
            second_ee_position=np.zeros((n, arms - 1, 3)),
            second_ee_orientation=np.zeros((n, arms - 1, 4)),
            second_ee_velocity=np.zeros((n, arms - 1, 3)),
            second_gripper_width=np.zeros((n, arms - 1)),
            second_finger_contact=np.zeros((n, objects, second_fingers), dtype=bool),
            part_velocity=np.zeros((n, parts)),
            part_handle_position=np.zeros((n, parts, 3)),
            part_handle_motion=np.zeros((n, parts, 3)),
            object_present=np.ones((n, objects), dtype=bool),
            object_size=np.zeros((n, objects, 3)),
            object_middle=np.zeros((n, objects, 3)),
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of `N` episodes through the stages of a task."""

    stage: Array
    """`(N,)` int: index of the active stage; the number of stages when all are complete."""
    held: Array
    """`(N,)` int: consecutive control steps for which all stages have been complete."""
    start_ee_position: Array
    """`(N, 3)` m: end effector when the active stage began."""
    start_object_position: Array
    """`(N, k, 3)` m: objects when the active stage began."""
    start_part_position: Array
    """`(N, p)` m or rad: articulated parts when the active stage began."""
    count: Array
    """`(N,)` int: counter of the active stage since it began, such as points passed or control steps on target."""

    @classmethod
    def at_reset(cls, state: State) -> Progress:
        """Progress of episodes that start in `state`."""
        xp = namespace(state.time)
        zeros = xp.zeros_like(state.time, dtype=xp.int64)
        return cls(
            stage=zeros,
            held=xp.zeros_like(zeros),
            start_ee_position=xp.asarray(state.ee_position, copy=True),
            start_object_position=xp.asarray(state.object_position, copy=True),
            start_part_position=xp.asarray(state.part_position, copy=True),
            count=xp.zeros_like(zeros),
        )

    def restarted(self, mask: Array, state: State) -> Progress:
        """Return the progress in which the episodes of `mask` `(N,)` bool start in `state`; the others continue."""
        return Progress(self.stage * ~mask, self.held * ~mask, *self.starts(mask, state), self.count * ~mask)

    def starts(self, mask: Array, state: State) -> tuple[Array, Array, Array]:
        """Return end effector, objects and parts when the active stage began: in `state` for the episodes of `mask`."""
        xp = namespace(state.time)
        points, objects = mask[:, None], mask[:, None, None]
        return (
            xp.where(points, state.ee_position, self.start_ee_position),
            xp.where(objects, state.object_position, self.start_object_position),
            xp.where(points, state.part_position, self.start_part_position),
        )
