"""What a demonstration is: an episode, or a stretch of one, that can be played again to the bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.config import RunConfig
from mygym.runs.evaluation import DEMONSTRATION
from mygym.runs.resolve_config import resolve_config

Observations = dict[str, NDArray[np.float32]] | NDArray[np.float32]
"""With a leading axis of time; a goal dictionary, or flat."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """An episode of `T` steps, or a stretch of that many; `A` numbers are an action."""

    seed: int
    """Of the reset. With the actions it is the episode, to the bit."""
    observations: Observations
    """`(T + 1, …)`."""
    actions: NDArray[np.float32]
    """`(T, A)`: what was done, noise included."""
    expert_actions: NDArray[np.float32]
    """`(T + 1, A)`: what the scripted expert would do at each observation."""
    rewards: NDArray[np.float64]
    """`(T,)`."""
    terminated: NDArray[np.bool_]
    """`(T,)`."""
    truncated: NDArray[np.bool_]
    """`(T,)`; true at the end of a stretch that is cut off before the episode's end, too."""
    stages: NDArray[np.int64]
    """`(T + 1,)`: index of the active stage at each observation."""
    lead_in: NDArray[np.float32]
    """`(L, A)`: what was done between the reset and the first observation; empty for one that begins at the reset."""
    success: bool
    """Of the whole episode."""
    noise: float = 0.0
    """Standard deviation of what was added to the policy's actions."""
    task: str = ""
    """What was played, where there are several tasks."""

    def __len__(self) -> int:
        return len(self.actions)

    def stretch(self, share: float) -> Demonstration:
        """As many steps as `share`, in (0, 1], of all, from a place that the seed decides."""
        steps = len(self)
        kept = max(1, round(share * steps))
        if kept >= steps:
            return self
        first = int(np.random.default_rng([DEMONSTRATION, 1, self.seed]).integers(steps - kept + 1))
        of_steps, of_observations = slice(first, first + kept), slice(first, first + kept + 1)
        truncated = self.truncated[of_steps].copy()
        truncated[-1] |= not self.terminated[of_steps][-1]
        return replace(
            self,
            observations=_each(self.observations, lambda values: values[of_observations]),
            actions=self.actions[of_steps],
            expert_actions=self.expert_actions[of_observations],
            rewards=self.rewards[of_steps],
            terminated=self.terminated[of_steps],
            truncated=truncated,
            stages=self.stages[of_observations],
            lead_in=np.concatenate([self.lead_in, self.actions[:first]]),
        )


@dataclass(frozen=True, eq=False)
class Transitions:
    """Steps of all episodes one after the other, as a replay buffer or a loss wants them; `n` in all."""

    observations: Observations
    """`(n, …)`."""
    next_observations: Observations
    """`(n, …)`."""
    actions: NDArray[np.float32]
    """`(n, A)`: what was done."""
    expert_actions: NDArray[np.float32]
    """`(n, A)`: what the scripted expert would have done."""
    rewards: NDArray[np.float64]
    """`(n,)`."""
    terminated: NDArray[np.bool_]
    """`(n,)`."""
    truncated: NDArray[np.bool_]
    """`(n,)`."""


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """A dataset of demonstrations."""

    path: Path
    episodes: tuple[Demonstration, ...]
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    values: Mapping[str, Any]
    """The complete config that they were recorded with."""
    about: Mapping[str, Any]
    """How they were recorded: `policy`, `noise`, `partial`, `keep_failures`, `attempts`, `solved`, `versions`."""

    def __len__(self) -> int:
        return len(self.episodes)

    @cached_property
    def config(self) -> RunConfig:
        """`values`, checked.

        Raises:
            ConfigError: They name what is not there, such as a task of somebody else's.
        """
        return resolve_config(self.values).config

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean([len(one) for one in self.episodes]))

    def transitions(self) -> Transitions:
        """All steps as arrays, new ones."""
        return Transitions(
            observations=_joined([_each(one.observations, lambda values: values[:-1]) for one in self.episodes]),
            next_observations=_joined([_each(one.observations, lambda values: values[1:]) for one in self.episodes]),
            actions=np.concatenate([one.actions for one in self.episodes]),
            expert_actions=np.concatenate([one.expert_actions[:-1] for one in self.episodes]),
            rewards=np.concatenate([one.rewards for one in self.episodes]),
            terminated=np.concatenate([one.terminated for one in self.episodes]),
            truncated=np.concatenate([one.truncated for one in self.episodes]),
        )


def _each(observations: Observations, change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Observations:
    if isinstance(observations, dict):
        return {key: change(values) for key, values in observations.items()}
    return change(observations)


def _joined(parts: list[Any]) -> Observations:
    if isinstance(parts[0], dict):
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return np.concatenate(parts)
