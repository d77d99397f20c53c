"""`mygym certify`: a policy in two engines, its files, its films and its exit codes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import mygym
from mygym.engines.bullet.world import BulletWorld
from mygym.engines.engine import register_engine
from mygym.reporting.judgement import Certificate, judge
from mygym.tasks.state import State
from mygym.training import evaluation, video
from mygym.training.evaluation import Episode, Evaluation
from mygym.training.result import Result
from tests.command import Command
from tests.reporting.runs import make_run

EPISODES = 4
HORIZON = 12


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a moment, whose policy is set to move along x, where all goals are."""
    short = {"steps": 20, "eval": {"episodes": 1, "final_episodes": 1}, "tensorboard": False}
    small = {"video": {"episodes": 0, "width": 96, "height": 72}, "algo_params": {"policy_kwargs": {"net_arch": [8]}}}
    goals = {"low": [0.1, -0.02, 0.18], "high": [0.14, 0.02, 0.22]}
    easy = {"task_params": {"tolerance": 0.05, "hold": 1, "horizon": HORIZON, "areas": {"reach": goals}}}
    run = mygym.train({**short, **small, **easy, "logdir": str(tmp_path_factory.mktemp("certified"))}).path
    tensors = load_file(run / "policy.safetensors")
    tensors["actor.mu.weight"][:] = 0.0
    tensors["actor.mu.bias"][:] = [3.0, 0.0, 0.0]
    save_file(tensors, run / "policy.safetensors")
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run, in the form of a log directory."""
    return Path(shutil.copytree(trained, tmp_path / Path(*trained.parts[-5:])))


def far_away() -> None:
    """Register an engine whose tools are always a metre from where the arm is."""

    @register_engine("far")
    class FarWorld(BulletWorld):
        def _read(self, state: State) -> None:
            super()._read(state)
            state.ee_position[...] += 1.0


def frames(path: Path) -> int:
    return int(imageio_ffmpeg.count_frames_and_secs(str(path))[0])


def test_two_engines_judge_a_run_on_the_same_fresh_episodes(run: Path, mygym_command: Command) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    row = judge(run, EPISODES)
    outcome = mygym_command("certify", str(run), "--episodes", str(EPISODES))
    assert outcome.code == 0, outcome.err
    content = json.loads((run / "certificate.json").read_text())
    assert [verdict["engine"] for verdict in content["verdicts"]] == ["pybullet", "mujoco"]
    assert [verdict["version"].split()[0] for verdict in content["verdicts"]] == ["pybullet", "mujoco-core"]
    assert [verdict["successes"] for verdict in content["verdicts"]] == [EPISODES, EPISODES]
    assert content["gap"] == 0.0
    assert content["gap_low"] < 0.0 < content["gap_high"], "few episodes leave room for a difference"
    assert (content["policy_sha256"], content["config_hash"]) == (row.policy_sha256, row.config_hash)
    assert (content["run"], content["trained_in"], content["worse"]) == (row.run, "pybullet", False)
    seeds = [episode["seed"] for episode in content["outcomes"]]
    assert {seed >> evaluation.PURPOSE_BIT for seed in seeds} == {evaluation.JUDGE}
    for number in (0, 1):  # those of leaderboards
        assert not set(seeds) & set(evaluation.episode_seeds(0, evaluation.JUDGE, EPISODES, number))
    text = (run / "certificate.md").read_text()
    assert content["command"] in text
    assert "| mujoco | 100.0% (" in text
    for shown in ("+0.0 points", "undecided, by 4 episodes", str(run / "certificate.json")):
        assert shown in outcome.out
    assert str(run.parents[4]) not in text + json.dumps(content)
    changed = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    film = "videos/certificate_both_succeed.mp4"
    assert changed - {path.relative_to(run).as_posix() for path in before} == {
        "certificate.json",
        "certificate.md",
        film,
    }
    assert all(path.read_bytes() == bytes_before for path, bytes_before in before.items())
    assert content["films"] == {"both succeed": film}
    longest = max(content["outcomes"][0][engine]["length"] for engine in ("pybullet", "mujoco"))
    assert frames(run / film) == longest + 1 + video.PAUSE_FRAMES
    assert replace(judge(run, EPISODES), date=row.date) == row, "the judge reads no certificate"


def test_a_policy_that_fails_in_the_second_engine_exits_with_1_and_a_film_shows_it(
    run: Path, mygym_command: Command
) -> None:
    far_away()
    line = ["certify", str(run), "--episodes", str(EPISODES), "--engines"]
    outcome = mygym_command(*line, "pybullet", "far", "--json")
    assert outcome.code == 1, outcome.err
    content = json.loads(outcome.out)
    assert content == json.loads((run / "certificate.json").read_text())
    assert (content["gap"], content["worse"]) == (-1.0, True)
    assert content["verdicts"][1]["version"].startswith("pybullet"), "of the engine that this one extends"
    assert list(content["films"]) == ["one succeeds"]
    assert frames(run / content["films"]["one succeeds"]) == HORIZON + 1 + video.PAUSE_FRAMES
    assert "worse in far" in (run / "certificate.md").read_text()
    for more in (["pybullet", "far", "--tolerance", "100"], ["far", "pybullet", "--no-film"]):
        assert mygym_command(*line, *more).code == 0
    assert not list(run.glob("videos/certificate*")), "--no-film leaves no film of an earlier certificate"


def test_films_show_the_engines_side_by_side(
    run: Path, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine that ends earlier, on the left, waits in its last frame; a caption is on each half."""
    far_away()
    filmed: list[NDArray[np.uint8]] = []
    encode = video._encode

    def encoded(path: Path, content: bytearray, size: tuple[int, int], fps: int) -> None:
        assert (size, fps) == ((192, 72), 25)
        filmed.append(np.frombuffer(bytes(content), np.uint8).reshape(-1, 72, 192, 3))
        encode(path, content, size, fps)

    monkeypatch.setattr(video, "_encode", encoded)
    outcome = mygym_command("certify", str(run), "--episodes", "1", "--engines", "pybullet", "far", "--json")
    (played,) = json.loads(outcome.out)["outcomes"]
    end = played["pybullet"]["length"]
    assert 1 < end < played["far"]["length"] == HORIZON
    (frames,) = filmed
    left, right = frames[:, :, :96], frames[:, :, 96:]
    assert (left[end:] == left[end]).all()
    assert (left[end] != left[end - 1]).any()
    assert (right[end + 1] != right[end]).any()
    assert (left[0, :12] != right[0, :12]).any(), "the captions"
    assert (left[0, 24:] == right[0, 24:]).all(), "the same start"


