"""Images and annotations of a data set of `record_images`, read for the training of networks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mygym.demonstrations.coco import MILLIMETRES, mask_of
from mygym.errors import ConfigError, RunError, bad_value
from mygym.perception.recorded import Images
from mygym.runs import files
from mygym.tasks.camera_view import Frame

SPLITS = ("train", "val", "test")
"""Splits that a training needs: to train on, to choose by, to measure."""


@dataclass(frozen=True)
class Recorded:
    """A split of a data set."""

    images: Images
    categories: tuple[str, ...]
    """Names of the bodies."""
    objects: tuple[str, ...]
    """Categories with positions."""
    repeated: tuple[str, ...]
    """Objects of which an image shows several, so that `Images.positions` has the position of any of them."""
    cameras: tuple[str, ...]
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    marker: bool
    """Whether a marker shows the goal."""
    depth_range: tuple[float, float] | None
    """`image_params.depth_range` of the recording."""


def read_images(folder: Path, split: str, divisor: int) -> Recorded:
    """Read a split of a data set.

    Args:
        folder: Folder of the data set.
        split: Name of the split.
        divisor: Number that divides the width and the height that a network takes.

    Raises:
        ConfigError: The folder has no such split, or no network takes the size of its images.
        RunError: A file is damaged.
    """
    file = folder / "annotations" / f"instances_{split}.json"
    if not files.is_file(file):
        allowed = "a folder of `mygym dataset vision`"
        raise ConfigError(bad_value("data", str(folder), allowed, f"has no split {split}"))
    try:
        content = json.loads(file.read_text())
        info, entries = content["info"], content["images"]
        categories = tuple(category["name"] for category in content["categories"])
        by_image: dict[int, list[dict[str, Any]]] = {}
        for annotation in content["annotations"]:
            by_image.setdefault(annotation["image_id"], []).append(annotation)
        frames = [_frame(folder, split, entry) for entry in entries]
        labels = [_labels(by_image.get(entry["id"], []), entry, len(categories)) for entry in entries]
        cameras, depth_ranges = ([entry[key] for entry in entries] for key in ("camera", "depth_range"))
        marker, depth_range = info["marker"], info["environment"]["image_params"]["depth_range"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder}: is damaged, or of an older version: {type(error).__name__}: {error}") from None
    if not entries:
        raise ConfigError(bad_value("data", str(folder), f"images in the split {split}", "has too few images"))
    height, width = frames[0].depth.shape
    if width % divisor or height % divisor:
        allowed = f"images whose width and height are multiples of {divisor}"
        raise ConfigError(bad_value("data", f"{width} x {height} pixels", allowed))
    images = Images(
        frames,
        np.stack([classes for classes, _ in labels]),
        np.stack([positions for _, positions in labels]),
        cameras,
        [(near, far) for near, far in depth_ranges],
    )
    counts = Counter(
        (annotation["image_id"], categories[annotation["category_id"] - 1])
        for annotation in content["annotations"]
        if "position" in annotation
    )
    objects, repeated = (
        tuple(name for name in categories if any(counts[pair] > least for pair in counts if pair[1] == name))
        for least in (0, 1)
    )
    of_config = None if depth_range is None else (depth_range[0], depth_range[1])
    seen_by = tuple(dict.fromkeys(cameras))
    return Recorded(images, categories, objects, repeated, seen_by, width, height, marker, of_config)


def _frame(folder: Path, split: str, entry: dict[str, Any]) -> Frame:
    """Read an image with its depth."""
    with Image.open(folder / split / entry["file_name"]) as picture:
        rgb = np.array(picture.convert("RGB"))
    with Image.open(folder / entry["depth_file_name"]) as picture:
        depth = np.array(picture).astype(np.float32) / np.float32(MILLIMETRES)
    depth[depth == 0] = np.inf
    nothing = np.full(depth.shape, -1, dtype=np.int32)
    return Frame(rgb, depth, nothing, (), np.array(entry["camera_pose"]), float(entry["focal"]))


def _labels(annotations: Sequence[dict[str, Any]], entry: dict[str, Any], categories: int) -> tuple[Any, Any]:
    """Return an image's rows of `Images.classes` and `Images.positions`."""
    classes = np.zeros((entry["height"], entry["width"]), dtype=np.uint8)
    positions = np.full((categories, 3), np.nan)
    for annotation in annotations:
        classes[mask_of(annotation["segmentation"])] = annotation["category_id"]
        positions[annotation["category_id"] - 1] = annotation.get("position", np.nan)
    return classes, positions
