"""`mygym dataset`: record images with masks, boxes and depth as a COCO data set."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.cli.arguments import CONFIG_FLAGS, config_layers, flag_value, parse_count
from mygym.cli.command import argument, command
from mygym.config import Layer, resolve
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value

DATASETS = ("vision",)
"""Values of KIND."""

UNUSED_FLAGS = {"task", "steps", "n_envs", "learners", "logdir", "engine", "algo", "framework", "strategy", "reward"}
"""Config flags without a meaning for images; the task is a positional argument."""

PARSER = command(
    "mygym dataset",
    "Record images of randomized episodes of the scripted expert, with masks, boxes and depth, as a COCO data set.",
    argument("kind", metavar="KIND", help="vision"),
    argument("task", nargs="?", metavar="TASK", help=CONFIG_FLAGS["task"][1]),
    argument("--out", required=True, metavar="FOLDER", help="folder of the data set; it must not exist"),
    argument("--images", default="1000", metavar="N", help="number of images (default 1000)"),
    argument(
        "--camera",
        action="append",
        default=[],
        metavar="C",
        help="a camera of the workspace or the robot (default main); repeat the flag for several cameras",
    ),
    argument(
        "--category",
        action="append",
        default=[],
        metavar="NAME",
        help="a body to annotate: robot, a fixture, an object (default: all); repeat the flag for several",
    ),
    argument(
        "--splits",
        default="{train: 0.8, val: 0.1, test: 0.1}",
        metavar="SHARES",
        help="share of the images of each split (default {train: 0.8, val: 0.1, test: 0.1})",
    ),
    argument("--marker", action="store_true", help="a marker shows the goal, as in observations; for encoders"),
    config_flags=CONFIG_FLAGS.keys() - UNUSED_FLAGS,
    examples="""
mygym dataset vision pick_and_place --images 2000 --out data/pick
mygym dataset vision push --camera main --camera wrist --set image_params.width=128 --out data/push
mygym dataset vision stack --category cube --splits '{train: 0.9, val: 0.1}' --out data/cubes
mygym dataset vision reach --set randomize.light=true --set randomize.camera='[0, 0.1]' --out data/reach
""",
    notes="""
FOLDER contains a folder of PNG images for each split, depth/SPLIT with 16-bit PNG images in millimetres (0 where
nothing is), and annotations/instances_SPLIT.json: run-length encoded masks, boxes, areas, categories. All images of an
episode are in one split. Without `randomize` in the config, light, colors, textures and camera are randomized.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    if options.kind not in DATASETS:
        raise ConfigError(bad_value("dataset", options.kind, DATASETS, "is not a kind of data set"))
    images, splits = parse_count(options.images, "--images"), parse_value(options.splits, "--splits")
    if not isinstance(splits, dict):
        raise ConfigError(bad_value("--splits", options.splits, "a mapping such as {train: 0.9, val: 0.1}"))
    file, flags = config_layers(options)
    if options.task is not None:
        flags["task"] = flag_value("task", options.task)
    if not file and options.task is None:
        raise ConfigError("dataset: give a TASK, e.g. mygym dataset vision pick_and_place --out data/pick")
    seed = resolve([Layer("flag", {"seed": flags.get("seed", file.get("seed", 0))})]).config.seed

    from mygym.api import record_images
    from mygym.planning.resolve import resolve_config

    counts = record_images(
        resolve_config(file, flags),
        out=options.out,
        images=images,
        cameras=options.camera or ("main",),
        categories=options.category or None,
        splits=splits,
        seed=seed,
        marker=options.marker,
    )
    print(", ".join(f"{split} {count}" for split, count in counts.items()))
    print(f"dataset: {options.out}")
