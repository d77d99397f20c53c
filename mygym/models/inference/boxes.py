"""A few boxes around the surface of a link, which leave a gap between its parts free."""

from __future__ import annotations

import numpy as np

from mygym.types import FloatArray

Box = tuple[FloatArray, FloatArray]
"""Lower and upper corner `(3,)`, m."""

SLICE, HOLE = 0.006, 0.008
"""m: thickness of the slices across z; a wider space along y between points of a slice stays free."""

TOLERANCES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.05)
"""m by which the edges of slices may differ that become one box: the first that gives few boxes."""

MAX_BOXES = 10
"""More boxes of a link make contacts slower, not better."""


def boxes_around(points: FloatArray) -> list[Box]:
    """Return boxes around points `(n, 3)` m on a surface: slices across z, divided where y has a gap."""
    boxes: list[Box] = []
    for tolerance in TOLERANCES:
        boxes = _merged(_slices(points), tolerance)
        if len(boxes) <= MAX_BOXES:
            break
    return boxes


def _slices(points: FloatArray) -> list[list[Box]]:
    """Return the boxes of each slice."""
    low, high = float(points[:, 2].min()), float(points[:, 2].max())
    count = max(int(np.ceil((high - low) / SLICE)), 1)
    number = np.minimum(((points[:, 2] - low) / max(high - low, 1e-9) * count).astype(int), count - 1)
    slices = []
    for index in range(count):
        inside = points[number == index]
        if not len(inside):
            continue
        inside = inside[inside[:, 1].argsort()]
        parts = np.split(inside, np.flatnonzero(np.diff(inside[:, 1]) > HOLE) + 1)
        bottom, top = (low + (high - low) * n / count for n in (index, index + 1))
        slices.append(
            [(np.array([*part.min(axis=0)[:2], bottom]), np.array([*part.max(axis=0)[:2], top])) for part in parts]
        )
    return slices


def _merged(slices: list[list[Box]], tolerance: float) -> list[Box]:
    """Return boxes that join slices whose edges along x and y differ by at most `tolerance` m."""
    done: list[Box] = []
    grown: list[Box] = []
    for boxes in slices:
        kept: list[Box] = []
        for low, high in boxes:
            match = next((box for box in grown if _alike(box, (low, high), tolerance)), None)
            if match is None:
                kept.append((low, high))
            else:
                grown.remove(match)
                kept.append((np.minimum(match[0], low), np.maximum(match[1], high)))
        done += grown
        grown = kept
    return done + grown


def _alike(a: Box, b: Box, tolerance: float) -> bool:
    corners = np.abs(np.concatenate([a[0][:2] - b[0][:2], a[1][:2] - b[1][:2]]))
    return bool((corners <= tolerance).all())
