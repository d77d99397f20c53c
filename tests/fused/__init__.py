"""Tests of the fused engine; those of a GPU are skipped with a message on other machines."""

import pytest
import torch

from mygym.fused.arrays import Arrays, find_arrays

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")

LIBRARIES = ("numpy", "torch", pytest.param("cuda", marks=needs_gpu))
"""Parameters: numpy, torch on the CPU, torch on a GPU."""


def arrays_of(library: str) -> Arrays:
    """Return the arrays of a parameter."""
    return find_arrays("torch", "cuda") if library == "cuda" else find_arrays(library)
