"""What an episode's variation does to pictures: light, colours, patterns, camera."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mygym.models.episode_randomization import EpisodeRandomization
from mygym.models.workspace import CameraSpec
from mygym.sim.bullet import bullet
from mygym.sim.rendering.textures import COUNT, pattern_file

LIGHT: dict[str, Any] = {
    "lightDirection": (1.0, -0.35, 1.7),
    "lightColor": (1.0, 0.99, 0.97),
    "lightDistance": 3.0,
    "lightAmbientCoeff": 0.6,
    "lightDiffuseCoeff": 0.5,
    "lightSpecularCoeff": 0.05,
}
"""Bullet's arguments for a picture."""

SATURATION, VALUE = (0.1, 0.75), (0.3, 0.95)
"""Of the colours that are drawn: as of painted, plastic and wooden things."""

PALE, BRIGHT = (0.0, 0.3), (0.5, 1.0)
"""The same of the background."""

Color = tuple[float, ...]


def light_of(variation: EpisodeRandomization) -> dict[str, Any]:
    """Bullet's arguments for a picture in this episode."""
    light = variation.light
    if light is None:
        return LIGHT
    return LIGHT | {
        "lightDirection": light.direction,
        "lightColor": light.color,
        "lightAmbientCoeff": light.ambient,
        "lightDiffuseCoeff": light.diffuse,
    }


def view_of(camera: CameraSpec, variation: EpisodeRandomization) -> Any:
    """The view matrix of a camera in this episode."""
    shift = variation.camera
    target = [place + by for place, by in zip(camera.target, shift.target, strict=True)]
    yaw = camera.yaw + math.degrees(shift.sideways / camera.distance)
    pitch = camera.pitch - math.degrees(shift.upwards / camera.distance)
    distance = max(0.1, camera.distance + shift.backwards)
    return bullet.computeViewMatrixFromYawPitchRoll(target, distance, yaw, pitch, 0.0, 2)


def background_of(color: Color, variation: EpisodeRandomization) -> Color:
    """Red, green and blue of what is behind everything."""
    rng = _of(variation.colors, 0)
    return color if rng is None else _mixed(color, _drawn(rng, PALE, BRIGHT), variation.color_change)


class Looks:
    """Colours and patterns of the visual bodies in a client.

    Args:
        client: Bullet client.
    """

    def __init__(self, client: int) -> None:
        self._client = client
        self._own: dict[int, list[tuple[int, int, Color]]] = {}
        self._textures: dict[str, int] = {}

    def dress(self, groups: Sequence[Sequence[int]], variation: EpisodeRandomization) -> None:
        """Give bodies the colours and patterns of an episode, or their own back.

        Args:
            groups: Bodies; shapes of one group that have one colour by themselves get one colour and pattern. The first
                group, the robot, gets no patterns.
            variation: Of the episode.
        """
        for number, group in enumerate(groups):
            paint = _of(variation.colors, number + 1)
            cloth = _of(variation.textures, number) if number > 0 else None
            chosen: dict[Color, tuple[Color, int]] = {}
            for body in group:
                for link, shape, own in self._shapes(body):
                    if own not in chosen:
                        drawn = own if paint is None else _drawn(paint, SATURATION, VALUE)
                        texture = -1 if cloth is None else self._pattern(cloth, variation.texture_contrast)
                        chosen[own] = (*_mixed(own[:3], drawn, variation.color_change), own[3]), texture
                    color, texture = chosen[own]
                    bullet.changeVisualShape(
                        body, link, shape, rgbaColor=color, textureUniqueId=texture, physicsClientId=self._client
                    )

    def forget(self, body: int) -> None:
        """A body has been removed, and its shapes with it."""
        self._own.pop(body, None)

    def _shapes(self, body: int) -> list[tuple[int, int, Color]]:
        """Link, index within the link and own colour of each shape that has no texture of its own."""
        if body not in self._own:
            flags = bullet.VISUAL_SHAPE_DATA_TEXTURE_UNIQUE_IDS
            found, counts = [], dict[int, int]()
            for data in bullet.getVisualShapeData(body, flags, physicsClientId=self._client):
                link = data[1]
                counts[link] = counts.get(link, -1) + 1
                if data[8] < 0:
                    found.append((link, counts[link], tuple(data[7])))
            self._own[body] = found
        return self._own[body]

    def _pattern(self, rng: np.random.Generator, contrast: float) -> int:
        """Bullet's number of a texture."""
        path = pattern_file(int(rng.integers(COUNT)), contrast)
        if path not in self._textures:
            self._textures[path] = bullet.loadTexture(path, physicsClientId=self._client)
        return self._textures[path]


def _of(seed: int | None, number: int) -> np.random.Generator | None:
    """A generator for one group of bodies; none where nothing is to be drawn."""
    return None if seed is None else np.random.default_rng([seed, number])


def _drawn(rng: np.random.Generator, saturation: tuple[float, float], value: tuple[float, float]) -> Color:
    return colorsys.hsv_to_rgb(rng.random(), rng.uniform(*saturation), rng.uniform(*value))


def _mixed(own: Color, drawn: Color, change: float) -> Color:
    return tuple((1.0 - change) * a + change * b for a, b in zip(own, drawn[:3], strict=True))
