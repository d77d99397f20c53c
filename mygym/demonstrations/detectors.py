"""`train_detector`: train a detector of objects on a data set of `record_images`, and measure its errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mygym.demonstrations.coco import MILLIMETRES, mask_of
from mygym.demonstrations.collection import progress_bar
from mygym.envs.arguments import checked_count, checked_seed
from mygym.errors import ConfigError, RunError, bad_value
from mygym.perception.detector import Detector, load_detector
from mygym.perception.network import DIVISOR
from mygym.perception.training import Errors, Images, measure, train_network
from mygym.runs import files
from mygym.runs.stop_request import StopRequest
from mygym.tasks.camera_view import Frame

ALLOWED = "a folder of `mygym dataset vision`"

SUFFIX = ".safetensors"


def train_detector(
    data: str | Path,
    *,
    out: str | Path,
    steps: int = 1500,
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
) -> list[Errors]:
    """Train a detector on the split `train` of a data set, and return its errors on the split `test`.

    The network that has the least loss on the split `val` is kept. `image_params.detector` takes the file.

    Args:
        data: A folder of `record_images`, with the splits `train`, `val` and `test`.
        out: A new file, `….safetensors`.
        steps: Minibatches of 16 images.
        seed: Seed of weights and minibatches.
        report: Called about 20 times with a line about the loss.

    Returns:
        The errors for each camera and object.

    Raises:
        ConfigError: A value is wrong, `out` exists, or the data set has no image of an object.
        RunError: The data set is damaged, or writing failed.
        KeyboardInterrupt: A signal stops the training; no file remains.
    """
    path = Path(out).expanduser()
    steps, seed = checked_count(steps, "steps"), checked_seed(seed)
    if path.suffix != SUFFIX:
        raise ConfigError(bad_value("out", str(out), f"a new file NAME{SUFFIX}"))
    files.check_new(path, "out", "a file")
    train, validation, test = (_read(Path(data).expanduser(), split) for split in ("train", "val", "test"))
    with progress_bar(steps, "step") as bar, StopRequest("after this step") as stop:

        def after_step(step: int, loss: float, error: float | None) -> None:
            bar.update()
            if error is not None:
                report(f"{step:7,} steps   loss {loss:.3f}   on val {error:.3f}")
            if stop.received:
                raise KeyboardInterrupt

        network = train_network(
            train.images, validation.images, 1 + len(train.categories), steps=steps, seed=seed, after_step=after_step
        )
    detector = Detector(network, train.categories, train.objects, train.cameras, train.width, train.height)
    files.write_bytes(path, detector.to_bytes())
    return measure(detector, test.images)


def measure_detector(detector: str | Path, data: str | Path, *, split: str = "test") -> list[Errors]:
    """Return the errors of a detector on a split of a data set, for each camera and object.

    Args:
        detector: A file of `train_detector`.
        data: A folder of `record_images` with the same bodies and sizes.
        split: Name of the split.

    Raises:
        ConfigError: The file or the folder is no such thing, or they do not fit.
        RunError: The data set is damaged.
    """
    loaded = load_detector(detector, "detector")
    recorded = _read(Path(data).expanduser(), split)
    for key, here, expected in (
        ("categories", recorded.categories, loaded.categories),
        ("size", (recorded.width, recorded.height), (loaded.width, loaded.height)),
    ):
        if here != expected:
            raise ConfigError(bad_value(f"data.{key}", here, f"those of the detector: {expected}"))
    return measure(loaded, recorded.images)


@dataclass(frozen=True)
class _Recorded:
    """A split of a data set, with the conditions of a detector."""

    images: Images
    categories: tuple[str, ...]
    objects: tuple[str, ...]
    cameras: tuple[str, ...]
    width: int
    height: int


def _read(folder: Path, split: str) -> _Recorded:
    """Read a split of a data set.

    Raises:
        ConfigError: There is no such split, or it shows no object, or its images are too irregular for a detector.
        RunError: A file is damaged.
    """
    file = folder / "annotations" / f"instances_{split}.json"
    if not files.is_file(file):
        raise ConfigError(bad_value("data", str(folder), ALLOWED, f"has no split {split}"))
    try:
        content = json.loads(file.read_text())
        entries, categories = content["images"], tuple(category["name"] for category in content["categories"])
        by_image: dict[int, list[dict[str, Any]]] = {}
        for annotation in content["annotations"]:
            by_image.setdefault(annotation["image_id"], []).append(annotation)
        frames = [_frame(folder, split, entry) for entry in entries]
        labels = [_labels(by_image.get(entry["id"], []), entry, len(categories)) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder}: is damaged, or of an older version: {type(error).__name__}: {error}") from None
    objects = {
        categories[annotation["category_id"] - 1] for annotation in content["annotations"] if "position" in annotation
    }
    if not objects:
        raise ConfigError(bad_value("data", str(folder), "images of a task with objects", f"{split} shows no object"))
    _check_single(folder, by_image.values(), categories)
    height, width = frames[0].depth.shape
    if width % DIVISOR or height % DIVISOR:
        allowed = f"images whose width and height are multiples of {DIVISOR}"
        raise ConfigError(bad_value("data", f"{width} x {height} pixels", allowed))
    images = Images(
        frames,
        np.stack([classes for classes, _ in labels]),
        np.stack([positions for _, positions in labels]),
        [entry["camera"] for entry in entries],
    )
    known = tuple(name for name in categories if name in objects)
    return _Recorded(images, categories, known, tuple(dict.fromkeys(images.cameras)), width, height)


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


def _check_single(folder: Path, annotations: Iterable[list[dict[str, Any]]], categories: Sequence[str]) -> None:
    """Refuse images with two objects of a name, whose positions would be confused.

    Raises:
        ConfigError: Two objects have the same name.
    """
    for of_image in annotations:
        numbers = [annotation["category_id"] for annotation in of_image if "position" in annotation]
        for number in numbers:
            if numbers.count(number) > 1:
                why = f"shows several objects of the category {categories[number - 1]}"
                raise ConfigError(bad_value("data", str(folder), "objects of different names", why))
