"""Checks of the hyperparameters and training parameters of a config."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mygym.config import Layer, RunConfig, merged
from mygym.config.hyperparameters import Schema
from mygym.config.parameter_checks import RUN_PARAMETERS, check_training, in_other_section, training_defaults
from mygym.config.schedulable import schedules
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import Algorithm
from mygym.registry.signatures import parameters


@contextlib.contextmanager
def errors_name_file() -> Iterator[None]:
    """Add to a message that the value is in the config file: a flag may hide it.

    Raises:
        ConfigError: Raised by a check of the file's values.
    """
    try:
        yield
    except (ConfigError, RegistryError) as error:
        raise ConfigError(f"{error} (in the config file)") from error


def check_hyperparameters(schema: Schema, layers: Sequence[Layer], asked: RunConfig, chosen: RunConfig) -> None:
    """Check the hyperparameters of the file alone, because overrides may hide an invalid value; then check all.

    Raises:
        ConfigError: An unknown hyperparameter, a wrong type, or a value out of range.
    """
    *below, overrides = (layer.values.get("algo_params", {}) for layer in layers)
    if in_file := below[-1] if overrides else {}:
        params: dict[str, Any] = {}
        for values in below:
            params = merged(params, values)
        with errors_name_file():
            schema.check({key: params[key] for key in in_file})
    schema.check({key: chosen.algo_params[key] for key in asked.algo_params})
    schedules(schema.cls, chosen.algo_params, chosen.steps)
    _check_train_freq(chosen)


def registered_training_params(
    cls: type, entry: Algorithm, asked: RunConfig, file: Layer
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return `training_params` of a `Runner`'s class and of its registration; empty for other algorithms.

    Raises:
        ConfigError: An algorithm that is not a `Runner` gets values, or its `training` does not accept the values.
    """
    from mygym.runs.runner import Runner

    values = {**entry.training_defaults, **asked.training_params}
    if not issubclass(cls, Runner):
        if values:
            name = next(iter(values))
            allowed = "an algo that is a Runner; for all others: steps, n_envs, eval and algo_params"
            why = f"is not for {entry.name}, which has no custom training loop"
            hint = in_other_section(name, {"algo_params": parameters(cls, leave_out=RUN_PARAMETERS)})
            raise ConfigError(bad_value(f"training_params.{name}", values[name], allowed, why) + hint)
        return {}, {}
    check_training(cls, values)
    if in_file := file.values.get("training_params"):
        with errors_name_file():
            check_training(cls, {**values, **in_file})
    defaults = (training_defaults(cls), entry.training_defaults)
    of_class, of_entry = ({"training_params": values} if values else {} for values in defaults)
    return of_class, of_entry


def _check_train_freq(config: RunConfig) -> None:
    """Refuse `[…, episode]` with several environments, which SB3 does not support and reports too late.

    Raises:
        ConfigError: The config asks for both.
    """
    train_freq = config.algo_params.get("train_freq")
    if isinstance(train_freq, list | tuple) and "episode" in train_freq and config.n_envs > 1:
        why = f"counts episodes, which needs one environment, not {config.n_envs}"
        raise ConfigError(bad_value("algo_params.train_freq", train_freq, "n_envs 1, or steps, e.g. [1, step]", why))
