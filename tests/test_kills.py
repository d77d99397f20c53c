"""`kill -9` at random moments: a resumed run ends like an undisturbed run; benchmarks/kills.py kills a hundred."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import mygym
from benchmarks.kills import CASES, Case, Trainer, contents, differences, killed, uninterrupted

TWICE = [case for case in CASES if case.framework == "pytorch"][::3]
"""Cases that are killed a second time, one side of each algorithm."""

QUICK = Case("sac", "1", video=True)
"""A case with a replay log, hindsight and a video."""

pytestmark = pytest.mark.slow
"""Each run is a process that compiles or imports for seconds. The normal suite stops runs in its own process, at any
write of a checkpoint (tests/training/checkpoints/test_checkpoints.py) and by signals (tests/test_faults.py)."""


@pytest.fixture(scope="module")
def trainer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    """Trains with a separate compilation cache, because a killed process may leave an incomplete cache."""
    cases = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        patch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS")
        yield Trainer(jax=any(isinstance(case, Case) and case.framework == "jax" for case in cases))


@pytest.fixture(scope="module")
def reference(trainer: Trainer, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], tuple[Path, float]]:
    return cache(lambda case: uninterrupted(trainer, case, tmp_path_factory.mktemp("reference")))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_killed_run_ends_as_if_it_had_never_stopped(
    case: Case, trainer: Trainer, reference: Callable[[Case], tuple[Path, float]], tmp_path: Path
) -> None:
    run, seconds = reference(case)
    rng = random.Random(str(case))
    moments = [rng.uniform(0, seconds) for _ in range(2 if case in TWICE else 1)]
    other, reached = killed(trainer, case, tmp_path, moments)
    assert reached
    assert differences(run, other) == [], reached


def test_the_comparison_detects_a_number(reference: Callable[[Case], tuple[Path, float]], tmp_path: Path) -> None:
    """The slow suite compares with a run of another seed."""
    run, _ = reference(QUICK)
    other = tmp_path / "other"
    shutil.copytree(run, other)
    assert differences(run, other) == []
    weights = load_file(other / "policy.safetensors")
    next(iter(weights.values())).view(-1)[0] += 1e-6
    save_file(weights, other / "policy.safetensors")
    lines = (other / "monitor.csv").read_text().splitlines()
    (other / "monitor.csv").write_text("\n".join([*lines[:-1], lines[-1].replace(",", "1,", 1)]) + "\n")
    assert differences(run, other) == ["monitor", "policy"]


def test_the_comparison_detects_different_runs(reference: Callable[[Case], tuple[Path, float]], tmp_path: Path) -> None:
    """Else the test above could not fail."""
    run, _ = reference(QUICK)
    other = mygym.train(replace(QUICK, seed=1).config(tmp_path)).path
    assert set(differences(run, other)) == set(contents(run))
    assert differences(run, run) == []
