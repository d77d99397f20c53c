"""Observations: lists of named components, which are functions of a `EpisodeContext` that return `(N, d)`.

The components themselves are in `mygym.tasks.components`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mygym.registry import registry
from mygym.registry.signatures import first_line
from mygym.tasks.progress import Progress
from mygym.tasks.state import State
from mygym.tasks.task import Task
from mygym.types import Array


@dataclass(slots=True)
class EpisodeContext:
    """What components see."""

    task: Task
    progress: Progress
    state: State
    goals: Array
    """`(N, G, 3)`: every goal point, m in the world frame."""


Function = Callable[[EpisodeContext], Array]


@dataclass(frozen=True)
class Component:
    """One part of an observation."""

    function: Function
    bound: float
    """Values are within ± this, in the component's unit: generous, what lies beyond is clipped."""
    of: str = "robot"
    """What it tells about: the robot, or what a task may have none or several of, such as `objects` (then `d` = 0)."""
    size: int = 0
    """How many numbers it has for each of these; of the robot it follows from the robot."""
    tells_goal: bool = False
    """Whether it depends on the goal, so that hindsight, which changes the goal afterwards, would make it wrong."""
    shape: str = ""
    """As the function's documentation begins with it, in letters that `SYMBOLS` explains."""
    unit: str = ""
    """Empty where it has none."""
    frame: str = ""
    """Frame or axes; empty where it has none."""


SYMBOLS: Mapping[str, str] = {
    "N": "environments that are looked at together",
    "J": "joints of the robot",
    "A": "arms of the robot",
    "L": "numbers that the controller remembers",
    "R": "objects that the task is about",
    "C": "distractors",
    "p": "drawers, doors, levers that the task is about",
}
"""Letters in shapes."""


def register_observation(
    name: str,
    bound: float,
    of: str = "robot",
    size: int = 0,
    tells_goal: bool = False,
    *,
    unit: str = "",
    frame: str = "",
    override: bool = False,
) -> Callable[[Function], Function]:
    """Decorator that registers a component; its first line of documentation is its help, and begins with its shape.

    Args:
        name: By which environments know it.
        bound: As of `Component`.
        of: As of `Component`.
        size: As of `Component`.
        tells_goal: As of `Component`.
        unit: As of `Component`.
        frame: As of `Component`.
        override: Replace a component of the same name.
    """

    def register(function: Function) -> Function:
        help = first_line(function)
        shape = re.match(r"`(\(.*?\))`(?=[ :.,])", help)
        component = Component(function, bound, of, size, tells_goal, shape[1] if shape else "", unit, frame)
        registry("observation").register(name, component, help, override=override)
        return function

    return register


def find_component(name: str) -> Component:
    """The registered component.

    Raises:
        RegistryError: There is none of this name.
    """
    found: Component = registry("observation").get(name, "observations").load()
    return found


def has_memory(control: str) -> bool:
    """Whether a controller goes on from what it has commanded last, so that what happens next depends on that too."""
    return control.startswith("ee") or control == "joint_delta"


def default_components(task: Task, control: str, arms: int = 1) -> tuple[str, ...]:
    """Names of the components that a task needs under a controller: the whole state that matters, nothing twice."""
    names = ["ee_position", "ee_velocity"]
    if task.needs_turning:
        names += ["tool_yaw", "tool_yaw_offset"] if has_memory(control) else ["tool_yaw"]
    if arms > 1:
        names += ["second_ee_position", "second_ee_velocity"]
    if control.startswith("joint"):
        names += ["joint_position", "joint_velocity"]
    if has_memory(control):
        names += ["command_offset"]
    if task.uses_gripper:
        names += ["gripper_width", "second_gripper_width"] if arms > 1 else ["gripper_width"]
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
    if len(task.bound_stages) > 1:
        names += ["stage"]
    if any(bound.stage.waypoint is not None for bound in task.bound_stages):
        names += ["waypoint"]
    return tuple(names)
