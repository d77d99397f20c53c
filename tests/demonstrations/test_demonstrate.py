"""`mygym.demonstrate`, `mygym.replay` and their commands: the acting policy, kept episodes, refused input."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import imageio_ffmpeg
import numpy as np
import pytest

import mygym
from mygym.cli.main import main
from mygym.errors import ConfigError, RegistryError, RunError
from mygym.experts import ZeroPolicy
from mygym.registry import registry
from mygym.training import env_factory
from mygym.training.evaluation import DEMONSTRATION, episode_seeds
from mygym.training.video import PAUSE_FRAMES
from tests.components import small

HARD: dict[str, Any] = {"task": "push", "task_params": {"horizon": 25}, "control": "ee_delta"}
"""With much noise, about half of the episodes of this task fail."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demonstrating") / "push"
    mygym.demonstrate(HARD, out=path, episodes=3, noise=[0.1, 0.4], partial=0.7)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = {"algo": "ars", "algo_params": small("ars"), "steps": 200, "video": {"episodes": 0}, "tensorboard": False}
    values |= {"eval": {"episodes": 1, "final_episodes": 1}, "task_params": {"horizon": 10}}
    return mygym.train({**values, "logdir": str(tmp_path_factory.mktemp("runs"))}).path


def test_a_dataset_states_the_engine_of_its_episodes(tmp_path: Path) -> None:
    recorded = mygym.demonstrate({"task": "reach", "engine": "mujoco"}, out=tmp_path / "new", episodes=1)
    assert recorded.config.engine == "pybullet"
    mygym.replay(tmp_path / "new")


def test_failures_are_kept_only_on_request(tmp_path: Path) -> None:
    options: dict[str, Any] = {"episodes": 6, "noise": [0.0, 0.8]}
    every = mygym.demonstrate(HARD, out=tmp_path / "every", keep_failures=True, **options)
    good = mygym.demonstrate(HARD, out=tmp_path / "good", **options)
    assert every.about["attempts"] == 6 == len(every)
    assert 0 < sum(episode.success for episode in every.episodes) == every.about["solved"] < 6
    assert all(episode.success for episode in good.episodes)
    assert good.about["attempts"] > 6 == good.about["solved"] == len(good)
    assert [episode.noise for episode in every.episodes] == [0.0, 0.8] * 3
    assert sorted(episode.noise for episode in good.episodes) == [0.0] * 3 + [0.8] * 3  # fewer noisy episodes succeed


def test_seeds_belong_to_demonstrations_and_follow_from_the_seed_of_the_run(dataset: Path, tmp_path: Path) -> None:
    seeds = [episode.seed for episode in mygym.load_demonstrations(dataset).episodes]
    assert set(seeds) <= set(episode_seeds(0, DEMONSTRATION, 30))
    for purpose in range(DEMONSTRATION):
        assert not set(seeds) & set(episode_seeds(0, purpose, 1000))
    assert len({seed >> 30 for purpose in range(6) for seed in episode_seeds(0, purpose, 5)}) == 6
    other = mygym.demonstrate(HARD, out=tmp_path / "other", episodes=2, seed=1)
    assert not set(seeds) & {episode.seed for episode in other.episodes}
    assert other.about["seed"] == 1


def test_the_same_command_gives_the_same_episodes(dataset: Path, tmp_path: Path) -> None:
    again = mygym.demonstrate(HARD, out=tmp_path / "again", episodes=3, noise=[0.1, 0.4], partial=0.7)
    for episode, other in zip(again.episodes, mygym.load_demonstrations(dataset).episodes, strict=True):
        np.testing.assert_array_equal(episode.actions, other.actions)


def test_episodes_alternate_between_several_tasks(tmp_path: Path) -> None:
    many = {"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push", "poke"]}}
    recorded = mygym.demonstrate(many, out=tmp_path / "new", episodes=6, keep_failures=True)
    assert [episode.task for episode in recorded.episodes] == 2 * ["reach", "push", "poke"]
    assert [episode.differs_at for episode in mygym.replay(tmp_path / "new")] == [None] * 6


@pytest.mark.parametrize("policy", [name for name in registry("policy").names() if name != "oracle"])
def test_every_policy_can_be_recorded(policy: str, tmp_path: Path) -> None:
    values = {"task": "push", "task_params": {"horizon": 5}}
    recorded = mygym.demonstrate(values, out=tmp_path / "new", policy=policy, episodes=2, keep_failures=True)
    assert recorded.about["policy"] == policy
    assert [episode.differs_at for episode in mygym.replay(tmp_path / "new")] == [None, None]


