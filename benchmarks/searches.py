"""Searches that ship in `configs/sweeps`, and the values that algorithms and engines have by default beside them.

    python benchmarks/searches.py > benchmarks/results/searches.md

Each file is searched as `mygym sweep FILE` does. The row *default* is a run of the same config without the ranges, with
the first seed of the sweep and its objective.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from mygym.errors import print_message
from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]

FILES = ("reach_fused", "reach_population")
SHOWN = 5
"""Rows of a table."""


def search(name: str, folder: Path, jobs: int) -> list[dict[str, Any]]:
    """Return the rows of a search, the best first, and that of the defaults; a search that exists goes on."""
    from mygym.config import load_file
    from mygym.sweeps.executors import LocalExecutor
    from mygym.sweeps.run import new_sweep, resume_sweep

    file = load_file(ROOT / "configs/sweeps" / f"{name}.yaml")
    work = resume_sweep if (folder / name).exists() else new_sweep
    report = work(folder / name, file, {}, LocalExecutor(jobs), print_message)
    keys = [key for key in report.rows[0] if key.startswith("algo_params.")]
    rows = [{"": _name(row), "score": f"{row['score']:,.4g}", **{key: row[key] for key in keys}} for row in report.rows
            if row["score"] is not None]  # fmt: skip
    score, values = default(file, folder / f"{name}_default")
    return [*rows[:SHOWN], {"": "default", "score": f"{score:,.4g}", **{key: values.get(key) for key in keys}}]


def default(file: dict[str, Any], folder: Path) -> tuple[float, dict[str, Any]]:
    """Return the score of the config without its ranges, and its values."""
    import mygym
    from mygym.config import load_file
    from mygym.nested import merged
    from mygym.reporting.records import find_runs
    from mygym.sweeps.settings import FAST, make_sweep
    from mygym.training.result import Result

    sweep = make_sweep(file)
    if not folder.exists():
        mygym.train({**merged(FAST, sweep.base), "seed": sweep.seeds[0], "logdir": str(folder)})
    run = Path(find_runs(folder)[0].path)
    result, config = Result.read(run), load_file(run / "config.yaml")
    assert result is not None
    score = sweep.objective.score(result)
    assert score is not None
    return score, {f"algo_params.{key}": value for key, value in config["algo_params"].items()}


def _name(row: dict[str, Any]) -> str:
    return f"trial {row['trial']}" if "trial" in row else f"member {row['member']}, copied from {row['parent']}"


def main() -> None:
    """Search and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", default=FILES, help=f"names of files (default: {' '.join(FILES)})")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--folder", default="", help="folder of the sweeps, which go on if they exist")
    options = parser.parse_args()
    from mygym.config import load_file
    from mygym.reporting.tables import as_markdown
    from mygym.sweeps.settings import make_sweep

    folder = Path(options.folder or tempfile.mkdtemp())
    print("# Searches that ship")
    for name in options.files:
        objective = make_sweep(load_file(ROOT / "configs/sweeps" / f"{name}.yaml")).objective
        better = "larger" if objective.maximize else "smaller"
        rows = search(name, folder, options.jobs)
        print(f"\n## configs/sweeps/{name}.yaml\n\nScore: {objective.name}; {better} is better.\n")
        print(as_markdown(rows), flush=True)
    packages = versions_in_words("optuna", "torch", "pybullet")
    machine = f"{len(os.sched_getaffinity(0))} cores of a shared machine"
    words = "" if tuple(options.files) == FILES else f" --files {' '.join(options.files)}"
    print(
        f"\nMade by `python benchmarks/searches.py{words}`; Python {platform.python_version()}, {packages}, {machine}."
    )


if __name__ == "__main__":
    main()
