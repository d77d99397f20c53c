"""`mygym compare`: settings side by side, and whether a difference is real."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from mygym.benchmark.stored import is_stored
from mygym.benchmark.table import compare_tables
from mygym.cli.command import (
    FORCE,
    FORMAT_FLAGS,
    JSON,
    argument,
    check_output,
    chosen_format,
    command,
    log_directory,
    parse_percent,
)
from mygym.cli.output import exit_with_failure, print_json, print_table
from mygym.errors import ConfigError, bad_value, counted, print_message, print_note
from mygym.reporting.comparison import Comparison, compare, store, too_few
from mygym.reporting.settings import find_settings
from mygym.reporting.statistics import Interval
from mygym.reporting.tables import FORMATS, as_text, duration, with_interval
from mygym.training.files import make_folder_for, write_text


@command(
    "mygym compare",
    argument(
        "--metric", metavar="NAME,…", help="recorded figures to compare as well, e.g. train_success or train/loss"
    ),
    JSON,
    *FORMAT_FLAGS,
    argument("--save", metavar="FILE", help="write the settings to a new .json file: a baseline for later comparisons"),
    FORCE,
    argument(
        "--fail-if-worse",
        metavar="PERCENT",
        help="exit with 1 if a success rate is lower than the first by PERCENT points or more, and no chance result",
    ),
    logdir=log_directory(
        "folder above settings, a setting (a folder whose runs differ in their seeds), a file of --save, or two "
        "benchmarks, whose cells are compared",
        dest="settings",
        metavar="SETTING",
        several=True,
    ),
    examples="""
mygym compare runs/reach/panda
mygym compare runs/push/panda/ppo/0123abcd runs/push/panda/sac/4567cdef
mygym compare runs/push --metric train_success,train/loss
mygym compare runs/push --save baseline.json
mygym compare baseline.json runs/push --fail-if-worse 5%
mygym compare suites/before suites/after --fail-if-worse 5%
""",
    notes="""
The first setting is the reference; rows are named by the difference of their configs. `success` is the interquartile
mean over the seeds; its interval at 95 % is the wider of the bootstrap over seeds and Wilson's over all episodes.
`difference` compares equal seeds where both settings have them. `better`: the probability that a run has a higher
success rate than a run of the first setting. Steps and time to 90 % success are medians over the seeds. A figure of
`--metric` is the interquartile mean of its last values over the seeds, then the difference to the first setting, each
with the interval of the bootstrap. Of two benchmarks (folders of `mygym benchmark`, or their table.json), each cell of
the second is compared with the same cell of the first.
""",
)
def compare_settings(options: argparse.Namespace) -> None:
    """Compare settings: success, return and time to learn over their seeds, and whether differences are real."""
    form = chosen_format(options)
    threshold = parse_percent(options.fail_if_worse, "--fail-if-worse") if options.fail_if_worse else None
    if options.save:
        check_output(Path(options.save), "--save", [".json"], options.force)
    if all(map(is_stored, options.settings)):
        comparisons = _compare_tables(options)
    else:
        settings = find_settings(options.settings)
        if options.save:
            make_folder_for(Path(options.save))
            write_text(Path(options.save), store(settings))
            print_message(f"{counted(len(settings), 'setting')} in {options.save}")
            if len(settings) == 1:
                return
        comparisons = compare(settings, options.metric.split(",") if options.metric else ())
    rows = [_cells(comparison) for comparison in comparisons]
    if form == "json":
        print_json(comparisons)
    elif form:
        print(FORMATS[form](rows), end="")
    else:
        print_table(rows)
    if message := too_few(comparisons):
        print_note(message)
    worse = [] if threshold is None else [each for each in comparisons if each.is_worse_by(threshold)]
    for comparison in worse:
        print_message(f"worse: {comparison.name}, {_difference(comparison)} percent points")
    if worse:
        exit_with_failure()


def _compare_tables(options: argparse.Namespace) -> list[Comparison]:
    """Return the cells of the second table of a benchmark, compared with those of the first."""
    if len(options.settings) != 2:
        paths = " ".join(options.settings)
        raise ConfigError(bad_value("mygym compare", paths, "two benchmarks, e.g. suites/before suites/after"))
    if flag := next((flag for flag in ("metric", "save") if getattr(options, flag)), None):
        raise ConfigError(f"mygym compare: --{flag} needs settings, not tables of benchmarks")
    comparisons, notes = compare_tables(*options.settings)
    for note in notes:
        print_note(note)
    return comparisons


def _difference(comparison: Comparison) -> str:
    if comparison.difference is None or comparison.difference_interval is None:
        return ""
    low, high = comparison.difference_interval
    return with_interval(100 * comparison.difference, Interval(100 * low, 100 * high), "+.1f")


def _runs(comparison: Comparison) -> str:
    return f"{comparison.runs}" + (f", {comparison.diverged} diverged" if comparison.diverged else "")


def _cells(comparison: Comparison) -> dict[str, str]:
    """Return the cells of a row: before the path, one for each figure that was asked for, with its difference."""
    cells = {name: text(comparison) for name, text in CELLS.items()}
    setting = cells.pop("setting")
    for name, figure in comparison.figures.items():
        difference = with_interval(figure.difference, figure.difference_interval, "+.3g")
        cells[name] = "; ".join(filter(None, (with_interval(figure.value, figure.interval, ".3g"), difference)))
    return {**cells, "setting": setting}


CELLS: Mapping[str, Callable[[Comparison], str]] = {
    "name": lambda comparison: comparison.name,
    "seeds": _runs,
    "success": lambda comparison: with_interval(comparison.success_rate, comparison.success, ".1%"),
    "difference": _difference,
    "better": lambda comparison: as_text(comparison.improvement, ".0%"),
    "return": lambda comparison: as_text(comparison.mean_return, ".2f"),
    "to 90 %": lambda comparison: as_text(comparison.steps_to_90, ",.0f"),
    "in": lambda comparison: duration(comparison.seconds_to_90),
    "setting": lambda comparison: comparison.path,
}
"""Column → its text."""
