"""JSON schema of a config, for completion and checks in editors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from mygym.config.hyperparameters import Schema
from mygym.config.loading import is_plain
from mygym.config.parameter_checks import controller_parameters
from mygym.config.schema import ControlParams, RunConfig
from mygym.errors import RegistryError
from mygym.registry import Algorithm, registry
from mygym.registry.signatures import Parameter, parameters

DIALECT = "https://json-schema.org/draft/2020-12/schema"

REGISTRY_OF_KEY = {
    "algo": "algorithm",
    "control": "controller",
    **{kind: kind for kind in ("robot", "workspace", "strategy", "task", "reward", "engine")},
}
"""Config key → the registry whose names it accepts, besides files and compositions."""

CLOSED = ("reward", "engine")
"""Keys that take registered names only: no files, no compositions."""

Json = dict[str, Any]


def json_schema() -> Json:
    """Return the schema of a config file, including all components that are currently registered.

    It contains names and texts of hyperparameters, and the defaults that hold for every run. Their types, ranges and
    combinations are checked when a run starts, because most of them may be replaced by a schedule.
    """
    schema = RunConfig.model_json_schema()
    for key, kind in REGISTRY_OF_KEY.items():
        field = schema["properties"][key]
        types = field.pop("anyOf", None) or [
            {keyword: field.pop(keyword)} for keyword in ("$ref", "type") if keyword in field
        ]
        if key in CLOSED:
            field["enum"] = registry(kind).names()
        else:
            field["anyOf"] = [{"enum": registry(kind).names()}, *types]
    for key in {"algo", "framework", *(key for layer in _preferences() for key in layer)} & set(schema["properties"]):
        field = schema["properties"][key]
        field.pop("default", None)
        field["description"] = f"{field['description']}; its default depends on task, algorithm and engine"
    items = schema["properties"]["callbacks"]["items"]
    items["anyOf"] = [{"enum": registry("callback").names()}, *items["anyOf"]]
    names = registry("strategy").names()
    params = {name: _section(parameters(registry("strategy").get(name).load())) for name in names}
    params |= {alias: params[name] for alias, name in registry("strategy").aliases.items()}
    joined = {"type": "object", "properties": params, "additionalProperties": False}
    cases = [
        *(_where({"strategy": {"const": name}}, {"strategy_params": params[name]}) for name in params),
        _where({"strategy": {"pattern": r"\+"}}, {"strategy_params": joined}),
        *_of_controllers(schema["$defs"]["ControlParams"]["anyOf"][1]["properties"]),
        *_of_algorithms(),
    ]
    return {"$schema": DIALECT, **schema, "title": "mygym", "allOf": cases}


def _of_controllers(common: Json) -> list[Json]:
    """Return the keys of `control` for each controller, where the value is a mapping."""
    known = registry("controller")
    names = {name: name for name in known.names()} | dict(known.aliases)
    cases = []
    for alias, name in names.items():
        section = _section(controller_parameters(known.get(name).load()))
        section["properties"] = {**common, **section["properties"]}
        named = {"type": "object", "properties": {"name": {"const": alias}}}
        if alias != ControlParams().name:  # a mapping without a name is of the default
            named["required"] = ["name"]
        cases.append(_where({"control": named}, {"control": section}))
    return cases


def _of_algorithms() -> list[Json]:
    """Return the hyperparameters of each algorithm and framework; if a package is missing, everything is allowed."""
    cases = []
    for entry in registry("algorithm"):
        for framework, algorithm in entry.load().items():
            try:
                known = Schema(algorithm, {}, her=algorithm.goal_relabelling).known
            except RegistryError:
                continue
            preferred = {name for layer in _layers(algorithm) for name in layer.get("algo_params", ())}
            texts = {
                name: {**_text(parameter), **({} if name in preferred else _default(parameter))}
                for name, parameter in known.items()
            }
            section = {"type": "object", "properties": texts, "additionalProperties": False}
            condition: Json = {"algo": {"const": entry.name}, "framework": {"const": framework}}
            case = _where(condition, {"algo_params": section})
            case["if"]["required"] = ["algo"] if framework == entry.framework else ["algo", "framework"]
            cases.append(case)
    return cases


def _preferences() -> Iterator[Mapping[str, Any]]:
    """Yield the config values that algorithms and tasks prefer: with these keys, no default holds for every run."""
    for entry in registry("algorithm"):
        for algorithm in entry.load().values():
            yield from _layers(algorithm)
    for entry in registry("task"):
        yield entry.load().run_defaults


def _layers(algorithm: Algorithm) -> Iterator[Mapping[str, Any]]:
    yield {**algorithm.run_defaults, "algo_params": algorithm.defaults}
    yield from (algorithm.stage_defaults, *algorithm.task_defaults.values())
    yield from (*algorithm.engine_defaults.values(), *algorithm.engine_stage_defaults.values())
    for of_tasks in algorithm.engine_task_defaults.values():
        yield from of_tasks.values()


def _where(condition: Mapping[str, Any], then: Mapping[str, Any]) -> Json:
    return {"if": {"properties": dict(condition), "required": list(condition)}, "then": {"properties": dict(then)}}


def _section(known: Mapping[str, Parameter]) -> Json:
    """Return the schema of a mapping of parameters by name."""
    properties = {
        name: {**_type(parameter.annotation), **_text(parameter), **_default(parameter)}
        for name, parameter in known.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _type(hint: Any) -> Json:
    """Return the schema of a type hint; empty if JSON cannot express it."""
    try:
        return TypeAdapter(hint).json_schema()
    except PydanticSchemaGenerationError:
        return {}


def _text(parameter: Parameter) -> Json:
    return {"description": parameter.help} if parameter.help else {}


def _default(parameter: Parameter) -> Json:
    return {"default": parameter.default} if not parameter.required and is_plain(parameter.default) else {}
