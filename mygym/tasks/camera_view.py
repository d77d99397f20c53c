"""`CameraView`: an image of a camera, the input of camera components of observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mygym.types import FloatArray

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
    pose: FloatArray
    """`(4, 4)`: pose of the camera in the world frame, m; its x axis points to the right in the image, y downwards, z
    along the optical axis."""
    focal: float
    """Pixels: focal length; pixels are square, and the optical axis passes through the middle of the image."""

    def points(self) -> FloatArray:
        """Return `(height, width, 3)` m, world frame: the point that each pixel shows; NaN where nothing is."""
        height, width = self.depth.shape
        right = (np.arange(width) - width / 2) / self.focal  # the renderer samples a pixel at its lower left corner
        down = (np.arange(height) + 1 - height / 2) / self.focal
        rays = np.stack([*np.meshgrid(right, down), np.ones((height, width))], axis=-1)
        distance = np.where(np.isfinite(self.depth), self.depth, 0.0)
        points: FloatArray = (rays * distance[..., None]) @ self.pose[:3, :3].T + self.pose[:3, 3]
        points[~np.isfinite(self.depth)] = np.nan
        return points


@dataclass(frozen=True)
class CameraView:
    """A frame, with the objects in it that matter to the task."""

    frame: Frame
    depth_range: tuple[float, float]
    """m: distances with the depths 0 and 255."""
    targets: tuple[int, ...]
    """Index in `frame.labels` of each object of the task, and of the marker of the goal if goals are seen."""
    latent: FloatArray | None = None
    """`(Z,)`: latents by the encoder of the observation; None for components that need none."""
