"""Images of single objects with their shadow, and a contact sheet of all objects."""

from __future__ import annotations

import colorsys
import io
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from mygym.engines.bullet.client import bullet, temporary_client
from mygym.engines.rendering.appearance import LIGHT
from mygym.engines.rendering.scene import add_visual, averaged, check_sizes, rendered
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.shapes import bounds
from mygym.types import FloatArray

Picture = NDArray[np.uint8]

PAPER = (247, 246, 243)
INK, GREY = (52, 56, 62), (132, 136, 141)
YAW, PITCH, FOV = 35.0, -30.0, 20.0
"""Direction of the camera and its vertical field of view, degrees."""

SHADOW, SHADOW_SLANT = 0.28, (0.35, -0.15)
"""Darkness of the shadow relative to the paper, and its length along x and y per m of height."""

BLURS = (0.008, 0.04)
"""Blur radii of the shadow, as fractions of the image height."""


def thumbnail(spec: ObjectSpec, width: int, height: int, samples: int = 2) -> Picture:
    """Return an image of an object lying on a surface; the object fills the image.

    Args:
        spec: The object.
        width: Pixels.
        height: Pixels.
        samples: Anti-aliasing: render at this multiple of the size, and average.

    Returns:
        `(height, width, 3)` uint8, RGB.

    Raises:
        ConfigError: A size is not positive.
    """
    check_sizes(width=width, height=height, samples=samples)
    image, mask, shaded = _render(spec, width * samples, height * samples)
    shadow = Image.fromarray((255 * shaded).astype(np.uint8))
    near, far = (
        np.asarray(shadow.filter(ImageFilter.GaussianBlur(height * samples * radius)), dtype=float) for radius in BLURS
    )
    paper = np.array(PAPER) * (1 - SHADOW * (near + far)[..., None] / 510)
    return averaged(np.where(mask[..., None], image, paper), samples)


def silhouette(spec: ObjectSpec, width: int, height: int) -> NDArray[np.bool_]:
    """Return `(height, width)`: whether each pixel of its image shows the object."""
    return _render(spec, width, height)[1]


def _render(spec: ObjectSpec, width: int, height: int) -> tuple[Picture, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return colours `(height, width, 3)`, the mask of the object, and the mask of its shadow."""
    low, high = bounds(spec.geoms)
    middle = (low + high) / 2 - spec.inertial.centre
    lift = float(-low[2] + spec.inertial.centre[2])
    distance = _distance(high - low, width / height)
    target = [float(middle[0]), float(middle[1]), float(middle[2]) + lift]
    view = bullet.computeViewMatrixFromYawPitchRoll(target, distance, YAW, PITCH, 0.0, 2)
    projection = bullet.computeProjectionMatrixFOV(FOV, width / height, distance * 0.3, distance * 3.0)
    # The shadow is the object projected onto the surface along the light (Blinn 1988); TinyRenderer's shadow is coarse.
    flat = np.eye(4)
    flat[:3, 2] = -SHADOW_SLANT[0], -SHADOW_SLANT[1], 0.0
    flattened = (np.array(view).reshape(4, 4).T @ flat).T.ravel().tolist()
    with temporary_client() as client:
        body = add_visual(client, spec, (0.0, 0.0, lift), (0.0, 0.0, 0.0, 1.0))
        _, shaded, _ = rendered(client, width, height, flattened, projection, LIGHT)
        image, shown, _ = rendered(client, width, height, view, projection, LIGHT)
    return image, shown == body, shaded == body


def _distance(size: FloatArray, aspect: float) -> float:
    """Return m from the middle of a box with edges `(3,)` m to the camera whose image it just fills."""
    yaw, pitch = math.radians(YAW), math.radians(PITCH)
    right = np.array([math.cos(yaw), math.sin(yaw), 0.0])
    ahead = np.array([-math.sin(yaw) * math.cos(pitch), math.cos(yaw) * math.cos(pitch), math.sin(pitch)])
    wide, tall, deep = (float(np.abs(axis) @ size) / 2 for axis in (right, np.cross(right, ahead), ahead))
    half = math.tan(math.radians(FOV) / 2)
    return deep + max(tall / half, wide / (half * aspect)) * 1.1


def grid(pictures: Sequence[Picture], columns: int, gap: int = 8) -> Picture:
    """Arrange images of one size `(height, width, 3)` in rows, with a gap in pixels around each."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    sheet = np.empty((gap + rows * (height + gap), gap + columns * (width + gap), 3), np.uint8)
    sheet[:] = PAPER
    for number, picture in enumerate(pictures):
        y, x = (
            gap + index * (side + gap) for index, side in zip(divmod(number, columns), (height, width), strict=True)
        )
        sheet[y : y + height, x : x + width] = picture
    return sheet


def as_png(picture: Picture) -> bytes:
    """Return an image `(height, width, 3)` as a PNG file."""
    content = io.BytesIO()
    Image.fromarray(picture).save(content, format="PNG", optimize=True)
    return content.getvalue()


def class_colors() -> Picture:
    """Return `(256, 3)` colours of the indices of `segmentation`: black, grey for the robot, then distinct hues."""
    hues = (colorsys.hsv_to_rgb(0.618 * index % 1, 0.65, 0.95) for index in range(254))
    return np.array([(0, 0, 0), GREY, *(np.multiply(hue, 255) for hue in hues)]).round().astype(np.uint8)


def contact_sheet(specs: Sequence[ObjectSpec], width: int = 1820, columns: int = 14) -> Picture:
    """Return a sheet of objects by category, each with its name and size.

    Args:
        specs: The objects.
        width: Pixels of the sheet; the height follows from the number of objects.
        columns: Objects per row.

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
        heading_text = name or "custom"
        draw.text((margin, y + heading / 2), heading_text, fill=INK, font=title, anchor="lm")
        right = margin + draw.textlength(heading_text, font=title) + cell / 8
        draw.line((right, y + heading / 2, width - margin, y + heading / 2), fill=(221, 219, 213), width=1)
        y += heading
        for start in range(0, len(group), columns):
            for column, spec in enumerate(group[start : start + columns]):
                x = margin + column * cell
                sheet.paste(Image.fromarray(thumbnail(spec, cell, cell)), (x, y))
                centre = x + cell / 2
                draw.text((centre, y + cell + caption * 0.3), spec.name, fill=INK, font=small, anchor="mm")
                size = " x ".join(f"{100 * edge:.1f}".removesuffix(".0") for edge in spec.size) + " cm"
                draw.text((centre, y + cell + caption * 0.72), size, fill=GREY, font=tiny, anchor="mm")
            y += cell + caption
    return np.asarray(sheet)
