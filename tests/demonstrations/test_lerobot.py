"""Data sets in the format of LeRobotDataset v3.0, and the wrapper with LeRobot's names of observations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pyarrow import parquet

import mygym
from mygym.cli.main import main
from mygym.demonstrations import Demonstrations
from mygym.demonstrations.lerobot import QUANTILES
from mygym.errors import ConfigError
from mygym.wrappers import LeRobot

SIZE = {"width": 48, "height": 40}
CONFIG: dict[str, Any] = {
    "task": "push",
    "algo": "dagger",
    "observations": ["image:close", "image:wrist", "joint_position", "gripper_width"],
    "image_params": SIZE,
    "task_params": {"horizon": 12},
}
EPISODES = 3
CAMERAS = {"image:close": "observation.images.close", "image:wrist": "observation.images.wrist"}


def record(path: Path, **changes: Any) -> Demonstrations:
    options: dict[str, Any] = {"episodes": EPISODES, "noise": 0.3, "keep_failures": True, "seed": 4}
    return mygym.demonstrate(CONFIG | changes, out=path, **options, format="lerobot")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("lerobot") / "push").path


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Demonstrations:
    """Return the same episodes from a data set in Minari's format."""
    path = tmp_path_factory.mktemp("minari") / "push"
    return mygym.demonstrate(CONFIG, out=path, episodes=EPISODES, noise=0.3, keep_failures=True, seed=4)


def table(folder: Path, name: str) -> dict[str, Any]:
    return dict(parquet.read_table(folder / name).to_pydict())


def rows(folder: Path) -> dict[str, Any]:
    return {name: np.array(values) for name, values in table(folder, "data/chunk-000/file-000.parquet").items()}


def test_rows_are_the_steps_of_the_episodes(folder: Path, same: Demonstrations) -> None:
    values = rows(folder)
    lengths = [len(episode) for episode in same.episodes]
    np.testing.assert_array_equal(values["observation.state"], same.transitions().observations["observation"])
    np.testing.assert_array_equal(values["action"], same.transitions().actions)
    np.testing.assert_array_equal(values["next.reward"], same.transitions().rewards.astype(np.float32))
    np.testing.assert_array_equal(values["next.done"].nonzero()[0], np.cumsum(lengths) - 1)
    np.testing.assert_array_equal(values["index"], np.arange(sum(lengths)))
    np.testing.assert_array_equal(values["episode_index"], np.repeat(np.arange(EPISODES), lengths))
    np.testing.assert_array_equal(values["frame_index"], np.concatenate([np.arange(length) for length in lengths]))
    np.testing.assert_allclose(values["timestamp"], values["frame_index"] / 25, atol=1e-6)


def test_episodes_name_their_rows_and_the_times_of_their_videos(folder: Path, same: Demonstrations) -> None:
    episodes = table(folder, "meta/episodes/chunk-000/file-000.parquet")
    ends = np.cumsum([len(episode) for episode in same.episodes])
    assert episodes["dataset_to_index"] == ends.tolist()
    assert episodes["dataset_from_index"] == [0, *ends[:-1]]
    for camera in CAMERAS.values():
        np.testing.assert_allclose(episodes[f"videos/{camera}/to_timestamp"], ends / 25)
        np.testing.assert_allclose(episodes[f"videos/{camera}/from_timestamp"], np.array([0, *ends[:-1]]) / 25)


@pytest.mark.parametrize("key", CAMERAS)
def test_videos_show_the_images(folder: Path, same: Demonstrations, key: str) -> None:
    video = folder / f"videos/{CAMERAS[key]}/chunk-000/file-000.mp4"
    raw = ["-loglevel", "error", "-i", video, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), *raw], capture_output=True, check=True).stdout
    frames = np.frombuffer(decoded, dtype=np.uint8).reshape(-1, 40, 48, 3).astype(float)
    count, seconds = imageio_ffmpeg.count_frames_and_secs(video)
    assert (count, count / seconds) == (len(frames), 25)
    observations = same.transitions().observations
    assert isinstance(observations, dict)
    assert len(frames) == len(observations[key])
    errors = [[np.abs(frame - image).mean() for image in observations[key].astype(float)] for frame in frames]
    assert np.diagonal(errors).max() < 8
    assert np.median(errors) > 2 * np.median(np.diagonal(errors)), "frames are in order"


