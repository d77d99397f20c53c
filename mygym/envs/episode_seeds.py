"""Seeds of the episodes of an environment."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from mygym.envs.arguments import checked_seed


class EpisodeSeeds:
    """Derives the random numbers of each episode from the environment's seed and the number of the episode."""

    def __init__(self) -> None:
        self.seed = 0
        self.number = -1
        """Number of the current episode since the seed was set; -1 before the first reset."""
        self._seeded = False

    def begin(self, seed: int | None) -> np.random.SeedSequence:
        """Begin the first episode of `seed`, or the next episode of the current seed, and return its sequence.

        Raises:
            ConfigError: Invalid seed.
        """
        if seed is not None or not self._seeded:
            self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else checked_seed(seed)
            self._seeded = True
            self.number = -1
        self.number += 1
        return np.random.SeedSequence([self.seed, self.number])

    def state_dict(self) -> dict[str, Any]:
        """Return seed and number of the current episode."""
        return {"seed": self.seed, "seeded": self._seeded, "episode": self.number}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`."""
        self.seed, self._seeded, self.number = int(state["seed"]), bool(state["seeded"]), int(state["episode"])


def named_stream(rng: np.random.Generator, name: str) -> np.random.Generator:
    """Return a generator that follows from the episode of `rng`, which does not advance, and from a name only."""
    seeds = rng.bit_generator.seed_seq
    assert isinstance(seeds, np.random.SeedSequence)
    child = np.random.SeedSequence(seeds.entropy, spawn_key=(zlib.crc32(name.encode()),))
    return np.random.Generator(np.random.PCG64(child))


def make_generator(sequence: np.random.SeedSequence) -> np.random.Generator:
    """Return the random generator of an episode."""
    return np.random.Generator(np.random.PCG64(sequence))
