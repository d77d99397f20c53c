"""`CameraView`: an image of a camera, the input of camera components of observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Frame:
    """An image with the depth and the body of each pixel."""

    rgb: Image
    """`(height, width, 3)` uint8."""
    depth: NDArray[np.float32]
    """`(height, width)` m along the optical axis; infinite where nothing is."""
    segmentation: NDArray[np.int32]
    """`(height, width)`: index in `labels`, -1 for the background."""
    labels: tuple[str, ...]
    """Names of the robot, of each visible fixture, and of each object; then `goal`, if a marker shows the goal."""


@dataclass(frozen=True)
class CameraView:
    """A frame, with the objects in it that matter to the task."""

    frame: Frame
    depth_range: tuple[float, float]
    """m: distances with the depths 0 and 255."""
    targets: tuple[int, ...]
    """Index in `frame.labels` of each object of the task, and of the marker of the goal if goals are seen."""
