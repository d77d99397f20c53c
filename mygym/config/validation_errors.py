"""Explain validation errors of pydantic: key, value, allowed values, nearest name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mygym.errors import bad_value

ALLOWED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping, {key: value}",
    "model_type": "a mapping, {key: value}",
    "model_attributes_type": "a mapping, {key: value}",
}
"""Error type of pydantic → allowed values in words, for error types whose message names Python types."""

UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Error types of pydantic for an unknown key of a model, and of a dataclass."""


class Mistake(NamedTuple):
    """An invalid or missing value, or an unknown key."""

    path: tuple[str | int, ...]
    """Keys, and indices in lists."""
    given: Any
    allowed: str
    """Allowed values in the words of configs; empty for an unknown key."""
    kind: Literal["invalid", "unknown", "missing", "short"] = "invalid"
    """`unknown`: the last key of `path`; `missing`: the value; `short`: a list."""


def explained(
    error: ValidationError,
    *outer: str | int,
    of: Any = None,
) -> str:
    """Return the message for the mistake to report.

    Args:
        error: The error.
        *outer: Path of the validated value.
        of: Type of the value, whose keys are named.
    """
    path, given, allowed, kind = first_mistake(error)
    key, keys = dotted((*outer, *path)), keys_at(of, path[:-1]) if kind in ("unknown", "missing") else ()
    if kind == "unknown":
        return bad_value(key, given, keys, "is not a key")
    if kind == "missing":
        return bad_value(key, None, f"a value; the keys are {', '.join(keys)}" if keys else allowed, "is missing")
    return bad_value(key, given, allowed, "is too short" if kind == "short" else "")


def keys_at(of: Any, path: Sequence[str | int]) -> list[str]:
    """Return the keys of the model or dataclass at a path below a value of a type, e.g. at `areas.object`."""
    section = next(sections_in(of), None)
    for key in path:
        section = next(sections_in(_annotations(section).get(str(key))), section)
    return list(_annotations(section))


def sections_in(annotation: Any) -> Iterator[type]:
    """Yield the models and dataclasses in a type annotation such as `dict[str, Box]` or `list[Distractor] | None`."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        yield annotation
    for argument in get_args(annotation):
        yield from sections_in(argument)


def _annotations(section: Any) -> Mapping[str, Any]:
    """Return key → type of a model or a dataclass; empty for None."""
    if is_dataclass(section):
        hints = get_type_hints(section)
        return {field.name: hints[field.name] for field in fields(section)}
    return {} if section is None else {name: field.annotation for name, field in section.model_fields.items()}


def first_mistake(error: ValidationError) -> Mistake:
    """Return the mistake to report: an unknown key first; for a union type, the branch that matches best."""
    errors = error.errors(include_url=False)
    # A misspelt key is reported as missing, too.
    first = next((detail for detail in errors if detail["type"] in UNKNOWN), errors[0])
    if first["type"] in UNKNOWN:
        return Mistake(tuple(first["loc"]), first["loc"][-1], "", "unknown")
    of_union = [detail for detail in errors if detail["loc"][:1] == first["loc"][:1] and _path(detail) != detail["loc"]]
    candidates = of_union if first in of_union else [first]
    deepest = max(candidates, key=lambda detail: len(_path(detail)))
    path = _path(deepest)
    if deepest["type"] == "missing" and isinstance(path[-1], int):
        wanted = 1 + max(int(detail["loc"][-1]) for detail in errors if detail["loc"][:-1] == deepest["loc"][:-1])
        return Mistake(path[:-1], deepest["input"], f"a list of {wanted} values", "short")
    if deepest["type"] == "missing":
        return Mistake(path, None, "a value, which is required", "missing")
    words = dict.fromkeys(_allowed(detail) for detail in candidates if _path(detail) == path)
    return Mistake(path, deepest["input"], " or ".join(words))


def unknown_keys(error: ValidationError) -> list[tuple[str | int, ...]]:
    """Return the paths of all unknown keys, in their order."""
    details = error.errors(include_url=False)
    return list(dict.fromkeys(tuple(detail["loc"]) for detail in details if detail["type"] in UNKNOWN))


def _allowed(detail: ErrorDetails) -> str:
    if detail["type"] == "too_short":
        return f"a list of at least {detail['ctx']['min_length']}"
    if detail["type"] == "too_long":
        return f"a list of at most {detail['ctx']['max_length']}"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return ALLOWED.get(detail["type"], message[:1].lower() + message[1:])


def _path(detail: ErrorDetails) -> tuple[str | int, ...]:
    """Return the location without the names of union branches (e.g. `str`, `constrained-int`) that pydantic adds."""
    return tuple(item for item in detail["loc"] if isinstance(item, int) or not _is_type_tag(item))


def _is_type_tag(item: str) -> bool:
    kinds = ("list[", "tuple[", "literal[", "constrained-", "function-")
    return item in {"str", "int", "float", "bool", "none", "[key]"} or item.startswith(kinds)


def dotted(path: Sequence[str | int]) -> str:
    """Return the config key of a path."""
    return ".".join(map(str, path))
