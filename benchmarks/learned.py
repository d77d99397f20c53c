"""Env steps until each algorithm has learned a task, from the tables of suites.

    python benchmarks/learned.py > mygym/reporting/learned.json

A number is the median over the seeds that reached 90 % success in an evaluation; for `reach` that of all runs, which
end when they have learned. `mygym doctor` compares the length of a run with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from mygym.benchmark.stored import read_stored
from mygym.engines.engine import BULLET, MUJOCO
from mygym.registry import registry
from mygym.tasks.lookup import find_task

TABLES = Path(__file__).parent / "tables"


def learned() -> dict[str, dict[str, int]]:
    """Return task → algorithm → env steps, of runs with the defaults of the task."""
    measured: dict[tuple[str, str], list[int]] = {}
    for record in (record for cell in read_stored(TABLES / "algorithms").values() for record in cell.setting.records):
        if record.framework == "pytorch":
            measured.setdefault(("reach", record.algo), []).append(record.steps)
    cells = {**read_stored(TABLES / "core"), **read_stored(TABLES / "learning")}
    for name, cell in cells.items():
        task, robot, engine, method = name.split("/")
        own = robot == find_task(task).robot and method.partition("-")[0] in registry("algorithm")
        if task != "reach" and own and engine in (BULLET, MUJOCO):
            steps = [record.steps_to_90 for record in cell.setting.records if record.steps_to_90 is not None]
            measured.setdefault((task, cell.setting.records[0].algo), []).extend(steps)
    table: dict[str, dict[str, int]] = {}
    for (task, algo), steps in sorted(measured.items()):
        if steps:
            table.setdefault(task, {})[algo] = round(statistics.median(steps))
    return table


def main() -> None:
    """Print the table, a task on each line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    rows = (f"{json.dumps(task)}: {json.dumps(row)}" for task, row in learned().items())
    print("{" + ",\n ".join(rows) + "}")


if __name__ == "__main__":
    main()