def test_information_describes_the_features(folder: Path, same: Demonstrations) -> None:
    info = json.loads((folder / "meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["robot_type"]) == ("v3.0", 25, "panda")
    assert (info["total_episodes"], info["total_frames"]) == (EPISODES, len(same.transitions().actions))
    features = info["features"]
    assert set(features) == {*rows(folder), *CAMERAS.values()}
    assert features["observation.images.wrist"]["shape"] == [40, 48, 3]
    assert features["observation.state"]["names"] == [f"joint_position.{n}" for n in range(7)] + ["gripper_width.0"]
    for name, values in rows(folder).items():
        assert features[name]["shape"] == (list(values.shape[1:]) or [1])
    assert (folder / info["data_path"].format(chunk_index=0, file_index=0)).is_file()
    for camera in CAMERAS.values():
        assert (folder / info["video_path"].format(video_key=camera, chunk_index=0, file_index=0)).is_file()
    tasks = parquet.read_table(folder / "meta/tasks.parquet")
    assert tasks.to_pydict() == {
        "task_index": [0],
        "__index_level_0__": ["approach the cube, push it to the goal"],
    }
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["__index_level_0__"]


def test_statistics_are_those_of_the_rows(folder: Path) -> None:
    statistics = json.loads((folder / "meta/stats.json").read_text())
    for name, values in rows(folder).items():
        numbers = values.reshape(len(values), -1).astype(float)
        for key, expected in {"min": numbers.min(0), "max": numbers.max(0), "mean": numbers.mean(0)}.items():
            np.testing.assert_allclose(statistics[name][key], expected, rtol=1e-6)
        np.testing.assert_allclose(statistics[name]["std"], numbers.std(0), atol=1e-6)
        np.testing.assert_allclose(statistics[name]["q90"], np.quantile(numbers, QUANTILES["q90"], axis=0), rtol=1e-6)
        assert statistics[name]["count"] == [len(values)]
    assert np.shape(statistics["observation.images.wrist"]["mean"]) == (3, 1, 1)
    assert 0 < np.min(statistics["observation.images.wrist"]["mean"]) < 1


def test_the_wrapper_observes_what_the_data_set_holds(folder: Path, same: Demonstrations) -> None:
    """A policy that was trained on the data set sees the same numbers and pictures."""
    episode, values = same.episodes[1], rows(folder)
    is_second = values["episode_index"] == 1
    with mygym.make_env(CONFIG) as robot_env:
        env = LeRobot(robot_env)
        assert env.task_description == "approach the cube, push it to the goal"
        observation, _ = env.reset(seed=episode.seed)
        for step, (state, action) in enumerate(
            zip(values["observation.state"][is_second], episode.actions, strict=True)
        ):
            assert env.observation_space.contains(observation)
            np.testing.assert_array_equal(observation["agent_pos"], state)
            for camera in ("close", "wrist"):
                assert isinstance(episode.observations, dict)
                np.testing.assert_array_equal(
                    observation["pixels"][camera], episode.observations[f"image:{camera}"][step]
                )
            observation, *_ = env.step(action)


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version:UserWarning")
@pytest.mark.parametrize("goal", ["image", "vector"])
def test_the_wrapper_is_an_environment_with_goals_as_state_of_the_environment(goal: str) -> None:
    config = CONFIG | {"algo": "sac", "image_params": {**SIZE, "goal": goal}, "critic_observations": ["joint_position"]}
    with mygym.make_env(config) as robot_env:
        env = LeRobot(robot_env)
        check_env(env, skip_render_check=True)
        of_goal = {"environment_state"} if goal == "vector" else set()
        assert set(env.observation_space.spaces) == {"pixels", "agent_pos", *of_goal}


def test_the_wrapper_refuses_other_environments() -> None:
    with gymnasium.make("CartPole-v1") as env, pytest.raises(ConfigError, match="env: 'CartPoleEnv'"):
        LeRobot(env)


def test_numbers_alone_are_a_data_set_without_videos(tmp_path: Path) -> None:
    path = record(tmp_path / "reach", task="reach", algo="sac", observations=None, task_params={}).path
    info = json.loads((path / "meta/info.json").read_text())
    assert info["video_path"] is None
    assert not (path / "videos").exists()
    assert rows(path)["observation.environment_state"].shape[1:] == (3,)


@pytest.mark.parametrize(
    ("changes", "key", "allowed"),
    [
        ({"control": {"action_repeat": 2}}, "control.action_repeat", "a divisor of 25"),
        ({"image_params": {"width": 47, "height": 40}}, "image_params.width", "an even number"),
        ({"observations": ["segmentation", "joint_position"]}, "observations", "image:CAMERA"),
        ({"algo": "dqn", "observations": None, "actions": {"discrete": 3}}, "noise", "continuous"),
        (
            {"strategy": "multitask", "task": "reach", "strategy_params": {"tasks": ["reach", "push"]}},
            "format",
            "single",
        ),
    ],
)
def test_what_the_format_cannot_hold_is_refused(
    tmp_path: Path, changes: dict[str, Any], key: str, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: .*{allowed}"):
        record(tmp_path / "new", **changes)
    assert not list(tmp_path.iterdir())


def test_a_reader_of_demonstrations_names_the_format_to_write(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=rf"dataset: '{folder}' is a LeRobotDataset.*allowed: .*--format minari"):
        mygym.load_demonstrations(folder)
    strategy = {"strategy": "demos", "strategy_params": {"dataset": str(folder)}}
    with pytest.raises(ConfigError, match=r"strategy_params.dataset: .*LeRobotDataset.*--format minari"):
        mygym.train({"algo": "sac", "task": "push", **strategy})
    with pytest.raises(SystemExit) as end:
        main(["replay", str(folder)])
    assert end.value.code == 2
    assert "--format minari" in capsys.readouterr().err


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"format: 'lerobt' .*did you mean 'lerobot'"):
        mygym.demonstrate({"task": "reach"}, out=tmp_path / "new", format="lerobt")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the library
def test_the_library_reads_the_data_set(folder: Path, same: Demonstrations) -> None:
    """Needs `pip install lerobot`, which is too large for the extra `dev`."""
    datasets = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    dataset = datasets.LeRobotDataset("local/push", root=folder, video_backend="pyav")
    transitions = same.transitions()
    assert (dataset.num_episodes, len(dataset)) == (EPISODES, len(transitions.actions))
    assert isinstance(transitions.observations, dict)
    for index in range(len(dataset)):
        item = dataset[index]
        np.testing.assert_array_equal(item["action"], transitions.actions[index])
        np.testing.assert_array_equal(item["observation.state"], transitions.observations["observation"][index])
        assert item["task"] == "approach the cube, push it to the goal"
        for key, camera in CAMERAS.items():
            image = 255 * item[camera].numpy().transpose(1, 2, 0)
            assert np.abs(image - transitions.observations[key][index]).mean() < 8
