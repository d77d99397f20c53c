"""Names for what is new: identifiers that nothing else has."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from mygym.envs.ids import ANY_TASK, env_id
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.registry.user_files import user_folders
from mygym.tasks.grammar import letters

LONGEST = 60
"""Letters of a name, from which file names are made."""


def check_identifier(key: str, said: str) -> None:
    """Refuse what cannot be a name in Python and of a file.

    Raises:
        ConfigError: It is none.
    """
    if keyword.iskeyword(said):
        raise ConfigError(bad_value(key, said, "letters, digits and _", "is a word of Python's own"))
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{LONGEST - 1}}}", said):
        allowed = f"at most {LONGEST} letters, digits and _, a letter first"
        raise ConfigError(bad_value(key, said, allowed, "is not a name"))


def check_free(kind: str, name: str) -> None:
    """Refuse a name that something registered has.

    Raises:
        ConfigError: It is taken.
    """
    components = registry(kind)
    if name in components:
        where = components.conflicts.get(name) or components.get(name).origin
        raise ConfigError(bad_value("name", name, "a name of its own", f"is a registered {kind} already ({where})"))
    if kind != "task":
        return
    if set(name) <= letters().keys():
        why = "would hide a composition of these letters"
        raise ConfigError(bad_value("name", name, "a name that is no string of stages' letters", why))
    taken = {env_id(task): task for task in registry("task").names()} | {ANY_TASK: "any task"}
    if env_id(name) in taken:
        why = f"would have the environment id {env_id(name)}, that of {taken[env_id(name)]}"
        raise ConfigError(bad_value("name", name, "a name with an id of its own", why))


def check_place(place: Path) -> None:
    """Refuse a folder in which nothing would be found.

    Raises:
        ConfigError: It is a run directory, or its `algos/` or `envs/` is somebody's package.
    """
    for folder in ("algos", "envs"):
        if (place / folder / "__init__.py").exists():
            why = "is a package, in which no components are looked for"
            raise ConfigError(bad_value("folder", str(place / folder), "a folder without __init__.py", why))
        if (place / folder).is_dir() and place / folder not in user_folders():
            why = "is a run directory, in which no components are looked for"
            raise ConfigError(bad_value("folder", str(place), "the folder of train.py, or an empty one", why))


def class_name(name: str) -> str:
    """`my_algo` → `MyAlgo`."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))
