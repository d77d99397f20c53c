"""Batches of states, for checks that functions of batches are pure and treat each state alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.suite import demand
from mygym.tasks.episode import EpisodeContext


@dataclass(frozen=True)
class Episode:
    """States of an expert's episode."""

    contexts: tuple[EpisodeContext, ...]
    """One context for each control step, the reset included; the arrays are copies with a batch axis of 1."""
    stages: tuple[int, ...]
    """Index of the active stage in each context."""

    @property
    def batch(self) -> EpisodeContext:
        """All contexts as a batch."""
        return joined(self.contexts)


def expert_episode(config: Mapping[str, Any], seed: int = 0) -> Episode:
    """Return the states of an episode in which the scripted expert acts."""
    contexts, stages = [], []
    with api.make_env(config) as env:
        env.reset(seed=seed)
        ended = False
        while not ended:
            contexts.append(copied(EpisodeContext(env.task, env.progress, env.world.state, env.goals)))
            stages.append(int(env.progress.stage[0]))
            _, _, terminated, truncated, _ = env.step(env.expert_action())
            ended = terminated or truncated
    return Episode(tuple(contexts), tuple(stages))


def copied(context: EpisodeContext) -> EpisodeContext:
    """Return a context with copies of all arrays."""
    return joined([context])


def joined(contexts: Sequence[EpisodeContext]) -> EpisodeContext:
    """Return contexts of the same task as a batch, with copies of all arrays."""
    return EpisodeContext(
        contexts[0].task,
        concatenated([context.progress for context in contexts]),
        concatenated([context.state for context in contexts]),
        np.concatenate([context.goals for context in contexts]),
    )


def concatenated(batches: Sequence[Any]) -> Any:
    """Concatenate dataclasses of arrays along the batch axis; the arrays are copies."""
    names = [field.name for field in fields(batches[0])]
    return type(batches[0])(**{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in names})


def arrays_of(batch: Any) -> list[Any]:
    """Return all arrays of a dataclass of arrays."""
    return [getattr(batch, field.name) for field in fields(batch)]


def demand_pure(
    name: str,
    function: Callable[[Any], Any],
    batch: Any,
    singles: Sequence[Any],
    arrays: Sequence[Any],
    exact: bool = False,
) -> Any:
    """Demand that a function of a batch is finite, changes no argument, and equals the function of each single state.

    Args:
        name: Name of the function, for messages.
        function: Function of a batch of `N` states that returns `(N, …)`.
        batch: The batch.
        singles: The states of the batch, each as a batch of 1.
        arrays: All arrays of the batch.
        exact: Whether results must be equal to the bit, e.g. because they are bool.

    Returns:
        The result for the batch.
    """
    before = [np.copy(array) for array in arrays]
    result = np.asarray(function(batch))
    demand(all(map(np.array_equal, before, arrays)), f"{name} changes the arrays that it gets")
    shape = result.shape[:1]
    demand(shape == (len(singles),), f"{name} has shape {result.shape} for a batch of {len(singles)}")
    demand(np.isfinite(result).all(), f"{name} is not finite")
    for index, single in enumerate(singles):
        alone = np.asarray(function(single))[0]
        same = np.array_equal(alone, result[index]) if exact else np.allclose(alone, result[index], atol=1e-9)
        demand(same, f"{name} gives other values for a batch than for its states alone")
    return result
