"""`replay`: play the episodes of a dataset again, and compare them with the stored episodes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.config import Layer, RunConfig, resolve
from mygym.demonstrations.loading import load_demonstrations
from mygym.demonstrations.recording import replay as replay_episode
from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import ConfigError, bad_value
from mygym.training import env_factory
from mygym.training.video import VideoRecorder, check_video


@dataclass(frozen=True)
class Replay:
    """Comparison of a replayed episode with the stored episode."""

    number: int
    """Number of the episode in its dataset."""
    steps: int
    differs_at: int | None
    """The first step whose result differs from the stored result; None: all results are bit-identical."""


def replay(
    dataset: str | Path,
    *,
    episode: int | None = None,
    video: str | Path | None = None,
    camera: str | None = None,
    width: int | None = None,
    height: int | None = None,
) -> list[Replay]:
    """Play demonstrations again from their seeds and actions, and compare with the stored observations.

    Args:
        dataset: Path of a dataset of `demonstrate`.
        episode: Number of the episode to play; None: all.
        video: MP4 or GIF for a video; for a partial episode it shows only the stored segment.
        camera: A camera of the workspace; None: the config's.
        width: Pixels, an even number; None: the config's.
        height: Pixels, an even number; None: the config's.

    Returns:
        For each episode, its number, seed and whether it is equal to the stored episode.

    Raises:
        ConfigError: The path is not a dataset, or the episode or the camera does not exist.
        RunError: The dataset is damaged, or the video cannot be written.
    """
    demonstrations = load_demonstrations(dataset)
    if episode is not None and not 0 <= episode < len(demonstrations):
        raise ConfigError(bad_value("episode", episode, f"0 to {len(demonstrations) - 1}"))
    chosen = range(len(demonstrations)) if episode is None else [episode]
    recorder = None if video is None else VideoRecorder()
    replays = []
    with contextlib.closing(_recordered_env(demonstrations.config, camera=camera, width=width, height=height)) as env:
        if video is not None:
            check_video(Path(video))
            Path(video).parent.mkdir(parents=True, exist_ok=True)
        for number in chosen:
            stored = demonstrations.episodes[number]
            replays.append(Replay(number, len(stored), replay_episode(stored, env, recorder)))
            if recorder is not None:
                recorder.pause()
    if recorder is not None:
        recorder.save(Path(str(video)))
    return replays


def _recordered_env(config: RunConfig, **overrides: Any) -> AnyEnv:
    """Return the environment of a config, with overrides of its `video` section."""
    video = {key: value for key, value in overrides.items() if value is not None}
    shown = resolve([Layer("argument", {"video": {**config.video.model_dump(), **video}})]).config.video
    size = {"render_width": shown.width, "render_height": shown.height}
    return env_factory.make_env(config, render_mode="rgb_array", camera=shown.camera, **size)
