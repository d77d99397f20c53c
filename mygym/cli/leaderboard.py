"""`mygym leaderboard`: the table of a leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mygym.cli.command import FORMAT_FLAGS, JSON, argument, chosen_format, command
from mygym.cli.output import print_json, print_table
from mygym.reporting.leaderboard import ranked, read, table
from mygym.reporting.tables import FORMATS

PARSER = command(
    "mygym leaderboard",
    "Print the table of a leaderboard that `mygym judge` has written; refuse rows that were edited.",
    argument("file", nargs="?", default="leaderboard.json", metavar="FILE", help="the file (default leaderboard.json)"),
    JSON,
    *FORMAT_FLAGS,
    examples="""
mygym leaderboard
mygym leaderboard benchmarks/leaderboard.json --markdown
""",
    notes="""
Rows are sorted by task and robot, then by success and env steps. `policy` is the beginning of the SHA-256 of
policy.safetensors, `changes` are the values of the config that differ from the defaults. `mygym judge --again FILE`
judges the runs of the rows again.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    form = chosen_format(options)
    rows = read(Path(options.file))
    if form == "json":
        print_json([row.to_json() for row in ranked(rows)])
    elif form:
        print(FORMATS[form](table(rows)), end="")
    else:
        print_table(table(rows))
