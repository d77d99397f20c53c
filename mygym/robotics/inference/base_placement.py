"""Choice of a base and a home for a robot whose description has none; limits of arms of few joints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mygym.errors import counted
from mygym.robotics.kinematics import (
    REACHED,
    Chain,
    Kinematics,
    at_home,
    make_chain,
    postures_at,
    reached_along,
    within_a_turn,
)
from mygym.robotics.meshes import hull
from mygym.robotics.robot_spec import RobotSpec, cached_by_model, robot_model
from mygym.robotics.surface_points import points_of_links, shapes_of_links
from mygym.robotics.transforms import as_quaternion, axis_angle_to_matrix, quaternion_to_matrix, rotation_of_z_to
from mygym.robotics.urdf import merge_fixed_joints, read_joints, root_link
from mygym.robotics.workspace import WorkspaceSpec, load_workspace
from mygym.types import FloatArray

BASE_X = (-0.6, -0.5, -0.4, -0.3, -0.75)
"""m: candidates for the base's x, relative to the centre of the work area."""

BASE_Z = (0.0, -0.7, 0.35)
"""m: candidates for the base's height: on the table, on the floor beside it, on a socket."""

AREA_SCALES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3)
"""Sizes of the areas that are tried for an arm that reaches little from these positions.

In smaller areas no goal is far enough from the tool's home.
"""

MAP_SIZE = (17, 9, 17)
"""Points of the map of reach along x, y and z."""

MAP_STARTS, MAP_ITERATIONS = 3, 60
"""Postures from which inverse kinematics starts at each point of the map, and its iterations."""

BEHIND = 0.06
"""m beyond the areas at which a tool is behind an object that it pushes."""

BASES_TRIED = 3
"""Base positions that are tried for each size of the areas: those from which the map reaches most corners."""

CRUISE = 0.1
"""m above the table at which a tool travels."""

BASE_STEP, BASE_STEPS = 0.06, 4
"""Distance between further bases that are tried, in lengths of the arm, and their number back and up."""

FARTHEST_MISS = 0.05
"""m: a point that the tool misses by more is not worse than one that it misses by this."""

UPRIGHT = 0.1
"""Distance of the tool from a vertical line through the first joint, in lengths of an arm: less is upright."""

ENOUGH = 0.9
"""Share of the corners with which an arm keeps the whole areas; with less, areas that fit the arm are tried."""

LARGE_MARGIN = 0.05
"""Distance of a joint from its limits, as a share of its range, beyond which a home is not preferred for it."""

HOME_CANDIDATES, FURTHER_CANDIDATES = 24, 10
"""Random postures from which the search for a home starts, at the first positions and at the further positions."""

HOME_RESIDUAL = 0.002
"""m by which the tool may miss the workspace's `tool_home` at home; orientation is weighted as in the kinematics."""

BESIDE_BODY = 0.02
"""m from the robot's body within which neither an object nor a tool has room."""

LEAST_STAND = 0.2
"""m below the table top: a base that stands on the floor is lower; one that is higher would be inside the table."""

LOWER = 0.005
"""m by which a link may be below the table top: it may have the height of the base, and hulls are approximate."""

CLEARANCE = 0.08
"""m above the table that the joints have at home, so that the links between them do not touch it."""


