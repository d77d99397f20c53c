"""`mygym certify`: success of a finished run in two physics engines, and the gap between them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mygym.cli.arguments import parse_count, parse_percent
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import print_json, print_table
from mygym.engines.engine import BULLET, MUJOCO

EPISODES = 100
ENGINES = (BULLET, MUJOCO)

PARSER = command(
    "mygym certify",
    "Play the same fresh episodes with a finished run's policy in two physics engines: success, and the gap.",
    argument("run", metavar="RUN", help="a run directory whose status is done"),
    argument("--episodes", metavar="N", default=str(EPISODES), help=f"episodes in each engine (default {EPISODES})"),
    argument(
        "--engines",
        nargs=2,
        default=ENGINES,
        metavar="E",
        help=f"two engines with single worlds, of `mygym list engine` (default {' '.join(ENGINES)})",
    ),
    argument(
        "--tolerance",
        metavar="PERCENT",
        default="5%",
        help="percent points by which success may be lower in the second engine (default 5%%)",
    ),
    argument("--no-film", action="store_true", help="write no films"),
    JSON,
    examples="""
mygym certify runs/reach/panda/sac/1a2b3c4d/seed_0
mygym certify runs/push/panda/ppo/1a2b3c4d/seed_0 --episodes 500 --tolerance 3
mygym certify runs/reach/panda/sac/1a2b3c4d/seed_0 --engines mujoco pybullet --no-film --json
""",
    notes="""
Writes certificate.json and certificate.md into the run directory, and up to two films into its folder videos: the first
episode that ends in success in both engines, and the first in which the engines disagree. A later certificate replaces
them. All policies play the same episodes, on seeds that no training, evaluation or leaderboard uses. Intervals are at
95 %: Wilson's for the success in each engine, and for the gap Newcombe's for equal episodes. A run of another engine's
training is judged alike; evaluations of the run and leaderboards stay in the engine that judges it.
Exit codes: 0 the gap is within the tolerance, or not significant; 1 success is lower in the second engine by more than
the tolerance, and the interval of the gap excludes equality; 2 invalid input.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    episodes = parse_count(options.episodes, "--episodes")
    tolerance = parse_percent(options.tolerance, "--tolerance")

    from mygym.reporting.certificate import certify
    from mygym.training.directory import CERTIFICATE

    certificate = certify(options.run, episodes, options.engines, tolerance, film=not options.no_film)
    if options.json:
        print_json(certificate.to_json())
    else:
        print_table(certificate.table())
        print(f"gap: {certificate.gap_in_words()}")
        print(f"verdict: {certificate.verdict()}")
        for outcome, path in certificate.films.items():
            print(f"film, {outcome}: {Path(options.run) / path}")
        print(f"certificate: {Path(options.run) / CERTIFICATE}")
    if certificate.is_worse:
        sys.stdout.flush()
        sys.exit(1)
