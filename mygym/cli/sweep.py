"""`mygym sweep`: search for the values of a config whose runs are the best."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.cli.command import JSON, SET, argument, command, count, repeated
from mygym.cli.output import print_json, print_table
from mygym.config import load_file, parse_overrides
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value, counted, print_message
from mygym.sweeps import executors
from mygym.sweeps.executors import Executor
from mygym.sweeps.space import RANGE_WORDS, find_parameters

if TYPE_CHECKING:
    from mygym.sweeps.run import Report

SPELLED = {"file": "FILE", "out": "--logdir", "train_on": "--train-on"}
"""Argument → its spelling, if that is not its name."""

SHOWN = 10
"""Maximum number of rows of the table."""

REFRESH = 2.0
"""s between two looks of `--watch`."""

EXECUTORS = ("local", "ray", "slurm")

LOGDIR = Path("sweeps")
"""Folder of the sweeps without `--logdir`."""

EXECUTION = (
    count("--jobs", "runs at the same time (default: as many as cores and memory allow)", former="--workers"),
    argument("--executor", metavar="E", default="local", help="local (default), ray or slurm"),
    argument("--address", metavar="A", help="with --executor ray: address of the cluster (default auto)"),
    repeated(
        "--resource",
        "KEY=VALUE",
        "of each run: an option of Ray's tasks, e.g. num_gpus=1, or of submitit, e.g. slurm_partition=cpu",
    ),
)
"""Flags of `make_executor`."""


@command(
    "mygym sweep",
    argument("file", nargs="?", metavar="FILE", help="a config in which values are ranges, with a section `sweep`"),
    repeated(
        "--space",
        "KEY=RANGE",
        "a range, e.g. 'algo_params.gamma={choice: [0.9, 0.95]}'; default: the search space of the algorithm",
    ),
    SET,
    count("--trials", "number of trials (default 30, or the whole grid)"),
    *EXECUTION,
    argument(
        "--logdir",
        "--out",
        dest="out",
        metavar="DIR",
        help="new folder of the sweep and its runs (default: sweeps/NAME, of FILE)",
    ),
    argument("--resume", metavar="DIR", help="continue a sweep that was stopped or killed, or extend it by --trials"),
    repeated("--past", "DIR", "folder whose runs of this space become trials"),
    count("--train-on", "with --resume: continue the runs of the N best trials up to --steps"),
    count("--steps", "with --train-on: env steps of each run at its end"),
    argument("--watch", metavar="DIR", help="show the state of a sweep: progress, time left, the best trial, runs"),
    JSON,
    examples="""
mygym sweep configs/sweeps/reach_ppo.yaml --jobs 4
mygym sweep --space default --set algo=sac --set steps=4000 --trials 20
mygym sweep --space 'algo_params.learning_rate={loguniform: [1e-5, 1e-2]}' --set sweep.seeds=3 --logdir sweeps/rate
mygym sweep --resume sweeps/rate --trials 50
mygym sweep --resume sweeps/rate --train-on 10 --steps 100000
mygym sweep --watch sweeps/rate
mygym sweep configs/sweeps/reach_ppo.yaml --executor ray --address auto
mygym train --config sweeps/rate/best.yaml
""",
    notes="""
