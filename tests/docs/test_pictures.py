"""The README's pictures are what the project draws today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.docs.documents import ROOT, shell

PICTURES = sorted(path for path in (ROOT / "docs" / "images").glob("*.png") if not path.name.startswith("dashboard_"))
"""Pictures that docs/pictures.py draws; those of the dashboard show a browser."""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the pictures have just been drawn."""
    folder = tmp_path_factory.mktemp("pictures")
    shell(f"python docs/pictures.py {folder}", ROOT)
    return folder


def test_no_picture_is_missing_or_left_over(drawn: Path) -> None:
    assert [path.name for path in PICTURES] == sorted(path.name for path in drawn.iterdir())
    names = {"panda_reach.png", "panda_pick_and_place.png", "objects.png", "randomized.png"}
    assert {path.name for path in PICTURES} == names


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_picture_is_up_to_date(path: Path, drawn: Path) -> None:
    assert path.stat().st_size < 450_000
    kept, fresh = (
        np.asarray(Image.open(folder / path.name).convert("RGB"), dtype=float) for folder in (path.parent, drawn)
    )
    assert kept.shape == fresh.shape
    assert np.abs(kept - fresh).mean() < 5.0, "draw them again: python docs/pictures.py"