@pytest.mark.parametrize("file", ["", "policy.safetensors", "model.zip"])
def test_a_policy_of_a_run_can_be_recorded(file: str, run: Path, tmp_path: Path) -> None:
    recorded = mygym.demonstrate(out=tmp_path / "new", policy=run / file, episodes=2, keep_failures=True)
    episode = recorded.episodes[0]
    assert isinstance(episode.observations, np.ndarray), "the algorithm accepts no dictionaries"
    policy = mygym.load(run)
    expected = np.array([policy.predict(observation)[0] for observation in episode.observations[:-1]])
    np.testing.assert_allclose(episode.actions, expected, atol=1e-6)
    assert recorded.config.algo == "ars"
    assert [episode.differs_at for episode in mygym.replay(tmp_path / "new")] == [None, None]


def test_a_config_besides_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a run, which has a config"):
        mygym.demonstrate({"task": "push"}, out=tmp_path / "new", policy=run)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_policy_with_actions_that_are_not_finite_is_refused(number: float, tmp_path: Path) -> None:
    class Broken(ZeroPolicy):
        def predict(self, *arguments: Any, **keywords: Any) -> Any:
            return np.full_like(self.actions, number), None

    registry("policy").register("broken", Broken)
    with pytest.raises(RunError, match="broken: cannot be recorded: action"):
        mygym.demonstrate(out=tmp_path / "new", policy="broken", episodes=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "values"),
    [
        ({"noise": -0.1}, r"noise: -0.1 is not allowed; allowed: a number, at least 0"),
        ({"noise": []}, "noise"),
        ({"noise": [0, "much"]}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"partial": 0}, "partial: 0 is not allowed; allowed: above 0, at most 1"),
        ({"partial": 1.1}, "partial: 1.1"),
        ({"episodes": 0}, "episodes: 0"),
        ({"policy": "oracel"}, "policy: 'oracel' .* did you mean 'oracle'"),
        ({"out": "/proc/nothing/new"}, "out: '/proc/nothing/new' cannot be written"),
    ],
    ids=str,
)
def test_invalid_input_is_refused(wrong: dict[str, Any], values: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, RegistryError), match=values):
        mygym.demonstrate(**{"out": tmp_path / "new", **wrong})
    assert list(tmp_path.iterdir()) == []


# Replays --------------------------------------------------------------------------------------------------------------


def test_a_video_of_one_or_all_episodes_from_any_camera(dataset: Path, tmp_path: Path) -> None:
    lengths = [len(episode) for episode in mygym.load_demonstrations(dataset).episodes]
    size = {"width": 32, "height": 16}
    videos = {}
    for camera in ("main", "top"):
        mygym.replay(dataset, episode=1, video=tmp_path / f"{camera}.mp4", camera=camera, **size)
        videos[camera] = (tmp_path / f"{camera}.mp4").read_bytes()
        assert imageio_ffmpeg.count_frames_and_secs(str(tmp_path / f"{camera}.mp4"))[0] == lengths[1] + 1 + PAUSE_FRAMES
    assert videos["main"] != videos["top"]
    mygym.replay(dataset, video=tmp_path / "new" / "all.mp4", **size)
    frames = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "new" / "all.mp4"))[0]
    assert frames == sum(lengths) + 3 * (1 + PAUSE_FRAMES)
    reader = imageio_ffmpeg.read_frames(str(tmp_path / "new" / "all.mp4"))
    assert next(reader)["size"] == (32, 16)
    reader.close()


