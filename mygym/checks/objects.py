"""Conformance suite of objects: realistic mass and inertia, stable at rest, exact resets, and visible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path

import numpy as np

from mygym.checks.suite import Check, demand
from mygym.config import RunConfig
from mygym.engines.bullet.inspection import Rest, measure_rest
from mygym.engines.bullet.primitives import find_robot
from mygym.engines.bullet.rendering.thumbnails import silhouette
from mygym.engines.bullet.world import World
from mygym.registry import registry
from mygym.robotics.objects import ObjectSpec, density, load_object
from mygym.robotics.shapes import bounds
from mygym.robotics.workspace import load_workspace

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
        return World(robot, load_workspace(registry("workspace").get("table").load()), [self.spec])

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
