"""Forward protocols of super-networks, and routing: the stage or the task in an observation selects the candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from mygym.errors import ConfigError, bad_value
from mygym.tasks.components import STAGE_COLUMNS, stage_column
from mygym.tasks.lookup import find_task

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

    from mygym.config import RunConfig
    from mygym.planning.plan import RunPlan


Protocol = Literal["single", "sum", "softmax", "gumbel_softmax"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
Units = Literal["whole", "blocks"]

SUM_TOLERANCE = 1e-4
"""Maximum difference of a sum of weights from 1."""


def check_candidates(key: str, candidates: int | list[Any] | None, units: Units) -> int | None:
    """Check a number of candidates, or a list of their `net_arch`; return their number.

    Raises:
        ConfigError: Fewer than one candidate, an invalid `net_arch`, or different sizes with units `blocks`.
    """
    archs = candidates if isinstance(candidates, list) else []
    count = len(candidates) if isinstance(candidates, list) else candidates
    if count is not None and count < 1:
        raise ConfigError(bad_value(key, candidates, "1 or more"))
    for number, arch in enumerate(archs):
        if not _is_arch(arch):
            allowed = "sizes of its hidden layers, each 1 or more, e.g. [64, 64]; or a mapping {pi: …, qf: …}"
            raise ConfigError(bad_value(f"{key}.{number}", arch, allowed))
    if archs and units == "blocks":
        why = "sets a size for each candidate, but layers that are chosen one by one must have equal sizes"
        raise ConfigError(bad_value(key, candidates, "a number, or units whole", why))
    return count


def _is_arch(arch: Any) -> bool:
    """Return whether `arch` is a `net_arch` that SB3 can build."""
    if isinstance(arch, Mapping):
        return all(isinstance(sizes, list) and _is_arch(sizes) for sizes in arch.values())
    return isinstance(arch, list) and all(type(size) is int and size > 0 for size in arch)


def check_weights(key: str, weights: ArrayLike, candidates: int) -> NDArray[np.float32]:
    """Check the weights of protocol `sum` and return them as an array `(candidates,)` or `(layers, candidates)`.

    Raises:
        ConfigError: A wrong number of weights, a weight below 0 or not finite, or a sum other than 1.
    """
    values = np.asarray(weights, dtype=np.float32)
    if values.ndim == 0 or values.shape[-1] != candidates:
        raise ConfigError(bad_value(key, weights, f"{candidates} numbers, one for each candidate"))
    if not np.isfinite(values).all() or (values < 0).any():
        raise ConfigError(bad_value(key, weights, "numbers of 0 or more"))
    if (np.abs(values.sum(-1) - 1.0) > SUM_TOLERANCE).any():
        raise ConfigError(bad_value(key, weights, "numbers whose sum is 1", "do not sum to 1"))
    return values


def usage_entropy(usage: NDArray[np.floating]) -> float:
    """Return the normalised entropy of usage shares `(…, candidates)`, averaged over layers.

    1: all candidates are used equally. 0: one candidate does everything.
    """
    count = usage.shape[-1]
    if count == 1:
        return 1.0
    positive = np.where(usage > 0, usage, 1.0)
    return float(np.mean(-(positive * np.log(positive)).sum(-1) / np.log(count)))


@dataclass(frozen=True)
class ByObservation:
    """One-hot component of the observation that selects the candidate."""

    key: str | None
    """Key in a dictionary observation; None: the observation is flat."""
    start: int
    stop: int
    candidates: tuple[int, ...]
    """Candidate for each index of the component, plus an entry for a component of zeros if that can occur."""


@dataclass(frozen=True)
class Layout:
    """Super-network in place of each network of a policy."""

    archs: tuple[Any, ...]
    """`net_arch` of each candidate; None: the policy's."""
    units: Units
    by: ByObservation | None = None
    """Routing of rows; None: by the `route` in observations, or by the path."""


def by_observation(plan: RunPlan, env: VecEnv, by: str, key: str) -> tuple[int, ByObservation | None]:
    """Return the number of candidates by `stage` or `task`, and the observation component that selects them.

    A completed task counts as its last stage. With shared spaces a candidate belongs to a stage name in any task.

    Returns:
        The number of candidates, and None if it is 1.

    Raises:
        ConfigError: The observations lack the component.
    """
    (components,) = env.get_attr("components", indices=[0])
    config = plan.config
    stage_names = find_task(config.task).stage_names
    if by == "task":
        one_hot = all(strategy.identify in ("none", "one_hot") for strategy in plan.strategies)
        name, candidates = "variant" if one_hot else "", list(range(len(plan.variants)))
    elif "stage" in components:
        name, candidates = "stage", [*range(len(stage_names)), len(stage_names) - 1]
    else:
        name, candidates = "stage_name", _candidates_by_stage_name(plan)
    count = max(candidates) + 1
    if count == 1:
        return 1, None
    if name not in components:
        raise ConfigError(bad_value(key, by, _remedies(config)[by], "is not in the observation"))
    position = _position(env.observation_space, components[name], at_end=name == "variant")
    return count, ByObservation(*position, tuple(candidates))


def _candidates_by_stage_name(plan: RunPlan) -> list[int]:
    """Return the candidate for each index of `stage_name`, and for zeros; unused stages use the last candidate."""
    names = [name for variant in plan.variants for name in find_task(variant.config.task).stage_names]
    used = list(dict.fromkeys(map(stage_column, names)))
    return [used.index(column) if column in used else len(used) - 1 for column in range(len(STAGE_COLUMNS) + 2)]


def _remedies(config: RunConfig) -> Mapping[str, str]:
    names = ["stage", *(config.observations or ["…"])]
    return {
        "stage": f"sampler; or observations with stage, such as [{', '.join(names)}]",
        "task": "stage or sampler; or several tasks with a code in the observation: strategy multitask, "
        "identify: one_hot",
    }


def _position(space: spaces.Space[Any], component: slice, at_end: bool) -> tuple[str | None, int, int]:
    """Return key, start and stop of a component; `at_end`: it comes last, in flat observations after the goals."""
    if isinstance(space, spaces.Dict):
        return "observation", component.start, component.stop
    assert space.shape is not None
    shift = space.shape[0] - component.stop if at_end else 0
    return None, component.start + shift, component.stop + shift
