"""`mygym detector`: train a network that finds objects in images, and measure its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mygym.cli.arguments import parse_count, parse_integer
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import as_centimetres, print_json, print_note, print_table
from mygym.errors import ConfigError, bad_value

TRAIN, TEST = VERBS = ("train", "test")

PARSER = command(
    "mygym detector",
    "Train a network that finds objects in images with depth, on a data set of `mygym dataset vision`.",
    argument("verb", metavar="VERB", help="train, or test: measure the errors of a detector"),
    argument("data", metavar="DATA", help="folder of the data set"),
    argument("--out", metavar="FILE", help="train: a new file NAME.safetensors"),
    argument("--steps", default="1500", metavar="N", help="train: minibatches of 16 images (default 1500)"),
    argument("--seed", default="0", metavar="S", help="train: seed of weights and minibatches (default 0)"),
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


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    if options.verb not in VERBS:
        raise ConfigError(bad_value("detector", options.verb, VERBS, "is not a verb"))
    needed = "out" if options.verb == TRAIN else "detector"
    if getattr(options, needed) is None:
        raise ConfigError(f"detector {options.verb}: give --{needed} FILE")

    from mygym.api import measure_detector, train_detector

    if options.verb == TEST:
        errors = measure_detector(options.detector, options.data, split=options.split)
    else:
        steps = parse_count(options.steps, "--steps")
        seed = parse_integer(options.seed, "--seed", "a whole number, at least 0", low=0)
        errors = train_detector(options.data, out=options.out, steps=steps, seed=seed, report=print_note)
    if options.json:
        print_json([asdict(error) for error in errors])
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
