"""The schema of `algo_params`: what an algorithm's class takes, its networks and buffers included.

Known are the constructor's parameters, those of the policy class in `policy_kwargs`, in these the optimiser's and the
feature extractor's, and the replay or rollout buffer's. Classes and functions have names in configs; which class a
name means, and what it takes, is the registry's to tell. Nothing is built here, and nothing evaluated.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mygym.config import schedulable
from mygym.config.loading import merged
from mygym.config.plain import is_plain
from mygym.config.ranges import LARGEST, RANGES
from mygym.config.schedules import Schedule, is_schedule, parse
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import Algorithm, registry
from mygym.registry.signatures import REQUIRED, Parameter, choices, fits, in_words, parameters, source_location

SECTION = "algo_params"

OF_THE_RUN = frozenset({"env", "seed", "device", "verbose", "tensorboard_log", "_init_setup_model"})
"""Constructor arguments of an algorithm that the run sets."""

NAMED = {
    "policy": "policy",
    "features_extractor_class": "features_extractor",
    "activation_fn": "activation",
    "optimizer_class": "optimizer",
}
"""Parameters that take a class or function, and the kind of component whose names stand for these."""


@dataclass(frozen=True)
class Inner:
    """A parameter that takes the keyword arguments of something else."""

    of: str
    """The parameter that says of what."""
    taken: frozenset[str]
    """What that gets from elsewhere."""


INNER: Mapping[str, Inner] = {
    "policy_kwargs": Inner("policy", frozenset({"observation_space", "action_space", "lr_schedule", "use_sde"})),
    "features_extractor_kwargs": Inner("features_extractor_class", frozenset({"observation_space"})),
    "optimizer_kwargs": Inner("optimizer_class", frozenset({"params", "lr", "learning_rate"})),
    "replay_buffer_kwargs": Inner(
        "replay_buffer_class",
        frozenset(
            {
                "buffer_size",
                "observation_space",
                "action_space",
                "env",
                "device",
                "n_envs",
                "optimize_memory_usage",
                "n_steps",
                "gamma",
            }
        ),
    ),
    "rollout_buffer_kwargs": Inner(
        "rollout_buffer_class",
        frozenset({"buffer_size", "observation_space", "action_space", "device", "gae_lambda", "gamma", "n_envs"}),
    ),
}

BUFFERS = {
    "replay_buffer_class": ("stable_baselines3.common.buffers", "ReplayBuffer", "DictReplayBuffer"),
    "rollout_buffer_class": ("stable_baselines3.common.buffers", "RolloutBuffer", "DictRolloutBuffer"),
}
"""What SB3 takes when none is said: of flat observations, of dictionaries."""


class Schema:
    """What one algorithm takes, given what has been said so far.

    Args:
        entry: The algorithm.
        said: Values for `algo_params`; they decide which policy, optimiser and feature extractor are meant, and so what
            these take.
        her: Whether transitions are relabelled, which has a replay buffer of its own.
    """

    def __init__(self, entry: Algorithm, said: Mapping[str, Any], her: bool = False) -> None:
        self.entry = entry
        self.cls, self.args, self.kwargs = entry.combo()
        self.her = her
        self.known = parameters(self.cls, leave_out=OF_THE_RUN)
        self.policy = self._default_policy()
        if self.policy is None:
            self.known.pop("policy", None)
        else:
            self.kwargs = {"policy": self.policy, **self.kwargs}
        self.values = merged(shown(self.kwargs), said)
        self._inside: dict[tuple[str, ...], dict[str, Parameter] | None] = {(): self.known}

    def _default_policy(self) -> Any:
        positions = list(parameters(self.cls))
        index = positions.index("policy") if "policy" in positions else len(self.args)
        return self.args[index] if index < len(self.args) else self.kwargs.get("policy")

    # What is known ------------------------------------------------------------------------------------------------

    def inside(self, path: tuple[str, ...]) -> dict[str, Parameter] | None:
        """What the keyword arguments at `path` within `algo_params` may be; None where anybody may say anything."""
        if path not in self._inside:
            inner = INNER.get(path[-1])
            owner = None if inner is None else self.component((*path[:-1], inner.of))
            known = None if inner is None or owner is None else parameters(owner, leave_out=inner.taken)
            self._inside[path] = known
        return self._inside[path]

    def component(self, path: tuple[str, ...]) -> Any:
        """The class or function that is chosen at `path`; None where there is none."""
        name = path[-1]
        if name in BUFFERS:
            return self._buffer(path)
        chosen = at(self.values, path)
        for default in (at(self.kwargs, path), self._class_default(path)):
            if default is not None and chosen in (None, shown(default)):
                return self._policy_class(default) if name == "policy" else default
        return None if chosen is None else self._named(path, chosen)

    def _class_default(self, path: tuple[str, ...]) -> Any:
        parameter = (self.inside(path[:-1]) or {}).get(path[-1])
        return None if parameter is None or parameter.default is REQUIRED else parameter.default

    def _named(self, path: tuple[str, ...], name: Any) -> Any:
        """The class or function of a name in the algorithm's framework.

        Raises:
            ConfigError: There is none.
        """
        key, kind = dotted(path), NAMED[path[-1]]
        aliases: Mapping[str, Any] = getattr(self.cls, "policy_aliases", {}) if kind == "policy" else {}
        if isinstance(name, str) and name in aliases:
            return aliases[name]
        known = [entry.name for entry in registry(kind) if _is_for(entry.target, self.entry.framework)]
        default = shown(self._class_default(path) or at(self.kwargs, path))
        names = [*aliases, *known, *([default] if isinstance(default, str) and default not in known else [])]
        if not isinstance(name, str):
            raise ConfigError(bad_value(key, name, names, "is not a name"))
        try:
            entry = registry(kind).get(name, key)
            if isinstance(entry.load(), Mapping):
                return entry.load_for(self.entry.framework)
        except RegistryError:
            if name in registry(kind).conflicts or name in known:
                raise
        why = f"is no {kind.replace('_', ' ')} for {self.entry.framework}"
        raise ConfigError(bad_value(key, name, names, why))

    def _policy_class(self, policy: Any) -> Any:
        return getattr(self.cls, "policy_aliases", {}).get(policy) if isinstance(policy, str) else policy

    def _buffer(self, path: tuple[str, ...]) -> Any:
        if self.her and path == ("replay_buffer_class",):
            return importlib.import_module("stable_baselines3").HerReplayBuffer
        chosen = at(self.kwargs, path)
        if chosen is not None:
            return chosen
        module, flat, of_dictionaries = BUFFERS[path[-1]]
        return getattr(importlib.import_module(module), of_dictionaries if self.entry.dict_observations else flat)

    # What is right ------------------------------------------------------------------------------------------------

    def check(self, said: Mapping[str, Any]) -> None:
        """Refuse what the class would not take.

        Raises:
            ConfigError: An unknown hyperparameter, a wrong type, or a number out of its known range.
        """
        self._check(said, ())

    def check_registration(self) -> None:
        """Refuse a class whose hyperparameters cannot be told, and a registration that its class would not take.

        For a schema of which nothing has been said.

        Raises:
            ConfigError: With file and line.
        """
        for parameter in self.known.values():
            if parameter.required and parameter.annotation is Any and parameter.name not in self.kwargs:
                where = source_location(parameter.declared_by)
                raise ConfigError(
                    f"{where}: {self.cls.__name__}: parameter {parameter.name!r} has neither a type annotation nor a "
                    f"default; give it one, as in `{parameter.name}: float = 0.1`"
                )
        try:
            self.check(shown(self.kwargs))
        except ConfigError as error:
            raise ConfigError(f"{self.entry.origin}: {error}") from None

    def check_required(self) -> None:
        """Refuse to begin without what has no default.

        Raises:
            ConfigError: Names the first that is missing.
        """
        for parameter in self.known.values():
            if parameter.required and parameter.name not in self.values:
                key = f"{SECTION}.{parameter.name}"
                raise ConfigError(
                    f"{key}: is required by {self.cls.__name__} and has no default; allowed: "
                    f"{parameter.type_in_words}; say --set {key}=…"
                )

    def _check(self, said: Mapping[str, Any], path: tuple[str, ...]) -> None:
        known = self.inside(path)
        if known is None:
            return
        for name, value in said.items():
            here = (*path, name)
            if name not in known:
                owner = self.component((*path[:-1], INNER[path[-1]].of)) if path else self.cls
                why = f"is not a parameter of {owner.__name__}"
                raise ConfigError(bad_value(dotted(here), name, sorted(known), why))
            registered = at(self.kwargs, here)
            if not is_plain(registered) and isinstance(value, str) and value == shown(registered):
                continue  # what the registration brought, by the name under which configs show it
            if not path and _is_scheduled(value, known[name]):
                _check_schedule(self.cls, value, known[name])
            elif name in NAMED:
                self._check_named(here, value, known[name])
            elif name in INNER and isinstance(value, Mapping):
                self._check(value, here)
            else:
                check_value(dotted(here), value, known[name])
                if here == ("policy_kwargs", "net_arch") and isinstance(value, Mapping):
                    self._check_parts(here, value)

    def _check_named(self, path: tuple[str, ...], value: Any, parameter: Parameter) -> None:
        if value != shown(parameter.default) and not (value is None and parameter.default is None):
            self._named(path, value)

    def _check_parts(self, path: tuple[str, ...], value: Mapping[str, Any]) -> None:
        """SB3 takes the parts of a network that it knows, and is silent about others."""
        owner = self.component(("policy",))
        actor_critic = any("ActorCriticPolicy" in base.__name__ for base in owner.__mro__)
        for part in value:
            if part not in (parts := ("pi", "vf") if actor_critic else ("pi", "qf")):
                why = f"is not a network of {owner.__name__}"
                raise ConfigError(bad_value(f"{dotted(path)}.{part}", part, parts, why))

    # What nobody says, and what the class gets ----------------------------------------------------------------------

    def defaults(self) -> dict[str, Any]:
        """What the classes themselves give to what nobody sets, as configs show it."""
        return self._defaults(())

    def registered(self) -> dict[str, Any]:
        """What the registration gives, as configs show it, as far as the chosen classes take it."""
        return self._taken(shown(self.kwargs), ())

    def arguments(self, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Policy and keyword arguments for the constructor: names become what they name.

        What nobody has said is left out, as a subclass may decide otherwise in its constructor.

        Args:
            values: Complete `algo_params`.
        """
        kwargs = self._arguments(values, ())
        policy = kwargs.pop("policy", self.policy)
        return policy, kwargs

    def _defaults(self, path: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, parameter in (self.inside(path) or {}).items():
            if name in INNER and self.inside((*path, name)):
                found[name] = self._defaults((*path, name))
            elif not parameter.required and (name in NAMED or is_plain(parameter.default)):
                found[name] = shown(parameter.default)
        return found

    def _taken(self, values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        known = self.inside(path) if path else None
        return {
            name: self._taken(value, (*path, name)) if name in INNER and isinstance(value, Mapping) else value
            for name, value in values.items()
            if known is None or name in known
        }

    def _arguments(self, values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        known = self.inside(path) or {}
        kwargs: dict[str, Any] = {}
        for name, value in values.items():
            here = (*path, name)
            registered = at(self.kwargs, here)
            own = known[name].default if name in known else REQUIRED
            if name in INNER and isinstance(value, Mapping) and self.inside(here) is not None:
                inner = self._arguments(value, here)
                if inner or registered is not None:
                    kwargs[name] = inner
            elif registered is not None and value == shown(registered):
                kwargs[name] = copy.deepcopy(registered) if is_plain(registered) else registered
            elif own is not REQUIRED and value == shown(own):
                if _has(self.kwargs, here):  # the registration decides otherwise, and the user has gone back
                    kwargs[name] = own
            else:
                hint = known[name].annotation if name in known else Any
                kwargs[name] = self._named(here, value) if name in NAMED else _as_wanted(value, hint)
        return kwargs


def training_parameters(runner: Any) -> dict[str, Parameter]:
    """Training parameters of a `Runner`: the keyword-only ones of its `training`."""
    signature = inspect.signature(runner.training).parameters
    return {
        name: one
        for name, one in parameters(runner.training).items()
        if signature[name].kind is inspect.Parameter.KEYWORD_ONLY
    }


def training_defaults(runner: Any) -> dict[str, Any]:
    """Values that the signature of `training` gives to what nobody sets."""
    return {name: one.default for name, one in training_parameters(runner).items() if is_plain(one.default)}


def check_training(runner: Any, values: Mapping[str, Any]) -> None:
    """Refuse what `training` of a `Runner` would not take.

    Raises:
        ConfigError: An unknown training parameter, one that nobody sets, a wrong type, or a number out of its range.
    """
    check_parameters("training_params", f"{runner.__name__}.training", training_parameters(runner), values)


def check_parameters(
    section: str, owner: str, known: Mapping[str, Parameter], values: Mapping[str, Any], bounded: bool = True
) -> None:
    """Refuse a section of the config that `owner`, whose parameters are `known`, would not take.

    Args:
        section: Its key.
        owner: What to call it.
        known: By name.
        values: By name.
        bounded: Whether names mean what `RANGES` takes them for.

    Raises:
        ConfigError: An unknown parameter, one that nobody sets, a wrong type, or a number out of its range.
    """
    for name, value in values.items():
        key = f"{section}.{name}"
        if name not in known:
            raise ConfigError(bad_value(key, name, sorted(known), f"is not a parameter of {owner}"))
        check_value(key, value, known[name], bounded)
    for name, parameter in known.items():
        if parameter.required and name not in values:
            raise ConfigError(bad_value(f"{section}.{name}", None, f"a value, which {owner} needs", "is missing"))


def schedules(cls: type, values: Mapping[str, Any], total_steps: int) -> dict[str, Schedule]:
    """The schedules among `values`, which are all of an algorithm's hyperparameters.

    Raises:
        ConfigError: One is wrong, does not fit the run's steps, or could have no effect.
    """
    known = parameters(cls, leave_out=OF_THE_RUN)
    found = {}
    for name, value in values.items():
        if name in known and _is_scheduled(value, known[name]):
            found[name] = _check_schedule(cls, value, known[name], total_steps)
            if why := schedulable.contradiction(cls, name, values):
                raise ConfigError(bad_value(dotted((name,)), value, "no schedule", why))
    return found


def may_be_scheduled(cls: type) -> dict[str, str]:
    """Hyperparameters that may follow a schedule → `"called"` or `"held"` (`mygym.config.schedulable`)."""
    known = parameters(cls, leave_out=OF_THE_RUN)
    return {name: way for name, parameter in known.items() if (way := _way(cls, parameter)) is not None}


def _way(cls: type, parameter: Parameter) -> str | None:
    hint = parameter.annotation
    takes_function = fits(abs, hint) and not fits(object(), hint)  # what takes anything does not ask for a function
    return schedulable.way(cls, parameter.name, takes_function, takes_number=fits(0.5, hint))


def _is_scheduled(value: Any, parameter: Parameter) -> bool:
    """Whether a mapping stands for a number that changes, rather than for arguments of something else."""
    if not isinstance(value, Mapping):
        return False
    takes_number = fits(0.5, parameter.annotation)
    return (
        is_schedule(value) and takes_number if fits(value, parameter.annotation) else is_schedule(value) or takes_number
    )


def _check_schedule(
    cls: type, value: Mapping[str, Any], parameter: Parameter, total_steps: int | None = None
) -> Schedule:
    key = dotted((parameter.name,))
    if _way(cls, parameter) is None:
        may = ", ".join(may_be_scheduled(cls)) or "nothing"
        allowed = f"{parameter.type_in_words}; of {cls.__name__} may be scheduled: {may}"
        raise ConfigError(bad_value(key, value, allowed, "is fixed while training"))
    schedule = parse(key, value, RANGES.get(parameter.name), total_steps)
    if any(abs(number) > LARGEST for _, number in schedule.trials(total_steps)):
        raise ConfigError(bad_value(key, value, f"finite numbers of at most {LARGEST:g}, as float32 has"))
    return schedule


def check_value(key: str, value: Any, parameter: Parameter, bounded: bool = True) -> None:
    """Refuse a value of the wrong type or, where its name is `bounded`, out of the known range.

    Raises:
        ConfigError: Names `key`, the value and what is allowed.
    """
    if not fits(value, parameter.annotation):
        if isinstance(value, str) and (names := choices(parameter.annotation)):
            raise ConfigError(bad_value(key, value, names))
        raise ConfigError(bad_value(key, value, in_words(parameter.annotation), "has the wrong type"))
    for number in _numbers(value):
        if not abs(number) <= LARGEST:
            raise ConfigError(bad_value(key, value, f"finite numbers of at most {LARGEST:g}, as float32 has"))
        if bounded and parameter.name in RANGES and number not in RANGES[parameter.name]:
            raise ConfigError(bad_value(key, value, str(RANGES[parameter.name]), "is out of range"))


def shown(value: Any) -> Any:
    """What stands in configs for `value`: itself if it is plain data, else a name."""
    if isinstance(value, Mapping):
        return {key: shown(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shown(inner) for inner in value]
    if is_plain(value):
        return value
    return name_of(value) or getattr(value, "__qualname__", f"{type(value).__name__}(…)")


def dotted(path: tuple[str, ...]) -> str:
    """The key of a path within `algo_params`, as the user types it."""
    return ".".join((SECTION, *path))


def name_of(component: Any) -> str | None:
    """The name under which a class or function is registered as a part of networks."""
    where = f"{getattr(component, '__module__', '')}:{getattr(component, '__qualname__', '')}"
    for kind in dict.fromkeys(NAMED.values()):
        for entry in registry(kind):
            if isinstance(entry.target, Mapping):
                for target in entry.target.values():
                    if target is component or (isinstance(target, str) and _same_place(target, where, component)):
                        return entry.name
    return None


def _same_place(target: str, where: str, component: Any) -> bool:
    """Whether an import string leads to `component`; packages export things from inside themselves."""
    module, _, attribute = target.partition(":")
    if attribute != where.rpartition(":")[2] or module.partition(".")[0] != where.partition(".")[0]:
        return False
    return getattr(importlib.import_module(module), attribute, None) is component


def _is_for(target: Any, framework: str) -> bool:
    return framework in target if isinstance(target, Mapping) else not inspect.isclass(target)


def _has(values: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return True


def at(values: Any, path: tuple[str, ...]) -> Any:
    """The value at `path` in nested mappings; None where there is none."""
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _numbers(value: Any) -> Iterator[float]:
    """The numbers in a value, in a list such as `[1, "step"]`, in a mapping, the one in `"auto_0.1"`."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value
    elif isinstance(value, str):
        with contextlib.suppress(ValueError):
            yield float(value.removeprefix("auto_"))


def _as_wanted(value: Any, hint: Any) -> Any:
    """A list such as `[1, "step"]` as a tuple, where the type hint says tuple; everything else as it is."""
    hints = {typing.get_origin(one) or one for one in (hint, *typing.get_args(hint))}
    wants_tuple = tuple in hints and list not in hints
    return tuple(value) if wants_tuple and isinstance(value, list) else copy.deepcopy(value)
