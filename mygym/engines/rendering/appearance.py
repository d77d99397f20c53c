"""Appearance of an episode: light, colours, textures and camera pose."""

from __future__ import annotations

import colorsys
import io
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from mygym.engines.bullet.client import bullet
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.robotics.files import temporary_file
from mygym.robotics.workspace import CameraSpec
from mygym.types import FloatArray

SIDE = 96
"""Pixels along each side of a pattern."""

TILES = 4
"""Repetitions of a pattern along each side of a texture: Bullet shows the last quarter of it on boxes."""

VARIANTS = 4
"""Textures per pattern function; limited, because Bullet never frees a texture (0.4 MB each)."""

CONTRASTS = 4
"""Levels of contrast, evenly spaced up to 1."""


def _noise(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Return smooth noise in [0, 1] of `rows` by `columns` bumps, `(SIDE, SIDE)`."""
    image = Image.fromarray((255 * rng.random((rows, columns))).astype(np.uint8))
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=float) / 255


def _axes(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return the two coordinates in [0, 1], in random order."""
    down, across = np.mgrid[:SIDE, :SIDE] / SIDE
    return (down, across) if rng.random() < 0.5 else (across, down)


def _grain(rng: np.random.Generator) -> FloatArray:
    down, _ = _axes(rng)
    bent = down * rng.uniform(8, 16) + 2.0 * _noise(rng, 4, 4)
    return 0.75 * (0.5 + 0.5 * np.sin(2 * np.pi * bent)) + 0.25 * _noise(rng, SIDE, 8)


def _stripes(rng: np.random.Generator) -> FloatArray:
    down, across = _axes(rng)
    slant = rng.choice([0.0, 0.5, 1.0])
    return np.asarray((down + slant * across) * rng.integers(4, 13) % 1.0 < rng.uniform(0.3, 0.7), dtype=float)


def _checks(rng: np.random.Generator) -> FloatArray:
    down, across = _axes(rng)
    rows, columns = rng.integers(4, 13, size=2)
    return np.asarray((np.floor(down * rows) + np.floor(across * columns)) % 2)


def _spots(rng: np.random.Generator) -> FloatArray:
    down, across = _axes(rng)
    count, radius = rng.integers(4, 11), rng.uniform(0.2, 0.4)
    return np.asarray(np.hypot(down * count % 1.0 - 0.5, across * count % 1.0 - 0.5) > radius, dtype=float)


def _clouds(rng: np.random.Generator) -> FloatArray:
    return (_noise(rng, 4, 4) + _noise(rng, 8, 8) + _noise(rng, 32, 32)) / 3


def _speckles(rng: np.random.Generator) -> FloatArray:
    return np.asarray(_noise(rng, SIDE, SIDE) > rng.uniform(0.1, 0.5), dtype=float)


PATTERNS: tuple[Callable[[np.random.Generator], FloatArray], ...] = (
    _grain,
    _stripes,
    _checks,
    _spots,
    _clouds,
    _speckles,
)

TEXTURE_COUNT = len(PATTERNS) * VARIANTS
"""Number of textures."""


@cache
def pattern(number: int) -> FloatArray:
    """Return the pattern of a number, `(SIDE, SIDE)` in [0, 1]; deterministic."""
    rng = np.random.default_rng(number)
    values = PATTERNS[number % len(PATTERNS)](rng)
    grey: FloatArray = (values - values.min()) / max(float(np.ptp(values)), 1e-9)
    return grey


def texture_file(number: int, contrast: float) -> str:
    """Write a PNG of a texture and return its path: white where the pattern is 1, `contrast` darker where it is 0."""
    level = max(1, round(contrast * CONTRASTS)) / CONTRASTS
    grey = (255 * (1.0 - level * (1.0 - pattern(number)))).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(np.tile(grey[..., None], (TILES, TILES, 3))).save(buffer, format="PNG")
    return temporary_file("texture.png", buffer.getvalue())


LIGHT: dict[str, Any] = {
    "lightDirection": (1.0, -0.35, 1.7),
    "lightColor": (1.0, 0.99, 0.97),
    "lightDistance": 3.0,
    "lightAmbientCoeff": 0.6,
    "lightDiffuseCoeff": 0.5,
    "lightSpecularCoeff": 0.05,
}
"""Bullet's arguments for an image without randomization."""

SATURATION, VALUE = (0.1, 0.75), (0.3, 0.95)
"""Ranges of drawn colours, as painted, plastic and wooden objects have."""

BACKGROUND_SATURATION, BACKGROUND_VALUE = (0.0, 0.3), (0.5, 1.0)
"""Ranges of drawn background colours."""

Color = tuple[float, ...]


def light_of(randomization: EpisodeRandomization) -> dict[str, Any]:
    """Return Bullet's arguments for an image in this episode."""
    light = randomization.light
    if light is None:
        return LIGHT
    return LIGHT | {
        "lightDirection": light.direction,
        "lightColor": light.color,
        "lightAmbientCoeff": light.ambient,
        "lightDiffuseCoeff": light.diffuse,
    }


def view_of(camera: CameraSpec, randomization: EpisodeRandomization) -> Any:
    """Return the view matrix of a workspace's camera in this episode."""
    shift = randomization.camera
    target = [coordinate + offset for coordinate, offset in zip(camera.target, shift.target, strict=True)]
    yaw = camera.yaw + math.degrees(shift.sideways / camera.distance)
    pitch = camera.pitch - math.degrees(shift.upwards / camera.distance)
    distance = max(0.1, camera.distance + shift.backwards)
    return bullet.computeViewMatrixFromYawPitchRoll(target, distance, yaw, pitch, 0.0, 2)


def background_of(color: Color, randomization: EpisodeRandomization) -> Color:
    """Return red, green and blue of the background in this episode."""
    rng = _generator(randomization.colors, 0)
    return (
        color
        if rng is None
        else _mixed(color, _drawn(rng, BACKGROUND_SATURATION, BACKGROUND_VALUE), randomization.color_change)
    )


class Appearance:
    """Colours and textures of the visual bodies in a client."""

    def __init__(self, client: int) -> None:
        self._client = client
        self._original: dict[int, list[tuple[int, int, Color]]] = {}
        self._textures: dict[str, int] = {}

    def apply(self, groups: Sequence[Sequence[int]], randomization: EpisodeRandomization) -> None:
        """Set the colours and textures of an episode, or restore the original appearance.

        Shapes of a group of bodies that have the same original colour get the same new colour and texture. The first
        group, the robot, gets no textures.
        """
        for number, group in enumerate(groups):
            color_rng = _generator(randomization.colors, number + 1)
            texture_rng = _generator(randomization.textures, number) if number > 0 else None
            chosen: dict[Color, tuple[Color, int]] = {}
            for body in group:
                for link, shape, original in self._shapes(body):
                    if original not in chosen:
                        drawn = original if color_rng is None else _drawn(color_rng, SATURATION, VALUE)
                        texture = (
                            -1 if texture_rng is None else self._texture(texture_rng, randomization.texture_contrast)
                        )
                        mixed = _mixed(original[:3], drawn, randomization.color_change)
                        chosen[original] = (*mixed, original[3]), texture
                    color, texture = chosen[original]
                    bullet.changeVisualShape(
                        body, link, shape, rgbaColor=color, textureUniqueId=texture, physicsClientId=self._client
                    )

    def forget(self, body: int) -> None:
        """Forget the shapes of a body that was removed."""
        self._original.pop(body, None)

    def _shapes(self, body: int) -> list[tuple[int, int, Color]]:
        """Return link, index in the link and original colour of each shape without a texture."""
        if body not in self._original:
            flags = bullet.VISUAL_SHAPE_DATA_TEXTURE_UNIQUE_IDS
            shapes, counts = [], dict[int, int]()
            for data in bullet.getVisualShapeData(body, flags, physicsClientId=self._client):
                link = data[1]
                counts[link] = counts.get(link, -1) + 1
                if data[8] < 0:
                    shapes.append((link, counts[link], tuple(data[7])))
            self._original[body] = shapes
        return self._original[body]

    def _texture(self, rng: np.random.Generator, contrast: float) -> int:
        """Draw a texture and return its Bullet id."""
        path = texture_file(int(rng.integers(TEXTURE_COUNT)), contrast)
        if path not in self._textures:
            self._textures[path] = bullet.loadTexture(path, physicsClientId=self._client)
        return self._textures[path]


def _generator(seed: int | None, number: int) -> np.random.Generator | None:
    """Return the generator of a group of bodies, or None if nothing is drawn."""
    return None if seed is None else np.random.default_rng([seed, number])


def _drawn(rng: np.random.Generator, saturation: tuple[float, float], value: tuple[float, float]) -> Color:
    return colorsys.hsv_to_rgb(rng.random(), rng.uniform(*saturation), rng.uniform(*value))


def _mixed(original: Color, drawn: Color, change: float) -> Color:
    return tuple((1.0 - change) * a + change * b for a, b in zip(original, drawn[:3], strict=True))
