"""Parity of MuJoCo with Bullet; that of the fused engine: tests/engines/fused."""

from __future__ import annotations

import json

import pytest

from mygym.checks.parity import compare_engines, measure_transfer
from mygym.errors import ConfigError
from tests.command import Command


@pytest.mark.parametrize("task", ["pick_and_place", "stack", "open_door"])
def test_the_same_actions_move_mujocos_tool_as_bullets(task: str) -> None:
    """A start of another place, another part's position or another frame would be centimetres."""
    _, expert, *noisy = compare_engines({"task": task}, 4, seed=0, engine="mujoco")
    assert (expert.success_pybullet, expert.success_engine) == (1.0, 1.0)
    assert 0.1 < expert.mean < 5.0
    assert 0.1 < expert.percentile < 10.0
    if task == "open_door":
        assert expert.object_mean is None
        assert noisy == [], "grasps of handles are no grasps of objects"
        return
    assert expert.object_median is not None
    assert 0.1 < expert.object_median < 5.0
    (measured,) = noisy
    assert measured.grasps
    assert measured.gate is not None
    assert measured.gate >= 0.5


def test_the_command_names_the_engine(mygym_command: Command) -> None:
    outcome = mygym_command("parity", "--engine", "mujoco", "--episodes", "2")
    assert outcome.code == 0, outcome.err
    assert {"pybullet", "mujoco"} <= set(outcome.out.split())
    kinds = json.loads(mygym_command("parity", "--engine", "mujoco", "--episodes", "2", "--json").out)
    assert [kind["success_engine"] for kind in kinds] == [None, 1.0]


def test_engines_without_batches_and_other_paths_are_refused() -> None:
    with pytest.raises(ConfigError, match="has no batches"):
        compare_engines({"task": "reach"}, 1, seed=0, engine="pybullet")
    with pytest.raises(ConfigError, match="not a run directory"):
        measure_transfer("runs/x", 1, seed=0, engine="mujoco")
