"""Search among nested callbacks."""

from __future__ import annotations

from typing import Any, TypeVar

from stable_baselines3.common.callbacks import BaseCallback, CallbackList

Kind = TypeVar("Kind", bound=BaseCallback)


def find_callback(callback: Any, kind: type[Kind]) -> Kind | None:
    """Return the first callback of a class among nested callbacks; None if the run has none."""
    if isinstance(callback, kind):
        return callback
    children = callback.callbacks if isinstance(callback, CallbackList) else []
    return next((match for child in children if (match := find_callback(child, kind)) is not None), None)
