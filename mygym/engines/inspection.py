"""Questions about the shapes of a world, which an engine answers: overlaps, boxes around bodies, depths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

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


POINT = (1e-4, 1e-4, 1e-4)
"""m: half edges of a box that stands for a point."""

Shapes = Any
"""Shapes of a link, a fixture or a probe, as the engine names them."""


def corners_of(boxes: FloatArray) -> FloatArray:
    """Return the corners `(8 n, 3)` m of boxes `(n, 2, 3)` m, as far as they are above a table at a height of 0."""
    boxes = boxes[boxes[:, 1, 2] > 0.0]
    boxes[:, 0, 2] = np.maximum(boxes[:, 0, 2], 0.0)
    return np.array([[box[i, 0], box[j, 1], box[k, 2]] for box in boxes for i, j, k in np.ndindex(2, 2, 2)])


class Inspection(ABC):
    """Answers about the shapes of a world in its current state; reset the world before its next step.

    An engine says which shapes links, fixtures and probes have, and which of them overlap.
    """

    _fixtures: Mapping[str, Shapes]
    """Fixture → its shapes."""

    def collisions(self) -> list[str]:
        """List the collisions of the robot, e.g. `wrist is inside table`.

        The robot's base may stand inside a fixture, and a link may overlap links up to `NEIGHBOUR_JOINTS` joints away.
        """
        links = self._links()
        messages = [
            f"{name} is inside {fixture}"
            for fixture, shapes in self._fixtures.items()
            for link, (name, _) in links.items()
            if self._overlap(self._shapes_of(link), shapes)
        ]
        for number, (link, (name, parent)) in enumerate(links.items()):
            near = {link}
            for _ in range(NEIGHBOUR_JOINTS):
                near |= {links[neighbour][1] for neighbour in near if neighbour in links}
            messages += [
                f"{name} is inside {other_name}"
                for other, (other_name, other_parent) in islice(links.items(), number)
                if other not in near
                and other_parent != parent
                and self._overlap(self._shapes_of(link), self._shapes_of(other))
            ]
        return messages

    def overlapping_fixtures(self) -> list[str]:
        """List the pairs of fixtures that overlap; parts may overlap the rest of their fixture."""
        fixtures = list(self._fixtures.items())
        return [
            f"{name} is inside {other}"
            for number, (name, shapes) in enumerate(fixtures)
            for other, other_shapes in fixtures[:number]
            if self._overlap(shapes, other_shapes)
        ]

    def fixtures_in(self, area: Area) -> list[str]:
        """List the fixtures that overlap an area by more than `DEPTH`."""
        half, middle = _box(area)
        with self._probe(half) as probe:
            return list(self._fixtures_around(probe, middle[None] + (0.0, 0.0, DEPTH), DEPTH))

    def robot_overlaps(self, area: Area) -> bool:
        """Return whether the robot overlaps an area by more than `DEPTH`."""
        half, middle = _box(area)
        with self._probe(half) as probe:
            self._move(probe, middle.tolist())
            return self._overlap(self._robot_shapes(), probe)

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
        with self._probe(spec or POINT) as probe:
            return self._fixtures_around(probe, points, depth)

    def _fixtures_around(self, probe: Shapes, points: FloatArray, depth: float) -> dict[str, NDArray[np.bool_]]:
        overlaps = {name: np.zeros(len(points), dtype=bool) for name in self._fixtures}
        for index, point in enumerate(points.tolist()):
            self._move(probe, point)
            for name, shapes in self._fixtures.items():
                overlaps[name][index] = self._overlap(probe, shapes, depth)
        return {name: inside for name, inside in overlaps.items() if inside.any()}

    @abstractmethod
    def _links(self) -> Mapping[int, tuple[str, int]]:
        """Return the links of the robot without its base, in the order of the tree → name and parent of each."""

    @abstractmethod
    def _shapes_of(self, link: int) -> Shapes:
        """Return the shapes of a link."""

    @abstractmethod
    def _robot_shapes(self) -> Shapes:
        """Return the shapes of the robot with its base."""

    @abstractmethod
    def _probe(self, spec: ObjectSpec | Sequence[float]) -> AbstractContextManager[Shapes]:
        """Add an object, or a box of these half edges, m, for the block."""

    @abstractmethod
    def _move(self, probe: Shapes, point: Sequence[float]) -> None:
        """Move the centre of mass of a probe to a point `(3,)` m."""

    @abstractmethod
    def _overlap(self, shapes: Shapes, others: Shapes, depth: float = DEPTH) -> bool:
        """Return whether shapes overlap others by more than `depth` m."""

    @abstractmethod
    def robot_corners(self) -> FloatArray:
        """Return the corners `(n, 3)` m of the boxes around the robot's links."""

    @abstractmethod
    def finger_boxes(self) -> list[FloatArray]:
        """Return the lowest and highest corner `(2, 3)` m of the box around each link of the first arm's gripper."""

    @abstractmethod
    def depth(self, k: int) -> float:
        """Return the penetration of object `k` into other bodies, m."""

    @abstractmethod
    def finger_points(self) -> list[list[tuple[FloatArray, FloatArray]]]:
        """Return where the first arm's fingers are nearest to the tool point, when they are open and when closed.

        A single finger has the link that carries it beside it. For both postures and each finger with a shape, the
        result has the point `(3,)` m, and the pose `(4, 4)` of its link.
        """


def _box(area: Area) -> tuple[list[float], FloatArray]:
    """Return half the edges of an area, m, none of them 0, and its middle `(3,)` m."""
    half = [max((high - low) / 2, 1e-4) for low, high in zip(area.low, area.high, strict=True)]
    return half, (np.array(area.low) + area.high) / 2
