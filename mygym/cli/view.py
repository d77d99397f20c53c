"""`mygym view`: pictures of robots, workspaces, objects and tasks."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.cli.arguments import Parser, add_import_flag, import_modules, parse_task
from mygym.config import Layer, RunConfig, parse_overrides, resolve
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.runs.files import check_writable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mygym.sim.world import World

EXAMPLES = """\
examples:
  mygym view objects --image sheet.png          every object, by category
  mygym view object mug --image mug.png
  mygym view object path/to/thing.urdf --image thing.png
  mygym view workspace table --camera top --image table.png
  mygym view robot panda --image panda.png
  mygym view robot panda                        a window, where there is a display
  mygym view task push --image push.png
  mygym view task push --randomize --image sheet.png
                                                nine episodes, in which everything differs that can
  mygym view task push --randomize --set randomize.colors=true --set randomize.object_size='[0.5, 2]' --image sheet.png
"""

KINDS = ("objects", "object", "workspace", "robot", "task")
SIZE = 960, 720
SHEET_WIDTH = 1820
SAMPLE = 480, 360
"""Pixels of each episode on a sheet."""
WORKSPACE = "table"
"""Where a robot is shown unless something else is said."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    import_modules(options)
    kind = options.kind
    if kind not in KINDS:
        raise ConfigError(bad_value("view", kind, KINDS, "has no pictures"))
    if (options.name is None) != (kind == "objects"):
        how = "takes no NAME" if kind == "objects" else f"give a NAME of `mygym list {kind}`"
        raise ConfigError(f"view {kind}: {how}")
    for flag, kinds in FLAGS.items():
        value = getattr(options, flag)
        if value and kind not in kinds:
            raise ConfigError(bad_value(f"--{flag}", value, kinds, f"is not for {kind}"))
    sizes = {flag: _pixels(flag, getattr(options, flag)) for flag in ("width", "height")}
    image = Path(options.image) if options.image is not None else None
    if image is not None:
        _check_image(image, options.force)
    else:
        _check_display()
    if kind == "task":
        _view_task(options, image, sizes)
    elif kind in ("objects", "object"):
        _view_objects(options.name, image, sizes)
    else:
        fit = kind == "robot" and options.camera is None
        _view_world(_world(options), image, options.camera or "main", sizes, fit)
    if image is not None:
        print(f"image: {image}")


FLAGS = {
    "height": ("object", "workspace", "robot", "task"),
    "camera": ("workspace", "robot", "task"),
    "robot": ("workspace", "task"),
    "workspace": ("robot", "task"),
    "set": ("task",),
    "randomize": ("task",),
}
"""Flag → the kinds that it is for."""


def _view_objects(name: str | None, image: Path | None, sizes: dict[str, int | None]) -> None:
    """The sheet of all objects, or one of them."""
    from PIL import Image

    from mygym.models.objects import load_object
    from mygym.sim.rendering.thumbnails import contact_sheet, portrait

    if name is None:
        specs = [load_object(entry.load()) for entry in registry("object")]
        picture = contact_sheet(specs, sizes["width"] or SHEET_WIDTH)
    else:
        width, height = sizes["width"] or SIZE[0], sizes["height"] or SIZE[1]
        picture = portrait(load_object(registry("object").get(name).load()), width, height)
    if image is None:
        Image.fromarray(picture).show(name or "objects")
    else:
        _save(picture, image)


def _view_task(options: argparse.Namespace, image: Path | None, sizes: dict[str, int | None]) -> None:
    """The start of an episode, or of nine."""
    from PIL import Image

    from mygym.envs.randomizers import ranges
    from mygym.envs.robot_env import RobotEnv
    from mygym.sim.rendering.thumbnails import grid

    said = {key: value for key in ("robot", "workspace") if (value := getattr(options, key))}
    config = resolve([Layer("flag", {"task": parse_task(options.name), **said, **parse_overrides(options.set)})]).config
    randomize: dict[str, Any] = dict(config.randomize)
    if options.randomize and not ranges(randomize):
        randomize = dict.fromkeys(registry("randomizer").names(), True)
    width, height = (sizes[key] or size for key, size in zip(sizes, SAMPLE if options.randomize else SIZE, strict=True))
    env = RobotEnv(
        config.task,
        config.robot,
        config.workspace,
        config.control,
        task_params=config.task_params.model_dump(exclude_none=True),
        randomize=randomize,
        render_width=width,
        render_height=height,
        camera=options.camera or config.video.camera,
    )
    try:
        pictures = []
        for seed in range(config.seed, config.seed + (9 if options.randomize else 1)):
            env.reset(seed=seed)
            pictures.append(env.picture(shadow=True, samples=2))
    finally:
        env.close()
    picture = grid(pictures, columns=3) if options.randomize else pictures[0]
    if image is None:
        Image.fromarray(picture).show(options.name)
    else:
        _save(picture, image)


