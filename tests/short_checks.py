"""Suites of `mygym.checks` with fewer episodes and shorter rollouts, for tests that perform many of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import mygym
import mygym.checks
from mygym.checks import Outcome, algorithms, check, robots, scenes, stages
from mygym.checks.algorithms import actions_of
from mygym.checks.suite import LEARNS
from mygym.config import merged
from mygym.registry import algorithm
from tests.components import known

EPISODES = 3
"""Of the expert in each check; `test_scenes.py` performs the suites with all episodes, marked `slow`."""

SHORT: Mapping[str, Any] = {"n_envs": 2, "task_params": {"horizon": 10}}
"""Config of the trainings."""

ROLLOUTS: Mapping[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 1}
"""Short rollouts of an on-policy algorithm."""

TRAINED_WITH_PPO = ("strategy", "sampler", "callback")
"""Kinds whose suites train PPO by default."""


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Let experts play fewer episodes, and algorithms collect shorter rollouts."""
    for suite in (robots, scenes, stages):
        patch.setattr(suite, "EPISODES", EPISODES)
    patch.setattr(robots, "GRASPS", EPISODES)
    patch.setattr(robots, "checked_tasks", lambda: ["hand_over", "open_drawer"])
    patch.setattr(stages, "EPISODES", 1)
    patch.setattr(mygym.checks, "check", check_shortly)
    # A process that imports PyTorch takes seconds; `test_scaffolds.py` starts it, with the same component.
    patch.setattr(algorithms, "actions_in_another_process", _actions_here)


def _actions_here(run: Path, imports: Sequence[str], observations: Sequence[Any]) -> Any:
    return actions_of(mygym.load(run), observations)


def check_shortly(
    kind: str,
    name: str,
    framework: str = "pytorch",
    steps: int | None = None,
    config: Mapping[str, Any] | None = None,
    robot: str | None = None,
    skip: Collection[str] = (),
) -> Iterator[Outcome]:
    """Perform `mygym.checks.check`; algorithms, and other components in runs, are trained for a moment."""
    if kind in TRAINED_WITH_PPO:
        return check(kind, name, framework, 60, merged(SHORT, {"algo_params": ROLLOUTS}), robot, skip)
    if kind != "algorithm":
        return check(kind, name, framework, steps, config, robot, skip)
    hyperparameters = known(algorithm(name, framework).combo()[0])
    rollouts = ROLLOUTS if "n_steps" in hyperparameters else {}
    params = {key: value for key, value in rollouts.items() if key in hyperparameters}
    slow = [LEARNS] if algorithm(name, framework).parent else []
    return check(
        kind, name, framework, 60, merged({**SHORT, "algo_params": params}, config or {}), robot, {*skip, *slow}
    )
