"""Memory of replay buffers and data sets, which images fill quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import psutil

from mygym.errors import ConfigError, bad_value


def buffer_bytes(model: Any) -> tuple[int, int]:
    """Return the bytes that the full replay buffer or data set of a model takes, and its number of rows.

    The arrays take memory when they are filled. Without a buffer both numbers are 0.
    """
    buffer = getattr(model, "replay_buffer", None)
    if buffer is None:
        return 0, 0
    arrays = {id(array): array.nbytes for array in _arrays(vars(buffer))}
    return sum(arrays.values()), int(buffer.buffer_size * buffer.n_envs)


def check_memory(model: Any) -> None:
    """Refuse a model whose buffer does not fit into the memory of the machine.

    Raises:
        ConfigError: The message has the number of rows that fits.
    """
    size, rows = buffer_bytes(model)
    free = psutil.virtual_memory().available
    if size > free:
        why = f"needs {size / 1e9:.1f} GB of memory, of which {free / 1e9:.1f} GB are free"
        allowed = f"at most {rows * free // size:,}"
        raise ConfigError(bad_value("algo_params.buffer_size", f"{rows:,}", allowed, why))


def _arrays(values: Mapping[str, Any]) -> Iterator[np.ndarray[Any, Any]]:
    for value in values.values():
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, Mapping):
            yield from _arrays(value)
