"""`mygym benchmark`: the runs of a suite, their table and page, and its verification."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.cli.command import JSON, argument, chosen_flag, command, count, parse_seed, repeated
from mygym.cli.output import exit_with_failure, print_json, print_table
from mygym.cli.sweep import EXECUTION, make_executor
from mygym.errors import ConfigError, InterruptedRunError, print_message
from mygym.training.files import write_json, write_text

if TYPE_CHECKING:
    from mygym.benchmark.execution import Benchmark
    from mygym.benchmark.suite import Suite
    from mygym.benchmark.table import Table
    from mygym.sweeps.executors import Executor

LOGDIR = Path("suites")
"""Folder of the benchmarks without `--logdir`."""

REFRESH = 60.0
"""s after which the table and the page are written again while runs are executing."""

PAGE, MARKDOWN = "index.html", "table.md"


@command(
    "mygym benchmark",
    argument(
        "suite", metavar="SUITE", help="a suite file, a suite that comes with mygym, or the folder of a benchmark"
    ),
    argument("--logdir", metavar="DIR", help=f"folder of the benchmark (default: {LOGDIR}/SUITE)"),
    *EXECUTION,
    argument("--dry-run", action="store_true", help="check and print the cells, the runs that are left and their time"),
    argument("--table", action="store_true", help="execute nothing: write the table and the page of what is there"),
    argument(
        "--verify",
        metavar="CELL",
        help="train a run of a cell again, or N runs at random, and test whether the results hold",
    ),
    argument("--seed", type=parse_seed, metavar="S", default=0, help="with --verify N: seed of the sample (default 0)"),
    repeated("--add", "RUN", "judge a run from elsewhere, or a zip file of it, and add it to the table"),
    argument("--as", dest="method", metavar="NAME", help="with --add: name in the table"),
    count("--episodes", "with --add: number of episodes", 100),
    JSON,
    examples="""
mygym benchmark quick
mygym benchmark quick --dry-run
mygym benchmark my_suite.yaml --logdir suites/mine --jobs 2
mygym benchmark suites/quick --table
mygym benchmark suites/quick --verify reach/panda/pybullet/sac
mygym benchmark suites/quick --verify 20 --seed 3
mygym benchmark suites/quick --add their_run.zip --as "their method"
mygym compare suites/before suites/after
""",
    notes="""
