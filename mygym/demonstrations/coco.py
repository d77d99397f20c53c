"""COCO annotations: run-length encoded masks, boxes and categories of the bodies in an image."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.tasks.camera_view import Frame
from mygym.types import FloatArray

MILLIMETRES = 1000.0
"""Depth images hold millimetres."""

MAX_DEPTH = 65_535
"""Largest distance in a depth image, mm; 0 where nothing is."""


def run_lengths(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return COCO's uncompressed run-length encoding of a mask `(H, W)`.

    Column by column, `counts` alternates the numbers of pixels outside and inside the mask; the first is outside.
    """
    pixels = np.concatenate([[False], mask.ravel(order="F"), [False]])
    changes = np.flatnonzero(pixels[1:] != pixels[:-1])
    counts = np.diff(np.concatenate([[0], changes, [mask.size]]))
    if len(counts) > 1 and counts[-1] == 0:  # the mask ends with the image
        counts = counts[:-1]
    return {"size": list(mask.shape), "counts": counts.tolist()}


def body_annotations(
    frame: Frame, categories: Collection[str], positions: Mapping[int, FloatArray]
) -> Iterator[dict[str, Any]]:
    """Yield an annotation for each visible body whose name is in `categories`, without `id` and `image_id`.

    Args:
        frame: The frame.
        categories: Names of the bodies to annotate.
        positions: Index in `frame.labels` → centre of mass of an object, `(3,)` m, world frame.
    """
    numbers = {name: number for number, name in enumerate(categories, 1)}
    for index, name in enumerate(frame.labels):
        mask = frame.segmentation == index
        if name not in numbers or not mask.any():
            continue
        rows, columns = np.nonzero(mask)
        left, top = int(columns.min()), int(rows.min())
        position = {"position": positions[index].tolist()} if index in positions else {}
        yield {
            "category_id": numbers[name],
            "segmentation": run_lengths(mask),
            "area": int(mask.sum()),
            "bbox": [left, top, int(columns.max()) - left + 1, int(rows.max()) - top + 1],
            "iscrowd": 0,
            **position,
        }


def millimetres(frame: Frame) -> NDArray[np.uint16]:
    """Return the depth of a frame, `(H, W)` mm; 0 where nothing is."""
    depth = np.where(np.isfinite(frame.depth), frame.depth, 0.0)
    return np.minimum(np.rint(MILLIMETRES * depth), MAX_DEPTH).astype(np.uint16)


def mask_of(encoded: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return the mask `(H, W)` of a run-length encoding, see `run_lengths`."""
    counts = np.asarray(encoded["counts"])
    height, width = encoded["size"]
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape((height, width), order="F")
