"""`kill -9` at random moments: a resumed run ends like an undisturbed run; benchmarks/kills.py kills a hundred."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.kills import CASES, Case, Trainer, contents, differences, killed, uninterrupted

TWICE = [case for case in CASES if case.framework == "pytorch"][::3]
"""Cases that are killed a second time, one side of each algorithm."""

QUICK = {"ppo": ("2 workers",), "sac": ("1",)}
"""Algorithm → sides in the quick suite."""


def is_quick(case: Case) -> bool:
    return case.framework == "pytorch" and case.side in QUICK.get(case.algo, ())


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    """Trains with a separate compilation cache, because a killed process may leave an incomplete cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        patch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS")
        yield Trainer()


@pytest.fixture(scope="module")
def reference(trainer: Trainer, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], tuple[Path, float]]:
    return cache(lambda case: uninterrupted(trainer, case, tmp_path_factory.mktemp("reference")))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=str(case), marks=[] if is_quick(case) else [pytest.mark.slow]) for case in CASES]
)
def test_a_killed_run_ends_as_if_it_had_never_stopped(
    case: Case, trainer: Trainer, reference: Callable[[Case], tuple[Path, float]], tmp_path: Path
) -> None:
    run, seconds = reference(case)
    rng = random.Random(str(case))
    moments = [rng.uniform(0, seconds) for _ in range(2 if case in TWICE else 1)]
    other, reached = killed(trainer, case, tmp_path, moments)
    assert reached
    assert differences(run, other) == [], reached


def test_the_comparison_detects_different_runs(trainer: Trainer, tmp_path: Path) -> None:
    """Else the test above could not fail."""
    folders = [tmp_path / name for name in ("one", "other")]
    runs = []
    for seed, folder in enumerate(folders):
        folder.mkdir()
        runs.append(uninterrupted(trainer, Case("sac", "1", seed=seed), folder)[0])
    assert set(differences(*runs)) == set(contents(runs[0]))
    assert differences(runs[0], runs[0]) == []