def _world(options: argparse.Namespace) -> World:
    """A robot in a workspace."""
    from mygym.models.workspace import load_workspace
    from mygym.sim.inference import find_robot
    from mygym.sim.world import World

    said = {options.kind: options.name}
    robot = said.get("robot") or options.robot or str(RunConfig().robot)
    workspace = said.get("workspace") or options.workspace or WORKSPACE
    return World(find_robot(robot), load_workspace(registry("workspace").get(workspace).load()))


def _view_world(world: World, image: Path | None, camera: str, sizes: dict[str, int | None], fit: bool) -> None:
    """With `fit` the robot fills the picture, be it large or small; otherwise it shows the workspace."""
    from mygym.sim.inspection import around_robot
    from mygym.sim.rendering.camera import Camera, Viewer

    width, height = sizes["width"] or SIZE[0], sizes["height"] or SIZE[1]
    if fit:
        cameras = world.workspace.cameras
        world.workspace = replace(
            world.workspace, cameras={**cameras, camera: around_robot(world, cameras[camera], width / height)}
        )
    try:
        if image is None:
            viewer = Viewer(world)
            while viewer.is_open():
                viewer.update()
        else:
            eye = Camera(world)
            _save(eye.render(width, height, camera, shadow=True, samples=2), image)
            eye.close()
    finally:
        world.close()


def _pixels(flag: str, said: str | None) -> int | None:
    if said is None:
        return None
    number = parse_value(said, f"--{flag}")
    if not isinstance(number, int) or isinstance(number, bool) or not 16 <= number <= 8192:
        raise ConfigError(bad_value(f"--{flag}", said, "a whole number of pixels, 16 to 8192"))
    return number


def _check_image(path: Path, force: bool) -> None:
    """Before the picture is drawn."""
    if path.suffix != ".png":
        raise ConfigError(bad_value("--image", str(path), "a file ending in .png"))
    if os.path.lexists(path) and not (force and path.is_file()):
        raise ConfigError(bad_value("--image", str(path), "a new file, or --force", "exists already"))
    check_writable(path.parent, "--image", str(path))


def _check_display() -> None:
    from mygym.sim.rendering.camera import has_display

    if not has_display():
        raise ConfigError(bad_value("--image", None, "a file ending in .png", "is needed where there is no display"))


def _save(picture: NDArray[np.uint8], path: Path) -> None:
    """Write a PNG whole or not at all."""
    from PIL import Image

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".view-", suffix=".png", delete=False) as aside:
            try:
                Image.fromarray(picture).save(aside, format="PNG", optimize=True)
                aside.close()
                Path(aside.name).chmod(0o644)
                Path(aside.name).replace(path)
            finally:
                Path(aside.name).unlink(missing_ok=True)
    except OSError as error:
        why = f"cannot be written ({error.strerror or error})"
        raise ConfigError(bad_value("--image", str(path), "a file that you may write", why)) from error


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "mygym view",
        description="Draw a robot, a workspace, an object, the sheet of all objects, or how a task's episodes begin.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("kind", metavar="KIND", help="objects, object, workspace, robot or task")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a name of `mygym list KIND`, or a file, or letters")
    parser.add_argument("--image", metavar="FILE", help="a PNG file to write; without it a window")
    parser.add_argument("--force", action="store_true", help="write over a file that exists")
    parser.add_argument("--width", metavar="N", help=f"pixels (default {SIZE[0]}, of the sheet {SHEET_WIDTH})")
    parser.add_argument("--height", metavar="N", help=f"pixels (default {SIZE[1]}; that of the sheet follows)")
    parser.add_argument(
        "--randomize", action="store_true", help="nine episodes of a task: with `randomize` as --set says, or all of it"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="of a task: any key of a config, e.g. seed=3"
    )
    parser.add_argument("--camera", metavar="C", help="of the workspace (default main; of a robot: all of it)")
    parser.add_argument("--robot", metavar="R", help=f"in a workspace or on a task (default {RunConfig().robot})")
    parser.add_argument(
        "--workspace", metavar="W", help=f"around a robot (default {WORKSPACE}) or a task (default its own)"
    )
    add_import_flag(parser)
    return parser
