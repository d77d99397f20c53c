"""Sheet of the images that a policy sees through a camera, for `mygym view camera`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from mygym.sim.rendering.thumbnails import class_colors, grid
from mygym.tasks.observations import MAIN_CAMERA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mygym.envs.robot_env import RobotEnv

    Picture = NDArray[np.uint8]

COMPONENTS = ("image", "depth", "segmentation", "boxes")
"""Observation components of the sheet; `boxes` are drawn onto `image`."""

MOMENTS = 4
"""Number of moments of the episode, one in each row."""

SHARPEST = 192
"""Smallest height of an image on the sheet, pixels: smaller images are enlarged without smoothing."""

BOX_COLOR = (255, 40, 160)


def names_for(camera: str) -> list[str]:
    """Return the names of the components that see through a camera."""
    return [name if camera == MAIN_CAMERA else f"{name}:{camera}" for name in COMPONENTS]


def camera_sheet(env: RobotEnv, camera: str, seed: int) -> Picture:
    """Return images of an episode of the scripted expert: a row for each moment, a column for each component.

    Args:
        env: Environment with the observation components `names_for(camera)`.
        camera: Name of the camera.
        seed: Seed of the episode.
    """
    observation, _ = env.reset(seed=seed)
    steps, ended = [observation], False
    while not ended:
        observation, _, terminated, truncated, _ = env.step(env.expert_action())
        steps.append(observation)
        ended = terminated or truncated
    moments = np.linspace(0, len(steps) - 1, MOMENTS).round().astype(int)
    return grid([picture for moment in moments for picture in _row(steps[moment], camera)], columns=len(COMPONENTS))


def _row(observation: Any, camera: str) -> list[Picture]:
    """Return the pictures of a moment, all of one size: colours, colours with boxes, depth, bodies."""
    image, depth, segmentation = (observation[name] for name in names_for(camera)[:3])
    factor = max(1, -(-SHARPEST // len(image)))
    image, depth, segmentation = (pixels.repeat(factor, 0).repeat(factor, 1) for pixels in (image, depth, segmentation))
    boxes = observation["observation"].reshape(-1, 5)
    return [image, _with_boxes(image, boxes), depth.repeat(3, axis=2), class_colors()[segmentation[..., 0]]]


def _with_boxes(image: Picture, boxes: NDArray[np.float32]) -> Picture:
    """Return an image with the boxes of the targets that it shows; `boxes` are rows of the component `boxes`."""
    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture)
    height, width = image.shape[:2]
    for left, top, right, bottom, share in boxes:
        if share > 0:
            edges = ((left + 1) / 2 * width, (top + 1) / 2 * height, (right + 1) / 2 * width, (bottom + 1) / 2 * height)
            draw.rectangle(edges, outline=BOX_COLOR, width=2)
    return np.asarray(picture)
