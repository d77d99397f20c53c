"""What a world looks like to somebody who doubts its descriptions: what collides, what weighs nothing."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np

from mygym.sim.bullet import bullet
from mygym.sim.robot import RobotSpec
from mygym.sim.urdf import DYNAMIC, inertial, merge_fixed_joints, read_joints, read_urdf
from mygym.sim.world import World

DEPTH = 0.001
"""m by which shapes may overlap: those of neighbouring links meet in their joint."""

NEIGHBOURS = 2
"""Joints between links whose shapes may overlap."""


def collisions(world: World) -> list[str]:
    """What of the arm is inside something else now, in words: `wrist is inside table`.

    The arm's base may stand in what it stands on, and links may overlap with their next but one.
    """
    client, body = world._client, world._arm.body
    count = bullet.getNumJoints(body, physicsClientId=client)
    infos = [bullet.getJointInfo(body, index, physicsClientId=client) for index in range(count)]
    names = [info[12].decode() for info in infos]
    parents = [info[16] for info in infos]
    found = []
    for name, others in world._surroundings.bodies.items():
        for other in others:
            found += [f"{names[link]} is inside {name}" for link in range(count) if _overlap(client, body, link, other)]
    for one in range(count):
        near = {one}
        for _ in range(NEIGHBOURS):
            near |= {parents[link] for link in near if link >= 0}
        found += [
            f"{names[one]} is inside {names[other]}"
            for other in range(one)
            if other not in near and parents[other] != parents[one] and _overlap(client, body, one, body, other)
        ]
    return found


def _overlap(client: int, body: int, link: int, other: int, its_link: int | None = None) -> bool:
    which = {} if its_link is None else {"linkIndexB": its_link}
    points = bullet.getClosestPoints(body, other, 0.0, linkIndexA=link, physicsClientId=client, **which)
    return any(point[8] < -DEPTH for point in points)


def weightless(robot: RobotSpec) -> list[str]:
    """What of the moving links' masses and inertias no body has, in words."""
    root = copy.deepcopy(read_urdf(Path(robot.urdf)))
    merge_fixed_joints(root)
    moving = {joint.child for joint in read_joints(root).values() if joint.kind in DYNAMIC}
    found = []
    for link in root.findall("link"):
        name = link.get("name", "")
        if name not in moving:
            continue
        mass, _, inertia = inertial(link)
        moments = np.linalg.eigvalsh(inertia)
        if not mass > 0:
            found.append(f"{name} has a mass of {mass:g} kg")
        elif not (moments > 0).all():
            found.append(f"{name} has principal moments of inertia of {moments.tolist()} kg m²")
    return found
