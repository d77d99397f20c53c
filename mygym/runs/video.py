"""Films of a policy."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from mygym.envs.robot_env import RobotEnv
from mygym.runs.directory import write
from mygym.runs.evaluation import Evaluation, Predicts, evaluate_policy

PAUSE = 10
"""Frames for which the end of an episode stays on the screen."""


def film(policy: Predicts, env: RobotEnv, seeds: Sequence[int], path: Path) -> Evaluation:
    """Write an MP4 of one episode for each seed; `env` has `render_mode="rgb_array"`.

    Raises:
        RunError: The file cannot be written.
    """
    frames = bytearray()
    last, size = b"", (0, 0)

    def watch(index: int, shown: RobotEnv) -> None:
        nonlocal last, size
        if not shown.elapsed_steps:
            frames.extend(PAUSE * last)
        frame = shown.render()
        assert frame is not None
        last, size = frame.tobytes(), (frame.shape[1], frame.shape[0])
        frames.extend(last)

    path.parent.mkdir(parents=True, exist_ok=True)  # not later: a folder that goes away meanwhile stays away
    evaluation = evaluate_policy(policy, [env], seeds, watch)
    frames.extend(PAUSE * last)
    write(path, lambda temporary: _encode(temporary, frames, size, env.metadata["render_fps"]))
    return evaluation


def _encode(path: Path, frames: bytearray, size: tuple[int, int], fps: int) -> None:
    """Write RGB frames of `size`, width and height, as H.264.

    Raises:
        RuntimeError: ffmpeg failed; imageio_ffmpeg's own writer would not tell of a full disk.
    """
    import imageio_ffmpeg

    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", "{}x{}".format(*size), "-framerate", str(fps)]
    wanted = ["-codec:v", "libx264", "-crf", "15", "-pix_fmt", "yuv420p"]
    with subprocess.Popen(  # noqa: S603  (nothing in it comes from elsewhere)
        [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *given, "-i", "-", *wanted, f"file:{path}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,  # Ctrl-C is left to the main process
    ) as encoder:
        try:
            _, told = encoder.communicate(frames)  # type: ignore[arg-type]  # any buffer will do
        finally:
            encoder.kill()  # where a signal has ended the line above
            encoder.wait()
    if encoder.returncode:
        said = told.decode(errors="replace").splitlines()
        why = said[0].rpartition("] ")[2] if said else f"exit code {encoder.returncode}"
        raise RuntimeError(f"the video encoder failed: {why}")
