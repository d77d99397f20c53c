"""Procedural textures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from mygym.sim.rendering.textures import COUNT, SEEN, SIDE, pattern, pattern_file


@pytest.mark.parametrize("number", range(COUNT))
def test_a_pattern_uses_its_range_and_is_the_same_again(number: int) -> None:
    made = pattern(number)
    assert made.shape == (SIDE, SIDE)
    assert (made.min(), made.max()) == (0.0, 1.0)
    pattern.cache_clear()
    assert (pattern(number) == made).all()


def test_patterns_differ() -> None:
    assert len({pattern(number).tobytes() for number in range(COUNT)}) == COUNT


def test_a_file_is_darker_by_its_contrast_and_written_once() -> None:
    faint, strong = (np.asarray(Image.open(pattern_file(1, contrast))) for contrast in (0.25, 1.0))
    assert faint.shape == (SEEN * SIDE, SEEN * SIDE, 3)
    assert (faint.max(), strong.max()) == (255, 255)
    assert (faint.min(), strong.min()) == (pytest.approx(191, abs=1), 0)
    assert (faint[:SIDE, :SIDE] == faint[-SIDE:, -SIDE:]).all()
    assert pattern_file(1, 0.25) == pattern_file(1, 0.26)
