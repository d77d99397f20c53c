"""`mygym view`, and objects in `list`, `describe` and `check`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mygym
from mygym.cli.view import BOX_COLOR
from mygym.engines.rendering.thumbnails import GREY
from mygym.registry import registry
from tests.command import Command
from tests.conftest import ROOT

BOX = '<geometry><box size="0.04 0.06 0.02"/></geometry>'
URDF = (
    '<robot name="thing"><link name="thing"><inertial><mass value="0.05"/>'
    '<inertia ixx="1.7e-5" iyy="8e-6" izz="2.2e-5" ixy="0" ixz="0" iyz="0"/></inertial>'
    f"<visual>{BOX}</visual><collision>{BOX}</collision></link></robot>"
)


@pytest.fixture(autouse=True)
def _no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) > 20, "blank"
        return image.size


@pytest.mark.parametrize(
    "line",
    [
        "object mug",
        "workspace table --camera top --robot kuka",
        "robot kuka --workspace table",
        "object thing.urdf",
        "task push --robot kuka --camera top --set seed=3",
        "task AGM --set task_params.distractors=[can] --set randomize.colors=true",
    ],
)
def test_picture(line: str, mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "thing.urdf").write_text(URDF)
    outcome = mygym_command("view", *line.split(), "--image", "picture.png", "--width", "120", "--height", "90")
    assert (outcome.code, outcome.out, outcome.err) == (0, "image: picture.png\n", "")
    assert size_of(tmp_path / "picture.png") == (120, 90)
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png", "thing.urdf"}


@pytest.mark.parametrize("line", ["robot arm.urdf", "robot arm.urdf --explain", "workspace table --robot arm.urdf"])
def test_the_repairs_of_a_robot_are_printed(line: str, mygym_command: Command, tmp_path: Path) -> None:
    text = (ROOT / "envs" / "robots" / "desk_arm.urdf").read_text()
    (tmp_path / "arm.urdf").write_text(re.sub(r'velocity="[^"]*"', 'velocity="0"', text))
    outcome = mygym_command("view", *line.split(), "--image", "picture.png", "--width", "64", "--height", "48")
    assert outcome.code == 0
    assert "rad/s; the file has no limit (joints)" in outcome.err
    assert "`mygym new robot NAME --urdf arm.urdf` explains them" in outcome.err


def test_sheet_that_explains_a_robot(mygym_command: Command, tmp_path: Path) -> None:
    size = ["--width", "120", "--height", "90"]
    assert mygym_command("view", "robot", "kuka", "--explain", "--image", "picture.png", *size).code == 0
    assert size_of(tmp_path / "picture.png") == (2 * 120 + 3 * 8, 2 * 90 + 3 * 8)


def test_sheet_of_all_objects(mygym_command: Command, tmp_path: Path) -> None:
    for name in set(registry("object").names()) - {"mug", "cube", "crate", "duck"}:  # tests/docs draws the others
        registry("object").remove(name)
    assert mygym_command("view", "objects", "--image", "new/sheet.png", "--width", "500").code == 0
    width, height = size_of(tmp_path / "new" / "sheet.png")
    assert width == 500
    assert height > 150


def test_sheet_of_nine_episodes(mygym_command: Command, tmp_path: Path) -> None:
    def sheet(*line: str) -> list[bytes]:
        size = ["--width", "64", "--height", "48", "--image", "picture.png", "--force"]
        assert mygym_command("view", "task", "push", "--randomize", *line, *size).code == 0
        assert size_of(tmp_path / "picture.png") == (3 * 64 + 4 * 8, 3 * 48 + 4 * 8)
        with Image.open(tmp_path / "picture.png") as image:
            pixels = np.asarray(image)
        return [pixels[y : y + 48, x : x + 64].tobytes() for y in (8, 64, 120) for x in (8, 80, 152)]

    all_random, lights = sheet(), sheet("--set", "randomize.light=true")
    assert len(set(all_random)) == len(set(lights)) == 9
    assert not set(all_random) & set(lights)
    assert sheet() == all_random
    assert sheet("--set", "seed=3")[:6] == all_random[3:]


def test_sheet_of_a_camera_shows_what_a_policy_sees(mygym_command: Command, tmp_path: Path) -> None:
    small = ["--set", "image_params.width=48", "--set", "image_params.height=48", "--set", "seed=3"]
    line = ["view", "camera", "wrist", "--task", "pick_and_place", *small, "--image", "picture.png"]
    assert mygym_command(*line).code == 0
    size = 4 * 48  # pixels of an image, each of its pixels enlarged by 4
    assert size_of(tmp_path / "picture.png") == (4 * (size + 8) + 8, 4 * (size + 8) + 8)
    with Image.open(tmp_path / "picture.png") as image:
        cells = np.asarray(image)[8:, 8:].reshape(4, size + 8, 4, size + 8, 3)[:, :size, :, :size]
    colors, boxes, depth, bodies = cells.transpose(2, 0, 1, 3, 4)
    images = {"observations": ["image:wrist"], "image_params": {"width": 48, "height": 48}}
    with mygym.make_env({"task": "pick_and_place", **images}) as env:
        first = env.reset(seed=3)[0]["image:wrist"]
    np.testing.assert_array_equal(colors[0, ::4, ::4], first)
    assert len({row.tobytes() for row in colors}) == 4, "four moments"
    drawn = (boxes != colors).any(axis=-1)
    assert drawn.any()
    assert (boxes[drawn] == BOX_COLOR).all()
    assert (depth == depth[..., :1]).all(), "grey"
    assert (bodies == GREY).all(axis=-1).any(), "the fingers"


def test_sheets_of_a_camera_suit_the_parameters_of_images(mygym_command: Command, tmp_path: Path) -> None:
    """Several frames show the newest; without objects and a marker, and in shared spaces, there are no boxes."""

    def sheet(*settings: str) -> tuple[tuple[int, int], bytes]:
        size = ("image_params.width=48", "image_params.height=48", "task_params.horizon=8")
        line = [word for setting in (*size, *settings) for word in ("--set", setting)]
        outcome = mygym_command("view", "camera", "main", *line, "--image", "picture.png", "--force")
        assert outcome.code == 0, outcome.err
        return size_of(tmp_path / "picture.png"), (tmp_path / "picture.png").read_bytes()

    with_boxes = sheet()
    assert sheet("image_params.frames=2") == with_boxes
    height = with_boxes[0][1]
    for setting in ("image_params.goal=vector", "spaces=shared"):
        assert sheet(setting)[0] == (3 * (4 * 48 + 8) + 8, height)


def test_a_file_is_overwritten_only_with_force(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_text("user text")
    line = ["view", "object", "cube", "--image", "picture.png", "--width", "64"]
    refused = mygym_command(*line)
    assert (refused.code, "exists already" in refused.err, "--force" in refused.err) == (2, True, True)
    assert (tmp_path / "picture.png").read_text() == "user text"
    assert mygym_command(*line, "--force").code == 0
    assert size_of(tmp_path / "picture.png") == (64, 720)


MISTAKES = [
    ("view", ["KIND"]),
    ("view stage push --image picture.png", ["view", "'stage'", "workspace"]),
    ("view task pusch --image picture.png", ["'pusch'"]),
    ("view task push --set randomize.colours=true --image picture.png", ["randomize", "did you mean 'colors'"]),
    ("view task push --randomize --set randomize.light=2 --image picture.png", ["randomize.light", "2", "0 to 1"]),
    ("view camera nose --image picture.png", ["'image:nose'", "image:wrist"]),
    ("view camera main --set observations=[image] --image picture.png", ["--set observations", "is not for camera"]),
    ("view camera main --width 90 --image picture.png", ["--width", "is not for camera"]),
    ("view robot kuka --task push --image picture.png", ["--task", "is not for robot"]),
    ("view robot kuka --randomize --image picture.png", ["--randomize", "is not for robot"]),
    ("view object mug --explain --image picture.png", ["--explain", "is not for object"]),
    ("view workspace table --set seed=1 --image picture.png", ["--set", "is not for workspace"]),
    ("view object --image picture.png", ["NAME"]),
    ("view objects mug --image picture.png", ["no NAME"]),
    ("view object mugg --image picture.png", ["object", "'mugg'", "did you mean 'mug'"]),
    ("view object no.urdf --image picture.png", ["object", "'no.urdf'", "not a file"]),
    ("view object mug", ["--image", "display"]),
    ("view objects", ["--image", "display"]),
    ("view robot kuka", ["--image", "display"]),
    ("view object mug --image picture.jpg", ["--image", "'picture.jpg'", ".png"]),
    ("view object mug --image notes.txt/picture.png", ["--image", "notes.txt"]),
    ("view object mug --image picture.png --width 0", ["--width", "'0'", "16"]),
    ("view object mug --image picture.png --height tall", ["--height", "'tall'"]),
    ("view object mug --image picture.png --camera top", ["--camera", "'top'", "is not for object"]),
    ("view objects --image picture.png --height 100", ["--height", "is not for objects"]),
    ("view robot kuka --image picture.png --robot panda", ["--robot", "is not for robot"]),
    ("view robot kuka --image picture.png --camera topp", ["camera", "'topp'", "did you mean 'top'"]),
    ("view workspace tabel --image picture.png", ["workspace", "'tabel'", "did you mean 'table'"]),
    ("check object no.urdf", ["object", "'no.urdf'"]),
    ("new object cube", ["name", "'cube'", "is a registered object already"]),
    ("new object custom --urdf no.urdf", ["urdf", "no.urdf", "is not a file"]),
    ("train --task push --set task_params.object=no.urdf --dry-run", ["object", "'no.urdf'", "is not a file"]),
    ("train --task push --set task_params.object=bad.urdf --dry-run", ["bad.urdf", "mass: 0.0", "<inertial>"]),
    ("train --task push --set task_params.object=broken.urdf --dry-run", ["broken.urdf", "not a URDF file"]),
    ("evaluate --policy zero --task push --set task_params.object=hinge.urdf", ["hinge.urdf", "joint: 'lid'"]),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_an_error_is_one_message_and_no_file(
    line: str, words: list[str], mygym_command: Command, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("user text")
    (tmp_path / "bad.urdf").write_text(URDF.replace('"0.05"', '"0"'))
    (tmp_path / "broken.urdf").write_text("<robot>")
    joint = '<link name="b"/><joint name="lid" type="revolute"><parent link="thing"/><child link="b"/></joint></robot>'
    (tmp_path / "hinge.urdf").write_text(URDF.replace("</robot>", joint))
    before = {path.name for path in tmp_path.iterdir()}
    outcome = mygym_command(*line.split())
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    for word in words:
        assert word in outcome.err
    assert {path.name for path in tmp_path.iterdir()} == before


# list, describe, check ----------------------------------------------------------------------------------------------


def test_objects_are_listed_with_their_measures(mygym_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["name"]: row for row in json.loads(mygym_command("list", "object", "--json").out)}
    assert rows["cube"]["category"] == "geometric"
    assert rows["cube"]["size"] == [0.04, 0.04, 0.04]
    assert (rows["cube"]["mass"], rows["cube"]["friction"], rows["cube"]["grasp_width"]) == (0.046, 0.5, 0.04)
    assert rows["crate"]["grasp_width"] is None
    monkeypatch.setenv("COLUMNS", "300")
    table = mygym_command("list", "object").out
    assert re.search(r"cube +geometric +4\.0 x 4\.0 x 4\.0 cm +46 g +0\.5 +4\.0 cm +A wooden cube", table)


def test_the_list_has_the_error_of_an_invalid_object(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "envs" / "objects").mkdir(parents=True)
    (tmp_path / "envs" / "objects" / "custom.yaml").write_text(
        "# custom\nshape: box\nsize: [1]\nmass: 1\nfriction: 1\n"
    )
    rows = {row["name"]: row for row in json.loads(mygym_command("list", "object", "--json").out)}
    assert "3 numbers for a box" in rows["custom"]["help"]
    assert rows["cube"]["mass"] == 0.046


def test_listing_needs_neither_pybullet_nor_torch(python, tmp_path: Path) -> None:
    code = (
        "import sys, runpy; sys.argv = ['mygym', 'list', 'object']\n"
        "try: runpy.run_module('mygym', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print({'pybullet', 'torch'} & set(sys.modules))"
    )
    assert python("-c", code).stdout.splitlines()[-1] == "set()"


def test_a_urdf_is_described_checked_and_used(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "thing.urdf").write_text(URDF)
    description = json.loads(mygym_command("describe", "object", "thing.urdf", "--json").out)
    assert description["measured"]["size"] == "4.00 x 6.00 x 2.00 cm"
    assert description["measured"]["mass"] == "0.05 kg"
    checked = mygym_command("check", "object", "thing.urdf")
    assert (checked.code, "5 passed, 0 failed" in checked.out) == (0, True), checked.out
    explained = mygym_command("train", "--task", "push", "--set", "task_params.object=thing.urdf", "--explain")
    assert str(tmp_path / "thing.urdf") in explained.out, "absolute, so that the run can be loaded in another folder"
    push = ["--policy", "oracle", "--task", "push", "--set", "task_params.object=thing.urdf"]
    evaluated = mygym_command("evaluate", *push, "--episodes", "2", "--json")
    assert json.loads(evaluated.out)["success_rate"] == 1.0


def test_an_object_is_described_by_its_file(mygym_command: Command) -> None:
    description = json.loads(mygym_command("describe", "object", "mug", "--json").out)
    assert description["parts"][0]["shape"] == "cylinder"
    assert description["measured"]["pieces that collide"] == 20
    assert description["origin"] == "assets/objects/household/mug.yaml"
    assert set(registry("object").names()) >= {"mug", "hammer"}
