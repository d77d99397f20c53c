"""Commands: a function with its parser, in a common form of help, examples and errors; and values of flags."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple, NoReturn

from mygym.config import Layer, resolve
from mygym.config.loading import parse_value
from mygym.config.schema import DEFAULT_ENGINE, FORMER_KEYS, note_former
from mygym.errors import ConfigError, UnknownNameError, bad_value, print_message
from mygym.registry import REGISTRIES, user_files
from mygym.registry.signatures import first_line
from mygym.training.files import check_writable

CONFIG_FLAGS = {
    "robot": ("R", "robot arm: a name of `mygym list robot`, or a URDF or YAML file"),
    "task": ("T", "task: a name of `mygym list task`, letters such as AGMDW, [approach, push], or plain words"),
    "workspace": ("W", "workspace: a name of `mygym list workspace`"),
    "control": ("C", "controller, which defines the actions: a name of `mygym list controller`, or {name: NAME, …}"),
    "reward": ("KIND", "reward: sparse, dense or another name of `mygym list reward`"),
    "algo": ("A", "algorithm: a name of `mygym list algo`"),
    "framework": ("F", "implementation of the algorithm: pytorch or jax"),
    "strategy": ("S", "training strategy, such as curriculum, or several joined by + (mygym list strategy)"),
    "pretrained": ("RUN", "start from a run, or from its model.zip or policy.safetensors"),
    "engine": ("E", f"physics engine of training: a name of `mygym list engine` (default {DEFAULT_ENGINE})"),
    "steps": ("N", "env steps to train"),
    "n_envs": ("N", "number of training environments"),
    "learners": ("K", "processes that train the same model (ppo, a2c), each with a share of the environments"),
    "seed": ("S", "seed of all random numbers"),
    "logdir": ("DIR", "folder of all runs"),
}
"""Config key with a flag → metavar and help; other keys are set by `--set`."""

NUMBER_FLAGS = frozenset({"steps", "n_envs", "learners", "seed"})
"""Config flags whose values are numbers; other values are text, except those of `NESTED_FLAGS`."""

NESTED_FLAGS = frozenset({"task", "control"})
"""Config flags whose values may be lists or mappings."""

KIND_ALIASES = {"algo": "algorithm"}
"""Short name of a kind on the command line → its name in the registry."""


def registry_kind(name: str) -> str:
    """Return the registry's name of a kind of component; refuse a kind that does not exist."""
    kind = KIND_ALIASES.get(name, name)
    if kind not in REGISTRIES:
        known = sorted({*REGISTRIES, *KIND_ALIASES})
        raise UnknownNameError(bad_value("kind", name, known, "is not a kind of component"))
    return kind


def command_kind(kind: str) -> str:
    """Return the command line's name of a kind of component."""
    return next((alias for alias, name in KIND_ALIASES.items() if name == kind), kind)


def flag_value(key: str, text: str) -> Any:
    """Return the value of a config flag: numbers, lists and mappings are parsed as YAML, names stay text.

    The reading of a task in plain words is printed.
    """
    if key == "task" and " " in text.strip():
        from mygym.tasks.language import is_sentence, read_sentence

        if is_sentence(text):
            print_message(f"task: {read_sentence(text).words}")
    is_nested = key in NESTED_FLAGS and text.startswith(("[", "{"))
    return parse_value(text, key) if is_nested or key in NUMBER_FLAGS else text


def parse_integer(
    text: str, flag: str, allowed: str = "a whole number", low: int | None = None, high: int | None = None
) -> int:
    """Return the value of a flag as a whole number, at least `low` and at most `high`; refuse any other text."""
    number = parse_value(text, flag)
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or (low is not None and number < low) or (high is not None and number > high):
        raise ConfigError(bad_value(flag, text, allowed))
    return int(number)


def parse_seed(seed: Any) -> int:
    """Return a seed, of the text of a flag or a value of a config; refuse all but whole numbers in [0, 2^32)."""
    value = flag_value("seed", seed) if isinstance(seed, str) else seed
    return resolve([Layer("flag", {"seed": value})]).config.seed


def parse_count(text: str, flag: str) -> int:
    """Return the value of a flag as a whole number of at least 1; refuse any other text."""
    return parse_integer(text, flag, "a whole number, at least 1", low=1)


