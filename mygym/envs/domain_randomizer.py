"""What `randomize` does to an environment: a variation for each episode; actions late and noisy, observations noisy."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.randomizers import Draw, find_randomizer, ranges
from mygym.models.episode_randomization import EpisodeRandomization
from mygym.sim.world import World
from mygym.tasks.observations import find_component
from mygym.types import FloatArray


class DomainRandomizer:
    """The randomizers that are on, and what an episode remembers of them.

    Each randomizer draws from a stream of its own, which follows from the episode's seed and its name: episodes do not
    change in anything else when one is switched on.

    Args:
        said: The config's `randomize`.

    Raises:
        ConfigError: No such randomizer, or no range of it.
    """

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.ranges = ranges(said)
        """Lowest and highest value of each that is on."""
        self._functions = {name: find_randomizer(name).function for name in self.ranges}
        self._variation = EpisodeRandomization()
        self._waiting: deque[FloatArray] = deque()
        self._measured = np.zeros(0)
        self.noise: NDArray[np.float32] | None = None
        """`(d,)`, to be added to the observation after this step."""

    @property
    def is_on(self) -> bool:
        """Whether anything is random besides the layout."""
        return bool(self.ranges)

    def measures(self, widths: Mapping[str, int]) -> None:
        """Say what observations are made of: names, and how many numbers each has."""
        self._measured = np.repeat([float(find_component(name).measured) for name in widths], list(widths.values()))
        self.look()

    def begin(self, rng: np.random.Generator, world: World) -> None:
        """Draw what is different in the episode of `rng`, from which nothing is taken, and tell the world."""
        seeds = rng.bit_generator.seed_seq
        assert isinstance(seeds, np.random.SeedSequence)
        joints = sum(len(arm.joints) for arm in world.robot.arms)
        variation = EpisodeRandomization()
        for name, function in self._functions.items():
            draw = Draw(self.ranges[name], _stream(seeds, name), len(world.objects), joints)
            variation = function(variation, draw)
        self._variation = variation
        self._of_actions = _stream(seeds, "action_noise in each step")
        self._of_observations = _stream(seeds, "observation_noise in each step")
        world.vary(variation)

    def start(self, world: World) -> None:
        """Begin to delay, after the world's reset: until the first action arrives the arm stays where it is."""
        still = world.action_towards(world.state.ee_position[0].copy()) if self._variation.action_delay else None
        self._waiting = deque([still] * self._variation.action_delay if still is not None else [])
        self.noise = None
        self.look()

    def act(self, action: FloatArray) -> FloatArray:
        """What is carried out in the step in which an action `(A,)` is given."""
        if self._variation.action_noise:
            action = action + self._variation.action_noise * self._of_actions.standard_normal(len(action))
        self._waiting.append(action)
        return self._waiting.popleft()

    def look(self) -> None:
        """Draw the noise of the observation that follows: once for each step, however often that is asked for."""
        deviation = self._variation.observation_noise
        if deviation:
            drawn = self._of_observations.standard_normal(len(self._measured))
            self.noise = (deviation * self._measured * drawn).astype(np.float32)


def _stream(seeds: np.random.SeedSequence, name: str) -> np.random.Generator:
    """A generator of its own for each name, which depends on nothing but the episode and the name."""
    child = np.random.SeedSequence(seeds.entropy, spawn_key=(zlib.crc32(name.encode()),))
    return np.random.Generator(np.random.PCG64(child))
