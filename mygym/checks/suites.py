"""`SUITES`, the suite of each kind of component, and `check`, which performs the suite of a kind on a component."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.checks.suite import Check, Outcome, perform
from mygym.registry import Entry, registry, resolve
from mygym.registry.entries import unknown_framework


@dataclass(frozen=True)
class Suite:
    """Conformance suite of a kind of component."""

    checks: str
    """Import string of the function that yields the checks of a component, so that listing the kinds imports none."""
    steps: int | None = None
    """Env steps of each training by default; None: nothing is trained."""

    def make(self) -> Callable[..., Iterator[Check]]:
        """Return the function that yields the checks."""
        function: Callable[..., Iterator[Check]] = resolve(self.checks)
        return function


SUITES: Mapping[str, Suite] = {
    "algorithm": Suite("mygym.checks.algorithms:algorithm_checks", steps=2_000),
    "policy": Suite("mygym.checks.policies:policy_checks", steps=500),
    "strategy": Suite("mygym.checks.strategies:strategy_checks", steps=2_000),
    "sampler": Suite("mygym.checks.strategies:sampler_checks", steps=500),
    "callback": Suite("mygym.checks.strategies:callback_checks", steps=500),
    "task": Suite("mygym.checks.tasks:task_checks"),
    "stage": Suite("mygym.checks.stages:stage_checks"),
    "predicate": Suite("mygym.checks.predicates:predicate_checks"),
    "reward": Suite("mygym.checks.rewards:reward_checks"),
    "observation": Suite("mygym.checks.observations:observation_checks"),
    "robot": Suite("mygym.checks.robots:robot_checks"),
    "controller": Suite("mygym.checks.controllers:controller_checks"),
    "workspace": Suite("mygym.checks.workspaces:workspace_checks"),
    "object": Suite("mygym.checks.objects:object_checks"),
}
"""Kind of component → its suite."""

CHECKED_KINDS = tuple(SUITES)
"""Kinds of components that have a suite."""

TRAINED = tuple(kind for kind, suite in SUITES.items() if suite.steps is not None)
"""Kinds whose suites train."""


def check(
    kind: str,
    name: str,
    framework: str = "pytorch",
    steps: int | None = None,
    config: Mapping[str, Any] | None = None,
    robot: str | None = None,
    skip: Collection[str] = (),
) -> Iterator[Outcome]:
    """Check a component; all files are written to a temporary folder, which is removed.

    Args:
        kind: A kind of `CHECKED_KINDS`.
        name: Name of the component.
        framework: Framework of an algorithm, of a policy that is trained, or of the algorithm that a strategy trains.
        steps: Env steps of each training; None: the default of the suite.
        config: Further config values of the runs, e.g. `{"algo_params": {"batch_size": 32}}`.
        robot: Robot for the checks of a workspace; None: all robots that are at home in it.
        skip: Names of checks to leave out, e.g. `learns`.

    Returns:
        The outcome of each check, as soon as it is known.

    Raises:
        ConfigError: A name in `skip` is none of the checks.
        RegistryError: The component does not exist, or not in this framework.
    """
    entry = registry(kind).get(name, "algo" if kind == "algorithm" else kind)
    suite = SUITES[kind]
    if kind == "workspace":
        arm = None if robot is None else registry("robot").get(robot, "--robot").name
        return perform(entry, suite.make()(entry.name, arm), skip)
    if suite.steps is None:
        return perform(entry, suite.make()(entry.name), skip)
    if entry.frameworks and framework not in entry.frameworks:
        raise unknown_framework(framework, dict.fromkeys(entry.frameworks), f"{kind} {name!r}")
    return _train(entry, suite, framework, steps or suite.steps, config or {}, skip)


def _train(
    entry: Entry, suite: Suite, framework: str, steps: int, config: Mapping[str, Any], skip: Collection[str]
) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(prefix="mygym-check-") as folder:
        yield from perform(entry, suite.make()(entry.name, framework, steps, Path(folder), config), skip)
