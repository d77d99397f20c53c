"""The pictures of the documents are those that the project draws today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.docs.documents import ROOT, shell

IMAGES = ROOT / "docs" / "images"
PICTURES = sorted(
    path
    for path in IMAGES.rglob("*")
    if path.suffix in (".png", ".jpg", ".webp") and not path.name.startswith("dashboard_")
)
"""Pictures and videos that docs/pictures.py draws; those of the dashboard show a browser."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the pictures have just been drawn."""
    folder = tmp_path_factory.mktemp("pictures")
    shell(f"python docs/pictures.py {folder}", ROOT)
    return folder


def test_no_picture_is_missing_or_left_over(drawn: Path) -> None:
    names = {path.relative_to(IMAGES) for path in PICTURES}
    assert {path.relative_to(drawn) for path in drawn.rglob("*.*")} <= names  # without robots of an extra
    sheets = {"panda_reach.png", "panda_pick_and_place.png", "objects.png", "randomized.png", "wrist_camera.png"}
    sheets |= {"explained_robot.png", "progress_curves.png"}
    assert {str(name) for name in names if name.suffix == ".png"} == sheets


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: str(path.relative_to(IMAGES)))
def test_picture_is_up_to_date(path: Path, drawn: Path) -> None:
    assert path.stat().st_size < 450_000
    if not (drawn / path.relative_to(IMAGES)).exists():
        pytest.skip("a robot of an extra that is not installed")
    kept, fresh = (
        np.asarray(Image.open(folder / path.relative_to(IMAGES)).convert("RGB"), dtype=float)
        for folder in (IMAGES, drawn)
    )
    assert kept.shape == fresh.shape
    assert np.abs(kept - fresh).mean() < 5.0, "draw them again: python docs/pictures.py"
