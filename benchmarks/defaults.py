"""What each task reaches by its name alone, in each engine, from the tables of suites.

    python benchmarks/defaults.py > benchmarks/results/defaults.md

The runs have the default algorithm of the task (with the extra `jax`) and its values: those of
`python train.py --task TASK --engine ENGINE --seed SEED`. The success rate is that of the saved policy in 100 fresh
episodes, in PyBullet. Env steps are those of the first evaluation with at least 90 % success, over the seeds that had
one; minutes are those of the whole run, on the machines of the tables and often beside another training. Notes below
a table name the runs that are not quite those of today.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mygym.benchmark.stored import read_stored
from mygym.engines.engine import BULLET, FUSED, MUJOCO
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from mygym.reporting.records import RunRecord

TABLES = Path(__file__).parent / "tables"

COLUMNS = (
    "task", "algorithm", "seeds", "success, %: median (range)", "seeds at 90 %", "env steps to 90 %", "minutes"
)  # fmt: skip


_LOST = "Objects lost 4 % of their velocity in a second in these runs, but not in those of `slide`, nor do they today."
_WAITED = (
    "In these runs of `xqc` the gradient steps and the environments waited for each other (`overlap: false`), but not "
    "in seed 2 of `throw` and seed 1 of `maze`."
)
NOTES = {BULLET: _WAITED, MUJOCO: _LOST}
"""What differs from today in all runs of an engine."""


def default_cell(task: str, engine: str) -> str | None:
    """Return the name of the cell with the default algorithm of a task; None if the engine does not train the task."""
    try:
        config = resolve_config({"task": task, "engine": engine}).config
    except ConfigError:
        return None
    return f"{task}/{config.robot}/{engine}/{config.algo}"


def spread(values: Sequence[float], form: Callable[[float], str]) -> str:
    """Return the median of numbers and, of several, their range; a dash if there are none."""
    if not values:
        return "–"
    median, low, high = (form(float(value)) for value in (np.median(values), min(values), max(values)))
    return median if len(values) == 1 else f"{median} ({low}–{high})"


def row(task: str, algo: str, records: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return the figures of the runs of a task."""
    success = [100 * record.success_rate for record in records if record.success_rate is not None]
    steps = [record.steps_to_90 for record in records if record.steps_to_90 is not None]
    minutes = [record.wall_time_s / 60 for record in records if record.wall_time_s is not None]
    return (
        f"`{task}`",
        f"`{algo}`",
        str(len(success)),
        spread(success, "{:.4g}".format),
        f"{sum(rate >= 90 for rate in success)}",
        spread(steps, "{:,.0f}".format),
        spread(minutes, "{:.1f}".format),
    )


def main() -> None:
    """Print a table for each engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    cells = {**read_stored(TABLES / "core"), **read_stored(TABLES / "learning")}
    tasks = list(dict.fromkeys(name.partition("/")[0] for name in read_stored(TABLES / "core")))
    print("# What a task reaches by its name alone\n")
    print("Made by `python benchmarks/defaults.py`, whose docstring explains the columns, from the runs of")
    print("[`core`](../tables/core/table.md) and [`learning`](../tables/learning/table.md).")
    for engine in (BULLET, MUJOCO, FUSED):
        flag = "" if engine == BULLET else f" --engine {engine}"
        print(f"\n## `python train.py --task TASK{flag}`\n")
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
        names = {task: default_cell(task, engine) for task in tasks}
        without = [f"`{task}`" for task, name in names.items() if name is not None and name not in cells]
        for task, name in names.items():
            if name in cells:
                print(f"| {' | '.join(row(task, name.rpartition('/')[2], cells[name].setting.records))} |")
        if engine in NOTES:
            print(f"\n{NOTES[engine]}")
        for task, name in names.items():
            if name in cells and cells[name].note:
                print(f"\n`{task}`: {cells[name].note}")
        if without:
            print(f"\nNot measured: {', '.join(without)}.")


if __name__ == "__main__":
    main()
