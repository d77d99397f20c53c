"""`mygym dataset`, `detector` and `encoder`: images as a COCO data set, and networks that are trained on it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.cli.command import CONFIG_FLAGS, JSON, argument, command, count, parse_seed, repeated
from mygym.cli.config_files import check_engine, config_layers
from mygym.cli.output import as_centimetres, print_json, print_table
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value, print_message

if TYPE_CHECKING:
    from mygym.vision.training import EncoderErrors

UNUSED_FLAGS = {"task", "steps", "n_envs", "learners", "logdir", "engine", "algo", "framework", "strategy", "reward"}
"""Config flags without a meaning for images; the task is a positional argument."""


@command(
    "mygym dataset",
    argument("kind", metavar="KIND", help="vision"),
    argument("task", nargs="?", metavar="TASK", help=CONFIG_FLAGS["task"][1]),
    argument("--out", required=True, metavar="FOLDER", help="folder of the data set; it must not exist"),
    count("--images", "number of images", 1000),
    repeated(
        "--camera", "C", "a camera of the workspace or the robot (default main); repeat the flag for several cameras"
    ),
    repeated(
        "--category",
        "NAME",
        "a body to annotate: robot, a fixture, an object (default: all); repeat the flag for several",
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
def dataset(options: argparse.Namespace) -> None:
    """Record images of randomized episodes of the scripted expert, with masks, boxes and depth, as a COCO data set."""
    if options.kind != "vision":
        raise ConfigError(bad_value("dataset", options.kind, ["vision"], "is not a kind of data set"))
    splits = parse_value(options.splits, "--splits")
    if not isinstance(splits, dict):
        raise ConfigError(bad_value("--splits", options.splits, "a mapping such as {train: 0.9, val: 0.1}"))
    file, flags = config_layers(options)
    if not file and options.task is None:
        raise ConfigError("dataset: give a TASK, e.g. mygym dataset vision pick_and_place --out data/pick")
    seed = parse_seed(flags.get("seed", file.get("seed", 0)))

    from mygym.api import record_images
    from mygym.planning.resolve import resolve_config

    resolved = resolve_config(file, flags)
    check_engine(resolved.config, flags)
    counts = record_images(
        resolved,
        out=options.out,
        images=options.images,
        cameras=options.camera or ("main",),
        categories=options.category or None,
        splits=splits,
        seed=seed,
        marker=options.marker,
    )
    print(", ".join(f"{split} {count}" for split, count in counts.items()))
    print(f"dataset: {options.out}")


TRAIN, TEST = VERBS = ("train", "test")
"""Verbs of a detector."""


@command(
    "mygym detector",
    argument("verb", metavar="VERB", help="train, or test: measure the errors of a detector"),
    argument("data", metavar="DATA", help="folder of the data set"),
    argument("--out", metavar="FILE", help="train: a new file NAME.safetensors"),
    count("--steps", "train: minibatches of 16 images", 1500),
    argument(
        "--seed", type=parse_seed, default=0, metavar="S", help="train: seed of weights and minibatches (default 0)"
    ),
    argument("--detector", metavar="FILE", help="test: the detector's file"),
    argument("--split", default="test", metavar="NAME", help="test: split of the data set (default test)"),
    JSON,
    examples="""
mygym dataset vision pick_and_place --images 4000 --camera close --camera wrist --set image_params.width=96 \\
    --set image_params.height=96 --out data/pick
mygym detector train data/pick --out cube.safetensors
mygym detector test data/pick --detector cube.safetensors --split val
mygym evaluate RUN --detector cube.safetensors
""",
    notes="""
