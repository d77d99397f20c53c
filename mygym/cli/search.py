"""`mygym search`: the best path through the super-networks of a run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from mygym.cli.arguments import Parser, add_import_flag, count, import_modules
from mygym.cli.tables import print_table
from mygym.config import Layer, resolve
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value

EXAMPLES = """\
examples:
  mygym search runs/reach/panda/ppo/1a2b3c4d/seed_0
  mygym search runs/reach/panda/ppo/1a2b3c4d/seed_0 --method random --tries 50 --episodes 100
  mygym search RUN --budget-us 80 --out RUN/fast.safetensors      then: python evaluate.py RUN/fast.safetensors

A run with `--strategy experts` whose networks are drawn (`by: sampler`) or mixed has as many paths as there are choices
of one candidate in each layer. Each is measured, and judged by the same episodes; the run stays as it is.
"""
METHODS = ("evolutionary", "random")
SHOWN = 20
"""Rows that the table has."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    import_modules(options)
    if options.method not in METHODS:
        raise ConfigError(bad_value("--method", options.method, METHODS))
    budget = None if options.budget_us is None else parse_value(options.budget_us, "--budget-us")
    if budget is not None and (not isinstance(budget, int | float) or isinstance(budget, bool) or not budget > 0):
        raise ConfigError(bad_value("--budget-us", options.budget_us, "a number above 0"))
    tries, episodes = count(options.tries, "--tries"), count(options.episodes, "--episodes")
    seed = resolve([Layer("flag", {"seed": parse_value(options.seed, "--seed")})]).config.seed

    from mygym.api import search

    found = search(
        options.run,
        method=options.method,
        tries=tries,
        budget_us=budget,
        episodes=episodes,
        seed=int(seed or 0),
        out=options.out,
    )
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
        return
    print_table(
        [
            {
                "path": " ".join(map(str, one.path)),
                "forward pass": f"{one.microseconds:.0f} µs",
                "success": f"{one.success_rate:.1%}",
                "mean return": f"{one.mean_return:.2f}",
            }
            for one in found[:SHOWN]
        ],
        f"{len(found)} paths, {episodes} episodes each",
    )
    if options.out:
        print(f"policy: {options.out}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "mygym search",
        description="Find the best path through the super-networks of a run.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="a run directory, or a policy file in one")
    parser.add_argument("--method", default=METHODS[0], metavar="M", help="evolutionary (the default) or random")
    parser.add_argument("--tries", default="20", metavar="N", help="paths that are judged (default 20)")
    parser.add_argument("--budget-us", metavar="X", help="most microseconds of a forward pass with one observation")
    parser.add_argument("--episodes", default="20", metavar="N", help="for each path (default 20)")
    parser.add_argument("--seed", default="0", metavar="S", help="decides paths and episodes (default 0)")
    parser.add_argument("--out", metavar="FILE", help="write the policy with the best path: RUN/NAME.safetensors")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_import_flag(parser)
    return parser
