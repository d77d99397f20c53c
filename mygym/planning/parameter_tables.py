"""Parameters of algorithms, strategies and controllers as rows of a table: name, type, default, help."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mygym.nested import at, merged
from mygym.registry import Algorithm, registry
from mygym.registry.signatures import Parameter, in_words, parameters


def hyperparameters(entry: Algorithm) -> list[dict[str, Any]]:
    """Return a row for each hyperparameter of an algorithm; nested hyperparameters have dotted names.

    Raises:
        ConfigError: The registration is invalid.
    """
    from mygym.config.hyperparameters import Schema
    from mygym.config.parameter_checks import INNER

    schema = Schema(entry, {}, her=entry.goal_relabelling)
    schema.check_registration()
    values = merged(schema.defaults(), schema.registered())
    rows = []

    def add_rows(parent: tuple[str, ...]) -> None:
        for name, parameter in (schema.inside(parent) or {}).items():
            path = (*parent, name)
            if name in INNER and schema.inside(path):
                add_rows(path)
                continue
            unset = "required" if parameter.required else str(parameter.default)
            default = at(values, path) if name in (at(values, parent) or {}) else unset
            rows.append(_row(".".join(path), parameter, default))

    add_rows(())
    return rows


def training_parameters(entry: Algorithm) -> list[dict[str, Any]]:
    """Return a row for each training parameter of a `Runner`; no rows for other algorithms."""
    from mygym.config import parameter_checks

    cls = entry.combo()[0]
    known = parameter_checks.training_parameters(cls) if parameter_checks.is_runner(cls) else {}
    return [
        _row(name, parameter, entry.training_defaults.get(name, _default(parameter)))
        for name, parameter in known.items()
    ]


def strategy_parameters(name: str) -> list[dict[str, Any]]:
    """Return a row for each parameter of a strategy, with its complete help."""
    return _complete_rows(parameters(registry("strategy").get(name, "strategy").load()).values())


def controller_parameters(name: str) -> list[dict[str, Any]]:
    """Return a row for each key of `control` besides the name: first those of all controllers."""
    from mygym.config import parameter_checks
    from mygym.config.schema import ControlParams

    fields = {key: field for key, field in ControlParams.model_fields.items() if key != "name"}
    rows = [
        {"name": key, "type": in_words(field.annotation), "default": field.default, "help": field.description}
        for key, field in fields.items()
    ]
    known = parameter_checks.controller_parameters(registry("controller").get(name, "control").load())
    return rows + _complete_rows(known.values())


def _complete_rows(known: Iterable[Parameter]) -> list[dict[str, Any]]:
    """Return a row for each parameter, with its complete help."""
    return [
        {
            **_row(parameter.name, parameter, _default(parameter)),
            "type": parameter.type_in_words,
            "help": parameter.help,
        }
        for parameter in known
    ]


def _default(parameter: Parameter) -> Any:
    return "required" if parameter.required else parameter.default


def _row(name: str, parameter: Parameter, default: Any) -> dict[str, Any]:
    """Return a row with the range in the type and the first sentence of the help."""
    from mygym.config.parameter_checks import NAMED, is_name, range_of

    key = parameter.name
    kind = f"a name of `mygym list {NAMED[key]}`" if is_name(parameter) else parameter.type_in_words
    return {
        "name": name,
        "type": kind + (f", {limits}" if (limits := range_of(parameter)) else ""),
        "default": default,
        "help": re.split(r"(?<=\.)\s+(?=[A-Z])", parameter.help)[0],
    }
