"""Conformance suites of robots and controllers: limits, collisions, exact resets, grasps, paths, pictures, tasks."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.suite import Check, CheckFailed, CheckLeftOut, demand
from mygym.checks.tasks import EXPERT, expert_shortfall, expert_solves
from mygym.config import RunConfig
from mygym.engines.engine import inspection_of
from mygym.engines.rendering.camera import Camera
from mygym.engines.world import World
from mygym.envs.areas import reached
from mygym.envs.supported import supported_tasks
from mygym.errors import ConfigError, counted
from mygym.registry import registry
from mygym.robotics.controllers import Controller
from mygym.robotics.inference.base_placement import freedom, place_base
from mygym.robotics.objects import load_object, objects_for_hand
from mygym.robotics.robot import find_robot
from mygym.robotics.robot_spec import GripperSpec, RobotSpec
from mygym.robotics.workspace import find_workspace, load_workspace
from mygym.tasks.lookup import find_task
from mygym.training.evaluation import Evaluation
from mygym.types import FloatArray

HELD_HEIGHT = 0.015
"""m by which a lifted object has risen."""

STILL = 0.3
"""Share of the gap by which the fingers come closer at least when they close."""

SLACK = 0.002
"""m by which an object is at least wider or narrower than a gap that does not fit it."""

SHOVED = 0.01
"""m by which the open hand may move an object."""


@dataclass(frozen=True)
class Moment:
    """Measurements of one control step."""

    stage: str
    closes: bool
    """Whether the gripper is commanded to close."""
    miss: float
    """m from the tool point to the object's centre."""
    moved: float
    """m by which the object lies beside its start."""
    risen: float
    """m above its start."""
    pressing: tuple[bool, ...]
    """Whether each finger link presses on the object."""
    touched: bool
    """Whether any link presses on the object."""


@dataclass(frozen=True)
class Gaps:
    """Distances between the fingers at the tool point, m, without an object."""

    opened: float
    closed: float
    travel: float
    """m by which the points that are between the open fingers come closer: 0 if all fingers move to the same side."""


def grasp_cause(config: Mapping[str, Any], seed: int) -> str:
    """Return why the expert fails to grasp and carry the first object of a failed episode, with the keys to correct."""
    with closing(api.make_env(dict(config))) as env:
        world: World = env.world
        gripper = world.robot.arms[0].gripper
        assert gripper is not None, "a task that grasps has a robot with a gripper"
        gaps = finger_gaps(world)
        env.reset(seed=seed)
        labels = (*env.task.labels, "done")
        start = world.state.object_position[0, 0].copy()
        moments = []
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = env.step(env.expert_action())
            ended = terminated or truncated
            moments.append(_measure(world, start, labels[int(env.progress.stage[0])]))
        spec = world.objects[0]
        return explain(moments, gaps, gripper, spec.name, spec.grasp_width)


def explain(moments: Sequence[Moment], gaps: Gaps, gripper: GripperSpec, name: str, width: float) -> str:
    """Return the cause of a failed grasp, which the measurements of all control steps of an episode show.

    `name` is that of the object, and `width` the distance in m that it needs between the fingers.
    """
    opened, closed = _cm(gaps.opened), _cm(gaps.closed)
    closing = [moment for moment in moments if moment.closes]
    held = any(all(moment.pressing) for moment in closing)
    if gaps.travel < STILL * gaps.opened:
        text = f"the gap never closes: the fingers are {opened} apart, and come {_cm(max(gaps.travel, 0.0))} closer"
        return f"{text} (gripper.closed, gripper.open)"
    if gaps.opened < width - SLACK:
        text = f"the opening is too narrow: the open fingers are {opened} apart, {name} is {_cm(width)} wide"
        return f"{text} (gripper.open)"
    if gaps.closed > width + SLACK and not held:
        text = f"the gap never closes: the closed fingers are {closed} apart, {name} is {_cm(width)} wide"
        return f"{text} (gripper.closed)"
    if not closing:
        nearest = min(moments, key=lambda moment: moment.miss)
        shoved = f" and pushes {name} away by {_cm(moments[-1].moved)}" if moments[-1].moved > SHOVED else ""
        return f"the tool misses {name} by {_cm(nearest.miss)}{shoved}, so that the fingers never close (end_effector)"
    pressing = [any(moment.pressing[finger] for moment in closing) for finger in range(len(gripper.links))]
    if not any(pressing):
        return _untouched(closing, gripper, name)
    if not held:
        idle = [link for link, pressed in zip(gripper.links, pressing, strict=True) if not pressed]
        which = f"{', '.join(idle)} never touches {name}" if idle else f"its fingers never press on {name} together"
        beside = f"the tool is {_cm(closing[0].miss)} from its centre when the fingers close"
        return f"{which}: {beside} (gripper, end_effector)"
    highest = max(moment.risen for moment in closing)
    if highest < HELD_HEIGHT:
        return f"{name} slips out of the fingers when they lift it (gripper.force, gripper.friction)"
    last = moments[-1]
    if not any(last.pressing) and last.risen < HELD_HEIGHT and last.closes:
        return f"{name} slips out of the fingers at {_cm(highest)} above its start (gripper.force, gripper.friction)"
    return f"it holds {name}, and fails in {last.stage}"


def _untouched(closing: Sequence[Moment], gripper: GripperSpec, name: str) -> str:
    """Return why no finger touches an object around which the gripper closes."""
    miss = _cm(closing[0].miss)
    if any(moment.touched for moment in closing):
        links = ", ".join(gripper.links)
        return f"another link than {links} touches {name}, {miss} from the tool point (gripper.links, end_effector)"
    text = f"the fingers do not touch {name}: the tool misses its centre by {miss} when they close"
    return f"{text} (end_effector, gripper)"


