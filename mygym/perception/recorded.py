"""`Images`: recorded images on which networks are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mygym.tasks.camera_view import Frame
from mygym.types import FloatArray


@dataclass(frozen=True)
class Images:
    """Recorded images of one size, with the bodies that they show."""

    frames: Sequence[Frame]
    """Segmentation and labels of the frames are not used."""
    classes: NDArray[np.uint8]
    """`(n, H, W)`: 0 for the background, else 1 + the index in the categories."""
    positions: FloatArray
    """`(n, categories, 3)` m, world frame: centres of the objects; NaN for other bodies and for objects that are not
    visible."""
    cameras: Sequence[str]
    """Camera of each image."""
    depth_ranges: Sequence[tuple[float, float]]
    """m: distances with the depths 0 and 255 in observations, of each image."""
