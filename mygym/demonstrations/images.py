"""`record_images`: record images of randomized episodes, with masks, boxes and depth, as a COCO data set."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mygym.config import RunConfig
from mygym.demonstrations.recording import progress_bar
from mygym.demonstrations.storage import new_folder, writing
from mygym.envs.arguments import checked_arguments, checked_count, checked_seed
from mygym.envs.env_spec import EnvSpec
from mygym.envs.randomizers import ranges
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value, error_text
from mygym.planning.derived import env_spec
from mygym.planning.plan import Config
from mygym.tasks.observations import MAIN_CAMERA, Frame
from mygym.training import files
from mygym.training.evaluation import DEMONSTRATION, episode_seeds
from mygym.training.loading import find_plan
from mygym.training.result import versions
from mygym.training.stop_request import StopRequest
from mygym.types import FloatArray
from mygym.vision.training import Images

MILLIMETRES = 1000.0
"""Depth images hold millimetres."""

MAX_DEPTH = 65_535
"""Largest distance in a depth image, mm; 0 where nothing is."""


def run_lengths(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return COCO's uncompressed run-length encoding of a mask `(H, W)`.

    Column by column, `counts` alternates the numbers of pixels outside and inside the mask; the first is outside.
    """
    pixels = np.concatenate([[False], mask.ravel(order="F"), [False]])
    changes = np.flatnonzero(pixels[1:] != pixels[:-1])
    counts = np.diff(np.concatenate([[0], changes, [mask.size]]))
    if len(counts) > 1 and counts[-1] == 0:  # the mask ends with the image
        counts = counts[:-1]
    return {"size": list(mask.shape), "counts": counts.tolist()}


def body_annotations(
    frame: Frame, categories: Collection[str], positions: Mapping[int, FloatArray]
) -> Iterator[dict[str, Any]]:
    """Yield an annotation for each visible body whose name is in `categories`, without `id` and `image_id`.

    `positions` has the index of an object in `frame.labels`, and its centre of mass `(3,)` m in the world frame.
    """
    numbers = {name: number for number, name in enumerate(categories, 1)}
    for index, name in enumerate(frame.labels):
        mask = frame.segmentation == index
        if name not in numbers or not mask.any():
            continue
        rows, columns = np.nonzero(mask)
        left, top = int(columns.min()), int(rows.min())
        position = {"position": positions[index].tolist()} if index in positions else {}
        yield {
            "category_id": numbers[name],
            "segmentation": run_lengths(mask),
            "area": int(mask.sum()),
            "bbox": [left, top, int(columns.max()) - left + 1, int(rows.max()) - top + 1],
            "iscrowd": 0,
            **position,
        }


def millimetres(frame: Frame) -> NDArray[np.uint16]:
    """Return the depth of a frame, `(H, W)` mm; 0 where nothing is."""
    depth = np.where(np.isfinite(frame.depth), frame.depth, 0.0)
    return np.minimum(np.rint(MILLIMETRES * depth), MAX_DEPTH).astype(np.uint16)


