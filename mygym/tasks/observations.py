"""Observations: lists of named components, each a function of an `EpisodeContext` that returns `(N, d)`.

A camera component is a function of a `CameraView`; it returns an image, or numbers `(d,)`. `NAME:CAMERA` in a config
names its camera. The built-in components are in `mygym.tasks.components`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import decorator, registry
from mygym.registry.signatures import checked_registration, first_line
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.goals import GoalSpace, goal_space
from mygym.tasks.task import Task
from mygym.types import Array, FloatArray

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Frame:
    """An image with the depth and the body of each pixel."""

    rgb: Image
    """`(height, width, 3)` uint8."""
    depth: NDArray[np.float32]
    """`(height, width)` m along the optical axis; infinite where nothing is."""
    segmentation: NDArray[np.int32]
    """`(height, width)`: index in `labels`, -1 for the background."""
    labels: tuple[str, ...]
    """Names of the robot, of each visible fixture, and of each object; then `goal`, if a marker shows the goal."""
    pose: FloatArray
    """`(4, 4)`: pose of the camera in the world frame, m; its x axis points to the right in the image, y downwards, z
    along the optical axis."""
    focal: float
    """Pixels: focal length; pixels are square, and the optical axis passes through the middle of the image."""

    def points(self) -> FloatArray:
        """Return `(height, width, 3)` m, world frame: the point that each pixel shows; NaN where nothing is."""
        height, width = self.depth.shape
        right = (np.arange(width) - width / 2) / self.focal  # the renderer samples a pixel at its lower left corner
        down = (np.arange(height) + 1 - height / 2) / self.focal
        rays = np.stack([*np.meshgrid(right, down), np.ones((height, width))], axis=-1)
        distance = np.where(np.isfinite(self.depth), self.depth, 0.0)
        points: FloatArray = (rays * distance[..., None]) @ self.pose[:3, :3].T + self.pose[:3, 3]
        points[~np.isfinite(self.depth)] = np.nan
        return points


@dataclass(frozen=True)
class CameraView:
    """A frame, with the objects in it that matter to the task."""

    frame: Frame
    depth_range: tuple[float, float]
    """m: distances with the depths 0 and 255."""
    targets: tuple[int, ...]
    """Index in `frame.labels` of each object of the task, and of the marker of the goal if goals are seen."""
    latent: FloatArray | None = None
    """`(Z,)`: latents by the encoder of the observation; None for components that need none."""


ComponentFunction = Callable[[EpisodeContext], Array]
CameraFunction = Callable[[CameraView], Array]

ROBOTS = ("robot", "other arms")
"""Subjects of components that sensors of the robot measure."""

MAIN_CAMERA = "main"
"""Camera of components whose name has no `:CAMERA`."""

CRITIC = "critic"
"""Key of the vector of an observation that only critics observe."""

CRITIC_KEY = "critic_observations"
"""Config key of the components of this vector."""

LATENT_BOUND = 10.0
"""Bound of latents, whose distribution over the images of the training is about normal."""


@dataclass(frozen=True)
class Component:
    """A registered observation component."""

    function: Callable[[Any], Array]
    """Function of an `EpisodeContext`, or of a `CameraView` if the component uses a camera."""
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
    uses_camera: bool = False
    """Whether the component is a function of a camera's view."""
    channels: int = 0
    """Channels of its image; 0: numbers."""
    encoded: bool = False
    """Whether the component needs the latents of the camera's image, so that its size is that of the encoder."""
    detectable: bool = True
    """Whether the component follows from sensors of the robot, the goal, and positions of objects, so that a detector
    can stand in for the simulator."""


SYMBOLS: Mapping[str, str] = {
    "N": "environments in a batch",
    "J": "joints of the robot",
    "A": "arms of the robot",
    "L": "numbers of the controller's command that it remembers",
    "R": "objects of the task",
    "C": "distractors",
    "p": "articulated parts (drawers, doors, levers …) of the task",
    "H": "height of images, pixels",
    "W": "width of images, pixels",
    "Z": "latents of the encoder",
    "S": "objects of the task, and the marker of the goal unless image_params.goal is vector",
}
"""Letters in shapes."""