def parse_percent(text: str, flag: str) -> float:
    """Return the share in [0, 1] of a flag such as `5%` or `5`; refuse any other text."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ConfigError(bad_value(flag, text, "a number of percent points, e.g. 5%"))
    return value


def check_output(path: Path, flag: str, suffixes: Collection[str], force: bool) -> None:
    """Refuse, before the work starts, a file with another suffix, or that exists without `force` or is not writable."""
    if path.suffix not in suffixes:
        raise ConfigError(bad_value(flag, str(path), f"a file ending in {' or '.join(suffixes)}"))
    if os.path.lexists(path) and not (force and path.is_file()):
        raise ConfigError(bad_value(flag, str(path), "a new file, or --force", "exists already"))
    check_writable(path.parent, flag, str(path))


class Argument(NamedTuple):
    """A flag or a positional argument: the arguments of `ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    """Return an `Argument`, e.g. `argument("--steps", metavar="N", help="env steps")`.

    The option `former` is a former name of the flag, which is still accepted.
    """
    return Argument(names, options)


def repeated(flag: str, metavar: str, help: str, **options: Any) -> Argument:
    """Return a flag that may be repeated; its value is the list of all values."""
    return argument(flag, action="append", default=[], metavar=metavar, help=help, **options)


def count(flag: str, help: str, default: int | None = None, **options: Any) -> Argument:
    """Return a flag whose value is a whole number of at least 1; the help ends with its default."""
    shown = help if default is None else f"{help} (default {default})"
    return argument(flag, type=partial(parse_count, flag=flag), default=default, metavar="N", help=shown, **options)


CONFIG = argument("--config", metavar="FILE", help="YAML or JSON file with config keys")
SET = repeated("--set", "KEY=VALUE", "any key, e.g. algo_params.learning_rate=3e-4")
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
IMPORT = repeated(
    "--import",
    "MODULE",
    "a Python module that registers components, e.g. my.module, or the path of its file",
    dest="imports",
)
TRACEBACK = argument("--traceback", action="store_true", help="print the traceback of an error")


def chosen_flag(options: argparse.Namespace, *names: str) -> str:
    """Return the name of the flag that is given, of some that exclude each other; empty without one; refuse two."""
    chosen = [name for name in names if getattr(options, name)]
    if len(chosen) > 1:
        first, second = (name.replace("_", "-") for name in chosen[:2])
        raise ConfigError(f"--{first} and --{second} exclude each other")
    return chosen[0] if chosen else ""


def chosen_format(options: argparse.Namespace) -> str:
    """Return the format that the flags choose: `json`, `csv`, `markdown`, `latex`, or empty; refuse two formats."""
    return chosen_flag(options, "json", "csv", "markdown", "latex")


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

    `metavar` is DIR in the second spelling. `several` lets DIR be repeated, so that the value is a list.
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
    """Takes a flag under its former name, with a note; `const` is the action of the flag."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        note_former(str(option_string), self.const.option_strings[0])
        self.const(parser, namespace, self.const.type(values) if self.const.type else values)


class Parser(argparse.ArgumentParser):
    """`ArgumentParser` of a command that raises a `ConfigError` with the nearest flag instead of printing its usage."""

    function: Callable[..., None]
    """Runs the command with its parsed arguments."""

    def __call__(self, words: Sequence[str], **options: Any) -> None:
        """Parse the words after the command, and run it; `options` are further arguments of its function."""
        parsed = self.parse(words)
        parsed.words = list(words)
        self.function(parsed, **options)

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
        options = self.parse_args(words)
        for action in self._actions:
            value = getattr(options, action.dest, None)
            if value == "" or (isinstance(value, list) and "" in value):  # e.g. of a shell variable that is not set
                name = max(action.option_strings, key=len, default=str(action.metavar or action.dest))
                raise ConfigError(bad_value(name, "", "a value", "is empty"))
        options.imports = user_files.import_modules(options.imports)
        return options


PARSERS: dict[str, Parser] = {}
"""Command → its parser, of the modules that are imported."""


def command(
    program: str,
    *arguments: Argument,
    examples: str,
    notes: str = "",
    config_flags: Collection[str] = (),
    add_help: bool = True,
    logdir: Sequence[Argument] = (),
) -> Callable[[Callable[..., None]], Parser]:
    """Decorator of the function of a command; every command accepts `--import` and `--traceback`.

    The first line of the function's docstring is the description in the help. `program` is the name in the usage, e.g.
    `mygym list`. `examples` are command lines, and `notes` are a text below them. If there are any `config_flags`,
    which are keys of `CONFIG_FLAGS`, the command also accepts `--config` and `--set`. `logdir` has the spellings of
    `log_directory`.
    """
    parser = Parser(
        program,
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

    def of(function: Callable[..., None]) -> Parser:
        parser.function, parser.description = function, first_line(function)
        PARSERS[program.split(" ")[-1].removesuffix(".py")] = parser
        return parser

    return of


def _add(group: argparse._ActionsContainer, added: Argument) -> None:
    """Add an argument, also under its former name."""
    options = {name: value for name, value in added.options.items() if name != "former"}
    former = added.options.get("former")
    either = group.add_mutually_exclusive_group() if former else group
    action = either.add_argument(*added.names, **options)
    if former:
        hidden: dict[str, Any] = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        either.add_argument(former, dest=action.dest, action=_Former, const=action, **hidden)


def _config_flag(key: str) -> Argument:
    metavar, help = CONFIG_FLAGS[key]
    spellings = dict.fromkeys((f"--{key.replace('_', '-')}", f"--{key}"))
    former = next((f"--{name}" for name, now in FORMER_KEYS.items() if now == key), None)
    return argument(*spellings, dest=key, metavar=metavar, help=help, former=former)
