"""Forward and inverse kinematics of one chain of joints, by damped least squares; deterministic.

Damped least squares: Nakamura and Hanafusa 1986; Wampler 1986. Compared with Bullet's: benchmarks/results/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.robotics.robot_spec import ArmSpec, RobotSpec, cached_by_model, robot_model
from mygym.robotics.transforms import axis_angle_to_matrix, pose_matrix, quaternion_to_matrix, rotation_of_z_to
from mygym.robotics.urdf import merge_fixed_joints, read_joints
from mygym.types import FloatArray

ORIENTATION_WEIGHT = 0.3
"""m/rad: position error that equals an orientation error of 1 rad."""

REACHED = 0.005
"""m by which the tool may miss a pose that it reaches; orientation is weighted by `ORIENTATION_WEIGHT`."""


def jacobian_column(axis: Sequence[Any], lever: Sequence[Any]) -> tuple[Any, ...]:
    """Return a joint's column of the geometric Jacobian: m/rad, then rad/rad times `ORIENTATION_WEIGHT`.

    Args:
        axis: Three components of the joint's unit axis, world frame.
        lever: Three components of the vector from the joint to the tool point, m.
    """
    (ax, ay, az), (x, y, z), w = axis, lever, ORIENTATION_WEIGHT
    return ay * z - az * y, az * x - ax * z, ax * y - ay * x, w * ax, w * ay, w * az


def pose_error(pose: Sequence[Sequence[Any]], position: Sequence[Any], rotation: Sequence[Sequence[Any]]) -> list[Any]:
    """Return six components of the error of a pose: m, then rad times `ORIENTATION_WEIGHT`, in the world frame.

    Args:
        pose: Three rows of the pose, each with three components of the rotation, then the position in m.
        position: Three components of the target position, m.
        rotation: Three rows of the target rotation.
    """
    (a, b, c, x), (d, e, f, y), (g, h, i, z) = pose
    (o, p, q), (r, s, t), (u, v, w) = rotation
    px, py, pz = position
    weight = 0.5 * ORIENTATION_WEIGHT
    # The skew-symmetric part of rotation @ pose.T is the axis of the rotation error times the sine of its angle.
    return [
        px - x,
        py - y,
        pz - z,
        weight * (u * d + v * e + w * f - r * g - s * h - t * i),
        weight * (o * g + p * h + q * i - u * a - v * b - w * c),
        weight * (r * a + s * b + t * c - o * d - p * e - q * f),
    ]


DAMPING = 0.02
"""m: singular values below about this are damped: safe for a stretched arm, and two iterations still converge."""

NULL_SPACE_GAIN = 0.05
"""Share of the way to the home posture per iteration, in the null space of the end effector."""

MAX_CHANGE = 0.3
"""rad: limit of the change of each joint in an iteration, within which the linearisation holds."""

HOME_TOLERANCE = 0.01
"""m by which the tool may start beside the workspace's `tool_home`; orientation is weighted as in the kinematics."""

YAW_SHARE = 0.15
"""Smallest singular value of an arm that holds its yaw; a tool that is a little skewed has a smaller one."""

TILT_WEIGHT = 0.03
"""m/rad: the same as `ORIENTATION_WEIGHT` for an arm whose yaw is free: it tilts its tool where it would not reach."""

YAW_POSTURES = 8
"""Postures at which it is tried whether an arm holds the yaw of its tool; a single one may be singular."""

TILT_POSTURES, TILT_ITERATIONS = 32, 40
"""Postures from which the tool is turned along a direction, to try whether an arm holds it, and the iterations."""

MAX_TILT = 0.3
"""Sine of the largest angle at which a tool points along a direction: some tools are mounted askew."""

TILT_SHARE = 0.1
"""Smallest singular value, in lengths of the arm, of an arm that moves in three directions and holds its tool's z axis;
arms that do have 0.2 or more, others almost 0."""

