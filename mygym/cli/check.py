"""`mygym check`: the conformance suite of a component."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from mygym.cli.arguments import Parser, add_import_flag, count, import_modules
from mygym.cli.list import kind_of
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry

if TYPE_CHECKING:
    from mygym.checks import Outcome

EXAMPLES = """\
examples:
  mygym check algo sac
  mygym check algo mine --steps 500
  mygym check task push
  mygym check robot --all
  mygym check workspace drawer --robot kuka
  mygym check object path/to/thing.urdf
  mygym check algo mine --json --import my.module

An algorithm constructs, takes the observations that it says, trains, acts the same when it is loaded, is told whole by
config and result, repeats itself, resumes, and ends with a clear message in a bad environment. The built-in ones pass
the same. Nothing is left behind. Exit codes: 0 all passed, 1 a check failed, 2 wrong input.
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args(arguments)
    import_modules(options)
    from mygym.checks import KINDS, TRAINED

    kind = kind_of(options.kind)
    if kind not in KINDS:
        kinds = ["algo" if one == "algorithm" else one for one in KINDS]
        raise ConfigError(bad_value("check", options.kind, kinds, "has no conformance suite"))
    if (options.name is None) != options.all:
        raise ConfigError("check: give either a NAME or --all")
    for flag in ("steps", "framework"):
        if getattr(options, flag) is not None and kind not in TRAINED:
            raise ConfigError(bad_value(f"--{flag}", kind, TRAINED, "is not trained"))
    if options.robot is not None and kind != "workspace":
        raise ConfigError(bad_value("--robot", kind, ["workspace"], "is not tried with a robot of your choice"))
    outcomes = []
    for outcome in _outcomes(kind, options, count(options.steps, "--steps") if options.steps is not None else None):
        outcomes.append(outcome)
        if not options.json:
            _tell(outcome)
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    failed = sum(outcome.failed for outcome in outcomes)
    if not options.json:
        counts = {status: sum(one.status == status for one in outcomes) for status in ("passed", "failed", "left out")}
        seconds = sum(outcome.seconds for outcome in outcomes)
        print(", ".join(f"{count} {status}" for status, count in counts.items()) + f", {seconds:.1f} s")
    if failed:
        sys.stdout.flush()
        sys.exit(1)


def _outcomes(kind: str, options: argparse.Namespace, steps: int | None) -> Iterator[Outcome]:
    from mygym.checks import TRAINED, check

    config = {"imports": options.imports} if options.imports else {}
    said = options.framework
    for name in _installed(kind) if options.all else [options.name]:
        entry = registry(kind).get(name, options.kind)
        there = entry.frameworks if kind in TRAINED and entry.frameworks else ("pytorch",)
        every = [one for one in there if said in (None, one)]
        for framework in every if options.all else [said or there[0]]:
            begun = check(kind, name, framework, steps, config, options.robot)  # refuses wrong names
            if not options.json:
                words = f" ({framework})" if entry.frameworks else ""
                print(f"{kind} {name}{words}", flush=True)
            yield from begun


def _installed(kind: str) -> list[str]:
    """All of a kind; of robots those whose models are there."""
    if kind != "robot":
        return registry(kind).names()
    from mygym.sim.inference import is_installed

    return [name for name in registry(kind).names() if is_installed(name)]


def _tell(outcome: Outcome) -> None:
    status = outcome.status.upper() if outcome.failed else outcome.status
    print(f"  {status:<9}{outcome.check:<29}{outcome.seconds:6.1f} s  {outcome.why}".rstrip(), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "mygym check",
        description="Check that a component does what every component of its kind must do.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("kind", metavar="KIND", help="algo, policy, task, stage, robot, workspace or object")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a name of `mygym list KIND`")
    parser.add_argument("--all", action="store_true", help="all of the kind")
    parser.add_argument("--framework", metavar="F", help="of an algorithm or policy: pytorch, jax (default: its first)")
    parser.add_argument("--steps", metavar="N", help="env steps of each training (default 2000; of a policy 500)")
    parser.add_argument("--robot", metavar="R", help="of a workspace: the robot to try (default: those at home there)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_import_flag(parser)
    return parser
