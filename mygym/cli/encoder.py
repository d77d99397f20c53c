"""`mygym encoder`: train a network that encodes images as a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.cli.arguments import parse_count, parse_integer
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import as_centimetres, print_json, print_note, print_table
from mygym.errors import ConfigError, bad_value

if TYPE_CHECKING:
    from mygym.vision.encoder import EncoderErrors

VERBS = ("train",)

PARSER = command(
    "mygym encoder",
    "Train an encoder on a data set of `mygym dataset vision`; it gives a few numbers for an image.",
    argument("verb", metavar="VERB", help="train"),
    argument("data", metavar="DATA", help="folder of the data set"),
    argument("--out", required=True, metavar="FILE", help="a new file NAME.safetensors"),
    argument("--kind", default="autoencoder", metavar="KIND", help="autoencoder or objects (default autoencoder)"),
    argument("--component", default="rgbd", metavar="NAME", help="image, depth or rgbd: its input (default rgbd)"),
    argument("--latents", metavar="N", help="count of numbers of an autoencoder (default 32)"),
    argument("--steps", default="3000", metavar="N", help="minibatches of 16 images (default 3000)"),
    argument("--seed", default="0", metavar="S", help="seed of weights and minibatches (default 0)"),
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


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    if options.verb not in VERBS:
        raise ConfigError(bad_value("encoder", options.verb, VERBS, "is not a verb"))
    latents = None if options.latents is None else parse_count(options.latents, "--latents")
    seed = parse_integer(options.seed, "--seed", "a whole number, at least 0", low=0)

    from mygym.api import train_encoder

    errors = train_encoder(
        options.data,
        out=options.out,
        kind=options.kind,
        component=options.component,
        latents=latents,
        steps=parse_count(options.steps, "--steps"),
        seed=seed,
        image=options.image,
        report=print_note,
    )
    if options.json:
        print_json([asdict(error) for error in errors])
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
