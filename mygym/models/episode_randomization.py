"""How one episode differs from what the files say: numbers that the world, its pictures and the environment read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from mygym.models.assets import Vector
from mygym.models.inertia import Inertial
from mygym.models.objects import ObjectSpec
from mygym.models.shapes import PartSpec

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Light:
    """Where the one lamp is, as a direction from the scene, and what it gives."""

    direction: Vector
    color: Vector
    """Red, green and blue in [0, 1]."""
    ambient: float
    """What every side gets, in [0, 1]."""
    diffuse: float
    """What sides that face the lamp get besides."""


@dataclass(frozen=True)
class CameraShift:
    """By how much every camera is moved."""

    target: Vector = (0.0, 0.0, 0.0)
    """m: of the point that it looks at."""
    sideways: float = 0.0
    """m: of itself, about the point that it looks at."""
    upwards: float = 0.0
    """m."""
    backwards: float = 0.0
    """m: away from that point."""


@dataclass(frozen=True)
class EpisodeRandomization:
    """What is different in an episode; as it stands here, nothing is.

    `k` objects and `J` joints of all arms have a number each, in the order of `State`; `()` leaves all as they are.
    """

    object_size: Numbers = ()
    """Times its edges; its mass stays."""
    object_mass: Numbers = ()
    """Times its own, and as much its moments of inertia."""
    object_friction: Numbers = ()
    """Times its own."""
    object_damping: Numbers = ()
    """Part of its velocity, and of its spin, that it loses in a second: of the air, or of what it drags."""
    joint_friction: Numbers = ()
    """Part of the joint's largest torque that dry friction takes."""
    joint_gain: Numbers = ()
    """Times the velocity (or torque) that the motor is commanded."""
    action_delay: int = 0
    """Control steps from when an action is given to when it is carried out."""
    action_noise: float = 0.0
    """Standard deviation of what is added to each action component."""
    observation_noise: float = 0.0
    """Standard deviation of what is added to each measured component, in its own unit."""
    light: Light | None = None
    colors: int | None = None
    """A seed: what has a colour gets another, drawn from it."""
    color_change: float = 1.0
    """How far colours go from their own, 1 to the drawn one."""
    textures: int | None = None
    """A seed: what stands about and the objects get patterns, drawn from it."""
    texture_contrast: float = 1.0
    camera: CameraShift = CameraShift()


@lru_cache(maxsize=1024)
def scaled(spec: ObjectSpec, factor: float) -> ObjectSpec:
    """An object of another size: as if made larger or smaller of a material of which it weighs the same."""
    if factor == 1.0:
        return spec
    inertial = spec.inertial
    return replace(
        spec,
        parts=tuple(_scaled_part(part, factor) for part in spec.parts),
        inertial=Inertial(inertial.mass, inertial.centre * factor, inertial.inertia * factor**2),
        rolling_friction=spec.rolling_friction * factor,
        spinning_friction=spec.spinning_friction * factor,
    )


def _scaled_part(part: PartSpec, factor: float) -> PartSpec:
    def times(vector: Vector) -> Vector:
        x, y, z = vector
        return x * factor, y * factor, z * factor

    return replace(
        part,
        size=tuple(edge * factor for edge in part.size),
        position=times(part.position),
        points=tuple(times(point) for point in part.points),
        scale=times(part.scale) if part.shape == "mesh" else part.scale,
    )
