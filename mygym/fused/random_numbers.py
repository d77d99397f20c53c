"""Random numbers of a batch of episodes: a hash of seed, number of the episode and index (splitmix64).

They need no state except these whole numbers. Each environment therefore has a separate stream, a subset of the
environments can draw, and a saved run continues to the bit. numpy and torch give the same bits, because int64 wraps
around in both.

Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

from __future__ import annotations

import math

from array_api_compat import device

from mygym.tasks.state import namespace
from mygym.types import Array

_GOLDEN, _FIRST, _SECOND = (value - 2**64 for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""Constants of splitmix64 as int64."""


def uniform(seed: Array, episode: Array, count: int, stream: Array | int | None = None) -> Array:
    """Return `count` numbers for each episode, float32 `(count, N)` in [0, 1).

    Args:
        seed: `(N,)` int64, seeds of the environments.
        episode: `(N,)` int64, numbers of the episodes since the seed was set.
        count: Number of random numbers; the first numbers do not depend on it.
        stream: Whole number, or `(N,)` int64, of a further stream of the episode; None: the stream of its start.
    """
    xp = namespace(seed)
    key = _mixed(_mixed(seed * _GOLDEN) + episode * _GOLDEN)
    if stream is not None:
        key = _mixed((key ^ _FIRST) + (stream + 1) * _GOLDEN)
    index = xp.arange(1, count + 1, dtype=xp.int64, device=device(seed))
    bits = _mixed(key + index[:, None] * _GOLDEN)
    return xp.astype(_shifted(bits, 40), xp.float32) * 2.0**-24


def normal(seed: Array, episode: Array, count: int, stream: Array) -> Array:
    """Return `count` normally distributed numbers for each episode, float32 `(count, N)`; see `uniform`.

    Source: Box and Muller, A note on the generation of random normal deviates, 1958.
    """
    xp, half = namespace(seed), (count + 1) // 2
    drawn = uniform(seed, episode, 2 * half, stream)
    radius, angle = xp.sqrt(-2.0 * xp.log(1.0 - drawn[:half])), 2.0 * math.pi * drawn[half:]
    return xp.concat([radius * xp.cos(angle), radius * xp.sin(angle)])[:count]


def _mixed(bits: Array) -> Array:
    """Return the output function of splitmix64."""
    bits = (bits ^ _shifted(bits, 30)) * _FIRST
    bits = (bits ^ _shifted(bits, 27)) * _SECOND
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Array, count: int) -> Array:
    """Shift int64 to the right and fill with zeros."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
