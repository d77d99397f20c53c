"""Memory of replay buffers and data sets, which images fill quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import psutil
import torch

from mygym.errors import ConfigError, bad_value


def buffer_bytes(model: Any) -> tuple[int, int]:
    """Return the bytes that the full replay buffer or data set of a model takes, and its number of rows.

    Without a buffer both numbers are 0.
    """
    buffer = getattr(model, "replay_buffer", None)
    if buffer is None:
        return 0, 0
    return _bytes(buffer, np.ndarray | torch.Tensor), int(buffer.buffer_size * buffer.n_envs)


def check_memory(model: Any) -> None:
    """Refuse a model whose buffer does not fit into the memory of the machine.

    Arrays of numpy take memory when they are filled. Buffers in tensors check their memory when they are built.

    Raises:
        ConfigError: The message has the number of rows that fits.
    """
    rows = buffer_bytes(model)[1]
    size = _bytes(model.replay_buffer, np.ndarray) if rows else 0
    free = psutil.virtual_memory().available
    if size > free:
        why = f"needs {size / 1e9:.1f} GB of memory, of which {free / 1e9:.1f} GB are free"
        allowed = f"at most {rows * free // size:,}"
        raise ConfigError(bad_value("algo_params.buffer_size", f"{rows:,}", allowed, why))


def _bytes(buffer: Any, kinds: Any) -> int:
    """Return the bytes of the arrays of some classes."""
    return sum({id(array): array.nbytes for array in _arrays(vars(buffer), kinds)}.values())


def _arrays(values: Mapping[str, Any], kinds: Any) -> Iterator[Any]:
    for value in values.values():
        if isinstance(value, kinds):
            yield value
        elif isinstance(value, Mapping):
            yield from _arrays(value, kinds)
