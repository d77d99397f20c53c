"""`mygym list`: what can be named."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from mygym.cli.arguments import Parser, add_import_flag, import_modules
from mygym.cli.tables import print_table
from mygym.registry import REGISTRIES, Entry, registry

EXAMPLES = """\
examples:
  mygym list
  mygym list algo
  mygym list robot --json
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
    if options.json:
        print(json.dumps([row for rows in listed.values() for row in rows], indent=2))
        return
    for kind, rows in listed.items():
        shown = [key for key in ("name", "frameworks", "requires", "help") if any(row[key] for row in rows)]
        print_table([{key: _text(row[key]) for key in shown} for row in rows], title=kind)


def kind_of(said: str) -> str:
    """A kind of component, by its name or the command line's."""
    return {"algo": "algorithm"}.get(said, said)


def _row(entry: Entry) -> dict[str, str | list[str]]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "frameworks": list(entry.frameworks),
        "requires": list(entry.requires),
        "help": entry.help,
        "origin": entry.origin,
    }


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
