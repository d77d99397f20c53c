"""Images of an environment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mygym.sim.rendering.camera import Camera
from mygym.sim.world import World
from mygym.types import FloatArray


class EnvRenderer:
    """Renderer of images of a world, opened when it is first used.

    Args:
        world: The world.
        width: Width of images, pixels.
        height: Height of images, pixels.
        camera: Name of a camera of the workspace or the robot.
    """

    def __init__(self, world: World, width: int, height: int, camera: str) -> None:
        self._world, self._size, self._name = world, (width, height), camera
        self._camera: Camera | None = None

    def image(self, goal: FloatArray | None, shadow: bool, samples: int) -> NDArray[np.uint8]:
        """Return an image `(height, width, 3)`; see `Camera.render` for the arguments."""
        return self.camera.render(*self._size, self._name, goal, shadow, samples)

    @property
    def camera(self) -> Camera:
        """The renderer of the world's cameras."""
        self._camera = self._camera or Camera(self._world)
        return self._camera

    def close(self) -> None:
        """Close the camera; may be called repeatedly."""
        if self._camera is not None:
            self._camera.close()
        self._camera = None
