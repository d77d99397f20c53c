"""Array namespace of the fused engine: numpy, or torch on a device; one code serves both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from mygym.errors import ConfigError, bad_value
from mygym.tasks.state import namespace, on_host
from mygym.types import Array

OUTPUTS = ("numpy", "torch")
"""Array libraries of the engine."""


@dataclass(frozen=True)
class Arrays:
    """Creates arrays of one library on one device."""

    xp: Any
    """Array-API namespace."""
    device: Any
    """Device of the arrays; None: the library's default."""

    @property
    def is_on_gpu(self) -> bool:
        """Whether the arrays are in the memory of a GPU."""
        return self.device is not None and self.device.type == "cuda"

    def floats(self, values: Any) -> Array:
        """Return a float32 array of numbers."""
        return self.xp.asarray(np.asarray(values, dtype=np.float32), device=self.device)

    def integers(self, values: Any) -> Array:
        """Return an int64 array of whole numbers."""
        return self.xp.asarray(np.asarray(values, dtype=np.int64), device=self.device)

    def flags(self, values: Any) -> Array:
        """Return a bool array."""
        return self.xp.asarray(np.asarray(values, dtype=bool), device=self.device)

    def zeros(self, *shape: int, dtype: Any = None) -> Array:
        """Return zeros, float32 by default."""
        return self.xp.zeros(shape, dtype=dtype or self.xp.float32, device=self.device)


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
    def of_mask(cls, mask: Array) -> Rows:
        """Return the environments of a mask `(N,)` bool."""
        return cls(mask, namespace(mask).nonzero(mask)[0] if on_host(mask) else None)

    @property
    def is_empty(self) -> bool:
        """Whether the list is empty; False if only a wait could show it."""
        return self.index is not None and self.index.shape[0] == 0

    def of(self, array: Array) -> Array:
        """Return the values `(…, n)` of an array `(…, N)`."""
        return array if self.index is None else array[..., self.index]

    def replaced(self, array: Array, values: Array, axis: int = -1) -> Array:
        """Return a new array with values of these environments; `axis`, the first or the last, is the batch axis.

        Args:
            array: `(…, N)`, or `(N, …)`.
            values: `(…, n)`, or `(n, …)`.
            axis: 0 or -1.
        """
        xp = namespace(array)
        if self.index is None:
            shape = [1] * array.ndim
            shape[axis] = -1
            return xp.where(xp.reshape(self.mask, tuple(shape)), values, array)
        array = xp.asarray(array, copy=True)
        array[(..., self.index) if axis else self.index] = values
        return array


def find_arrays(output: str, device: str = "cpu") -> Arrays:
    """Return the array library of a name.

    Args:
        output: `numpy` or `torch`.
        device: Device of torch, such as `cpu`.

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


def free_memory(arrays: Arrays) -> int:
    """Return the bytes of memory that are free for arrays."""
    if arrays.is_on_gpu:
        import torch

        return int(torch.cuda.mem_get_info(arrays.device)[0])
    return int(psutil.virtual_memory().available)


def to_numpy(array: Array) -> Any:
    """Return an array as a numpy array, without a copy where possible."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()
