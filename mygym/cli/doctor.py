"""`mygym doctor`: reasons why a run does not learn."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import fill
from typing import Any

from mygym.cli.command import JSON, argument, command
from mygym.cli.output import print_json
from mygym.reporting.doctor import RULES, SUCCESSFUL, diagnose, has_learned
from mygym.reporting.run_logs import RunLogs, read_logs

INDENT: Mapping[str, Any] = {"initial_indent": "  ", "subsequent_indent": "  "}

PARSER = command(
    "mygym doctor",
    "Find out why a run does not learn, from its config and its logs.",
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


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    logs = read_logs(options.run)
    findings = diagnose(logs)
    if options.json:
        print_json([{"finding": name, **asdict(finding)} for name, finding in findings.items()])
    else:
        print(_heading(logs))
        for name, finding in findings.items():
            print(f"- {name.replace('_', ' ')}: {finding.evidence}; try {finding.remedy}")
        if not findings:
            print("it has learned" if has_learned(logs) else f"none of the {len(RULES)} rules applies")
    if findings:
        sys.stdout.flush()
        sys.exit(1)


def _heading(logs: RunLogs) -> str:
    record = logs.record
    progress = f"{record.status}, {record.steps:,} of {logs.configured_steps:,} steps, success {logs.success:.0%}"
    return f"{record.algo} on {record.task}, reward {logs.setting('reward')}: {progress}"
