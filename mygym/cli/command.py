"""Parsers of the commands, built by `command()`, so that help, examples and errors have a common form."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from textwrap import indent
from typing import Any, NamedTuple, NoReturn

from mygym.cli.arguments import CONFIG_FLAGS
from mygym.config.schema import FORMER_KEYS, note_former
from mygym.errors import ConfigError, bad_value


class Argument(NamedTuple):
    """A flag or a positional argument: the arguments of `ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    """Return an `Argument`, e.g. `argument("--steps", metavar="N", help="env steps")`.

    The option `former` is a former name of the flag, which is still accepted.
    """
    return Argument(names, options)


CONFIG = argument("--config", metavar="FILE", help="YAML or JSON file with config keys")
SET = argument(
    "--set", action="append", default=[], metavar="KEY=VALUE", help="any key, e.g. algo_params.learning_rate=3e-4"
)
JSON = argument("--json", action="store_true", help="print JSON")
TRUST = argument(
    "--trust", action="store_true", help="load a .zip file of another person: its pickles can run any code"
)
FORMAT_FLAGS = (
    argument("--csv", action="store_true", help="print CSV"),
    argument("--markdown", action="store_true", help="print a table in Markdown"),
    argument("--latex", action="store_true", help="print a table in LaTeX (booktabs)"),
)
FORCE = argument("--force", action="store_true", help="overwrite an existing file")
IMPORT = argument(
    "--import",
    dest="imports",
    action="append",
    default=[],
    metavar="MODULE",
    help="a Python module that registers components, e.g. my.module, or the path of its file",
)
TRACEBACK = argument("--traceback", action="store_true", help="print the traceback of an error")


def chosen_format(options: argparse.Namespace) -> str:
    """Return the format that `JSON` and `FORMAT_FLAGS` choose: `json`, `csv`, `markdown`, `latex`, or empty.

    Raises:
        ConfigError: The flags choose two formats.
    """
    chosen = [name for name in ("json", "csv", "markdown", "latex") if getattr(options, name)]
    if len(chosen) > 1:
        raise ConfigError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    return chosen[0] if chosen else ""


LOGDIR = "runs"
"""Default log directory of the commands that read runs."""


class _Folders(argparse.Action):
    """Adds the folders of a flag that may be repeated; the first replaces the default."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        known = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [*([] if known is self.default else known), *values])


def log_directory(
    help: str, dest: str = "folder", metavar: str = "DIR", several: bool = False, default: str = LOGDIR
) -> tuple[Argument, Argument]:
    """Return the two spellings of a log directory that a command reads: `--logdir DIR`, as of `mygym train`, and DIR.

    Args:
        help: What DIR may be.
        dest: Name of the value.
        metavar: DIR in the second spelling.
        several: Whether DIR may be repeated; the value is a list then.
        default: Value without either; empty: none.
    """
    shown = f"{help} (default: {default})" if default else help
    values: Any = ([default] if default else []) if several else default
    flag: dict[str, Any] = {"nargs": "+", "action": _Folders} if several else {}
    alone: dict[str, Any] = {"nargs": "*" if several else "?", "default": argparse.SUPPRESS, "metavar": metavar}
    return (
        argument("--logdir", dest=dest, default=values, metavar="DIR", help=shown, **flag),
        argument(dest, help="another spelling of --logdir", **alone),
    )


class _Former(argparse.Action):
    """Takes a flag under its former name, with a note; `const` is the flag."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        note_former(str(option_string), str(self.const))
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """`ArgumentParser` that raises a `ConfigError` with the nearest flag instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        """Raise `message` as a `ConfigError`."""
        unrecognized = message.removeprefix("unrecognized arguments: ")
        if unrecognized != message:
            word = unrecognized.split(" ")[0]  # argparse joins the words by spaces; the first word may be empty
            if not word.startswith("-"):
                raise ConfigError(f"{self.prog}: unexpected argument {word!r}")
            shown = {flag for flag, action in self._option_string_actions.items() if action.help != argparse.SUPPRESS}
            flags = sorted(flag for flag in shown if flag.startswith("--"))
            raise ConfigError(bad_value(self.prog, word, flags, "is not an option"))
        raise ConfigError(f"{self.prog}: {message}")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the command line and import the modules of `--import`.

        Raises:
            ConfigError: A flag or an argument is unknown, missing, incomplete or empty.
            RegistryError: A module cannot be imported.
        """
        from mygym.registry import user_files

        options = self.parse_args(words)
        for action in self._actions:
            value = getattr(options, action.dest, None)
            if value == "" or (isinstance(value, list) and "" in value):  # e.g. of a shell variable that is not set
                name = max(action.option_strings, key=len, default=str(action.metavar or action.dest))
                raise ConfigError(bad_value(name, "", "a value", "is empty"))
        options.imports = user_files.import_modules(options.imports)
        return options


def command(
    program: str,
    description: str,
    *arguments: Argument,
    examples: str,
    notes: str = "",
    config_flags: Collection[str] = (),
    add_help: bool = True,
    logdir: Sequence[Argument] = (),
) -> Parser:
    """Build the parser of a command; every command accepts `--import` and `--traceback`.

    Args:
        program: Name in the usage, e.g. `mygym list`.
        description: One sentence below the usage.
        *arguments: Arguments of this command.
        examples: Command lines, each on a separate line.
        notes: Text below the examples.
        config_flags: Keys of `CONFIG_FLAGS` that are flags of the command; if any, also adds `--config` and `--set`.
        add_help: Whether argparse adds `-h` and `--help`.
        logdir: The spellings of `log_directory`.
    """
    parser = Parser(
        program,
        description=description,
        epilog="\n".join(
            ["examples:", indent(examples.strip("\n"), "  "), *(["", notes.strip("\n")] if notes else [])]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=add_help,
    )
    either = parser.add_mutually_exclusive_group() if logdir else parser
    for names, options in logdir:
        either.add_argument(*names, **options)
    for each in arguments:
        _add(parser, each)
    group: argparse._ActionsContainer = parser
    if config_flags:
        group = parser.add_argument_group("config (the later overrides: defaults, algorithm, task, file, flag)")
        flags = [_config_flag(key) for key in CONFIG_FLAGS if key in config_flags]
        for each in (CONFIG, *flags, SET):
            _add(group, each)
    for names, options in (IMPORT, TRACEBACK):
        group.add_argument(*names, **options)
    return parser


def _add(group: argparse._ActionsContainer, added: Argument) -> None:
    """Add an argument, also under its former name."""
    options = {name: value for name, value in added.options.items() if name != "former"}
    former = added.options.get("former")
    either = group.add_mutually_exclusive_group() if former else group
    action = either.add_argument(*added.names, **options)
    if former:
        hidden: dict[str, Any] = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        either.add_argument(former, dest=action.dest, action=_Former, const=added.names[0], **hidden)


def _config_flag(key: str) -> Argument:
    metavar, help = CONFIG_FLAGS[key]
    spellings = dict.fromkeys((f"--{key.replace('_', '-')}", f"--{key}"))
    former = next((f"--{name}" for name, now in FORMER_KEYS.items() if now == key), None)
    return argument(*spellings, dest=key, metavar=metavar, help=help, former=former)
