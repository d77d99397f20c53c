"""`mygym schema`: the JSON schema of configs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from mygym.cli.arguments import Parser, add_import_flag, import_modules

EXAMPLES = """\
examples:
  mygym schema > mygym.schema.json

An editor that knows YAML then completes and checks a config whose first line is
  # yaml-language-server: $schema=mygym.schema.json
Your own algorithms and strategies are in it: print it again when you have written another.
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = Parser(
        "mygym schema",
        description="Print the JSON schema of configs, for editors.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_import_flag(parser)
    import_modules(parser.parse_args(arguments))

    from mygym.config.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2))
