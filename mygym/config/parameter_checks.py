"""Check values of a config against the parameters of the class or function that takes them."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from mygym.config.loading import is_plain
from mygym.config.schema import RunConfig
from mygym.config.validation_errors import first_mistake, keys_at
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.registry.signatures import Parameter, choices, fits, in_words, parameters, signature, source_location


@dataclass(frozen=True)
class Range:
    """Interval of numbers, closed unless `open_low`."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        return (value > self.low if self.open_low else value >= self.low) and value <= self.high

    def __str__(self) -> str:
        low = f"above {self.low:g}" if self.open_low else f"at least {self.low:g}"
        return low if self.high == math.inf else f"{low} and at most {self.high:g}"


PACKAGES = (
    *("stable_baselines3", "sb3_contrib", "sbx", "torch", "optax"),
    *("mygym.algos", "mygym.training.runner", "mygym.training.jax_runner"),
)
"""Packages of the classes for which `RANGES` and `TEXTS` hold. Other classes have only the bounds of their type hints,
e.g. `Annotated[float, Gt(0)]`: an equal name may mean something else."""

_ABOVE_0 = Range(0, open_low=True)

RANGES: Mapping[str, Range] = {
    name: limits
    for limits, names in (
        (_ABOVE_0, "learning_rate clip_range clip_range_vf max_grad_norm target_kl delta_std initial_std"),
        (Range(0, 1), "gamma gae_lambda tau betas beta epsilon color_jitter"),
        (Range(0, 1), "exploration_initial_eps exploration_final_eps"),
        (Range(0, 1, open_low=True), "exploration_fraction line_search_shrinking_factor smoothing"),
        (Range(0), "ent_coef vf_coef weight_decay eps cg_damping learning_starts n_sampled_goal extra_std clip_mean"),
        (Range(0), "action_noise target_policy_noise target_noise_clip top_quantiles_to_drop_per_net"),
        (Range(1), "n_steps n_epochs buffer_size train_freq policy_delay target_update_interval n_critic_updates"),
        (Range(1), "n_delta n_top n_eval_episodes stats_window_size cg_max_steps rollout_steps elites episodes"),
        (Range(1), "net_arch n_critics n_quantiles lstm_hidden_size n_lstm_layers features_dim channels keypoints"),
        (Range(1), "extra_generations"),
        (Range(2), "population"),
        (Range(-1), "gradient_steps sde_sample_freq"),
        (Range(0, 1024), "random_shift"),
        (Range(1, 10_000_000), "batch_size"),  # far more than fits into memory
        (Range(1, 1), "sub_sampling_factor"),  # sb3-contrib cannot sub-sample dictionaries
    )
    for name in names.split()
}
"""Name of a hyperparameter → its range."""

TEXTS: Mapping[str, tuple[str, str]] = {
    "ent_coef": (r"auto(_[0-9.]+(e-?[0-9]+)?)?", "a number, auto, or auto_0.1 for another first value"),
    "target_entropy": ("auto", "a number or auto"),
}
"""Name of a hyperparameter that is a number or text → pattern of the text, and the allowed values in words."""


def is_known(parameter: Parameter) -> bool:
    """Return whether a class or function of `PACKAGES` declares a parameter."""
    module: str = getattr(parameter.declared_by, "__module__", "")
    return any(module == package or module.startswith(f"{package}.") for package in PACKAGES)


def range_of(parameter: Parameter) -> Range | None:
    """Return the range of a hyperparameter; None if its type hint has one, or its class is none of `PACKAGES`."""
    return RANGES.get(parameter.name) if is_known(parameter) and not _is_annotated(parameter.annotation) else None


def _is_annotated(hint: Any) -> bool:
    """Return whether a type hint, or an option of it, has bounds, such as `Annotated[int, Ge(1)] | None`."""
    return any(get_origin(option) is Annotated for option in (hint, *get_args(hint)))


