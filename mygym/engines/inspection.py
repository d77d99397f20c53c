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

NEIGHBOUR_JOINTS = 2
"""Largest number of joints between links whose shapes may overlap."""

PROBE = 0.0005
"""m: radius of a ball from which the distances to fingers are measured."""

FAR = 1.0
"""m: distance to the farthest finger."""


def half_edges(area: Area) -> list[float]:
    """Return half the edges of an area, m, none of them 0."""
    return [max((high - low) / 2, 1e-4) for low, high in zip(area.low, area.high, strict=True)]


def corners_of(boxes: FloatArray) -> FloatArray:
    """Return the corners `(8 n, 3)` m of boxes `(n, 2, 3)` m, as far as they are above a table at a height of 0."""
    boxes = boxes[boxes[:, 1, 2] > 0.0]
    boxes[:, 0, 2] = np.maximum(boxes[:, 0, 2], 0.0)
    return np.array([[box[i, 0], box[j, 1], box[k, 2]] for box in boxes for i, j, k in np.ndindex(2, 2, 2)])


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

    def finger_boxes(self) -> list[FloatArray]:
        """Return the lowest and highest corner `(2, 3)` m of the box around each link of the first arm's gripper."""

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
