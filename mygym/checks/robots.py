"""Conformance suite of robots: limits, collisions, kinematics, exact resets, grasps, paths, a picture, and tasks."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.cards import EXPERT, expert_shortfall
from mygym.checks.grasp_causes import grasp_cause
from mygym.checks.path_following import follow_sine
from mygym.checks.suite import Check, CheckFailed, CheckLeftOut, demand
from mygym.checks.tasks import expert_solves
from mygym.envs.supported import supported_tasks
from mygym.errors import ConfigError
from mygym.models.base_placement import place_base
from mygym.models.freedom import count_joints, freedom
from mygym.models.objects import load_object, objects_for_hand
from mygym.models.robot_spec import RobotSpec
from mygym.models.workspace import load_workspace
from mygym.registry import registry
from mygym.runs.evaluation import Evaluation
from mygym.sim.inspection import collisions, reached
from mygym.sim.rendering.camera import Camera
from mygym.sim.robot_lookup import find_robot
from mygym.sim.world import World
from mygym.tasks.lookup import find_task
from mygym.types import FloatArray

EPISODES = 25

GRASPS = 10
"""Number of objects that the scripted expert grasps and carries."""

TASK_EPISODES = 3
"""Episodes of each task whose first episode fails; the expert solves most of them."""

VELOCITIES, EFFORTS = (0.05, 40.0), (0.5, 1000.0)
"""rad/s and N m: smallest and largest joint limits of real arms."""

MIN_JOINT_RANGE = 0.2
"""rad: smallest range of a joint."""

RESIDUAL = 0.005
"""m: largest error of inverse kinematics, with a weighted share for the orientation."""

MAX_LAG, MAX_DEVIATION = 0.03, 0.012
"""m: largest distance of the tool to a point that moves along a path, and to the path."""

MIN_PICTURE_SHARE = 0.005
"""Smallest share of the picture that the robot fills."""


def robot_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a robot, on the default table, with every controller."""
    yield Check("loads", lambda: _describe_arms(find_robot(name)))
    yield Check("limits", lambda: _has_realistic_limits(find_robot(name)), needs=("loads",))
    yield Check("home", lambda: stands_free(name), needs=("loads",))
    yield Check("inverse kinematics", lambda: _reaches_the_area(name), needs=("loads",))
    yield Check("exact reset", lambda: repeats_exactly(name), needs=("loads",))
    yield Check("picture", lambda: _is_visible(name), needs=("loads",))
    yield Check("grasps", lambda: grasps(name), needs=("loads",))
    for control in registry("controller").names():
        yield Check(f"tracks by {control}", lambda control=control: follows_path(name, control), needs=("loads",))  # type: ignore[misc]
        config = {"task": "reach", "robot": name, "control": control}
        yield Check(f"reaches by {control}", lambda config=config: expert_solves(config, EPISODES), needs=("loads",))  # type: ignore[misc]

    for task in checked_tasks():
        yield Check(f"task {task}", lambda task=task: does_task(name, task), needs=("loads",))  # type: ignore[misc]


def does_task(name: str, task: str) -> str:
    """Demand that the scripted expert solves a task in an episode, or else in most of a few episodes.

    Raises:
        CheckFailed: The expert fails, and the task's workspace lists the robot.
        CheckLeftOut: The robot cannot do the task; or the expert fails, and the workspace does not list the robot.
    """
    config = {"task": task, "robot": name}
    if reason := supported_tasks(name)[task]:
        raise CheckLeftOut(reason)
    try:
        if _by_expert(config, 1).solved:
            return "solved"
    except ConfigError as error:
        raise CheckLeftOut(str(error)) from error
    evaluation = _by_expert(config, TASK_EPISODES)
    if evaluation.solved > TASK_EPISODES // 2:
        return f"solved in {evaluation.solved} of {TASK_EPISODES} episodes"
    listed = load_workspace(registry("workspace").get(find_task(task).workspace).load()).robots
    raise (CheckFailed if find_robot(name).name in listed else CheckLeftOut)(expert_shortfall(evaluation))


def checked_tasks() -> list[str]:
    """Return the names of the tasks that a robot is tried on."""
    return registry("task").names()


def stands_free(robot: str, workspace: str | None = None) -> None:
    """Demand that nothing collides at the start of an episode."""
    with api.make_env({"robot": robot, "workspace": workspace}) as env:
        env.reset(seed=0)
        findings = collisions(env.world)
        demand(not findings, "; ".join(findings))


