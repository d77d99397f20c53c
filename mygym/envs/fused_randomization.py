"""Draws of a config's randomizers for the fused engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from mygym.envs.episode_seeds import make_generator, named_stream
from mygym.envs.randomizers import Draw, find_randomizer, ranges
from mygym.errors import ConfigError, bad_value
from mygym.fused.randomization import FIELDS, Table
from mygym.models.episode_randomization import EpisodeRandomization
from mygym.types import FloatArray

ROWS = 1024
"""Draws; their seeds are constant, so that runs can be repeated."""

FIRST_SEED = 1 << 41
"""Seed of the first draw: no environment of a run has it."""

SLIPPERY = 0.5
"""Smallest factor of an object's friction at which fingers hold it in Bullet as in the engine."""


def draw_table(config: Mapping[str, Any], objects: int, joints: int) -> Table:
    """Return draws of the fields that the randomizers of a config set.

    Args:
        config: The config's `randomize`.
        objects: Number of objects, at most 1.
        joints: `J`.

    Raises:
        ConfigError: Unknown randomizer, an invalid range, or a field that the engine does not represent.
    """
    table = {}
    for name, limits in ranges(config).items():
        function = find_randomizer(name).function
        drawn = []
        for row in range(ROWS):
            rng = named_stream(make_generator(np.random.SeedSequence(FIRST_SEED + row)), name)
            drawn.append(function(EpisodeRandomization(), Draw(limits, rng, objects, joints)))
        for field in _changed_fields(drawn):
            if field not in FIELDS:
                allowed = "randomizers of " + ", ".join(FIELDS)
                raise ConfigError(
                    bad_value("randomize", name, allowed, f"sets {field}, which engine fused does not have")
                )
            table[field] = _values(drawn, field)
    return table


def _changed_fields(drawn: list[EpisodeRandomization]) -> list[str]:
    """Return the fields with values other than the defaults in any draw."""
    default = EpisodeRandomization()
    names = [field.name for field in fields(EpisodeRandomization)]
    return [name for name in names if any(getattr(each, name) != getattr(default, name) for each in drawn)]


def _values(drawn: list[EpisodeRandomization], field: str) -> FloatArray:
    """Return the values `(K,)` of a field, `(J, K)` of `joint_gain`."""
    values = np.array([getattr(each, field) for each in drawn], dtype=float).T
    return values if field == "joint_gain" else values.reshape(-1)