The detector finds the bodies that the data set shows, and estimates the positions of objects from all cameras of the
data set. With `image_params.detector`, observations have these positions in place of the simulator's.
""",
)
def detector(options: argparse.Namespace) -> None:
    """Train a network that finds objects in images with depth, on a data set of `mygym dataset vision`."""
    if options.verb not in VERBS:
        raise ConfigError(bad_value("detector", options.verb, VERBS, "is not a verb"))
    needed = "out" if options.verb == TRAIN else "detector"
    if getattr(options, needed) is None:
        raise ConfigError(f"detector {options.verb}: give --{needed} FILE")

    from mygym.api import measure_detector, train_detector

    if options.verb == TEST:
        errors = measure_detector(options.detector, options.data, split=options.split)
    else:
        numbers = {"steps": options.steps, "seed": options.seed}
        errors = train_detector(options.data, out=options.out, **numbers, report=print_message)
    if options.json:
        print_json(errors)
        return
    print_table(
        [
            {
                "camera": row.camera,
                "object": row.name,
                "images": row.images,
                "seen": f"{row.seen:.1%}",
                "mean error": as_centimetres(row.mean),
                "95th percentile": as_centimetres(row.worst),
                "overlap of masks": "" if row.overlap is None else f"{row.overlap:.2f}",
            }
            for row in errors
        ]
    )
    if options.verb == TRAIN:
        print(f"detector: {Path(options.out)}")


@command(
    "mygym encoder",
    argument("verb", metavar="VERB", help="train"),
    argument("data", metavar="DATA", help="folder of the data set"),
    argument("--out", required=True, metavar="FILE", help="a new file NAME.safetensors"),
    argument("--kind", default="autoencoder", metavar="KIND", help="autoencoder or objects (default autoencoder)"),
    argument("--component", default="rgbd", metavar="NAME", help="image, depth or rgbd: its input (default rgbd)"),
    count("--latents", "count of numbers of an autoencoder (default 32)"),
    count("--steps", "minibatches of 16 images", 3000),
    argument("--seed", type=parse_seed, default=0, metavar="S", help="seed of weights and minibatches (default 0)"),
    argument(
        "--image", metavar="SHEET", help="a new PNG file: images of the split test above reconstructions or bodies"
    ),
    JSON,
    examples="""
mygym dataset vision reach --marker --images 3000 --camera close --set randomize.camera=0 --out data/reach
mygym encoder train data/reach --out reach.safetensors --image sheet.png
mygym train --task reach --algo dagger --set observations='["latent:close", "ee_position"]' \\
    --set image_params.encoder=reach.safetensors

mygym dataset vision push --marker --images 4000 --camera close --camera wrist --out data/push
mygym encoder train data/push --kind objects --steps 1500 --out push.safetensors
""",
    notes="""
The latents of the kind autoencoder describe the whole image. Those of the kind objects are the position of each
object, and of the marker of the goal: to the right, downwards, depth, visibility.

The table has the errors in views of episodes that the encoder has not seen. Of an autoencoder: the error of the
reconstructions, in steps of 0 to 255, and of each object's position as a linear function of the latents. Of an encoder
of objects: the share of the views in which it sees a visible object, and the error of the middle of its surface.
The observation component `latent` has the latents, and the features extractor `frozen` is the encoder as a network.
""",
)
def encoder(options: argparse.Namespace) -> None:
    """Train an encoder on a data set of `mygym dataset vision`; it gives a few numbers for an image."""
    if options.verb != TRAIN:
        raise ConfigError(bad_value("encoder", options.verb, [TRAIN], "is not a verb"))

    from mygym.api import train_encoder

    errors = train_encoder(
        options.data,
        out=options.out,
        kind=options.kind,
        component=options.component,
        latents=options.latents,
        steps=options.steps,
        seed=options.seed,
        image=options.image,
        report=print_message,
    )
    if options.json:
        print_json(errors)
        return
    print_table([_row(error) for error in errors])
    print(f"encoder: {Path(options.out)}")


def _row(error: EncoderErrors) -> dict[str, str | int]:
    """Return a row of the table; an autoencoder reconstructs images, and an encoder of objects sees objects."""
    of_kind = {} if error.reconstruction is None else {"reconstruction": f"{error.reconstruction:.1f}"}
    seen = {} if error.seen is None else {"seen": f"{error.seen:.1%}"}
    return {
        "camera": error.camera,
        "images": error.images,
        **of_kind,
        "object": error.name or "",
        **seen,
        "mean error": as_centimetres(error.mean),
        "95th percentile": as_centimetres(error.worst),
    }