def grasps(name: str) -> str:
    """Demand that the scripted expert grasps and carries a cube, if the first arm has a gripper.

    A hand that is too narrow for the cube is tried with the most similar object that fits.

    Raises:
        CheckFailed: It fails.
        CheckLeftOut: The arm cannot hold its tool upright.
    """
    gripper, spec, why = find_robot(name).arms[0].gripper, load_object("cube"), ""
    if gripper is None:
        return "no gripper"
    if leans := freedom(find_robot(name)).leans:
        raise CheckLeftOut(leans)
    if gripper.width <= spec.needed_opening:
        opens = f"the hand opens {100 * gripper.width:.1f} cm, too little for a cube of {100 * spec.grasp_width:g} cm"
        fitting = objects_for_hand(gripper.width, spec)
        if not fitting:
            return f"{opens}, and for every other object"
        spec, why = load_object(fitting[0]), f": {opens} (--set task_params.object={fitting[0]})"
    config = {"task": "pick_and_place", "robot": name, "task_params": {"object": spec.name}}
    evaluation = _by_expert(config, GRASPS)
    if finding := expert_shortfall(evaluation):
        frequent = max(evaluation.failures, key=lambda failure: evaluation.failed_in(failure.stage))
        raise CheckFailed(f"{grasp_cause(config, frequent.seed)}; {finding}{why}")
    return f"{GRASPS} × {spec.name} with {', '.join(gripper.links)}{why}"


def _by_expert(config: Mapping[str, Any], episodes: int) -> Evaluation:
    """Evaluate the scripted expert without the notes on an inferred robot, which would be in each finding."""
    with contextlib.redirect_stderr(io.StringIO()):
        return api.evaluate(policy=EXPERT, config=dict(config), episodes=episodes)


def make_world(name: str, control: str = "ee_delta") -> World:
    """Return a world with a robot on the default table, without objects."""
    return api.make_env({"robot": name, "control": control}).world


def _describe_arms(spec: RobotSpec) -> str:
    return ", ".join(f"{count_joints(len(arm.joints))}{' and a gripper' if arm.gripper else ''}" for arm in spec.arms)


def _has_realistic_limits(spec: RobotSpec) -> None:
    for arm in spec.arms:
        for joint in arm.joints:
            limits = (("velocity", joint.velocity, VELOCITIES), ("effort", joint.effort, EFFORTS))
            for key, value, (low, high) in limits:
                allowed = low <= value <= high
                demand(allowed, f"{joint.name}: {key} limit {value:g}; real arms have {low} to {high}")
            joint_range = joint.upper - joint.lower
            demand(joint_range >= MIN_JOINT_RANGE, f"{joint.name} turns by {joint_range:.3f} rad only")


def _reaches_the_area(name: str) -> str:
    """The tool reaches every point of a grid over the area `reach`."""
    try:
        with closing(make_world(name)) as world:
            share, point = reached(world, world.workspace.areas["reach"])
    except ConfigError as error:
        raise CheckFailed(f"{error}; {_placement(name)}") from error
    if point is not None:
        finding = f"does not reach {1 - share:.0%} of the table's area, e.g. {point}, within {RESIDUAL} m"
        raise CheckFailed(f"{finding}; {_placement(name)}")
    return f"{share:.0%} of the area"


def _placement(name: str) -> str:
    """Return the base pose and the home that suit the tool, for corrected descriptions of inferred robots."""
    spec = find_robot(name)
    placed, share = place_base(spec, load_workspace("table"))
    values = f"base_position: {list(placed.base_position)}"
    if placed.base_orientation != spec.base_orientation:
        values += f", base_orientation: {list(placed.base_orientation)}"
    if placed.area_scale != spec.area_scale:
        values += f", area_scale: {placed.area_scale:g}"
    home = [joint.home for joint in placed.joints]
    return f"with {values} and home: {home} it reaches {share:.0%} of the corners"


def repeats_exactly(name: str, control: str = "ee_delta") -> None:
    """Demand that the same actions after a reset have the same results, to the bit, whatever happened before."""
    with closing(make_world(name, control)) as world:
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1.0, 1.0, (12, world.action_size))
        expected = _final_joint_state(world, actions)
        for history in range(3):
            _final_joint_state(world, rng.uniform(-1.0, 1.0, (5 + history, world.action_size)))
            same = np.array_equal(_final_joint_state(world, actions), expected)
            demand(same, f"moves differently after history {history}")


def _final_joint_state(world: World, actions: FloatArray) -> FloatArray:
    world.reset(np.zeros((0, 7)))
    for action in actions:
        world.step(action)
    return np.concatenate([world.state.joint_position[0], world.state.joint_velocity[0]])


def _is_visible(name: str) -> str:
    with closing(make_world(name)) as world, closing(Camera(world)) as camera:
        share = camera.robot_share(96, 72)
        demand(share >= MIN_PICTURE_SHARE, f"fills {share:.1%} of the picture")
        return f"{share:.0%} of the picture"


def follows_path(name: str, control: str) -> str:
    """Demand that the tool follows a point on a path in the area `reach`; return lag and deviation in words."""
    with closing(make_world(name, control)) as world:
        lag, deviation = follow_sine(world)
        demand(lag <= MAX_LAG, f"stays {1000 * lag:.1f} mm behind")
        demand(deviation <= MAX_DEVIATION, f"is {1000 * deviation:.1f} mm beside the path")
        return f"{1000 * lag:.1f} mm behind, {1000 * deviation:.1f} mm beside"
