"""Arrays of worlds side by side: numpy, or torch on a device; one code serves both."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
from array_api_compat import device

from mygym.errors import ConfigError, bad_value
from mygym.tasks.state import namespace, on_host
from mygym.types import Array

OUTPUTS = ("numpy", "torch")
"""Array libraries."""


@dataclass(frozen=True)
class Arrays:
    """Creates arrays of one library on one device."""

    xp: Any
    """Array-API namespace."""
    device: Any
    """Device of the arrays; None: the library's default."""
    double: bool = False
    """Whether numbers are float64, those of a single world; else float32."""

    @property
    def is_on_gpu(self) -> bool:
        """Whether the arrays are in the memory of a GPU."""
        return self.device is not None and self.device.type == "cuda"

    @property
    def real(self) -> Any:
        """Type of numbers."""
        return self.xp.float64 if self.double else self.xp.float32

    def floats(self, values: Any) -> Array:
        """Return an array of numbers."""
        return self.xp.asarray(np.asarray(values, dtype=np.float64 if self.double else np.float32), device=self.device)

    def integers(self, values: Any) -> Array:
        """Return an int64 array of whole numbers."""
        return self.xp.asarray(np.asarray(values, dtype=np.int64), device=self.device)

    def flags(self, values: Any) -> Array:
        """Return a bool array."""
        return self.xp.asarray(np.asarray(values, dtype=bool), device=self.device)

    def like(self, array: Array, values: Any) -> Array:
        """Return values as an array of the type of another."""
        return self.xp.asarray(values, dtype=array.dtype, device=self.device)

    def zeros(self, *shape: int, dtype: Any = None) -> Array:
        """Return zeros, numbers by default."""
        return self.xp.zeros(shape, dtype=dtype or self.real, device=self.device)


@dataclass(frozen=True)
class Rows:
    """Some environments of a batch of `N`, for a computation that the others do not need.

    On the CPU their arrays are gathered. On a GPU, whose list of them would be a wait, the computation runs for all
    environments and the others keep their values.
    """

    mask: Array
    """`(N,)` bool: True for these environments."""
    index: Array | None
    """`(n,)` whole numbers: these environments; None: all are computed, `n` is `N`."""

    @classmethod
    def all(cls, count: int, arrays: Arrays) -> Rows:
        """Return all environments of a batch."""
        return cls.of_mask(~arrays.zeros(count, dtype=arrays.xp.bool))

    @classmethod
    def of_mask(cls, mask: Array) -> Rows:
        """Return the environments of a mask `(N,)` bool."""
        return cls(mask, namespace(mask).nonzero(mask)[0] if on_host(mask) else None)

    @property
    def is_empty(self) -> bool:
        """Whether the list is empty; False if only a wait could show it."""
        return self.index is not None and self.index.shape[0] == 0

    def of(self, array: Array) -> Array:
        """Return the values `(…, n)` of an array `(…, N)`."""
        return array if self.index is None else namespace(array).take(array, self.index, axis=-1)

    def replaced(self, array: Array, values: Array, axis: int = -1) -> Array:
        """Return a new `(…, N)` or `(N, …)` with values of these environments; `axis`, -1 or 0, is the batch axis."""
        xp = namespace(array)
        if self.index is None:
            shape = [1] * array.ndim
            shape[axis] = -1
            return xp.where(xp.reshape(self.mask, tuple(shape)), values, array)
        array = xp.asarray(array, copy=True)
        array[(..., self.index) if axis else self.index] = values
        return array


def find_arrays(output: str, device: str = "cpu") -> Arrays:
    """Return the array library `numpy` or `torch`, on a device of torch such as `cpu`.

    Raises:
        ConfigError: Unknown library, or a device that it does not have.
    """
    if output not in OUTPUTS:
        raise ConfigError(bad_value("output", output, OUTPUTS))
    if output == "torch":
        import torch

        from mygym.tasks import torch_namespace as xp

        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch raises each for missing devices
            raise ConfigError(bad_value("device", device, "cpu, or cuda where torch has it", str(error))) from error
        return Arrays(xp, torch.device(device))
    if device != "cpu":
        raise ConfigError(bad_value("device", device, "cpu, or output: torch", "is no device of numpy"))
    return Arrays(np, None)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory(arrays: Arrays) -> int:
    """Return the bytes of memory that are free for arrays."""
    if arrays.is_on_gpu:
        import torch

        return int(torch.cuda.mem_get_info(arrays.device)[0])
    return int(psutil.virtual_memory().available)


def check_memory(key: str, count: int, size: int, free: int, place: str = "of memory") -> None:
    """Refuse more than fits into the free memory.

    Args:
        key: Key or argument of the number, for the message.
        count: The number, e.g. of environments or of rows of a buffer.
        size: Bytes that all of them need.
        free: Bytes that are free.
        place: Kind of memory in words, for the message.

    Raises:
        ConfigError: The message has the number that fits.
    """
    if size > free:
        why = f"needs {size / 1e9:.1f} GB {place}, of which {free / 1e9:.1f} GB are free"
        raise ConfigError(bad_value(key, count, f"at most {count * free // size:,}", why))


def to_numpy(array: Array) -> Any:
    """Return an array as a numpy array, without a copy where possible."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


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
