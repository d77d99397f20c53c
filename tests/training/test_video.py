"""Videos of failed episodes: content, file names, existing files, faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest

import mygym
from mygym.envs.robot_env import RobotEnv
from mygym.errors import RunError
from mygym.registry import registry
from mygym.training import video
from mygym.training.evaluation import Evaluation, Failure, evaluate_policy
from mygym.training.video import PAUSE_FRAMES, record_failure_videos

SMALL: dict[str, Any] = {"render_mode": "rgb_array", "render_width": 64, "render_height": 48}


def evaluated(envs: list[RobotEnv], policy: str, episodes: int) -> Evaluation:
    return evaluate_policy(registry("policy").get(policy).load()(envs, 0), envs, range(episodes))


def test_video_shows_the_failed_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The random policy chooses other actions with another seed or with a single environment."""
    envs = [RobotEnv("push", task_params={"horizon": 40}, **SMALL) for _ in range(3)]
    evaluation = evaluated(envs, "random", 9)
    recorded: list[Evaluation] = []
    record_video = video.record_video
    monkeypatch.setattr(video, "record_video", lambda *args: recorded.append(record_video(*args)))
    paths = record_failure_videos(evaluation, envs[0], tmp_path / "new")
    for env in envs:
        env.close()
    names = [f"failed_in_{failure.stage}_seed_{failure.seed}.mp4" for failure in evaluation.failures]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(names)
    for replayed, path in zip(recorded, paths, strict=True):
        (episode,) = replayed.episodes
        assert episode == next(other for other in evaluation.episodes if other.seed == episode.seed)
        frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
        assert frames == episode.length + 1 + PAUSE_FRAMES
        assert frames / seconds == pytest.approx(25, abs=0.5), "a step takes 0.04 s"


@pytest.mark.parametrize(
    ("stage", "name"),
    {
        "open cabinet.drawer": "open_cabinet_drawer",
        "grasp /a/b.urdf": "grasp_a_b_urdf",
        "move " + "x" * 300: None,
    }.items(),
)
def test_file_names_are_valid_and_nothing_is_overwritten(stage: str, name: str | None, tmp_path: Path) -> None:
    env = RobotEnv(task_params={"hold": 1, "horizon": 2}, **SMALL)
    evaluation = evaluated([env], "zero", 1)
    failed = Failure(stage, "fail", 5, np.zeros((2, 3)))
    for _ in range(2):
        record_failure_videos(Evaluation(evaluation.episodes, (failed,)), env, tmp_path)
    env.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    expected = name or f"move_{'x' * 55}"
    assert names == [f"failed_in_{expected}_seed_5.mp4", f"failed_in_{expected}_seed_5_2.mp4"]


def test_failed_encoding_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no encoder")

    env = RobotEnv(task_params={"hold": 1, "horizon": 2}, **SMALL)
    evaluation = evaluated([env], "zero", 1)
    monkeypatch.setattr(video, "_encode", fails)
    with pytest.raises(RunError, match="no encoder"):
        record_failure_videos(evaluation, env, tmp_path)
    env.close()
    assert list(tmp_path.iterdir()) == []


def test_resumed_run_replaces_its_failure_videos(tmp_path: Path) -> None:
    short = {"steps": 16, "eval": {"episodes": 1, "final_episodes": 2}, "tensorboard": False, "logdir": str(tmp_path)}
    small = {"algo": "ppo", "n_envs": 1, "algo_params": {"n_steps": 8, "batch_size": 8}, "task": "push"}
    videos = {"video": {"episodes": 1, "width": 64, "height": 48}, "task_params": {"horizon": 5}}
    result = mygym.train({**short, **small, **videos})
    seeds = [name.stem.rpartition("_")[2] for name in (result.path / "videos").glob("failed_in_approach_seed_*.mp4")]
    assert len(seeds) == 1
    assert result.stage_reached == {"approach": 2}
    outdated = result.path / "videos" / "failed_in_push_seed_1.mp4"
    outdated.touch()
    mygym.train({"steps": 24}, resume=result.path)
    assert {path.name for path in (result.path / "videos").iterdir()} == {
        "final.mp4",
        f"failed_in_approach_seed_{seeds[0]}.mp4",
    }
    without = mygym.train({**short, **small, "video": {"episodes": 0}})
    assert not (without.path / "videos").exists()
