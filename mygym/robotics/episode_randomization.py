"""Randomized parameters of one episode, read by the world, its renderer and the environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from mygym.robotics.inertia import Inertial
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.shapes import GeomSpec
from mygym.types import Vector

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Light:
    """The scene's only light."""

    direction: Vector
    """From the scene to the light."""
    color: Vector
    """Red, green and blue in [0, 1]."""
    ambient: float
    """Ambient light of all surfaces, in [0, 1]."""
    diffuse: float
    """Additional light of surfaces that face the light."""


@dataclass(frozen=True)
class CameraShift:
    """Displacement of every camera."""

    target: Vector = (0.0, 0.0, 0.0)
    """m: displacement of the point that the camera looks at."""
    sideways: float = 0.0
    """m: displacement of the camera, about that point."""
    upwards: float = 0.0
    """m."""
    backwards: float = 0.0
    """m: away from that point."""


@dataclass(frozen=True)
class EpisodeRandomization:
    """Randomized parameters of an episode; the defaults change nothing.

    Tuples hold one number for each of the `k` objects, or of the `J` joints of all arms, in the order of `State`; `()`
    changes nothing.
    """

    object_choice: tuple[int | None, ...] = ()
    """Index of each object among its alternatives; None: the object is absent."""
    object_size: Numbers = ()
    """Factors of the edges; masses stay."""
    object_mass: Numbers = ()
    """Factors of mass and moments of inertia."""
    object_friction: Numbers = ()
    """Factors."""
    object_damping: Numbers = ()
    """Share of linear and angular velocity lost in a second."""
    joint_friction: Numbers = ()
    """Dry friction as a share of the joint's largest torque."""
    joint_gain: Numbers = ()
    """Factors of the commanded velocity (or torque)."""
    action_delay: int = 0
    """Control steps between an action and its execution."""
    action_noise: float = 0.0
    """Standard deviation of the noise on each action component."""
    observation_noise: float = 0.0
    """Standard deviation of the noise on each measured component, in the component's unit."""
    light: Light | None = None
    colors: int | None = None
    """Seed of new colours."""
    color_change: float = 1.0
    """Share of the way from the original colour to the new colour."""
    textures: int | None = None
    """Seed of textures for fixtures and objects."""
    texture_contrast: float = 1.0
    camera: CameraShift = CameraShift()


@lru_cache(maxsize=1024)
def scaled(spec: ObjectSpec, factor: float) -> ObjectSpec:
    """Return an object scaled by a factor; its mass stays."""
    if factor == 1.0:
        return spec
    inertial = spec.inertial
    return replace(
        spec,
        geoms=tuple(_scaled_geom(geom, factor) for geom in spec.geoms),
        inertial=Inertial(inertial.mass, inertial.centre * factor, inertial.inertia * factor**2),
        rolling_friction=spec.rolling_friction * factor,
        spinning_friction=spec.spinning_friction * factor,
    )


def _scaled_geom(geom: GeomSpec, factor: float) -> GeomSpec:
    def times(vector: Vector) -> Vector:
        x, y, z = vector
        return x * factor, y * factor, z * factor

    return replace(
        geom,
        size=tuple(edge * factor for edge in geom.size),
        position=times(geom.position),
        points=tuple(times(point) for point in geom.points),
        scale=times(geom.scale) if geom.shape == "mesh" else geom.scale,
    )
