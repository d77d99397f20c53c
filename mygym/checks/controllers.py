"""Conformance suite of controllers: commands, exact resets, following a path, and reaching with the expert."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from mygym.checks.robots import follows_path, repeats_exactly, world_of
from mygym.checks.suite import Check, demand
from mygym.checks.tasks import expert_solves
from mygym.config import RunConfig
from mygym.registry import registry
from mygym.robotics.controllers import Controller

ROBOT = str(RunConfig().robot)
"""Robot for the checks of controllers."""

EPISODES = 25
STEPS = 20
MODES = ("position", "velocity", "torque")


def controller_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a controller, with the default robot on the default table."""
    yield Check("loads", lambda: _is_controller(name))
    yield Check("commands", lambda: _commands(name), needs=("loads",))
    yield Check("exact reset", lambda: repeats_exactly(ROBOT, name), needs=("commands",))
    yield Check("follows a path", lambda: follows_path(ROBOT, name), needs=("commands",))
    config = {"task": "reach", "robot": ROBOT, "control": name}
    yield Check("reaches", lambda: expert_solves(config, EPISODES), needs=("commands",))


def _is_controller(name: str) -> None:
    cls = registry("controller").get(name).load()
    demand(isinstance(cls, type) and issubclass(cls, Controller), f"{cls!r} is no subclass of Controller")
    demand(cls.mode in MODES, f"mode is {cls.mode!r}; allowed: {', '.join(MODES)}")


def _commands(name: str) -> str:
    """Commands are finite, one for each joint, and the measured posture is unchanged."""
    with closing(world_of(ROBOT, name)) as world:
        controller, rng = world.controller, np.random.default_rng(0)
        names, home = controller.names, controller.chain.home
        demand(len(set(names)) == len(names) > 0, f"names are {names}; each component needs a different name")
        joints, position = home.copy(), controller.kinematics.pose(home)[:3, 3].copy()
        controller.reset(joints, position)
        for _ in range(STEPS):
            action = rng.uniform(-1.0, 1.0, len(names))
            before = [action.copy(), joints.copy(), position.copy()]
            command = np.asarray(controller.command(action, joints, position))
            unchanged = all(map(np.array_equal, before, [action, joints, position]))
            demand(unchanged, "command changes the arrays that it gets")
            demand(command.shape == home.shape, f"command has shape {command.shape}, not {home.shape}")
            demand(np.isfinite(command).all(), f"command is not finite: {command.tolist()}")
        return f"{', '.join(names)}; {controller.mode}"
