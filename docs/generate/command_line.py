"""The page of all commands, from their parsers."""

from __future__ import annotations

from docs.generate.markdown import page, section
from mygym.cli.main import COMMANDS, parser_of


def pages() -> dict[str, str]:
    """Return the page of commands."""
    parts = [section(f"mygym {name}", f"```text\n{help_of(name)}```") for name in COMMANDS]
    listed = "".join(f"  {name:<13}{help}\n" for name, help in COMMANDS.items())
    return {"command_line.md": page("Command line", f"```text\nmygym COMMAND [options]\n\n{listed}```", *parts)}


def help_of(command: str) -> str:
    """Return the help of a command, at a fixed width."""
    return parser_of(command).format_help()