Ranges: {grid: [A, …]}, {choice: [A, …]}, {uniform: [LOW, HIGH]}, {loguniform: [LOW, HIGH]}, {int: [LOW, HIGH]}.
Keys of the section `sweep`: trials, sampler (grid, random, tpe, cmaes, nsga2), pruner (none, median, hyperband,
wilcoxon), seeds, objective (success, seconds, steps_to_0.9, seconds_to_0.9, {maximize: KEY}, {minimize: KEY}, or two of
them), space, sampler_seed. A trial is an ordinary run for each seed, in DIR/trials/NUMBER. Ctrl-C stops the runs with
checkpoints; --resume continues the sweep, also after a crash. Needs Optuna: pip install "mygym[sweep]".
""",
)
def sweep(options: argparse.Namespace) -> None:
    """Search for the values of a config whose runs are the best."""
    _check_combination(options)
    if options.watch:
        _watch(Path(options.watch))
        return
    with contextlib.redirect_stdout(sys.stderr):  # where Ray writes about lost nodes
        report = _search(options)
    if options.json:
        print_json(
            {
                "folder": str(report.folder),
                "objective": report.objective,
                "best": str(report.best),
                "importance": report.importance,
                "trials": report.rows,
            }
        )
        return
    shown = [{key: _cell(value) for key, value in row.items() if key != "runs"} for row in report.rows[:SHOWN]]
    print_table(shown, f"score: {report.objective}; {counted(len(report.rows), 'trial')}")
    for key, share in report.importance.items():
        print_message(f"importance: {share:.0%} {key}")
    print(f"best: {report.best}")
    print(f"sweep: {report.folder}")


def _search(options: argparse.Namespace) -> Report:
    """Execute a new or a resumed sweep, or train its best trials on."""
    from mygym.sweeps.run import new_sweep, resume_sweep, train_on

    file = load_file(options.file) if options.file else None
    flags, executor = _flags(options), make_executor(options)
    if options.train_on:
        return train_on(Path(options.resume), options.train_on, options.steps, executor, print_message)
    if options.resume:
        return resume_sweep(Path(options.resume), file, flags, executor, print_message)
    name = Path(options.file).stem if options.file else "sweep"
    names = (name, *(f"{name}_{number}" for number in range(2, 10_000)))
    free = next(LOGDIR / each for each in names if not (LOGDIR / each).exists())
    return new_sweep(Path(options.out or free), file or {}, flags, executor, print_message, options.past)


def make_executor(options: argparse.Namespace) -> Executor:
    """Return the executor of the flags of `EXECUTION`.

    Raises:
        ConfigError: A flag has a wrong value, or needs another, or the cluster cannot be reached.
    """
    if options.executor not in EXECUTORS:
        raise ConfigError(bad_value("--executor", options.executor, EXECUTORS))
    if options.address and options.executor != "ray":
        raise ConfigError(bad_value("--address", options.address, "--executor ray", "is the address of a Ray cluster"))
    resources = {}
    for pair in options.resource:
        key, equals, text = pair.partition("=")
        if not equals or options.executor == "local":
            raise ConfigError(bad_value("--resource", pair, "KEY=VALUE with --executor ray or slurm"))
        resources[key] = parse_value(text, key)
    if options.executor == "ray":
        return executors.RayExecutor(options.address or "auto", options.jobs, resources)
    if options.executor == "slurm":
        return executors.SlurmExecutor(options.jobs, resources)
    return executors.LocalExecutor(options.jobs)


def _check_combination(options: argparse.Namespace) -> None:
    """Refuse flags that have no meaning together."""
    if options.resume and options.out:
        raise ConfigError("--resume and --logdir exclude each other")
    if options.resume and options.past:
        raise ConfigError("--resume and --past exclude each other: past runs are the first trials of a new sweep")
    if bool(options.train_on) != bool(options.steps) or (options.train_on and not options.resume):
        raise ConfigError("--train-on N needs --resume DIR and --steps N, and --steps needs --train-on")
    excluded = ("file", "space", "set", "trials", "out", "resume", "past", "train_on")
    if options.watch and (flag := next((flag for flag in excluded if getattr(options, flag)), None)):
        raise ConfigError(f"--watch DIR shows a sweep; it cannot be combined with {SPELLED.get(flag, f'--{flag}')}")
    if options.train_on and (options.file or options.space or options.set or options.trials):
        raise ConfigError("--train-on continues trials as they are; it cannot be combined with a file or other values")


def _watch(folder: Path) -> None:
    """Show the state of a sweep: in a terminal until its end or Ctrl-C, else once."""
    from mygym.sweeps.results import read_state

    lines, executing = read_state(folder)
    if not sys.stdout.isatty():
        print("\n".join(lines))
        return
    from rich.live import Live
    from rich.text import Text

    with contextlib.suppress(KeyboardInterrupt), Live(Text("\n".join(lines)), auto_refresh=False) as live:
        while executing:
            time.sleep(REFRESH)
            lines, executing = read_state(folder)
            live.update(Text("\n".join(lines)), refresh=True)


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `--set`, `--space`, `--trials` and `--import`."""
    pairs = [pair for pair in options.space if pair != "default"]
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not isinstance(value := parse_value(text, key), dict):
            raise ConfigError(bad_value("--space", pair, "default, or KEY=RANGE such as steps={int: [1000, 2000]}"))
        if not find_parameters({key: value})[1]:
            raise ConfigError(bad_value(key, next(iter(value), ""), RANGE_WORDS, "is not a range"))
    default = ["sweep.space=default"] if "default" in options.space else []
    trials = [f"sweep.trials={options.trials}"] if options.trials else []
    imports = {"imports": options.imports} if options.imports else {}
    return {**imports, **parse_overrides([*options.set, *pairs, *default, *trials])}


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
