"""`mygym view`: draw robots, workspaces, objects, tasks and the images of a camera, and time an exported policy."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.cli.command import FORCE, SET, TRUST, argument, check_output, command, flag_value, parse_integer
from mygym.cli.config_files import check_engine
from mygym.config import Layer, RunConfig, parse_overrides, resolve
from mygym.config.loading import parse_value
from mygym.engines.engine import inspection_of, make_world
from mygym.errors import ConfigError, bad_value, print_note
from mygym.registry import registry
from mygym.tasks.observations import MAIN_CAMERA
from mygym.training.files import make_folder_for, write_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mygym.engines.world import World
    from mygym.envs.robot_env import RobotEnv

    Picture = NDArray[np.uint8]

Size = tuple[int, int]
"""Width and height, pixels."""

SHEET_EPISODES = 9
"""Number of episodes on the sheet of a task."""


def task_picture(
    task: str, size: Size, scene: Mapping[str, str], overrides: Sequence[str], camera: str | None, randomized: bool
) -> Picture:
    """Return the start of an episode of a task, or a sheet of the starts of randomized episodes.

    `size` is that of each episode, pixels. `scene` has `robot` and `workspace`, by default those of the task;
    `overrides` are `KEY=VALUE`. The camera is by default that of the config. Without `randomize` in the overrides, a
    sheet shows all randomizers.
    """
    from mygym.engines.rendering.thumbnails import grid
    from mygym.envs.randomizers import ranges
    from mygym.envs.robot_env import RobotEnv
    from mygym.planning.derived import env_spec

    config = _config({"task": flag_value("task", task), **scene, **parse_overrides(overrides)})
    arguments = env_spec(config).arguments()
    if randomized and not ranges(config.randomize):
        arguments["randomize"] = dict.fromkeys(registry("randomizer").names(), True)
    arguments |= {"render_width": size[0], "render_height": size[1], "camera": camera or config.video.camera}
    with contextlib.closing(RobotEnv(**arguments)) as env:
        pictures = []
        for seed in range(config.seed, config.seed + (SHEET_EPISODES if randomized else 1)):
            env.reset(seed=seed)
            pictures.append(env.picture(shadow=True, samples=2))
    return grid(pictures, columns=3) if randomized else pictures[0]


def camera_picture(camera: str, scene: Mapping[str, str], overrides: Sequence[str]) -> Picture:
    """Return a sheet of the images of a camera in an episode of the scripted expert, as observations have them.

    `scene` has `task`, `robot` and `workspace`, each with a default; `overrides` are `KEY=VALUE` of any config key but
    `observations`. The sheet has boxes if observations can have them: not of shared spaces, nor of nothing.
    """
    from mygym.envs.robot_env import RobotEnv
    from mygym.planning.derived import env_spec
    from mygym.tasks.lookup import find_task

    task = {"task": flag_value("task", scene["task"])} if "task" in scene else {}
    images, asked = [with_camera(name, camera) for name in IMAGES], parse_overrides(overrides)
    if "observations" in asked:
        why = f"is not for camera, whose sheet shows {', '.join((*IMAGES, BOXES))}"
        raise ConfigError(bad_value("--set observations", asked["observations"], "other keys", why))
    config = _config({"observations": images, **scene, **task, **asked})
    if config.spaces == "own" and (find_task(config.task).roles or config.image_params.goal == "image"):
        config = config.model_copy(update={"observations": [*images, with_camera(BOXES, camera)]})
    with contextlib.closing(RobotEnv.of(env_spec(config))) as env:
        return camera_sheet(env, camera, config.seed)


def _config(values: Mapping[str, Any]) -> RunConfig:
    """Return the config of values; refuse an engine in which no episode is played."""
    config = resolve([Layer("flag", values)]).config
    check_engine(config, values)
    return config


def world_picture(robot: str, workspace: str, size: Size, camera: str, fit_robot: bool, window: bool) -> Picture | None:
    """Return a picture of a robot in a workspace, which it fills if `fit_robot`; None after the end of a `window`."""
    from mygym.engines.rendering.camera import Camera, around
    from mygym.engines.world import WorldSpec
    from mygym.robotics.robot import find_robot
    from mygym.robotics.workspace import find_workspace

    spec = WorldSpec(find_robot(robot), find_workspace(workspace))
    with contextlib.closing(make_world(spec)) as world:
        if fit_robot:
            cameras = world.workspace.cameras
            with inspection_of(world) as shapes:
                view = around(shapes.robot_corners(), cameras[camera], size[0] / size[1])
            world.workspace = replace(world.workspace, cameras={**cameras, camera: view})
        if window:
            _show(world)
            return None
        with contextlib.closing(Camera(world)) as renderer:
            return renderer.render(*size, camera, shadow=True, samples=2)


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


IMAGES, BOXES = ("image", "depth", "segmentation"), "boxes"
"""Observation components of the sheet; boxes are drawn onto `image`."""

MOMENTS = 4
"""Number of moments of the episode, one in each row."""

SHARPEST = 192
"""Smallest height of an image on the sheet, pixels: smaller images are enlarged without smoothing."""

BOX_COLOR = (255, 40, 160)


def with_camera(name: str, camera: str) -> str:
    """Return the name in `observations` of a component that sees through a camera."""
    return name if camera == MAIN_CAMERA else f"{name}:{camera}"


def camera_sheet(env: RobotEnv, camera: str, seed: int) -> Picture:
    """Return images of an episode of the scripted expert: a row for each moment, a column for each component.

    The environment has the components `IMAGES` of the camera, and may have its boxes.
    """
    from mygym.engines.rendering.thumbnails import grid

    observation, _ = env.reset(seed=seed)
    steps, ended = [observation], False
    while not ended:
        observation, _, terminated, truncated, _ = env.step(env.expert_action())
        steps.append(observation)
        ended = terminated or truncated
    moments = np.linspace(0, len(steps) - 1, MOMENTS).round().astype(int)
    rows = [_row(steps[moment], camera, with_camera(BOXES, camera) in env.components) for moment in moments]
    return grid([picture for row in rows for picture in row], columns=len(rows[0]))


def _row(observation: Any, camera: str, has_boxes: bool) -> list[Picture]:
    """Return the pictures of a moment, all of one size: colours, also with the boxes if it has them, depth, bodies.

    Of several frames it is the newest.
    """
    from mygym.engines.rendering.thumbnails import class_colors

    image, depth, segmentation = (
        observation[with_camera(name, camera)][..., -channels:]
        for name, channels in zip(IMAGES, (3, 1, 1), strict=True)
    )
    factor = max(1, -(-SHARPEST // len(image)))
    image, depth, segmentation = (pixels.repeat(factor, 0).repeat(factor, 1) for pixels in (image, depth, segmentation))
    boxes = [_with_boxes(image, observation["observation"].reshape(-1, 5))] if has_boxes else []
    return [image, *boxes, depth.repeat(3, axis=2), class_colors()[segmentation[..., 0]]]


def _with_boxes(image: Picture, boxes: NDArray[np.float32]) -> Picture:
    """Return an image with the boxes of the targets that it shows; `boxes` are rows of the component `boxes`."""
    from PIL import Image, ImageDraw

    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture)
    height, width = image.shape[:2]
    for left, top, right, bottom, share in boxes:
        if share > 0:
            edges = ((left + 1) / 2 * width, (top + 1) / 2 * height, (right + 1) / 2 * width, (bottom + 1) / 2 * height)
            draw.rectangle(edges, outline=BOX_COLOR, width=2)
    return np.asarray(picture)


SIZE = 960, 720
"""Default width and height of a picture, pixels."""
SHEET_WIDTH = 1820
"""Default width of the sheet of all objects, pixels."""
EPISODE_SIZE = 480, 360
"""Default width and height of each episode on a sheet, pixels."""
WORKSPACE = "table"
"""Default workspace of a robot."""

SUBJECTS = ("objects", "object", "workspace", "robot", "task", "camera", "policy")
"""Values of KIND."""

FLAGS = {
    "height": ("object", "workspace", "robot", "task"),
    "camera": ("workspace", "robot", "task"),
    "robot": ("workspace", "task", "camera"),
    "workspace": ("robot", "task", "camera"),
    "task": ("camera",),
    "set": ("task", "camera"),
    "randomize": ("task",),
    "explain": ("robot",),
    "image": ("objects", "object", "workspace", "robot", "task", "camera"),
    "width": ("objects", "object", "workspace", "robot", "task"),
    "record_latency": ("policy",),
    "trust": ("policy",),
}
"""Flag → kinds to which it applies."""


@command(
    "mygym view",
    argument("kind", metavar="KIND", help="objects, object, workspace, robot, task, camera or policy"),
    argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a name of `mygym list KIND`, a file, a task as letters or a list, a camera, or a file of `mygym export`",
    ),
    argument("--image", metavar="FILE", help="a PNG file to write; without it a window opens"),
    FORCE,
    argument("--width", metavar="N", help=f"pixels (default {SIZE[0]}; of the sheet of objects {SHEET_WIDTH})"),
    argument("--height", metavar="N", help=f"pixels (default {SIZE[1]}; not for the sheet of objects)"),
    argument(
        "--randomize",
        action="store_true",
        help="nine randomized episodes of a task: with the `randomize` of --set, else with all randomizers",
    ),
    argument(
        "--explain",
        action="store_true",
        help="a robot from two sides, its hand and the top, with tool point, approach, fingers and reach",
    ),
    argument(*SET.names, **{**SET.options, "help": "any config key of a task or camera, e.g. seed=3"}),
    argument("--task", metavar="T", help=f"task whose expert acts before a camera (default {RunConfig().task})"),
    argument("--camera", metavar="C", help="a camera of the workspace (default: main; for a robot: the whole arm)"),
    argument("--robot", metavar="R", help=f"robot in a workspace or task (default {RunConfig().robot})"),
    argument(
        "--workspace", metavar="W", help=f"workspace of a robot (default {WORKSPACE}) or a task (default: the task's)"
    ),
    argument(
        "--record-latency",
        action="store_true",
        help="play a policy in a closed loop at its control rate, without pictures, and print how punctual it is",
    ),
    argument("--seconds", default="10", metavar="N", help="with --record-latency: duration (default 10)"),
    argument(*TRUST.names, **{**TRUST.options, "help": "see `mygym run`"}),
    examples="""