MAX_FLOAT32 = 3.4e38
"""Largest finite float32, the type in which torch computes."""


NAMED = {
    "policy": "policy",
    "features_extractor_class": "features_extractor",
    "activation_fn": "activation",
    "optimizer_class": "optimizer",
}
"""Parameter that takes a class or function → the kind of component whose names are its values."""


@dataclass(frozen=True)
class Inner:
    """A parameter that takes the keyword arguments of a class."""

    of: str
    """The parameter that chooses the class."""
    taken: frozenset[str]
    """Arguments that the library sets, so that configs cannot set them."""


SPACES = frozenset({"observation_space", "action_space"})

INNER: Mapping[str, Inner] = {
    "policy_kwargs": Inner("policy", SPACES | {"lr_schedule", "use_sde"}),
    "features_extractor_kwargs": Inner("features_extractor_class", frozenset({"observation_space"})),
    "optimizer_kwargs": Inner("optimizer_class", frozenset({"params", "lr", "learning_rate"})),
    "replay_buffer_kwargs": Inner(
        "replay_buffer_class",
        SPACES | {"buffer_size", "device", "n_envs", "env", "optimize_memory_usage", "n_steps", "gamma"},
    ),
    "rollout_buffer_kwargs": Inner(
        "rollout_buffer_class", SPACES | {"buffer_size", "device", "n_envs", "gae_lambda", "gamma"}
    ),
}

BUFFERS = {
    "replay_buffer_class": ("stable_baselines3.common.buffers", "ReplayBuffer", "DictReplayBuffer"),
    "rollout_buffer_class": ("stable_baselines3.common.buffers", "RolloutBuffer", "DictRolloutBuffer"),
}
"""Default buffer of SB3: module, class for flat observations, class for dictionaries."""


def is_name(parameter: Parameter) -> bool:
    """Return whether configs give a parameter by a registered name; a class may use such a name for plain text."""
    return parameter.name == "policy" or (parameter.name in NAMED and fits(object, parameter.annotation))


