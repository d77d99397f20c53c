"""`mygym list`: what can be named."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from mygym.cli.arguments import Parser, add_import_flag, import_modules
from mygym.cli.tables import print_table
from mygym.registry import REGISTRIES, Entry, registry

EXAMPLES = """\
examples:
  mygym list
  mygym list algo
  mygym list robot --json
  mygym list object             with category, size, mass, friction, and how wide what a gripper of 8 cm can take is
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = Parser(
        "mygym list",
        description="What can be named in configs and flags.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", nargs="?", metavar="KIND", help=f"one of {', '.join(REGISTRIES)}, or algo")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_import_flag(parser)
    options = parser.parse_args(arguments)
    import_modules(options)
    kinds = [kind_of(options.kind)] if options.kind else list(REGISTRIES)
    listed = {kind: [_row(entry) for entry in registry(kind)] for kind in kinds}
    if kinds == ["object"]:  # reading what they are takes longer than their names do
        listed["object"] = [row | _measures(row["name"]) for row in listed["object"]]
    if kinds == ["randomizer"]:
        listed["randomizer"] = [row | _range(row["name"]) for row in listed["randomizer"]]
    if kinds == ["stage"]:
        listed["stage"] = [row | _composes(row["name"]) for row in listed["stage"]]
    if options.json:
        print(json.dumps([row for rows in listed.values() for row in rows], indent=2))
        return
    for kind, rows in listed.items():
        shown = [key for key in (*SHOWN, "help") if any(row.get(key) for row in rows)]
        print_table([{key: _text(key, row[key]) for key in shown} for row in rows], title=kind)


SHOWN = (
    "name",
    "letter",
    "frameworks",
    "requires",
    "gives",
    "category",
    "size",
    "mass",
    "friction",
    "grasp_width",
    "default",
    "allowed",
    "unit",
)
"""Columns of the tables, but for the last; those that are empty are left out."""


def kind_of(said: str) -> str:
    """A kind of component, by its name or the command line's."""
    return {"algo": "algorithm"}.get(said, said)


def _measures(name: str) -> dict[str, Any]:
    """What an object is, m and kg; a file that is wrong says so in place of its help."""
    from mygym.errors import AssetError
    from mygym.models.objects import load_object

    try:
        spec = load_object(registry("object").get(name).load())
    except AssetError as error:
        return {"category": "", "size": [], "mass": None, "friction": None, "grasp_width": None, "help": str(error)}
    return {
        "category": spec.category,
        "size": [round(edge, 4) for edge in spec.size],
        "mass": round(spec.mass, 5),
        "friction": spec.friction,
        "grasp_width": round(spec.grasp_width, 4) if spec.graspable else None,
    }


def _composes(name: str) -> dict[str, Any]:
    """Which facts a stage needs and leaves behind, and what it does."""
    stage = registry("stage").get(name).load()
    facts = {"requires": list(stage.requires), "gives": list(stage.gives)}
    return {"letter": stage.letter, **facts, "help": stage.words()}


def _range(name: str) -> dict[str, Any]:
    from mygym.envs.randomizers import find_randomizer

    one = find_randomizer(name)
    return {"default": list(one.default), "allowed": list(one.allowed), "unit": one.unit}


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "frameworks": list(entry.frameworks),
        "requires": list(entry.listed_requirements),
        "help": entry.help,
        "origin": entry.origin,
    }


def _text(key: str, value: Any) -> str:
    if value is None or value == []:
        return ""
    if key == "size":
        return " x ".join(f"{100 * edge:.1f}" for edge in value) + " cm"
    if key in ("default", "allowed"):
        return " to ".join(f"{end:g}" for end in value)
    if key == "mass":
        return f"{1000 * value:.3g} g" if value < 1 else f"{value:.3g} kg"
    if key == "grasp_width":
        return f"{100 * value:.1f} cm"
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else ", ".join(value)
