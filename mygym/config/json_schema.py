"""The JSON schema of a config, for editors: completion, texts and mistakes while one types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from mygym.config.hyperparameters import Schema
from mygym.config.plain import is_plain
from mygym.config.schema import RunConfig
from mygym.errors import RegistryError
from mygym.registry import registry
from mygym.registry.signatures import Parameter, parameters

DIALECT = "https://json-schema.org/draft/2020-12/schema"

KINDS = {
    "algo": "algorithm",
    "robot": "robot",
    "workspace": "workspace",
    "control": "controller",
    "strategy": "strategy",
    "task": "task",
    "reward": "reward",
}
"""Key of a config → the registry whose names it takes, files and compositions apart."""

Json = dict[str, Any]


def json_schema() -> Json:
    """The schema of a config file, with everything that is registered now.

    Of an algorithm's hyperparameters it knows names, texts and defaults; types, ranges and what goes together are
    checked when a run begins, because a schedule may stand for most of them.
    """
    schema = RunConfig.model_json_schema()
    for key, kind in KINDS.items():
        own = schema["properties"][key]
        own["anyOf"] = [{"enum": registry(kind).names()}, *own.pop("anyOf", [{"type": own.pop("type", "string")}])]
    names = registry("strategy").names()
    params = {name: _section(parameters(registry("strategy").get(name).load())) for name in names}
    params |= {alias: params[name] for alias, name in registry("strategy").aliases.items()}
    joined = {"type": "object", "properties": params, "additionalProperties": False}
    cases = [
        *(_where({"strategy": {"const": name}}, {"strategy_params": params[name]}) for name in params),
        _where({"strategy": {"pattern": r"\+"}}, {"strategy_params": joined}),
        *_of_algorithms(),
    ]
    return {"$schema": DIALECT, **schema, "title": "mygym", "allOf": cases}


def _of_algorithms() -> list[Json]:
    """What each algorithm takes in each of its frameworks; those whose packages are missing may take anything."""
    cases = []
    for entry in registry("algorithm"):
        for framework, algorithm in entry.load().items():
            try:
                known = Schema(algorithm, {}, her=algorithm.goal_relabelling).known
            except RegistryError:
                continue
            texts = {name: {**_text(one), **_default(one)} for name, one in known.items()}
            section = {"type": "object", "properties": texts, "additionalProperties": False}
            meant: Json = {"framework": {"const": framework}}
            plainly = framework == RunConfig().framework
            case = _where({"algo": {"const": entry.name}, **meant}, {"algo_params": section})
            case["if"]["required"] = ["algo"] if plainly else ["algo", "framework"]
            cases.append(case)
    return cases


def _where(condition: Mapping[str, Any], then: Mapping[str, Any]) -> Json:
    return {"if": {"properties": dict(condition), "required": list(condition)}, "then": {"properties": dict(then)}}


def _section(known: Mapping[str, Parameter]) -> Json:
    """A mapping of parameters by name."""
    properties = {name: {**_type(one.annotation), **_text(one), **_default(one)} for name, one in known.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _type(hint: Any) -> Json:
    """Of a type hint; nothing where JSON could not say it."""
    try:
        return TypeAdapter(hint).json_schema()
    except PydanticSchemaGenerationError:
        return {}


def _text(parameter: Parameter) -> Json:
    return {"description": parameter.help} if parameter.help else {}


def _default(parameter: Parameter) -> Json:
    return {"default": parameter.default} if not parameter.required and is_plain(parameter.default) else {}
