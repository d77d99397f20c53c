"""Contents and layout of the observations of an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mygym.config.schema import ImageParams
from mygym.engines.world import World
from mygym.envs.env_spec import EnvSpec
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import (
    ROBOTS,
    SLOTS,
    Component,
    camera_of,
    default_components,
    find_component,
    no_room,
    shared_components,
)
from mygym.tasks.task import Task

IMAGES = ImageParams()
"""Default size and content of images."""


@dataclass(frozen=True)
class ObservationSpec:
    """Contents and layout of observations."""

    components: tuple[str, ...]
    """Names of the components, in order."""
    spaces: str
    """`own` or `shared`."""
    goal_env: bool
    """Whether observations are goal dictionaries; otherwise flat vectors."""
    images: ImageParams = IMAGES
    """Size and content of images."""
    critic: tuple[str, ...] = ()
    """Names of the components that only a critic observes, in order."""


def make_observation_spec(spec: EnvSpec, task: Task, world: World) -> ObservationSpec:
    """Return the contents and layout of the observations of a task."""
    images, critic = spec.image_params, tuple(spec.critic_observations or ())
    components = spec.observations or _default_components(task, world, spec.spaces == "shared", images)
    return ObservationSpec(tuple(components), spec.spaces, spec.goal_env, images, critic)


def _default_components(task: Task, world: World, shared: bool, images: ImageParams) -> tuple[str, ...]:
    """Return the names of the components that the task needs or, with shared spaces, that any task needs."""
    controller, arms = world.controller, len(world.robot.arms)
    cartesian, remembers = controller.commands == "cartesian", controller.remembers_command
    if not shared:
        names = default_components(task, cartesian=cartesian, remembers_command=remembers, arms=arms)
        return tuple(name for name in names if images.detector is None or find_component(name).detectable)
    gripper = world.robot.gripper is not None
    return shared_components(cartesian=cartesian, remembers_command=remembers, arms=arms, gripper=gripper)


def rooms_of(
    components: Mapping[str, Component], widths: Mapping[str, int], context: EpisodeContext, key: str
) -> list[int]:
    """Return the number of values of each component in shared spaces.

    Args:
        components: The components by name.
        widths: Number of values of each in this task.
        context: Any context of the task.
        key: Config key of the names, for messages.

    Raises:
        ConfigError: A component needs more room than shared spaces have.
    """
    rooms = []
    for name, component in components.items():
        if component.of in ROBOTS:
            rooms.append(widths[name])
            continue
        if component.uses_camera:
            raise ConfigError(bad_value(key, name, "images; or spaces: own", "is not available in shared spaces"))
        if component.of not in SLOTS:
            why = f"has as many numbers as the task has {component.of}, and spaces are shared"
            raise ConfigError(bad_value(key, name, "stage_name in its place; or spaces: own", why))
        rooms.append(SLOTS[component.of] * component.size)
        if widths[name] > rooms[-1]:
            raise ConfigError(no_room(component.of, widths[name] // component.size, context.task.name))
    return rooms


def check_cameras(components: Mapping[str, Component], cameras: Sequence[str]) -> None:
    """Check that the components see through cameras that exist.

    Raises:
        ConfigError: Unknown camera.
    """
    for name, component in components.items():
        if component.uses_camera and camera_of(name) not in cameras:
            allowed = [f"{name.partition(':')[0]}:{camera}" for camera in cameras]
            raise ConfigError(bad_value("observations", name, allowed, "has a camera that workspace and robot lack"))


def check_frames(components: Mapping[str, Component], images: ImageParams) -> None:
    """Check that images have fewer channels than rows and columns: SB3 would take their rows for channels.

    Raises:
        ConfigError: The number of frames is too large for the size of the images.
    """
    smallest = min(images.width, images.height)
    for name, component in components.items():
        if images.frames > 1 and component.channels * images.frames >= smallest:
            allowed = f"fewer than {-(-smallest // component.channels)} for {name}, or larger images"
            raise ConfigError(bad_value("image_params.frames", images.frames, allowed))


def check_present(widths: Mapping[str, int], context: EpisodeContext, key: str) -> None:
    """Check that each component of `widths` has values in this task.

    Raises:
        ConfigError: A component describes things that the task does not have.
    """
    for name, width in widths.items():
        if width == 0:
            allowed = [other for other in registry("observation").names() if _is_present(other, context)]
            why = f"describes {find_component(name).of}, and {context.task.name} has none"
            raise ConfigError(bad_value(key, name, allowed, why))


def _is_present(name: str, context: EpisodeContext) -> bool:
    component = find_component(name)
    return component.uses_camera or bool(component.function(context).shape[1] > 0)
