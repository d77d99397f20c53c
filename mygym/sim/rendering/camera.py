"""Pictures of a world, and a window that follows it."""

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
    """Renders a world in software, from the cameras that its workspace names.

    Args:
        world: The world to look at.
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
        """A picture of the world as its state is now.

        Args:
            width: Pixels.
            height: Pixels.
            camera: Name of one of the workspace's cameras.
            goal: `(3,)` m, where to show a goal; none without it.
            shadow: Cast shadows, at about twice the cost.
            samples: Anti-aliasing: render this many times as large along each side, and average.

        Returns:
            `(height, width, 3)` uint8, RGB, a new array.

        Raises:
            ConfigError: the workspace has no such camera, or a size is not positive.
        """
        if camera not in self._cameras:
            raise ConfigError(bad_value("camera", camera, self._cameras, "is not a camera of this workspace"))
        for key, value in (("render_width", width), ("render_height", height), ("samples", samples)):
            if value < 1:
                raise ConfigError(bad_value(key, value, "at least 1"))
        self._scene.mirror(goal)
        image, segments = self._shoot(width * samples, height * samples, camera, shadow)
        background = background_of(self._world.workspace.background, self._world.variation)
        image[segments < 0] = (255 * np.array(background)).astype(np.uint8)
        if samples > 1:
            image = image.reshape(height, samples, width, samples, 3).mean(axis=(1, 3)).round().astype(np.uint8)
        return np.ascontiguousarray(image)

    def robot_share(self, width: int, height: int, camera: str = "main") -> float:
        """The part of a picture that the robot fills, in [0, 1]."""
        self._scene.mirror()
        _, segments = self._shoot(width, height, camera, shadow=False)
        return float((segments == self._scene.robot).mean())

    def _shoot(self, width: int, height: int, camera: str, shadow: bool) -> tuple[Image, NDArray[np.int_]]:
        """Colours `(height, width, 3)`, and the body that each pixel is of `(height, width)`, -1 for none."""
        spec = self._cameras[camera]
        view = view_of(spec, self._world.variation)
        projection = bullet.computeProjectionMatrixFOV(spec.fov, width / height, 0.05, 10.0)
        _, _, pixels, _, segments = bullet.getCameraImage(
            width,
            height,
            view,
            projection,
            shadow=int(shadow),
            renderer=bullet.ER_TINY_RENDERER,
            physicsClientId=self._scene.client,
            **light_of(self._world.variation),
        )
        image = np.array(pixels, dtype=np.uint8).reshape(height, width, 4)[..., :3]
        return image, np.asarray(segments).reshape(height, width)

    def close(self) -> None:
        """Close the visual client; may be called again."""
        self._scene.close()


_KEYS = {
    bullet.B3G_UP_ARROW: "up",
    bullet.B3G_DOWN_ARROW: "down",
    bullet.B3G_LEFT_ARROW: "left",
    bullet.B3G_RIGHT_ARROW: "right",
    bullet.B3G_SPACE: "space",
}
"""Bullet's code → the name of a key that types no character."""


class Viewer:
    """A window that mirrors a world; the mouse turns the view.

    Raises:
        ConfigError: there is no display (Bullet itself would end the process without a word).
    """

    def __init__(self, world: World) -> None:
        if not has_display():
            raise ConfigError(
                bad_value("render_mode", "human", "rgb_array, or a machine with a display", "needs a display")
            )
        self._step = world.dt
        self._next = 0.0
        client = int(bullet.connect(bullet.GUI))
        self._scene = Scene(world, client)
        spec = world.workspace.cameras["main"]
        for flag in (bullet.COV_ENABLE_GUI, bullet.COV_ENABLE_KEYBOARD_SHORTCUTS):
            bullet.configureDebugVisualizer(flag, 0, physicsClientId=client)
        bullet.resetDebugVisualizerCamera(spec.distance, spec.yaw, spec.pitch, spec.target, physicsClientId=client)

    def update(self, goal: ArrayLike | None = None) -> None:
        """Show the world as it is now, with the goal `(3,)` m if given; never faster than life."""
        if self.is_open():
            self._scene.mirror(goal)
        time.sleep(max(0.0, self._next - time.perf_counter()))
        self._next = time.perf_counter() + self._step

    def keys(self) -> frozenset[str] | None:
        """The keys that are held down; None once the window is closed."""
        if not self.is_open():
            return None
        events = bullet.getKeyboardEvents(physicsClientId=self._scene.client)
        return frozenset(_called(code) for code, state in events.items() if state & bullet.KEY_IS_DOWN)

    def is_open(self) -> bool:
        """Whether nobody has closed the window."""
        return bool(bullet.isConnected(physicsClientId=self._scene.client))

    def close(self) -> None:
        """Close the window; may be called again."""
        self._scene.close()


def _called(code: int) -> str:
    """The name of a key; for one that Bullet has no code of its own for, its character."""
    return _KEYS.get(code) or (chr(code) if 32 < code < 127 else str(code))


def has_display(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Can a window be opened? On Linux, `DISPLAY` must name an X server that answers (Bullet knows X11 only)."""
    if not platform.startswith("linux"):
        return True
    host, _, number = environment.get("DISPLAY", "").rpartition(":")
    number = number.partition(".")[0]
    if not number.isdigit():
        return False
    if host not in ("", "unix"):
        return _answers(socket.AF_INET, (host, 6000 + int(number)))
    path = f"/tmp/.X11-unix/X{number}"  # noqa: S108  where X servers listen
    return _answers(socket.AF_UNIX, path) or _answers(socket.AF_UNIX, "\0" + path)


def _answers(family: int, address: tuple[str, int] | str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True
