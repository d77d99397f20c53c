"""Resolve the user's values and the registries to the complete config of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mygym.config import Layer, Resolved, RunConfig, merged, refuse_defaults, resolve
from mygym.config.hyperparameters import Schema
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.models.controllers import find_controller
from mygym.registry import Algorithm, algorithm, registry, user_files
from mygym.runs.callbacks import check_callbacks
from mygym.runs.planning.component_names import check_names
from mygym.runs.planning.config_layers import (
    STRATEGY_KEYS,
    algorithm_layer,
    engine_layer,
    recommended_layer,
    split_inherited,
    stage_layers,
    strategy_defaults,
    strategy_of_algorithm,
    strategy_run_defaults,
    task_layer,
)
from mygym.runs.planning.derived import absolute, changed, derived_values, uses_her
from mygym.runs.planning.engines import check_engine
from mygym.runs.planning.hyperparameter_checks import (
    check_hyperparameters,
    errors_name_file,
    registered_training_params,
)
from mygym.runs.planning.image_checks import check_critic, check_images
from mygym.runs.planning.python_values import python_values
from mygym.runs.planning.requirements import REQUIREMENTS
from mygym.runs.planning.strategies import (
    ConstructedStrategies,
    errors_name_section,
    join_params,
    without_aliases,
)
from mygym.runs.planning.training_worker_checks import check_overlap, check_workers
from mygym.runs.planning.variants import make_variants
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import find_component
from mygym.tasks.rewards import find_reward
from mygym.tasks.task import Task
from mygym.tasks.task_objects import named_objects
from mygym.tasks.task_params import change_task


class _Decided(NamedTuple):
    """Values that are decided before the hyperparameters."""

    asked: RunConfig
    """Config of the user's values, which override the schema and the strategies' preferences."""
    task: Task
    entry: Algorithm
    of_entry: Mapping[str, Any]
    """Values of the algorithm's registration, without hyperparameters."""
    strategy_class: Layer
    """Defaults of the strategies' parameters."""
    of_stages: Sequence[Layer]
    """Preferences of the algorithm for tasks of several stages, and for this task."""
    of_engine: Layer
    """Preferences of the algorithm for the fused engine."""
    preferred: Sequence[Layer]
    """The recommended algorithm, and preferences of the task and of the strategies."""
    user: Sequence[Layer]


def resolve_config(
    file: Mapping[str, Any] | None = None, overrides: Mapping[str, Any] | None = None, origin: str = "flag"
) -> Resolved:
    """Decide every value: schema < algorithm < task < file < flag.

    Args:
        file: Content of a config file.
        overrides: Flags, or the arguments of a call.
        origin: Name of `overrides` in messages and in `--explain`.

    Raises:
        ConfigError: An invalid key, type, value or combination, in any layer.
    """
    return resolve_with_strategies(file, overrides, origin)[0]


def resolve_with_strategies(
    file: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    origin: str = "flag",
    file_origin: str = "file",
) -> tuple[Resolved, list[Any]]:
    """Decide every value as `resolve_config` does; also return the strategies of the result.

    Raises:
        ConfigError: An invalid key, type, value or combination, in any layer.
    """
    user = without_aliases([Layer(file_origin, file or {}), Layer(origin, overrides or {})])
    asked = _check_user_layers(user)  # the user's mistakes come before anything that is derived from them
    _check_imports(asked)
    recommended = recommended_layer(asked)
    asked = resolve([recommended, *user]).config if recommended.values else asked
    try:
        if user[0].values and user[1].values:
            with errors_name_file():
                check_names(resolve(user[:1]).config)  # a flag may hide an unknown name
        check_callbacks(asked.callbacks)
        required = strategy_of_algorithm(asked)
        asked = resolve([recommended, required, *user]).config if required.values else asked
        strategy_class = strategy_defaults(asked, user)
        defaults = strategy_class.values.get("strategy_params", {})
        strategies = ConstructedStrategies(asked, merged(defaults, asked.strategy_params))
        preferred = strategy_run_defaults(asked, strategies.strategies)
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    asked = resolve([recommended, required, preferred, *user]).config if preferred.values else asked
    task = find_task(asked.task)
    workspace, entry = _find_names(asked, task)
    of_entry = {key: value for key, value in entry.run_defaults.items() if key not in STRATEGY_KEYS}
    of_entry |= required.values
    of_stages, of_engine = stage_layers(asked, task, entry), engine_layer(asked, entry, task)
    preferences = [recommended, task_layer(task, entry, of_engine), preferred]
    decided = _Decided(asked, task, entry, of_entry, strategy_class, of_stages, of_engine, preferences, user)
    of_algorithm = [algorithm_layer(entry, of_entry), *of_stages, of_engine]
    draft = resolve([strategy_class, *of_algorithm, *preferences, *user]).config
    variants = make_variants(draft, strategies.of(draft))[0]
    her = uses_her(draft, task, entry, variants)
    layers, schema = _all_layers(decided, her)
    chosen = resolve(layers)
    check_hyperparameters(schema, layers, asked, chosen.config)
    derived = derived_values(asked, chosen.config, variants, her, schema)
    control = find_controller(chosen.config.control).config.model_dump()
    derived |= {"workspace": absolute(workspace), "control": control, "her": her}
    if params := _complete_params(strategies.of(chosen.config)):
        derived["strategy_params"] = params
    changes = changed(derived, chosen.values())
    if "name" in changes.get("control", ()):  # a name replaces all parameters
        changes["control"] = control
    resolved = resolve([*layers, Layer("derived", changes)]) if changes else chosen
    if resolved.config.strict:
        refuse_defaults(resolved)
    check_engine(resolved.config, variants)
    check_workers(resolved.config, schema.cls)
    check_overlap(resolved.config, schema.cls)
    check_images(resolved.config, entry, schema)
    check_critic(resolved.config, entry, schema)
    return resolved, strategies.of(resolved.config)


