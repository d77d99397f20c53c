"""Contents and layout of the observations of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mygym.config.schema import ImageParams
from mygym.sim.world import World
from mygym.tasks.observations import default_components, find_component
from mygym.tasks.shared import shared_components
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


def make_observation_spec(arguments: Mapping[str, Any], task: Task, world: World) -> ObservationSpec:
    """Return the contents and layout of the observations of a task.

    Args:
        arguments: Arguments of `RobotEnv`.
        task: The task.
        world: Its world.
    """
    images = ImageParams.model_validate(arguments["image_params"] or {})
    spaces, critic = arguments["spaces"], tuple(arguments["critic_observations"] or ())
    components = arguments["observations"] or _default_components(task, world, spaces == "shared", images)
    return ObservationSpec(tuple(components), spaces, arguments["goal_env"], images, critic)


def _default_components(task: Task, world: World, shared: bool, images: ImageParams) -> tuple[str, ...]:
    """Return the names of the components that the task needs or, with shared spaces, that any task needs."""
    controller, arms = world.controller, len(world.robot.arms)
    cartesian, remembers = controller.commands == "cartesian", controller.remembers_command
    if not shared:
        names = default_components(task, cartesian=cartesian, remembers_command=remembers, arms=arms)
        return tuple(name for name in names if images.detector is None or find_component(name).detectable)
    gripper = world.robot.gripper is not None
    return shared_components(cartesian=cartesian, remembers_command=remembers, arms=arms, gripper=gripper)
