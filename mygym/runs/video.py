"""Films of a policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.robot_env import RobotEnv
from mygym.errors import RunError
from mygym.runs.directory import write
from mygym.runs.evaluation import Evaluation, Predicts, evaluate_policy

PAUSE = 10
"""Frames for which the end of an episode stays on the screen."""


def film(policy: Predicts, env: RobotEnv, seeds: Sequence[int], path: Path) -> Evaluation:
    """Write an MP4 of one episode for each seed; `env` has `render_mode="rgb_array"`.

    Raises:
        RunError: The file cannot be written.
    """
    frames: list[NDArray[np.uint8]] = []

    def watch(index: int, shown: RobotEnv) -> None:
        if index and not shown.elapsed_steps and frames:
            frames.extend([frames[-1]] * PAUSE)
        frame = shown.render()
        assert frame is not None
        frames.append(frame)

    evaluation = evaluate_policy(policy, [env], seeds, watch)
    frames.extend([frames[-1]] * PAUSE)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, lambda temporary: _encode(temporary, frames, env.metadata["render_fps"]))
    return evaluation


def _encode(path: Path, frames: Sequence[NDArray[np.uint8]], fps: int) -> None:
    import imageio_ffmpeg

    height, width, _ = frames[0].shape
    writer: Any = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=fps, codec="libx264", quality=7, macro_block_size=2, ffmpeg_log_level="error"
    )
    try:
        writer.send(None)
        for frame in frames:
            writer.send(np.ascontiguousarray(frame))
    except OSError as error:
        raise RunError(f"{path}: the video encoder failed: {error}") from error
    finally:
        writer.close()
