"""Checks of names and folders of new components."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from mygym.envs.ids import ANY_TASK, env_id
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.registry.user_files import FOLDERS, user_folders
from mygym.tasks.grammar import letters

MAX_LENGTH = 60
"""Maximum length of a name, because names become file names."""


def check_identifier(key: str, name: str) -> None:
    """Refuse a name that is not an identifier or not a file name.

    Args:
        key: Argument or flag, for the message.
        name: The name.

    Raises:
        ConfigError: The name is invalid.
    """
    if keyword.iskeyword(name):
        raise ConfigError(bad_value(key, name, "letters, digits and _", "is a keyword of Python"))
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_LENGTH - 1}}}", name):
        allowed = f"at most {MAX_LENGTH} letters, digits and _, a letter first"
        raise ConfigError(bad_value(key, name, allowed, "is not a name"))


def check_free(kind: str, name: str) -> None:
    """Refuse a name that is already registered, or that would hide a task.

    Raises:
        ConfigError: The name cannot be used.
    """
    components = registry(kind)
    if name in components:
        origin = components.conflicts.get(name) or components.get(name).origin
        raise ConfigError(bad_value("name", name, "a new name", f"is a registered {kind} already ({origin})"))
    if kind != "task":
        return
    if set(name) <= letters().keys():
        why = "is a composition of stages by their letters"
        raise ConfigError(bad_value("name", name, "a name that is not a string of stages' letters", why))
    ids = {env_id(task): task for task in registry("task").names()} | {ANY_TASK: "any task"}
    if env_id(name) in ids:
        why = f"would have the environment id {env_id(name)}, which belongs to {ids[env_id(name)]}"
        raise ConfigError(bad_value("name", name, "a name with a new environment id", why))


def check_folder(folder: Path) -> None:
    """Refuse a folder in which the registry does not look for components.

    Raises:
        ConfigError: The folder is a run directory.
    """
    for name in FOLDERS:
        if (folder / name).is_dir() and folder / name not in user_folders():
            why = "is a run directory, where components are not looked up"
            raise ConfigError(bad_value("folder", str(folder), "the folder of train.py, or an empty folder", why))


def class_name(name: str) -> str:
    """Return a name in CamelCase: `my_algo` → `MyAlgo`."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))
