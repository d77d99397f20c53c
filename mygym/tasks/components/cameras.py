"""Observation components that see through a camera: images, their latents, and positions of objects in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mygym.tasks.camera_view import CameraView, Image
from mygym.tasks.observations import register_camera_observation
from mygym.types import FloatArray


@register_camera_observation("image", channels=3, unit="1/255")
def image(view: CameraView) -> Image:
    """`(H, W, 3)` uint8: red, green and blue of a camera's pixels; `image:wrist` names another camera than `main`."""
    return view.frame.rgb


@register_camera_observation("depth", channels=1, unit="1/255 of image_params.depth_range")
def depth(view: CameraView) -> Image:
    """`(H, W, 1)` uint8: distances, 0 to 255 in `image_params.depth_range`; 255 also for the background."""
    near, far = view.depth_range
    share = np.clip((view.frame.depth - near) / (far - near), 0.0, 1.0)
    pixels: Image = np.rint(255.0 * share).astype(np.uint8)
    return pixels[..., None]


@register_camera_observation("rgbd", channels=4, unit="1/255")
def rgbd(view: CameraView) -> Image:
    """`(H, W, 4)` uint8: the channels of `image`, then the channel of `depth`."""
    return np.concatenate([image(view), depth(view)], axis=-1)


@register_camera_observation("segmentation", channels=1, unit="index")
def segmentation(view: CameraView) -> Image:
    """`(H, W, 1)` uint8: 0 background, 1 robot, then the fixtures, the objects, and the marker of the goal."""
    return (view.frame.segmentation + 1).astype(np.uint8)[..., None]


@register_camera_observation("centroids", size=3, unit="half images")
def centroids(view: CameraView) -> FloatArray:
    """`(3 S,)`: of each object and of a seen goal, centre to the right and downwards in [-1, 1], and 1 if visible."""
    return _of_targets(view, 3, lambda x, y: (x.mean(), y.mean(), 1.0))


@register_camera_observation("boxes", size=5, unit="half images")
def boxes(view: CameraView) -> FloatArray:
    """`(5 S,)`: of each object and of a seen goal, left, top, right and bottom in [-1, 1], and share of the pixels."""
    return _of_targets(view, 5, lambda x, y: (x.min(), y.min(), x.max(), y.max(), len(x) / view.frame.depth.size))


@register_camera_observation("latent", encoded=True, unit="deviations")
def latent(view: CameraView) -> FloatArray:
    """`(Z,)`: latents of a camera's image by the encoder in `image_params.encoder`."""
    assert view.latent is not None
    return view.latent


def _of_targets(
    view: CameraView, size: int, measure: Callable[[FloatArray, FloatArray], tuple[float, ...]]
) -> FloatArray:
    """Return the numbers of each target, zeros for a target that is not visible.

    Args:
        view: The view.
        size: Count of numbers of a target.
        measure: Function of the coordinates of a target's pixels, to the right and downwards, from -1 to 1.
    """
    segmentation = view.frame.segmentation
    height, width = segmentation.shape
    values = np.zeros((len(view.targets), size))
    for row, target in enumerate(view.targets):
        rows, columns = np.nonzero(segmentation == target)
        if len(rows):
            values[row] = measure((2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1)
    return values.ravel()
