"""`mygym evaluate`: success rates, failures and videos of runs and policies."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

import mygym
from mygym.engines.world import World
from tests.command import SHORT_RUN, Command
from tests.components import COVERING
from tests.conftest import ROOT


def test_evaluate_a_trained_run(mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("train", *SHORT_RUN, "--seed", "4")
    assert outcome.code == 0, outcome.err
    last = outcome.out.splitlines()[-1]
    assert last.startswith("run: ")
    run = Path(last.removeprefix("run: "))
    assert run.name == "seed_4"
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    evaluated = mygym_command("evaluate", str(run), "--episodes", "3", "--json")
    assert evaluated.code == 0, evaluated.err
    content = json.loads(evaluated.out)
    assert len(content["episodes"]) == sum(content["stage_reached"].values()) == 3
    assert {"success_rate", "mean_return", "mean_length", "mean_distance"} <= content.keys()
    assert mygym_command("evaluate", str(run), "--episodes", "3", "--json").out == evaluated.out
    other = json.loads(mygym_command("evaluate", str(run), "--episodes", "3", "--json", "--seed", "1").out)
    assert other["episodes"] != content["episodes"]
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    refused = mygym_command("evaluate", str(run), "--task", "push")
    assert (refused.code, "--task" in refused.err) == (2, True)


@pytest.mark.parametrize("task", ["reach", "push"])
def test_another_engine_plays_the_same_episodes_and_is_named(
    task: str, mygym_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: Counter[type] = Counter()
    usual = World.step

    def step(world: World, action: Any) -> None:
        steps[type(world)] += 1
        usual(world, action)

    monkeypatch.setattr(World, "step", step)
    line = f"evaluate --policy oracle --task {task} --episodes 3"
    played = {}
    for engine, world in (("mujoco", "MujocoWorld"), ("pybullet", "BulletWorld")):
        steps.clear()
        outcome = mygym_command(*line.split(), "--engine", engine, "--json")
        assert outcome.code == 0, outcome.err
        assert {each.__name__ for each in steps} == {world}
        played[engine] = json.loads(outcome.out)
        assert (played[engine]["engine"], played[engine]["success_rate"]) == (engine, 1.0)
    assert played["pybullet"] == json.loads(mygym_command(*line.split(), "--json").out)
    seeds, others = ([episode["seed"] for episode in each["episodes"]] for each in played.values())
    assert seeds == others
    distances, others = ([episode["distance"] for episode in each["episodes"]] for each in played.values())
    assert distances != others
    film = ["--engine", "mujoco", "--video", "m.mp4", "--set", "video={camera: wrist, width: 64, height: 48}"]
    assert "3 in mujoco" in mygym_command(*line.split(), *film).out
    assert imageio_ffmpeg.count_frames_and_secs("m.mp4")[0] > 10


@pytest.mark.parametrize(
    "line",
    [
        "evaluate --policy oracle --task push --set engine={}",
        "demos push --episodes 1 --out new --set engine={}",
        "dataset vision push --images 4 --out new --set engine={}",
        "card reach --episodes 1 --set engine={}",
        "view task push --image new --set engine={}",
        "view camera main --image new --set engine={}",
    ],
)
def test_an_engine_that_plays_no_episode_is_refused(line: str, mygym_command: Command, tmp_path: Path) -> None:
    line = line.replace("--image new", "--image new.png")
    for engine in ("mujoco", "fused"):
        outcome = mygym_command(*line.format(engine).split())
        assert outcome.code == 2
        allowed = "pybullet; or --engine," if "evaluate" in line else "pybullet"
        expected = f"engine: '{engine}' is the engine of training; episodes are played in pybullet; allowed: {allowed}"
        assert expected in outcome.err
    assert not list(tmp_path.glob("new*"))


def test_the_engine_of_a_config_file_is_noted_and_the_played_one_is_named(
    mygym_command: Command, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text("task: reach\nengine: mujoco\n")
    words = ["evaluate", "--policy", "oracle", "--config", "run.yaml", "--episodes", "1"]
    outcome = mygym_command(*words)
    assert (outcome.code, "1 in pybullet" in outcome.out) == (0, True)
    assert "note: engine: mujoco is the engine of training; episodes are played in pybullet" in outcome.err
    outcome = mygym_command(*words, "--engine", "mujoco")
    assert (outcome.code, "1 in mujoco" in outcome.out, "engine of training" in outcome.err) == (0, True, False)


def test_the_seed_of_a_config_file_counts_unless_a_flag_has_another(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("task: reach\nseed: 5\n")
    words = ["evaluate", "--policy", "random", "--episodes", "1", "--json"]
    of_file, of_flag, other = (
        mygym_command(*words, *more).out
        for more in (["--config", "run.yaml"], ["--seed", "5"], ["--config", "run.yaml", "--seed", "6"])
    )
    assert of_file == of_flag != other


@pytest.mark.parametrize("camera", ["main", "wrist"])
def test_cameras_show_the_worlds_of_all_engines_alike(camera: str) -> None:
    """Mounted cameras follow the link, whichever engine moves it."""
    pictures = []
    for engine in ("pybullet", "mujoco"):
        with closing(mygym.make_env({"task": "push"}, engine=engine, render_mode="rgb_array", camera=camera)) as env:
            env.reset(seed=3)
            pictures.append([env.render()])
            for _ in range(8):
                env.step(env.expert_action())
            pictures[-1].append(env.render())
    start, moved = (np.array(picture, dtype=float) for picture in pictures[0])
    other_start, other_moved = (np.array(picture, dtype=float) for picture in pictures[1])
    assert np.array_equal(start, other_start)
    assert np.abs(moved - other_moved).mean() < 0.3 * np.abs(moved - start).mean()


@pytest.mark.parametrize(("task", "robot"), COVERING[::4])
def test_evaluate_the_oracle(task: str, robot: str, mygym_command: Command, tmp_path: Path) -> None:
    line = f"evaluate --policy oracle --task {task} --robot {robot} --episodes 2 --json"
    outcome = mygym_command(*line.split())
    content = json.loads(outcome.out)
    assert (outcome.code, sum(content["stage_reached"].values())) == (0, 2)
    assert content["success_rate"] == 1.0  # how well the experts solve the tasks: tests/experts
    assert all(episode["length"] > 0 for episode in content["episodes"])
    assert list(tmp_path.iterdir()) == []


def test_evaluate_prints_text_and_writes_a_video(mygym_command: Command, tmp_path: Path) -> None:
    line = "evaluate --policy zero --episodes 2 --video video.mp4 --set video.width=64 --set video.height=48"
    outcome = mygym_command(*line.split())
    assert outcome.code == 0, outcome.err
    assert re.search(r"success_rate +0\.0%", outcome.out)
    assert outcome.out.splitlines()[-1] == "video: video.mp4"
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]
    assert (tmp_path / "video.mp4").stat().st_size > 1000
    before = (tmp_path / "video.mp4").read_bytes()
    outcome = mygym_command(*line.split())
    assert outcome.code == 2
    assert "--video: 'video.mp4' exists already; allowed: a new file, or --force" in outcome.err
    assert (tmp_path / "video.mp4").read_bytes() == before
    gif = line.replace(".mp4", ".gif").split()
    assert mygym_command(*gif).code == 0
    with Image.open(tmp_path / "video.gif") as video:
        assert (video.size, video.n_frames > 25) == ((64, 48), True)
    assert mygym_command(*line.split(), "--force", "--seed", "1").code == 0
    assert (tmp_path / "video.mp4").read_bytes() != before


def test_evaluate_prints_and_films_the_failed_stages(mygym_command: Command, tmp_path: Path) -> None:
    line = "evaluate --policy hover --task pick_and_place --episodes 3 --failure-videos made/here"
    small = ["--set", "video={width: 64, height: 48}", "--set", "task_params.horizon=30"]
    outcome = mygym_command(*line.split(), *small)
    assert outcome.code == 0, outcome.err
    match = re.search(
        r"^failed in grasp \(grasp the cube\): 3 of 3 episodes, 100\.0%; .* seed (\d+)$", outcome.out, re.M
    )
    assert match
    assert outcome.out.splitlines()[-1] == "failure videos: made/here"
    video = tmp_path / "made" / "here" / f"failed_in_grasp_seed_{match[1]}.mp4"
    assert list(tmp_path.rglob("*.*")) == [video]
    before = video.read_bytes()
    content = json.loads(mygym_command(*line.split(), *small, "--json").out)
    phrase = {"stage": "grasp", "phrase": "grasp the cube"}
    assert content["failures"] == [{**phrase, "count": 3, "share": 1.0, "seed": int(match[1])}]
    assert sorted(tmp_path.rglob("*.*")) == [video, video.with_stem(f"{video.stem}_2")]  # the first is not overwritten
    assert video.read_bytes() == before
    solved = mygym_command("evaluate", "--policy", "oracle", "--episodes", "2", "--failure-videos", "none")
    assert "failed in" not in solved.out
    assert solved.out.splitlines()[-1] == "failure videos: none, as no episode failed"
    assert not (tmp_path / "none").exists()


def test_evaluate_py_is_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(ROOT / "evaluate.py"), "--policy", "zero", "--episodes", "1"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "evaluate.py"), run_name="__main__")
    out, err = capsys.readouterr()
    assert not end.value.code, err
    assert "success_rate" in out
    assert err == ""