def _measure(world: World, start: FloatArray, stage: str) -> Moment:
    state = world.state
    position = state.object_position[0, 0]
    return Moment(
        stage=stage,
        closes=float(state.gripper_command[0]) < 0.5,
        miss=float(np.linalg.norm(state.ee_position[0] - position)),
        moved=float(np.linalg.norm((position - start)[:2])),
        risen=float(position[2] - start[2]),
        pressing=tuple(bool(pressed) for pressed in state.finger_contact[0, 0]),
        touched=bool(state.touch[0, 0]),
    )


def finger_gaps(world: World) -> Gaps:
    """Measure the gaps of the first arm's gripper; a single finger closes on the link of the tool point.

    The world needs a reset afterwards.
    """
    gripper = world.robot.arms[0].gripper
    assert gripper is not None, "the first arm has a gripper"
    with inspection_of(world) as shapes:
        before, after = shapes.finger_points()
    inner = [point for point, _ in before]
    moved = [
        (pose @ np.linalg.inv(old) @ [*point, 1.0])[:3] for (point, old), (_, pose) in zip(before, after, strict=False)
    ]
    opened, closed = _widest(inner), _widest([point for point, _ in after])
    return Gaps(opened, closed, opened - (_widest(moved) if len(gripper.links) > 1 else closed))


def _widest(points: Sequence[FloatArray]) -> float:
    """Return the largest distance between two points, m."""
    return max((float(np.linalg.norm(a - b)) for a, b in itertools.combinations(points, 2)), default=0.0)


def _cm(length: float) -> str:
    return f"{100 * length:.1f} cm"


SPEED = 0.15
"""m/s, approximate speed of the point on the path; within the joint limits of every arm."""

APPROACH_STEPS, PATH_STEPS = 25, 100
"""Control steps to the start of the path, and along it."""


def follow_sine(world: World) -> tuple[float, float]:
    """Move the tool along a closed path of sines in all three axes, within the workspace's area `reach`.

    Size and duration of the path follow from the size of the area; it extends at most 8 cm to each side. The world is
    reset, with its objects out of the way.

    Returns:
        m: the largest distance to the moving point (lag), and the largest distance to the path (deviation).
    """
    area = world.workspace.areas["reach"]
    low, high = np.array(area.low), np.array(area.high)
    half = np.minimum((high - low) / 2 * 0.8, 0.08)
    rate = SPEED / float(np.linalg.norm(half[:2]))
    phases = rate * world.dt * np.arange(PATH_STEPS)
    shape = np.stack([np.cos(phases), np.sin(phases), np.sin(2 * phases) / 2], axis=1)
    path = (low + high) / 2 + half * shape
    world.reset(np.tile((0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 1.0), (len(world.objects), 1)))
    for _ in range(APPROACH_STEPS):
        world.step(world.action_towards(path[0]))
    lag, deviation = 0.0, 0.0
    for point in path:
        world.step(world.action_towards(point))
        position = world.state.ee_position[0]
        lag = max(lag, float(np.linalg.norm(position - point)))
        deviation = max(deviation, _distance_to_path(path, position))
    return lag, deviation


def _distance_to_path(path: FloatArray, point: FloatArray) -> float:
    """Return the distance in m from a point `(3,)` to the polygon through the points `(n, 3)`."""
    starts, edges = path[:-1], np.diff(path, axis=0)
    shares = np.clip(((point - starts) * edges).sum(axis=1) / (edges**2).sum(axis=1), 0.0, 1.0)
    return float(np.linalg.norm(starts + shares[:, None] * edges - point, axis=1).min())


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
    listed = find_workspace(find_task(task).workspace).robots
    raise (CheckFailed if find_robot(name).name in listed else CheckLeftOut)(expert_shortfall(evaluation))


def checked_tasks() -> list[str]:
    """Return the names of the tasks that a robot is tried on."""
    return registry("task").names()


def stands_free(robot: str, workspace: str | None = None) -> None:
    """Demand that nothing collides at the start of an episode."""
    with api.make_env({"robot": robot, "workspace": workspace}) as env:
        env.reset(seed=0)
        with inspection_of(env.world) as shapes:
            findings = shapes.collisions()
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


def world_of(name: str, control: str = "ee_delta") -> World:
    """Return a world with a robot on the default table, without objects."""
    return api.make_env({"robot": name, "control": control}).world


def _describe_arms(spec: RobotSpec) -> str:
    return ", ".join(
        f"{counted(len(arm.joints), 'joint')}{' and a gripper' if arm.gripper else ''}" for arm in spec.arms
    )


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
        with closing(world_of(name)) as world:
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
    with closing(world_of(name, control)) as world:
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
    with closing(world_of(name)) as world, closing(Camera(world)) as camera:
        share = camera.robot_mask(96, 72).mean()
        demand(share >= MIN_PICTURE_SHARE, f"fills {share:.1%} of the picture")
        return f"{share:.0%} of the picture"


def follows_path(name: str, control: str) -> str:
    """Demand that the tool follows a point on a path in the area `reach`; return lag and deviation in words."""
    with closing(world_of(name, control)) as world:
        lag, deviation = follow_sine(world)
        demand(lag <= MAX_LAG, f"stays {1000 * lag:.1f} mm behind")
        demand(deviation <= MAX_DEVIATION, f"is {1000 * deviation:.1f} mm beside the path")
        return f"{1000 * lag:.1f} mm behind, {1000 * deviation:.1f} mm beside"


ROBOT = str(RunConfig().robot)
"""Robot for the checks of controllers."""

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
