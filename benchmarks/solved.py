"""Success of the scripted expert on every supported combination of task, workspace and robot.

    python benchmarks/solved.py > benchmarks/results/solved.md
    python benchmarks/solved.py --engine mujoco > benchmarks/results/solved_mujoco.md

Episodes have seeds 0 to 99; control is `ee_delta` with its default step, whatever algorithm and step a training of the
task has by default. Robots of the extra `robots` are skipped if it is not installed.
Counts below 95 % are in bold.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby, repeat

from mygym.engines.engine import BULLET
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import Combination, combinations
from mygym.errors import ConfigError
from mygym.experts import OraclePolicy
from mygym.registry import registry
from mygym.training.evaluation import evaluate_policy

NEEDED = 0.95


def solved(combination: Combination, episodes: int, engine: str) -> tuple[int, float]:
    """Return the number of solved episodes and the mean length in steps."""
    try:
        with RobotEnv(**combination._asdict(), engine=engine) as env:
            evaluation = evaluate_policy(OraclePolicy([env], 0), [env], range(episodes))
    except ConfigError as error:
        print(f"{combination}: {error}", file=sys.stderr)
        return 0, 0.0
    return evaluation.solved, evaluation.mean_length


def _built_in() -> list[str]:
    """Return the built-in named tasks."""
    return [entry.name for entry in registry("task") if entry.built_in]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="episodes of each combination (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="number of processes (default: %(default)s)")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="tasks (default: all)")
    parser.add_argument("--robots", nargs="+", metavar="ROBOT", help="robots (default: all)")
    parser.add_argument("--workspaces", nargs="+", metavar="WORKSPACE", help="workspaces (default: all)")
    parser.add_argument("--engine", default=BULLET, help="engine (default: %(default)s)")
    options = parser.parse_args()

    start = time.perf_counter()
    selected = [
        c
        for c in combinations(tuple(options.tasks or _built_in()))
        if c.robot in (options.robots or (c.robot,)) and c.workspace in (options.workspaces or (c.workspace,))
    ]
    print(f"# Episodes of {options.episodes} that the scripted expert solves\n")
    flags = [
        f" --{key} {value}"
        for key, value, default in (("engine", options.engine, BULLET), ("episodes", options.episodes, 100))
        if value != default
    ]
    made_by = "python benchmarks/solved.py" + "".join(flags)
    print(f"Made by `{made_by}`; the docstring of the program explains the table.\n")
    print("| task | workspace | robots: episodes solved (mean steps) |")
    print("|---|---|---|")
    failed = 0
    with ProcessPoolExecutor(options.processes) as pool:
        counts = zip(
            selected, pool.map(solved, selected, repeat(options.episodes), repeat(options.engine)), strict=True
        )
        for (task, workspace), group in groupby(counts, lambda item: (item[0].task, item[0].workspace)):
            cells = []
            for combination, (count, steps) in group:
                enough = count >= NEEDED * options.episodes
                failed += not enough
                cells.append(f"{combination.robot} {count if enough else f'**{count}**'} ({steps:.0f})")
                print(f"{task} {workspace} {cells[-1]}", file=sys.stderr, flush=True)
            print(f"| {task} | {workspace} | {', '.join(cells)} |", flush=True)
    robots, tasks = len({c.robot for c in selected}), len({c.task for c in selected})
    seconds = time.perf_counter() - start
    print(
        f"\n{len(selected)} combinations of {robots} robots and {tasks} tasks; {failed} below {NEEDED:.0%}, in bold.",
        end=" ",
    )
    print(f"{seconds:.0f} s.")


if __name__ == "__main__":
    main()
