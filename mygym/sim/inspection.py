"""What a world looks like to somebody who doubts its descriptions: what collides."""

from __future__ import annotations

from mygym.sim.bullet import bullet
from mygym.sim.world import World

DEPTH = 0.001
"""m by which shapes may overlap: those of neighbouring links meet in their joint."""

NEIGHBOURS = 2
"""Joints between links whose shapes may overlap."""


def collisions(world: World) -> list[str]:
    """What of the arm is inside something else now, in words: `wrist is inside table`.

    The arm's base may stand in what it stands on, and links may overlap with their next but one.
    """
    client, body = world._client, world._body.body
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
