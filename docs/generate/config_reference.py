"""The reference of all config keys, from the schema, with the origins of the default run's values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from docs.generate.markdown import code, page, section, table
from mygym.config import RunConfig
from mygym.planning.resolve import resolve_config
from mygym.registry.signatures import in_words
from mygym.training.model_factory import explained


def pages() -> dict[str, str]:
    """Return the reference of the config."""
    resolved = explained(resolve_config())
    values = [(code(key), code(value), origin) for key, value, origin in resolved.rows()]
    text = page(
        "Config reference",
        "```text\nschema < algorithm < task < file < flag\n```",
        "Later layers win: what a run takes depends on its algorithm, task, strategy and engine.",
        "`python train.py --explain` prints every value of a run with its origin.",
        section("Keys", table(["key", "type", "default of the schema", "in words"], keys(RunConfig))),
        section("The default run, with origins", table(["key", "value", "origin"], values)),
    )
    return {"config.md": text}


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[Any, ...]]:
    """Yield the row of each key of a section, with those of its sections after it.

    Args:
        model: The section.
        prefix: Path of the section, with a dot at its end.
    """
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield code(prefix + name), "section", "", field.description
            yield from keys(inner, f"{prefix}{name}.")
        else:
            default = field.get_default(call_default_factory=True)
            yield code(prefix + name), in_words(field.annotation), code(default), field.description
