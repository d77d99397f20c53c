"""Schema of `algo_params`: the hyperparameters of an algorithm's class, networks and buffers, also as tables.

The schema contains the parameters of the constructor, of the policy class (`policy_kwargs`), of the optimiser and the
feature extractor, and of the replay or rollout buffer. Configs refer to classes and functions by their names in the
registry. This module constructs nothing and evaluates nothing.
"""

from __future__ import annotations

import copy
import importlib
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mygym.config.loading import is_plain
from mygym.config.parameter_checks import (
    BUFFERS,
    INNER,
    NAMED,
    NEEDED_PARAMETERS,
    RUN_PARAMETERS,
    check_value,
    controller_parameters,
    is_default,
    is_for_framework,
    is_known,
    is_name,
    is_runner,
    range_of,
    shown,
    training_parameters,
    unknown_parameter,
)
from mygym.config.schedules import check_schedule, is_scheduled, may_be_scheduled
from mygym.config.schema import ControlParams
from mygym.errors import ConfigError, UnknownNameError, bad_value
from mygym.nested import at, has, merged
from mygym.registry import Algorithm, registry
from mygym.registry.algorithms import Combo, takes_dictionaries
from mygym.registry.signatures import REQUIRED, Parameter, constructors, fits, in_words, parameters, source_location

SECTION = "algo_params"

FLAT_EXTRACTORS = ("flatten", "nature_cnn")
"""Features extractors that take no dictionaries."""


def key_of(path: tuple[str, ...]) -> str:
    """Return the config key of a path within `algo_params`."""
    return ".".join((SECTION, *path))


