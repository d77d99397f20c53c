"""Measure how closely an arm follows a path."""

from __future__ import annotations

import numpy as np

from mygym.sim.world import World
from mygym.types import FloatArray

SPEED = 0.15
"""m/s, approximate speed of the point on the path; within the joint limits of every arm."""

APPROACH_STEPS, PATH_STEPS = 25, 100
"""Control steps to the start of the path, and along it."""


def follow_sine(world: World) -> tuple[float, float]:
    """Move the tool along a closed path of sines in all three axes, within the workspace's area `reach`.

    Size and duration of the path follow from the size of the area; it extends at most 8 cm to each side.

    Args:
        world: The world; it is reset, with its objects out of the way.

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
