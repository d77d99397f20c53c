"""The conformance suite of objects: a body that there could be, which rests where it is put, and can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path

import numpy as np

from mygym.checks.suite import Check, demand
from mygym.config import RunConfig
from mygym.models.bounding_box import bounds
from mygym.models.objects import ObjectSpec, density, load_object
from mygym.models.robot import load_robot
from mygym.models.workspace import load_workspace
from mygym.registry import registry
from mygym.sim.rendering.thumbnails import silhouette
from mygym.sim.resting import Rest, left_alone
from mygym.sim.world import World

DENSITY = 10.0, 11_400.0
"""kg/m³ of what it is made of: from expanded polystyrene to lead."""

PLACE = (0.2, 0.3)
"""m on the table, beside the arm."""

SECONDS = 1.0
"""In which it must have come to rest."""

SHIFT, TILT, WANDER, DEPTH = 0.002, 4.0, 0.001, 0.002
"""m that it may move, degrees that it may lean over, m that it may wander about in the last 0.4 s, m that it may be
inside the table."""

SEEN = 0.02
"""Part of its picture that it must fill."""


def object_checks(name: str) -> Iterator[Check]:
    """The suite of one object, on the default table beside the default robot."""
    subject = Subject(name)
    yield Check("loads", lambda: demand(subject.spec.geoms, "has no parts"))
    yield Check("mass and inertia", subject.has_a_mass, needs=("loads",))
    yield Check("rests", subject.rests, needs=("loads",))
    yield Check("exact reset", subject.repeats_itself, needs=("loads",))
    yield Check("picture", subject.is_seen, needs=("loads",))


class Subject:
    """An object under examination."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def spec(self) -> ObjectSpec:
        """What its file says."""
        return load_object(Path(registry("object").get(self.name).load()))

    def world(self) -> World:
        """A new one with the object in it."""
        config = RunConfig()
        robot = load_robot(registry("robot").get(str(config.robot)).load())
        return World(robot, load_workspace(registry("workspace").get("table").load()), [self.spec])

    def has_a_mass(self) -> None:
        """A mass, a centre and moments of inertia that a body of its size can have."""
        inertial, (low, high) = self.spec.inertial, bounds(self.spec.geoms)
        lightest, heaviest = DENSITY
        dense = density(self.spec)
        words = f"a density of {dense:.4g} kg/m³ with {self.spec.mass:g} kg; from {lightest:g} to {heaviest:g} there is"
        demand(lightest <= dense <= heaviest, f"it has {words}")
        outside = ((inertial.centre < low - 1e-6) | (inertial.centre > high + 1e-6)).any()
        demand(not outside, f"its centre of mass is outside of it: {inertial.centre.round(4).tolist()} m")
        moments = sorted(self.spec.body.moments)
        demand(moments[0] > 0, f"it has moments of inertia of {moments} kg m²")
        demand(moments[2] <= 1.001 * (moments[0] + moments[1]), f"no body has moments of inertia of {moments} kg m²")
        reach = np.maximum(np.abs(low - inertial.centre), np.abs(high - inertial.centre))
        most = self.spec.mass * float(reach @ reach)
        demand(
            moments[2] <= most,
            f"a moment of inertia of {moments[2]:.3g} kg m² is that of a larger body: at most {most:.3g}; "
            "leave inertia out and say `mass`, and it follows from the shapes",
        )

    def rests(self) -> None:
        """Put down as it is modelled it stays, still, and on the table."""
        with closing(self.world()) as world:
            rest = left_alone(world, PLACE, SECONDS)
            wander = rest.wander(0.4, world.control_hz)
        found = {
            f"moves by {1000 * rest.shift:.1f} mm": rest.shift > SHIFT,
            f"leans over by {rest.tilt:.1f}°": rest.tilt > TILT,
            f"does not come to rest: it wanders by {1000 * wander:.1f} mm": wander > WANDER,
            f"sinks by {1000 * rest.depth:.1f} mm into what it lies on": rest.depth > DEPTH,
        }
        wrong = [words for words, holds in found.items() if holds]
        demand(not wrong, f"left alone for {SECONDS:g} s it {', '.join(wrong)}")

    def repeats_itself(self) -> None:
        """Dropped in the same way it moves in the same way, to the bit, whatever happened before."""
        with closing(self.world()) as world:
            first = self._dropped(world)
            left_alone(world, PLACE, 0.2)
            second = self._dropped(world)
            for seed in range(3):
                left_alone(world, (0.1 * seed, 0.3), 0.1 * seed, height=0.02 * seed)
            third = self._dropped(world)
        for after, other in (("lying still", second), ("falling elsewhere", third)):
            same = np.array_equal(first.position, other.position) and np.array_equal(
                first.orientation, other.orientation
            )
            demand(same, f"after {after} the same drop ends {np.abs(first.position - other.position).max():.3g} m away")

    def _dropped(self, world: World) -> Rest:
        return left_alone(world, PLACE, 0.6, height=0.03)

    def is_seen(self) -> None:
        """Its picture is not empty."""
        seen = float(silhouette(self.spec, 64, 48).mean())
        demand(seen >= SEEN, f"it fills {seen:.1%} of its picture; is any of it `visible`?")