TOLERANCE = 1e-4
"""m: smaller errors count as zero (orientation weighted by `ORIENTATION_WEIGHT`)."""


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain of `J` revolute or prismatic joints, from the world frame to the tool point; rad, or m if prismatic.

    The transform of joint `i` is `basis[i, 0] + cos(q) basis[i, 1] + sin(q) basis[i, 2]` (Rodrigues), each a flattened
    `(4, 4)` matrix; of a prismatic joint it is `basis[i, 0] + q basis[i, 2]`.
    Frames are rotated so that every joint's axis is the z axis of its frame.
    """

    basis: FloatArray
    """`(J, 3, 16)`."""
    tool: FloatArray
    """`(4, 4)` pose of the tool point in the last joint's frame."""
    rotation: FloatArray
    """`(3, 3)` the orientation that controllers hold: the tool's z axis in a given direction, its x axis as at home."""
    home: FloatArray
    """`(J,)` rad."""
    lower: FloatArray
    """`(J,)` rad."""
    upper: FloatArray
    """`(J,)` rad."""
    slides: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """`(J,)`: whether a joint is prismatic; empty in models that were exported before slides were joints."""
    yaw_is_free: NDArray[np.bool_] = field(default_factory=lambda: np.array(False))
    """`()`: whether the tool turns about its axis as it moves, because the arm has too few joints to hold this yaw."""
    tilt_is_free: NDArray[np.bool_] = field(default_factory=lambda: np.array(False))
    """`()`: whether the tool's z axis tilts as it moves, because the arm cannot hold it along the given direction."""

    @property
    def tilt_weight(self) -> float:
        """m/rad: position error that equals a tilt of the tool of 1 rad; 0 if the tilt is free."""
        if self.tilt_is_free:
            return 0.0
        return TILT_WEIGHT if self.yaw_is_free else ORIENTATION_WEIGHT


@cached_by_model
def make_chain(robot: RobotSpec, arm: ArmSpec, direction: Sequence[float]) -> Chain:
    """Return the chain of an arm; the tool's z axis is held along `direction`, a `(3,)` unit vector in the world."""
    root = robot_model(robot)
    merged = merge_fixed_joints(root)
    joints = read_joints(root)
    base = pose_matrix(robot.base_position, quaternion_to_matrix(robot.base_orientation))
    previous_align = np.eye(4)
    basis = []
    for index, spec in enumerate(arm.joints):
        joint = joints[spec.name]
        align = pose_matrix(np.zeros(3), rotation_of_z_to(np.array(joint.axis)))
        origin = (base if index == 0 else previous_align.T) @ joint.origin @ align
        previous_align = align
        if joint.kind == "prismatic":
            slope = np.zeros((4, 4))
            slope[2, 3] = 1.0
            basis.append([(origin @ term).ravel() for term in (np.eye(4), np.zeros((4, 4)), slope)])
            continue
        rest, quarter, half = (
            pose_matrix(np.zeros(3), axis_angle_to_matrix((0, 0, 1), a)) for a in (0, np.pi / 2, np.pi)
        )
        middle = (rest + half) / 2
        basis.append([(origin @ term).ravel() for term in (middle, rest - middle, quarter - middle)])
    _, local = merged[arm.end_effector.link]
    offset = pose_matrix(arm.end_effector.position, quaternion_to_matrix(arm.end_effector.orientation))
    chain = Chain(
        basis=np.array(basis),
        tool=previous_align.T @ local @ offset,
        rotation=np.eye(3),
        home=np.array([joint.home for joint in arm.joints]),
        lower=np.array([joint.lower for joint in arm.joints]),
        upper=np.array([joint.upper for joint in arm.joints]),
        slides=np.array([joints[joint.name].kind == "prismatic" for joint in arm.joints]),
    )
    chain = replace(
        chain,
        yaw_is_free=np.array(not Kinematics(chain).holds_yaw()),
        tilt_is_free=np.array(not _holds_tilt(chain, direction)),
    )
    return at_home(chain, chain.home, direction)


def at_home(chain: Chain, home: FloatArray, direction: Sequence[float]) -> Chain:
    """Return the chain with another home `(J,)` rad, and the orientation that controllers hold from this home."""
    chain = replace(chain, home=home)
    return replace(chain, rotation=_pointing(np.asarray(direction, dtype=float), Kinematics(chain).pose(home)))


def _pointing(z: FloatArray, pose: FloatArray) -> FloatArray:
    """Return the rotation `(3, 3)` with a z axis, and the x axis closest to the x axis (or -z) of a pose `(4, 4)`."""
    x = pose[:3, 0] - (pose[:3, 0] @ z) * z
    if np.linalg.norm(x) < 0.1:  # the x axis is parallel to the new z axis
        x = -pose[:3, 2] + (pose[:3, 2] @ z) * z
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


