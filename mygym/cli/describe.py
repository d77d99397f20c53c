"""`mygym describe`: everything about one component."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from mygym.cli.arguments import Parser
from mygym.registry import REGISTRIES, Algorithm, Entry, registry
from mygym.runs.directory import to_yaml

EXAMPLES = """\
examples:
  mygym describe task push
  mygym describe algorithm sac
  mygym describe robot panda --json
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = Parser(
        "mygym describe",
        description="Everything about one component.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", metavar="KIND", help=f"one of {', '.join(REGISTRIES)}, or algo")
    parser.add_argument("name", metavar="NAME", help="a name of `mygym list KIND`; for a task also letters")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    kind = {"algo": "algorithm"}.get(options.kind, options.kind)
    content = _task(options.name) if kind == "task" else _component(registry(kind).get(options.name))
    print(json.dumps(content, indent=2, default=str) if options.json else to_yaml(_plain(content)), end="")
    if options.json:
        print()


def _task(name: str) -> dict[str, Any]:
    from mygym.tasks.goals import goal_space
    from mygym.tasks.task import find_task

    task = find_task(name)
    area = task.goal_area
    workspace = yaml.safe_load(Path(registry("workspace").get(task.workspace).load()).read_text(encoding="utf-8"))
    return {
        "task": task.name,
        "help": task.help,
        "in words": task.describe(),
        "stages": list(task.stage_names),
        "tolerance": f"{task.tolerance} m",
        "hold": f"{task.hold} steps",
        "horizon": f"{task.horizon} steps",
        "workspace": task.workspace,
        "object": task.object if task.has_object else "none",
        "needs a gripper": task.needs_gripper,
        "goal area": {"name": area, **workspace["areas"][area]},
        "goal vector": [goal_space(task).position, *goal_space(task).flags],
        "run defaults": dict(task.run_defaults),
    }


def _component(entry: Entry) -> dict[str, Any]:
    target = entry.load()
    entry = registry(entry.kind).get(entry.name)  # a file that has been imported tells the line
    about: dict[str, Any] = {entry.kind: entry.name, "help": entry.help, "origin": entry.origin}
    if isinstance(target, Path):
        return {**about, **yaml.safe_load(target.read_text(encoding="utf-8"))}
    if entry.kind == "algorithm":
        return {**about, "frameworks": {name: _algorithm(algorithm) for name, algorithm in target.items()}}
    if is_dataclass(target) and not isinstance(target, type):
        return {**about, **{k: v for k, v in asdict(target).items() if not callable(v)}}
    return {**about, "documentation": target.__doc__ or ""}


def _algorithm(algorithm: Algorithm) -> dict[str, Any]:
    from mygym.config import hyperparameters

    cls, args, defaults = algorithm.combo()
    return {
        "class": f"{cls.__module__}.{cls.__qualname__}",
        "policy": str(args[0]) if args else "",
        "dictionary observations": algorithm.dict_observations,
        "hindsight": algorithm.goal_relabelling,
        "run defaults": dict(algorithm.run_defaults),
        "algo_params": {**hyperparameters.defaults(cls), **defaults},
        **_training_params(cls, algorithm),
    }


def _training_params(cls: type, algorithm: Algorithm) -> dict[str, Any]:
    from mygym.config import hyperparameters
    from mygym.runs.runner import Runner

    if not issubclass(cls, Runner):
        return {}
    return {"training_params": {**hyperparameters.training_defaults(cls), **algorithm.training_defaults}}


def _plain(content: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return plain
