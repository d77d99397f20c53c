"""Pictures of single objects on nothing but their shadow, and the sheet of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from mygym.errors import ConfigError, bad_value
from mygym.models.bounding_box import bounds
from mygym.models.objects import ObjectSpec
from mygym.sim.bodies import add_visual
from mygym.sim.bullet import bullet, connect, disconnect
from mygym.sim.rendering.appearance import LIGHT

Picture = NDArray[np.uint8]

PAPER = (247, 246, 243)
INK, GREY = (52, 56, 62), (132, 136, 141)
YAW, PITCH, FOV = 35.0, -30.0, 20.0
"""Degrees: where the camera looks from, and its vertical field of view, as narrow as for a catalogue."""


SHADOW, SHADOW_SLANT = 0.28, (0.35, -0.15)
"""How much darker the shadow is than the paper, and how far it falls along x and y for each m of height."""

BLURS = (0.008, 0.04)
"""Parts of the picture's height by which the shadow's edge is blurred."""


def portrait(spec: ObjectSpec, width: int, height: int, samples: int = 2) -> Picture:
    """An object as it lies on a surface, filling the picture.

    Args:
        spec: The object.
        width: Pixels.
        height: Pixels.
        samples: Anti-aliasing: drawn this many times as large along each side, and averaged.

    Returns:
        `(height, width, 3)` uint8, RGB.

    Raises:
        ConfigError: a size is not positive.
    """
    for key, value in (("width", width), ("height", height), ("samples", samples)):
        if value < 1:
            raise ConfigError(bad_value(key, value, "at least 1"))
    image, there, shaded = _drawn(spec, width * samples, height * samples)
    mask = Image.fromarray((255 * shaded).astype(np.uint8))
    near, far = (
        np.asarray(mask.filter(ImageFilter.GaussianBlur(height * samples * part)), dtype=float) for part in BLURS
    )
    paper = np.array(PAPER) * (1 - SHADOW * (near + far)[..., None] / 510)
    image = np.where(there[..., None], image, paper)
    image = image.reshape(height, samples, width, samples, 3).mean(axis=(1, 3)).round()
    return np.asarray(image, dtype=np.uint8)


def silhouette(spec: ObjectSpec, width: int, height: int) -> NDArray[np.bool_]:
    """`(height, width)`: where the object is in its portrait."""
    return _drawn(spec, width, height)[1]


def _drawn(
    spec: ObjectSpec, width: int, height: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Colours `(height, width, 3)`, where the object is, and where its shadow is."""
    client = connect()
    try:
        return _seen(client, spec, width, height)
    finally:
        disconnect(client)


def _seen(
    client: int, spec: ObjectSpec, width: int, height: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    low, high = bounds(spec.geoms)
    middle = (low + high) / 2 - spec.inertial.centre
    lift = float(-low[2] + spec.inertial.centre[2])
    body = add_visual(client, spec, (0.0, 0.0, lift), (0.0, 0.0, 0.0, 1.0))
    distance = _distance(high - low, width / height)
    target = [float(middle[0]), float(middle[1]), float(middle[2]) + lift]
    view = bullet.computeViewMatrixFromYawPitchRoll(target, distance, YAW, PITCH, 0.0, 2)
    projection = bullet.computeProjectionMatrixFOV(FOV, width / height, distance * 0.3, distance * 3.0)

    def render(seen: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Colours, and where the object is."""
        _, _, pixels, _, segments = bullet.getCameraImage(
            width, height, seen, projection, shadow=0, renderer=bullet.ER_TINY_RENDERER, physicsClientId=client, **LIGHT
        )
        colors = np.array(pixels, dtype=float).reshape(height, width, 4)[..., :3]
        return colors, np.asarray(segments).reshape(height, width) == body

    # The object flattened onto the surface along the light is its shadow (Blinn 1988); TinyRenderer's own is coarse.
    flat = np.eye(4)
    flat[:3, 2] = -SHADOW_SLANT[0], -SHADOW_SLANT[1], 0.0
    _, shaded = render((np.array(view).reshape(4, 4).T @ flat).T.ravel().tolist())
    return *render(view), shaded


def _distance(size: NDArray[np.float64], aspect: float) -> float:
    """M from the middle of a box with edges `(3,)` m to the camera whose picture it just fills."""
    yaw, pitch = math.radians(YAW), math.radians(PITCH)
    right = np.array([math.cos(yaw), math.sin(yaw), 0.0])
    ahead = np.array([-math.sin(yaw) * math.cos(pitch), math.cos(yaw) * math.cos(pitch), math.sin(pitch)])
    wide, tall, deep = (float(np.abs(axis) @ size) / 2 for axis in (right, np.cross(right, ahead), ahead))
    half = math.tan(math.radians(FOV) / 2)
    return deep + max(tall / half, wide / (half * aspect)) * 1.1


def grid(pictures: Sequence[Picture], columns: int, gap: int = 8) -> Picture:
    """Pictures of one size `(height, width, 3)` in rows, with paper around each."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    sheet = np.empty((gap + rows * (height + gap), gap + columns * (width + gap), 3), np.uint8)
    sheet[:] = PAPER
    for number, picture in enumerate(pictures):
        y, x = (
            gap + place * (side + gap) for place, side in zip(divmod(number, columns), (height, width), strict=True)
        )
        sheet[y : y + height, x : x + width] = picture
    return sheet


def contact_sheet(specs: Sequence[ObjectSpec], width: int = 1820, columns: int = 14) -> Picture:
    """All objects by category: each with its name and size.

    Args:
        specs: The objects.
        width: Pixels of the sheet; its height follows.
        columns: Objects in a row.

    Returns:
        `(height, width, 3)` uint8, RGB.
    """
    cell = max(1, round(width / (columns + 0.5)))
    margin, heading, caption = (width - columns * cell) // 2, cell // 2, round(cell / 3.4)
    categories = sorted({spec.category for spec in specs})
    groups = {name: sorted((s for s in specs if s.category == name), key=lambda s: s.name) for name in categories}
    rows = sum(-(-len(group) // columns) for group in groups.values())
    height = margin + len(groups) * heading + rows * (cell + caption) + margin
    sheet = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(sheet)
    title, small = ImageFont.load_default(cell / 6), ImageFont.load_default(cell / 9.5)
    tiny = ImageFont.load_default(cell / 12)
    y = margin
    for name, group in groups.items():
        words = name or "yours"
        draw.text((margin, y + heading / 2), words, fill=INK, font=title, anchor="lm")
        right = margin + draw.textlength(words, font=title) + cell / 8
        draw.line((right, y + heading / 2, width - margin, y + heading / 2), fill=(221, 219, 213), width=1)
        y += heading
        for start in range(0, len(group), columns):
            for place, spec in enumerate(group[start : start + columns]):
                x = margin + place * cell
                sheet.paste(Image.fromarray(portrait(spec, cell, cell)), (x, y))
                centre = x + cell / 2
                draw.text((centre, y + cell + caption * 0.3), spec.name, fill=INK, font=small, anchor="mm")
                size = " x ".join(f"{100 * edge:.1f}".removesuffix(".0") for edge in spec.size) + " cm"
                draw.text((centre, y + cell + caption * 0.72), size, fill=GREY, font=tiny, anchor="mm")
            y += cell + caption
    return np.asarray(sheet)
