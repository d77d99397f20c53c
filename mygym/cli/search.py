"""`mygym search`: search the best path through the super-networks of a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mygym.cli.command import JSON, argument, command, parse_count, parse_seed
from mygym.cli.output import print_json, print_table
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value

METHODS = ("evolutionary", "random")
SHOWN = 20
"""Maximum number of rows of the table."""


@command(
    "mygym search",
    "Search the best path through the super-networks of a run.",
    argument("run", metavar="RUN", help="a run directory, or a policy file in it"),
    argument("--method", default=METHODS[0], metavar="M", help="evolutionary (default) or random"),
    argument("--tries", default="20", metavar="N", help="number of evaluated paths (default 20)"),
    argument("--budget-us", metavar="X", help="longest forward pass with one observation, in microseconds"),
    argument("--episodes", default="20", metavar="N", help="episodes per path (default 20)"),
    argument("--seed", default="0", metavar="S", help="seed of paths and episodes (default 0)"),
    argument("--out", metavar="FILE", help="write the policy with the best path: RUN/NAME.safetensors"),
    JSON,
    examples="""
mygym search runs/reach/panda/ppo/1a2b3c4d/seed_0
mygym search runs/reach/panda/ppo/1a2b3c4d/seed_0 --method random --tries 50 --episodes 100
mygym search RUN --budget-us 80 --out RUN/fast.safetensors      then: python evaluate.py RUN/fast.safetensors
""",
    notes="""
In a run with `--strategy mixture` whose networks are sampled (`by: sampler`) or mixed, a path is a choice of one
candidate in each layer. The command measures the time of each path and evaluates all paths on the same episodes. It
does not change the run.
""",
)
def search(options: argparse.Namespace) -> None:
    """Run the command."""
    if options.method not in METHODS:
        raise ConfigError(bad_value("--method", options.method, METHODS))
    budget = None if options.budget_us is None else parse_value(options.budget_us, "--budget-us")
    if budget is not None and (not isinstance(budget, int | float) or isinstance(budget, bool) or not budget > 0):
        raise ConfigError(bad_value("--budget-us", options.budget_us, "a number above 0"))
    tries, episodes = parse_count(options.tries, "--tries"), parse_count(options.episodes, "--episodes")
    seed = parse_seed(options.seed)

    from mygym.api import search

    candidates = search(
        options.run,
        method=options.method,
        tries=tries,
        budget_us=budget,
        episodes=episodes,
        seed=seed,
        out=options.out,
    )
    if options.json:
        print_json([asdict(candidate) for candidate in candidates])
        return
    print_table(
        [
            {
                "path": " ".join(map(str, candidate.path)),
                "forward pass": f"{candidate.microseconds:.0f} µs",
                "success": f"{candidate.success_rate:.1%}",
                "mean return": f"{candidate.mean_return:.2f}",
            }
            for candidate in candidates[:SHOWN]
        ],
        f"{len(candidates)} paths, {episodes} episodes each",
    )
    if options.out:
        print(f"policy: {options.out}")
