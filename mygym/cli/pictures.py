"""Pictures of objects, robots, workspaces and tasks as arrays `(height, width, 3)`, for `mygym view`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from mygym.cli.arguments import parse_task
from mygym.config import Layer, parse_overrides, resolve
from mygym.engines.rendering.thumbnails import class_colors, grid
from mygym.registry import registry
from mygym.tasks.observations import MAIN_CAMERA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mygym.engines.world import World
    from mygym.envs.robot_env import RobotEnv

    Picture = NDArray[np.uint8]

Size = tuple[int, int]
"""Width and height, pixels."""

SHEET_EPISODES = 9
"""Number of episodes on the sheet of a task."""


def object_sheet(width: int) -> Picture:
    """Return a sheet of all objects by category."""
    from mygym.engines.rendering.thumbnails import contact_sheet
    from mygym.robotics.objects import load_object

    return contact_sheet([load_object(entry.load()) for entry in registry("object") if not entry.missing_extras], width)


def object_picture(name: str, size: Size) -> Picture:
    """Return a picture of an object.

    Args:
        name: Registered name, or a URDF or YAML file.
        size: Width and height, pixels.
    """
    from mygym.engines.rendering.thumbnails import thumbnail
    from mygym.robotics.objects import load_object

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
    from mygym.engines.rendering.thumbnails import grid
    from mygym.envs.randomizers import ranges
    from mygym.envs.robot_env import RobotEnv

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
    from mygym.envs.robot_env import RobotEnv
    from mygym.planning.engines import env_spec

    task = {"task": parse_task(scene["task"])} if "task" in scene else {}
    layer = Layer("flag", {"observations": names_for(camera), **scene, **task, **parse_overrides(overrides)})
    config = resolve([layer]).config
    with contextlib.closing(RobotEnv.of(env_spec(config))) as env:
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
    from mygym.engines.engine import inspection_of, make_world
    from mygym.engines.rendering.camera import around
    from mygym.engines.robots import find_robot
    from mygym.engines.world import WorldSpec
    from mygym.robotics.workspace import load_workspace

    world = make_world(WorldSpec(find_robot(robot), load_workspace(registry("workspace").get(workspace).load())))
    try:
        if fit_robot:
            cameras = world.workspace.cameras
            with inspection_of(world) as shapes:
                view = around(shapes.robot_corners(), cameras[camera], size[0] / size[1])
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
    from mygym.engines.rendering.robot_sheet import CELL, robot_sheet
    from mygym.engines.robots import find_robot
    from mygym.robotics.workspace import load_workspace

    place = load_workspace(registry("workspace").get(workspace).load())
    return robot_sheet(find_robot(robot), place, (size[0] or CELL[0], size[1] or CELL[1]))


def _render(world: World, size: Size, camera: str) -> Picture:
    from mygym.engines.rendering.camera import Camera

    renderer = Camera(world)
    picture = renderer.render(*size, camera, shadow=True, samples=2)
    renderer.close()
    return picture


def _show(world: World) -> None:
    """Show a window until `q` is pressed; its sliders set the joints, and its caption is the tool's position."""
    from mygym.engines.rendering.viewer import Viewer

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


COMPONENTS = ("image", "depth", "segmentation", "boxes")
"""Observation components of the sheet; `boxes` are drawn onto `image`."""

MOMENTS = 4
"""Number of moments of the episode, one in each row."""

SHARPEST = 192
"""Smallest height of an image on the sheet, pixels: smaller images are enlarged without smoothing."""

BOX_COLOR = (255, 40, 160)


def names_for(camera: str) -> list[str]:
    """Return the names of the components that see through a camera."""
    return [name if camera == MAIN_CAMERA else f"{name}:{camera}" for name in COMPONENTS]


def camera_sheet(env: RobotEnv, camera: str, seed: int) -> Picture:
    """Return images of an episode of the scripted expert: a row for each moment, a column for each component.

    Args:
        env: Environment with the observation components `names_for(camera)`.
        camera: Name of the camera.
        seed: Seed of the episode.
    """
    observation, _ = env.reset(seed=seed)
    steps, ended = [observation], False
    while not ended:
        observation, _, terminated, truncated, _ = env.step(env.expert_action())
        steps.append(observation)
        ended = terminated or truncated
    moments = np.linspace(0, len(steps) - 1, MOMENTS).round().astype(int)
    return grid([picture for moment in moments for picture in _row(steps[moment], camera)], columns=len(COMPONENTS))


def _row(observation: Any, camera: str) -> list[Picture]:
    """Return the pictures of a moment, all of one size: colours, colours with boxes, depth, bodies."""
    image, depth, segmentation = (observation[name] for name in names_for(camera)[:3])
    factor = max(1, -(-SHARPEST // len(image)))
    image, depth, segmentation = (pixels.repeat(factor, 0).repeat(factor, 1) for pixels in (image, depth, segmentation))
    boxes = observation["observation"].reshape(-1, 5)
    return [image, _with_boxes(image, boxes), depth.repeat(3, axis=2), class_colors()[segmentation[..., 0]]]


def _with_boxes(image: Picture, boxes: NDArray[np.float32]) -> Picture:
    """Return an image with the boxes of the targets that it shows; `boxes` are rows of the component `boxes`."""
    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture)
    height, width = image.shape[:2]
    for left, top, right, bottom, share in boxes:
        if share > 0:
            edges = ((left + 1) / 2 * width, (top + 1) / 2 * height, (right + 1) / 2 * width, (bottom + 1) / 2 * height)
            draw.rectangle(edges, outline=BOX_COLOR, width=2)
    return np.asarray(picture)
