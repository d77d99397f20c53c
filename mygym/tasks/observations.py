"""Named observation components: functions of a `Situation` that return `(N, d)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mygym.parameters import first_line
from mygym.registry import registry
from mygym.tasks.progress import Progress
from mygym.tasks.state import Array, State, namespace
from mygym.tasks.task import Task, active
from mygym.tasks.view import View


@dataclass(slots=True)
class Situation:
    """What components see."""

    task: Task
    progress: Progress
    state: State
    goals: Array
    """`(N, G, 3)`: every goal point, m in the world frame."""


Function = Callable[[Situation], Array]


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
def ee_position(situation: Situation) -> Array:
    """`(N, 3)` m, world frame: the end-effector point."""
    return situation.state.ee_position


@register_observation("ee_velocity", 20)
def ee_velocity(situation: Situation) -> Array:
    """`(N, 3)` m/s, world frame."""
    return situation.state.ee_velocity


@register_observation("ee_turn", 4)
def ee_turn(situation: Situation) -> Array:
    """`(N, 1)` rad by which the tool is turned about the vertical from how it is held at home."""
    return situation.state.ee_turn[:, None]


@register_observation("joint_position", 10)
def joint_position(situation: Situation) -> Array:
    """`(N, J)` rad."""
    return situation.state.joint_position


@register_observation("joint_velocity", 50)
def joint_velocity(situation: Situation) -> Array:
    """`(N, J)` rad/s."""
    return situation.state.joint_velocity


@register_observation("gripper_width", 1)
def gripper_width(situation: Situation) -> Array:
    """`(N, 1)` m between the fingers."""
    return situation.state.gripper_width[:, None]


@register_observation("other_ee_position", 5)
def other_ee_position(situation: Situation) -> Array:
    """`(N, 3 (A - 1))` m, world frame: the end-effector points of the arms but the first."""
    return _in_a_row(situation.state.other_ee_position)


@register_observation("other_ee_velocity", 20)
def other_ee_velocity(situation: Situation) -> Array:
    """`(N, 3 (A - 1))` m/s, world frame."""
    return _in_a_row(situation.state.other_ee_velocity)


@register_observation("other_gripper_width", 1)
def other_gripper_width(situation: Situation) -> Array:
    """`(N, A - 1)` m between the fingers of the arms but the first."""
    return situation.state.other_gripper_width


def _in_a_row(values: Array) -> Array:
    """`(N, A, d)` as `(N, A d)`."""
    return namespace(values).reshape(values, (values.shape[0], -1))


def _of_roles(situation: Situation, values: Array) -> Array:
    """`(N, k, d)` of all objects as `(N, R d)` of those that the task is about."""
    return _in_a_row(values[:, : len(situation.task.roles)])


@register_observation("object_position", 5)
def object_position(situation: Situation) -> Array:
    """`(N, 3 R)` m, world frame: centres of mass of the `R` objects that the task is about."""
    return _of_roles(situation, situation.state.object_position)


@register_observation("object_from_ee", 5)
def object_from_ee(situation: Situation) -> Array:
    """`(N, 3 R)` m, world axes: from the end effector to the objects."""
    return _of_roles(situation, situation.state.object_position - situation.state.ee_position[:, None])


@register_observation("object_orientation", 1)
def object_orientation(situation: Situation) -> Array:
    """`(N, 4 R)` unit quaternions `(x, y, z, w)` of the objects, world frame, with w ≥ 0."""
    xp = namespace(situation.state.time)
    quaternion = situation.state.object_orientation
    return _of_roles(situation, xp.where(quaternion[..., 3:] < 0, -quaternion, quaternion))


@register_observation("object_velocity", 20)
def object_velocity(situation: Situation) -> Array:
    """`(N, 3 R)` m/s, world frame."""
    return _of_roles(situation, situation.state.object_velocity)


@register_observation("object_angular_velocity", 200)
def object_angular_velocity(situation: Situation) -> Array:
    """`(N, 3 R)` rad/s, world frame."""
    return _of_roles(situation, situation.state.object_angular_velocity)


@register_observation("part_position", 10)
def part_position(situation: Situation) -> Array:
    """`(N, p)` m or rad: how far the drawers, doors, levers that the task is about are."""
    return situation.state.part_position[:, list(situation.task.part_slots)]


@register_observation("part_velocity", 100)
def part_velocity(situation: Situation) -> Array:
    """`(N, p)` m/s or rad/s."""
    return situation.state.part_velocity[:, list(situation.task.part_slots)]


@register_observation("handle_from_ee", 5)
def handle_from_ee(situation: Situation) -> Array:
    """`(N, 3 p)` m, world axes: from the end effector to their handles."""
    handles = situation.state.part_handle_position[:, list(situation.task.part_slots)]
    return _in_a_row(handles - situation.state.ee_position[:, None])


@register_observation("waypoint", 5)
def waypoint(situation: Situation) -> Array:
    """`(N, 3)` m, world frame: where the object should be now, on a path or behind a moving goal."""
    xp = namespace(situation.state.time)
    steps, last = situation.task.steps, len(situation.task.steps) - 1
    points = situation.goals[:, steps[0].place]
    for index in active(situation.progress.stage, last + 1):
        step = steps[min(index, last)]
        view = View(situation.state, situation.progress, situation.goals, step)
        here = situation.progress.stage == index
        points = xp.where(here[:, None], step.stage.waypoint(view) if step.stage.waypoint else view.goal, points)
    return points


@register_observation("stage", 1)
def stage(situation: Situation) -> Array:
    """`(N, stages + 1)`: one-hot of the active stage, the last for all done."""
    xp = namespace(situation.state.time)
    stages = xp.arange(len(situation.task.steps) + 1)
    return xp.astype(situation.progress.stage[:, None] == stages, situation.state.ee_position.dtype)


def default_components(task: Task, control: str, arms: int = 1) -> tuple[str, ...]:
    """Names of the components that a task needs under a controller: the whole state that matters, nothing twice."""
    names = ["ee_position", "ee_velocity"]
    if task.needs_turning:
        names += ["ee_turn"]
    if arms > 1:
        names += ["other_ee_position", "other_ee_velocity"]
    if control.startswith("joint"):
        names += ["joint_position", "joint_velocity"]
    if task.uses_gripper:
        names += ["gripper_width", "other_gripper_width"] if arms > 1 else ["gripper_width"]
    if task.has_object:
        names += [
            "object_position",
            "object_from_ee",
            "object_orientation",
            "object_velocity",
            "object_angular_velocity",
        ]
    if task.part_slots:
        names += ["part_position", "part_velocity", "handle_from_ee"]
    if len(task.steps) > 1:
        names += ["stage"]
    if any(step.stage.waypoint is not None for step in task.steps):
        names += ["waypoint"]
    return tuple(names)
