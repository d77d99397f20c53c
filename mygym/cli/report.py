"""`mygym report`: runs, curves, failures, videos and configs in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mygym.cli.command import FORCE, argument, command
from mygym.cli.plot import FOLDERS, WHERE, check_output, write_output
from mygym.cli.runs import parse_where
from mygym.errors import ConfigError, bad_value
from mygym.reporting.comparison import select_runs
from mygym.reporting.panels import check_matplotlib
from mygym.reporting.report import report
from mygym.reporting.sweep_files import find_sweeps

PARSER = command(
    "mygym report",
    "Write runs, curves, failures, videos, configs, versions and commands into one HTML file.",
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


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    if not options.out.endswith(".html"):
        raise ConfigError(bad_value("--out", options.out, "a file that ends in .html"))
    check_output(options)
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
    write_output(options.out, page.encode(errors="replace"), selection.notes)