mygym view objects --image sheet.png          all objects by category
mygym view object mug --image mug.png
mygym view object path/to/thing.urdf --image thing.png
mygym view workspace table --camera top --image table.png
mygym view robot panda --image panda.png
mygym view robot panda                        a window; needs a display
mygym view robot arm.urdf --explain --image arm.png
                                              tool point, approach, fingers and reach
mygym view task push --image push.png
mygym view task push --randomize --image sheet.png
                                              nine episodes with all randomizers
mygym view camera wrist --task pick_and_place --image sheet.png
                                              colours, boxes, depth and bodies in four moments of the expert's episode
mygym view camera close --set image_params.width=96 --set image_params.height=96 --image sheet.png
mygym view task push --randomize --set randomize.colors=true --set randomize.object_size='[0.5, 2]' --image sheet.png
mygym view policy reach.onnx --record-latency --seconds 60
""",
)
def view(options: argparse.Namespace) -> None:
    """Draw a robot, a workspace, an object, all objects, the start of a task's episodes, or the images of a camera."""
    _check_flags(options)
    if options.kind == "policy":
        _time_loop(options)
        return
    width, height = _pixels(options.width, "--width"), _pixels(options.height, "--height")
    image = None if options.image is None else Path(options.image)
    if image is None:
        from mygym.engines.rendering.viewer import has_display

        if not has_display():
            raise ConfigError("--image is needed without a display; --image FILE.png writes the picture to a file")
    else:
        check_output(image, "--image", (".png",), options.force)
    if robot := options.name if options.kind == "robot" else options.robot:
        from mygym.robotics.robot import notes_on_inference

        for line in notes_on_inference(robot):
            print_note(line)
    picture = _picture(options, width, height, window=image is None)
    if picture is None:
        return
    if image is None:
        from PIL import Image

        Image.fromarray(picture).show(options.name or options.kind)
    else:
        from mygym.engines.rendering.thumbnails import as_png

        make_folder_for(image)
        write_bytes(image, as_png(picture))
        print(f"image: {image}")