@dataclass(frozen=True, eq=False)
class Shape:
    """The robot's shape, as far as it is in the way of its tool."""

    body: tuple[FloatArray, ...]
    """Of each shape that the arm does not move: the planes `(f, 4)` of its hull with a rim, in the root's frame."""
    links: tuple[FloatArray, ...]
    """Of each link of the arm but the last: corners `(n, 3)` m of its hull, in the frame of the joint that moves it."""

    def beside_body(self, spec: RobotSpec, points: FloatArray) -> NDArray[np.bool_]:
        """Return `(n,)`: whether the robot's own body is at points `(n, 3)` m."""
        local = (points - spec.base_position) @ quaternion_to_matrix(spec.base_orientation)
        beside = np.zeros(len(points), dtype=bool)
        for planes in self.body:
            beside |= (local @ planes[:, :3].T + planes[:, 3]).max(axis=1) < 0.0
        return beside

    def depths(self, frames: FloatArray) -> FloatArray:
        """Return how far the arm's links are below the table top, `(n,)` m, for joints' frames `(n, J, 4, 4)`."""
        lowest = np.zeros(len(frames))
        for joint, points in enumerate(self.links):
            heights = (frames[:, joint, 2, :3] @ points.T).min(axis=1) + frames[:, joint, 2, 3]
            lowest = np.minimum(lowest, heights)
        return np.maximum(-LOWER - lowest, 0.0)

    def reached(self, chain: Chain, points: FloatArray) -> NDArray[np.bool_]:
        """Return `(n,)`: whether the tool, held as at home, reaches points `(n, 3)` m with no link in the table."""
        _, away, frames = postures_at(chain, np.tile(chain.home, (len(points), 1)), points, chain.rotation)
        reached: NDArray[np.bool_] = (away < REACHED) & (self.depths(frames) == 0.0)
        return reached


@dataclass(frozen=True)
class _Placed:
    """A robot at a base position and a home."""

    spec: RobotSpec
    share: float = 0.0
    """Share of the corners of the workspace's areas that it reaches."""


def place_base(spec: RobotSpec, workspace: WorkspaceSpec) -> tuple[RobotSpec, float]:
    """Return the robot at the base position and home that reach most of the workspace, and the share reached.

    The share counts the corners of the workspace's areas; the search ends at the first position that reaches all. A
    robot that reaches little is placed by the length of its arm, with the largest `area_scale` that it reaches whole.
    A point beside the robot's own body, or at which a link is below the table top, is not reached.
    """
    shape = shape_of(spec)
    shoulder = make_chain(spec, spec.arms[0], workspace.tool_direction).basis[0, 0].reshape(4, 4)[:3, 3]
    y, height = -float(shoulder[1]), float(shoulder[2]) - spec.base_position[2]
    # An arm that begins below the table top, or close to it, may be inside the table: the last resort.
    positions = [(x, round(y, 3) + 0.0, z) for z in BASE_Z for x in BASE_X]
    sunk = [position for position in positions if position[2] < 0 and position[2] + height < CLEARANCE]
    best = _Placed(replace(spec, base_position=positions[0]))
    for group in ([position for position in positions if position not in sunk], sunk):
        candidates = [replace(spec, base_position=position, area_scale=1.0) for position in group]
        best = _choose_base(candidates, workspace, shape, HOME_CANDIDATES, best)
        if best.share > 0:
            break
    if best.share >= ENOUGH:
        return best.spec, best.share
    turned = _facing_forward(spec, workspace)
    reach = _ReachMap(turned, workspace)
    for scale in AREA_SCALES:
        smaller = workspace.scaled(scale)
        bases = reach.bases(area_points(smaller, 3), shape)
        near = [replace(turned, base_position=base, area_scale=scale) for base in bases]
        best = _choose_base(near, smaller, shape, FURTHER_CANDIDATES, best)
        if best.share == 1.0:
            break
    best = _moved(best, workspace.scaled(best.spec.area_scale), shape)
    return best.spec, best.share


def shape_of(spec: RobotSpec) -> Shape:
    """Return the shape of a robot's first arm, and of what it is mounted on."""
    root = robot_model(spec)
    joints = read_joints(root)
    merge_fixed_joints(root)
    shapes = shapes_of_links(root, [(root_link(root), np.eye(4))])
    links = []
    for joint in (joints[joint.name] for joint in spec.joints[:-1]):
        points = points_of_links(root, [(joint.child, np.eye(4))]) @ rotation_of_z_to(np.array(joint.axis))
        links.append(np.concatenate([np.zeros((1, 3)), _corners(points)]))
    return Shape(tuple(_planes(shape) for shape in shapes), tuple(links))


