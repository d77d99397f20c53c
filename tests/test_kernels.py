"""The suite under other kernels of the matrix libraries: results equal to the bit are so on any x86-64 processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = {
    "sse4": {
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
    },
    "avx2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "OPENBLAS_CORETYPE": "Haswell", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"},
    "compatible": {"MKL_CBWR": "COMPATIBLE"},
    "processor": {},
}
"""Kernels → environment variables of MKL (torch), OpenBLAS (numpy) and XLA (JAX); last, those of this machine."""

ROOMS = ("algos", "demonstrations", "envs", "exporting", "fused", "runs", "strategies")
"""Folders of tests with results that must be equal to the bit."""


@pytest.mark.slow
@pytest.mark.parametrize("kernels", KERNELS)
def test_the_suite_passes_with_any_kernels(kernels: str) -> None:
    names = {name for values in KERNELS.values() for name in values}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    rooms = [f"tests/{room}" for room in ROOMS]
    command = [sys.executable, "-m", "pytest", "-n", "2", "-x", *rooms]
    done = subprocess.run(
        command, cwd=Path(__file__).parent.parent, env=environment | KERNELS[kernels], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:]
