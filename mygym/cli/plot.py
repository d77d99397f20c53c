"""`mygym plot` and `report`: figures of runs, and one HTML file with their curves, failures, videos and configs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.cli.command import FORCE, argument, check_output, chosen_flag, command, log_directory
from mygym.cli.runs import WHERE, parse_where
from mygym.errors import ConfigError, bad_value, print_note
from mygym.reporting import figures
from mygym.reporting.comparison import Selection, different_rewards, select_runs, sensitivities
from mygym.reporting.curves import STATISTICS, SettingCurves, find_metric, metrics_of
from mygym.reporting.figures import FORMATS, check_matplotlib, rendered
from mygym.reporting.records import find_sweeps
from mygym.reporting.report import report
from mygym.training.files import make_folder_for, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDERS = log_directory("log directories, settings or runs", dest="folders", several=True)


@command(
    "mygym plot",
    argument("-o", "--out", required=True, metavar="FILE", help=f"new file: .{', .'.join(FORMATS)}"),
    WHERE,
    argument(
        "--metric",
        default="success",
        metavar="METRIC",
        help="success (default), return, or any recorded figure: train_success, test_success, a name of loop.record, "
        "a name in progress.jsonl such as train/loss",
    ),
    argument(
        "--aggregate", default="iqm", metavar="NAME", help=f"over the seeds: {', '.join(STATISTICS)} (default: iqm)"
    ),
    argument("--profiles", action="store_true", help="performance profiles: share of runs above each score"),
    argument("--stages", action="store_true", help="share of evaluation episodes that have completed each stage"),
    argument("--sensitivity", metavar="KEY", help="final scores over the values of a key, e.g. algo_params.gamma"),
    FORCE,
    logdir=FOLDERS,
    examples="""
mygym plot -o curves.svg
mygym plot runs/push runs/reach --where algo=ppo -o ppo.png
mygym plot runs/push/panda/*/* --metric return --aggregate mean -o returns.svg
mygym plot runs/push --metric train_success -o train.svg
mygym plot runs/push --stages -o stages.svg
mygym plot runs/push --profiles -o profiles.svg
mygym plot runs/push --sensitivity algo_params.learning_rate -o learning_rate.svg
""",
    notes="""
A row of panels for each task, over env steps and over seconds; a line for each setting, named by the difference of the
configs. Runs are averaged within a setting alone. A line is the interquartile mean over the seeds; its band, at 95 %,
the wider of the bootstrap over seeds and, for success, Wilson's interval over all episodes. A run that is done keeps
its last value, because it has stopped when it was good enough; a diverged run has a success rate of 0. Lines differ in
colour, style and marker. Needs Matplotlib: pip install "mygym[results]".
""",
)
def plot(options: argparse.Namespace) -> None:
    """Draw the learning curves of settings, with bands over their seeds; or profiles, stages, a sensitivity."""
    out = Path(options.out)
    check_output(out, "--out", [f".{form}" for form in FORMATS], options.force)
    if options.aggregate not in STATISTICS:
        raise ConfigError(bad_value("--aggregate", options.aggregate, STATISTICS))
    chosen_flag(options, "profiles", "stages", "sensitivity")
    check_matplotlib()
    selection = select_runs(options.folders, parse_where(options.where or ""))
    figure = _draw(selection, options)
    write_output(out, rendered(figure, out.suffix.removeprefix(".")), selection.notes)


def write_output(path: Path, content: bytes, notes: Sequence[str]) -> None:
    """Write a file, whose folder is created if it is missing; print the notes and the path."""
    make_folder_for(path)
    write_bytes(path, content)
    for note in notes:
        print_note(note)
    print(path)


def _draw(selection: Selection, options: argparse.Namespace) -> Figure:
    settings, aggregate = selection.settings, options.aggregate
    if selection.left_out and not any(each.curves for each in settings):
        raise ConfigError("; ".join(selection.left_out))
    known = metrics_of(curve for each in settings for curve in each.curves)
    metric = find_metric(options.metric, known)
    if metric == "return":
        _check_rewards(settings)
    if options.stages:
        return figures.draw_stages(settings)
    if not (options.profiles or options.sensitivity):
        return figures.draw_curves(settings, metric, aggregate)
    if options.profiles:
        return figures.draw_profiles(settings, metric)
    groups = sensitivities([each.setting for each in settings], options.sensitivity, metric, aggregate)
    return figures.draw_sensitivity(groups, options.sensitivity, metric)


def _check_rewards(settings: Sequence[SettingCurves]) -> None:
    """Refuse returns of different rewards in a panel."""
    for task, members in figures.by_task(settings).items():
        if keys := different_rewards([each.setting for each in members]):
            values = sorted({str(each.setting.config.get(keys[0])) for each in members})
            why = f"cannot be compared: {keys[0]} differs in {task}: {', '.join(values)}"
            raise ConfigError(
                bad_value("--metric", "return", "success; or a single reward, e.g. --where reward=…", why)
            )


@command(
    "mygym report",
    argument("-o", "--out", required=True, metavar="FILE", help="new file that ends in .html"),
    WHERE,
    argument("--embed-videos", action="store_true", help="put the videos into the file; without it they are linked"),
    FORCE,
    logdir=FOLDERS,
    examples="""
mygym report -o report.html
mygym report runs/push runs/reach --where algo=ppo -o ppo.html
mygym report runs/push --embed-videos -o push.html
""",
    notes="""
The file makes no request, and its Content-Security-Policy forbids any. A click on the header of a column sorts a table.
Success is the interquartile mean over the seeds, see `mygym compare --help`; curves are those of `mygym plot`. The
command of each setting repeats its runs. Of a sweep, the page has its best config, tables and figures. Needs
Matplotlib: pip install "mygym[results]".
""",
)
def write_report(options: argparse.Namespace) -> None:
    """Write runs, curves, failures, videos, configs, versions and commands into one HTML file."""
    check_output(Path(options.out), "--out", [".html"], options.force)
    check_matplotlib()
    selection = select_runs(options.folders, parse_where(options.where or ""))
    title = f"Runs in {', '.join(options.folders)}"
    page = report(
        selection,
        title,
        Path(options.out).absolute().parent,
        sweeps=[sweep for folder in options.folders for sweep in find_sweeps(folder)],
        embed_videos=options.embed_videos,
    )
    write_output(Path(options.out), page.encode(errors="replace"), selection.notes)
