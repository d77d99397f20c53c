"""The conformance suite of workspaces: areas where they should be, and within the default robot's reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mygym import training
from mygym.checks.robots import stands_free
from mygym.checks.suite import Check, demand
from mygym.checks.tasks import expert_solves
from mygym.config import RunConfig
from mygym.registry import registry
from mygym.sim.workspace import Area, WorkspaceSpec, load_workspace

EPISODES = 40
TASKS = ("reach", "push")
"""What the expert does in it: without and with an object."""

AREAS = {"reach": "tool_bounds", "object": "bounds", "surface": "bounds", "air": "tool_bounds"}
"""Areas that tasks draw from, and the box that each must be in."""

ROBOT = str(RunConfig().robot)


def workspace_checks(name: str) -> Iterator[Check]:
    """The suite of one workspace, with the default robot."""
    yield Check("loads", lambda: demand(_load(name).cameras, "has no cameras"))
    yield Check("areas", lambda: _has_sane_areas(_load(name)), needs=("loads",))
    yield Check("home", lambda: stands_free(ROBOT, name), needs=("loads",))
    yield Check("within reach", lambda: _is_within_reach(name), needs=("areas",))
    for task in TASKS:
        config = {"task": task, "workspace": name}
        yield Check(f"expert solves {task}", lambda config=config: expert_solves(config, EPISODES), needs=("areas",))  # type: ignore[misc]


def _load(name: str) -> WorkspaceSpec:
    return load_workspace(Path(registry("workspace").get(name).load()))


def _has_sane_areas(spec: WorkspaceSpec) -> None:
    missing = [name for name in AREAS if name not in spec.areas]
    demand(not missing, f"areas: {', '.join(missing)} missing, which tasks draw from")
    for name, outer in AREAS.items():
        area, box = spec.areas[name], getattr(spec, outer)
        demand(_within(area, box), f"areas.{name} is not within {outer}")
        for fixture, one in spec.fixtures.items():
            low = np.array(one.position) - np.array(one.size) / 2
            high = np.array(one.position) + np.array(one.size) / 2
            inside = (np.array(area.low) < high).all() and (np.array(area.high) > low).all()
            demand(not (one.collides and inside), f"areas.{name} is partly inside the fixture {fixture}")


def _within(inner: Area, outer: Area) -> bool:
    return bool((np.array(inner.low) >= outer.low).all() and (np.array(inner.high) <= outer.high).all())


def _is_within_reach(name: str) -> None:
    """Every corner of every area, at the height of the default object's centre where objects lie."""
    with training.make_env({"task": "push", "workspace": name}) as env:
        lift = np.array([0.0, 0.0, env.world.objects[0].half_height])
        for area in AREAS:
            box = env.workspace.areas[area]
            corners = np.array(np.meshgrid(*zip(box.low, box.high, strict=True))).reshape(3, -1).T
            corners = corners + lift if AREAS[area] == "bounds" else corners
            out = corners[~env.world.reachable(corners)]
            where = out[0].round(3).tolist() if len(out) else ""
            demand(not len(out), f"areas.{area}: {ROBOT} does not reach {where}")
