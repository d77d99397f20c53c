"""An encoder of objects: their places in images, whatever the light and the colours are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import mygym
from mygym.cli.main import main
from mygym.demonstrations.images import read_images
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.vision.encoder import MIN_VISIBLE_PIXELS, ObjectEncoder, load_encoder, scaled
from mygym.vision.networks import UNET_DIVISOR
from mygym.vision.training import _distance, measure_object_encoder, pictures

SIZE = {"width": 32, "height": 24}
CAMERA = "wrist"
OBJECTS = ("cube", "goal")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("objects") / "push"
    config = {"task": "push", "image_params": SIZE}
    splits = {"train": 0.6, "val": 0.1, "test": 0.3}
    mygym.record_images(config, out=path, images=120, cameras=[CAMERA], splits=splits, marker=True)
    return path


@pytest.fixture(scope="module")
def trained(dataset: Path) -> tuple[Path, list[dict[str, Any]]]:
    """File of an encoder after a short training by the command, and the errors that it prints; a sheet is beside it."""
    path = dataset.parent / "push.safetensors"
    words = f"encoder train {dataset} --kind objects --steps 250 --image {path.with_name('sheet.png')} --out {path}"
    rows: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mygym.cli.vision.print_json", rows.extend)
        with pytest.raises(SystemExit) as exit:
            main([*words.split(), "--json"])
    assert exit.value.code == 0
    return path, rows


@pytest.mark.parametrize("component", ["rgbd", "image", "depth"])
def test_places_are_the_centroids_and_mean_depths_of_the_pixels(component: str) -> None:
    """With the right class of each pixel, the latents are those of the observation component `centroids`."""
    images = {"width": 40, "height": 32, "goal": "image"}
    names = ["centroids:close", "segmentation:close", "depth:close", f"{component}:close"]
    with RobotEnv("push", observations=list(dict.fromkeys(names)), image_params=images) as env:
        observation, _ = env.reset(seed=3)
        pixels = observation[names[3]].transpose(2, 0, 1)[None]
        classes = observation[names[1]][None, ..., 0]
        first = int(classes.max()) - 1  # the cube, then the marker of the goal
        encoder = ObjectEncoder(pixels.shape[1:], 2 + first, [first, first + 1])
        latents = encoder.positions(scaled(pixels), torch.from_numpy(classes.astype(np.int64)))[0].numpy()
        expected = observation["observation"].reshape(2, 3)
        np.testing.assert_allclose(latents[:, [0, 1, -1]], expected, atol=1e-6)
        assert latents[:, -1].tolist() == [1.0, 1.0]
        assert encoder.latents == latents.size == (6 if component == "image" else 8)
        if component != "image":
            depths = [observation[names[2]][classes[0] == first + number].mean() for number in range(2)]
            np.testing.assert_allclose(latents[:, 2], 2 * np.array(depths) / 255 - 1, atol=1e-6)


def test_an_object_of_too_few_pixels_is_not_visible() -> None:
    encoder = ObjectEncoder((3, 8, 8), 3, [1, 2])
    classes = torch.zeros(1, 8, 8, dtype=torch.int64)
    classes[0, 2, : MIN_VISIBLE_PIXELS - 1] = 1
    classes[0, 5, :MIN_VISIBLE_PIXELS] = 2
    latents = encoder.positions(torch.zeros(1, 3, 8, 8), classes)[0]
    assert latents[0].tolist() == [0.0] * 3
    assert latents[1, 2] == 1.0


@pytest.mark.slow
def test_a_short_training_finds_the_object_in_views_that_it_has_not_seen(
    dataset: Path, trained: tuple[Path, list[dict[str, Any]]]
) -> None:
    path, rows = trained
    cube = next(row for row in rows if row["name"] == "cube")
    assert (cube["camera"], cube["reconstruction"]) == (CAMERA, None)
    assert cube["images"] > 20
    assert cube["seen"] > 0.8
    assert cube["mean"] < 0.02
    assert cube["mean"] < cube["worst"]
    encoder = load_encoder(path, "encoder")
    assert (encoder.component, encoder.cameras, encoder.images.goal) == ("rgbd", (CAMERA,), "image")
    assert isinstance(encoder.network, ObjectEncoder)
    assert encoder.network.latents == 4 * len(OBJECTS)
    recorded = read_images(dataset, "test", UNET_DIVISOR)
    test = pictures(recorded.images, "rgbd")
    untrained = ObjectEncoder(encoder.network.shape, encoder.network.classes, encoder.network.objects).eval()
    columns = {name: recorded.categories.index(name) for name in OBJECTS}
    (before, *_), (after, *_) = (measure_object_encoder(each, test, columns) for each in (untrained, encoder.network))
    assert cube == asdict(after), "the file repeats the errors"
    assert before.mean is None or before.mean > 0.05
    with Image.open(path.with_name("sheet.png")) as sheet:
        assert len(sheet.crop((0, SIZE["height"] + 16, *sheet.size)).getcolors() or []) > 3, "bodies have colours"


def test_the_error_is_the_distance_between_points_in_the_frame(dataset: Path) -> None:
    test = pictures(read_images(dataset, "test", UNET_DIVISOR).images, "rgbd")
    rng, encoder, images = np.random.default_rng(0), ObjectEncoder((4, 24, 32), 3, [1, 2]), scaled(test.pixels)
    compared = 0
    for row, frame in enumerate(test.images.frames):
        masks = np.zeros((2, 24, 32), dtype=bool)
        for mask in masks:
            y, x = rng.integers(24), rng.integers(31)
            mask[y, x : x + 2] = True
        points, depths = frame.points(), frame.depth[masks.any(0)]
        near, far = test.images.depth_ranges[row]
        if not (near < depths.min() and depths.max() < far) or (masks[0] & masks[1]).any():
            continue
        classes = torch.from_numpy(masks[0] + 2 * masks[1].astype(np.int64))[None]
        first, second = encoder.positions(images[row : row + 1], classes)[0].numpy()
        expected = np.linalg.norm(points[masks[0]].mean(0) - points[masks[1]].mean(0))
        assert _distance(test, row, masks[0], first, second) == pytest.approx(expected, abs=0.01)
        compared += 1
    assert compared > 10


def test_data_without_objects_is_refused(tmp_path: Path) -> None:
    config = {"task": "reach", "image_params": {"width": 16, "height": 16}}
    mygym.record_images(config, out=tmp_path / "reach", images=12, cameras=["close"])
    with pytest.raises(ConfigError, match=r"data: .*shows no such object.*--marker"):
        mygym.train_encoder(tmp_path / "reach", out=tmp_path / "new.safetensors", kind="objects", steps=1)