def test_changed_observations_are_reported(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E.g. after a change of the simulator; here the config is changed to another object."""
    shutil.copytree(dataset, tmp_path / "changed")
    file = tmp_path / "changed" / "data" / "metadata.json"
    content = json.loads(file.read_text())
    content["mygym"]["config"]["task_params"]["object"] = "apple"
    file.write_text(json.dumps(content))
    assert any(episode.differs_at is not None for episode in mygym.replay(tmp_path / "changed"))
    video = tmp_path / "changed.mp4"
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(tmp_path / "changed"), "--video", str(video), "--width", "32", "--height", "32"])
    assert ended.value.code == 1
    assert video.is_file()
    printed = capsys.readouterr()
    assert "differ from the dataset: 0 from step 0" in printed.err
    assert f"video: {video}" in printed.out
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(tmp_path / "changed"), "--video", str(video)])
    assert ended.value.code == 2
    assert "exists already" in capsys.readouterr().err


def test_changed_labels_are_reported(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "changed")
    with h5py.File(tmp_path / "changed" / "data" / "main_data.hdf5", "r+") as file:
        file["episode_1"]["infos"]["expert_action"][2] *= 0.5
    assert [episode.differs_at for episode in mygym.replay(tmp_path / "changed")] == [None, 2, None]


@pytest.mark.parametrize(
    ("wrong", "values"),
    [
        ({"episode": 3}, "episode: 3 is not allowed; allowed: 0 to 2"),
        ({"episode": -1}, "episode: -1"),
        ({"camera": "tpo"}, "camera: 'tpo' .*did you mean 'top'"),
        ({"width": 33}, "video.width: 33"),
        ({"height": 0}, "video.height: 0"),
    ],
    ids=str,
)
def test_invalid_input_of_a_replay_is_refused(wrong: dict[str, Any], values: str, dataset: Path) -> None:
    with pytest.raises(ConfigError, match=values):
        mygym.replay(dataset, **wrong)


# Commands -------------------------------------------------------------------------------------------------------------


Outcome = tuple[int, str, str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs `mygym` with its arguments in an empty folder: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def perform(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(words)
        return int(ended.value.code or 0), *capsys.readouterr()

    return perform


def test_the_commands_demos_and_replay(command: Callable[..., Outcome]) -> None:
    flags = ["--robot", "kuka", "--episodes", "2", "--noise", "[0, 0.1]", "--partial", "0.5", "--seed", "3"]
    code, out, err = command("demos", "[approach, push]", *flags, "--set", "reward=dense", "--out", "new")
    assert (code, out) == (0, "dataset: new\n")
    assert err.startswith("2 episodes; 100.0% of 2 attempts solved; ")
    recorded = mygym.load_demonstrations("new")
    assert (recorded.config.robot, recorded.config.task, recorded.config.reward) == (
        "kuka",
        ["approach", "push"],
        "dense",
    )
    assert (recorded.about["noise"], recorded.about["partial"], recorded.about["seed"]) == ([0.0, 0.1], 0.5, 3)
    steps = sum(map(len, recorded.episodes))
    assert command("replay", "new") == (0, f"2 episodes, {steps} steps; 0 differ from the dataset\n", "")
    assert command("replay", "new", "--episode", "1")[1].startswith("1 episode, ")
    assert command("demos", "reach", "--out", "new")[::2] == (
        2,
        "error: out: 'new' exists already; allowed: a folder that does not exist yet\n",
    )


def test_the_command_for_a_file(command: Callable[..., Outcome]) -> None:
    """The config's seed decides the episodes, unless a flag sets another."""
    Path("reach.yaml").write_text("task: reach\nseed: 5\n")
    mygym.demonstrate({"task": "reach"}, out="known", episodes=1, seed=5)
    for more, seed in (((), 5), (("--seed", "6"), 6)):
        assert command("demos", "--config", "reach.yaml", *more, "--episodes", "1", "--out", f"by_{seed}")[0] == 0
    known, five, six = map(mygym.load_demonstrations, ("known", "by_5", "by_6"))
    assert known.episodes[0].seed == five.episodes[0].seed != six.episodes[0].seed
    assert (five.config.seed, five.about["seed"], six.config.seed, six.about["seed"]) == (5, 5, 6, 6)


def test_the_command_for_a_run(run: Path, command: Callable[..., Outcome]) -> None:
    words = ["demos", "--out", "new", "--policy", str(run), "--episodes", "1", "--keep-failures", "--seed", "4"]
    assert command(*words)[:2] == (0, "dataset: new\n")
    assert mygym.load_demonstrations("new").about["seed"] == 4
    for wrong, key in ((["reach"], "task"), (["--robot", "kuka"], "robot"), (["--set", "reward=dense"], "reward")):
        code, _, err = command(*words, *wrong)
        assert (code, err.startswith(f"error: demos: '{key}' cannot be combined with a run; allowed: --seed")) == (
            2,
            True,
        )


@pytest.mark.parametrize(
    "config", [{"task": "reach"}, {"task": "reach", "spaces": "shared"}, {"task": "AGM", "algo": "ars"}], ids=str
)
def test_the_dataset_has_the_spaces_of_the_config(config: dict[str, Any], tmp_path: Path) -> None:
    recorded = mygym.demonstrate(config, out=tmp_path / "new", episodes=1)
    with contextlib.closing(env_factory.make_env(recorded.config)) as env:
        assert (env.observation_space, env.action_space) == (recorded.observation_space, recorded.action_space)
