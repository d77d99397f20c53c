"""Motion of an undisturbed object: put down on the table, or dropped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mygym.sim.bullet import bullet
from mygym.sim.world import World
from mygym.types import FloatArray


@dataclass(frozen=True, eq=False)
class Rest:
    """Trajectory of the first object of a world, in control steps from a reset."""

    position: FloatArray
    """`(n + 1, 3)` m, of the centre of mass."""
    orientation: FloatArray
    """`(n + 1, 4)` quaternions."""
    speed: FloatArray
    """`(n + 1,)` m/s."""
    spin: FloatArray
    """`(n + 1,)` rad/s."""
    depth: float
    """Penetration at the end, m."""

    @property
    def shift(self) -> float:
        """Distance from the first to the last position, m."""
        return float(np.linalg.norm(self.position[-1] - self.position[0]))

    @property
    def tilt(self) -> float:
        """Final angle to the vertical, degrees; rotation about the vertical is ignored."""
        x, y = self.orientation[-1, :2].tolist()
        return math.degrees(math.acos(max(-1.0, 1.0 - 2.0 * (x * x + y * y))))

    def wander(self, seconds: float, hz: float) -> float:
        """Return the diagonal of the box that holds all positions of the last seconds, m."""
        last = self.position[-round(seconds * hz) :]
        return float(np.linalg.norm(last.max(axis=0) - last.min(axis=0)))


def measure_rest(world: World, start: tuple[float, float], seconds: float = 1.0, height: float = 0.0) -> Rest:
    """Reset a world with its first object at a position, and record that object while the arm stands still.

    Args:
        world: A world with an object.
        start: m, x and y of the centre of mass on the table.
        seconds: Duration.
        height: m above the table; if positive, the object is dropped at an angle of 20 degrees.
    """
    poses = np.zeros((len(world.objects), 7))
    angle = math.radians(20.0) if height else 0.0
    poses[0] = *start, world.objects[0].half_height + height, math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2)
    world.reset(poses)
    rows = [_first_object(world)]
    for _ in range(round(seconds * world.control_hz)):
        world.step(np.zeros(world.action_size))
        rows.append(_first_object(world))
    points = bullet.getContactPoints(world.object_bodies.ids[0], physicsClientId=world.client)
    depth = max((-point[8] for point in points), default=0.0)
    position, orientation, velocity, spin = np.split(np.array(rows), [3, 7, 10], axis=1)
    return Rest(position, orientation, np.linalg.norm(velocity, axis=1), np.linalg.norm(spin, axis=1), depth)


def _first_object(world: World) -> FloatArray:
    """Return `(13,)`: position, orientation, velocity and angular velocity of the first object."""
    state = world.state
    fields = (state.object_position, state.object_orientation, state.object_velocity, state.object_angular_velocity)
    return np.concatenate([field[0, 0] for field in fields])
