"""What shapes weigh: volume, mass, centre of mass and inertia of parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.meshes import hull, read_hulls, volume_properties
from mygym.models.shapes import DRAWN, PartSpec, mesh_of, pose_of
from mygym.types import FloatArray


@dataclass(frozen=True, eq=False)
class Inertial:
    """Mass in kg, centre of mass `(3,)` in m, and `(3, 3)` inertia about it in kg m², in the body's frame."""

    mass: float
    centre: FloatArray
    inertia: FloatArray


def volume(parts: Sequence[PartSpec]) -> float:
    """Of all parts that collide, m³; what overlaps counts twice."""
    return sum(_solid(part)[0] for part in parts if part.collides)


def mass_properties(parts: Sequence[PartSpec], mass: float | None, key: str = "mass") -> Inertial:
    """Mass, centre and inertia of parts of even density each; what overlaps counts twice.

    Args:
        parts: What the body is made of.
        mass: kg, of all; None: every part says its own.
        key: What the mass is called, for the message.

    Raises:
        AssetError: the parts say no mass, or more than the whole.
    """
    heavy = [part for part in parts if part.collides]
    solids = [_solid(part) for part in heavy]
    told = sum(part.mass or 0.0 for part in heavy)
    silent = sum(solid[0] for part, solid in zip(heavy, solids, strict=True) if part.mass is None)
    if mass is None and silent > 0:
        raise AssetError(bad_value(key, None, "kg, or the mass of every part that collides", "is missing"))
    left = 0.0 if mass is None else mass - told
    if mass is not None and (left <= 0 if silent > 0 else abs(left) > 1e-9):
        what = "more than the parts that say theirs" if silent > 0 else "what the parts say together, or left out"
        raise AssetError(bad_value(key, mass, f"{what} ({told:g} kg)"))
    total = told + left if silent > 0 else told
    centre, inertia = np.zeros(3), np.zeros((3, 3))
    placed = []
    for part, (size, middle, moments) in zip(heavy, solids, strict=True):
        own = part.mass if part.mass is not None else left * size / silent
        pose = pose_of(part)
        place = pose[:3, :3] @ middle + pose[:3, 3]
        placed.append((own, place, pose[:3, :3] @ moments @ pose[:3, :3].T * own / size))
        centre += own / total * place
    for own, place, moments in placed:  # the parallel axis theorem
        away = place - centre
        inertia += moments + own * (away @ away * np.eye(3) - np.outer(away, away))
    return Inertial(total, centre, inertia)


@lru_cache(maxsize=1024)
def _solid(part: PartSpec) -> tuple[float, FloatArray, FloatArray]:
    """Volume in m³, centroid in m and inertia about it for 1 kg/m³, in the part's own frame."""
    size = part.size
    if part.shape == "box":
        x, y, z = (edge * edge for edge in size)
        content = math.prod(size)
        return content, np.zeros(3), np.diag([y + z, x + z, x + y]) * content / 12
    if part.shape == "sphere":
        inner = size[0] - size[1] if len(size) == 2 else 0.0
        content, moment = (4 / 3 * math.pi * (size[0] ** n - inner**n) for n in (3, 5))
        return content, np.zeros(3), np.eye(3) * 0.4 * moment
    if part.shape in ("cylinder", "capsule"):
        radius, height = size
        rod = math.pi * radius**2 * height
        along, across = rod * radius**2 / 2, rod * (3 * radius**2 + height**2) / 12
        if part.shape == "cylinder":
            return rod, np.zeros(3), np.diag([across, across, along])
        ball = 4 / 3 * math.pi * radius**3
        along += 0.4 * ball * radius**2
        # Two half balls whose centroids are 3/8 of the radius beyond the rod's ends.
        across += ball * (0.4 * radius**2 + height**2 / 4 + 3 / 8 * height * radius)
        return rod + ball, np.zeros(3), np.diag([across, across, along])
    if part.shape == "mesh":
        solids = [volume_properties(hull(points * part.scale)) for points in read_hulls(part.file)]
        content = sum(one[0] for one in solids)
        centre = sum((one[0] * one[1] for one in solids), np.zeros(3)) / content
        inertia = np.zeros((3, 3))
        for one, middle, moments in solids:
            away = middle - centre
            inertia += moments + one * (away @ away * np.eye(3) - np.outer(away, away))
        return content, centre, inertia
    return volume_properties(mesh_of(part, DRAWN * 4))
