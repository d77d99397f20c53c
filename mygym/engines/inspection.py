"""Questions about the shapes of a world, which an engine answers: overlaps, boxes around bodies, depths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.robotics.objects import ObjectSpec
from mygym.robotics.workspace import Area
from mygym.types import FloatArray

DEPTH = 0.001
"""Allowed overlap of shapes, m: shapes of neighbouring links meet in their joint."""


class Inspection(Protocol):
    """Answers about the shapes of a world in its current state; reset the world before its next step."""

    def collisions(self) -> list[str]:
        """List the collisions of the robot, e.g. `wrist is inside table`.

        The robot's base may stand inside a fixture, and a link may overlap its neighbours.
        """

    def overlapping_fixtures(self) -> list[str]:
        """List the pairs of fixtures that overlap; parts may overlap the rest of their fixture."""

    def fixtures_in(self, area: Area) -> list[str]:
        """List the fixtures that overlap an area by more than `DEPTH`."""

    def robot_overlaps(self, area: Area) -> bool:
        """Return whether the robot overlaps an area by more than `DEPTH`."""

    def fixtures_at(
        self, points: FloatArray, spec: ObjectSpec | None = None, depth: float = DEPTH
    ) -> dict[str, NDArray[np.bool_]]:
        """Find the points at which an object would be inside a fixture.

        Args:
            points: `(n, 3)` m, of the centre of mass.
            spec: The object, in the orientation of its model; None: a point.
            depth: Allowed overlap, m.

        Returns:
            Fixture → `(n,)` whether the object overlaps it at each point; fixtures without overlap are omitted.
        """

    def robot_corners(self) -> FloatArray:
        """Return the corners `(n, 3)` m of the boxes around the robot's links."""

    def depth(self, k: int) -> float:
        """Return the penetration of object `k` into other bodies, m."""

    def finger_points(self, positions: Sequence[Sequence[float]]) -> list[list[tuple[FloatArray, FloatArray]]]:
        """Return where the first arm's fingers are nearest to the tool point, for positions of the gripper's joints.

        A single finger has the link that carries it beside it.

        Args:
            positions: For each posture, rad or m of the joints of the gripper.

        Returns:
            For each posture and each finger with a shape, the point `(3,)` m, and the pose `(4, 4)` of its link.
        """
