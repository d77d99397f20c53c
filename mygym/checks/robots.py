"""The conformance suite of robots: bodies with weight, a home without collisions, and an arm that gets everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mygym import training
from mygym.checks.suite import Check, demand
from mygym.checks.tasks import expert_solves
from mygym.registry import registry
from mygym.sim.inspection import collisions
from mygym.sim.robot import RobotSpec, load_robot

EPISODES = 40


def robot_checks(name: str) -> Iterator[Check]:
    """The suite of one robot, on the default workspace, with every controller."""
    yield Check("loads", lambda: demand(_load(name).joints, "has no joints"))
    yield Check("home", lambda: stands_free(name), needs=("loads",))
    for control in registry("controller").names():
        config = {"task": "reach", "robot": name, "control": control}
        yield Check(f"reaches by {control}", lambda config=config: expert_solves(config, EPISODES), needs=("loads",))  # type: ignore[misc]


def stands_free(robot: str, workspace: str | None = None) -> None:
    """Demand that nothing is inside anything else where episodes begin."""
    with training.make_env({"robot": robot, "workspace": workspace}) as env:
        env.reset(seed=0)
        _demand_none(collisions(env.world))


def _load(name: str) -> RobotSpec:
    return load_robot(Path(registry("robot").get(name).load()))


def _demand_none(mistakes: list[str]) -> None:
    demand(not mistakes, "; ".join(mistakes))
