"""Named observation components: functions of `(task, progress, state)` that return `(N, d)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mygym.parameters import first_line
from mygym.registry import registry
from mygym.tasks.progress import Progress
from mygym.tasks.state import Array, State, namespace
from mygym.tasks.task import Task

Function = Callable[[Task, Progress, State], Array]


@dataclass(frozen=True)
class Component:
    """One part of an observation."""

    function: Function
    bound: float
    """Values are within ± this, in the component's unit: generous, what lies beyond is clipped."""


def register_observation(name: str, bound: float) -> Callable[[Function], Function]:
    """Decorator that registers a component; its first line of documentation is its help.

    Args:
        name: By which environments know it.
        bound: As of `Component`.
    """

    def register(function: Function) -> Function:
        registry("observation").register(name, Component(function, bound), first_line(function))
        return function

    return register


def find_component(name: str) -> Component:
    """The registered component.

    Raises:
        RegistryError: There is none of this name.
    """
    found: Component = registry("observation").get(name).load()
    return found


@register_observation("ee_position", 5)
def ee_position(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3)` m, world frame: the end-effector point."""
    return state.ee_position


@register_observation("ee_velocity", 20)
def ee_velocity(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3)` m/s, world frame."""
    return state.ee_velocity


@register_observation("joint_position", 10)
def joint_position(task: Task, progress: Progress, state: State) -> Array:
    """`(N, J)` rad."""
    return state.joint_position


@register_observation("joint_velocity", 50)
def joint_velocity(task: Task, progress: Progress, state: State) -> Array:
    """`(N, J)` rad/s."""
    return state.joint_velocity


@register_observation("gripper_width", 1)
def gripper_width(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 1)` m between the fingers."""
    return state.gripper_width[:, None]


@register_observation("other_ee_position", 5)
def other_ee_position(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3 (A - 1))` m, world frame: the end-effector points of the arms but the first."""
    return _in_a_row(state.other_ee_position)


@register_observation("other_ee_velocity", 20)
def other_ee_velocity(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3 (A - 1))` m/s, world frame."""
    return _in_a_row(state.other_ee_velocity)


@register_observation("other_gripper_width", 1)
def other_gripper_width(task: Task, progress: Progress, state: State) -> Array:
    """`(N, A - 1)` m between the fingers of the arms but the first."""
    return state.other_gripper_width


def _in_a_row(values: Array) -> Array:
    """`(N, A, d)` as `(N, A d)`."""
    return namespace(values).reshape(values, (values.shape[0], -1))


@register_observation("object_position", 5)
def object_position(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3)` m, world frame: the first object's centre of mass."""
    return state.object_position[:, 0]


@register_observation("object_from_ee", 5)
def object_from_ee(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3)` m, world axes: from the end effector to the first object."""
    return state.object_position[:, 0] - state.ee_position


@register_observation("object_orientation", 1)
def object_orientation(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 4)` unit quaternion `(x, y, z, w)` of the first object, world frame, with w ≥ 0."""
    xp = namespace(state.time)
    quaternion = state.object_orientation[:, 0]
    return xp.where(quaternion[:, 3:] < 0, -quaternion, quaternion)


@register_observation("object_velocity", 20)
def object_velocity(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3)` m/s, world frame."""
    return state.object_velocity[:, 0]


@register_observation("object_angular_velocity", 200)
def object_angular_velocity(task: Task, progress: Progress, state: State) -> Array:
    """`(N, 3)` rad/s, world frame."""
    return state.object_angular_velocity[:, 0]


@register_observation("stage", 1)
def stage(task: Task, progress: Progress, state: State) -> Array:
    """`(N, stages + 1)`: one-hot of the active stage, the last for all done."""
    xp = namespace(state.time)
    return xp.astype(progress.stage[:, None] == xp.arange(len(task.plan.stages) + 1), state.ee_position.dtype)


def default_components(task: Task, control: str, arms: int = 1) -> tuple[str, ...]:
    """Names of the components that a task needs under a controller: the whole state that matters, nothing twice."""
    names = ["ee_position", "ee_velocity"]
    if arms > 1:
        names += ["other_ee_position", "other_ee_velocity"]
    if control.startswith("joint"):
        names += ["joint_position", "joint_velocity"]
    if task.needs_gripper:
        names += ["gripper_width", "other_gripper_width"] if arms > 1 else ["gripper_width"]
    if task.has_object:
        names += [
            "object_position",
            "object_from_ee",
            "object_orientation",
            "object_velocity",
            "object_angular_velocity",
        ]
    if len(task.plan.stages) > 1:
        names += ["stage"]
    return tuple(names)
