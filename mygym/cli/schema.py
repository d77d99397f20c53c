"""`mygym schema`: print the JSON schema of configs."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.cli.command import command
from mygym.cli.output import print_json

PARSER = command(
    "mygym schema",
    "Print the JSON schema of configs, for editors.",
    examples="mygym schema > mygym.schema.json",
    notes="""
An editor with YAML support then completes and validates every config that starts with the line
  # yaml-language-server: $schema=mygym.schema.json
The schema includes your components: print it again after you add a component.
""",
)


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    PARSER.parse(arguments)

    from mygym.config.json_schema import json_schema

    print_json(json_schema())