@checked_registration
def register_observation(
    name: str,
    bound: float,
    of: str = "robot",
    size: int = 0,
    depends_on_goal: bool = False,
    *,
    measured: bool = True,
    detectable: bool | None = None,
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
        detectable: See `Component.detectable`; None: components of robots and arms are.
        unit: Unit of its numbers.
        frame: Frame or axes.
        help: One line; by default the first line of the docstring.
        override: Replace a component of the same name.

    Raises:
        RegistryError: The name is taken, or is not an identifier; or the bound is not above 0.
    """
    if not bound > 0:
        raise RegistryError(bad_value("register_observation: bound", bound, "a number above 0"))

    def build(function: ComponentFunction) -> Component:
        shape = _shape(function)
        seen = of in ROBOTS if detectable is None else detectable
        return Component(function, bound, of, size, depends_on_goal, measured, shape, unit, frame, detectable=seen)

    return decorator("observation", name, build=build, form=ComponentFunction, help=help, override=override)


@checked_registration
def register_camera_observation(
    name: str,
    channels: int = 0,
    size: int = 0,
    *,
    encoded: bool = False,
    unit: str = "",
    help: str = "",
    override: bool = False,
) -> Callable[[CameraFunction], CameraFunction]:
    """Decorator that registers a camera component of observations; its docstring begins with the shape.

    The function gets a `CameraView` and returns an image `(H, W, channels)` uint8, or numbers `(size * S,)` in [-1, 1],
    where `S` is the number of `CameraView.targets`, or `CameraView.latent`.

    Args:
        name: Name in the config's `observations`.
        channels: Channels of the image, 1 to 4; 0 for numbers.
        size: Count of numbers of each target; 0 for an image.
        encoded: Whether it gives the latents of the encoder, in place of an image or numbers of targets.
        unit: Unit of its values.
        help: One line; by default the first line of the docstring.
        override: Replace a component of the same name.

    Raises:
        RegistryError: The name is taken, or is not an identifier; or not exactly one of `channels`, `size` and
            `encoded` is given, or more than 4 channels.
    """
    if (bool(channels), bool(size), encoded).count(True) != 1 or not 0 <= channels <= 4 or size < 0:
        given = {"channels": channels, "size": size, "encoded": encoded}
        raise RegistryError(bad_value("register_camera_observation", given, "1 to 4 channels, a size, or encoded"))

    def build(function: CameraFunction) -> Component:
        bound, of = (255.0, "a camera's image") if channels else (1.0, "seen objects")
        if encoded:
            bound, of = LATENT_BOUND, "a camera's image"
        return Component(
            function,
            bound,
            of,
            size,
            measured=False,
            shape=_shape(function),
            unit=unit,
            uses_camera=True,
            channels=channels,
            encoded=encoded,
        )

    return decorator("observation", name, build=build, form=CameraFunction, help=help, override=override)


def _shape(function: Callable[..., Any]) -> str:
    """Return the shape at the beginning of a docstring."""
    shape = re.match(r"`(\(.*?\))`(?=[ :.,])", first_line(function))
    return shape[1] if shape else ""


def find_component(name: str, key: str = "observations") -> Component:
    """Return the registered component of `NAME` or `NAME:CAMERA` in `observations`.

    Raises:
        ConfigError: The name has a camera, and the component uses none.
        RegistryError: No component has this name.
    """
    registered, _, camera = name.partition(":")
    component: Component = registry("observation").get(registered, key).load()
    if camera and not component.uses_camera:
        cameras = [f"{entry.name}:{camera}" for entry in registry("observation") if entry.load().uses_camera]
        allowed = ", ".join([registered, *cameras])
        raise ConfigError(bad_value(key, name, allowed, f"names a camera, and {registered} uses no camera"))
    return component


def camera_of(name: str) -> str:
    """Return the camera of a name in `observations`, for a camera component."""
    return name.partition(":")[2] or MAIN_CAMERA


def camera_components(names: Iterable[str], *, images: bool = False) -> list[str]:
    """Return the names of camera components; with `images`, only those that return images."""
    components = {name: find_component(name) for name in names}
    return [
        name for name, component in components.items() if component.uses_camera and (component.channels or not images)
    ]


def default_components(task: Task, *, cartesian: bool, remembers_command: bool, arms: int = 1) -> tuple[str, ...]:
    """Return the names of the components that make a task's relevant state Markov, without repetitions.

    Args:
        task: The task.
        cartesian: Whether the controller commands the end effector; else joints, whose states are then observed.
        remembers_command: Whether the controller's next command depends on its last command.
        arms: Number of arms of the robot.
    """
    return _where(
        (True, "ee_position ee_velocity"),
        (task.needs_tool_yaw, "tool_yaw"),
        (task.needs_tool_yaw and remembers_command, "tool_yaw_offset"),
        (arms > 1, "second_ee_position second_ee_velocity"),
        (not cartesian, "joint_position joint_velocity"),
        (remembers_command, "command_offset"),
        (task.uses_gripper, "gripper_width"),
        (task.uses_gripper and arms > 1, "second_gripper_width"),
        (task.has_object, "object_position object_from_ee object_orientation object_velocity object_angular_velocity"),
        (any(len(task.assets(role)) > 1 for role in task.roles), "object_size"),
        (task.part_slots, "part_position part_velocity handle_from_ee"),
        (len(task.stage_bindings) > 1, "stage"),
        (any(stage.waypoint is not None for stage in task.sequence.stages), "waypoint"),
    )


def _where(*rows: tuple[object, str]) -> tuple[str, ...]:
    """Return the names, separated by spaces, in the rows whose condition holds."""
    return tuple(name for condition, names in rows if condition for name in names.split())


SLOTS: Mapping[str, int] = {
    "objects": 4,
    "parts": 2,
    "distractors": 4,
    "sub-tasks": 3,
    "objects or parts": 1,
    "waypoints": 1,
}
"""Subject of components (see `Component.of`) → number of slots."""

_TERMS = {"end_effector": 3, "object": 3, "end_effector_from_object": 3, "part": 1, "yaw": 2}
_FLAGS = (
    *("free", "near", "held", "placed", "turned", "clear"),
    *("offered", "handed", "traced", "followed", "launched", "touched", "hit"),
)

GOAL_SIZES: Mapping[str, int] = {**_TERMS, **dict.fromkeys(_FLAGS, 1)}
"""Name of a section of goal vectors → its size, in the order of the sections in the slot of a sub-task.

Saved policies contain this order, so it is never changed or extended: sections of other predicates use the room of
flags that their sub-task lacks."""


def shared_components(*, cartesian: bool, remembers_command: bool, arms: int, gripper: bool) -> tuple[str, ...]:
    """Return the names of all components that any task of a robot needs, see `default_components`."""
    return _where(
        (True, "ee_position ee_velocity tool_yaw"),
        (arms > 1, "second_ee_position second_ee_velocity"),
        (not cartesian, "joint_position joint_velocity"),
        (remembers_command, "command_offset tool_yaw_offset"),
        (gripper, "gripper_width"),
        (gripper and arms > 1, "second_gripper_width"),
        (True, "object_present object_active object_position object_from_ee object_orientation object_velocity"),
        (True, "object_angular_velocity part_present part_active part_position part_velocity handle_from_ee"),
        (True, "subtask stage_name waypoint"),
    )


def shared_goal_space(task: Task) -> GoalSpace:
    """Return the layout of goal vectors in which every section has the same offset in all tasks.

    Sections without a size in `GOAL_SIZES` have no such offset: they use the room of flags that their sub-task lacks.

    Raises:
        ConfigError: The task has more sub-tasks than slots, or more of the other sections than unused flags.
    """
    if len(task.subtasks) > SLOTS["sub-tasks"]:
        raise ConfigError(no_room("sub-tasks", len(task.subtasks), task.name))
    offsets, size = {}, 0
    for name, section_size in GOAL_SIZES.items():
        offsets[name] = size
        size += section_size
    offsets["struck"] = offsets["object"]
    placed = [
        replace(section, first=section.bound.subtask * size + offsets.get(section.name, -1))
        for section in goal_space(task).sections
    ]
    used = {
        n for section in placed if section.name in offsets for n in range(section.first, section.first + section.size)
    }
    sections = []
    for section in placed:
        if section.name not in offsets:
            start = section.bound.subtask * size
            flags = range(start + size - section.size, start + offsets[_FLAGS[0]] - 1, -1)
            first = next((n for n in flags if used.isdisjoint(range(n, n + section.size))), None)
            if first is None:
                why = f"has no room for the goal term {section.name!r} of {task.name}"
                raise ConfigError(bad_value("spaces", "shared", "own", why))
            used |= set(range(first, first + section.size))
            section = replace(section, first=first)
        sections.append(section)
    return GoalSpace(tuple(sections), SLOTS["sub-tasks"] * size)


def no_room(of: str, count: int, task: str) -> str:
    """Return the message for a task that needs more slots of a subject than shared spaces have."""
    allowed = f"own; or a task with at most {SLOTS[of]} {of}"
    return bad_value("spaces", "shared", allowed, f"has no room for {count} {of}, which {task} has")
