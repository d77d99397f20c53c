"""Procedural textures: grey patterns by which the colours of shapes are multiplied."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from mygym.robotics.temporary_files import temporary_file
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
