"""Read YAML and JSON configs and `key=value` overrides into plain dictionaries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from mygym.config.plain import MAX_VALUES, check_plain
from mygym.config.schedules import is_schedule
from mygym.errors import ConfigError, bad_value

MAX_BYTES = 50_000
"""Maximum size of a config file; a complete config has 3,000 bytes, and parsing 50,000 may take seconds."""


class _Loader(yaml.SafeLoader):
    """YAML loader that refuses duplicate keys and reads 3e-4 as a number."""

    merged = 0

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse duplicate keys, before merge keys (`<<`) add more."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ConfigError(f"duplicate key {key.value!r} (line {key.start_mark.line + 1})")
                seen.add(key.value)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Copy the mappings that merge keys name, up to a limit: merges of merges double with every line."""
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MAX_VALUES:
            raise ConfigError(f"holds more than {MAX_VALUES} values")

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Raise a YAML error for a value that PyYAML cannot construct: `!!bool x` would be a KeyError."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, OverflowError):
            why = f"{node.value!r:.40} cannot be read as {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, why, node.start_mark) from None


class Dumper(yaml.SafeDumper):
    """YAML dumper whose output `load_file` reads back unchanged: the text `3e-4` is quoted."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """Write text with several lines as a block."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Dumper.add_representer(str, Dumper.represent_str)

for _class in (_Loader, Dumper):
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"),
        list("-+0123456789."),
    )


def load_file(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a YAML (`.yaml`, `.yml`) or JSON (`.json`, comments allowed) file.

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
        folder = path.parent if path.parent.is_dir() else Path()
        names = sorted(str(folder / file.name) for file in folder.iterdir() if file.suffix == path.suffix)
        raise ConfigError(bad_value("config", str(path), names, "does not exist")) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"config: {str(path)!r} cannot be read: {error}") from None
    try:
        content = _read_json(text) if path.suffix == ".json" else _read_yaml(text)
        if content is None:
            return {}
        if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
            raise ConfigError("does not hold a mapping; allowed: `key: value` lines")
        check_plain(content)
    except ConfigError as error:
        raise ConfigError(f"config: {path}: {error}") from None
    return content


def parse_value(text: str, key: str) -> Any:
    """Return a value as YAML reads it: `3e-4` is a float, `true` a bool, `[64, 64]` a list, `null` None.

    Raises:
        ConfigError: Malformed, or not plain data.
    """
    try:
        value = _read_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{key}: {text!r}: {error}") from None
    check_plain({key: value}, "flag")
    return value


def _read_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError("not valid YAML: nested too deep") from None


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ConfigError("not valid JSON: nested too deep") from None
    except ValueError:  # comments and trailing commas are JSON5
        return _read_json5(text)


def _read_json5(text: str) -> Any:
    import json5

    try:
        return json5.loads(text, allow_duplicate_keys=False)
    except ValueError as error:
        raise ConfigError(f"not valid JSON: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError("not valid JSON: nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ConfigError(f"duplicate key {next(name for name in names if names.count(name) > 1)!r}")
    return content


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """Return nested dictionaries for pairs such as `["eval.every=500", "algo_params.gamma=0.9"]`.

    Raises:
        ConfigError: A pair without `=` or without a key.
    """
    nested: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts) or not key.isprintable():
            raise ConfigError(
                bad_value("--set", pair, "key=value, e.g. algo_params.learning_rate=3e-4", "is not a pair")
            )
        section = nested
        for part in parts[:-1]:
            inner = section.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ConfigError(bad_value("--set", pair, "a value or keys below it", "sets both"))
            section = inner
        section[parts[-1]] = parse_value(text, key)
    return nested


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return `low` overlaid by `high`: mappings are merged key by key, everything else is replaced.

    A mapping that names its `schedule` replaces the old value: keys of two schedules do not mix.
    """
    result = dict(low)
    for key, value in high.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping) and not is_schedule(value):
            result[key] = merged(known, value)
        else:
            result[key] = value
    return result
