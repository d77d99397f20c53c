"""What pydantic finds wrong, in our words: where, what was given, what would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

KINDS: Mapping[str, str] = {
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
"""Pydantic's type of a mistake → what would do, where its own words are those of Python."""


class Mistake(NamedTuple):
    """One wrong value."""

    path: tuple[str | int, ...]
    """Keys and positions in lists."""
    given: Any
    allowed: str
    unknown: bool = False
    """Whether the last key is the mistake."""


def first_mistake(error: ValidationError) -> Mistake:
    """The mistake to tell: an unknown key before all else, and of what may be several kinds the nearest ones."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    if first["type"] == "extra_forbidden":
        return Mistake(tuple(first["loc"]), first["loc"][-1], "", unknown=True)
    tagged = [one for one in found if one["loc"][:1] == first["loc"][:1] and _path(one) != one["loc"]]
    alike = tagged if first in tagged else [first]
    deepest = max(alike, key=lambda one: len(_path(one)))
    path = _path(deepest)
    if deepest["type"] == "missing" and isinstance(path[-1], int):
        wanted = 1 + max(int(one["loc"][-1]) for one in found if one["loc"][:-1] == deepest["loc"][:-1])
        return Mistake(path[:-1], deepest["input"], f"a list of {wanted}")
    if deepest["type"] == "missing":
        return Mistake(path, None, "must be said")
    words = dict.fromkeys(_allowed(one) for one in alike if _path(one) == path)
    return Mistake(path, deepest["input"], " or ".join(words))


def _allowed(one: ErrorDetails) -> str:
    if one["type"] == "too_short":
        return f"a list of at least {one['ctx']['min_length']}"
    if one["type"] == "too_long":
        return f"a list of at most {one['ctx']['max_length']}"
    message = one["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return KINDS.get(one["type"], message[:1].lower() + message[1:])


def _path(one: ErrorDetails) -> tuple[str | int, ...]:
    """Where, without the branch of a union (`str`, `list[str]`, `constrained-int`), which pydantic puts there too."""
    return tuple(part for part in one["loc"] if isinstance(part, int) or not _is_type_tag(part))


def _is_type_tag(part: str) -> bool:
    kinds = ("list[", "tuple[", "constrained-", "function-")
    return part in {"str", "int", "float", "bool", "none"} or part.startswith(kinds)


def dotted(path: Sequence[str | int]) -> str:
    """The key as the user would type it."""
    return ".".join(map(str, path))