def from_python(config: RunConfig | Mapping[str, Any]) -> Resolved:
    """Resolve a config given from Python, which may be incomplete, e.g. `{"algo": "ppo"}`."""
    return resolve_config(overrides=python_values(config), origin="argument")


# The user's layers ----------------------------------------------------------------------------------------------------


def _check_user_layers(user: Sequence[Layer]) -> RunConfig:
    """Validate the file alone, because a flag may hide an invalid value; then the file with the overrides.

    Raises:
        ConfigError: An invalid key, type or value.
    """
    file, overrides = user
    if file.values and overrides.values:
        resolve([file])
    return resolve(user).config


def _check_imports(asked: RunConfig) -> None:
    """Refuse modules that only the file lists, because importing runs code, which needs the user's consent.

    Raises:
        ConfigError: A module has not been imported.
    """
    for module in asked.imports:
        if not user_files.is_imported(module):
            why = "would run code, and a file alone cannot have it imported"
            raise ConfigError(bad_value("imports", module, f"also the flag --import {module}", why))


# Names and parameters -----------------------------------------------------------------------------------------


def _complete_params(strategies: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters that the user has not set, with values decided by the strategies.

    Raises:
        ConfigError: A strategy does not fit the config.
    """
    params: dict[str, Any] = {}
    for strategy in strategies:
        with errors_name_section(strategy.section):
            params[strategy.name] = strategy.complete_params()
    return join_params(params)


def _find_names(asked: RunConfig, task: Task) -> tuple[str, Algorithm]:
    """Return the registered name of the workspace, and the algorithm; check every other name.

    Raises:
        ConfigError: A name is unknown, or the algorithm cannot be trained.
    """
    try:
        workspace = registry("workspace").get(asked.workspace or task.workspace, "workspace").name
        find_controller(asked.control)
        registry("robot").get(asked.robot)
        find_reward(asked.reward)
        for name in asked.observations or ():
            find_component(name)
        params = asked.task_params.model_dump(exclude_none=True, exclude={"areas"})
        unused = [("task_params.object", (params["object"],))] if "object" in params and not task.has_object else []
        for key, names in named_objects(change_task(task, params), params) + unused:
            for name in names:
                registry("object").get(name, key)
        entry = algorithm(asked.algo, asked.framework)
        _check_algorithm(entry)
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    return workspace, entry


def _check_algorithm(entry: Algorithm) -> None:
    """Refuse a registration that cannot be trained with any config.

    Raises:
        ConfigError: It is not an SB3 algorithm, or its registration is wrong; the message has file and line.
    """
    from stable_baselines3.common.base_class import BaseAlgorithm

    cls = entry.combo()[0]
    if not (isinstance(cls, type) and issubclass(cls, BaseAlgorithm)):
        why = f"is not an algorithm: {getattr(cls, '__qualname__', cls)} ({entry.origin}) cannot be trained"
        raise ConfigError(
            bad_value("algo", entry.name, "a subclass of a Stable-Baselines3 algorithm or of Runner", why)
        )
    for name in entry.requires:
        if name not in REQUIREMENTS:
            why = f"is required by {entry.name} ({entry.origin}), and is not a known requirement"
            raise ConfigError(bad_value("requires", name, REQUIREMENTS, why))
    Schema(entry, {}).check_registration()


# Hyperparameters ------------------------------------------------------------------------------------------------------


def _all_layers(decided: _Decided, her: bool) -> tuple[list[Layer], Schema]:
    """Return all layers, including the hyperparameters of the class and of the registration, and their schema.

    Raises:
        ConfigError: A required hyperparameter is missing, or `training_params` are wrong.
    """
    asked, entry = decided.asked, decided.entry
    schema = Schema(entry, asked.algo_params, her)
    schema.check_required()
    class_training, entry_training = registered_training_params(schema.cls, entry, asked, decided.user[0])
    of_entry = {**decided.of_entry, "algo_params": schema.registered(), **entry_training}
    layers = [
        Layer(f"class {schema.cls.__name__}", {"algo_params": schema.defaults(), **class_training}),
        decided.strategy_class,
        *split_inherited(algorithm_layer(entry, of_entry), entry),
        *(_accepted(layer, schema) for layer in decided.of_stages),
        _accepted(decided.of_engine, schema),
        *decided.preferred,
        *decided.user,
    ]
    return layers, schema


def _accepted(layer: Layer, schema: Schema) -> Layer:
    """Return a layer without the hyperparameters that the chosen policy or optimiser does not take."""
    params = layer.values.get("algo_params", {})
    return Layer(layer.origin, {**layer.values, "algo_params": schema.accepted(params)} if params else layer.values)
