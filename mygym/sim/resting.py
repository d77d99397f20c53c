"""What an object does when it is left alone: put down on the table, or dropped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mygym.sim.bullet import bullet
from mygym.sim.world import World
from mygym.types import FloatArray


@dataclass(frozen=True, eq=False)
class Rest:
    """How the first object of a world moved, in control steps from a reset."""

    position: FloatArray
    """`(n + 1, 3)` m, of the centre of mass."""
    orientation: FloatArray
    """`(n + 1, 4)` quaternions."""
    speed: FloatArray
    """`(n + 1,)` m/s."""
    spin: FloatArray
    """`(n + 1,)` rad/s."""
    depth: float
    """m by which it was inside something at the end."""

    @property
    def shift(self) -> float:
        """M from where it was put to where it is."""
        return float(np.linalg.norm(self.position[-1] - self.position[0]))

    @property
    def tilt(self) -> float:
        """Degrees by which it leans over; it was put down upright, and turning on the spot does not count."""
        x, y = self.orientation[-1, :2].tolist()
        return math.degrees(math.acos(max(-1.0, 1.0 - 2.0 * (x * x + y * y))))

    def wander(self, seconds: float, hz: float) -> float:
        """M between the places farthest apart at which it was in the last seconds."""
        last = self.position[-round(seconds * hz) :]
        return float(np.linalg.norm(last.max(axis=0) - last.min(axis=0)))


def left_alone(world: World, place: tuple[float, float], seconds: float = 1.0, height: float = 0.0) -> Rest:
    """Reset a world, put its first object down, and let it be while the arm stands still.

    Args:
        world: With an object.
        place: m, x and y of its centre of mass on the table.
        seconds: How long.
        height: m above the table, to be dropped from there with a twist.
    """
    poses = np.zeros((len(world.objects), 7))
    turn = math.radians(20.0) if height else 0.0
    poses[0] = *place, world.objects[0].half_height + height, math.sin(turn / 2), 0.0, 0.0, math.cos(turn / 2)
    world.reset(poses)
    state = world.state
    seen = [_of(world)]
    for _ in range(round(seconds * world.control_hz)):
        world.step(np.zeros(world.action_size))
        seen.append(_of(world))
    points = bullet.getContactPoints(world._bodies[0], physicsClientId=world._client)
    depth = max((-point[8] for point in points), default=0.0)
    rows = np.array(seen)
    assert len(state.object_position[0])
    return Rest(
        rows[:, :3], rows[:, 3:7], np.linalg.norm(rows[:, 7:10], axis=1), np.linalg.norm(rows[:, 10:], axis=1), depth
    )


def _of(world: World) -> FloatArray:
    state = world.state
    fields = (state.object_position, state.object_orientation, state.object_velocity, state.object_angular_velocity)
    return np.concatenate([field[0, 0] for field in fields])
