"""Task variants of a run: its config, or several configs that its strategy derives from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import Layer, RunConfig, merged, resolve
from mygym.errors import ConfigError, bad_value
from mygym.tasks.components import STAGE_COLUMNS, stage_column
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task

VARIANT_KEYS = ("task", "task_params", "robot", "workspace", "reward", "randomize")
"""Config keys that a variant may change: keys that do not change the spaces, or need not change them."""


@dataclass(frozen=True)
class Variant:
    """A task variant: a config for environments of a run."""

    config: RunConfig
    label: str
    """Display name, unique within the run."""


def make_variants(config: RunConfig, strategies: Sequence[Any]) -> tuple[tuple[Variant, ...], tuple[Variant, ...]]:
    """Return the variants of training, and the variants of evaluations and videos.

    Args:
        config: The run's config.
        strategies: The run's strategies.

    Raises:
        ConfigError: Two strategies choose variants, or a variant has a key or value that environments do not accept.
    """
    strategy = _choosing_strategy(config, strategies)
    trained, evaluated = strategy.variants(config), strategy.evaluation_variants(config)
    variants = _with_labels(config, trained)
    return variants, variants if evaluated == trained else _with_labels(config, evaluated)


def variant_codes(strategies: Sequence[Any], variants: Sequence[Variant]) -> NDArray[np.float32] | None:
    """Return the codes to append to the observations of the variants, `(variants, d)`; None: no codes.

    The strategy's `identify` decides. `one_hot`: a one-hot vector. `stages`: the columns of the component `stage_name`,
    with the stage's position in the task: from 1 for the first to 0 for stages that are absent. Tasks with the same
    stages therefore have similar codes, and an untrained task is near trained tasks.
    """
    codes = {strategy.identify for strategy in strategies} - {"none"}
    if not codes:
        return None
    if codes == {"one_hot"}:
        return np.eye(len(variants), dtype=np.float32)
    return np.array([_stage_code(find_task(variant.config.task)) for variant in variants], dtype=np.float32)


def _stage_code(task: Task) -> list[float]:
    columns = [stage_column(name) for name in task.stage_names]
    return [
        1.0 - columns.index(column) / len(columns) if column in columns else 0.0
        for column in range(len(STAGE_COLUMNS) + 1)
    ]


def _choosing_strategy(config: RunConfig, strategies: Sequence[Any]) -> Any:
    """Return the strategy that chooses the variants; at most one of joined strategies may have several variants.

    Raises:
        ConfigError: Two strategies have several variants.
    """
    choosing = [strategy for strategy in strategies if len(strategy.variants(config)) > 1]
    if len(choosing) > 1:
        names = " and ".join(strategy.name for strategy in choosing)
        why = f"joins {names}, which both choose the task variants"
        raise ConfigError(bad_value("strategy", config.strategy, "one of the two", why))
    return choosing[0] if choosing else strategies[0]


def _with_labels(config: RunConfig, overrides: Sequence[Mapping[str, Any]]) -> tuple[Variant, ...]:
    configs = [_variant_config(config, override) for override in overrides]
    several_robots = len({variant.robot for variant in configs}) > 1
    labels: list[str] = []
    for variant in configs:
        label = _label(variant, several_robots)
        same = sum(other.partition(" #")[0] == label for other in labels)
        labels.append(f"{label} #{same + 1}" if same else label)
    return tuple(Variant(variant, label) for variant, label in zip(configs, labels, strict=True))


def _label(config: RunConfig, with_robot: bool) -> str:
    task = find_task(config.task).name
    return f"{task} on {config.robot}" if with_robot else task


def _variant_config(config: RunConfig, override: Mapping[str, Any]) -> RunConfig:
    """Return `config` overlaid by `override`; a different task replaces the workspace and the task parameters.

    Raises:
        ConfigError: Environments do not accept a key or value.
    """
    if not override:
        return config
    for key in override:
        if key not in VARIANT_KEYS:
            raise ConfigError(
                bad_value(f"strategy {config.strategy}", key, VARIANT_KEYS, "is not a key that variants may change")
            )
    values = config.model_dump(mode="json")
    task = override.get("task", config.task)
    if task != config.task:
        values["task_params"] = {}
        default_workspace = config.workspace in (None, find_task(config.task).workspace)
        if isinstance(task, str) and default_workspace:  # a composition names no workspace
            values["workspace"] = find_task(task).workspace
    return resolve([Layer(f"strategy {config.strategy}", merged(values, override))]).config
