"""A detector finds objects in images, and environments observe the positions that it finds."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import mygym
from mygym.cli.main import main
from mygym.demonstrations.images import mask_of, run_lengths
from mygym.demonstrations.networks import _read
from mygym.envs.camera_views import as_detected, last_seen
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.tasks.observations import Frame
from mygym.training.policy import Policy
from mygym.vision.detector import Detection, Detector, DetectorNetwork, load_detector
from mygym.vision.training import measure
from tests.vision.conftest import Refuses

TASK = "pick_and_place"
CAMERAS = ("close", "wrist")
SIZE = {"width": 32, "height": 24}
CATEGORIES = ("robot", "table", "leg_1", "leg_2", "leg_3", "leg_4", "cube")
OBSERVATIONS = ["ee_position", "ee_velocity", "command_offset", "gripper_width", "object_position", "object_from_ee"]


def new_detector(**values: Any) -> Detector:
    """A detector that has learned nothing."""
    return Detector(
        **{
            "network": DetectorNetwork(1 + len(CATEGORIES)).eval(),
            "categories": CATEGORIES,
            "objects": ("cube",),
            "cameras": CAMERAS,
            **SIZE,
            **values,
        }
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("detector") / "pick"
    config = {"task": TASK, "image_params": SIZE}
    mygym.record_images(config, out=path, images=200, cameras=CAMERAS, splits={"train": 0.7, "val": 0.1, "test": 0.2})
    return path


@pytest.fixture(scope="module")
def file(dataset: Path) -> Path:
    """A detector after a short training."""
    path = dataset.parent / "cube.safetensors"
    lines: list[str] = []
    mygym.train_detector(dataset, out=path, steps=300, report=lines.append)  # 200: some seeds see no cube
    assert len(lines) == 20
    return path


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("detectors") / "untrained.safetensors"
    path.write_bytes(new_detector().to_bytes())
    return path


@pytest.fixture
def perfect(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Detector.detect` sees the segmentation of the simulator, and objects 1 cm beside their visible points."""

    def detect(detector: Detector, frame: Frame) -> Detection:
        names = ["", *detector.categories]
        classes = np.array([0, *[names.index(label) for label in frame.labels]])[frame.segmentation + 1]
        cube = frame.segmentation == frame.labels.index("cube")
        if not cube.any():
            return Detection(classes, {}, {})
        position = frame.points()[cube].mean(0) + np.array([0.01, 0.0, 0.0])
        return Detection(classes, {"cube": position}, {"cube": int(cube.sum())})

    monkeypatch.setattr(Detector, "detect", detect)


# geometry -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("camera", ["main", *CAMERAS])
@pytest.mark.parametrize("size", [(96, 96), (64, 48)], ids=str)
def test_points_of_a_frame_are_on_the_objects_that_its_pixels_show(camera: str, size: tuple[int, int]) -> None:
    with RobotEnv(TASK, randomize={"camera": 0.1}) as env:
        for seed in range(5):
            env.reset(seed=seed)
            frame = env.capture(camera, *size)
            points, cube = frame.points(), frame.segmentation == frame.labels.index("cube")
            table = frame.segmentation == frame.labels.index("table")
            assert np.isnan(points[frame.segmentation < 0]).all()
            assert cube.any()
            offsets = points[cube] - env.world.state.object_position[0, 0]
            assert np.abs(offsets).max() < 0.02 + 1e-3, "a point is outside the cube of 4 cm"
            assert np.median(np.abs(points[table][:, 2])) < 1e-4, "the table top is at height 0"


@given(st.data())
def test_masks_are_decoded(data: st.DataObject) -> None:
    mask = data.draw(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=7)))
    np.testing.assert_array_equal(mask_of(run_lengths(mask)), mask)


# training -------------------------------------------------------------------------------------------------------------


def test_a_short_training_finds_the_object_in_views_that_it_has_not_seen(dataset: Path, file: Path) -> None:
    test = _read(dataset, "test")
    before = measure(new_detector(categories=test.categories), test.images)
    after = {row.camera: row for row in measure(load_detector(file, "detector"), test.images)}
    assert all(row.seen < 0.3 for row in before)
    assert set(after) == set(CAMERAS)
    assert after["wrist"].seen > 0.7
    assert after["wrist"].mean is not None
    assert after["wrist"].mean < 0.05  # m; less than 0.02 on some processors, 0.03 on others
    assert after["wrist"].overlap is not None
    assert after["wrist"].overlap > 0.5
    assert sum(row.images for row in after.values()) > 20