class Kinematics:
    """Forward and inverse kinematics of a chain; arrays are reused, as allocation costs more than the arithmetic."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        joints = len(chain.home)
        self._has_slides = bool(chain.slides.any())
        self._is_free = bool(chain.yaw_is_free or chain.tilt_is_free)
        self._tilt_weight = chain.tilt_weight
        self._terms = np.ones((joints, 1, 3))  # 1, cos q, sin q
        self._local = np.empty((joints, 1, 16))
        self._frames = np.empty((joints, 4, 4))
        self._pairs = [(self._local[i, 0].reshape(4, 4), self._frames[i]) for i in range(joints)]
        self._at: FloatArray | None = None
        self._pose = np.eye(4)

    def __deepcopy__(self, memo: Any) -> Kinematics:
        return Kinematics(self.chain)  # copies of arrays that are views of each other would be apart

    def pose(self, q: FloatArray) -> FloatArray:
        """Return the pose `(4, 4)` of the tool point in the world at joint positions `(J,)` rad.

        The result for the last array object is cached: do not change that array in place.
        """
        if q is self._at:
            return self._pose
        np.cos(q, out=self._terms[:, 0, 1])
        np.sin(q, out=self._terms[:, 0, 2])
        if self._has_slides:
            self._terms[self.chain.slides, 0, 2] = q[self.chain.slides]
        np.matmul(self._terms, self.chain.basis, out=self._local)
        before: FloatArray | None = None
        for local, frame in self._pairs:
            if before is None:
                frame[:] = local
            else:
                np.dot(before, local, out=frame)
            before = frame
        self._at, self._pose = q, self._frames[-1] @ self.chain.tool
        return self._pose

    def joint_points(self, q: FloatArray) -> FloatArray:
        """Return the origins of the joints' frames in the world, `(J, 3)` m, at joint positions `(J,)` rad."""
        self.pose(q)
        return self._frames[:, :3, 3].copy()

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return the geometric Jacobian `(6, J)` of the tool point at joint positions `(J,)` rad.

        Its rows are m/rad, then rad/rad times `ORIENTATION_WEIGHT`; the columns of joints that slide are m/m and 0.
        """
        return self._jacobian(self.pose(q))

    def _jacobian(self, pose: FloatArray) -> FloatArray:
        """Return the geometric Jacobian `(6, J)` at the last `pose`: m/rad, then rad/rad times `ORIENTATION_WEIGHT`."""
        px, py, pz = pose[:3, 3].tolist()
        # Plain floats: for few numbers a numpy call costs as much as thirty of these operations.
        columns = [
            jacobian_column(axis, (px - x, py - y, pz - z))
            for axis, (x, y, z) in zip(self._frames[:, :3, 2].tolist(), self._frames[:, :3, 3].tolist(), strict=True)
        ]
        jacobian = np.array(columns).T
        if self._has_slides:
            slides = self.chain.slides
            jacobian[:3, slides], jacobian[3:, slides] = self._frames[slides, :3, 2].T, 0.0
        if self._is_free:
            jacobian[3:] *= self._tilt_weight / ORIENTATION_WEIGHT
        return jacobian

    def holds_yaw(self) -> bool:
        """Return whether the arm can move its tool in three directions without a turn about the tool's axis."""
        if len(self.chain.home) <= 3:
            return False
        for pose in self._random_poses():
            jacobian = self._jacobian(pose)
            rows = np.vstack(
                [jacobian[:3] / np.abs(jacobian[:3]).max(), pose[:3, 2] @ jacobian[3:] / ORIENTATION_WEIGHT]
            )
            if np.linalg.svd(rows, compute_uv=False)[-1] > YAW_SHARE:
                return True
        return False

    def directions(self) -> int:
        """Return the number of independent directions in which the arm moves its tool point, 0 to 3."""
        moves = [self._jacobian(pose)[:3] for pose in self._random_poses()]
        return max(int(np.linalg.matrix_rank(move, tol=1e-3 * max(float(np.abs(move).max()), 1e-9))) for move in moves)

    def _random_poses(self) -> Iterator[FloatArray]:
        """Yield the poses of `YAW_POSTURES` random postures away from the joints' limits, the same in every call."""
        chain, rng = self.chain, np.random.default_rng(0)
        for _ in range(YAW_POSTURES):
            yield self.pose(chain.lower + rng.uniform(0.1, 0.9, len(chain.home)) * (chain.upper - chain.lower))

    def _error(self, pose: FloatArray, position: FloatArray, rotation: FloatArray) -> list[float]:
        """Return the pose error, 6 numbers: m, then rad times `ORIENTATION_WEIGHT`, in the world frame."""
        error = pose_error(pose.tolist()[:3], position.tolist(), rotation.tolist())
        if self._is_free:
            error[3:] = (self._tilt_weight * np.cross(pose[:3, 2], rotation[:, 2])).tolist()
        return error

    def inverse(
        self,
        q: FloatArray,
        position: FloatArray,
        rotation: FloatArray,
        iterations: int = 50,
        tolerance: float = TOLERANCE,
    ) -> FloatArray:
        """Return joint positions that bring the tool point to a pose, from a start nearby.

        Each iteration minimises |J dq - e|² + d² |dq - g (home - q)|², so the null space drifts to the home posture.
        A joint that would pass a limit is brought to it, and the others minimise what is left, so that an arm goes on
        where one of its joints cannot. Positions are clipped; the next iteration corrects the resulting error.

        Args:
            q: `(J,)` rad, start: the last command.
            position: `(3,)` m, target of the tool point in the world.
            rotation: `(3, 3)` target orientation.
            iterations: Largest number; none if the first error is below `TOLERANCE`.
            tolerance: m, error at which iterations stop; orientation is weighted by `ORIENTATION_WEIGHT`.

        Returns:
            `(J,)` rad within the limits: a new array, or `q` itself if no iteration was needed.
        """
        chain = self.chain
        for iteration in range(iterations):
            pose = self.pose(q)
            error = self._error(pose, position, rotation)
            if max(map(abs, error)) < (tolerance if iteration else TOLERANCE):
                break
            matrix = self._jacobian(pose)
            pull = NULL_SPACE_GAIN * (chain.home - q)
            square = matrix @ matrix.T
            square += _REGULARISER
            change = pull + matrix.T @ np.linalg.solve(square, error - matrix @ pull)
            target = q + change
            bounded = np.minimum(np.maximum(target, chain.lower), chain.upper)
            is_limited = (beyond := bounded != target).any()
            if is_limited:
                to_limit = np.where(beyond, bounded - q, 0.0)
                left, matrix, pull = error - matrix @ to_limit, matrix * ~beyond, pull * ~beyond
                square = matrix @ matrix.T + _REGULARISER
                change = to_limit + pull + matrix.T @ np.linalg.solve(square, left - matrix @ pull)
            largest = max(map(abs, change.tolist()))
            if is_limited or largest > MAX_CHANGE:
                change *= min(1.0, MAX_CHANGE / largest)
                bounded = np.minimum(np.maximum(q + change, chain.lower), chain.upper)
            q = bounded
        return q

    def residual(self, q: FloatArray, position: FloatArray, rotation: FloatArray) -> float:
        """Return the distance in m of the tool at `q` from a pose, orientation weighted by `ORIENTATION_WEIGHT`."""
        return float(np.linalg.norm(self._error(self.pose(q), position, rotation)))

    def missing(self, q: FloatArray, position: FloatArray, rotation: FloatArray) -> str:
        """Return by how much the tool at `q` `(J,)` misses a pose, in cm and degrees; empty within `HOME_TOLERANCE`.

        An arm whose tilt is free has no degrees to miss.
        """
        if self.residual(q, position, rotation) <= HOME_TOLERANCE:
            return ""
        pose = self.pose(q)
        distance = float(np.linalg.norm(pose[:3, 3] - position))
        if self.chain.tilt_is_free:
            return f"{100 * distance:.1f} cm short"
        tilt = float(np.degrees(np.arccos(np.clip(pose[:3, 2] @ rotation[:, 2], -1.0, 1.0))))
        return f"{100 * distance:.1f} cm short, the tool tilted by {tilt:.0f}°"

    def reachable(self, points: FloatArray, rotation: FloatArray) -> NDArray[np.bool_]:
        """Return `(n,)`: whether the tool reaches each point `(n, 3)` at a rotation."""
        away = postures_at(self.chain, np.tile(self.chain.home, (len(points), 1)), points, rotation)[1]
        return away < REACHED


