"""Which expert an observation is for, where observations tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from mygym.errors import ConfigError, bad_value
from mygym.runs.strategies import strategies_of
from mygym.runs.variants import variants
from mygym.strategies.protocols import Units
from mygym.tasks.components import stage_columns
from mygym.tasks.lookup import find_task

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

    from mygym.config import RunConfig


@dataclass(frozen=True)
class ByObservation:
    """Which expert an observation is for: that of the one-hot component in it."""

    key: str | None
    """The part of a dictionary; None: the observation is flat."""
    start: int
    stop: int
    experts: tuple[int, ...]
    """The expert for each number of the component, and one more where it may be that none is hot."""


@dataclass(frozen=True)
class Layout:
    """What there is in place of each network."""

    archs: tuple[Any, ...]
    """`net_arch` of each candidate; None: the policy's own."""
    units: Units
    by: ByObservation | None = None
    """What routes rows; None: whoever sets `route` of observations, or the path."""


def by_observation(config: RunConfig, env: VecEnv, by: str, key: str) -> tuple[int, ByObservation | None]:
    """How many experts there are by `stage` or `task`, and where the observations of `env` tell which is active.

    All done counts as the last stage. With shared spaces an expert is for a stage by its name, in whatever task; `key`
    is what the user calls `by`.

    Returns:
        Their number, and None where it is 1.

    Raises:
        ConfigError: The observations do not tell.
    """
    (components,) = env.get_attr("components", indices=[0])
    own_stages = find_task(config.task).stage_names
    if by == "task":
        told = all(one.identify in ("none", "one_hot") for one in strategies_of(config))
        name, experts = "variant" if told else "", list(range(len(variants(config))))
    elif "stage" in components:
        name, experts = "stage", [*range(len(own_stages)), len(own_stages) - 1]
    else:
        name, experts = "stage_name", _experts_by_name(config)
    count = max(experts) + 1
    if count == 1:
        return 1, None
    if name not in components:
        raise ConfigError(bad_value(key, by, _remedies(config)[by], "is not in the observation"))
    place = _place(env.observation_space, components[name], at_end=name == "variant")
    return count, ByObservation(*place, tuple(experts))


def _experts_by_name(config: RunConfig) -> list[int]:
    """The expert for each number of `stage_name`, and for none; those of stages that no task has go with the last."""
    columns = stage_columns()
    played = [name for one in variants(config) for name in find_task(one.config.task).stage_names]
    used = list(dict.fromkeys(columns.index(name) if name in columns else len(columns) for name in played))
    return [used.index(column) if column in used else len(used) - 1 for column in range(len(columns) + 2)]


def _remedies(config: RunConfig) -> Mapping[str, str]:
    names = ["stage", *(config.observations or ["…"])]
    return {
        "stage": f"sampler; or observations with stage, such as [{', '.join(names)}]",
        "task": "stage or sampler; or several tasks that are told apart: strategy multitask, identify: one_hot",
    }


def _place(space: spaces.Space[Any], found: slice, at_end: bool) -> tuple[str | None, int, int]:
    """Part, start and stop of a component; `at_end`: it comes last, after the goals of flat observations too."""
    if isinstance(space, spaces.Dict):
        return "observation", found.start, found.stop
    assert space.shape is not None
    shift = space.shape[0] - found.stop if at_end else 0
    return None, found.start + shift, found.stop + shift
