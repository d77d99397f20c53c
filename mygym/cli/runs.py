"""`mygym runs`, `doctor` and `serve`: table of runs, which deletes and archives them; causes of failure; dashboard."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any

from mygym.cli.command import (
    FORMAT_FLAGS,
    JSON,
    argument,
    chosen_flag,
    chosen_format,
    command,
    count,
    log_directory,
    parse_integer,
)
from mygym.cli.output import exit_with_failure, print_json, print_table
from mygym.errors import ConfigError, bad_value, counted, print_message
from mygym.reporting.doctor import RULES, SUCCESSFUL, diagnose, has_learned
from mygym.reporting.records import (
    COLUMNS,
    DAMAGED,
    RUNNING,
    SHORT_NAMES,
    RunRecord,
    find_runs,
    remove_runs,
    size_of,
    where_of,
)
from mygym.reporting.run_logs import read_logs
from mygym.reporting.tables import FORMATS, as_text, duration
from mygym.training.files import check_new

WHERE = argument(
    "--where",
    metavar="KEY=VALUE,…",
    help="runs with these values: columns of `mygym runs`, or keys of configs such as algo_params.gamma=0.9",
)


@command(
    "mygym runs",
    WHERE,
    argument("--sort", metavar="KEY", help="sort by a column, the largest number first: success, steps, age …"),
    JSON,
    *FORMAT_FLAGS,
    argument("--delete", action="store_true", help="delete these runs; asks first"),
    argument("--archive", metavar="FILE", help="move these runs into a new .zip file; asks first"),
    argument("--yes", action="store_true", help="delete or archive without a question"),
    logdir=log_directory("log directory, or a folder in it"),
    examples="""
mygym runs
mygym runs --where algo=sac,task=push --sort success
mygym runs --where status=failed --delete
mygym runs runs/reach --markdown
mygym runs --where algo_params.gamma=0.95 --json
""",
    notes="""
Status: done, diverged, interrupted, failed; running (a process is writing the run); stopped (its process was killed:
resume it); damaged (result.json is not readable). The interval is Wilson's over the final episodes. From Python:
`mygym.results("runs")`.
""",
)
def runs(options: argparse.Namespace) -> None:
    """List runs: status, env steps, success with its 95 % interval, time to 90 % success, age."""
    form = chosen_format(options)
    chosen_flag(options, "delete", "archive")
    records = find_runs(options.folder, parse_where(options.where or ""))
    if options.sort:
        records = sort_records(records, options.sort)
    if form == "json":
        print_json(records)
    elif form:
        cells = asdict if form == "csv" else _paper_cells
        print(FORMATS[form]([cells(record) for record in records]), end="")
    else:
        _print(records, options.folder, options.where)
    if records and (options.delete or options.archive):
        _remove(records, options)


_PAIRS = re.compile(r",(?=\s*[\w.]*(?:=|$))")
"""A comma before another pair, not within a list, a mapping or a text."""


def parse_where(text: str) -> dict[str, Any]:
    """Return key → value of `KEY=VALUE,KEY=VALUE`; refuse a pair without `=`, or a malformed value."""
    pairs = []
    for pair in _PAIRS.split(text) if text else []:
        key, equals, value = pair.strip().partition("=")
        if not equals or not key:
            raise ConfigError(bad_value("--where", pair, "KEY=VALUE, e.g. algo=sac", "is not a pair"))
        pairs.append((key, value))
    return where_of(pairs)


def sort_records(records: Sequence[RunRecord], key: str) -> list[RunRecord]:
    """Return records sorted by a known column: the largest number first, texts in their order, None at the end."""
    column = SHORT_NAMES.get(key, key)
    if column not in COLUMNS:
        raise ConfigError(bad_value("--sort", key, [*SHORT_NAMES, *COLUMNS], "is not a column"))
    known = [record for record in records if getattr(record, column) is not None]
    known.sort(key=lambda record: getattr(record, column), reverse="str" not in str(RunRecord.__annotations__[column]))
    return [*known, *(record for record in records if getattr(record, column) is None)]


def _print(records: Sequence[RunRecord], folder: str, where: str | None) -> None:
    if not records:
        print_message(f"no runs in {folder}" + (f" with {where}" if where else ""))
        return
    print_table([_cells(record) for record in records])
    for record in records:
        if record.status == DAMAGED:
            print_message(f"{record.path}: {record.error}")


def _remove(records: Sequence[RunRecord], options: Any) -> None:
    """Ask, then delete or archive the runs."""
    archive = Path(options.archive) if options.archive else None
    if archive is not None:
        if not options.archive.endswith(".zip"):
            raise ConfigError(bad_value("--archive", options.archive, "a new file that ends in .zip"))
        check_new(archive, "--archive", "a .zip file")
    idle = [record for record in records if record.status != RUNNING]
    for record in records:
        if record.status == RUNNING:
            print_message(f"{record.path}: stays, because a process is writing it")
    action = f"move to {archive}" if archive else "delete"
    question = f"{action}: {len(idle)} of {len(records)} runs, {size_of(idle) / 1e6:.1f} MB"
    if not options.yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"{question}: add --yes: no terminal to ask")
        if input(f"{question}? [y/N] ").strip().lower() not in ("y", "yes"):
            print_message("nothing was changed")
            return
    kept = remove_runs(idle, archive)
    for message in kept:
        print_message(message)
    print_message(f"{counted(len(idle) - len(kept), 'run')} {'moved' if archive else 'deleted'}")


def _success(record: RunRecord) -> str:
    if record.success_rate is None:
        return ""
    if record.success_low is None or record.success_high is None:
        return f"{record.success_rate:.0%} so far"
    return f"{record.success_rate:.0%} ({record.success_low:.0%} to {record.success_high:.0%})"


def _cells(record: RunRecord) -> dict[str, Any]:
    return {name: text(record) for name, text in CELLS.items()}


def _paper_cells(record: RunRecord) -> dict[str, Any]:
    names = {key: getattr(record, key) for key in ("task", "robot", "algo", "seed")}
    return {key: value for key, value in (names | _cells(record)).items() if key not in ("age", "run")}


CELLS: Mapping[str, Callable[[RunRecord], str]] = {
    "status": lambda record: record.status,
    "steps": lambda record: f"{record.steps:,}",
    "success": _success,
    "to 90 %": lambda record: as_text(record.steps_to_90, ","),
    "in": lambda record: duration(record.seconds_to_90),
    "age": lambda record: duration(record.age_s),
    "run": lambda record: record.path,
}
"""Column of the table → its text."""


INDENT: Mapping[str, Any] = {"initial_indent": "  ", "subsequent_indent": "  "}


@command(
    "mygym doctor",
    argument("run", metavar="RUN", help="a run directory; the run may still be training"),
    JSON,
    examples="""
