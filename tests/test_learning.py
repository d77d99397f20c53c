"""Does a change make learning worse? Short runs must reach a success rate far below the usual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mygym

BRIEF = {"video": {"episodes": 0}, "eval": {"every": 10_000_000, "final_episodes": 25}, "seed": 0}

RUNS: dict[str, tuple[dict[str, Any], float]] = {
    "off-policy": ({"steps": 3_000}, 0.5),
    "on-policy": ({"algo": "ppo", "steps": 20_000}, 0.5),
    "compiled": ({"framework": "jax", "steps": 3_000}, 0.5),
    "imitation": ({"task": "push", "algo": "dagger", "steps": 3_000}, 0.5),
    "several stages": ({"task": "switch", "steps": 30_000}, 0.5),
}
"""Name → config, and the smallest success rate."""


@pytest.mark.parametrize("name", RUNS)
def test_a_short_run_learns(name: str, tmp_path: Path) -> None:
    config, floor = RUNS[name]
    result = mygym.train({**BRIEF, **config, "logdir": str(tmp_path)})
    assert result.success_rate is not None
    assert result.success_rate >= floor, f"{name}: {result.success_rate:.0%} after {result.steps:,} steps"
