"""A window that follows a world, with a caption, keys and sliders."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from mygym.engines.bullet.client import bullet, redirected
from mygym.engines.rendering.scene import Scene
from mygym.engines.world import World
from mygym.errors import ConfigError, bad_value
from mygym.registry.entries import HAS_BULLET
from mygym.robotics.workspace import CameraSpec
from mygym.types import FloatArray

IDLE_PERIOD = 0.1
"""s between updates of a window that does not show real time."""

WINDOW = "--width=1280 --height=800"
"""Bullet's options of the window, pixels."""

KEYS = {65297: "up", 65298: "down", 65295: "left", 65296: "right", 32: "space"}
"""Bullet's key code → name of a key without a character."""

CLOSE = "q"
"""Key that closes a window: on X11, Bullet's process ends if the window manager closes its window."""

CAPTION_COLOR = (0.1, 0.1, 0.1)
CAPTION_SIZE = 1.4

_HIDDEN = (
    "COV_ENABLE_GUI",
    "COV_ENABLE_KEYBOARD_SHORTCUTS",
    "COV_ENABLE_RGB_BUFFER_PREVIEW",
    "COV_ENABLE_DEPTH_BUFFER_PREVIEW",
    "COV_ENABLE_SEGMENTATION_MARK_PREVIEW",
)
"""Bullet's parts of a window that are switched off at first."""

SliderRange = tuple[float, float, float]
"""Lowest and highest value of a slider, and its value at the beginning."""


class Viewer:
    """Window that mirrors a world, until `CLOSE` is pressed; the mouse rotates the view.

    Args:
        world: The world.
        realtime: Whether `update` waits, so that the world does not move faster than in reality; else it never waits
            and skips updates, so that the window costs little time.

    Raises:
        ConfigError: No display is available (Bullet itself would exit the process without a message), or the process
            has a window already.
    """

    def __init__(self, world: World, realtime: bool = True) -> None:
        check_display("render_mode", "human", "rgb_array")
        self._realtime, self._period = realtime, world.dt if realtime else IDLE_PERIOD
        self._next_update = 0.0
        self._closed = False  # Bullet may give the number of a closed client to another client
        with redirected(1, 2):  # Bullet prints dozens of lines about OpenGL and threads
            try:
                client = int(bullet.connect(bullet.GUI, options=WINDOW))
            except bullet.error as error:
                why = "needs a window, and Bullet opens a single window in a process"
                raise ConfigError(
                    bad_value("render_mode", "human", "rgb_array, until that window is closed", why)
                ) from error
            self._scene = Scene(world, client)
        spec = world.workspace.cameras["main"]
        for flag in _HIDDEN:
            bullet.configureDebugVisualizer(getattr(bullet, flag), 0, physicsClientId=client)
        bullet.resetDebugVisualizerCamera(spec.distance, spec.yaw, spec.pitch, spec.target, physicsClientId=client)
        self._caption_position = _upper_left(spec).tolist()
        self._caption, self._caption_number = "", -1
        self._sliders: dict[str, int] = {}

    def update(self, goal: ArrayLike | None = None, caption: str = "") -> None:
        """Show the current state, the goal marker at `(3,)` m, if any, and a line of text."""
        if self.keys() is None or (not self._realtime and time.perf_counter() < self._next_update):
            return
        with self._until_closed():
            self._scene.mirror(goal)
            self._write(caption)
        time.sleep(max(0.0, self._next_update - time.perf_counter()))
        self._next_update = time.perf_counter() + self._period

    def keys(self) -> frozenset[str] | None:
        """Return the keys that are held down; None after the window was closed."""
        events: dict[int, int] = {}
        if self.is_open():
            with self._until_closed():
                events = bullet.getKeyboardEvents(physicsClientId=self._scene.client)
        if ord(CLOSE) in events:
            self.close()
        if self._closed:
            return None
        return frozenset(_key_name(code) for code, state in events.items() if state & bullet.KEY_IS_DOWN)

    def set_sliders(self, sliders: Mapping[str, SliderRange]) -> None:
        """Replace all sliders; without new sliders, the panel is hidden."""
        client = self._scene.client
        if not self.is_open():
            return
        with self._until_closed():
            bullet.removeAllUserParameters(physicsClientId=client)
            bullet.configureDebugVisualizer(bullet.COV_ENABLE_GUI, int(bool(sliders)), physicsClientId=client)
            self._sliders = {
                name: bullet.addUserDebugParameter(name, *values, physicsClientId=client)
                for name, values in sliders.items()
            }

    def slider_values(self) -> dict[str, float]:
        """Return the value of each slider; empty after the window was closed."""
        client, values = self._scene.client, {}
        if self.is_open():
            with self._until_closed():
                for name, number in self._sliders.items():
                    values[name] = float(bullet.readUserDebugParameter(number, physicsClientId=client))
        return values

    def is_open(self) -> bool:
        """Return whether the window is open."""
        self._closed = self._closed or not bullet.isConnected(physicsClientId=self._scene.client)
        return not self._closed

    def close(self) -> None:
        """Close the window; may be called repeatedly."""
        if not self._closed:
            self._closed = True
            with redirected(1, 2):
                self._scene.close()

    @contextlib.contextmanager
    def _until_closed(self) -> Iterator[None]:
        """Ignore errors of a window that closes between two of Bullet's calls."""
        try:
            yield
        except bullet.error:
            if self.is_open():
                raise

    def _write(self, caption: str) -> None:
        """Replace the caption, if it has changed: each change waits for the window's next frame."""
        if caption == self._caption:
            return
        self._caption = caption
        self._caption_number = bullet.addUserDebugText(
            caption,
            self._caption_position,
            CAPTION_COLOR,
            CAPTION_SIZE,
            replaceItemUniqueId=self._caption_number,
            physicsClientId=self._scene.client,
        )


def check_display(key: str, value: object, otherwise: str) -> None:
    """Refuse the value of a flag or argument that asks for a window where there is no display.

    Raises:
        ConfigError: No display is available, or PyBullet, whose window it is, is not installed; `otherwise` is a value
            that needs no display.
    """
    if not HAS_BULLET:
        raise ConfigError(bad_value(key, value, otherwise, "needs PyBullet, which is not installed here"))
    if not has_display():
        raise ConfigError(bad_value(key, value, f"{otherwise}, or a machine with a display", "needs a display"))


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


def _key_name(code: int) -> str:
    """Return the name of a special key, or the character of any other key."""
    return KEYS.get(code) or (chr(code) if 32 < code < 127 else str(code))


def _upper_left(camera: CameraSpec) -> FloatArray:
    """Return the point `(3,)` m in the world that a camera sees in the upper left."""
    yaw = np.radians(camera.yaw)
    left, up = np.array([-np.cos(yaw), -np.sin(yaw), 0.0]), np.array([0.0, 0.0, 1.0])
    return np.asarray(camera.target) + camera.distance * (0.25 * left + 0.35 * up)
