"""Collisions, overlaps and distances of the shapes of a MuJoCo world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from mygym.engines.inspection import DEPTH, FAR, NEIGHBOUR_JOINTS, PROBE, corners_of, half_edges
from mygym.engines.robots import simulated_model
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.robots import RobotSpec
from mygym.robotics.shapes import Piece, transformed
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.robotics.workspace import Area
from mygym.types import FloatArray

Geoms = Sequence[int]
"""Numbers of geoms."""

_ORIGIN, _IDENTITY = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
_OUT_OF_THE_WAY = (0.0, 0.0, -100.0)
_ROUND = (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE)


class MujocoInspection:
    """Answers about the shapes of a world, see `Inspection`; the world itself does not change.

    Args:
        build: Function of the shapes of a probe that returns `build_shapes` of the world.
        robot: The robot.
        positions: MuJoCo's positions `(nq,)` of the world.
        tool: `(3,)` m, tool point of the first arm.
    """

    def __init__(
        self,
        build: Callable[[Sequence[Piece]], tuple[Any, dict[str, list[int]]]],
        robot: RobotSpec,
        positions: FloatArray,
        tool: FloatArray,
    ) -> None:
        self._build, self._robot = build, robot
        self._positions, self._tool = positions.copy(), tool.copy()
        self._put(())

    def _put(self, probe: Sequence[Piece]) -> Geoms:
        """Build the world with a probe, which is out of the way, and return the probe's geoms."""
        self._model, self._fixtures = self._build(probe)
        self._data = mujoco.MjData(self._model)
        self._data.qpos[: len(self._positions)] = self._positions
        self._move(_OUT_OF_THE_WAY)
        return self._geoms(self._model.body("probe").id)

    def _move(self, point: Sequence[float]) -> None:
        """Move the probe to a point `(3,)` m."""
        self._data.qpos[-7:-4] = point
        mujoco.mj_kinematics(self._model, self._data)

    def _geoms(self, body: int) -> Geoms:
        first, count = int(self._model.body_geomadr[body]), int(self._model.body_geomnum[body])
        return range(first, first + count)

    def _links(self) -> dict[int, str]:
        """Return the bodies of the robot's links, in the order of the tree; the first is its base."""
        names = {body: self._model.body(body).name for body in range(self._model.nbody)}
        return {body: name.removeprefix("robot/") for body, name in names.items() if name.startswith("robot/")}

    def _overlap(self, geoms: Geoms, others: Geoms, depth: float = DEPTH) -> bool:
        """Return whether two groups of geoms overlap by more than `depth` m."""
        return self._nearest(geoms, others, 0.0) < -depth

    def _nearest(self, geoms: Geoms, others: Geoms, far: float) -> float:
        """Return the smallest signed distance of two groups of geoms, m; `far` if it is larger."""
        model, data = self._model, self._data
        if not (geoms and others):
            return far
        a, b = np.array(geoms), np.array(others)
        between = np.linalg.norm(data.geom_xpos[a][:, None] - data.geom_xpos[b], axis=2)
        near = between < model.geom_rbound[a][:, None] + model.geom_rbound[b] + far
        pairs = np.argwhere(near).tolist()
        return min((mujoco.mj_geomDistance(model, data, a[i], b[j], far, None) for i, j in pairs), default=far)

    def collisions(self) -> list[str]:
        """List the collisions of the robot; a link may overlap links up to `NEIGHBOUR_JOINTS` joints away."""
        parents, names = self._model.body_parentid, self._links()
        links = list(names)[1:]
        messages = [
            f"{names[link]} is inside {name}"
            for name, fixture in self._fixtures.items()
            for link in links
            if self._overlap(self._geoms(link), fixture)
        ]
        for number, link in enumerate(links):
            near = {link}
            for _ in range(NEIGHBOUR_JOINTS):
                near |= {int(parents[neighbour]) for neighbour in near if neighbour in links}
            messages += [
                f"{names[link]} is inside {names[other]}"
                for other in links[:number]
                if other not in near
                and parents[other] != parents[link]
                and self._overlap(self._geoms(link), self._geoms(other))
            ]
        return messages

    def overlapping_fixtures(self) -> list[str]:
        """List the pairs of fixtures that overlap."""
        fixtures = list(self._fixtures.items())
        return [
            f"{name} is inside {other}"
            for number, (name, geoms) in enumerate(fixtures)
            for other, geoms_of_other in fixtures[:number]
            if self._overlap(geoms, geoms_of_other)
        ]

    def fixtures_in(self, area: Area) -> list[str]:
        """List the fixtures that overlap an area."""
        x, y, z = ((low + high) / 2 for low, high in zip(area.low, area.high, strict=True))
        return list(self._fixtures_around((_box(half_edges(area)),), np.array([[x, y, z + DEPTH]]), DEPTH))

    def robot_overlaps(self, area: Area) -> bool:
        """Return whether the robot overlaps an area."""
        probe = self._put((_box(half_edges(area)),))
        self._move([(low + high) / 2 for low, high in zip(area.low, area.high, strict=True)])
        return self._overlap(probe, [geom for link in self._links() for geom in self._geoms(link)])

    def fixtures_at(
        self, points: FloatArray, spec: ObjectSpec | None = None, depth: float = DEPTH
    ) -> dict[str, NDArray[np.bool_]]:
        """Find the points at which an object would be inside a fixture."""
        if spec is None:
            return self._fixtures_around((_box([1e-4] * 3),), points, depth)
        model = pose_matrix(_ORIGIN, quaternion_to_matrix(spec.body.principal))
        return self._fixtures_around([transformed(piece, model) for piece in spec.body.pieces], points, depth)

    def _fixtures_around(
        self, shapes: Sequence[Piece], points: FloatArray, depth: float
    ) -> dict[str, NDArray[np.bool_]]:
        """Return fixture → `(n,)` whether a body of these shapes overlaps it at each point."""
        probe = self._put(shapes)
        overlaps = {name: np.zeros(len(points), dtype=bool) for name in self._fixtures}
        for index, point in enumerate(points.tolist()):
            self._move(point)
            for name, geoms in self._fixtures.items():
                overlaps[name][index] = self._overlap(probe, geoms, depth)
        return {name: inside for name, inside in overlaps.items() if inside.any()}

    def robot_corners(self) -> FloatArray:
        """Return the corners `(n, 3)` m of the boxes around the robot's links."""
        return corners_of(np.array([self._box_around(link) for link in self._links() if self._geoms(link)]))

    def finger_boxes(self) -> list[FloatArray]:
        """Return the box `(2, 3)` m around each link of the first arm's gripper."""
        return [self._box_around(link) for link in self._finger_links()]

    def _box_around(self, body: int) -> FloatArray:
        """Return the lowest and highest corner `(2, 3)` m of the box around the geoms of a body."""
        model, data = self._model, self._data
        lows, highs = [], []
        for geom in self._geoms(body):
            rotation, (centre, half) = data.geom_xmat[geom].reshape(3, 3), model.geom_aabb[geom].reshape(2, 3)
            radius = model.geom_size[geom, 0] if model.geom_type[geom] in _ROUND else 0.0
            middle, reach = data.geom_xpos[geom] + rotation @ centre, np.abs(rotation) @ (half - radius) + radius
            lows.append(middle - reach)
            highs.append(middle + reach)
        return np.stack([np.min(lows, axis=0), np.max(highs, axis=0)])

    def _finger_links(self) -> list[int]:
        """Return the bodies of the links of the first arm's gripper."""
        gripper = self._robot.arms[0].gripper
        assert gripper is not None, "the first arm has a gripper"
        _, merged = simulated_model(self._robot, True, "position")
        return [self._model.body(f"robot/{merged[name][0]}").id for name in gripper.links]

    def depth(self, k: int) -> float:
        """Return the penetration of object `k` into other bodies, m."""
        body = self._model.body(f"object/{k}").id
        others = [geom for each in self._fixtures.values() for geom in each]
        for other in range(1, self._model.nbody):
            if other != body and self._model.body(other).name.startswith(("robot/", "object/")):
                others += self._geoms(other)
        return -self._nearest(self._geoms(body), others, 0.0)

    def finger_points(self, positions: Sequence[Sequence[float]]) -> list[list[tuple[FloatArray, FloatArray]]]:
        """Return the fingers' nearest points to the tool point, and the poses of their links."""
        gripper, links = self._robot.arms[0].gripper, self._finger_links()
        assert gripper is not None, "the first arm has a gripper"
        if len(links) == 1:
            links.append(int(self._model.body_parentid[links[0]]))  # the link that carries the finger
        (probe,) = self._put((Piece("sphere", (PROBE,), _ORIGIN, _IDENTITY),))
        model, data, segment = self._model, self._data, np.zeros(6)
        joints = [int(model.joint(f"robot/{name}").qposadr[0]) for name in gripper.joints]
        postures = []
        for posture in positions:
            data.qpos[joints] = posture
            self._move(self._tool.tolist())
            fingers = []
            for link in links:
                found: list[tuple[float, FloatArray]] = []
                for geom in self._geoms(link):
                    distance = mujoco.mj_geomDistance(model, data, probe, geom, FAR, segment)
                    if distance < FAR:
                        found.append((distance, segment[3:].copy()))
                if found:
                    nearest = min(found, key=lambda each: each[0])[1]
                    fingers.append((nearest, pose_matrix(data.xpos[link], data.xmat[link].reshape(3, 3))))
            postures.append(fingers)
        return postures


def _box(half: Sequence[float]) -> Piece:
    return Piece("box", tuple(2 * each for each in half), _ORIGIN, _IDENTITY)
