"""Images of a world, and a window that follows it."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping

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


_KEYS = {
    bullet.B3G_UP_ARROW: "up",
    bullet.B3G_DOWN_ARROW: "down",
    bullet.B3G_LEFT_ARROW: "left",
    bullet.B3G_RIGHT_ARROW: "right",
    bullet.B3G_SPACE: "space",
}
"""Bullet's key code → name of a key without a character."""


class Viewer:
    """Window that mirrors a world; the mouse rotates the view.

    Args:
        world: The world.

    Raises:
        ConfigError: No display is available (Bullet itself would exit the process without a message).
    """

    def __init__(self, world: World) -> None:
        if not has_display():
            raise ConfigError(
                bad_value("render_mode", "human", "rgb_array, or a machine with a display", "needs a display")
            )
        self._dt = world.dt
        self._next_update = 0.0
        client = int(bullet.connect(bullet.GUI))
        self._scene = Scene(world, client)
        spec = world.workspace.cameras["main"]
        for flag in (bullet.COV_ENABLE_GUI, bullet.COV_ENABLE_KEYBOARD_SHORTCUTS):
            bullet.configureDebugVisualizer(flag, 0, physicsClientId=client)
        bullet.resetDebugVisualizerCamera(spec.distance, spec.yaw, spec.pitch, spec.target, physicsClientId=client)

    def update(self, goal: ArrayLike | None = None) -> None:
        """Show the current state, with the goal `(3,)` m if given; at most at real-time speed."""
        if self.is_open():
            self._scene.mirror(goal)
        time.sleep(max(0.0, self._next_update - time.perf_counter()))
        self._next_update = time.perf_counter() + self._dt

    def keys(self) -> frozenset[str] | None:
        """Return the keys that are held down; None after the window was closed."""
        if not self.is_open():
            return None
        events = bullet.getKeyboardEvents(physicsClientId=self._scene.client)
        return frozenset(_key_name(code) for code, state in events.items() if state & bullet.KEY_IS_DOWN)

    def is_open(self) -> bool:
        """Return whether the window is open."""
        return bool(bullet.isConnected(physicsClientId=self._scene.client))

    def close(self) -> None:
        """Close the window; may be called repeatedly."""
        self._scene.close()


def _key_name(code: int) -> str:
    """Return the name of a special key, or the character of any other key."""
    return _KEYS.get(code) or (chr(code) if 32 < code < 127 else str(code))


def has_display(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Return whether a window can be opened; on Linux, `DISPLAY` must name an X server that responds (X11 only)."""
    if not platform.startswith("linux"):
        return True
    host, _, number = environment.get("DISPLAY", "").rpartition(":")
    number = number.partition(".")[0]
    if not number.isdigit():
        return False
    if host not in ("", "unix"):
        return _accepts_connections(socket.AF_INET, (host, 6000 + int(number)))
    path = f"/tmp/.X11-unix/X{number}"  # noqa: S108  where X servers listen
    return _accepts_connections(socket.AF_UNIX, path) or _accepts_connections(socket.AF_UNIX, "\0" + path)


def _accepts_connections(family: int, address: tuple[str, int] | str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True