def postures_at(
    chain: Chain,
    q: FloatArray,
    points: FloatArray,
    rotation: FloatArray,
    home: FloatArray | None = None,
    iterations: int = 50,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return joint positions that bring the tool to points, each as `Kinematics.inverse`, all computed at once.

    Args:
        chain: The chain.
        q: `(n, J)` rad or m, the start of each.
        points: `(n, 3)` m, or `(3,)` for all.
        rotation: `(n, 3, 3)` the orientation of the tool, or `(3, 3)` for all.
        home: `(n, J)` rad or m, the preferred postures; by default the chain's.
        iterations: Largest number.

    Returns:
        Joint positions `(n, J)`, the distances `(n,)` m of the tool from its poses as `Kinematics.residual`, and the
        joints' frames `(n, J, 4, 4)` in the world.
    """
    home = np.broadcast_to(chain.home if home is None else home, q.shape)
    points, rotation = np.broadcast_to(points, (len(q), 3)), np.broadcast_to(rotation, (len(q), 3, 3))
    q, away, frames = q.copy(), np.zeros(len(q)), np.zeros((*q.shape, 4, 4))
    left = np.arange(len(q))
    for iteration in range(iterations + 1):
        pose, frames[left], jacobian = _moved(chain, q[left])
        if chain.yaw_is_free or chain.tilt_is_free:
            turn = np.cross(pose[:, :3, 2], rotation[left, :, 2])
            weight = chain.tilt_weight
        else:
            turn = 0.5 * np.cross(pose[:, :3, :3], rotation[left], axis=1).sum(axis=2)
            weight = ORIENTATION_WEIGHT
        error = np.concatenate([points[left] - pose[:, :3, 3], weight * turn], axis=1)
        away[left] = np.linalg.norm(error, axis=1)
        if iteration == iterations:
            break
        is_left = np.abs(error).max(axis=1) >= TOLERANCE
        left, error, matrix = left[is_left], error[is_left], jacobian[is_left] * np.repeat((1.0, weight), 3)
        if not len(left):
            break
        pull = NULL_SPACE_GAIN * (home[left] - q[left])
        q[left] = _step(chain, q[left], matrix, error, pull)
    return q, away, frames


def reached_along(
    chain: Chain,
    points: FloatArray,
    q: FloatArray,
    direction: Sequence[float],
    iterations: int,
) -> NDArray[np.bool_]:
    """Return `(n,)`: whether the tool reaches points `(n, 3)` m with its z axis along a direction, a unit vector.

    All points are computed at once, each from a posture of `q` `(n, J)` rad or m, without a preferred posture. An arm
    whose tilt is free reaches them in any direction.
    """
    pose, error, _ = _converged(chain, points, q, direction, iterations, (1.0, chain.tilt_weight))
    # An opposite axis has no error either.
    upright = (pose[:, :3, 2] @ np.asarray(direction, dtype=float) > 0) | bool(chain.tilt_is_free)
    reached: NDArray[np.bool_] = upright & (np.linalg.norm(error, axis=1) < REACHED)
    return reached


def within_a_turn(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ranges of joints `(J,)` rad or m without what is beyond ±π, which adds no posture, if anything is left."""
    low, high = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    return np.where(low < high, low, lower), np.where(low < high, high, upper)


def _holds_tilt(chain: Chain, direction: Sequence[float]) -> bool:
    """Return whether the arm can move its tool in three directions while the tool's z axis keeps a direction `(3,)`."""
    if len(chain.home) < 3:
        return False
    goal, rng = np.asarray(direction, dtype=float), np.random.default_rng(0)
    low, high = within_a_turn(chain.lower, chain.upper)
    start = rng.uniform(low, high, (TILT_POSTURES, len(low)))
    pose, error, jacobian = _converged(
        chain, np.zeros((TILT_POSTURES, 3)), start, direction, TILT_ITERATIONS, (0.0, 1.0)
    )
    turned = (np.linalg.norm(error, axis=1) < MAX_TILT) & (pose[:, :3, 2] @ goal > 0)
    for moves, turns in zip(jacobian[turned, :, :3], jacobian[turned, :, 3:], strict=True):
        tilts = turns @ (np.eye(3) - np.outer(goal, goal))  # (J, 3): a turn about the direction is no tilt
        still = np.eye(len(low)) - tilts @ np.linalg.pinv(tilts, rcond=TILT_SHARE)
        if np.linalg.svd(moves.T @ still, compute_uv=False)[2] > TILT_SHARE * np.abs(moves).max():
            return True
    return False


def _converged(
    chain: Chain,
    points: FloatArray,
    q: FloatArray,
    direction: Sequence[float],
    iterations: int,
    weights: tuple[float, float],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bring the tool to points with its z axis along a direction, all at once; for the arguments see `reached_along`.

    `weights` are those of the position error, and of the tilt in m/rad; 0 leaves it free.

    Returns:
        The tool's poses `(n, 4, 4)`, the weighted errors `(n, 6)`, and the transposed Jacobians `(n, J, 6)` in m and
        rad per rad or m.
    """
    goal, weight = np.asarray(direction, dtype=float), np.repeat(weights, 3)
    for iteration in range(iterations + 1):
        pose, _, jacobian = _moved(chain, q)
        error = weight * np.concatenate([points - pose[:, :3, 3], np.cross(pose[:, :3, 2], goal)], axis=1)
        if iteration == iterations:
            break
        q = _step(chain, q, weight * jacobian, error, np.zeros_like(q))
    return pose, error, jacobian


def _step(chain: Chain, q: FloatArray, matrix: FloatArray, error: FloatArray, pull: FloatArray) -> FloatArray:
    """Return joint positions `(n, J)` rad or m after an iteration of `Kinematics.inverse`.

    `matrix` `(n, J, 6)` are weighted transposed Jacobians, `error` `(n, 6)` weighted errors of the tool, and `pull`
    `(n, J)` changes towards the preferred postures.
    """
    change = _least_squares(matrix, error, pull)
    target = q + change
    beyond = (target < chain.lower) | (target > chain.upper)
    if (rows := beyond.any(axis=1)).any():
        joints = beyond[rows]
        to_limit = np.where(joints, target[rows].clip(chain.lower, chain.upper) - q[rows], 0.0)
        left = error[rows] - (to_limit[:, None] @ matrix[rows])[:, 0]
        change[rows] = to_limit + _least_squares(matrix[rows] * ~joints[:, :, None], left, pull[rows] * ~joints)
    change *= np.minimum(1.0, MAX_CHANGE / np.maximum(np.abs(change).max(axis=1, keepdims=True), 1e-9))
    return (q + change).clip(chain.lower, chain.upper)


def _least_squares(matrix: FloatArray, error: FloatArray, pull: FloatArray) -> FloatArray:
    """Return the changes `(n, J)` without limits, see `_step`."""
    aim = error - (pull[:, None] @ matrix)[:, 0]
    square = np.swapaxes(matrix, 1, 2) @ matrix + _REGULARISER
    return pull + (matrix @ np.linalg.solve(square, aim[:, :, None]))[:, :, 0]


def _moved(chain: Chain, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the tool's poses `(n, 4, 4)`, the joints' frames `(n, J, 4, 4)` and transposed Jacobians `(n, J, 6)`."""
    slides = chain.slides if len(chain.slides) else np.zeros(len(chain.home), dtype=bool)
    terms = np.stack([np.ones_like(q), np.cos(q), np.where(slides, q, np.sin(q))], axis=2)
    local = np.einsum("njk,jkl->njl", terms, chain.basis).reshape(*q.shape, 4, 4)
    frames = [local[:, 0]]
    for joint in range(1, q.shape[1]):
        frames.append(frames[-1] @ local[:, joint])
    pose, stacked = frames[-1] @ chain.tool, np.stack(frames, axis=1)
    axes, lever = stacked[:, :, :3, 2], pose[:, None, :3, 3] - stacked[:, :, :3, 3]
    moves = np.where(slides[:, None], axes, np.cross(axes, lever))
    return pose, stacked, np.concatenate([moves, np.where(slides[:, None], 0.0, axes)], axis=2)


_REGULARISER = DAMPING**2 * np.eye(6)
