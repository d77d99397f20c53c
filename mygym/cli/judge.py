"""`mygym judge`: fresh episodes of finished runs, written as rows of a leaderboard, or compared with its rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mygym.cli.arguments import parse_count
from mygym.cli.command import JSON, LOGDIR, argument, command, log_directory
from mygym.cli.output import print_json, print_note, print_table
from mygym.errors import ConfigError, bad_value
from mygym.reporting.leaderboard import Row, merge, read, table
from mygym.training.files import check_writable

EPISODES = 100
OUTPUT = "leaderboard.json"

PARSER = command(
    "mygym judge",
    "Judge finished runs: play fresh episodes with the saved policy, and write a row of a leaderboard for each run.",
    argument("--episodes", metavar="N", help=f"number of episodes (default {EPISODES}; --again: as in the row)"),
    argument("-o", "--output", metavar="FILE", help=f"leaderboard to extend or create (default {OUTPUT})"),
    argument("--again", metavar="FILE", help="judge the runs of a leaderboard again; exit with 1 if a row disagrees"),
    JSON,
    logdir=log_directory(
        "run directory, or a folder above runs (--again: default runs)",
        dest="runs",
        metavar="RUN",
        several=True,
        default="",
    ),
    examples="""
mygym judge runs/reach/panda/sac/1a2b3c4d/seed_0
mygym judge runs/push --episodes 500 -o push.json
mygym judge --again leaderboard.json
mygym judge --again leaderboard.json runs/reach
mygym leaderboard leaderboard.json --markdown
""",
    notes="""
All policies play the same episodes, on seeds that no training and no evaluation uses. A row has the success with
Wilson's 95 % interval, config hash, versions, the SHA-256 of policy.safetensors, and a checksum of its content. The
checksum detects accidents and edits. It is no proof of the author, because anyone can compute it: to verify a row,
judge the run again. A run that is judged a second time replaces its row. --again plays other episodes and changes no
file: a row agrees if weights and config are those of the row, and the two intervals overlap.
Exit codes: 0 done, 1 a row disagrees, 2 invalid input.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    episodes = None if options.episodes is None else parse_count(options.episodes, "--episodes")
    if options.again is not None:
        if options.output is not None:
            raise ConfigError("mygym judge: --again writes no file; leave out --output")
        _judge_again(Path(options.again), options.runs or [LOGDIR], episodes, options.json)
        return
    if not options.runs:
        raise ConfigError(bad_value("mygym judge", "", "a RUN, --logdir DIR, or --again FILE", "has no RUN"))
    file = Path(options.output or OUTPUT)
    if file.suffix != ".json":
        raise ConfigError(bad_value("--output", str(file), "a file that ends in .json"))
    check_writable(file.parent, "--output", str(file))
    if file.exists():
        read(file)  # refuses a file that is no leaderboard, before the episodes are played

    from mygym.reporting.judgement import find_finished, judge

    finished, unfinished = find_finished(options.runs)
    for record in unfinished:
        print_note(f"note: {record.path} is not judged: it is {record.status}")
    rows: list[Row] = []
    for record in finished:
        row = judge(Path(record.path), episodes or EPISODES)
        merge(file, row)
        rows.append(row)
    if options.json:
        print_json([row.to_json() for row in rows])
    else:
        print_table(table(rows))
        print(f"leaderboard: {file}")


def _judge_again(file: Path, sources: Sequence[str], episodes: int | None, as_json: bool) -> None:
    """Compare the rows of a leaderboard with other episodes of the same runs."""
    rows = read(file)

    from mygym.reporting.judgement import Repetition, rejudge

    repetitions = rejudge(rows, sources, episodes)
    judged = {repetition.row.run for repetition in repetitions}
    for row in rows:
        if row.run not in judged:
            print_note(f"note: {row.run} is not judged again: it is not in {', '.join(sources)}")

    def cells(repetition: Repetition) -> dict[str, str]:
        difference = repetition.difference
        return {
            "run": repetition.row.run,
            "row": _success(repetition.row),
            "again": _success(repetition.again),
            "agrees": f"no: {difference}" if difference else "yes",
        }

    if as_json:
        print_json([{**cells(each), "agrees": not each.difference, "why": each.difference} for each in repetitions])
    else:
        print_table([cells(repetition) for repetition in repetitions])
    if any(repetition.difference for repetition in repetitions):
        sys.stdout.flush()
        sys.exit(1)


def _success(row: Row) -> str:
    low, high = row.interval
    return f"{row.successes} of {row.episodes} ({low:.1%} to {high:.1%})"
