"""Read YAML and JSON configs and `key=value` overrides into plain dictionaries: values that both return unchanged."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from mygym.errors import ConfigError, bad_value
from mygym.nested import merged

MAX_DEPTH = 32
MAX_VALUES = 10_000
MAX_INTEGER = 2**63 - 1
"""Maximum whole number: numpy and torch store no larger number, and Python refuses to print thousands of digits."""

LEAVES = (str, bool, int, float, type(None))
"""Types of values that contain no others."""


def check_plain(values: Mapping[str, Any], origin: str = "") -> None:
    """Refuse values that a config file would not return unchanged.

    Aliases are followed, because with aliases a mapping may contain itself and a short file may be endless.

    Raises:
        ConfigError: A value is not null, a boolean, a finite number, text, a list, or a mapping with text as keys; or
            the nesting is too deep, or the number of values is too large.
    """
    suffix = f" ({origin})" if origin else ""
    count = 0
    waiting: list[tuple[tuple[str, ...], Any]] = [((), values)]
    while waiting:
        path, value = waiting.pop()
        if type(value) in LEAVES or not isinstance(value, Mapping | list | tuple):  # the first is quicker
            _check_leaf(path, value, suffix)
            continue
        count += len(value)
        if count > MAX_VALUES:
            raise ConfigError(f"{path[0] if path else 'config'}: holds more than {MAX_VALUES} values{suffix}")
        if len(path) > MAX_DEPTH:
            raise ConfigError(f"{'.'.join(path)}: is nested more than {MAX_DEPTH} deep{suffix}")
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str) or not name.isprintable():
                    allowed = "strings, as in `key: value`"
                    key = ".".join(path) or "config"
                    raise ConfigError(f"{key}: {_shown(name)} is not a key{suffix}; allowed: {allowed}")
            waiting += [((*path, name), inner) for name, inner in value.items()]
        else:
            waiting += [((*path, str(index)), inner) for index, inner in enumerate(value)]


def as_plain(value: Any, depth: int = 0) -> Any:
    """Return numbers and arrays of numpy, paths and tuples as plain data, and other values unchanged."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    if depth > MAX_DEPTH:  # which `check_plain` refuses
        return value
    if isinstance(value, Mapping):
        return {key: as_plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner, depth + 1) for inner in value]
    return value


def is_plain(value: Any) -> bool:
    """Return whether `check_plain` accepts `value`."""
    try:
        check_plain({"value": value})
    except ConfigError:
        return False
    return True


def _check_leaf(path: Sequence[str], value: Any, suffix: str) -> None:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):  # halves of characters
            raise ConfigError(bad_value(".".join(path), value, "text that UTF-8 can hold", f"is not text{suffix}"))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(bad_value(".".join(path), value, "finite numbers", f"is not finite{suffix}"))
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ConfigError(f"{'.'.join(path)}: {_shown(value)} is too large{suffix}; allowed: at most {MAX_INTEGER}")
    elif value is not None:
        allowed = "null, true, false, numbers, text, lists, mappings"
        raise ConfigError(bad_value(".".join(path), value, allowed, f"has the type {type(value).__name__}{suffix}"))


def _shown(value: object) -> str:
    huge = isinstance(value, int) and value.bit_length() > 1000  # Python refuses to print thousands of digits
    return "a number of more than 1000 bits" if huge else repr(value)


MAX_BYTES = 50_000
"""Maximum size of a config file; a complete config has 3,000 bytes, and parsing 50,000 may take seconds."""