def _corners(points: FloatArray) -> FloatArray:
    """Return the corners of the hull of points `(n, 3)`; the points themselves if they lie in one plane."""
    try:
        return hull(points).vertices
    except ValueError:
        return points


def _planes(points: FloatArray) -> FloatArray:
    """Return the planes `(f, 4)`, unit normals outwards and distances, of the hull of points `(n, 3)` m with a rim."""
    rim = BESIDE_BODY * np.concatenate([np.eye(3), -np.eye(3)])
    mesh = hull((_corners(points)[:, None] + rim).reshape(-1, 3))
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    normals = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    return np.column_stack([normals, -(normals * a).sum(axis=1)])


def _moved(best: _Placed, workspace: WorkspaceSpec, shape: Shape) -> _Placed:
    """Return the robot with its base back or up, where it reaches as much, and gets behind more near objects."""
    misses = _misses_behind(best.spec, workspace, shape)
    if best.share == 0.0 or misses == 0.0:
        return best
    step = BASE_STEP * arm_length(make_chain(best.spec, best.spec.arms[0], workspace.tool_direction))
    x, y, z = best.spec.base_position
    # The nearest of equal positions.
    for back, up in sorted(product(range(BASE_STEPS), repeat=2), key=sum):
        base = round(x - back * step, 3), y, round(z + up * step, 3)
        if _is_inside_table(base[2]):
            continue
        placed = _choose_home(replace(best.spec, base_position=base), workspace, shape, FURTHER_CANDIDATES)
        if placed.share >= best.share and (fewer := _misses_behind(placed.spec, workspace, shape)) < misses:
            best, misses = placed, fewer
    return best


def _misses_behind(spec: RobotSpec, workspace: WorkspaceSpec, shape: Shape) -> float:
    """Return by how much the tool misses points behind the near objects and over them, m on average.

    The tool moves over an object, and then down. Where a link is too low or the body is in the way, it does not get
    there.
    """
    low, high = workspace.areas["surface"].low, workspace.areas["surface"].high
    x, y = np.meshgrid([low[0] - BEHIND, low[0] - BEHIND / 2], [low[1], (low[1] + high[1]) / 2, high[1]])
    behind = np.column_stack([x.ravel(), y.ravel(), np.full(x.size, workspace.tool_bounds.low[2])])
    chain = make_chain(spec, spec.arms[0], workspace.tool_direction)
    q, misses = np.tile(chain.home, (len(behind), 1)), []
    for points in (behind + np.array([0.0, 0.0, CRUISE]), behind):
        q, away, frames = postures_at(chain, q, points, chain.rotation)
        misses.append(np.where(shape.beside_body(spec, points), FARTHEST_MISS, away + shape.depths(frames)))
    return float((np.array(misses) - REACHED).clip(0.0, FARTHEST_MISS).mean())


def _facing_forward(spec: RobotSpec, workspace: WorkspaceSpec) -> RobotSpec:
    """Return the robot at the origin, turned by quarter turns so that it points to x.

    The arm points where its tool is, seen from the first joint, in the middle of the joints' ranges. An arm that stands
    upright there is not turned.
    """
    spec = replace(spec, base_position=(0.0, 0.0, 0.0), base_orientation=(0.0, 0.0, 0.0, 1.0))
    chain = make_chain(spec, spec.arms[0], workspace.tool_direction)
    kinematics = Kinematics(chain)
    middle = np.sum(within_a_turn(chain.lower, chain.upper), axis=0) / 2
    shoulder, length = kinematics.joint_points(middle)[0], arm_length(chain)
    forward_x, forward_y, _ = (kinematics.pose(middle)[:3, 3] - shoulder).tolist()
    upright = np.hypot(forward_x, forward_y) < UPRIGHT * length
    yaw = 0.0 if upright else -np.pi / 2 * round(np.arctan2(forward_y, forward_x) / (np.pi / 2))
    return replace(spec, base_orientation=as_quaternion(axis_angle_to_matrix((0.0, 0.0, 1.0), yaw), 6))


