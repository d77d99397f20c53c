"""How well a world's arm follows a path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mygym.sim.world import World

SPEED = 0.15
"""m/s at which the path is followed, about: every arm's joints can."""

SETTLING, AROUND = 25, 100
"""Control steps to get to the path, and along it."""


def follow_sine(world: World) -> tuple[float, float]:
    """Lead the tool along a closed path of sines in all three axes, within the workspace's area of `reach`.

    The path's size is that of the area, at most 8 cm to each side, and so is the time for it.

    Args:
        world: Reset by this; its objects are put aside.

    Returns:
        m: the largest distance from the point to follow, and the largest distance from the path.
    """
    area = world.workspace.areas["reach"]
    low, high = np.array(area.low), np.array(area.high)
    half = np.minimum((high - low) / 2 * 0.8, 0.08)
    rate = SPEED / float(np.linalg.norm(half[:2]))
    phases = rate * world.dt * np.arange(AROUND)
    shape = np.stack([np.cos(phases), np.sin(phases), np.sin(2 * phases) / 2], axis=1)
    path = (low + high) / 2 + half * shape
    world.reset(np.tile((0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 1.0), (len(world.objects), 1)))
    for _ in range(SETTLING):
        world.step(world.action_towards(path[0]))
    behind, beside = 0.0, 0.0
    for point in path:
        world.step(world.action_towards(point))
        at = world.state.ee_position[0]
        behind = max(behind, float(np.linalg.norm(at - point)))
        beside = max(beside, float(_distance_to(path, at)))
    return behind, beside


def _distance_to(path: NDArray[np.float64], point: NDArray[np.float64]) -> float:
    """M from a point `(3,)` to the polygon through the points `(n, 3)`."""
    starts, ways = path[:-1], np.diff(path, axis=0)
    along = np.clip(((point - starts) * ways).sum(axis=1) / (ways**2).sum(axis=1), 0.0, 1.0)
    return float(np.linalg.norm(starts + along[:, None] * ways - point, axis=1).min())