def _time_loop(options: argparse.Namespace) -> None:
    """Print the durations of a closed loop."""
    if not options.record_latency:
        allowed = f"--record-latency, or `mygym run {options.name} --gui`"
        raise ConfigError(bad_value("view", "policy", allowed, "cannot be drawn"))
    seconds = parse_value(options.seconds, "--seconds")
    if not isinstance(seconds, int | float) or not 0 < seconds <= 3600:
        raise ConfigError(bad_value("--seconds", options.seconds, "a number above 0, at most 3600"))

    from mygym.exporting.playing import measure

    timing = measure(options.name, float(seconds), trust=options.trust)
    print(f"rate        {1 / timing.period:g} Hz, {len(timing.policy)} periods")
    for name, durations in {"period": timing.periods, "policy": timing.policy, "simulator": timing.simulator}.items():
        median, percentile, largest = 1e3 * np.percentile(durations, [50, 99, 100])
        print(f"{name:<10}  median {median:.3f} ms, 99 % {percentile:.3f} ms, largest {largest:.3f} ms")
    jitter = 1e3 * np.std(timing.periods)
    print(f"jitter      {jitter:.3f} ms (standard deviation of the period)")
    print(f"late        {timing.late} of {len(timing.policy)} periods")


def _picture(options: argparse.Namespace, width: int | None, height: int | None, window: bool) -> Picture | None:
    """Return the picture; None if a window shows the robot or workspace instead."""
    from mygym.engines.rendering import thumbnails
    from mygym.engines.rendering.robot_sheet import CELL, robot_sheet
    from mygym.robotics.objects import load_object
    from mygym.robotics.robot import find_robot
    from mygym.robotics.workspace import find_workspace

    kind, name = options.kind, options.name
    if kind == "objects":
        return thumbnails.contact_sheet(
            [load_object(entry.load()) for entry in registry("object") if not entry.missing_extras],
            width or SHEET_WIDTH,
        )
    scene = {key: value for key in ("task", "robot", "workspace") if (value := getattr(options, key))}
    if kind == "camera":
        return camera_picture(name, scene, options.set)
    default_width, default_height = EPISODE_SIZE if options.randomize else SIZE
    size = width or default_width, height or default_height
    if kind == "object":
        return thumbnails.thumbnail(load_object(registry("object").get(name).load()), *size)
    if kind == "task":
        return task_picture(name, size, scene, options.set, options.camera, options.randomize)
    if options.explain:
        place = find_workspace(options.workspace or WORKSPACE)
        return robot_sheet(find_robot(name), place, (width or CELL[0], height or CELL[1]))
    robot = name if kind == "robot" else options.robot or str(RunConfig().robot)
    workspace = name if kind == "workspace" else options.workspace or WORKSPACE
    fit_robot = kind == "robot" and options.camera is None
    return world_picture(robot, workspace, size, options.camera or "main", fit_robot, window)


def _check_flags(options: argparse.Namespace) -> None:
    """Refuse an unknown kind, and flags and names that do not apply to the kind."""
    kind = options.kind
    if kind not in SUBJECTS:
        raise ConfigError(bad_value("view", kind, SUBJECTS, "cannot be drawn"))
    if (options.name is None) != (kind == "objects"):
        of = "a FILE of `mygym export`" if kind == "policy" else f"a NAME of `mygym list {kind}`"
        hint = "takes no NAME" if kind == "objects" else f"give {of}"
        raise ConfigError(f"view {kind}: {hint}")
    for flag, kinds in FLAGS.items():
        value = getattr(options, flag)
        if value and kind not in kinds:
            raise ConfigError(bad_value(f"--{flag.replace('_', '-')}", value, kinds, f"is not for {kind}"))


def _pixels(text: str | None, flag: str) -> int | None:
    return None if text is None else parse_integer(text, flag, "a whole number of pixels, 16 to 8192", 16, 8192)
