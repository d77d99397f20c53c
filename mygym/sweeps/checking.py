"""Check of the whole space before the first trial: configs are built by the schema, as for a run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mygym.config import Resolved
from mygym.errors import ConfigError
from mygym.runs.planning.resolve_config import resolve_config
from mygym.sweeps.settings import Sweep
from mygym.sweeps.space import with_values

MAX_COMBINATIONS = 64
"""Maximum number of combinations that are all built; of a larger space every corner of each parameter, and a sample."""


@dataclass(frozen=True)
class Extent:
    """Largest runs of a space."""

    evaluations: int
    """Evaluations of the longest run."""
    largest: Resolved
    """The config with the largest buffer and the most environments."""


def check_space(sweep: Sweep) -> Extent:
    """Build the configs of a space; return the largest of their runs.

    Of lists all values are built, of ranges both ends and the middle. With more than `MAX_COMBINATIONS` combinations of
    them, each value is built at least once, beside values of the other parameters that change with it.

    Raises:
        ConfigError: The schema refuses a config; the message has the values of the parameters.
    """
    evaluations, largest = 0, None
    for values in _combinations(sweep):
        config = with_values(
            sweep.base, {each.path: value for each, value in zip(sweep.parameters, values, strict=True)}
        )
        try:
            resolved = resolve_config(config)
        except ConfigError as error:
            shown = ", ".join(f"{each.key}={value}" for each, value in zip(sweep.parameters, values, strict=True))
            raise ConfigError(f"{error} (in the trial {shown})") from error
        evaluations = max(evaluations, -(-resolved.config.steps // resolved.config.eval.every))
        if largest is None or _size(resolved) > _size(largest):
            largest = resolved
    assert largest is not None
    return Extent(evaluations, largest)


def _size(resolved: Resolved) -> tuple[int, int]:
    """Return the rows of the replay buffer of a run, and its number of environments."""
    rows = resolved.config.algo_params.get("buffer_size")
    return rows if isinstance(rows, int) else 0, resolved.config.n_envs


def _combinations(sweep: Sweep) -> Iterator[tuple[Any, ...]]:
    corners = [parameter.corners for parameter in sweep.parameters]
    if math.prod(map(len, corners)) <= MAX_COMBINATIONS:
        yield from itertools.product(*corners)
        return
    rounds = max(map(len, corners))
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(values)) for values in corners]
    for index in range(max(rounds, MAX_COMBINATIONS)):
        if index % rounds == 0:  # all values of all parameters, in another order
            orders = [rng.permutation(len(values)) for values in corners]
        yield tuple(values[order[index % len(values)]] for values, order in zip(corners, orders, strict=True))