def certificate(both: int, first: int, second: int, neither: int, tolerance: float = 0.05) -> Certificate:
    solved = [True] * (both + first) + [False] * (second + neither)
    other = [True] * both + [False] * first + [True] * second + [False] * neither
    evaluations = tuple(
        Evaluation(tuple(Episode(0, success, 0.0, 5, 0.0, "") for success in successes), engine=engine)
        for engine, successes in (("pybullet", solved), ("mujoco", other))
    )
    result: Any = Result(Path("seed_0"), "sac", "pytorch", "panda", "reach", "table", "pybullet", 0, "0123abcd")
    return Certificate(result, "", tuple(range(len(solved))), evaluations, tolerance, {})


@pytest.mark.parametrize(
    ("counts", "worse", "words"),
    [
        ((100, 0, 0, 0), False, "within 5 points"),
        ((97, 1, 1, 1), False, "within 5 points"),
        ((80, 0, 20, 0), False, "at most 5 points lower"),
        ((99, 0, 1, 0), False, "at most 5 points lower"),  # by up to 5.4 points better
        ((99, 1, 0, 0), False, "undecided, by 100 episodes: success may be 5.4 points lower"),
        ((95, 5, 0, 0), False, "undecided"),  # as large as the tolerance
        ((80, 20, 0, 0), True, "worse in mujoco"),
        ((8, 1, 0, 1), False, "undecided"),  # ten episodes show no difference of ten points
        ((4, 0, 0, 0), False, "undecided, by 4 episodes: success may be 49.0 points lower"),
        ((1, 0, 0, 0), False, "undecided, by 1 episode:"),
    ],
)
def test_a_verdict_holds_for_the_whole_interval(counts: tuple[int, int, int, int], worse: bool, words: str) -> None:
    judged = certificate(*counts)
    assert judged.is_worse == worse
    assert words in judged.verdict()
    assert f"pybullet alone solves {counts[1]}, mujoco {counts[2]}" in judged.gap_in_words()


def test_an_unfinished_run_is_refused(mygym_command: Command, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", status="interrupted")
    outcome = mygym_command("certify", str(run))
    assert (outcome.code, outcome.out) == (2, "")
    assert "is interrupted" in outcome.err
    assert not list(run.glob("certificate*"))
