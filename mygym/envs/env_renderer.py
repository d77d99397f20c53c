"""Images and the window of an environment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mygym.sim.rendering.camera import Camera
from mygym.sim.rendering.viewer import Viewer
from mygym.sim.world import World
from mygym.types import FloatArray


class EnvRenderer:
    """Camera and window of a world, opened when they are first used.

    Args:
        world: The world.
        width: Width of images, pixels.
        height: Height of images, pixels.
        camera: Name of a camera of the workspace or the robot.
    """

    def __init__(self, world: World, width: int, height: int, camera: str) -> None:
        self._world, self._size, self._name = world, (width, height), camera
        self._camera: Camera | None = None
        self.viewer: Viewer | None = None
        """The window; None before the first call of `show`."""

    def image(self, goal: FloatArray | None, shadow: bool, samples: int) -> NDArray[np.uint8]:
        """Return an image `(height, width, 3)`; see `Camera.render` for the arguments."""
        return self.camera.render(*self._size, self._name, goal, shadow, samples)

    @property
    def camera(self) -> Camera:
        """The renderer of the world's cameras."""
        self._camera = self._camera or Camera(self._world)
        return self._camera

    def show(self, goal: FloatArray | None, caption: str, realtime: bool) -> None:
        """Update the window; see `Viewer` for the arguments."""
        self.viewer = self.viewer or Viewer(self._world, realtime)
        self.viewer.update(goal, caption)

    def close(self) -> None:
        """Close camera and window; may be called repeatedly."""
        for client in (self._camera, self.viewer):
            if client is not None:
                client.close()
        self._camera = self.viewer = None