class _ReachMap:
    """Points before the base at the origin that the tool reaches along the workspace's direction, whatever its yaw."""

    def __init__(self, spec: RobotSpec, workspace: WorkspaceSpec) -> None:
        chain = make_chain(spec, spec.arms[0], workspace.tool_direction)
        shoulder, length = Kinematics(chain).joint_points(chain.home)[0], arm_length(chain)
        self._spec, self._shoulder, self._length = spec, shoulder, length
        # The tool hangs below the wrist, so that it reaches farther down than up.
        extent = np.array([[0.0, 1.0], [-0.5, 0.5], [-1.0, 0.8]]) * length
        self._axes = [
            start + np.linspace(low, high, count)
            for start, (low, high), count in zip(shoulder, extent, MAP_SIZE, strict=True)
        ]
        points = np.stack([grid.ravel() for grid in np.meshgrid(*self._axes, indexing="ij")], axis=1)
        self._reached = np.zeros(len(points), dtype=bool)
        rng = np.random.default_rng(0)
        low, high = within_a_turn(chain.lower, chain.upper)
        for share in np.linspace(0.0, 1.0, MAP_STARTS):
            left = np.flatnonzero(~self._reached)
            start = (low + high) / 2 + share * (rng.uniform(low, high, (len(left), len(low))) - (low + high) / 2)
            self._reached[left] = reached_along(chain, points[left], start, workspace.tool_direction, MAP_ITERATIONS)
        self._reached = self._reached.reshape(MAP_SIZE)

    def bases(self, points: FloatArray, shape: Shape) -> list[tuple[float, float, float]]:
        """Return the base positions from which the tool reaches most points `(n, 3)` m of areas, the best first.

        Of equal bases, that from which it also gets behind most objects at the edge of the areas is preferred, and then
        the nearest to the table top, in the middle of the equal ones. Points beside the body are not reached.
        """
        around = _around(points)
        x, y, z = self._shoulder
        steps = [
            (-share * self._length - x, -y, height)
            for height in (0.0, *(share * self._length - z for share in np.arange(0.1, 0.9, 0.1)))
            if not _is_inside_table(height)
            for share in np.arange(0.2, 0.8, 0.05)
        ]
        scored, wanted = [], np.concatenate([points, around])
        for bx, by, bz in steps:
            base = round(float(bx), 3), round(float(by), 3) + 0.0, round(float(bz), 3)
            at = wanted - base
            index = [
                np.rint((at[:, k] - axis[0]) / (axis[1] - axis[0])).astype(int) for k, axis in enumerate(self._axes)
            ]
            inside = np.all([(i >= 0) & (i < size) for i, size in zip(index, MAP_SIZE, strict=True)], axis=0)
            clipped = tuple(np.clip(i, 0, size - 1) for i, size in zip(index, MAP_SIZE, strict=True))
            reached = inside & self._reached[clipped]
            reached &= ~shape.beside_body(replace(self._spec, base_position=base), wanted)
            shares = float(reached[: len(points)].mean()), float(reached[len(points) :].mean())
            scored.append((shares, base))
        ordered = [base for _, base in sorted(scored, key=lambda item: item[0], reverse=True)]
        most = max(scores for scores, _ in scored)
        height = min((base[2] for scores, base in scored if scores == most), key=abs)
        middle = [base for scores, base in scored if scores == most and base[2] == height]
        return list(dict.fromkeys([middle[len(middle) // 2], *ordered][:BASES_TRIED]))


def _is_inside_table(height: float) -> bool:
    """Return whether a base at a height in m would be neither on the table or a socket, nor on the floor."""
    return -LEAST_STAND < height < 0.0


def _around(points: FloatArray) -> FloatArray:
    """Return points `(9, 3)` m on the table behind objects at the edges of areas with points `(n, 3)` m."""
    low, high = points.min(axis=0), points.max(axis=0)
    edges = [(a - BEHIND, (a + b) / 2, b + BEHIND) for a, b in zip(low[:2], high[:2], strict=True)]
    sides = np.array(np.meshgrid(*edges)).reshape(2, -1).T
    return np.column_stack([sides, np.full(len(sides), low[2])])


def _choose_base(
    candidates: Iterable[RobotSpec], workspace: WorkspaceSpec, shape: Shape, postures: int, best: _Placed
) -> _Placed:
    """Return the best robot, with its home from so many random postures; `best` if no candidate reaches more.

    The search ends at the first robot that reaches all.
    """
    for candidate in candidates:
        placed = _choose_home(candidate, workspace, shape, postures)
        # Of smaller areas with the same share of their corners, more of the inside is reached.
        best = max(best, placed, key=lambda placed: (placed.share, -placed.spec.area_scale))
        if best.share == 1.0:
            break
    return best


def _choose_home(spec: RobotSpec, workspace: WorkspaceSpec, shape: Shape, postures: int) -> _Placed:
    """Return the robot with the home that reaches most of the workspace.

    Homes from which the links stay above the table, not at joint limits, near the middle of the joints' ranges are
    preferred. The hand closes along the world's y axis if the arm can turn it so.
    """
    lower, upper = (np.array([getattr(joint, key) for joint in spec.joints]) for key in ("lower", "upper"))
    low, high = within_a_turn(lower, upper)
    chain = make_chain(spec, spec.arms[0], workspace.tool_direction)
    tool, kinematics = np.array(workspace.tool_home), Kinematics(chain)
    if np.linalg.norm(tool - kinematics.joint_points(chain.home)[0]) > arm_length(chain) + HOME_RESIDUAL:
        return _Placed(spec)
    rng = np.random.default_rng(0)
    middle = (low + high) / 2
    # The middle of the ranges and postures beside it come first: they lead to natural homes.
    shares = np.minimum(1.0, np.arange(postures) / (postures / 2))[:, None]
    starts = middle + shares * (rng.uniform(low, high, (postures, len(low))) - middle)
    rotations = np.array([_aligned(at_home(chain, start, workspace.tool_direction).rotation) for start in starts])
    homes, away, frames = postures_at(chain, starts, tool, rotations, starts, iterations=100)
    candidates: list[tuple[tuple[float, ...], FloatArray]] = []
    for number in np.flatnonzero(away < HOME_RESIDUAL):
        home, heights = homes[number], frames[number, :, 2, 3]
        margin = np.minimum(home - lower, upper - home) / (upper - lower)
        # An elbow below the table would collide with it; the base may stand lower.
        above = min(float(heights.min()), min(CLEARANCE, float(heights[0])))
        free = round(float(margin.min().clip(max=LARGE_MARGIN)), 2)
        axes = kinematics.pose(home)[:3, 2] @ rotations[number, :, 2]
        upright = round(float(axes), 1) if chain.tilt_is_free else 1.0
        bend = float(np.linalg.norm((home - middle) / (high - low)))
        candidates.append(((round(above, 2), free, upright, -bend), home.round(3)))
    if not candidates:
        return _Placed(spec)
    candidates.sort(key=lambda candidate: candidate[0], reverse=True)
    # An arm that tilts its tool as it moves is a short one: corners alone would say little of what it reaches.
    corners = area_points(workspace, 4 if chain.tilt_is_free else 2)
    tried = [at_home(chain, home, workspace.tool_direction) for _, home in candidates[: 2 if chain.tilt_is_free else 5]]
    if chain.tilt_is_free:
        begins = [np.tile(at.home, (len(corners), 1)) for at in tried]
        along = workspace.tool_direction, MAP_ITERATIONS
        reached = np.array([reached_along(at, corners, q, *along) for at, q in zip(tried, begins, strict=True)])
    else:
        reached = np.array([shape.reached(at, corners) for at in tried])
    shares = (reached & ~shape.beside_body(spec, corners)).mean(axis=1)
    best = int(shares.argmax())
    if shares[best] == 0.0:
        return _Placed(spec)
    joints = (replace(joint, home=float(q)) for joint, q in zip(spec.joints, tried[best].home, strict=True))
    return _Placed(replace(spec, joints=tuple(joints)), float(shares[best]))


def _aligned(rotation: FloatArray) -> FloatArray:
    """Return a rotation `(3, 3)` of the tool turned about its z axis by the least angle that brings its y axis to ±y.

    Fingers close along the y axis of the tool.
    """
    closing, z = rotation[:, 1], rotation[:, 2]
    wanted = np.array([0.0, 1.0, 0.0]) - z[1] * z
    wanted *= 1.0 if closing @ wanted >= 0 else -1.0
    turned: FloatArray = (
        axis_angle_to_matrix(z, float(np.arctan2(np.cross(closing, wanted) @ z, closing @ wanted))) @ rotation
    )
    return turned


def arm_length(chain: Chain) -> float:
    """Return the length of a stretched arm, from its first joint to the tool point, m."""
    steps = [*np.diff(Kinematics(chain).joint_points(chain.home), axis=0), chain.tool[:3, 3]]
    travel = np.maximum(np.abs(chain.lower), np.abs(chain.upper))[chain.slides]
    return float(np.linalg.norm(steps, axis=1).sum() + travel.sum())


def area_points(workspace: WorkspaceSpec, count: int = 2) -> FloatArray:
    """Return points `(n, 3)` m of the workspace's areas, `count` along each edge, raised to the tool's bounds."""
    boxes = [workspace.areas[name] for name in ("reach", "surface", "air")]
    grids = [np.meshgrid(*np.linspace(box.low, box.high, count).T) for box in boxes]
    points: FloatArray = np.concatenate([np.array(grid).reshape(3, -1).T for grid in grids])
    points[:, 2] = np.maximum(points[:, 2], workspace.tool_bounds.low[2])
    return points


DIRECTIONS = 3
"""Directions in which a tool has to move to reach a point in space."""

POINTS = 3
"""Points along each edge of the table's areas at which the lean of the tool is measured."""


@dataclass(frozen=True)
class Freedom:
    """Freedom of an arm's tool on the default table."""

    joints: int
    directions: int
    """Number of independent directions in which the joints move the tool point, 0 to 3."""
    lean: tuple[float, float] | None
    """Least and largest angle of the tool from straight down over the table's areas, degrees; None if it is held."""

    @property
    def moves(self) -> str:
        """In how many directions the tool moves, if these are too few; else empty."""
        if self.directions >= DIRECTIONS:
            return ""
        return f"moves its tool in {self.directions} of {DIRECTIONS} directions, with {counted(self.joints, 'joint')}"

    @property
    def leans(self) -> str:
        """The lean of the tool in words, if it cannot be held upright; else empty."""
        if self.lean is None:
            return ""
        low, high = self.lean
        return (
            f"cannot hold its tool upright: with {counted(self.joints, 'joint')} it leans by {low:.0f}° to {high:.0f}°"
        )


@cached_by_model
def freedom(robot: RobotSpec) -> Freedom:
    """Return the freedom of a robot's first arm, at its base and home."""
    workspace = load_workspace("table")
    robot, workspace = workspace.with_base(robot), workspace.fit(robot)
    kinematics = Kinematics(make_chain(robot, robot.arms[0], workspace.tool_direction))
    chain = kinematics.chain
    directions = kinematics.directions()
    if not chain.tilt_is_free or directions < DIRECTIONS:
        return Freedom(len(chain.home), directions, None)
    postures = [chain.home]
    for point in area_points(workspace, POINTS):
        posture = kinematics.inverse(chain.home, point, chain.rotation)
        if not kinematics.missing(posture, point, chain.rotation):
            postures.append(posture)
    cosines = [float(kinematics.pose(posture)[:3, 2] @ workspace.tool_direction) for posture in postures]
    low, high = np.degrees(np.arccos(np.clip([max(cosines), min(cosines)], -1.0, 1.0))).tolist()
    return Freedom(len(chain.home), directions, (low, high))
