"""`mygym export`: write the policy of a run as a file that needs neither mygym nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mygym.cli.arguments import check_output
from mygym.cli.command import FORCE, TRUST, argument, command
from mygym.errors import ConfigError, bad_value
from mygym.exporting.formats import FORMATS

PARSER = command(
    "mygym export",
    "Write the policy of a run as a file that does not need mygym, and verify it.",
    argument("run", metavar="RUN", help="a run directory, or a best_policy.safetensors or model.zip in it"),
    argument("--format", metavar="F", help="onnx (default), or pt2: a file of torch.export"),
    argument(
        "-o",
        "--out",
        metavar="FILE",
        help="the file (default policy.onnx in the run directory); its suffix also selects the format",
    ),
    FORCE,
    TRUST,
    examples="""
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0 -o reach.onnx
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0 --format pt2
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0/best_policy.safetensors -o best.onnx --force
""",
    notes="""
The graph holds normaliser, network and action scaling: its inputs are the raw arrays of the observation by key. The
file is kept if its actions in seeded episodes are those of the policy. `mygym run FILE` plays it.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    format = options.format or ("pt2" if (options.out or "").endswith(FORMATS["pt2"]) else "onnx")
    if format not in FORMATS:
        raise ConfigError(bad_value("--format", format, FORMATS))

    from mygym.exporting.export import default_path, export
    from mygym.runs.directory import find_policy

    path = Path(options.out) if options.out else default_path(find_policy(options.run)[0], format)
    check_output(path, "--out", [FORMATS[format]], options.force)
    exported = export(options.run, path, trust=options.trust)
    print(f"largest difference {exported.difference:.1e} in {exported.observations} observations")
    print(f"file: {path} ({path.stat().st_size / 1000:.0f} kB)")
