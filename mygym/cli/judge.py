"""`mygym judge`, `leaderboard` and `certify`: fresh episodes of finished runs, as rows, and in two engines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mygym.cli.command import (
    FORMAT_FLAGS,
    JSON,
    LOGDIR,
    argument,
    chosen_format,
    command,
    count,
    log_directory,
    parse_percent,
)
from mygym.cli.output import exit_with_failure, print_json, print_table
from mygym.engines.engine import BULLET, MUJOCO
from mygym.errors import ConfigError, MygymError, bad_value, print_message, print_note
from mygym.reporting.leaderboard import Row, merge, ranked, read, table
from mygym.reporting.tables import FORMATS
from mygym.training.directory import CERTIFICATE
from mygym.training.files import check_writable

EPISODES = 100
OUTPUT = "leaderboard.json"


@command(
    "mygym judge",
    count("--episodes", f"number of episodes (default {EPISODES}; --again: as in the row)"),
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
Exit codes: 0 done, 1 a row disagrees or one of several runs cannot be judged, 2 invalid input.
""",
)
def judge(options: argparse.Namespace) -> None:
    """Judge finished runs: play fresh episodes with the saved policy, and write a row of a leaderboard for each run."""
    if options.again is not None:
        if options.output is not None:
            raise ConfigError("mygym judge: --again writes no file; leave out --output")
        _judge_again(Path(options.again), options.runs or [LOGDIR], options.episodes, options.json)
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
        print_note(f"{record.path} is not judged: it is {record.status}")
    rows: list[Row] = []
    for record in finished:
        try:
            row = judge(Path(record.path), options.episodes or EPISODES)
        except MygymError as error:
            if len(finished) == 1:
                raise
            print_message(f"error: {record.path} is not judged: {error}")
            continue
        merge(file, row)
        rows.append(row)
    if options.json:
        print_json([row.to_json() for row in rows])
    elif rows:
        print_table(table(rows))
        print(f"leaderboard: {file}")
    if len(rows) < len(finished):
        exit_with_failure()


def _judge_again(file: Path, sources: Sequence[str], episodes: int | None, as_json: bool) -> None:
    """Compare the rows of a leaderboard with other episodes of the same runs."""
    rows = read(file)

    from mygym.reporting.judgement import Repetition, rejudge

    repetitions = rejudge(rows, sources, episodes)
    judged = {repetition.row.run for repetition in repetitions}
    for row in rows:
        if row.run not in judged:
            print_note(f"{row.run} is not judged again: it is not in {', '.join(sources)}")

    def cells(repetition: Repetition) -> dict[str, str]:
        difference = repetition.difference
        return {
            "run": repetition.row.run,
            "row": _success(repetition.row),
            "again": _success(repetition.again) if repetition.again else "",
            "agrees": f"no: {difference}" if difference else "yes",
        }

    if as_json:
        print_json([{**cells(each), "agrees": not each.difference, "why": each.difference} for each in repetitions])
    else:
        print_table([cells(repetition) for repetition in repetitions])
    if any(repetition.difference for repetition in repetitions):
        exit_with_failure()


def _success(row: Row) -> str:
    low, high = row.interval
    return f"{row.successes} of {row.episodes} ({low:.1%} to {high:.1%})"


@command(
    "mygym leaderboard",
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
def leaderboard(options: argparse.Namespace) -> None:
    """Print the table of a leaderboard that `mygym judge` has written; refuse rows that were edited."""
    form = chosen_format(options)
    rows = read(Path(options.file))
    if form == "json":
        print_json([row.to_json() for row in ranked(rows)])
    elif form:
        print(FORMATS[form](table(rows)), end="")
    else:
        print_table(table(rows))


ENGINES = (BULLET, MUJOCO)


@command(
    "mygym certify",
    argument("run", metavar="RUN", help="a run directory whose status is done"),
    count("--episodes", "episodes in each engine", EPISODES),
    argument(
        "--engines",
        nargs=2,
        default=ENGINES,
        metavar="E",
        help=f"two engines with single worlds, of `mygym list engine` (default {' '.join(ENGINES)})",
    ),
    argument(
        "--tolerance",
        metavar="PERCENT",
        default="5%",
        help="percent points by which success may be lower in the second engine (default 5%%)",
    ),
    argument("--no-film", action="store_true", help="write no films"),
    JSON,
    examples="""
mygym certify runs/reach/panda/sac/1a2b3c4d/seed_0
mygym certify runs/push/panda/ppo/1a2b3c4d/seed_0 --episodes 500 --tolerance 3
mygym certify runs/reach/panda/sac/1a2b3c4d/seed_0 --engines mujoco pybullet --no-film --json
""",
    notes="""
Writes certificate.json and certificate.md into the run directory, and up to two films into its folder videos: the first
episode that ends in success in both engines, and the first in which the engines disagree. A later certificate replaces
them. All policies play the same episodes, on seeds that no training, evaluation or leaderboard uses. Intervals are at
95 %: Wilson's for the success in each engine, and for the gap Newcombe's for equal episodes. A run of another engine's
training is judged alike; evaluations of the run and leaderboards stay in the engine that judges it.
The verdict is `undecided` while the interval of the gap leaves room for a larger loss; more episodes narrow it.
Exit codes: 0 the gap is within the tolerance, or undecided; 1 success is lower in the second engine by more than
the tolerance, and the interval of the gap excludes equality; 2 invalid input.
""",
)
def certify(options: argparse.Namespace) -> None:
    """Play the same fresh episodes with a finished run's policy in two physics engines: success, and the gap."""
    tolerance = parse_percent(options.tolerance, "--tolerance")

    from mygym.reporting.judgement import certify

    certificate = certify(options.run, options.episodes, options.engines, tolerance, film=not options.no_film)
    if options.json:
        print_json(certificate.to_json())
    else:
        print_table(certificate.table())
        print(f"gap: {certificate.gap_in_words()}")
        print(f"verdict: {certificate.verdict()}")
        for outcome, path in certificate.films.items():
            print(f"film, {outcome}: {Path(options.run) / path}")
        print(f"certificate: {Path(options.run) / CERTIFICATE}")
    if certificate.is_worse:
        exit_with_failure()