class _Strict(yaml.SafeLoader if TYPE_CHECKING else object):  # type: ignore[misc]  # a mixin
    """Part of a YAML loader that refuses duplicate keys."""

    merged = 0

    def get_single_node(self) -> yaml.Node | None:
        """Refuse duplicate keys, before merge keys (`<<`) add more."""
        root: yaml.Node | None = super().get_single_node()
        waiting, visited = [root], set()  # aliases: several nodes may contain a node, which may contain itself
        while waiting:
            node = waiting.pop()
            if not isinstance(node, yaml.CollectionNode) or id(node) in visited:
                continue
            visited.add(id(node))
            if isinstance(node, yaml.MappingNode):
                _refuse_duplicates([key for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
                waiting += [child for pair in node.value for child in pair]
            else:
                waiting += node.value
        return root

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


class _Loader(_Strict, yaml.SafeLoader):
    """YAML loader that refuses duplicate keys and reads 3e-4 as a number."""


class FastLoader(_Strict, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen when imported
    """`_Loader` in C, if available, for the many files of an environment; it is stricter about spaces in `{a:[]}`."""


def _refuse_duplicates(keys: Iterable[yaml.ScalarNode]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key.value in seen:
            raise ConfigError(f"duplicate key {key.value!r} (line {key.start_mark.line + 1})")
        seen.add(key.value)


class Dumper(yaml.SafeDumper if TYPE_CHECKING else getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML dumper, in C if available, whose output `load_file` reads back unchanged: the text `3e-4` is quoted."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """Write text with several lines as a block."""
        node: yaml.ScalarNode = self.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        )
        return node


Dumper.add_representer(str, Dumper.represent_str)

_INTEGER = r"[-+]?(?:0|[1-9][0-9_]*)"
_EXPONENT = r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9]+)[eE][-+]?[0-9]+"
_WHOLE = r"[-+]?[0-9][0-9_]*[eE][0-9]+"  # Python writes the sign of exponents: what it has written stays a float
_FLOAT = rf"(?:{_EXPONENT}|[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
_NUMBERS = {"tag:yaml.org,2002:int": _INTEGER, "tag:yaml.org,2002:float": _FLOAT}
"""Notations of numbers; YAML 1.1 would also read `010` as 8, `1:40` as 100, `0x10` as 16 and `0b11` as 3."""

Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^{_EXPONENT}$"), list("-+0123456789."))
for _class in (_Loader, FastLoader):
    _class.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in patterns if tag not in _NUMBERS]
        for first, patterns in _class.yaml_implicit_resolvers.items()
    }
    for _tag, _pattern in _NUMBERS.items():
        _class.add_implicit_resolver(_tag, re.compile(f"^{_pattern}$"), list("-+0123456789."))


def _number(loader: Any, node: yaml.ScalarNode) -> float:
    """Return `1e5` as a whole number, which counts of steps have to be, and every other notation as a float."""
    value: float = loader.construct_yaml_float(node)
    return int(Decimal(node.value)) if re.fullmatch(_WHOLE, node.value) and abs(value) <= MAX_INTEGER else value


for _class in (_Loader, FastLoader):
    _class.add_constructor("tag:yaml.org,2002:float", _number)


def load_file(path: str | Path, repeated: list[str] | None = None) -> dict[str, Any]:
    """Return the mapping in a YAML (`.yaml`, `.yml`) or JSON (`.json`, with comments) file.

    Args:
        path: The file; its suffix selects the format.
        repeated: List that takes a message for each key that a JSON file has twice, of which the last counts; None:
            such a file is refused.

    Raises:
        ConfigError: Missing, unreadable, too large, malformed, or not a mapping.
    """
    path = Path(path)
    if path.suffix not in {".yaml", ".yml", ".json"}:
        raise ConfigError(bad_value("config", str(path), "a file ending in .yaml, .yml or .json", "is not a config"))
    try:
        if not path.is_file() and path.exists():  # reading a pipe would block, and a device may be endless
            raise OSError("it is not a regular file")
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(bad_value("config", str(path), f"at most {MAX_BYTES} bytes", "is too large"))
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        folder = path.parent if path.parent.is_dir() else Path()
        names = sorted(str(folder / file.name) for file in folder.iterdir() if file.suffix == path.suffix)
        raise ConfigError(bad_value("config", str(path), names or "a file that exists", "does not exist")) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"config: {str(path)!r} cannot be read: {error}") from None
    try:
        content = _read_json(text, repeated) if path.suffix == ".json" else _read_fast(text)
        if content is None:
            return {}
        if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
            raise ConfigError("does not hold a mapping; allowed: `key: value` lines")
        check_plain(content)
    except ConfigError as error:
        raise ConfigError(f"config: {path}: {error}") from None
    return content


def parse_value(text: str, key: str) -> Any:
    """Return a value as YAML reads it: `3e-4` is a float, `1e5` an int, `true` a bool, `[64, 64]` a list, `null` None.

    Raises:
        ConfigError: Malformed, or not plain data.
    """
    try:
        value = read_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{key}: {text!r}: {error}") from None
    check_plain({key: value}, "flag")
    return value


def read_yaml(text: str, loader: type[Any] = _Loader) -> Any:
    """Return the content of a YAML text, which `check_plain` has not checked.

    Raises:
        ConfigError: The text is not YAML, is nested too deep, or has duplicate keys.
    """
    try:
        _refuse_deep_nesting(text, loader)
        return yaml.load(text, Loader=loader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, UnicodeError) as error:
        raise ConfigError(f"not valid YAML: {' '.join(str(error).split())}") from None


def _read_fast(text: str) -> Any:
    """Return the content of a YAML text, read in C; the loader in Python has the last word on a text with mistakes."""
    try:
        return read_yaml(text, FastLoader)
    except ConfigError:
        return read_yaml(text)


def _refuse_deep_nesting(text: str, loader: type[Any]) -> None:
    """Refuse a text that crashes the loader: it is recursive, also in C."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > 4 * MAX_DEPTH:
            raise ConfigError("not valid YAML: nested too deep")


_JSON_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'" + r"|(?P<comment>/\*.*?(?:\*/|\Z)|(?://|\#)[^\n]*)|(?P<comma>,)",
    re.DOTALL,
)
"""Text in quotes, which may contain the marks of comments; a comment; a comma."""

_CLOSING = re.compile(r"\s*[}\]]")


def _read_json(text: str, repeated: list[str] | None) -> Any:
    """Return the content of a JSON text, which may have comments (`#`, `//`, `/* */`) and trailing commas."""
    # Spaces in place of comments: lines and columns stay.
    plain = _JSON_TOKEN.sub(lambda token: re.sub(r"[^\n]", " ", token[0]) if token["comment"] else token[0], text)
    messages: list[str] = []
    try:
        content = json.loads(
            _without_trailing_commas(plain), object_pairs_hook=lambda pairs: _last(pairs, plain, messages)
        )
    except RecursionError:
        raise ConfigError("not valid JSON: nested too deep") from None
    except json.JSONDecodeError as error:
        return _read_json5(plain, f"line {error.lineno}, column {error.colno}: {error.msg}")
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"not valid JSON: {error}") from None
    if repeated is not None:
        repeated += messages
    elif messages:
        raise ConfigError(messages[0])
    return content


def _without_trailing_commas(text: str) -> str:
    """Return a JSON text without comments with spaces in place of trailing commas."""

    def kept(token: re.Match[str]) -> str:
        follows_value = text[: token.start()].rstrip()[-1:] not in ("{", "[", ",", ":")
        return " " if token["comma"] and follows_value and _CLOSING.match(text, token.end()) else token[0]

    return _JSON_TOKEN.sub(kept, text)


def _read_json5(text: str, why: str) -> Any:
    """Return the content of a JSON5 text: keys without quotes, text in single quotes; else say `why` it is not JSON."""
    import json5

    try:
        return json5.loads(text, allow_duplicate_keys=False)
    except (ValueError, RecursionError):
        raise ConfigError(f"not valid JSON: {why}") from None


def _last(pairs: list[tuple[str, Any]], text: str, messages: list[str]) -> dict[str, Any]:
    """Return a mapping with the last value of each key; add a message for each key that occurs twice."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            starts = [match.start() for match in re.finditer(rf"{re.escape(json.dumps(name))}\s*:", text)]
            lines = ", ".join(str(text.count("\n", 0, start) + 1) for start in starts)
            messages.append(f"duplicate key {name!r} (line {lines})")
    return dict(pairs)


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """Return nested dictionaries for pairs such as `["eval.every=500", "eval={episodes: 5}"]`; mappings are merged.

    Raises:
        ConfigError: A pair without `=` or without a key, or a key with a value and with keys below it.
    """
    nested: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        path = key.strip().split(".")
        if not equals or not all(path) or not key.isprintable():
            raise ConfigError(
                bad_value("--set", pair, "key=value, e.g. algo_params.learning_rate=3e-4", "is not a pair")
            )
        both = ConfigError(bad_value("--set", pair, "a value or keys below it", "sets both"))
        section = nested
        for name in path[:-1]:
            inner = section.setdefault(name, {})
            if not isinstance(inner, dict):
                raise both
            section = inner
        value = parse_value(text, key)
        known = section.get(path[-1], value)
        if isinstance(known, dict) != isinstance(value, dict):
            raise both
        section[path[-1]] = merged(known, value) if isinstance(known, dict) else value
    return nested
