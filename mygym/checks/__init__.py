"""The conformance suites: what every component of a kind must do, the built-in ones too.

`check("algorithm", "sac")` yields an `Outcome` for each check as it finishes; `mygym check` prints them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mygym.checks.algorithms import algorithm_checks
from mygym.checks.objects import object_checks
from mygym.checks.policies import policy_checks
from mygym.checks.robots import robot_checks
from mygym.checks.stages import stage_checks
from mygym.checks.strategies import strategy_checks
from mygym.checks.suite import Check, CheckFailed, Outcome, perform
from mygym.checks.tasks import task_checks
from mygym.checks.workspaces import workspace_checks
from mygym.errors import RegistryError, bad_value
from mygym.registry import Entry, registry

__all__ = ["KINDS", "TRAINED", "Check", "CheckFailed", "Outcome", "check"]

STEPS: Mapping[str, int] = {"algorithm": 2_000, "policy": 500, "strategy": 2_000}
"""Env steps of a training, of the kinds that are trained."""

TRAINED = tuple(STEPS)
"""Kinds that are trained; the others are not."""

_SUITES = {"algorithm": algorithm_checks, "policy": policy_checks, "strategy": strategy_checks}

_OTHERS: Mapping[str, Callable[[str], Iterator[Check]]] = {
    "task": task_checks,
    "stage": stage_checks,
    "robot": robot_checks,
    "workspace": workspace_checks,
    "object": object_checks,
}

KINDS = (*TRAINED, *_OTHERS)
"""Kinds of components that have a suite."""


def check(
    kind: str,
    name: str,
    framework: str = "pytorch",
    steps: int | None = None,
    config: Mapping[str, Any] | None = None,
    robot: str | None = None,
) -> Iterator[Outcome]:
    """Check one component; everything that this writes is in a temporary folder, which is removed.

    Args:
        kind: One of `KINDS`, as in the registry.
        name: Of the component.
        framework: Of an algorithm, a policy that is trained, or the algorithm that a strategy trains.
        steps: Env steps of each training.
        config: Values of the run's config besides the algorithm's own, e.g. `{"algo_params": {"batch_size": 32}}`.
        robot: Of a workspace: the one robot to try, in place of those that are at home there.

    Raises:
        RegistryError: There is no such component, or not in this framework.
    """
    entry = registry(kind).get(name, "algo" if kind == "algorithm" else kind)
    if kind == "workspace":
        arm = None if robot is None else registry("robot").get(robot, "--robot").name
        return perform(entry, workspace_checks(entry.name, arm))
    if kind not in TRAINED:
        return perform(entry, _OTHERS[kind](entry.name))
    if entry.frameworks and framework not in entry.frameworks:
        why = f"does not have {kind} {name!r}"
        raise RegistryError(bad_value("framework", framework, entry.frameworks, why))
    return _trained(entry, framework, steps or STEPS[kind], config or {})


def _trained(entry: Entry, framework: str, steps: int, config: Mapping[str, Any]) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(prefix="mygym-check-") as folder:
        yield from perform(entry, _SUITES[entry.kind](entry.name, framework, steps, Path(folder), config))
