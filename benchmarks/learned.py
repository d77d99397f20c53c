"""Env steps until each algorithm has learned a task, from the table of `algorithms` and the results of `learning.py`.

    python benchmarks/learned.py > mygym/reporting/learned.json

A number is the median over the seeds that reached 90 % success in an evaluation; for `reach` that of all runs, which
end when they have learned. `mygym doctor` compares the length of a run with it.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from pathlib import Path

from mygym.benchmark.stored import read_stored
from mygym.planning.resolve import resolve_config

RESULTS = Path(__file__).parent / "results"
TABLE = Path(__file__).parent / "tables" / "algorithms"

GOOD = 0.9
"""Success rate from which a task counts as learned."""

DEFAULTS = re.compile(
    r"(?:--algo (?P<algo>\w+) )?(?:--framework jax )?(?:--engine mujoco )?--task (?P<task>\w+)(?: --learners 2)?"
    r"|--config configs/(?P<file>\w+)_ppo.yaml"
)
"""Commands that train with the default values of a task: those of XQC do not depend on the engine, and none on the
framework and the learners."""


def learned() -> dict[str, dict[str, int]]:
    """Return task → algorithm → env steps."""
    measured: dict[tuple[str, str], list[int]] = {}
    for cell in read_stored(TABLE).values():
        for record in cell.setting.records:
            if record.framework == "pytorch":
                measured.setdefault(("reach", record.algo), []).append(record.steps)
    for row in json.loads((RESULTS / "learning.json").read_text(encoding="utf-8")):
        words = DEFAULTS.fullmatch(row["command"])
        if words is None or words["task"] == "reach":
            continue
        task = words["task"] or words["file"]
        algo = words["algo"] or ("ppo" if words["file"] else resolve_config(overrides={"task": task}).config.algo)
        reached = [steps for steps, success in row["curve"] if success >= GOOD]
        measured.setdefault((task, algo), []).extend(reached[:1])
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