A suite has grids, which are cells of the table: {cells: [{task: [reach, push], algo: [ppo, sac/jax], seeds: 5}]}. Keys
of a grid: task, robot, engine, algo (KEYWORD, KEYWORD/FRAMEWORK, default or all), seeds (a number or a list), name (of
the method in the table), config (a config file), set (config values), and note (what a reader must know). `set` beside
`cells` has config values of all runs, `imports` modules of your algorithms. The runs are ordinary runs in DIR/cells;
the first seed of all cells comes first. The command can be stopped, killed and repeated: it executes what is missing,
also after cells and seeds were added. It writes table.json, table.md, index.html and pictures of the learning curves. A
run's certificate (`mygym certify`) is in the column `elsewhere`. --verify exits with 1 if a result does not hold:
Fisher's exact test on the final episodes finds a difference, and the repeated run is outside the range of the cell's
seeds. A run of --add is judged here; only its config, its result and its weights are read. Executors are those of
`mygym sweep`.
""",
)
def benchmark(options: argparse.Namespace) -> None:
    """Execute the runs of a suite, tasks × robots × algorithms × seeds, and write their table and a page."""
    from mygym.benchmark.execution import Benchmark

    chosen = chosen_flag(options, "dry_run", "table", "verify", "add")
    if options.method and not options.add:
        raise ConfigError("mygym benchmark: --as NAME needs --add RUN")
    opened = Benchmark(*_place(options))
    words = shlex.join(["mygym", "benchmark", *options.words])
    if chosen in ("", "dry_run"):
        opened.try_worlds()
    if options.dry_run:
        _dry_run(opened, options.json, options.jobs or 1)
        return
    executor = None if options.table or options.add else make_executor(options)  # a wrong flag leaves no folder
    holds = True
    with contextlib.redirect_stdout(sys.stderr), opened.locked():  # Ray writes about lost nodes
        if executor is None:
            _add(opened, options)
        elif options.verify:
            holds = _verify(opened, options, executor, words)
        else:
            try:
                opened.execute(executor, words, print_message, _throttled(lambda: _write(opened, curves=False)))
            except InterruptedRunError:
                _write(opened, curves=False)
                raise
        table = _write(opened)
    if options.json or not options.verify:  # the verdicts stay the last lines
        _print(table, options.json)
    if not options.json:
        print(f"benchmark: {opened.folder}")
    if not holds:
        exit_with_failure()


def _place(options: argparse.Namespace) -> tuple[Suite, Path]:
    """Return the suite and the folder of its benchmark."""
    from mygym.benchmark.execution import SUITE
    from mygym.benchmark.suite import load_suite

    folder = Path(options.suite)
    if (folder / SUITE).is_file() and not options.logdir:
        return load_suite(folder / SUITE, folder.absolute().name), folder
    suite = load_suite(options.suite)
    return suite, Path(options.logdir or LOGDIR / suite.name)


def _dry_run(opened: Benchmark, as_json: bool, jobs: int) -> None:
    rows = [
        {
            "cell": cell.name,
            "algorithm": f"{cell.resolved.config.algo} ({cell.resolved.config.framework})",
            "env steps": f"{cell.resolved.config.steps:,}",
            "seeds": len(cell.seeds),
            "ended": sum(opened.ended(run) is not None for run in opened.runs if run.cell is cell),
        }
        for cell in opened.suite.cells
    ]
    if as_json:
        print_json(rows)
        return
    print_table(rows)
    print(opened.state(jobs))


def _verify(opened: Benchmark, options: argparse.Namespace, executor: Executor, words: str) -> bool:
    """Repeat runs; return whether all results hold."""
    from mygym.benchmark.verification import chosen, verify

    runs = chosen(opened, options.verify, options.seed)
    verdicts = verify(opened, runs, executor, words, print_message)
    print_message(f"{sum(verdict.holds for verdict in verdicts)} of {len(runs)} results hold")
    return len(verdicts) == len(runs) and all(verdict.holds for verdict in verdicts)


def _add(opened: Benchmark, options: argparse.Namespace) -> None:
    from mygym.benchmark.imported import add

    for place, row, claim in add(
        opened, [Path(source) for source in options.add], options.method or "", options.episodes
    ):
        rate = f"{row.successes} of {row.episodes} episodes succeed"
        print_message(f"{place.relative_to(opened.folder)}: {rate}{f'; note: {claim}' if claim else ''}")


def _write(opened: Benchmark, curves: bool = True) -> Table:
    """Write table.json, table.md, the page and, if Matplotlib is there, pictures of the learning curves."""
    from mygym.benchmark.page import pictures, write_curves, write_page
    from mygym.benchmark.stored import TABLE
    from mygym.benchmark.table import build_table

    table = build_table(opened)
    if curves:
        with contextlib.suppress(ConfigError):
            write_curves(table, opened.folder)
    write_json(opened.folder / TABLE, table.to_json())
    write_text(opened.folder / MARKDOWN, table.to_markdown(pictures(table, opened.folder)))
    write_text(opened.folder / PAGE, write_page(table, opened.folder))
    return table


def _throttled(function: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls another at most every `REFRESH` s."""
    last = time.monotonic()

    def call() -> None:
        nonlocal last
        if time.monotonic() - last >= REFRESH:
            function()
            last = time.monotonic()

    return call


def _print(table: Table, as_json: bool) -> None:
    from mygym.benchmark.table import method_cells

    if as_json:
        print_json(table.to_json())
        return
    print(table.in_words())
    for rows in table.by_task():
        print_table(rows)
    print_table([method_cells(row) for row in table.methods])
