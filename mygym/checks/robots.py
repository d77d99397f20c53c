"""The conformance suite of robots: sane limits, a free home, kinematics that close, motors that follow, a picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from mygym import api
from mygym.checks.suite import Check, demand
from mygym.checks.tasks import expert_solves
from mygym.checks.tracking import follow_sine
from mygym.models.robot import RobotSpec
from mygym.registry import registry
from mygym.sim.inference import count_joints, find_robot
from mygym.sim.inspection import collisions, reached
from mygym.sim.rendering.camera import Camera
from mygym.sim.world import World

EPISODES = 25

SPEEDS, TORQUES = (0.05, 40.0), (0.5, 1000.0)
"""rad/s and N m between which real arms' limits lie."""

RANGE = 0.2
"""rad: a joint that turns less is none."""

RESIDUAL = 0.005
"""m between where the tool is wanted and where inverse kinematics takes it, orientation weighted in."""

BEHIND, BESIDE = 0.03, 0.012
"""m by which the tool may lag behind a point that goes around, and be beside its path."""

SEEN = 0.005
"""Part of the picture that the robot must fill."""


def robot_checks(name: str) -> Iterator[Check]:
    """The suite of one robot, on the default table, with every controller."""
    yield Check("loads", lambda: _arms(find_robot(name)))
    yield Check("limits", lambda: _has_sane_limits(find_robot(name)), needs=("loads",))
    yield Check("home", lambda: stands_free(name), needs=("loads",))
    yield Check("inverse kinematics", lambda: _gets_everywhere(name), needs=("loads",))
    yield Check("exact reset", lambda: _repeats_itself(name), needs=("loads",))
    yield Check("picture", lambda: _is_seen(name), needs=("loads",))
    for control in registry("controller").names():
        yield Check(f"tracks by {control}", lambda control=control: _tracks(name, control), needs=("loads",))  # type: ignore[misc]
        config = {"task": "reach", "robot": name, "control": control}
        yield Check(f"reaches by {control}", lambda config=config: expert_solves(config, EPISODES), needs=("loads",))  # type: ignore[misc]


def stands_free(robot: str, workspace: str | None = None) -> None:
    """Demand that nothing is inside anything else where episodes begin."""
    with api.make_env({"robot": robot, "workspace": workspace}) as env:
        env.reset(seed=0)
        mistakes = collisions(env.world)
        demand(not mistakes, "; ".join(mistakes))


def _world(name: str, control: str = "ee_delta") -> World:
    return api.make_env({"robot": name, "control": control}).world


def _arms(spec: RobotSpec) -> str:
    return ", ".join(f"{count_joints(len(arm.joints))}{' and a gripper' if arm.gripper else ''}" for arm in spec.arms)


def _has_sane_limits(spec: RobotSpec) -> None:
    for arm in spec.arms:
        for joint in arm.joints:
            for key, value, (low, high) in (("velocity", joint.velocity, SPEEDS), ("effort", joint.effort, TORQUES)):
                demand(
                    low <= value <= high, f"{joint.name}: a limit of {key} of {value:g}; real ones are {low} to {high}"
                )
            turns = joint.upper - joint.lower
            demand(turns >= RANGE, f"{joint.name} turns by {turns:.3f} rad only")


def _gets_everywhere(name: str) -> str:
    """In a grid over the area of `reach`."""
    with closing(_world(name)) as world:
        share, where = reached(world, world.workspace.areas["reach"])
        demand(where is None, f"does not get to {1 - share:.0%} of the table's area, e.g. {where}, to {RESIDUAL} m")
        return f"{share:.0%} of the area"


def _repeats_itself(name: str) -> None:
    """The same actions have the same consequences, to the bit, whatever happened before."""
    with closing(_world(name)) as world:
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1.0, 1.0, (12, world.action_size))
        expected = _moved(world, actions)
        for history in range(3):
            _moved(world, rng.uniform(-1.0, 1.0, (5 + history, world.action_size)))
            demand(np.array_equal(_moved(world, actions), expected), f"moves otherwise after history {history}")


def _moved(world: World, actions: NDArray[np.float64]) -> NDArray[np.float64]:
    world.reset(np.zeros((0, 7)))
    for action in actions:
        world.step(action)
    return np.concatenate([world.state.joint_position[0], world.state.joint_velocity[0]])


def _is_seen(name: str) -> str:
    with closing(_world(name)) as world, closing(Camera(world)) as camera:
        share = camera.robot_share(96, 72)
        demand(share >= SEEN, f"fills {share:.1%} of the picture")
        return f"{share:.0%} of the picture"


def _tracks(name: str, control: str) -> str:
    """A point that goes around in the area of `reach`."""
    with closing(_world(name, control)) as world:
        behind, beside = follow_sine(world)
        demand(behind <= BEHIND, f"stays {1000 * behind:.1f} mm behind")
        demand(beside <= BESIDE, f"is {1000 * beside:.1f} mm beside the path")
        return f"{1000 * behind:.1f} mm behind, {1000 * beside:.1f} mm beside"