def shown(value: Any) -> Any:
    """Return the representation of `value` in configs: plain data unchanged, other objects by name."""
    if isinstance(value, Mapping):
        return {key: shown(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shown(inner) for inner in value]
    if is_plain(value):
        return value
    return name_of(value) or getattr(value, "__qualname__", f"{type(value).__name__}(…)")


def name_of(component: Any) -> str | None:
    """Return the name under which a class or function of networks is registered, or None."""
    for kind in dict.fromkeys(NAMED.values()):
        for entry in registry(kind):
            if isinstance(entry.target, Mapping) and any(_is(target, component) for target in entry.target.values()):
                return entry.name
    return None


def _is(target: Any, component: Any) -> bool:
    """Return whether a target is a component, or an import string of it; packages may re-export it elsewhere."""
    if not isinstance(target, str):
        return target is component
    module, _, attribute = target.partition(":")
    package = getattr(component, "__module__", "").partition(".")[0]
    if attribute != getattr(component, "__qualname__", "") or module.partition(".")[0] != package:
        return False
    return getattr(importlib.import_module(module), attribute, None) is component


def is_for_framework(target: Any, framework: str) -> bool:
    """Return whether a registered target exists in a framework; plain functions exist in all."""
    return framework in target if isinstance(target, Mapping) else not inspect.isclass(target)


RUN_PARAMETERS = frozenset({"env", "seed", "device", "verbose", "tensorboard_log", "_init_setup_model"})
"""Constructor arguments of an algorithm that the run sets."""

NEEDED_PARAMETERS = ("seed", "device", "_init_setup_model")
"""The `RUN_PARAMETERS` without which an algorithm can be neither reproduced nor loaded."""

ARM_PARAMETERS = frozenset({"kinematics", "limits", "bounds", "dt", "inverse_dynamics", "tool_yaw"})
"""Constructor arguments of a controller that follow from the arm and the task."""

ALIASES: Mapping[str, str] = {
    "lr": "learning_rate",
    "bs": "batch_size",
    "minibatch_size": "batch_size",
    "discount": "gamma",
    "lam": "gae_lambda",
    "lambda": "gae_lambda",
    "epochs": "n_epochs",
    "clip": "clip_range",
    "clip_eps": "clip_range",
    "epsilon": "clip_range",
    "alpha": "ent_coef",
    "entropy_coef": "ent_coef",
    "value_coef": "vf_coef",
    "grad_clip": "max_grad_norm",
    "polyak": "tau",
    "memory_size": "buffer_size",
    "replay_size": "buffer_size",
    "warmup": "learning_starts",
    "start_steps": "learning_starts",
    "hidden_sizes": "net_arch",
    "hidden_layers": "net_arch",
}
"""Common names of hyperparameters in other libraries → the names here, for the hint of an error message."""

HYPERPARAMETERS = frozenset(
    {"learning_rate", "batch_size", "buffer_size", "n_steps", "n_epochs", "gamma", "gae_lambda", "ent_coef", "tau"}
    | {"clip_range", "vf_coef", "max_grad_norm", "train_freq", "gradient_steps", "learning_starts", "policy_kwargs"}
)
"""Common hyperparameters, which are keys of `algo_params`."""


def unknown_parameter(
    key: str, known: Collection[str], owner: str, sections: Mapping[str, Collection[str]] | None = None
) -> str:
    """Return the message for a parameter that does not exist; another of the `sections` of the config may have it."""
    name, why = key.rpartition(".")[2], f"is not a parameter of {owner}"
    meant = ALIASES.get(name.lower())
    hint = f"; did you mean {meant!r}?" if meant in known else in_other_section(name, sections or {})
    if hint:
        return bad_value(key, name, ", ".join(sorted(known)) or "nothing", why) + hint
    return bad_value(key, name, sorted(known), why)


def in_other_section(name: str, sections: Mapping[str, Collection[str]]) -> str:
    """Return `; did you mean …?` with the key of a parameter in another section of the config; empty without one."""
    names = (name, ALIASES.get(name.lower(), name))
    known = {"algo_params": HYPERPARAMETERS, **sections}
    keys = [f"{section}.{meant}" for section, inside in known.items() for meant in names if meant in inside]
    keys += [key for meant in names for key in keys_named(meant)]
    return f"; did you mean {'' if '.' in keys[0] else 'the key '}{keys[0]!r}?" if keys else ""


def keys_named(name: str) -> list[str]:
    """Return the keys of configs that end in a name, e.g. `task_params.horizon` for `horizon`."""
    fields = RunConfig.model_fields
    inside = [f"{section}.{name}" for section, field in fields.items() if name in keys_at(field.annotation, ())]
    return [name, *inside] if name in fields else inside


def check_value(key: str, value: Any, parameter: Parameter, allowed: str = "") -> None:
    """Refuse a value of the wrong type, or outside the range of the parameter; accept its default.

    Raises:
        ConfigError: The value is refused; the message has `key`, the value and the allowed values.
    """
    if is_default(value, parameter):  # a class may be trained with it, so a config may hold it
        return
    if not fits(value, parameter.annotation):
        if isinstance(value, str) and (names := choices(parameter.annotation)):
            raise ConfigError(bad_value(key, value, names))
        raise ConfigError(bad_value(key, value, allowed or in_words(parameter.annotation), "has the wrong type"))
    if refusal := refusal_of_type(value, parameter.annotation):
        raise ConfigError(bad_value(key, value, refusal, "is out of range"))
    if isinstance(value, str) and parameter.name in TEXTS and is_known(parameter):
        pattern, words = TEXTS[parameter.name]
        if not re.fullmatch(pattern, value):
            raise ConfigError(bad_value(key, value, words))
    limits = range_of(parameter)
    for number in _numbers(value):
        if not abs(number) <= MAX_FLOAT32:
            raise ConfigError(bad_value(key, value, f"finite numbers of at most {MAX_FLOAT32:g}, as float32 has"))
        if limits is not None and number not in limits:
            raise ConfigError(bad_value(key, value, str(limits), "is out of range"))


def is_default(value: Any, parameter: Parameter) -> bool:
    """Return whether a value in the form of configs is the default of a parameter."""
    default = parameter.default
    return not parameter.required and value == shown(default) and isinstance(value, bool) == isinstance(default, bool)


def check_parameters(
    section: str,
    owner: str,
    known: Mapping[str, Parameter],
    values: Mapping[str, Any],
    sections: Mapping[str, Collection[str]] | None = None,
    complete: bool = True,
) -> None:
    """Refuse values in a section of the config that `owner` does not accept; `sections` are for a hint.

    Raises:
        ConfigError: An unknown parameter, a wrong type, or a number out of its range; of complete values, also a
            missing parameter.
    """
    for name, value in values.items():
        key = f"{section}.{name}"
        if name not in known:
            raise ConfigError(unknown_parameter(key, known, owner, sections))
        check_value(key, value, known[name])
    for name, parameter in known.items() if complete else ():
        if parameter.required and name not in values:
            raise ConfigError(bad_value(f"{section}.{name}", None, f"a value, which {owner} needs", "is missing"))


def controller_parameters(kind: type) -> dict[str, Parameter]:
    """Return the parameters of a controller's class that configs set."""
    return parameters(kind, leave_out=ARM_PARAMETERS)


def is_runner(cls: Any) -> bool:
    """Return whether an algorithm is a `Runner`; its module, which imports torch, need not be imported."""
    return bool(getattr(cls, "defines_training", False))


def training_parameters(runner: Any) -> dict[str, Parameter]:
    """Return the training parameters of a `Runner`: the keyword-only parameters of its `training`."""
    taken = signature(runner.training).parameters
    return {
        name: parameter
        for name, parameter in parameters(runner.training).items()
        if taken[name].kind is inspect.Parameter.KEYWORD_ONLY
    }


def training_defaults(runner: Any) -> dict[str, Any]:
    """Return the defaults in the signature of a `Runner`'s `training`."""
    known = training_parameters(runner)
    return {name: parameter.default for name, parameter in known.items() if is_plain(parameter.default)}


def check_training(runner: Any, values: Mapping[str, Any]) -> None:
    """Refuse `training_params` that `training` of a `Runner` does not accept, see `check_parameters`."""
    _check_training_signature(runner)
    of_constructor = {"algo_params": parameters(runner, leave_out=RUN_PARAMETERS)}
    known = training_parameters(runner)
    check_parameters("training_params", f"{runner.__name__}.training", known, values, of_constructor)


def _check_training_signature(runner: Any) -> None:
    """Refuse a missing `training`, one that cannot be called with a loop, and one with further positional parameters.

    Raises:
        ConfigError: The run would fail when it begins, or would ignore the parameters.
    """
    if inspect.isabstract(runner):
        missing = ", ".join(sorted(runner.__abstractmethods__))
        raise ConfigError(f"{source_location(runner)}: {runner.__name__} lacks the method {missing}")
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = signature(runner.training).parameters.values()
    names = [parameter.name for parameter in taken if parameter.kind in by_position]
    if len(names) != 2:
        key = f"{source_location(runner.training)}: {runner.__name__}.training"
        why = "are not its parameters by position; training parameters stand after `*`"
        raise ConfigError(bad_value(key, names, "(self, loop, *, length: int = 50)", why))


def refusal_of_type(value: Any, hint: Any) -> str:
    """Return the range in a type hint such as `Annotated[float, Field(gt=0)]` that a value violates; empty if none."""
    if not _is_annotated(hint):
        return ""
    try:
        TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        return first_mistake(error).allowed
    return ""


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers in a value, e.g. in a list such as `[1, "step"]`, in a mapping, or in `"auto_0.1"`."""
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