def test_positions_of_the_data_set_are_in_the_objects_masks(dataset: Path) -> None:
    recorded = _read(dataset, "train")
    number = recorded.categories.index("cube")
    seen = 0
    for row, frame in enumerate(recorded.images.frames):
        mask = recorded.images.classes[row] == 1 + number
        position = recorded.images.positions[row, number]
        assert mask.any() == np.isfinite(position).all()
        if mask.any():
            assert np.abs(frame.points()[mask] - position).max() < 0.05
            seen += 1
    assert seen > 50


def test_the_file_repeats_the_detections(dataset: Path, file: Path) -> None:
    detector = load_detector(file, "detector")
    detector.network.eval()
    again = dataset.parent / "again.safetensors"
    again.write_bytes(detector.to_bytes())
    frame = _read(dataset, "test").images.frames[0]
    first, second = detector.detect(frame), load_detector(again, "detector").detect(frame)
    np.testing.assert_array_equal(first.classes, second.classes)
    assert first.pixels == second.pixels
    assert {name: value.tolist() for name, value in first.positions.items()} == {
        name: value.tolist() for name, value in second.positions.items()
    }


def test_the_command_measures_a_detector(dataset: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["detector", "test", str(dataset), "--detector", str(file), "--json"])
    assert exit.value.code == 0
    rows = json.loads(capsys.readouterr().out)
    errors = mygym.measure_detector(file, dataset)
    assert [(row["camera"], row["name"], row["mean"]) for row in rows] == [(e.camera, e.name, e.mean) for e in errors]


# environments ---------------------------------------------------------------------------------------------------------


def part(env: RobotEnv, observation: Any, component: str) -> Any:
    """The numbers of a component in an observation."""
    return observation["observation"][env.components[component]]


def make(file: Path, **arguments: Any) -> RobotEnv:
    return RobotEnv(TASK, **{"image_params": {"detector": str(file)}, **arguments})


@pytest.mark.usefixtures("perfect")
def test_observations_have_the_detected_positions_and_success_the_true_ones(untrained: Path) -> None:
    """The expert acts on the state of the simulator, and reward and success are those of the simulator."""
    with make(untrained) as env, RobotEnv(TASK, observations=OBSERVATIONS) as plain:
        assert env.observation_spec.components == tuple(OBSERVATIONS)
        assert env.observation_space == plain.observation_space
        observation, _ = env.reset(seed=3)
        expected, _ = plain.reset(seed=3)
        ended = False
        while not ended:
            true = env.world.state.object_position[0, 0]
            detected, offset = (part(env, observation, name) for name in ("object_position", "object_from_ee"))
            assert isinstance(observation, dict)
            np.testing.assert_allclose(observation["achieved_goal"], detected, atol=1e-6)
            np.testing.assert_allclose(offset, detected - env.world.state.ee_position[0], atol=1e-5)
            assert 0.002 < np.linalg.norm(detected - true) < 0.06
            for name in ("ee_position", "ee_velocity", "command_offset", "gripper_width"):
                np.testing.assert_array_equal(part(env, observation, name), part(plain, expected, name))
            action = env.expert_action()
            observation, reward, terminated, truncated, info = env.step(action)
            expected, *outcome, plain_info = plain.step(action)
            assert (reward, terminated, truncated) == tuple(outcome)
            ended = terminated or truncated
        assert info["is_success"]
        assert plain_info["is_success"]


def test_nothing_but_positions_of_objects_is_known() -> None:
    """Goals and components may use orientations, velocities and contacts, which a detector does not give."""
    with RobotEnv(TASK, task_params={"rotation": [1.0, 1.0]}) as env:
        env.reset(seed=0)
        true = env._episodes.context
        detected = as_detected(true, ["cube"], {"cube": np.array([0.1, 0.2, 0.3])}).state
        assert abs(true.state.object_orientation[0, 0, 2]) > 0.1
        assert detected.object_position.tolist() == [[[0.1, 0.2, 0.3]]]
        assert detected.object_orientation.tolist() == [[[0.0, 0.0, 0.0, 1.0]]]
        assert not detected.object_velocity.any()
        assert not detected.object_angular_velocity.any()
        assert not detected.object_depth.any()


