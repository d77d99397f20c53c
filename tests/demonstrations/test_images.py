"""Images with masks, boxes and depth in COCO's format, read back by pycocotools."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO

import mygym
from mygym.demonstrations import images
from mygym.demonstrations.images import run_lengths
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RunError

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools

CAMERAS = ("close", "wrist")
SIZE = {"width": 48, "height": 32}
CONFIG: dict[str, Any] = {"task": "stack", "image_params": SIZE}
COUNT = 40


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vision") / "stack"
    counts = mygym.record_images(CONFIG, out=path, images=COUNT, cameras=CAMERAS, splits={"train": 0.5, "val": 0.5})
    assert sum(counts.values()) == COUNT
    assert counts == {split: len(list((path / split).iterdir())) for split in ("train", "val")}
    return path


def opened(dataset: Path, split: str) -> COCO:
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(dataset / "annotations" / f"instances_{split}.json"))


def files_of(dataset: Path, split: str, image: dict[str, Any]) -> tuple[Any, Any]:
    return (
        np.asarray(Image.open(dataset / split / image["file_name"])),
        np.asarray(Image.open(dataset / image["depth_file_name"])),
    )


def test_images_depth_and_masks_are_those_of_a_new_rendering(dataset: Path) -> None:
    """The environment in `info` and the seed play the same episodes again."""
    info = opened(dataset, "train").dataset["info"]
    recorded = {
        (image["camera"], image["episode_seed"], image["step"]): (split, image, coco)
        for split in ("train", "val")
        for coco in [opened(dataset, split)]
        for image in coco.dataset["images"]
    }
    assert len(recorded) == COUNT
    with RobotEnv(**info["environment"]) as env:
        frames = images._frames(env, info["seed"], CAMERAS, (48, 32), marker=False)
        for frame, camera, seed, step in itertools.islice(frames, COUNT):
            split, image, coco = recorded[camera, seed, step]
            rgb, depth = files_of(dataset, split, image)
            np.testing.assert_array_equal(rgb, frame.rgb)
            distance = np.where(depth == 0, np.inf, depth / 1000)
            np.testing.assert_allclose(distance, frame.depth, atol=6e-4)
            marked = coco.loadAnns(coco.getAnnIds(image["id"]))
            names = [coco.cats[annotation["category_id"]]["name"] for annotation in marked]
            visible = [index for index in range(len(frame.labels)) if (frame.segmentation == index).any()]
            assert names == [frame.labels[index] for index in visible]
            for annotation, index in zip(marked, visible, strict=True):
                mask = coco.annToMask(annotation)
                np.testing.assert_array_equal(mask, frame.segmentation == index)
                encoded = coco_masks.encode(np.asfortranarray(mask))
                assert annotation["bbox"] == coco_masks.toBbox(encoded).tolist()
                assert annotation["area"] == coco_masks.area(encoded)


def test_an_episode_is_in_a_single_split(dataset: Path) -> None:
    seeds = [
        {image["episode_seed"] for image in opened(dataset, split).dataset["images"]} for split in ("train", "val")
    ]
    assert all(seeds)
    assert not seeds[0] & seeds[1]


def test_the_views_of_episodes_differ(dataset: Path) -> None:
    """Light, colours and textures: pictures of a camera at rest hardly change without them."""
    first: dict[int, Any] = {}
    for split in ("train", "val"):
        for image in opened(dataset, split).dataset["images"]:
            if image["camera"] == "close":
                first.setdefault(image["episode_seed"], files_of(dataset, split, image)[0].mean(axis=(0, 1)))
    assert len(first) > 2
    assert all(np.abs(a - b).max() > 5 for a, b in itertools.combinations(first.values(), 2))


def test_categories_and_randomizers_are_chosen(tmp_path: Path) -> None:
    config = {**CONFIG, "randomize": {"camera": 0.0}}
    mygym.record_images(config, out=tmp_path / "cubes", images=3, categories=["cube"], splits={"all": 1})
    coco = opened(tmp_path / "cubes", "all")
    assert [category["name"] for category in coco.dataset["categories"]] == ["cube"]
    assert coco.dataset["info"]["environment"]["randomize"] == {"camera": [0.0, 0.0]}
    assert len(coco.dataset["annotations"]) > 3, "each of the two cubes has an annotation"


@given(st.data())
def test_run_lengths_decode_to_the_mask(data: st.DataObject) -> None:
    mask = data.draw(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=7)))
    encoded = run_lengths(mask)
    assert all(count > 0 for count in encoded["counts"][1:])
    np.testing.assert_array_equal(coco_masks.decode(coco_masks.frPyObjects(encoded, *mask.shape)), mask)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"splits": {"train": 0.5, "val": 0.4}}, "splits"),
        ({"splits": {"../up": 1.0}}, "splits"),
        ({"splits": {"train": 2}}, "splits.train"),
        ({"splits": {}}, "splits"),
        ({"cameras": []}, "cameras"),
        ({"cameras": ()}, "cameras"),
    ],
    ids=str,
)
def test_splits_and_cameras_are_checked(tmp_path: Path, arguments: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: "):
        mygym.record_images({"task": "reach"}, out=tmp_path / "new", images=2, **arguments)
    assert not list(tmp_path.iterdir())


def test_nothing_remains_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = images._save

    def fails(path: Path, pixels: Any) -> None:
        if path.name == "000002.png":
            raise OSError(28, "No space left on device")
        saved(path, pixels)

    monkeypatch.setattr(images, "_save", fails)
    with pytest.raises(RunError, match="No space left on device"):
        mygym.record_images(CONFIG, out=tmp_path / "new", images=9, splits={"train": 1})
    assert not list(tmp_path.iterdir())


def test_the_command_prints_the_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mygym.cli.main import run

    with pytest.raises(SystemExit) as ended:
        run("dataset", ["vision", "reach", "--images", "4", "--splits", "{train: 1}", "--out", str(tmp_path / "new")])
    assert not ended.value.code
    assert capsys.readouterr().out.splitlines() == ["train 4", f"dataset: {tmp_path / 'new'}"]
    assert json.loads((tmp_path / "new/annotations/instances_train.json").read_text())["images"][3]["id"] == 4


@pytest.mark.parametrize("keep", [0, 100])
@pytest.mark.parametrize("name", ["annotations/instances_train.json", "train/*.png", "depth/train/*.png"])
def test_a_truncated_file_is_refused(name: str, keep: int, dataset: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(dataset, tmp_path / "copied")
    os.truncate(min(copied.glob(name)), keep)
    with pytest.raises(ConfigError, match=r"^data: '.*copied' is damaged, or of an older version: [^\n]+; allowed: a"):
        images.read_images(copied, "train", 8)
