"""`mygym encoder`: train a network that encodes images as a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mygym.cli.arguments import parse_count, parse_integer
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import as_centimetres, print_json, print_note, print_table
from mygym.errors import ConfigError, bad_value

VERBS = ("train",)

PARSER = command(
    "mygym encoder",
    "Train an autoencoder on a data set of `mygym dataset vision`; its encoder gives a few numbers for an image.",
    argument("verb", metavar="VERB", help="train"),
    argument("data", metavar="DATA", help="folder of the data set"),
    argument("--out", required=True, metavar="FILE", help="a new file NAME.safetensors"),
    argument("--component", default="rgbd", metavar="NAME", help="image, depth or rgbd: its input (default rgbd)"),
    argument("--latents", default="32", metavar="N", help="count of numbers for an image (default 32)"),
    argument("--steps", default="3000", metavar="N", help="minibatches of 16 images (default 3000)"),
    argument("--seed", default="0", metavar="S", help="seed of weights and minibatches (default 0)"),
    argument("--image", metavar="SHEET", help="a new PNG file: images of the split test above their reconstructions"),
    JSON,
    examples="""
mygym dataset vision reach --marker --images 3000 --camera close --set randomize.camera=0 --out data/reach
mygym encoder train data/reach --out reach.safetensors --image sheet.png
mygym train --task reach --algo dagger --set observations='["latent:close", "ee_position"]' \\
    --set image_params.encoder=reach.safetensors
""",
    notes="""
The table has the error of the reconstructions, in steps of 0 to 255, and the error of the position of each object (and
of the marker of the goal) as a linear function of the latents, in views of episodes that the encoder has not seen. The
observation component `latent` has the latents, and the features extractor `frozen` is the encoder as a network.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    if options.verb not in VERBS:
        raise ConfigError(bad_value("encoder", options.verb, VERBS, "is not a verb"))
    numbers = {name: parse_count(getattr(options, name), f"--{name}") for name in ("latents", "steps")}
    seed = parse_integer(options.seed, "--seed", "a whole number, at least 0", low=0)

    from mygym.api import train_encoder

    errors = train_encoder(
        options.data,
        out=options.out,
        component=options.component,
        seed=seed,
        image=options.image,
        report=print_note,
        **numbers,
    )
    if options.json:
        print_json([asdict(error) for error in errors])
        return
    print_table(
        [
            {
                "camera": row.camera,
                "images": row.images,
                "reconstruction": f"{row.reconstruction:.1f}",
                "object": row.name or "",
                "mean error": as_centimetres(row.mean),
                "95th percentile": as_centimetres(row.worst),
            }
            for row in errors
        ]
    )
    print(f"encoder: {Path(options.out)}")
