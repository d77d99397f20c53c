"""`mygym list`: what can be named."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from mygym.cli.arguments import Parser
from mygym.registry import REGISTRIES, registry

EXAMPLES = """\
examples:
  mygym list
  mygym list algorithm
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
    parser.add_argument("kind", nargs="?", metavar="KIND", help=f"one of {', '.join(REGISTRIES)}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    kinds = [options.kind] if options.kind else list(REGISTRIES)
    rows = [
        {"kind": kind, "name": entry.name, "help": entry.help, "origin": entry.origin}
        for kind in kinds
        for entry in registry(kind)
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for kind in kinds:
        print(kind)
        for row in rows:
            if row["kind"] == kind:
                print(f"  {row['name']:<{width}}  {row['help']}")
