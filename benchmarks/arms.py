"""Success of the scripted expert with robots that are inferred from bare URDF files.

    python benchmarks/arms.py DIR --episodes 50 > benchmarks/results/arms.md

Every URDF below the folder, or a URDF itself, is a robot without a YAML file. Episodes have seeds 0 to 24; control is
`ee_delta`. Seconds are those of the inference. A robot that a task refuses has the first words of the message.
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import supported_tasks
from mygym.errors import MygymError
from mygym.experts import OraclePolicy
from mygym.robotics.robot import infer_robot
from mygym.training.evaluation import evaluate_policy

TASKS = ("reach", "push", "pick_and_place")

WORDS = 14
"""Words of a message in the table."""


def row(urdf: Path, tasks: tuple[str, ...], episodes: int) -> str:
    """Return the line of the table for one robot."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    try:
        inferred = infer_robot(urdf)
    except MygymError as error:
        return f"| {urdf.stem} | refused: {_short(error)} |" + " |" * (len(tasks) + 1)
    seconds = time.perf_counter() - start
    gripper = next((finding.text for finding in inferred.findings if finding.key == "gripper"), "")
    cells = [urdf.stem, gripper, f"{seconds:.1f}", *(_solved(urdf, task, episodes) for task in tasks)]
    return f"| {' | '.join(cells)} |"


def _solved(urdf: Path, task: str, episodes: int) -> str:
    """Return the number of solved episodes, or the message with which the task refuses the robot."""
    if reason := supported_tasks(str(urdf))[task]:
        return reason
    try:
        env = RobotEnv(robot=str(urdf), task=task)
    except MygymError as error:
        return _short(error)
    try:
        return str(evaluate_policy(OraclePolicy([env], 0), [env], range(episodes)).solved)
    finally:
        env.close()


def _short(error: Exception) -> str:
    return " ".join(str(error).replace("|", "/").split()[:WORDS])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="DIR", help="folders with URDF files, or URDF files")
    parser.add_argument("--episodes", type=int, default=25, help="episodes of each task (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="number of processes (default: %(default)s)")
    parser.add_argument("--tasks", nargs="+", default=TASKS, metavar="TASK", help="tasks (default: %(default)s)")
    options = parser.parse_args()

    files = [file for path in options.paths for file in ([path] if path.is_file() else sorted(path.rglob("*.urdf")))]
    print(f"# Episodes of {options.episodes} that the scripted expert solves with a bare URDF\n")
    print("Made by `python benchmarks/arms.py DIR --episodes N`; the docstring of the program explains the table.\n")
    print(f"| URDF | gripper | inference, s | {' | '.join(options.tasks)} |")
    print("|---|---|---|" + "---|" * len(options.tasks), flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        for line in pool.map(row, files, repeat(tuple(options.tasks)), repeat(options.episodes)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
