"""`mygym view`: draw robots, workspaces, objects, tasks and the images of a camera, and time an exported policy."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.cli.arguments import check_output, parse_integer
from mygym.cli.command import FORCE, SET, TRUST, argument, command
from mygym.config import RunConfig
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

PARSER = command(
    "mygym view",
    "Draw a robot, a workspace, an object, all objects, the start of a task's episodes, or the images of a camera.",
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
        "--workspace",
        metavar="W",
        help=f"workspace of a robot (default {WORKSPACE}) or a task (default: the task's)",
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


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    _check_flags(options)
    if options.kind == "policy":
        _time_loop(options)
        return
    width, height = _pixels(options.width, "--width"), _pixels(options.height, "--height")
    image = None if options.image is None else Path(options.image)
    if image is None:
        _check_display()
    else:
        check_output(image, "--image", (".png",), options.force)
    picture = _picture(options, width, height, window=image is None)
    if picture is None:
        return
    if image is None:
        from PIL import Image

        Image.fromarray(picture).show(options.name or options.kind)
    else:
        _save(picture, image)
        print(f"image: {image}")


def _time_loop(options: argparse.Namespace) -> None:
    """Print the durations of a closed loop."""
    if not options.record_latency:
        allowed = f"--record-latency, or `mygym run {options.name} --gui`"
        raise ConfigError(bad_value("view", "policy", allowed, "cannot be drawn"))
    seconds = parse_value(options.seconds, "--seconds")
    if not isinstance(seconds, int | float) or not 0 < seconds <= 3600:
        raise ConfigError(bad_value("--seconds", options.seconds, "a number above 0, at most 3600"))

    import numpy as np

    from mygym.exporting.playing import measure

    timing = measure(options.name, float(seconds), trust=options.trust)
    print(f"rate        {1 / timing.period:g} Hz, {len(timing.policy)} periods")
    for name, durations in {"period": timing.periods, "policy": timing.policy, "simulator": timing.simulator}.items():
        median, percentile, largest = 1e3 * np.percentile(durations, [50, 99, 100])
        print(f"{name:<10}  median {median:.3f} ms, 99 % {percentile:.3f} ms, largest {largest:.3f} ms")
    jitter = 1e3 * np.std(timing.periods)
    print(f"jitter      {jitter:.3f} ms (standard deviation of the period)")
    print(f"late        {timing.late} of {len(timing.policy)} periods")


def _picture(
    options: argparse.Namespace, width: int | None, height: int | None, window: bool
) -> NDArray[np.uint8] | None:
    """Return the picture; None if a window shows the robot or workspace instead."""
    from mygym.cli import pictures

    kind, name = options.kind, options.name
    if kind == "objects":
        return pictures.object_sheet(width or SHEET_WIDTH)
    scene = {key: value for key in ("task", "robot", "workspace") if (value := getattr(options, key))}
    if kind == "camera":
        return pictures.camera_picture(name, scene, options.set)
    default_width, default_height = EPISODE_SIZE if options.randomize else SIZE
    size = width or default_width, height or default_height
    if kind == "object":
        return pictures.object_picture(name, size)
    if kind == "task":
        return pictures.task_picture(name, size, scene, options.set, options.camera, options.randomize)
    if options.explain:
        return pictures.explained_robot(name, options.workspace or WORKSPACE, (width, height))
    robot = name if kind == "robot" else options.robot or str(RunConfig().robot)
    workspace = name if kind == "workspace" else options.workspace or WORKSPACE
    fit_robot = kind == "robot" and options.camera is None
    return pictures.world_picture(robot, workspace, size, options.camera or "main", fit_robot, window)


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
    if text is None:
        return None
    allowed = "a whole number of pixels, 16 to 8192"
    number = parse_integer(text, flag, allowed, low=16)
    if number > 8192:
        raise ConfigError(bad_value(flag, text, allowed))
    return number


def _check_display() -> None:
    from mygym.engines.rendering.viewer import has_display

    if not has_display():
        raise ConfigError(bad_value("--image", None, "a file ending in .png", "is needed without a display"))


def _save(picture: NDArray[np.uint8], path: Path) -> None:
    """Write a PNG file completely or not at all."""
    from PIL import Image

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".view-", suffix=".png", delete=False) as temporary:
            try:
                Image.fromarray(picture).save(temporary, format="PNG", optimize=True)
                temporary.close()
                Path(temporary.name).chmod(0o644)
                Path(temporary.name).replace(path)
            finally:
                Path(temporary.name).unlink(missing_ok=True)
    except OSError as error:
        why = f"cannot be written ({error.strerror or error})"
        raise ConfigError(bad_value("--image", str(path), "a file in a writable folder", why)) from error
