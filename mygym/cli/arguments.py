"""What several commands share: a parser whose errors look like ours, and the config's flags."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from mygym.config import load_file, merged, parse_overrides
from mygym.config.loading import parse_value
from mygym.errors import ConfigError, bad_value
from mygym.runs.files import check_writable

CONFIG_FLAGS = {
    "robot": ("R", "the arm (mygym list robot)"),
    "task": ("T", "a task, letters such as AGMDW, or [approach, push]"),
    "workspace": ("W", "what the arm stands in"),
    "control": ("C", "what an action means (mygym list controller)"),
    "reward": ("KIND", "sparse, dense or staged"),
    "algo": ("A", "the algorithm (mygym list algorithm)"),
    "framework": ("F", "its implementation: pytorch, jax"),
    "strategy": ("S", "what trains next: curriculum, multitask, …, or several joined by + (mygym list strategy)"),
    "engine": ("E", "physics: pybullet"),
    "steps": ("N", "env steps to train"),
    "n_envs": ("N", "training environments"),
    "seed": ("S", "seed of everything random"),
    "logdir": ("DIR", "folder of all runs"),
}
"""Config keys that have a flag of their own; `--set` reaches every other."""


class Parser(argparse.ArgumentParser):
    """argparse with one message for a mistake, the nearest flag in it, and no usage text around it."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            word = unknown.split(" ")[0]  # argparse has joined them; an empty one is a word too
            if not word.startswith("-"):
                raise ConfigError(f"{self.prog}: {word!r} is one argument too many")
            flags = sorted(flag for flag in self._option_string_actions if flag.startswith("--"))
            raise ConfigError(bad_value(self.prog, word, flags, "is not an option"))
        raise ConfigError(f"{self.prog}: {message}")


def add_config_flags(parser: argparse.ArgumentParser, leave_out: Collection[str] = ()) -> None:
    """`--config`, a flag for each of `CONFIG_FLAGS` but those to leave out, and `--set`."""
    group = parser.add_argument_group("config (later wins: defaults, algorithm, task, file, flag)")
    group.add_argument("--config", metavar="FILE", help="YAML or JSON file with any of the config's keys")
    for key, (metavar, help) in CONFIG_FLAGS.items():
        if key in leave_out:
            continue
        names = [f"--{key.replace('_', '-')}"] + ([f"--{key}"] if "_" in key else [])
        group.add_argument(*names, dest=key, metavar=metavar, help=help)
    group.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any key, e.g. algo_params.learning_rate=3e-4"
    )
    add_import_flag(group)


def add_import_flag(parser: argparse._ActionsContainer) -> None:
    """`--import`."""
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module that registers components of yours, e.g. my.module",
    )


def import_modules(options: argparse.Namespace) -> None:
    """Import what `--import` names."""
    from mygym.registry import user_files

    user_files.import_modules(options.imports)


def config_layers(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the file says, and what the flags say; what `--import` names is imported."""
    import_modules(options)
    file = load_file(options.config) if options.config else {}
    said = {key: getattr(options, key, None) for key in CONFIG_FLAGS}
    flags = {key: flag_value(key, value) for key, value in said.items() if value is not None}
    flags |= {"imports": options.imports} if options.imports else {}
    return file, merged(flags, parse_overrides(options.set))


def count(said: str, flag: str) -> int:
    """A flag's whole number, at least 1."""
    number = parse_value(said, flag)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(bad_value(flag, said, "a whole number, at least 1"))
    return number


def check_video(path: Path) -> None:
    """Refuse an MP4 that could not be written, before minutes of work rather than after them."""
    if path.suffix != ".mp4":
        raise ConfigError(bad_value("--video", str(path), "a file ending in .mp4"))
    check_writable(path.parent, "--video", str(path))


def flag_value(key: str, text: str) -> Any:
    """Of one of `CONFIG_FLAGS`: numbers and lists as YAML reads them; names stay text, whatever they look like."""
    if key == "task":
        return parse_task(text)
    return parse_value(text, key) if key in {"steps", "n_envs", "seed"} else text


def parse_task(text: str) -> Any:
    """A name or letters as they are, a list as YAML reads it."""
    return parse_value(text, "task") if text.startswith(("[", "{")) else text
