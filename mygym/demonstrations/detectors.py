"""`train_detector`: train a detector of objects on a data set of `record_images`, and measure its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mygym.demonstrations.network_training import checked_file, progress
from mygym.demonstrations.recorded_images import SPLITS, Recorded, read_images
from mygym.envs.arguments import checked_count, checked_seed
from mygym.errors import ConfigError, bad_value
from mygym.perception.detector import Detector, load_detector
from mygym.perception.detector_training import Errors, measure, train_network
from mygym.perception.unet import DIVISOR
from mygym.runs import files


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
    path, steps, seed = checked_file(out), checked_count(steps, "steps"), checked_seed(seed)
    train, validation, test = (_read(Path(data).expanduser(), split) for split in SPLITS)
    with progress(steps, report) as after_step:
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
        ConfigError: The file is no detector, the folder is no data set, or they do not fit.
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


def _read(folder: Path, split: str) -> Recorded:
    """Read a split of a data set for a detector.

    Raises:
        ConfigError: The split shows no object, or two objects of a name, or the marker of the goal, or its images are
            of a wrong size.
        RunError: A file is damaged.
    """
    recorded = read_images(folder, split, DIVISOR)
    if recorded.marker:
        why = "shows the marker of the goal, which is no object"
        raise ConfigError(bad_value("data", str(folder), "images without --marker", why))
    if not recorded.objects:
        raise ConfigError(bad_value("data", str(folder), "images of a task with objects", f"{split} shows no object"))
    if recorded.repeated:
        why = f"shows several objects of the category {recorded.repeated[0]}"
        raise ConfigError(bad_value("data", str(folder), "objects of different names", why))
    return recorded
