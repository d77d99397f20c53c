"""A box in each world: it slides on the table, is pushed by two fingers, falls, and rests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mygym.engines.arrays import Arrays, Rows
from mygym.engines.fused.arm import FingerShape
from mygym.engines.world import GRAVITY
from mygym.types import Array, Vector

TOUCHING = 3e-4
"""m between surfaces within which bodies touch."""


def push(
    xp: Any,
    box: tuple[Array, Array, Array],
    half: tuple[float, float],
    disc: tuple[Array, Array],
    motion: tuple[Array, Array],
    start: tuple[Array, Array, Array],
    radius: float,
    friction: float,
    solid: Array,
) -> tuple[tuple[Array, Array, Array], Array]:
    """Return the poses of boxes that discs have pushed out of the way, and `(N,)` bool: whether they touch.

    Args:
        xp: Array namespace.
        box: x, y in m and yaw in rad of the boxes, each `(N,)`.
        half: m: half edges of the boxes.
        disc: x, y of the discs, m, each `(N,)`.
        motion: m: x, y of the way of each disc in this step.
        start: x, y and yaw of the boxes at the beginning of this step.
        radius: m, of the discs.
        friction: Coefficient between disc and box.
        solid: `(N,)` bool: whether disc and box can meet at their heights.
    """
    x, y, yaw = box
    cosine, sine = xp.cos(yaw), xp.sin(yaw)
    dx, dy = disc[0] - x, disc[1] - y
    lx, ly = cosine * dx + sine * dy, cosine * dy - sine * dx
    qx, qy = xp.clip(lx, -half[0], half[0]), xp.clip(ly, -half[1], half[1])
    ox, oy = lx - qx, ly - qy
    away = xp.sqrt(ox * ox + oy * oy)
    # A centre inside the box leaves it through the nearest edge.
    exit_x, exit_y = half[0] - xp.abs(lx), half[1] - xp.abs(ly)
    inside = away < 1e-7
    leaves_x = exit_x < exit_y
    scale = 1.0 / xp.clip(away, 1e-7, None)
    nx = xp.where(inside, xp.where(leaves_x, xp.sign(lx), 0.0), ox * scale)
    ny = xp.where(inside, xp.where(leaves_x, 0.0, xp.sign(ly)), oy * scale)
    depth = radius + xp.where(inside, xp.minimum(exit_x, exit_y), -away)
    touches = solid & (depth > -TOUCHING)
    depth = xp.clip(depth, 0.0, None) * touches
    inertia = 3.0 / (half[0] ** 2 + half[1] ** 2)  # mass divided by the moment of inertia, 1/m²
    lever = qx * ny - qy * nx
    normal = depth / (1.0 + inertia * lever * lever)
    turn = -inertia * lever * normal
    # Tangent: the normal turned by 90°. Friction lessens the slip of the disc over the box.
    tx, ty = -ny, nx
    arm = qx * ty - qy * tx
    slip_x, slip_y = motion[0] - (x - start[0]), motion[1] - (y - start[1])
    mx, my = cosine * slip_x + sine * slip_y, cosine * slip_y - sine * slip_x
    turned = turn + (yaw - start[2])
    limit = friction * normal
    along = xp.clip((mx * tx + my * ty - turned * arm) / (1.0 + inertia * arm * arm), -limit, limit)
    px, py = along * tx - normal * nx, along * ty - normal * ny
    moved = x + cosine * px - sine * py, y + sine * px + cosine * py, yaw + turn + inertia * arm * along
    return moved, touches


SUBSTEPS = 4
"""Steps of the contact in a control step: a tool at 5 cm per step then moves by little more than a radius."""

SPIN = 0.38
"""Mean distance of a square's points from its centre, by its edge: the lever of the table's friction."""

ON_TABLE = 1e-4
"""m above the table within which a box lies on it."""

GRAZE = 0.004
"""m by which a finger may be lower than the top of a box that it slips over."""


@dataclass(frozen=True)
class BoxModel:
    """A box, on a table whose top is at height 0."""

    size: Vector
    """m: edges."""
    table_friction: float
    """Coefficient between the box and the table."""
    finger_friction: float
    """Coefficient between the box and a finger."""


class BatchBox:
    """Boxes of `N` worlds, for control steps of `dt` s; their faces stay upright."""

    def __init__(self, model: BoxModel, count: int, dt: float, arrays: Arrays) -> None:
        self.model, self._arrays = model, arrays
        self._h = dt / SUBSTEPS
        self.half = model.size[0] / 2, model.size[1] / 2
        self.rest_height = model.size[2] / 2
        """m: height of the centre on the table."""
        edge = (model.size[0] + model.size[1]) / 2
        slowing = model.table_friction * GRAVITY * self._h
        self._slowing = slowing
        self._spin_slowing = slowing * SPIN * edge * 3.0 / (self.half[0] ** 2 + self.half[1] ** 2)
        self.position: Array = arrays.zeros(3, count)
        """`(3, N)` m: centres."""
        self.yaw: Array = arrays.zeros(count)
        """`(N,)` rad."""
        self.velocity: Array = arrays.zeros(3, count)
        """`(3, N)` m/s."""
        self.spin: Array = arrays.zeros(count)
        """`(N,)` rad/s about the vertical."""
        self.friction: Array | None = None
        """`(N,)`: factors of both frictions, see `EpisodeRandomization.object_friction`; None: 1."""
        self.damping: Array | None = None
        """`(N,)`: share of velocity and spin lost in a second, see `EpisodeRandomization.object_damping`; None: 0."""
        self.contact: Array = arrays.zeros(2, count, dtype=arrays.xp.bool)
        """`(2, N)` bool: which fingers touch the box at the end of the control step."""

    def reset(self, mask: Array, position: Array, yaw: Array) -> None:
        """Put the boxes of `mask` `(N,)` bool at positions `(3, N)` m and yaws `(N,)` rad, at rest."""
        xp = self._arrays.xp
        self.position = xp.where(mask, position, self.position)
        self.yaw = xp.where(mask, yaw, self.yaw)
        self.velocity, self.spin, self.contact = self.velocity * ~mask, self.spin * ~mask, self.contact & ~mask

    def advance(
        self, free: Array, tips: tuple[Array, Array], before: tuple[Array, Array], bottom: Array, shape: FingerShape
    ) -> None:
        """Advance free boxes by a control step, in which the tips of the fingers move in straight lines.

        Args:
            free: `(N,)` bool: boxes that nothing holds.
            tips: x, y of the tips of each finger after the step, m, each `(2, N)`.
            before: The same before the step.
            bottom: `(2, N)` m: height of the lowest point of the fingers before and after the step.
            shape: Shape of the fingers.
        """
        xp = self._arrays.xp
        reach = max(self.half) * 1.5 + shape.radius + 0.002
        top = self.position[2] + self.rest_height
        near = xp.minimum(bottom[0], bottom[1]) < top - GRAZE
        low, high = xp.minimum(tips[0], before[0]), xp.maximum(tips[0], before[0])
        meets = (low - reach < self.position[0]) & (high + reach > self.position[0])
        low, high = xp.minimum(tips[1], before[1]), xp.maximum(tips[1], before[1])
        meets = meets & (low - reach < self.position[1]) & (high + reach > self.position[1])
        moves = (xp.sum(xp.abs(self.velocity), axis=0) + xp.abs(self.spin) > 0.0) | (
            self.position[2] > self.rest_height + ON_TABLE
        )
        active = free & ((near & (meets[0] | meets[1])) | moves)
        self.contact = xp.zeros_like(self.contact)
        rows = Rows.of_mask(active)
        if rows.is_empty:
            return
        position, yaw = rows.of(self.position), rows.of(self.yaw)
        velocity, spin, h = rows.of(self.velocity), rows.of(self.spin), self._h
        x, y, z, vertical = position[0], position[1], position[2], velocity[2]
        vx, vy = velocity[0], velocity[1]
        (ends_x, ends_y), (starts_x, starts_y) = ((rows.of(a), rows.of(b)) for a, b in (tips, before))
        step_x, step_y = (ends_x - starts_x) / SUBSTEPS, (ends_y - starts_y) / SUBSTEPS
        bottom = rows.of(bottom)
        friction = 1.0 if self.friction is None else rows.of(self.friction)
        slowing, spin_slowing = self._slowing * friction, self._spin_slowing * friction
        finger_friction = self.model.finger_friction * friction
        kept = 1.0 if self.damping is None else (1.0 - rows.of(self.damping)) ** h
        touches = [yaw > 1e9, yaw > 1e9]
        for substep in range(1, SUBSTEPS + 1):
            lies = z <= self.rest_height + ON_TABLE
            speed = xp.sqrt(vx * vx + vy * vy)
            left = xp.clip(kept - lies * xp.clip(slowing / xp.clip(speed, 1e-9, None), None, 1.0), 0.0, None)
            spin, vertical = spin * kept, vertical * kept
            spin = spin - lies * xp.minimum(xp.maximum(spin, -spin_slowing), spin_slowing)
            pose = x + left * vx * h, y + left * vy * h, yaw + spin * h
            fallen = z + vertical * h - 0.5 * GRAVITY * h * h
            vertical = (vertical - GRAVITY * h) * (fallen > self.rest_height)
            z = xp.clip(fallen, self.rest_height, None)
            lowest = bottom[0] + (bottom[1] - bottom[0]) * (substep / SUBSTEPS)
            solid = lowest < z + self.rest_height - GRAZE
            for finger in range(2):
                disc = starts_x[finger] + step_x[finger] * substep, starts_y[finger] + step_y[finger] * substep
                motion = step_x[finger], step_y[finger]
                pose, touches[finger] = push(
                    xp, pose, self.half, disc, motion, (x, y, yaw), shape.radius, finger_friction, solid
                )
            vx, vy, spin = (pose[0] - x) / h, (pose[1] - y) / h, (pose[2] - yaw) / h
            x, y, yaw = pose
        still = (xp.abs(vx) + xp.abs(vy) + xp.abs(spin) * self.half[0]) < 1e-4
        self.position = rows.replaced(self.position, xp.stack([x, y, z]))
        self.velocity = rows.replaced(self.velocity, xp.stack([vx * ~still, vy * ~still, vertical]))
        self.yaw, self.spin = rows.replaced(self.yaw, yaw), rows.replaced(self.spin, spin * ~still)
        self.contact = rows.replaced(self.contact, xp.stack(touches))