def mask_of(encoded: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return the mask `(H, W)` of a run-length encoding, see `run_lengths`."""
    counts = np.asarray(encoded["counts"])
    height, width = encoded["size"]
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape((height, width), order="F")


SPLITS = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Split → share of the images; a training needs these three: to train on, to choose by, to measure."""

RANDOMIZE = ("light", "colors", "textures", "camera")
"""Randomizers of a config that names none."""

CAPTURED_SHARE = 0.1
"""Share of the control steps of which images are recorded: neighbours look alike."""

NOISE = 0.3
"""Standard deviation of the noise on the expert's actions, so that the states vary."""


@checked_arguments
def record_images(
    config: Config | None = None,
    *,
    out: str | Path,
    images: int = 1000,
    cameras: str | Sequence[str] = (MAIN_CAMERA,),
    categories: Sequence[str] | None = None,
    splits: Mapping[str, float] = SPLITS,
    seed: int = 0,
    marker: bool = False,
) -> dict[str, int]:
    """Record images of the scripted expert's episodes in COCO's format; all images of an episode are in one split.

    The folder contains, for each split: `SPLIT/` with RGB images, `depth/SPLIT/` with 16-bit images in millimetres (0
    where nothing is), both PNG, and `annotations/instances_SPLIT.json`. Each image entry has the keys of COCO, and
    `depth_file_name`, `camera`, `camera_pose` (4 × 4) and `focal` (see `Frame`), `depth_range` (m, of the observation
    component `depth`), `episode_seed` and `step`; each annotation of an object has its `position` (m, world frame).

    Args:
        config: Task, robot, size of the images (`image_params`), and other values that differ from the defaults. If
            `randomize` is empty, `light`, `colors`, `textures` and `camera` are randomized.
        out: The folder, which must not exist; it is written completely or not at all.
        images: Number of images, the same for each camera, or one more.
        cameras: A camera of the workspace or the robot, or several.
        categories: Names of bodies to annotate: `robot`, fixtures, objects; None: all.
        splits: Split → share of the images.
        seed: Seed of the episodes.
        marker: Whether a marker shows the goal, as in observations with `image_params.goal: image`; it is annotated as
            an object `goal`.

    Returns:
        Split → number of images.

    Raises:
        ConfigError: A value is wrong, or `out` exists.
        RegistryError: A name is unknown.
        RunError: Writing failed; nothing remains.
        KeyboardInterrupt: A signal stops the recording; nothing remains.
    """
    path = Path(out).expanduser()
    images, seed = checked_count(images, "images"), checked_seed(seed)
    _check_splits(splits)
    cameras = (cameras,) if isinstance(cameras, str) else cameras
    if not cameras:
        raise ConfigError(bad_value("cameras", [], f"at least one camera, such as {MAIN_CAMERA}"))
    files.check_new(path, "out", "a folder")
    spec = _env_spec(find_plan(config or {}).config)
    size = spec.image_params.width, spec.image_params.height
    with contextlib.ExitStack() as stack:
        env = stack.enter_context(contextlib.closing(RobotEnv.of(spec)))
        names = _checked_categories(categories, env, cameras, size, marker)
        bar = stack.enter_context(progress_bar(images, "image"))
        stop = stack.enter_context(StopRequest("after this image"))
        folder = stack.enter_context(new_folder(path))
        info = {"environment": spec.arguments(), "seed": seed, "marker": marker, "versions": dict(versions())}
        writers = {split: _Split(folder, split, names, info) for split in splits}
        recorded, split = None, ""
        frames = _frames(env, seed, cameras, size, marker)
        for frame, camera, episode_seed, step in itertools.islice(frames, images):
            if episode_seed != recorded:
                counts = {name: len(writer.images) for name, writer in writers.items()}
                recorded, split = episode_seed, _neediest(splits, counts)
            origin: dict[str, Any] = {"camera": camera, "depth_range": env.depth_range(camera)}
            origin |= {"episode_seed": episode_seed, "step": step}
            with writing(path):
                writers[split].add(frame, _positions(env, frame, marker), origin)
            bar.update()
            if stop.received:
                raise KeyboardInterrupt
        with writing(path):
            for writer in writers.values():
                writer.finish()
    return {split: len(writer.images) for split, writer in writers.items()}


def _env_spec(config: RunConfig) -> EnvSpec:
    """Return the description of an environment that starts at the beginning of the task, and observes no images."""
    changes: dict[str, Any] = {"observations": None, "spaces": "own"}
    changes["task_params"] = config.task_params.model_copy(update={"starts": {}})
    if not ranges(config.randomize):
        changes["randomize"] = dict.fromkeys(RANDOMIZE, True)
    return env_spec(config).model_copy(update=changes)


class _Split:
    """Images of a split and their annotations."""

    def __init__(self, folder: Path, name: str, categories: Sequence[str], info: Mapping[str, Any]) -> None:
        self._folder, self._name, self._categories, self._info = folder, name, categories, info
        self.images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []

    def add(self, frame: Frame, positions: Mapping[int, FloatArray], origin: Mapping[str, Any]) -> None:
        """Write the image and the depth of a frame, and annotate it; `origin` are further keys of the image's entry."""
        number = len(self.images) + 1
        file = f"{number:06d}.png"
        _save(self._folder / self._name / file, frame.rgb)
        _save(self._folder / "depth" / self._name / file, millimetres(frame))
        height, width = frame.depth.shape
        self.images.append(
            {
                "id": number,
                "file_name": file,
                "width": width,
                "height": height,
                "depth_file_name": f"depth/{self._name}/{file}",
                "camera_pose": frame.pose.tolist(),
                "focal": frame.focal,
                **origin,
            }
        )
        for annotation in body_annotations(frame, self._categories, positions):
            self._annotations.append({"id": len(self._annotations) + 1, "image_id": number, **annotation})

    def finish(self) -> None:
        """Write the file of annotations."""
        content = {
            "info": {"description": f"mygym, split {self._name}", **self._info},
            "licenses": [],
            "categories": [{"id": number, "name": name} for number, name in enumerate(self._categories, 1)],
            "images": self.images,
            "annotations": self._annotations,
        }
        file = self._folder / "annotations" / f"instances_{self._name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))


def _save(path: Path, pixels: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def _frames(
    env: RobotEnv, seed: int, cameras: Sequence[str], size: tuple[int, int], marker: bool
) -> Iterator[tuple[Frame, str, int, int]]:
    """Play episodes of the expert with noise on its actions; yield frames with camera, seed of the episode and step."""
    for number in itertools.count():
        (episode_seed,) = episode_seeds(seed, DEMONSTRATION, 1, number)
        rng = np.random.default_rng([DEMONSTRATION, 0, episode_seed])
        env.reset(seed=episode_seed)
        ended = False
        while not ended:
            if rng.random() < CAPTURED_SHARE:
                for camera in cameras:
                    yield env.capture(camera, *size, marker=marker), camera, episode_seed, env.elapsed_steps
            action = env.expert_action()
            if env.discrete is None:
                action = np.clip(action + rng.normal(0.0, NOISE, action.shape), -1.0, 1.0)
            *_, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated


def _positions(env: RobotEnv, frame: Frame, marker: bool) -> dict[int, FloatArray]:
    """Return the positions of the objects, and of the marker, by their index in the frame's labels."""
    goal = env.visible_goal if marker else None
    positions = [*env.world.state.object_position[0], *([] if goal is None else [goal])]
    return dict(enumerate(positions, len(frame.labels) - len(positions)))


def _checked_categories(
    categories: Sequence[str] | None, env: RobotEnv, cameras: Sequence[str], size: tuple[int, int], marker: bool
) -> list[str]:
    """Return the names of the bodies to annotate, in the order of the scene; refuse unknown cameras and categories."""
    labels: dict[str, None] = {}
    for camera in cameras:
        labels.update(dict.fromkeys(env.capture(camera, *size, marker=marker).labels))
    for category in categories or ():
        if category not in labels:
            raise ConfigError(bad_value("categories", category, list(labels)))
    return [label for label in labels if categories is None or label in categories]


def _check_splits(splits: Mapping[str, float]) -> None:
    """Refuse splits whose names are no names of folders, or whose shares are not 1 in all."""
    for name, share in splits.items():
        if not isinstance(name, str) or not name.isidentifier() or name in {"annotations", "depth"}:
            raise ConfigError(bad_value("splits", name, "letters, digits and _", "is no name of a split"))
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(bad_value(f"splits.{name}", share, "a share, 0 to 1"))
    if not math.isclose(sum(splits.values()), 1.0, abs_tol=1e-6):
        raise ConfigError(bad_value("splits", dict(splits), "shares whose sum is 1"))


def _neediest(splits: Mapping[str, float], counts: Mapping[str, int]) -> str:
    """Return the split that lacks most images, given the numbers of images so far."""
    total = sum(counts.values()) + 1
    return max(splits, key=lambda split: splits[split] * total - counts[split])


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


IMAGE_FOLDER = "a folder of `mygym dataset vision`"


def read_images(folder: Path, split: str, divisor: int) -> Recorded:
    """Read a split of a data set, whose images have a width and a height that `divisor` divides.

    Raises:
        ConfigError: The folder has no such split, a file is damaged, or no network takes the size of its images.
    """
    file = folder / "annotations" / f"instances_{split}.json"
    if not files.is_file(file):
        raise ConfigError(bad_value("data", str(folder), IMAGE_FOLDER, f"has no split {split}"))
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
        why = f"is damaged, or of an older version: {error_text(error)}"
        raise ConfigError(bad_value("data", str(folder), IMAGE_FOLDER, why)) from None
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