class Schema:
    """Hyperparameters of an algorithm.

    Args:
        entry: The algorithm.
        values: Values of `algo_params`; they choose the policy, the optimiser and the feature extractor, and thereby
            parameters of these.
        her: Whether the run uses hindsight replay, which has a special replay buffer.
        combo: `(AlgoClass, args, kwargs)`; None: that of the registration.
    """

    def __init__(
        self, entry: Algorithm, values: Mapping[str, Any], her: bool = False, combo: Combo | None = None
    ) -> None:
        self.entry = entry
        self.cls, self.args, self.kwargs = combo or entry.combo()
        self.policies: Mapping[str, Any] = getattr(self.cls, "policy_aliases", {})
        self.her = her
        self.known = parameters(self.cls, leave_out=RUN_PARAMETERS)
        self.policy = self._default_policy()
        if self.policy is None:
            self.known.pop("policy", None)
        else:
            self.kwargs = {"policy": self.policy, **self.kwargs}
        self.values = merged(shown(self.kwargs), values)
        self._inside: dict[tuple[str, ...], dict[str, Parameter] | None] = {(): self.known}

    def _default_policy(self) -> Any:
        positions = list(parameters(self.cls))
        index = positions.index("policy") if "policy" in positions else len(self.args)
        return self.args[index] if index < len(self.args) else self.kwargs.get("policy")

    @property
    def has_replay(self) -> bool:
        """Whether `buffer_size` is the size of a replay buffer; other classes may use the name for something else."""
        from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm  # imports torch

        size = self.known.get("buffer_size")
        return size is not None and (issubclass(self.cls, OffPolicyAlgorithm) or is_known(size))

    # Parameters ---------------------------------------------------------------------------------------------------

    def inside(self, path: tuple[str, ...]) -> dict[str, Parameter] | None:
        """Return the parameters that the keyword arguments at `path` may set; None if every name is allowed."""
        if path not in self._inside:
            inner = INNER.get(path[-1])
            owner = None if inner is None else self.component((*path[:-1], inner.of))
            known = None if inner is None or owner is None else parameters(owner, leave_out=inner.taken)
            self._inside[path] = known
        return self._inside[path]

    def component(self, path: tuple[str, ...]) -> Any:
        """Return the class or function that is chosen at `path`, or None."""
        name = path[-1]
        if name in BUFFERS:
            return self._buffer(path)
        chosen = at(self.values, path)
        for default in (at(self.kwargs, path), self._class_default(path)):
            if default is not None and chosen in (None, shown(default)):
                return self.policies.get(default) if name == "policy" and isinstance(default, str) else default
        return None if chosen is None else self._named(path, chosen)

    def _class_default(self, path: tuple[str, ...]) -> Any:
        parameter = (self.inside(path[:-1]) or {}).get(path[-1])
        return None if parameter is None or parameter.default is REQUIRED else parameter.default

    def _named(self, path: tuple[str, ...], name: Any) -> Any:
        """Return the class or function with this name in the algorithm's framework."""
        key, kind = key_of(path), NAMED[path[-1]]
        aliases = self.policies if kind == "policy" else {}
        if isinstance(name, str) and name in aliases:
            return aliases[name]
        known = [entry.name for entry in registry(kind) if is_for_framework(entry.target, self.entry.framework)]
        default = self._class_default(path) or at(self.kwargs, path)
        names = [*aliases, *known]
        if default is not None and not isinstance(default, str) and shown(default) not in known:
            names.append(shown(default))
        if not isinstance(name, str):
            raise ConfigError(bad_value(key, name, names, "is not a name"))
        try:
            entry = registry(kind).get(name, key)
            if isinstance(entry.load(), Mapping):
                return entry.load_for(self.entry.framework)
        except UnknownNameError:
            pass
        why = f"is no {kind.replace('_', ' ')} for {self.entry.framework}"
        raise ConfigError(bad_value(key, name, names, why))

    def _buffer(self, path: tuple[str, ...]) -> Any:
        chosen = at(self.kwargs, path)
        if chosen is None and self.her and path == ("replay_buffer_class",):
            return importlib.import_module("stable_baselines3").HerReplayBuffer
        if chosen is not None:
            return chosen
        module, flat, of_dictionaries = BUFFERS[path[-1]]
        return getattr(importlib.import_module(module), of_dictionaries if self.entry.dict_observations else flat)

    # Checks -------------------------------------------------------------------------------------------------------

    def check_registration(self) -> None:
        """Refuse a class without the parameters of a run or without types, and a registration that it does not accept.

        Call it on a schema without values.

        Raises:
            ConfigError: The registration is invalid; the message contains file and line.
        """
        taken = parameters(self.cls)
        if missing := [name for name in NEEDED_PARAMETERS if name not in taken]:
            closed = constructors(self.cls)[-1]
            raise ConfigError(
                f"{source_location(closed.__dict__['__init__'])}: {closed.__name__}: its constructor takes no "
                f"{missing[0]!r}, which a run sets; add `**kwargs` and pass them on: "
                "`super().__init__(policy, env, **kwargs)`"
            )
        for parameter in self.known.values():
            if parameter.required and parameter.annotation is Any and parameter.name not in self.kwargs:
                where = source_location(parameter.declared_by)
                raise ConfigError(
                    f"{where}: {self.cls.__name__}: parameter {parameter.name!r} has neither a type annotation nor a "
                    f"default; write for example `{parameter.name}: float = 0.1`"
                )
        try:
            self.check(shown(self.kwargs))
        except ConfigError as error:
            raise ConfigError(f"{self.entry.origin}: {error}") from None

    def check_required(self) -> None:
        """Raise `ConfigError` if a hyperparameter without a default is missing; the message names the first."""
        for parameter in self.known.values():
            if parameter.required and parameter.name not in self.values:
                key = f"{SECTION}.{parameter.name}"
                raise ConfigError(
                    f"{key}: is required by {self.cls.__name__} and has no default; allowed: "
                    f"{parameter.type_in_words}; set it with --set {key}=…"
                )

    def check(self, values: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
        """Refuse values at a path that the class there does not accept.

        Raises:
            ConfigError: An unknown hyperparameter, a wrong type, or a number out of its known range.
        """
        known = self.inside(path)
        if known is None:
            return
        for name, value in values.items():
            full_path = (*path, name)
            if name not in known:
                owner = self.component((*path[:-1], INNER[path[-1]].of)) if path else self.cls
                raise ConfigError(unknown_parameter(key_of(full_path), known, owner.__name__, self._sections()))
            registered = at(self.kwargs, full_path)
            if not is_plain(registered) and isinstance(value, str) and value == shown(registered):
                continue  # an object of the registration, given by its name in configs
            if is_default(value, known[name]):
                continue
            if not path and is_scheduled(value, known[name]):
                check_schedule(self.cls, value, known[name])
            elif is_name(known[name]):
                self._named(full_path, value)
                self._check_observations(full_path, value)
            elif name in INNER and isinstance(value, Mapping):
                self.check(value, full_path)
            else:
                check_value(key_of(full_path), value, known[name], self._allowed(full_path, value, known[name]))
                if full_path == ("policy_kwargs", "net_arch") and isinstance(value, Mapping) and is_known(known[name]):
                    self._check_networks(full_path, value)

    def _sections(self) -> dict[str, Mapping[str, Parameter]]:
        """Return the parameters of the algorithm by section of the config."""
        sections: dict[str, Mapping[str, Parameter]] = {}
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            path = waiting.pop(0)
            if known := self.inside(path):
                sections[key_of(path)] = known
                waiting += [(*path, name) for name in known if name in INNER]
        runs_itself = hasattr(self.cls, "training")
        return {**sections, **({"training_params": training_parameters(self.cls)} if runs_itself else {})}

    def _allowed(self, path: tuple[str, ...], value: Any, parameter: Parameter) -> str:
        """Return the allowed values in place of a class, or of a text for other programs; empty for the usual words."""
        words = parameter.type_in_words
        if not isinstance(value, str):
            return ""
        if value.startswith("lin_") and path == (parameter.name,) and parameter.name in may_be_scheduled(self.cls):
            return f"{words}, or {{schedule: linear, from: {value.removeprefix('lin_')}, to: 0}}"
        if value.startswith("dict("):
            return f"{words}, written as {{net_arch: [64, 64]}}"
        if value.rpartition(".")[2] == "HerReplayBuffer":
            return "null, for hindsight replay with the key her: true"
        if fits(object, parameter.annotation) and not fits(0.5, parameter.annotation):
            null = "null, or " if fits(None, parameter.annotation) else ""
            return f"{null}a class in the registration of an algorithm: defaults={{{parameter.name!r}: {value}}}"
        return ""

    def _check_observations(self, path: tuple[str, ...], name: str) -> None:
        """Refuse a policy or a features extractor of the library that does not take the algorithm's observations."""
        dictionaries = self.entry.dict_observations
        if path == ("policy",):
            if hasattr(self.cls, "training"):  # a runner builds the policy that fits the observations
                return
            names = list(self.policies)
            fitting = [n for n in names if takes_dictionaries(replace(self.entry, policy=n)) == dictionaries]
        elif path[-1] == "features_extractor_class" and dictionaries:
            names = registry("features_extractor").names()
            fitting = [n for n in names if n not in FLAT_EXTRACTORS]
        else:
            return
        if name in names and name not in fitting and name != self.policy:
            why = (
                f"does not take the observations of {self.entry.name}, {'dictionaries' if dictionaries else 'vectors'}"
            )
            raise ConfigError(bad_value(key_of(path), name, fitting, why))

    def _check_networks(self, path: tuple[str, ...], value: Mapping[str, Any]) -> None:
        """Refuse names of networks that SB3 would ignore silently."""
        owner = self.component(("policy",))
        actor_critic = any("ActorCriticPolicy" in base.__name__ for base in owner.__mro__)
        networks = ("pi", "vf") if actor_critic else ("pi", "qf")
        for name in value:
            if name not in networks:
                why = f"is not a network of {owner.__name__}"
                raise ConfigError(bad_value(f"{key_of(path)}.{name}", name, networks, why))

    # Defaults and constructor arguments -----------------------------------------------------------------------------

    def defaults(self, path: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the defaults of the class at a path and of those below, in the form of configs."""
        defaults: dict[str, Any] = {}
        for name, parameter in (self.inside(path) or {}).items():
            if name in INNER and self.inside((*path, name)):
                defaults[name] = self.defaults((*path, name))
            elif not parameter.required and (is_name(parameter) or is_plain(parameter.default)):
                defaults[name] = shown(parameter.default)
        return defaults

    def registered(self) -> dict[str, Any]:
        """Return the values of the registration that the chosen classes accept, in the form of configs."""
        return self.accepted(shown(self.kwargs))

    def accepted(self, values: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the values at a path, in the form of configs, that the chosen classes accept."""
        known = self.inside(path) if path else None
        return {
            name: self.accepted(value, (*path, name)) if name in INNER and isinstance(value, Mapping) else value
            for name, value in values.items()
            if known is None or name in known
        }

    def arguments(self, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return policy and keyword arguments for the constructor, with objects in place of their names in configs.

        Unset parameters are omitted so that subclass defaults apply.
        """
        kwargs = self._arguments(values, ())
        policy = kwargs.pop("policy", self.policy)
        return policy, kwargs

    def _arguments(self, values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        known = self.inside(path) or {}
        kwargs: dict[str, Any] = {}
        for name, value in values.items():
            full_path = (*path, name)
            registered = at(self.kwargs, full_path)
            default = known[name].default if name in known else REQUIRED
            if name in INNER and isinstance(value, Mapping) and self.inside(full_path) is not None:
                inner = self._arguments(value, full_path)
                if inner or registered is not None:
                    kwargs[name] = inner
            elif registered is not None and value == shown(registered):
                kwargs[name] = copy.deepcopy(registered) if is_plain(registered) else registered
            elif default is not REQUIRED and value == shown(default):
                if has(self.kwargs, full_path):  # the user restores the class default over the registration
                    kwargs[name] = default
            else:
                named = name in NAMED and (name not in known or is_name(known[name]))
                hint = known[name].annotation if name in known else Any
                kwargs[name] = self._named(full_path, value) if named else _as_tuple(value, hint)
        return kwargs


def _as_tuple(value: Any, hint: Any) -> Any:
    """Return a list such as `[1, "step"]` as a tuple if the type hint is a tuple; else return a copy of the value."""
    hints = {typing.get_origin(option) or option for option in (hint, *typing.get_args(hint))}
    wants_tuple = tuple in hints and list not in hints
    return tuple(value) if wants_tuple and isinstance(value, list) else copy.deepcopy(value)


def hyperparameter_rows(entry: Algorithm) -> list[dict[str, Any]]:
    """Return a row for each hyperparameter of an algorithm; nested hyperparameters have dotted names.

    Raises:
        ConfigError: The registration is invalid.
    """
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


def training_rows(entry: Algorithm) -> list[dict[str, Any]]:
    """Return a row for each training parameter of a `Runner`; no rows for other algorithms."""
    cls = entry.combo()[0]
    known = training_parameters(cls) if is_runner(cls) else {}
    return [
        _row(name, parameter, entry.training_defaults.get(name, _default(parameter)))
        for name, parameter in known.items()
    ]


def strategy_rows(name: str) -> list[dict[str, Any]]:
    """Return a row for each parameter of a strategy, with its complete help."""
    return _complete_rows(parameters(registry("strategy").get(name, "strategy").load()).values())


def controller_rows(name: str) -> list[dict[str, Any]]:
    """Return a row for each key of `control` besides the name: first those of all controllers."""
    fields = {key: field for key, field in ControlParams.model_fields.items() if key != "name"}
    rows = [
        {"name": key, "type": in_words(field.annotation), "default": field.default, "help": field.description}
        for key, field in fields.items()
    ]
    known = controller_parameters(registry("controller").get(name, "control").load())
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
    key = parameter.name
    kind = f"a name of `mygym list {NAMED[key]}`" if is_name(parameter) else parameter.type_in_words
    return {
        "name": name,
        "type": kind + (f", {limits}" if (limits := range_of(parameter)) else ""),
        "default": default,
        "help": re.split(r"(?<=\.)\s+(?=[A-Z])", parameter.help)[0],
    }
