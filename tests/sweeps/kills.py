"""`kill -9` of a command that executes runs, at random moments, for tests of sweeps and of suites."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start `mygym` with its arguments in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    output = subprocess.DEVNULL
    command = [sys.executable, "-m", "mygym", *words]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)


def killed_at_ten_moments(begin: Callable[[], subprocess.Popen[bytes]]) -> int:
    """Execute a command to its end, killed and begun again ten times; return the exit code."""
    rng, process = random.Random(0), begin()
    for _ in range(10):
        with pytest.raises(subprocess.TimeoutExpired):  # else it has ended too early
            process.wait(timeout=rng.uniform(3, 9))
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in children if rng.random() < 0.5 else ():  # else the runs go on, until the command begins again
            child.kill()
        process = begin()
    return process.wait()
