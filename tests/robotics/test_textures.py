"""Procedural textures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from mygym.engines.rendering.appearance import SIDE, TEXTURE_COUNT, TILES, pattern, texture_file


def test_a_pattern_spans_its_range_and_is_deterministic() -> None:
    for number in range(TEXTURE_COUNT):
        first = pattern(number)
        assert first.shape == (SIDE, SIDE)
        assert (first.min(), first.max()) == (0.0, 1.0)
        pattern.cache_clear()
        assert (pattern(number) == first).all()


def test_patterns_differ() -> None:
    assert len({pattern(number).tobytes() for number in range(TEXTURE_COUNT)}) == TEXTURE_COUNT


def test_a_texture_file_is_darker_by_its_contrast_and_written_once() -> None:
    faint, strong = (np.asarray(Image.open(texture_file(1, contrast))) for contrast in (0.25, 1.0))
    assert faint.shape == (TILES * SIDE, TILES * SIDE, 3)
    assert (faint.max(), strong.max()) == (255, 255)
    assert (faint.min(), strong.min()) == (pytest.approx(191, abs=1), 0)
    assert (faint[:SIDE, :SIDE] == faint[-SIDE:, -SIDE:]).all()
    assert texture_file(1, 0.25) == texture_file(1, 0.26)
