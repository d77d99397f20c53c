"""Reads YAML and JSON configs and `key=value` overrides into plain dictionaries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from mygym.errors import ConfigError, bad_value

MAX_BYTES = 4_000_000
MAX_VALUES = 100_000


class _Loader(yaml.SafeLoader):
    """YAML without its traps: a key that stands twice is an error, and 3e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                raise ConfigError(f"{key}: stands twice, the second time in line {key_node.start_mark.line + 1}")
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def load_file(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML (`.yaml`, `.yml`) or JSON (`.json`, comments allowed) file.

    Raises:
        ConfigError: Missing, unreadable, too large, malformed, or not a mapping.
    """
    path = Path(path)
    if path.suffix not in {".yaml", ".yml", ".json"}:
        raise ConfigError(bad_value("config", str(path), "a file ending in .yaml, .yml or .json", "is not a config"))
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(bad_value("config", str(path), f"at most {MAX_BYTES} bytes", "is too large"))
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        folder = path.parent if path.parent.is_dir() else Path.cwd()
        names = sorted(str(path.parent / file.name) for file in folder.iterdir() if file.suffix == path.suffix)
        raise ConfigError(bad_value("config", str(path), names, "does not exist")) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config: {str(path)!r} cannot be read: {error}") from None
    try:
        if path.suffix == ".json":
            import json5

            content = json5.loads(text, allow_duplicate_keys=False)
        else:
            content = yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
        if _size(content, (), {}) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
    except ConfigError as error:
        raise ConfigError(f"config: {path}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"config: {path}: not valid: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigError(bad_value("config", str(path), "`key: value` lines", "does not hold a mapping"))
    return content


def _size(content: Any, above: tuple[int, ...], known: dict[int, int]) -> int:
    """How many values there are, aliases followed: by these a mapping can hold itself, or a short file be endless."""
    if id(content) in above:
        raise ValueError("a value contains itself")
    if isinstance(content, dict | list) and id(content) not in known:
        inner = content.values() if isinstance(content, dict) else content
        known[id(content)] = 1 + sum(_size(value, (*above, id(content)), known) for value in inner)
    return known.get(id(content), 1)


def parse_value(text: str, key: str) -> Any:
    """A value as YAML reads it: `3e-4` a float, `true` a bool, `[64, 64]` a list, `null` nothing."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, ValueError, ConfigError) as error:
        raise ConfigError(f"{key}: {text!r} is not valid YAML: {' '.join(str(error).split())}") from None


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """`["eval.every=500", "algo_params.gamma=0.9"]` → nested dictionaries.

    Raises:
        ConfigError: A pair without `=` or without a key.
    """
    nested: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            raise ConfigError(
                bad_value("--set", pair, "key=value, e.g. algo_params.learning_rate=3e-4", "is not a pair")
            )
        here = nested
        for part in parts[:-1]:
            inner = here.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ConfigError(bad_value("--set", pair, "a value or keys below it", "sets both"))
            here = inner
        here[parts[-1]] = parse_value(text, key)
    return nested


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """`low` overlaid by `high`; dictionaries are merged key by key, everything else is replaced."""
    result = dict(low)
    for key, value in high.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result
