"""Translate validation errors of pydantic into key, value and allowed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

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


class Mistake(NamedTuple):
    """An invalid value, or an unknown key."""

    path: tuple[str | int, ...]
    """Keys, and indices in lists."""
    given: Any
    allowed: str
    unknown: bool = False
    """Whether the last key of `path` is unknown."""


def first_mistake(error: ValidationError) -> Mistake:
    """Return the mistake to report: an unknown key first; for a union type, the branch that matches best."""
    errors = error.errors(include_url=False)
    first = next((detail for detail in errors if detail["type"] == "extra_forbidden"), errors[0])
    if first["type"] == "extra_forbidden":
        return Mistake(tuple(first["loc"]), first["loc"][-1], "", unknown=True)
    of_union = [detail for detail in errors if detail["loc"][:1] == first["loc"][:1] and _path(detail) != detail["loc"]]
    candidates = of_union if first in of_union else [first]
    deepest = max(candidates, key=lambda detail: len(_path(detail)))
    path = _path(deepest)
    if deepest["type"] == "missing" and isinstance(path[-1], int):
        wanted = 1 + max(int(detail["loc"][-1]) for detail in errors if detail["loc"][:-1] == deepest["loc"][:-1])
        return Mistake(path[:-1], deepest["input"], f"a list of {wanted}")
    if deepest["type"] == "missing":
        return Mistake(path, None, "a value, which is required")
    words = dict.fromkeys(_allowed(detail) for detail in candidates if _path(detail) == path)
    return Mistake(path, deepest["input"], " or ".join(words))


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
    return item in {"str", "int", "float", "bool", "none"} or item.startswith(kinds)


def dotted(path: Sequence[str | int]) -> str:
    """Return the config key of a path."""
    return ".".join(map(str, path))
