"""Every robot on every task in every workspace that is listed as supported: does the scripted expert solve it?

    python benchmarks/solved.py > benchmarks/results/solved.md

Episodes are those of seeds 0 to 99, control is `ee_delta`. Robots of the extra `robots` are left out where it is not
installed. Counts below 95 % are in bold.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby

import mygym
from mygym.envs.supported import Combination, combinations
from mygym.errors import ConfigError
from mygym.experts import OraclePolicy
from mygym.registry import registry
from mygym.runs.evaluation import evaluate_policy

NEEDED = 0.95


def solved(combination: Combination, episodes: int) -> tuple[int, float]:
    """Episodes in which the expert succeeds, and their mean length in steps."""
    try:
        with mygym.make_env(combination._asdict()) as env:
            done = evaluate_policy(OraclePolicy([env], 0), [env], range(episodes))
    except ConfigError as error:
        print(f"{combination}: {error}", file=sys.stderr)
        return 0, 0.0
    return done.solved, done.mean_length


def _built_in() -> list[str]:
    """Named tasks that ship."""
    return [entry.name for entry in registry("task") if entry.built_in]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="of each combination (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default: %(default)s)")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="these (default: all)")
    parser.add_argument("--robots", nargs="+", metavar="ROBOT", help="these (default: all)")
    parser.add_argument("--workspaces", nargs="+", metavar="WORKSPACE", help="these (default: all)")
    options = parser.parse_args()

    begin = time.perf_counter()
    mine = [
        one
        for one in combinations(tuple(options.tasks or _built_in()))
        if one.robot in (options.robots or (one.robot,)) and one.workspace in (options.workspaces or (one.workspace,))
    ]
    print(f"# Episodes of {options.episodes} that the scripted expert solves\n")
    print("Made by `python benchmarks/solved.py`; what it means: the docstring of the program.\n")
    print("| task | workspace | robots: episodes solved (mean steps) |")
    print("|---|---|---|")
    short = 0
    with ProcessPoolExecutor(options.processes) as pool:
        counts = zip(mine, pool.map(solved, mine, [options.episodes] * len(mine)), strict=True)
        for (task, workspace), group in groupby(counts, lambda one: (one[0].task, one[0].workspace)):
            cells = []
            for combination, (count, steps) in group:
                enough = count >= NEEDED * options.episodes
                short += not enough
                cells.append(f"{combination.robot} {count if enough else f'**{count}**'} ({steps:.0f})")
                print(f"{task} {workspace} {cells[-1]}", file=sys.stderr, flush=True)
            print(f"| {task} | {workspace} | {', '.join(cells)} |", flush=True)
    robots, tasks = len({one.robot for one in mine}), len({one.task for one in mine})
    seconds = time.perf_counter() - begin
    print(
        f"\n{len(mine)} combinations of {robots} robots and {tasks} tasks; {short} below {NEEDED:.0%}, in bold.",
        end=" ",
    )
    print(f"{seconds:.0f} s.")


if __name__ == "__main__":
    main()
