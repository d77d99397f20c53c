"""What a run's environments play: the run's own config, or several of them, as its strategy says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import Layer, RunConfig, merged, resolve
from mygym.errors import ConfigError, bad_value
from mygym.runs.strategies import strategies_of
from mygym.tasks.components import stage_columns
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task

PLAYED = ("task", "task_params", "robot", "workspace", "reward", "randomize")
"""Keys of a config in which one that is played may differ from the run's: those that keep the spaces, or may."""


@dataclass(frozen=True)
class Variant:
    """One config that is played."""

    config: RunConfig
    label: str
    """What to call it."""


def codes(config: RunConfig, played: Sequence[Variant]) -> NDArray[np.float32] | None:
    """`(variants, d)`: what observations have appended of the variant that is played; None: nothing tells.

    As the strategy says, by a one-hot vector, or by the task's stages: of each built-in stage, and of all others
    together, its place in the task, from 1 for the first towards 0, which is for those that are not in it. So tasks of
    equal stages look alike, and one that was never trained is near those that were.
    """
    ways = {one.identify for one in strategies_of(config)} - {"none"}
    if not ways:
        return None
    if ways == {"one_hot"}:
        return np.eye(len(played), dtype=np.float32)
    return np.array([_stages_of(find_task(one.config.task)) for one in played], dtype=np.float32)


def _stages_of(task: Task) -> list[float]:
    names, columns = task.stage_names, stage_columns()
    known = [name if name in columns else "" for name in names]
    return [1.0 - known.index(name) / len(known) if name in known else 0.0 for name in (*columns, "")]


def variants(config: RunConfig) -> list[Variant]:
    """What the training environments play."""
    return _laid_over(config, _deciding(config).variants(config))


def judged(config: RunConfig) -> list[Variant]:
    """What evaluations and films play."""
    return _laid_over(config, _deciding(config).judged(config))


def _deciding(config: RunConfig) -> Any:
    """The strategy that says what is played; of joined ones there is no more than one.

    Raises:
        ConfigError: Two of them do.
    """
    strategies = strategies_of(config)
    several = [one for one in strategies if len(one.variants(config)) > 1] or strategies
    if len(several) > 1 and several is not strategies:
        names = " and ".join(one.name for one in several)
        raise ConfigError(
            bad_value("strategy", config.strategy, "one of the two", f"joins {names}, which both say what is played")
        )
    return several[0]


def _laid_over(config: RunConfig, parts: Sequence[Mapping[str, Any]]) -> list[Variant]:
    found = [_variant(config, part) for part in parts]
    several = len({one.robot for one in found}) > 1
    labels: list[str] = []
    for one in found:
        label = _label(one, several)
        same = sum(other.partition(" #")[0] == label for other in labels)
        labels.append(f"{label} #{same + 1}" if same else label)
    return [Variant(one, label) for one, label in zip(found, labels, strict=True)]


def _label(config: RunConfig, with_robot: bool) -> str:
    task = find_task(config.task).name
    return f"{task} on {config.robot}" if with_robot else task


def _variant(config: RunConfig, part: Mapping[str, Any]) -> RunConfig:
    """`config` with `part` laid over it; one that names another task has that task's own workspace and numbers.

    Raises:
        ConfigError: A key or value that no environment takes.
    """
    if not part:
        return config
    for key in part:
        if key not in PLAYED:
            raise ConfigError(
                bad_value(f"strategy {config.strategy}", key, PLAYED, "is not what environments differ in")
            )
    values = config.model_dump(mode="json")
    task = part.get("task", config.task)
    if task != config.task:
        values["task_params"] = {}
        at_home = config.workspace in (None, find_task(config.task).workspace)
        if isinstance(task, str) and at_home:  # a composition has no workspace of its own
            values["workspace"] = find_task(task).workspace
    return resolve([Layer(f"strategy {config.strategy}", merged(values, part))]).config
