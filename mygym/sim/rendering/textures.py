"""Procedural textures: grey patterns that shapes' colours are multiplied by."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from mygym.models.temporary_files import temporary_file
from mygym.types import FloatArray

SIDE = 96
"""Pixels along each side."""

SEEN = 4
"""Bullet lays the last quarter of a texture, along both sides, on its boxes: so its files hold a pattern as often."""

VARIANTS = 4
"""Of each kind: Bullet keeps every texture that it has been given (0.4 MB each), so there are so many and no more."""

CONTRASTS = 4
"""Levels of contrast, evenly spaced up to 1."""


def _noise(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Smooth noise in [0, 1] with so many bumps down and across, `(SIDE, SIDE)`."""
    image = Image.fromarray((255 * rng.random((rows, columns))).astype(np.uint8))
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=float) / 255


def _axes(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Coordinates in [0, 1], either way round."""
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


KINDS: tuple[Callable[[np.random.Generator], FloatArray], ...] = (_grain, _stripes, _checks, _spots, _clouds, _speckles)

COUNT = len(KINDS) * VARIANTS
"""Of patterns."""


@cache
def pattern(number: int) -> FloatArray:
    """`(SIDE, SIDE)` in [0, 1]: the same for a number, always."""
    rng = np.random.default_rng(number)
    made = KINDS[number % len(KINDS)](rng)
    grey: FloatArray = (made - made.min()) / max(float(np.ptp(made)), 1e-9)
    return grey


def pattern_file(number: int, contrast: float) -> str:
    """Path of a PNG file of a pattern: white where it is 1, darker by `contrast` where it is 0."""
    level = max(1, round(contrast * CONTRASTS)) / CONTRASTS
    grey = (255 * (1.0 - level * (1.0 - pattern(number)))).astype(np.uint8)
    written = io.BytesIO()
    Image.fromarray(np.tile(grey[..., None], (SEEN, SEEN, 3))).save(written, format="PNG")
    return temporary_file("pattern.png", written.getvalue())