mygym doctor runs/push/panda/ppo/1a2b3c4d/seed_0
mygym doctor runs/push/panda/ppo/1a2b3c4d/seed_0 --json
""",
    notes=f"""
Each finding is a line with its evidence and the flag that would change it, causes before their effects. A finding is
a conjecture from numbers: change a single flag at a time. A run with {SUCCESSFUL:.0%} success or more has no findings.

rules:
{fill(", ".join(rule.__name__.replace("_", " ") for rule in RULES), 116, **INDENT)}

Exit codes: 0 no findings, 1 findings, 2 invalid input.
""",
)
def doctor(options: argparse.Namespace) -> None:
    """Find out why a run does not learn, from its config and its logs."""
    logs = read_logs(options.run)
    findings = diagnose(logs)
    if options.json:
        print_json([{"finding": name, **asdict(finding)} for name, finding in findings.items()])
    else:
        record = logs.record
        progress = f"{record.status}, {record.steps:,} of {logs.configured_steps:,} steps, success {logs.success:.0%}"
        print(f"{record.algo} on {record.task}, reward {logs.setting('reward')}: {progress}")
        for name, finding in findings.items():
            print(f"- {name.replace('_', ' ')}: {finding.evidence}; try {finding.remedy}")
        if not findings:
            print("it has learned" if has_learned(logs) else f"none of the {len(RULES)} rules applies")
    if findings:
        exit_with_failure()


PORT = 8080


@command(
    "mygym serve",
    argument("--host", default="127.0.0.1", metavar="H", help="address to bind (default: 127.0.0.1, this machine)"),
    argument("--port", default=str(PORT), metavar="N", help=f"port (default {PORT}; 0: any free port)"),
    argument("--token", metavar="T", help="token of clients (default: that of the log directory, created once)"),
    count("--slots", "cores that jobs may keep busy (default: all)"),
    logdir=log_directory("folder of all runs; created if it is missing"),
    examples="""
mygym serve
mygym serve --logdir runs --port 9000
mygym serve --logdir runs --host 0.0.0.0 --token 'a long secret word'
""",
    notes="""
Open the printed address; it works once, and the browser stays signed in. Clients send `Authorization: Bearer TOKEN`.
Runs are processes that go on when the server ends; a server that starts again finds them.
""",
)
def serve(options: argparse.Namespace) -> None:
    """Start, watch, stop and compare runs in a browser; the API under it is at /api."""
    port = parse_integer(options.port, "--port", "a port, 0 to 65535", 0, 65_535)

    from mygym.dashboard.server import serve

    serve(options.folder, options.host, port, options.token, options.slots, print_message)
