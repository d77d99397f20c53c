"""`mygym check`: validate a component."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from mygym.checks import CHECKED_KINDS
from mygym.cli.arguments import command_kind, parse_count, registry_kind
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import print_json
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry

if TYPE_CHECKING:
    from mygym.checks import Outcome

KINDS_IN_WORDS = ", ".join(map(command_kind, CHECKED_KINDS[:-1])) + f" or {command_kind(CHECKED_KINDS[-1])}"

PARSER = command(
    "mygym check",
    "Validate a component: run all checks of its kind.",
    argument("kind", metavar="KIND", help=KINDS_IN_WORDS),
    argument("name", nargs="?", metavar="NAME", help="a name of `mygym list KIND`, or a URDF or YAML file"),
    argument("--all", action="store_true", help="check all components of the kind"),
    argument("--framework", metavar="F", help="framework of an algorithm or policy: pytorch, jax (default: its first)"),
    argument("--steps", metavar="N", help="env steps of each training (default 2000; of a policy 500)"),
    argument("--robot", metavar="R", help="robot that is tried in a workspace (default: all robots with a pose in it)"),
    argument("--skip", action="append", default=[], metavar="CHECK", help="leave out a check; may be repeated"),
    JSON,
    examples="""
mygym check algo sac
mygym check algo my_algo --steps 500
mygym check algo my_algo --skip learns
mygym check task push
mygym check robot --all
mygym check workspace drawer --robot kuka
mygym check object path/to/thing.urdf
mygym check algo my_algo --json --import my.module
""",
    notes="""
The checks of an algorithm: it can be constructed, accepts the observations that its registration names, trains, acts
the same after loading, is completely described by config and result, is repeatable, resumes, ends with a clear
message in a broken environment, and learns reach as fast as the algorithm from which it inherits (which takes
minutes). Built-in components pass the same checks. All files that the checks write are removed.
The checks of a robot end with its tasks: each is solved by the scripted expert, or left out with the reason why the
robot cannot do it. A failed grasp has its cause, and the keys of the robot's YAML file that correct it.
Exit codes: 0 all checks passed, 1 a check failed, 2 invalid input.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    kind, steps = _validate(options)
    outcomes = []
    for outcome in _outcomes(kind, options, steps):
        outcomes.append(outcome)
        if not options.json:
            _print_outcome(outcome)
    if options.json:
        print_json([asdict(outcome) for outcome in outcomes])
    else:
        _print_summary(outcomes)
    if any(outcome.failed for outcome in outcomes):
        sys.stdout.flush()
        sys.exit(1)


def _validate(options: argparse.Namespace) -> tuple[str, int | None]:
    """Return the kind and the env steps of each training; None: the default of the kind."""
    from mygym.checks import TRAINED

    kind = registry_kind(options.kind)
    if kind not in CHECKED_KINDS:
        raise ConfigError(bad_value("check", options.kind, map(command_kind, CHECKED_KINDS), "has no checks"))
    if (options.name is None) != options.all:
        raise ConfigError("check: give either a NAME or --all")
    for flag in ("steps", "framework"):
        if getattr(options, flag) is not None and kind not in TRAINED:
            raise ConfigError(bad_value(f"--{flag}", kind, map(command_kind, TRAINED), "is not trained"))
    if options.robot is not None and kind != "workspace":
        raise ConfigError(bad_value("--robot", kind, ["workspace"], "is not checked with a robot"))
    return kind, None if options.steps is None else parse_count(options.steps, "--steps")


def _outcomes(kind: str, options: argparse.Namespace, steps: int | None) -> Iterator[Outcome]:
    """Run the checks of the chosen components."""
    from mygym.checks import TRAINED, check

    config = {"imports": options.imports} if options.imports else {}
    for name in _installed(kind) if options.all else [options.name]:
        entry = registry(kind).get(name, options.kind)
        available = entry.frameworks if kind in TRAINED and entry.frameworks else ("pytorch",)
        if options.all:
            frameworks = [name for name in available if options.framework in (None, name)]
        else:
            frameworks = [options.framework or available[0]]
        for framework in frameworks:
            outcomes = check(
                kind, name, framework, steps, config, options.robot, options.skip
            )  # raises if a name is unknown
            if not options.json:
                suffix = f" ({framework})" if entry.frameworks else ""
                print(f"{kind} {name}{suffix}", flush=True)
            yield from outcomes


def _installed(kind: str) -> list[str]:
    """Return the names of a kind; for robots, only names whose model files are installed."""
    names = registry(kind).names()
    return [name for name in names if kind != "robot" or not registry(kind).get(name).missing_extras]


def _print_outcome(outcome: Outcome) -> None:
    status = outcome.status.upper() if outcome.failed else outcome.status
    print(f"  {status:<9}{outcome.check:<29}{outcome.seconds:6.1f} s  {outcome.why}".rstrip(), flush=True)


def _print_summary(outcomes: Sequence[Outcome]) -> None:
    statuses = [outcome.status for outcome in outcomes]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("passed", "failed", "left out"))
    print(f"{counts}, {sum(outcome.seconds for outcome in outcomes):.1f} s")
