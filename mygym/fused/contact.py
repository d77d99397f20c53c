"""Planar contact of a disc with a box that slides on a table: position-based, with friction.

The disc moves as it is commanded, and the box yields. Where the disc overlaps the box, the box is moved along the
normal of the contact until it does not, and along the tangent as far as friction allows. Both corrections act at the
contact and therefore turn the box, by the ratio of its moment of inertia to its mass; the friction of the table under
a square limits forces and torques in nearly the same ratio.

Source: Müller, Macklin, Chentanez, Jeschke and Kim, Detailed rigid body simulation with extended position based
dynamics, SCA 2020.
"""

from __future__ import annotations

from typing import Any

from mygym.types import Array

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
