"""Tests of the fused engine; those of a GPU are skipped with a message on other machines."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mygym.engines import arrays
from mygym.engines.arrays import Arrays, find_arrays
from mygym.envs import batch_env
from mygym.tasks import predicates

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")

LIBRARIES = ("numpy", "torch", pytest.param("cuda", marks=needs_gpu))
"""Parameters: numpy, torch on the CPU, torch on a GPU."""


def arrays_of(library: str) -> Arrays:
    """Return the arrays of a parameter."""
    return find_arrays("torch", "cuda") if library == "cuda" else find_arrays(library)


WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "is_nonzero")
"""Operations that wait for a GPU, or copy from the host; neither can be part of a CUDA graph."""


class WaitingOperations(TorchDispatchMode):
    """Collects the operations in `WAITING` with the line of the project that calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masks = [each for each in (args[1] if "aten.index" in str(function) else ()) if each is not None]
        if any(name in str(function) for name in WAITING) or any(mask.dtype == torch.bool for mask in masks):
            lines = [frame for frame in traceback.extract_stack() if "/mygym/" in frame.filename]
            self.names.append(f"{function}: {lines[-1].filename}:{lines[-1].lineno}")
        return function(*args, **(kwargs or {}))


def pretend_gpu(patch: pytest.MonkeyPatch) -> None:
    """Make the engine take the branches of a GPU, on the CPU."""
    for module in (arrays, predicates, batch_env):
        patch.setattr(module, "on_host", lambda _: False)
