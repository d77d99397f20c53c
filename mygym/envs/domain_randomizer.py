"""Domain randomization of an environment: episode randomization, action delay and noise, observation noise."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.engines.world import World
from mygym.envs.episode_seeds import named_stream
from mygym.envs.randomizers import Draw, find_randomizer, ranges
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.types import FloatArray


class DomainRandomizer:
    """The randomizers of a config, and the randomization of the current episode.

    Each randomizer has its own random stream, which follows from the episode's seed and the randomizer's name:
    switching a randomizer on changes nothing else in an episode.

    Args:
        config: The config's `randomize`.

    Raises:
        ConfigError: Unknown randomizer, or an invalid range.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.ranges = ranges(config)
        """Lowest and highest value of each active randomizer."""
        self._functions = {name: find_randomizer(name).function for name in self.ranges}
        self._randomization = EpisodeRandomization()
        self._delayed: deque[FloatArray] = deque()
        self._is_measured = np.zeros(0)
        self.noise: NDArray[np.float32] | None = None
        """`(d,)` noise of the current observation, see `ObservationBuilder.vector`."""

    @property
    def is_on(self) -> bool:
        """Whether any randomizer is active."""
        return bool(self.ranges)

    def set_observation(self, measured: FloatArray) -> None:
        """Set which values of observations have noise, see `ObservationBuilder.measured`."""
        self._is_measured = measured
        self.draw_noise()

    def begin(self, rng: np.random.Generator, world: World, choice: tuple[int | None, ...] = ()) -> None:
        """Draw the randomization of the episode of `rng` and apply it to the world; `rng` does not advance.

        Args:
            rng: Random generator of the episode.
            world: The world.
            choice: Objects of the episode, see `EpisodeRandomization.object_choice`.
        """
        joints = sum(len(arm.joints) for arm in world.robot.arms)
        randomization = EpisodeRandomization(object_choice=choice)
        for name, function in self._functions.items():
            draw = Draw(self.ranges[name], named_stream(rng, name), len(world.objects), joints)
            randomization = function(randomization, draw)
        self._randomization = randomization
        self._action_rng = named_stream(rng, "action_noise in each step")
        self._observation_rng = named_stream(rng, "observation_noise in each step")
        world.randomize(randomization)

    def start(self, world: World) -> None:
        """Fill the delay after the world's reset: until the first action takes effect, the arm holds its position."""
        delay = self._randomization.action_delay
        hold = world.action_towards(world.state.ee_position[0].copy()) if delay else None
        self._delayed = deque([hold] * delay if hold is not None else [])
        self.noise = None
        self.draw_noise()

    def state(self) -> dict[str, Any]:
        """Return the values that change in every step; not copies."""
        names = ("_delayed", "noise", "_action_rng", "_observation_rng")
        return {name: vars(self)[name] for name in names if name in vars(self)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the values of `state`."""
        vars(self).update(state)

    def act(self, action: FloatArray) -> FloatArray:
        """Return the action `(A,)` that takes effect in the step of `action`."""
        if self._randomization.action_noise:
            action = action + self._randomization.action_noise * self._action_rng.standard_normal(len(action))
        self._delayed.append(action)
        return self._delayed.popleft()

    def draw_noise(self) -> None:
        """Draw the noise of the next observation; call once per step."""
        deviation = self._randomization.observation_noise
        if deviation:
            values = self._observation_rng.standard_normal(len(self._is_measured))
            self.noise = (deviation * self._is_measured * values).astype(np.float32)
