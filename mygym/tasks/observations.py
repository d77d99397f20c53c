"""Observations: lists of named components, each a function of an `EpisodeContext` that returns `(N, d)`.

The built-in components are in `mygym.tasks.components`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mygym.registry import decorator, registry
from mygym.registry.signatures import first_line
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.task import Task
from mygym.types import Array

ComponentFunction = Callable[[EpisodeContext], Array]


@dataclass(frozen=True)
class Component:
    """A registered observation component."""

    function: ComponentFunction
    bound: float
    """Values are clipped to ± `bound`, in the component's unit."""
    of: str = "robot"
    """Subject: the robot, or e.g. `objects`, whose number depends on the task (without any, `d` = 0)."""
    size: int = 0
    """Numbers for each subject; 0: `d` depends on the robot."""
    depends_on_goal: bool = False
    """Whether the component depends on the goal: hindsight replaces goals, which would make its values wrong."""
    measured: bool = True
    """Whether a sensor would measure the component, so that the randomizer `observation_noise` applies to it."""
    shape: str = ""
    """Shape at the beginning of the function's docstring, with the letters of `SYMBOLS`."""
    unit: str = ""
    """Empty: none."""
    frame: str = ""
    """Frame or axes; empty: none."""


SYMBOLS: Mapping[str, str] = {
    "N": "environments in a batch",
    "J": "joints of the robot",
    "A": "arms of the robot",
    "L": "numbers of the controller's command that it remembers",
    "R": "objects of the task",
    "C": "distractors",
    "p": "articulated parts (drawers, doors, levers …) of the task",
}
"""Letters in shapes."""


def register_observation(
    name: str,
    bound: float,
    of: str = "robot",
    size: int = 0,
    depends_on_goal: bool = False,
    *,
    measured: bool = True,
    unit: str = "",
    frame: str = "",
    help: str = "",
    override: bool = False,
) -> Callable[[ComponentFunction], ComponentFunction]:
    """Decorator that registers an observation component; its docstring begins with the shape, as in `(N, 3)` m.

    Args:
        name: Name in the config's `observations`.
        bound: Values are clipped to ± `bound`, in the component's unit.
        of: Subject, see `Component.of`.
        size: Numbers for each subject; 0 for the robot.
        depends_on_goal: Whether the component depends on the goal.
        measured: Whether observation noise applies to the component.
        unit: Unit of its numbers.
        frame: Frame or axes.
        help: One line; by default the first line of the docstring.
        override: Replace a component of the same name.

    Raises:
        RegistryError: The name is taken, or is not an identifier.
    """

    def build(function: ComponentFunction) -> Component:
        shape = re.match(r"`(\(.*?\))`(?=[ :.,])", first_line(function))
        return Component(function, bound, of, size, depends_on_goal, measured, shape[1] if shape else "", unit, frame)

    return decorator("observation", name, build=build, allowed="a function", help=help, override=override)


def find_component(name: str) -> Component:
    """Return a registered component.

    Raises:
        RegistryError: No component has this name.
    """
    component: Component = registry("observation").get(name, "observations").load()
    return component


def default_components(task: Task, *, cartesian: bool, remembers_command: bool, arms: int = 1) -> tuple[str, ...]:
    """Return the names of the components that make a task's relevant state Markov, without repetitions.

    Args:
        task: The task.
        cartesian: Whether the controller commands the end effector; else joints, whose states are then observed.
        remembers_command: Whether the controller's next command depends on its last one.
        arms: Number of arms of the robot.
    """
    names = ["ee_position", "ee_velocity"]
    if task.needs_tool_yaw:
        names += ["tool_yaw", "tool_yaw_offset"] if remembers_command else ["tool_yaw"]
    if arms > 1:
        names += ["second_ee_position", "second_ee_velocity"]
    if not cartesian:
        names += ["joint_position", "joint_velocity"]
    if remembers_command:
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
    if task.varies_objects:
        names += ["object_size"]
    if task.part_slots:
        names += ["part_position", "part_velocity", "handle_from_ee"]
    if len(task.stage_bindings) > 1:
        names += ["stage"]
    if any(stage.waypoint is not None for stage in task.sequence.stages):
        names += ["waypoint"]
    return tuple(names)