@pytest.mark.usefixtures("perfect")
def test_an_unseen_object_stays_where_it_was_last_seen(untrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(untrained) as env:
        first, _ = env.reset(seed=0)
        snapshot = env.snapshot()
        for _ in range(20):
            moved, *_ = env.step(env.expert_action())
        assert np.abs(part(env, moved, "object_position") - part(env, first, "object_position")).max() > 0.01
        seen = Detector.detect
        blind = lambda detector, frame: replace(seen(detector, frame), positions={}, pixels={})  # noqa: E731
        monkeypatch.setattr(Detector, "detect", blind)
        hidden, *_ = env.step(np.zeros(4))
        np.testing.assert_array_equal(part(env, hidden, "object_position"), part(env, moved, "object_position"))
        later = env.restore(snapshot)
        np.testing.assert_array_equal(part(env, later, "object_position"), part(env, first, "object_position"))
        other, _ = env.reset(seed=1)
        assert not part(env, other, "object_position").any(), "the position of the last episode remains"


def test_the_estimates_of_cameras_count_by_their_pixels() -> None:
    near = Detection(np.zeros((1, 1), dtype=np.int64), {"cube": np.array([1.0, 0.0, 0.0])}, {"cube": 30})
    far = Detection(np.zeros((1, 1), dtype=np.int64), {"cube": np.array([0.0, 0.0, 0.0])}, {"cube": 10})
    assert last_seen({}, [near, far])["cube"].tolist() == [0.75, 0.0, 0.0]


@pytest.mark.usefixtures("perfect")
def test_copies_snapshots_and_states_continue_the_episode(untrained: Path) -> None:
    with make(untrained) as env:
        env.reset(seed=0)
        actions = [env.action_space.sample() for _ in range(6)]
        for action in actions[:3]:
            env.step(action)
        snapshot = env.snapshot()
        state = copy.deepcopy(env.state_dict())
        with copy.deepcopy(env) as other:
            expected = [part(env, env.step(action)[0], "object_position") for action in actions[3:]]
            copied = [part(other, other.step(action)[0], "object_position") for action in actions[3:]]
        np.testing.assert_array_equal(copied, expected)
        env.restore(snapshot)
        restored = [part(env, env.step(action)[0], "object_position") for action in actions[3:]]
        np.testing.assert_allclose(restored, expected, atol=2e-2)
        env.load_state_dict(state)
        replayed = [part(env, env.step(action)[0], "object_position") for action in actions[3:]]
        np.testing.assert_array_equal(replayed, expected)


@pytest.mark.usefixtures("perfect")
@pytest.mark.parametrize("scale", [1, 2], ids=["same size", "twice the size"])
def test_camera_components_get_the_segmentation_of_the_detector(untrained: Path, scale: int) -> None:
    """With the segmentation of the simulator as its output, they are those of the simulator."""
    size = {key: scale * pixels for key, pixels in SIZE.items()}
    observations = ["segmentation:wrist", "centroids:wrist", "boxes:close"]
    images = {"goal": "vector", **size}
    with (
        make(untrained, observations=observations, image_params={**images, "detector": str(untrained)}) as env,
        RobotEnv(TASK, observations=observations, image_params=images) as plain,
    ):
        detected, _ = env.reset(seed=0)
        true, _ = plain.reset(seed=0)
        tolerance = 0.0 if scale == 1 else 0.08
        assert isinstance(detected, dict)
        assert isinstance(true, dict)
        np.testing.assert_allclose(detected["observation"], true["observation"], atol=tolerance)
        same = detected["segmentation:wrist"] == true["segmentation:wrist"]
        assert same.mean() > (0.999 if scale == 1 else 0.9)


@pytest.mark.usefixtures("perfect")
def test_a_policy_is_judged_on_detections(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "task": TASK,
        "algo": "dagger",
        "observations": OBSERVATIONS,
        "steps": 16,
        "n_envs": 2,
        "logdir": tmp_path,
    }
    config |= {"eval": {"episodes": 1}, "video": {"episodes": 0}, "task_params": {"horizon": 8}}
    run = mygym.train({key: str(value) if isinstance(value, Path) else value for key, value in config.items()}).path
    positions: list[np.ndarray[Any, Any]] = []

    def predict(policy: Policy, observations: Any, *_: Any, **__: Any) -> Any:
        positions.extend(observations["observation"][:, 10:13])
        return np.zeros((len(observations["observation"]), 4), dtype=np.float32), None

    monkeypatch.setattr(Policy, "predict_rows", predict)
    with pytest.raises(SystemExit) as exit:
        main(["evaluate", str(run), "--detector", str(untrained), "--episodes", "1", "--json"])
    assert exit.value.code == 0
    assert json.loads(capsys.readouterr().out)["episodes"][0]["success"] is False
    with RobotEnv(TASK, observations=OBSERVATIONS) as plain:
        heights = {part(plain, plain.reset(seed=seed)[0], "object_position")[2] for seed in range(3)}
    assert all(abs(positions[0][2] - height) > 1e-4 for height in heights), "the true position is on the table"


def test_a_critic_observes_the_true_positions(untrained: Path) -> None:
    with make(untrained, critic_observations=["object_position"]) as env:
        observation, _ = env.reset(seed=0)
        assert isinstance(observation, dict)
        position = env.world.state.object_position[0, 0]
        np.testing.assert_allclose(observation["critic"], position, atol=1e-6)
        assert np.abs(part(env, observation, "object_position") - position).max() > 1e-3


# bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "push", "task_params": {"distractors": ["cube"]}}, ["image_params.detector", "same name"]),
        ({"task": "reach"}, ["image_params.detector", "the task has none"]),
        ({"task": "slide"}, ["image_params.detector", "knows cube, and not curling_stone"]),
        ({"robot": "kuka_gripper"}, ["image_params.detector", "needs the camera wrist"]),
        ({"observations": ["object_velocity"]}, ["observations", "'object_velocity'", "image_params.detector"]),
        ({"observations": ["stage", "object_position"]}, ["observations", "'stage'"]),
        ({"observations": ["image"], "images": {}}, ["'image'", "goal: vector"]),
        (
            {"observations": ["boxes"], "images": {"goal": "vector"}},
            ["observations: 'boxes'", "camera unknown to the detector", "boxes:close"],
        ),
        (
            {"observations": ["boxes:close"], "images": {"height": 32, "goal": "vector"}},
            ["image_params", "32 x 32", "32 x 24"],
        ),
        ({"task": "AGMDW"}, ["image_params.detector", "a part of the task's goal vectors"]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_a_detector_cannot_give_is_refused(untrained: Path, arguments: dict[str, Any], words: list[str]) -> None:
    values = dict(arguments)
    images = {**SIZE, "detector": str(untrained), **values.pop("images", {})}
    with pytest.raises(ConfigError) as error:
        RobotEnv(**{"task": TASK, **values, "image_params": images})
    assert all(word in str(error.value) for word in words), error.value


def test_files_that_are_no_detectors_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save

    (tmp_path / "text.safetensors").write_text("no tensors")
    (tmp_path / "other.safetensors").write_bytes(save({"weight": np.zeros(3)}))
    damaged = bytearray(new_detector().to_bytes())
    (tmp_path / "damaged.safetensors").write_bytes(bytes(damaged[: len(damaged) // 2]))
    for name, why in (
        ("text", "is damaged"),
        ("other", "does not contain a detector"),
        ("damaged", "is damaged"),
        ("missing", "does not exist"),
    ):
        with pytest.raises(ConfigError, match=rf"detector: .*{why}.*mygym detector train"):
            load_detector(tmp_path / f"{name}.safetensors", "detector")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("detector draw DATA", ["'draw'", "train, test"]),
        ("detector train DATA", ["--out FILE"]),
        ("detector test DATA", ["--detector FILE"]),
        ("detector train DATA --out cube.pt", ["out", "'cube.pt'", "NAME.safetensors"]),
        ("detector train DATA --out new.safetensors --steps 0", ["--steps", "at least 1"]),
        ("detector train nothing --out new.safetensors", ["data", "'nothing'", "mygym dataset vision"]),
        ("detector test DATA --detector FILE --split night", ["has no split night"]),
        ("detector train DATA --out FILE", ["out", "exists already"]),
        ("evaluate --policy oracle --task pick_and_place --detector nothing", ["image_params.detector", "'nothing'"]),
    ],
)
def test_bad_input_of_the_command(
    command: str, words: list[str], dataset: Path, untrained: Path, refuses: Refuses
) -> None:
    refuses(command, words, {"DATA": dataset, "FILE": untrained})


def test_data_sets_that_confuse_objects_or_sizes_are_refused(tmp_path: Path) -> None:
    small = {"width": 12, "height": 12}
    for task, size, words in (
        ("stack", SIZE, "several objects"),
        (TASK, small, "12 x 12"),
        ("reach", SIZE, "no object"),
    ):
        folder = tmp_path / f"{task}_{size['width']}"
        shares = {"train": 0.4, "val": 0.3, "test": 0.3}
        mygym.record_images(
            {"task": task, "image_params": size}, out=folder, images=12, cameras=["close"], splits=shares
        )
        with pytest.raises(ConfigError, match=words):
            mygym.train_detector(folder, out=tmp_path / "new.safetensors", steps=1)
    assert not (tmp_path / "new.safetensors").exists()
