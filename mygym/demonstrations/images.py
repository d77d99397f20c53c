"""`record_images`: record images of randomized episodes, with masks, boxes and depth, as a COCO data set."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mygym.config import RunConfig
from mygym.demonstrations.coco import body_annotations, millimetres
from mygym.demonstrations.collection import progress_bar
from mygym.demonstrations.folders import new_folder, writing
from mygym.envs.arguments import checked_count, checked_seed
from mygym.envs.randomizers import ranges
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value
from mygym.runs import files
from mygym.runs.evaluation import DEMONSTRATION, episode_seeds
from mygym.runs.loading import find_plan
from mygym.runs.planning.engines import env_arguments
from mygym.runs.planning.plan import Config
from mygym.runs.result import versions
from mygym.runs.stop_request import StopRequest
from mygym.tasks.camera_view import Frame
from mygym.tasks.observations import MAIN_CAMERA
from mygym.types import FloatArray

SPLITS = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Split → share of the images."""

RANDOMIZE = ("light", "colors", "textures", "camera")
"""Randomizers of a config that names none."""

CAPTURED_SHARE = 0.1
"""Share of the control steps of which images are recorded: neighbours look alike."""

NOISE = 0.3
"""Standard deviation of the noise on the expert's actions, so that the states vary."""


def record_images(
    config: Config | None = None,
    *,
    out: str | Path,
    images: int = 1000,
    cameras: Sequence[str] = (MAIN_CAMERA,),
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
        cameras: Cameras of the workspace or the robot.
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
    files.check_new(path, "out", "a folder")
    arguments = _env_arguments(find_plan(config or {}).config)
    size = arguments["image_params"]["width"], arguments["image_params"]["height"]
    with contextlib.ExitStack() as stack:
        env = stack.enter_context(contextlib.closing(RobotEnv(**arguments)))
        names = _checked_categories(categories, env, cameras, size, marker)
        bar = stack.enter_context(progress_bar(images, "image"))
        stop = stack.enter_context(StopRequest("after this image"))
        folder = stack.enter_context(new_folder(path))
        info = {"environment": arguments, "seed": seed, "marker": marker, "versions": dict(versions())}
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


def _env_arguments(config: RunConfig) -> dict[str, Any]:
    """Return the arguments of an environment that starts at the beginning of the task, and observes no images."""
    starts = {"task_params": {**config.task_params.model_dump(exclude_none=True), "starts": {}}}
    randomize = {} if ranges(config.randomize) else {"randomize": dict.fromkeys(RANDOMIZE, True)}
    return {**env_arguments(config), **starts, **randomize, "observations": None, "spaces": "own"}


class _Split:
    """Images of a split and their annotations."""

    def __init__(self, folder: Path, name: str, categories: Sequence[str], info: Mapping[str, Any]) -> None:
        self._folder, self._name, self._categories, self._info = folder, name, categories, info
        self.images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []

    def add(self, frame: Frame, positions: Mapping[int, FloatArray], origin: Mapping[str, Any]) -> None:
        """Write the image and the depth of a frame, and annotate it.

        Args:
            frame: The frame.
            positions: See `body_annotations`.
            origin: Further keys of the image's entry.
        """
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
    """Return the names of the bodies to annotate, in the order of the scene.

    Raises:
        ConfigError: Unknown camera or category.
    """
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
