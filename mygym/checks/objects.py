"""Conformance suite of objects: realistic mass and inertia, stable at rest, exact resets, and visible."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mygym.checks.suite import Check, demand
from mygym.config import RunConfig
from mygym.engines.engine import inspection_of, make_world
from mygym.engines.rendering.thumbnails import silhouette
from mygym.engines.robots import find_robot
from mygym.engines.world import World, WorldSpec
from mygym.registry import registry
from mygym.robotics.objects import ObjectSpec, density, load_object
from mygym.robotics.shapes import bounds
from mygym.robotics.workspace import load_workspace
from mygym.types import FloatArray

DENSITIES = 10.0, 11_400.0
"""kg/m³: lowest and highest density of the material, from expanded polystyrene to lead."""

POSITION = (0.2, 0.3)
"""m: position on the table, beside the arm."""

SECONDS = 1.0
"""s: time to come to rest."""

MAX_SHIFT, MAX_TILT, MAX_WANDER, MAX_DEPTH = 0.002, 4.0, 0.001, 0.002
"""m of displacement, degrees of tilt, m of motion in the last 0.4 s, and m of penetration into the table at rest."""

MIN_PICTURE_SHARE = 0.02
"""Smallest share of its picture that the object fills."""


def object_checks(name: str) -> Iterator[Check]:
    """Yield the checks of an object, on the default table beside the default robot."""
    subject = Subject(name)
    yield Check("loads", lambda: demand(subject.spec.geoms, "has no shapes"))
    yield Check("mass and inertia", subject.has_realistic_inertia, needs=("loads",))
    yield Check("rests", subject.stays_at_rest, needs=("loads",))
    yield Check("exact reset", subject.repeats_exactly, needs=("loads",))
    yield Check("picture", subject.is_visible, needs=("loads",))


class Subject:
    """An object under test."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def spec(self) -> ObjectSpec:
        """The object's specification."""
        return load_object(Path(registry("object").get(self.name).load()))

    def world(self) -> World:
        """Return a new world with the object in it."""
        config = RunConfig()
        robot = find_robot(str(config.robot))
        return make_world(WorldSpec(robot, load_workspace(registry("workspace").get("table").load()), [self.spec]))

    def has_realistic_inertia(self) -> None:
        """Mass, centre of mass and moments of inertia are possible for a body of the object's size."""
        inertial, (low, high) = self.spec.inertial, bounds(self.spec.geoms)
        lowest, highest = DENSITIES
        value = density(self.spec)
        allowed = f"materials have {lowest:g} to {highest:g}"
        message = f"it has a density of {value:.4g} kg/m³ with {self.spec.mass:g} kg; {allowed}"
        demand(lowest <= value <= highest, message)
        outside = ((inertial.centre < low - 1e-6) | (inertial.centre > high + 1e-6)).any()
        demand(not outside, f"its centre of mass is outside of it: {inertial.centre.round(4).tolist()} m")
        moments = sorted(self.spec.body.moments)
        demand(moments[0] > 0, f"it has moments of inertia of {moments} kg m²")
        demand(moments[2] <= 1.001 * (moments[0] + moments[1]), f"no body has moments of inertia of {moments} kg m²")
        reach = np.maximum(np.abs(low - inertial.centre), np.abs(high - inertial.centre))
        most = self.spec.mass * float(reach @ reach)
        demand(
            moments[2] <= most,
            f"a moment of inertia of {moments[2]:.3g} kg m² needs a larger body: at most {most:.3g}; "
            "without `inertia`, it is computed from `mass` and the shapes",
        )

    def stays_at_rest(self) -> None:
        """The object stays at its position on the table, in the orientation of its model, without motion."""
        with closing(self.world()) as world:
            rest = measure_rest(world, POSITION, SECONDS)
            wander = rest.wander(0.4, world.control_hz)
        findings = {
            f"moves by {1000 * rest.shift:.1f} mm": rest.shift > MAX_SHIFT,
            f"leans over by {rest.tilt:.1f}°": rest.tilt > MAX_TILT,
            f"does not come to rest: it wanders by {1000 * wander:.1f} mm": wander > MAX_WANDER,
            f"sinks by {1000 * rest.depth:.1f} mm into the surface": rest.depth > MAX_DEPTH,
        }
        texts = [text for text, holds in findings.items() if holds]
        demand(not texts, f"left alone for {SECONDS:g} s it {', '.join(texts)}")

    def repeats_exactly(self) -> None:
        """The same drop has the same result, to the bit, whatever happened before."""
        with closing(self.world()) as world:
            first = self._drop(world)
            measure_rest(world, POSITION, 0.2)
            second = self._drop(world)
            for seed in range(3):
                measure_rest(world, (0.1 * seed, 0.3), 0.1 * seed, height=0.02 * seed)
            third = self._drop(world)
        for after, other in (("lying still", second), ("falling elsewhere", third)):
            same = np.array_equal(first.position, other.position) and np.array_equal(
                first.orientation, other.orientation
            )
            demand(same, f"after {after} the same drop ends {np.abs(first.position - other.position).max():.3g} m away")

    def _drop(self, world: World) -> Rest:
        return measure_rest(world, POSITION, 0.6, height=0.03)

    def is_visible(self) -> None:
        """The object's image is not empty."""
        share = float(silhouette(self.spec, 64, 48).mean())
        demand(share >= MIN_PICTURE_SHARE, f"it fills {share:.1%} of its picture; is any of its shapes `visible`?")


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
    with inspection_of(world) as shapes:
        depth = shapes.depth(0)
    position, orientation, velocity, spin = np.split(np.array(rows), [3, 7, 10], axis=1)
    return Rest(position, orientation, np.linalg.norm(velocity, axis=1), np.linalg.norm(spin, axis=1), depth)


def _first_object(world: World) -> FloatArray:
    """Return `(13,)`: position, orientation, velocity and angular velocity of the first object."""
    state = world.state
    fields = (state.object_position, state.object_orientation, state.object_velocity, state.object_angular_velocity)
    return np.concatenate([field[0, 0] for field in fields])
