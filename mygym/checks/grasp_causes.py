"""Causes of failed grasps, measured in an episode of the scripted expert."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from mygym import api
from mygym.models.robot_spec import GripperSpec
from mygym.models.transforms import pose_matrix, quaternion_to_matrix
from mygym.sim.bullet import bullet
from mygym.sim.world import World
from mygym.types import FloatArray

FAR = 1.0
"""m up to which the distance from the tool point to a finger is measured."""

PROBE = 0.0005
"""m: radius of the ball at the tool point to which this distance is measured."""

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
    """Return why the scripted expert fails to grasp and carry the first object of an episode, with the keys to correct.

    Args:
        config: Config of a task that grasps.
        seed: Seed of a failed episode.
    """
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
    """Return the cause that the measurements of an episode show.

    Args:
        moments: All control steps.
        gaps: The gaps of the gripper.
        gripper: The gripper.
        name: Name of the object.
        width: m that the object needs between the fingers.
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
    client, robot = world.client, world.robot_body
    gripper = world.robot.arms[0].gripper
    assert gripper is not None, "the first arm has a gripper"
    count = bullet.getNumJoints(robot.body, physicsClientId=client)
    infos = [bullet.getJointInfo(robot.body, index, physicsClientId=client) for index in range(count)]
    joints = {info[1].decode(): index for index, info in enumerate(infos)}
    links = list(robot.fingers_of_links[0])
    if len(links) == 1:
        links.append(infos[links[0]][16])  # the link that carries the finger
    shape = bullet.createCollisionShape(bullet.GEOM_SPHERE, radius=PROBE, physicsClientId=client)
    tool = world.state.ee_position[0].tolist()
    probe = bullet.createMultiBody(0.0, shape, basePosition=tool, physicsClientId=client)

    def move(positions: Sequence[float]) -> None:
        for name, position in zip(gripper.joints, positions, strict=True):
            bullet.resetJointState(robot.body, joints[name], position, physicsClientId=client)

    def nearest() -> list[FloatArray]:
        """Return the point `(3,)` of each link that is nearest to the tool point."""
        points = [bullet.getClosestPoints(probe, robot.body, FAR, -1, link, physicsClientId=client) for link in links]
        return [np.array(min(of_link, key=lambda point: float(point[8]))[6]) for of_link in points if of_link]

    def poses() -> list[FloatArray]:
        states = [bullet.getLinkState(robot.body, link, 0, 1, physicsClientId=client) for link in links]
        return [pose_matrix(state[4], quaternion_to_matrix(state[5])) for state in states]

    move(gripper.open)
    inner, before = nearest(), poses()
    move(gripper.closed)
    moves = [pose @ np.linalg.inv(old) for pose, old in zip(poses(), before, strict=True)]
    moved = [(move @ [*point, 1.0])[:3] for move, point in zip(moves, inner, strict=False)]
    opened, closed = _widest(inner), _widest(nearest())
    return Gaps(opened, closed, opened - (_widest(moved) if len(gripper.links) > 1 else closed))


def _widest(points: Sequence[FloatArray]) -> float:
    """Return the largest distance between two points, m."""
    return max((float(np.linalg.norm(a - b)) for a, b in itertools.combinations(points, 2)), default=0.0)


def _cm(length: float) -> str:
    return f"{100 * length:.1f} cm"
