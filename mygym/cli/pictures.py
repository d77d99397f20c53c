"""Pictures of objects, robots, workspaces and tasks as arrays `(height, width, 3)`, for `mygym view`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mygym.cli.arguments import parse_task
from mygym.config import Layer, parse_overrides, resolve
from mygym.registry import registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mygym.sim.world import World

    Picture = NDArray[np.uint8]

Size = tuple[int, int]
"""Width and height, pixels."""

SHEET_EPISODES = 9
"""Number of episodes on the sheet of a task."""


def object_sheet(width: int) -> Picture:
    """Return a sheet of all objects by category."""
    from mygym.models.objects import load_object
    from mygym.sim.rendering.thumbnails import contact_sheet

    return contact_sheet([load_object(entry.load()) for entry in registry("object")], width)


def object_picture(name: str, size: Size) -> Picture:
    """Return a picture of an object.

    Args:
        name: Registered name, or a URDF or YAML file.
        size: Width and height, pixels.
    """
    from mygym.models.objects import load_object
    from mygym.sim.rendering.thumbnails import thumbnail

    return thumbnail(load_object(registry("object").get(name).load()), *size)


def task_picture(
    task: str,
    size: Size,
    scene: Mapping[str, str],
    overrides: Sequence[str],
    camera: str | None,
    randomized: bool,
) -> Picture:
    """Return the start of an episode, or a sheet of the starts of randomized episodes.

    Args:
        task: Task as on the command line.
        size: Width and height of each episode, pixels.
        scene: Values of `robot` and `workspace`; a missing value is the default of the task.
        overrides: `KEY=VALUE` of any config key.
        camera: Camera of the workspace; None: the camera of the config.
        randomized: Whether to draw a sheet; without `randomize` in the overrides, all randomizers are used.
    """
    from mygym.envs.randomizers import ranges
    from mygym.envs.robot_env import RobotEnv
    from mygym.sim.rendering.thumbnails import grid

    layer = Layer("flag", {"task": parse_task(task), **scene, **parse_overrides(overrides)})
    config = resolve([layer]).config
    randomize: dict[str, Any] = dict(config.randomize)
    if randomized and not ranges(randomize):
        randomize = dict.fromkeys(registry("randomizer").names(), True)
    env = RobotEnv(
        config.task,
        config.robot,
        config.workspace,
        config.control.model_dump(),
        task_params=config.task_params.model_dump(exclude_none=True),
        randomize=randomize,
        robot_params=config.robot_params.model_dump(),
        render_width=size[0],
        render_height=size[1],
        camera=camera or config.video.camera,
    )
    try:
        pictures = []
        for seed in range(config.seed, config.seed + (SHEET_EPISODES if randomized else 1)):
            env.reset(seed=seed)
            pictures.append(env.picture(shadow=True, samples=2))
    finally:
        env.close()
    return grid(pictures, columns=3) if randomized else pictures[0]


def camera_picture(camera: str, scene: Mapping[str, str], overrides: Sequence[str]) -> Picture:
    """Return a sheet of the images of a camera in an episode of the scripted expert, as observations have them.

    Args:
        camera: Camera of the workspace or the robot.
        scene: Values of `task`, `robot` and `workspace` as on the command line; a missing value is a default.
        overrides: `KEY=VALUE` of any config key.
    """
    from mygym.cli.camera_sheet import camera_sheet, names_for
    from mygym.envs.robot_env import RobotEnv
    from mygym.runs.planning.engines import env_arguments

    task = {"task": parse_task(scene["task"])} if "task" in scene else {}
    layer = Layer("flag", {"observations": names_for(camera), **scene, **task, **parse_overrides(overrides)})
    config = resolve([layer]).config
    with contextlib.closing(RobotEnv(**env_arguments(config))) as env:
        return camera_sheet(env, camera, config.seed)


def world_picture(robot: str, workspace: str, size: Size, camera: str, fit_robot: bool, window: bool) -> Picture | None:
    """Return a picture of a robot in a workspace.

    Args:
        robot: Registered name or file.
        workspace: Registered name or file.
        size: Width and height, pixels.
        camera: Camera of the workspace.
        fit_robot: Whether the camera moves so that the robot fills the picture.
        window: Whether to show the world in a window until it is closed, and return None.
    """
    from mygym.models.workspace import load_workspace
    from mygym.sim.inspection import around_robot
    from mygym.sim.robot_lookup import find_robot
    from mygym.sim.world import World

    world = World(find_robot(robot), load_workspace(registry("workspace").get(workspace).load()))
    try:
        if fit_robot:
            cameras = world.workspace.cameras
            view = around_robot(world, cameras[camera], size[0] / size[1])
            world.workspace = replace(world.workspace, cameras={**cameras, camera: view})
        if not window:
            return _render(world, size, camera)
        _show(world)
        return None
    finally:
        world.close()


def explained_robot(robot: str, workspace: str, size: tuple[int | None, int | None]) -> Picture:
    """Return a sheet of a robot at its home with tool point, approach, fingers and reach.

    Args:
        robot: Registered name or file.
        workspace: Registered name or file.
        size: Width and height of each picture on the sheet, pixels; None: the default.
    """
    from mygym.models.workspace import load_workspace
    from mygym.sim.rendering.robot_sheet import CELL, robot_sheet
    from mygym.sim.robot_lookup import find_robot

    place = load_workspace(registry("workspace").get(workspace).load())
    return robot_sheet(find_robot(robot), place, (size[0] or CELL[0], size[1] or CELL[1]))


def _render(world: World, size: Size, camera: str) -> Picture:
    from mygym.sim.rendering.camera import Camera

    renderer = Camera(world)
    picture = renderer.render(*size, camera, shadow=True, samples=2)
    renderer.close()
    return picture


def _show(world: World) -> None:
    """Show a window until `q` is pressed; its sliders set the joints, and its caption is the tool's position."""
    from mygym.sim.rendering.viewer import Viewer

    viewer, position = Viewer(world), world.state.joint_position[0]
    joints = [joint for arm in world.robot.arms for joint in arm.joints]
    viewer.set_sliders(
        {
            f"{joint.name}, rad": (joint.lower, joint.upper, start)
            for joint, start in zip(joints, position.tolist(), strict=True)
        }
    )
    while values := list(viewer.slider_values().values()):
        position[:] = values
        x, y, z = world.kinematics.pose(position[: len(world.robot.arms[0].joints)])[:3, 3]
        viewer.update(caption=f"tool at {x:.3f}, {y:.3f}, {z:.3f} m")
