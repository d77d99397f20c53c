"""Success of the scripted expert on `reach`, for every robot, workspace of the robot, and controller.

    python benchmarks/reaching.py > benchmarks/results/reaching.md

Episodes have seeds 0 to 99. Robots of the extra `robots` are skipped if it is not installed. Counts below 98 % are
marked.
"""

from __future__ import annotations

import argparse
import time

import mygym
from mygym.experts import OraclePolicy
from mygym.registry import registry
from mygym.robotics.assets import asset_names
from mygym.robotics.workspace import load_workspace
from mygym.training.evaluation import evaluate_policy

NEEDED = 0.98


def solved(robot: str, workspace: str, control: str, episodes: int) -> int:
    """Return the number of episodes in which the expert succeeds."""
    with mygym.make_env({"task": "reach", "robot": robot, "workspace": workspace, "control": control}) as env:
        return evaluate_policy(OraclePolicy([env], 0), [env], range(episodes)).solved


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="episodes of each combination (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="WORKSPACE", help="workspaces (default: all)")
    options = parser.parse_args()

    start, controls = time.perf_counter(), registry("controller").names()
    print(f"# Episodes of {options.episodes} in which the expert reaches\n")
    print("Made by `python benchmarks/reaching.py`; the docstring of the program explains the columns.\n")
    print(f"| workspace | robot | {' | '.join(controls)} |")
    print(f"|---|---|{'---|' * len(controls)}")
    combinations, short = 0, 0
    for workspace in options.only or asset_names("workspaces"):
        for robot in load_workspace(workspace).robots:
            if registry("robot").get(robot).missing_extras:
                continue
            counts = [solved(robot, workspace, control, options.episodes) for control in controls]
            combinations += len(counts)
            short += sum(count < NEEDED * options.episodes for count in counts)
            cells = [f"{count}" if count >= NEEDED * options.episodes else f"**{count}**" for count in counts]
            print(f"| {workspace} | {robot} | {' | '.join(cells)} |", flush=True)
    seconds = time.perf_counter() - start
    print(f"\n{combinations} combinations; {short} below {NEEDED:.0%}, in bold. {seconds:.0f} s.")


if __name__ == "__main__":
    main()
