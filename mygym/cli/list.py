"""`mygym list`: list components."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mygym.cli.arguments import registry_kind
from mygym.cli.command import JSON, argument, command
from mygym.cli.output import print_json, print_table
from mygym.registry import REGISTRIES, Entry, registry

COLUMNS = (
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
    "help",
)
"""Columns of the tables; empty columns are omitted."""

PARSER = command(
    "mygym list",
    "List the components that configs and flags can name.",
    argument("kind", nargs="?", metavar="KIND", help=f"{', '.join(REGISTRIES)}; algo is short for algorithm"),
    JSON,
    examples="""
mygym list
mygym list algo
mygym list robot --json
mygym list object             with category, size, mass, friction and width in a gripper that opens 8 cm
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = PARSER.parse(arguments)
    kinds = [registry_kind(options.kind)] if options.kind else list(REGISTRIES)
    rows_of = {kind: [_row(entry) for entry in (*registry(kind), *registry(kind).broken())] for kind in kinds}
    if len(kinds) == 1 and (details := DETAILS.get(kinds[0])):  # reading them takes time
        rows_of = {kind: [row | details(row["name"]) for row in rows] for kind, rows in rows_of.items()}
    if options.json:
        print_json([row for rows in rows_of.values() for row in rows])
        return
    for kind, rows in rows_of.items():
        columns = [key for key in COLUMNS if key == "help" or any(row.get(key) for row in rows)]
        print_table([{key: _text(key, row[key]) for key in columns} for row in rows], title=kind)


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "frameworks": list(entry.frameworks),
        "requires": list(entry.listed_requirements),
        "help": entry.help,
        "origin": entry.origin,
    }


def _object_details(name: str) -> dict[str, Any]:
    """Return category, size in m, mass in kg, …; the help of an invalid file is its error."""
    from mygym.errors import AssetError
    from mygym.robotics.objects import load_object

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


def _stage_details(name: str) -> dict[str, Any]:
    """Return the letter and the predicates of a stage; its help is the phrase."""
    stage = registry("stage").get(name).load()
    predicates = {"requires": list(stage.requires), "gives": list(stage.gives)}
    return {"letter": stage.letter, **predicates, "help": stage.words()}


def _randomizer_details(name: str) -> dict[str, Any]:
    from mygym.envs.randomizers import find_randomizer

    randomizer = find_randomizer(name)
    return {"default": list(randomizer.default), "allowed": list(randomizer.allowed), "unit": randomizer.unit}


DETAILS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "object": _object_details,
    "stage": _stage_details,
    "randomizer": _randomizer_details,
}
"""Kind → further columns of a component, when only this kind is listed."""


def _text(key: str, value: Any) -> str:
    """Return the text of a table cell."""
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
