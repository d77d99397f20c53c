"""Data classes of demonstrations: recorded episodes, or segments of episodes, that can be replayed exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.config import RunConfig
from mygym.nested import map_arrays
from mygym.planning.resolve import resolve_config
from mygym.training.evaluation import DEMONSTRATION
from mygym.types import FloatArray

Observations = dict[str, NDArray[np.float32]] | NDArray[np.float32]
"""Observations with a leading time axis: a goal dictionary or a flat array."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """An episode, or a segment of an episode, of `T` steps with actions of `A` numbers."""

    seed: int
    """Seed of the reset; with the actions it reproduces the episode bit by bit."""
    observations: Observations
    """`(T + 1, …)`."""
    actions: NDArray[Any]
    """`(T, A)`: executed actions, noise included; `(T,)` for combined discrete actions, as for the fields below."""
    expert_actions: NDArray[Any]
    """`(T + 1, A)`: action of the scripted expert at each observation."""
    rewards: FloatArray
    """`(T,)`."""
    terminated: NDArray[np.bool_]
    """`(T,)`."""
    truncated: NDArray[np.bool_]
    """`(T,)`; also true at the end of a segment that ends before the episode."""
    stages: NDArray[np.int64]
    """`(T + 1,)`: index of the active stage at each observation."""
    lead_in: NDArray[Any]
    """`(L, A)`: actions between the reset and the first observation; empty unless this is a later segment."""
    success: bool
    """Whether the whole episode ended in success."""
    noise: float = 0.0
    """Standard deviation of the noise added to the policy's actions."""
    task: str = ""
    """Task of the episode, if the run has several tasks."""

    def __len__(self) -> int:
        return len(self.actions)

    def segment(self, share: float) -> Demonstration:
        """Return a segment with a random start, which the seed decides.

        Args:
            share: Length of the segment as a share of the steps, in (0, 1].
        """
        steps = len(self)
        kept = max(1, round(share * steps))
        if kept >= steps:
            return self
        first = int(np.random.default_rng([DEMONSTRATION, 1, self.seed]).integers(steps - kept + 1))
        step_slice, observation_slice = slice(first, first + kept), slice(first, first + kept + 1)
        truncated = self.truncated[step_slice].copy()
        truncated[-1] |= not self.terminated[step_slice][-1]
        return replace(
            self,
            observations=map_arrays(itemgetter(observation_slice), self.observations),
            actions=self.actions[step_slice],
            expert_actions=self.expert_actions[observation_slice],
            rewards=self.rewards[step_slice],
            terminated=self.terminated[step_slice],
            truncated=truncated,
            stages=self.stages[observation_slice],
            lead_in=np.concatenate([self.lead_in, self.actions[:first]]),
        )


@dataclass(frozen=True, eq=False)
class Transitions:
    """The `n` steps of all episodes in sequence, for a replay buffer or a loss."""

    observations: Observations
    """`(n, …)`."""
    next_observations: Observations
    """`(n, …)`."""
    actions: NDArray[Any]
    """`(n, A)`: executed actions."""
    expert_actions: NDArray[Any]
    """`(n, A)`: actions of the scripted expert."""
    rewards: FloatArray
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
    """Values of the complete config of the recording."""
    about: Mapping[str, Any]
    """Properties of the recording: `policy`, `noise`, `partial`, `keep_failures`, `attempts`, `solved`, `versions`."""

    def __len__(self) -> int:
        return len(self.episodes)

    @cached_property
    def config(self) -> RunConfig:
        """The validated config of the recording.

        Raises:
            ConfigError: The config names an unknown component, such as a third-party task.
        """
        return resolve_config(self.values).config

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean([len(episode) for episode in self.episodes]))

    def transitions(self) -> Transitions:
        """Return all steps in new arrays."""
        episodes = self.episodes
        observations = [episode.observations for episode in episodes]
        return Transitions(
            observations=map_arrays(lambda *each: np.concatenate([values[:-1] for values in each]), *observations),
            next_observations=map_arrays(lambda *each: np.concatenate([values[1:] for values in each]), *observations),
            actions=np.concatenate([e.actions for e in episodes]),
            expert_actions=np.concatenate([e.expert_actions[:-1] for e in episodes]),
            rewards=np.concatenate([e.rewards for e in episodes]),
            terminated=np.concatenate([e.terminated for e in episodes]),
            truncated=np.concatenate([e.truncated for e in episodes]),
        )
