"""Construction of the world of a task, with the home of its robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mygym.config.schema import TaskParams
from mygym.engines.engine import inspection_of, make_world
from mygym.engines.world import World, WorldSpec
from mygym.envs.areas import check_areas, resolve_areas
from mygym.envs.env_spec import EnvSpec
from mygym.envs.placement import Box, moving_distractors
from mygym.envs.supported import bind_to_workspace, check_objects, check_robot, load_objects
from mygym.errors import ConfigError, bad_value
from mygym.robotics.robot import find_robot
from mygym.robotics.robot_spec import with_closed_hand
from mygym.robotics.workspace import Area, find_workspace
from mygym.tasks.state import CONTROL_HZ
from mygym.tasks.task import Task, change_task

KEY = "robot_params.home"


def check_home(world: World, areas: Mapping[str, Box]) -> None:
    """Check that the robot starts free, with the tool where controllers command it, and away from objects.

    Reset the world before its next step.

    Raises:
        ConfigError: The robot collides, the tool is out of its bounds, or the arm is where objects start.
    """
    home = [round(position, 4) for position in world.home.tolist()]
    low, high = world.workspace.tool_bounds.low, world.workspace.tool_bounds.high
    tool = world.state.ee_position[0]
    if not all(a <= x <= b for a, x, b in zip(low, tool.tolist(), high, strict=True)):
        why = f"puts the tool at {tool.round(3).tolist()}, outside its bounds"
        raise ConfigError(bad_value(KEY, home, f"a posture with the tool within {list(low)} to {list(high)}", why))
    world.reset(np.tile((0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 1.0), (len(world.objects), 1)))  # objects out of the way
    specs = [spec for slot in world.alternatives for spec in slot]
    margin = max((float(np.hypot(*spec.size[:2])) / 2 for spec in specs), default=0.0)
    height = max((spec.size[2] for spec in specs), default=0.0)
    with inspection_of(world) as shapes:
        if messages := shapes.collisions():
            raise ConfigError(bad_value(KEY, home, "a posture without collisions", f"collides: {messages[0]}"))
        for name in (name for name in areas if specs and (name == "object" or name.endswith("_start"))):
            (x, y, z), (far_x, far_y, far_z) = (corner.tolist() for corner in areas[name])
            box = Area((x - margin, y - margin, z), (far_x + margin, far_y + margin, far_z + height))
            if shapes.robot_overlaps(box):
                why = f"puts the arm where objects start, in the area {name}"
                raise ConfigError(bad_value(KEY, home, "a posture above or beside that area", why))


@dataclass(frozen=True)
class TaskWorld:
    """A task, the world in which it is simulated, and the areas from which it draws."""

    task: Task
    world: World
    areas: Mapping[str, Box]
    """Name → lowest and highest corner, m."""


def apply_task_params(task: Task, task_params: TaskParams) -> tuple[Task, dict[str, Any], dict[str, Any]]:
    """Return a task changed by the user's parameters, these parameters without areas, and the user's areas.

    Raises:
        ConfigError: A parameter does not fit the task.
    """
    params = task_params.model_dump(exclude_none=True)
    areas = params.pop("areas")
    return change_task(task, params), params, areas


def make_task_world(spec: EnvSpec, task: Task, largest_size: float) -> TaskWorld:
    """Build the world of an environment; the caller closes it.

    The task is without the user's parameters. An object's size is multiplied by up to `largest_size` in an episode.

    Raises:
        ConfigError: An invalid value, or task, robot, workspace and areas do not fit together.
        RegistryError: Unknown name.
    """
    changed, params, areas = apply_task_params(task, spec.task_params)
    robot, home, shared = spec.robot or changed.robot, spec.robot_params.home, spec.spaces == "shared"
    robot_spec = find_robot(robot)
    workspace_spec = find_workspace(spec.workspace or changed.workspace)
    gripper = shared or changed.uses_gripper
    check_robot(changed, robot_spec, robot, spec.control, gripper)
    objects = load_objects(changed, params)
    check_objects(changed, objects, robot_spec, largest_size, params)
    description = WorldSpec(
        robot_spec if changed.uses_gripper else with_closed_hand(robot_spec),
        workspace_spec,
        objects,
        spec.control,
        control_hz=CONTROL_HZ,
        gripper=gripper,
        tool_yaw=shared or changed.needs_tool_yaw,
        moving_distractors=moving_distractors(changed),
        home=home,
    )
    world = make_world(description, spec.engine)
    try:
        parts = dict(zip(world.part_names, world.parts, strict=True))
        bound = replace(bind_to_workspace(changed, world.workspace, parts), rolls_by_axis=world.rolls_by_axis)
        boxes = resolve_areas(bound, world.workspace, areas)
        check_areas(bound, world, boxes, areas)
        if home is not None:
            check_home(world, boxes)
    except BaseException:
        world.close()
        raise
    return TaskWorld(bound, world, boxes)
