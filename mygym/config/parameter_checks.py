"""Check values of a config against the parameters of the class or function that takes them."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from mygym.config.named_components import shown
from mygym.config.plain import is_plain
from mygym.config.ranges import MAX_FLOAT32, TEXTS, is_known, range_of
from mygym.config.schema import RunConfig
from mygym.config.validation_errors import first_mistake
from mygym.errors import ConfigError, bad_value
from mygym.registry.signatures import Parameter, choices, fits, in_words, parameters

RUN_PARAMETERS = frozenset({"env", "seed", "device", "verbose", "tensorboard_log", "_init_setup_model"})
"""Constructor arguments of an algorithm that the run sets."""

NEEDED_PARAMETERS = ("seed", "device", "_init_setup_model")
"""Those of `RUN_PARAMETERS` without which an algorithm is neither reproducible nor can be loaded."""

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
    """Return the message for a parameter that does not exist.

    Args:
        key: Its config key, e.g. `algo_params.lr`.
        known: Names of the parameters that exist.
        owner: Name of the class or function.
        sections: Names by section of the config, for the hint that another section has the parameter.
    """
    name, why = key.rpartition(".")[2], f"is not a parameter of {owner}"
    meant = ALIASES.get(name.lower())
    hint = f"; did you mean {meant!r}?" if meant in known else in_other_section(name, sections or {})
    if hint:
        return bad_value(key, name, ", ".join(sorted(known)) or "nothing", why) + hint
    return bad_value(key, name, sorted(known), why)


def in_other_section(name: str, sections: Mapping[str, Collection[str]]) -> str:
    """Return `; did you mean …?` with the key of a parameter in another section of the config; empty without one.

    Args:
        name: The parameter, or a name of it in another library.
        sections: Further names by section; those of `RunConfig` are known.
    """
    names = (name, ALIASES.get(name.lower(), name))
    known = {"algo_params": HYPERPARAMETERS, **sections}
    keys = [f"{section}.{meant}" for section, inside in known.items() for meant in names if meant in inside]
    keys += [key for meant in names for key in keys_named(meant)]
    return f"; did you mean {'' if '.' in keys[0] else 'the key '}{keys[0]!r}?" if keys else ""


def keys_named(name: str) -> list[str]:
    """Return the keys of configs that end in a name, e.g. `task_params.horizon` for `horizon`."""
    fields = RunConfig.model_fields
    inside = [
        f"{section}.{name}"
        for section, field in fields.items()
        if any(name in inner.model_fields for inner in sections_in(field.annotation))
    ]
    return [name, *inside] if name in fields else inside


def sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections in a type annotation such as `dict[str, Box]` or `list[Distractor] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from sections_in(argument)


def check_value(key: str, value: Any, parameter: Parameter, allowed: str = "") -> None:
    """Refuse a value of the wrong type, or outside the range of the parameter; accept its default.

    Args:
        key: Its config key.
        value: The value in the form of configs.
        parameter: The parameter that takes it.
        allowed: Allowed types in words; by default those of the type hint.

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


def check_values(
    section: str,
    owner: str,
    known: Mapping[str, Parameter],
    values: Mapping[str, Any],
    sections: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Refuse values in a section of the config that `owner` does not accept.

    Args:
        section: Config key of the section.
        owner: Name of the class or function, for messages.
        known: Its parameters by name.
        values: Values by name.
        sections: Names by section of the config, for a hint.

    Raises:
        ConfigError: An unknown parameter, a wrong type, or a number out of its range.
    """
    for name, value in values.items():
        key = f"{section}.{name}"
        if name not in known:
            raise ConfigError(unknown_parameter(key, known, owner, sections))
        check_value(key, value, known[name])


def check_parameters(
    section: str,
    owner: str,
    known: Mapping[str, Parameter],
    values: Mapping[str, Any],
    sections: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Refuse the same values as `check_values`, and values without a required parameter.

    Raises:
        ConfigError: An unknown or missing parameter, a wrong type, or a number out of its range.
    """
    check_values(section, owner, known, values, sections)
    for name, parameter in known.items():
        if parameter.required and name not in values:
            raise ConfigError(bad_value(f"{section}.{name}", None, f"a value, which {owner} needs", "is missing"))


def controller_parameters(kind: type) -> dict[str, Parameter]:
    """Return the parameters of a controller's class that configs set."""
    return parameters(kind, leave_out=ARM_PARAMETERS)


def training_parameters(runner: Any) -> dict[str, Parameter]:
    """Return the training parameters of a `Runner`: the keyword-only parameters of its `training`."""
    signature = inspect.signature(runner.training).parameters
    return {
        name: parameter
        for name, parameter in parameters(runner.training).items()
        if signature[name].kind is inspect.Parameter.KEYWORD_ONLY
    }


def training_defaults(runner: Any) -> dict[str, Any]:
    """Return the defaults in the signature of a `Runner`'s `training`."""
    known = training_parameters(runner)
    return {name: parameter.default for name, parameter in known.items() if is_plain(parameter.default)}


def check_training(runner: Any, values: Mapping[str, Any]) -> None:
    """Refuse `training_params` that `training` of a `Runner` does not accept.

    Raises:
        ConfigError: An unknown or missing training parameter, a wrong type, or a number out of its range.
    """
    of_constructor = {"algo_params": parameters(runner, leave_out=RUN_PARAMETERS)}
    known = training_parameters(runner)
    check_parameters("training_params", f"{runner.__name__}.training", known, values, of_constructor)


def refusal_of_type(value: Any, hint: Any) -> str:
    """Return the range in a type hint such as `Annotated[float, Field(gt=0)]` that a value violates; empty if none."""
    if not any(get_origin(option) is Annotated for option in (hint, *get_args(hint))):
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
