"""Images of a world."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mygym.errors import ConfigError, bad_value
from mygym.sim.bullet import bullet, connect
from mygym.sim.rendering.appearance import background_of, light_of, view_of
from mygym.sim.rendering.scene import Scene
from mygym.sim.world import World

Image = NDArray[np.uint8]


class Camera:
    """Software renderer of a world, with the cameras of its workspace.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self._world, self._scene = world, Scene(world, connect())
        self._cameras = world.workspace.cameras

    def render(
        self,
        width: int,
        height: int,
        camera: str = "main",
        goal: ArrayLike | None = None,
        shadow: bool = False,
        samples: int = 1,
    ) -> Image:
        """Return an image of the world in its current state.

        Args:
            width: Pixels.
            height: Pixels.
            camera: Name of a camera of the workspace.
            goal: `(3,)` m, position of the goal marker; None hides it.
            shadow: Cast shadows, at about twice the cost.
            samples: Anti-aliasing: render at this multiple of the size, and average.

        Returns:
            `(height, width, 3)` uint8, RGB, a new array.

        Raises:
            ConfigError: Unknown camera, or a size that is not positive.
        """
        if camera not in self._cameras:
            raise ConfigError(bad_value("camera", camera, self._cameras, "is not a camera of this workspace"))
        for key, value in (("render_width", width), ("render_height", height), ("samples", samples)):
            if value < 1:
                raise ConfigError(bad_value(key, value, "at least 1"))
        self._scene.mirror(goal)
        image, segments = self._capture(width * samples, height * samples, camera, shadow)
        background = background_of(self._world.workspace.background, self._world.randomization)
        image[segments < 0] = (255 * np.array(background)).astype(np.uint8)
        if samples > 1:
            image = image.reshape(height, samples, width, samples, 3).mean(axis=(1, 3)).round().astype(np.uint8)
        return np.ascontiguousarray(image)

    def robot_share(self, width: int, height: int, camera: str = "main") -> float:
        """Return the share of an image that shows the robot, in [0, 1]."""
        return float(self.robot_mask(width, height, camera).mean())

    def robot_mask(self, width: int, height: int, camera: str = "main") -> NDArray[np.bool_]:
        """Return `(height, width)`: whether each pixel shows the robot."""
        self._scene.mirror()
        _, segments = self._capture(width, height, camera, shadow=False)
        mask: NDArray[np.bool_] = segments == self._scene.robot
        return mask

    def _capture(self, width: int, height: int, camera: str, shadow: bool) -> tuple[Image, NDArray[np.int_]]:
        """Return colours `(height, width, 3)` and the body of each pixel `(height, width)`, -1 for the background."""
        spec = self._cameras[camera]
        view = view_of(spec, self._world.randomization)
        projection = bullet.computeProjectionMatrixFOV(spec.fov, width / height, 0.05, 10.0)
        _, _, pixels, _, segments = bullet.getCameraImage(
            width,
            height,
            view,
            projection,
            shadow=int(shadow),
            renderer=bullet.ER_TINY_RENDERER,
            physicsClientId=self._scene.client,
            **light_of(self._world.randomization),
        )
        image = np.array(pixels, dtype=np.uint8).reshape(height, width, 4)[..., :3]
        return image, np.asarray(segments).reshape(height, width)

    def close(self) -> None:
        """Close the visual client; may be called repeatedly."""
        self._scene.close()
