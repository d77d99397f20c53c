"""Compatibility of demonstrations with a run that learns from them."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium

from mygym.config import RunConfig
from mygym.demonstrations.episodes import Demonstrations
from mygym.errors import ConfigError, bad_value
from mygym.planning.plan import Plannable, plan_of
from mygym.tasks.lookup import find_task
from mygym.training import env_factory

MEANING = ("task", "robot", "workspace", "control", "actions", "image_params")
"""Config keys that determine the meaning of observations and actions, even if the spaces are equal."""


def check_compatible(demonstrations: Demonstrations, run: Plannable, *, rewards: bool = True) -> None:
    """Refuse demonstrations of another task, robot, workspace, controller or space, or with other rewards.

    A multi-task run may use demonstrations of some of its tasks. Task parameters, objects and randomization may differ.

    Args:
        demonstrations: Demonstrations to learn from.
        run: The run's plan, or its complete config.
        rewards: Whether the stored rewards are used.

    Raises:
        ConfigError: A key differs; the message has its value in the run and in the demonstrations, and a remedy.
    """
    keys = (*MEANING, "reward") if rewards else MEANING
    plan = plan_of(run)
    run_configs = [variant.config for variant in (*plan.variants, *plan.evaluated_variants)]
    for recorded in (variant.config for variant in plan_of(demonstrations.config).evaluated_variants):
        differences = [
            [key for key in keys if _value(run_config, key) != _value(recorded, key)] for run_config in run_configs
        ]
        nearest = min(range(len(run_configs)), key=lambda index: len(differences[index]))
        if differences[nearest]:
            key = differences[nearest][0]
            why = f"is not the value of the recording {demonstrations.path}"
            allowed = f"{_value(recorded, key)}, or new demonstrations: mygym demos"
            raise ConfigError(bad_value(key, _value(run_configs[nearest], key), allowed, why))
    with contextlib.closing(env_factory.make_env(plan)) as env:
        for name in ("observation_space", "action_space"):
            _check_space(demonstrations, name, getattr(env, name))


def variant_indices(demonstrations: Demonstrations, run: Plannable) -> list[int]:
    """Return for each demonstration the index of the run's variant with the same config, or with a compatible config.

    Args:
        demonstrations: Demonstrations that pass `check_compatible`.
        run: The run's plan, or its complete config; its `variants` are indexed.
    """
    run_configs = [variant.config for variant in plan_of(run).variants]
    indices = {}
    for variant in plan_of(demonstrations.config).evaluated_variants:
        recorded = variant.config
        compatible = [
            index
            for index, run_config in enumerate(run_configs)
            if all(_value(recorded, key) == _value(run_config, key) for key in MEANING)
        ]
        equal = [index for index in compatible if run_configs[index] == recorded]
        indices[variant.label] = (equal or compatible)[-1]  # the last variant of a curriculum is the run's config
    first = next(iter(indices))
    return [indices[demonstration.task or first] for demonstration in demonstrations.episodes]


def _check_space(demonstrations: Demonstrations, name: str, space: gymnasium.Space[Any]) -> None:
    recorded = getattr(demonstrations, name)
    if space == recorded:
        return
    why = f"is not the space of {demonstrations.path}, {_shape(recorded)}"
    keys = "observations, spaces and randomize" if name == "observation_space" else "spaces"
    values = {key: demonstrations.values.get(key) for key in ("observations", "spaces")}
    allowed = f"{keys} of the recording ({values}), or new demonstrations: mygym demos"
    raise ConfigError(bad_value(name, _shape(space), allowed, why))


def _value(config: RunConfig, key: str) -> Any:
    return find_task(config.task).name if key == "task" else config.model_dump(include={key})[key]


def _shape(space: gymnasium.Space[Any]) -> Any:
    """Return the shape of a space for a message; for a dictionary, the shape of each subspace."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: subspace.shape for key, subspace in space.spaces.items()}
    return space.shape
