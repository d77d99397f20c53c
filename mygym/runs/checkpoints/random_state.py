"""State of the global random generators."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from mygym.runs.checkpoints.object_state import checked_mersenne_twister


def random_state() -> dict[str, Any]:
    """Return the state of the global generators of Python, numpy and torch."""
    numpy = np.random.get_state()  # noqa: NPY002  (SB3 draws from the global generator)
    state = {"python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else state


def load_random_state(state: Mapping[str, Any]) -> None:
    """Restore a state of `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(checked_mersenne_twister(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
