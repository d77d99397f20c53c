"""Videos of a policy's episodes and of its failures."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import ConfigError, bad_value
from mygym.training.evaluation import Evaluation, Predicts, evaluate_policy
from mygym.training.files import make_folder_for, write
from mygym.training.stop_request import SEPARATE
from mygym.types import FloatArray

PAUSE_FRAMES = 10
"""Frames for which the last picture of an episode is repeated."""

OUTPUTS = {
    ".mp4": ["-codec:v", "libx264", "-crf", "15", "-pix_fmt", "yuv420p"],
    ".gif": ["-filter_complex", "split[frames][all];[all]palettegen[palette];[frames][palette]paletteuse"],
}
"""Suffix of a video → its options of ffmpeg. A GIF shows up in web pages and READMEs without a player."""

FAILURE_PREFIX = "failed_in_"
"""Beginning of the file names of failure videos."""


class VideoRecorder:
    """Collects the rendered frames of episodes and writes them as an MP4 or a GIF."""

    def __init__(self) -> None:
        self.frames = bytearray()
        self._last, self._size, self._fps = b"", (0, 0), 0.0

    def capture(self, env: AnyEnv) -> None:
        """Append a frame of `env`, which has `render_mode="rgb_array"`."""
        self.add(_frame(env), env.metadata["render_fps"])

    def add(self, frame: NDArray[np.uint8], fps: float) -> None:
        """Append a frame `(height, width, 3)` of a video with `fps` frames per second."""
        self._last, self._size, self._fps = frame.tobytes(), (frame.shape[1], frame.shape[0]), fps
        self.frames.extend(self._last)

    def pause(self) -> None:
        """Append `PAUSE_FRAMES` copies of the last frame, if any."""
        self.frames.extend(PAUSE_FRAMES * self._last)

    def save(self, path: Path) -> None:
        """Write an MP4 or a GIF, by the suffix of the path.

        Raises:
            RunError: The file cannot be written.
        """
        write(path, lambda temporary: _encode(temporary, self.frames, self._size, self._fps))


def check_video(path: Path) -> None:
    """Raise `ConfigError` for a path whose suffix is not in `OUTPUTS`."""
    if path.suffix not in OUTPUTS:
        raise ConfigError(bad_value("video", str(path), f"a file ending in {' or '.join(OUTPUTS)}"))


def record_video(policy: Predicts, env: AnyEnv, seeds: Sequence[int], path: Path) -> Evaluation:
    """Write an MP4 or a GIF of one episode for each seed.

    Args:
        policy: Policy that receives batches of one observation.
        env: Environment with `render_mode="rgb_array"`.
        seeds: Seeds of the episodes.
        path: The file, with a suffix of `OUTPUTS`.

    Raises:
        ConfigError: The path has another suffix.
        RunError: The file cannot be written.
    """
    recorder = VideoRecorder()

    def on_step(index: int, env: AnyEnv) -> None:
        if not env.elapsed_steps:
            recorder.pause()
        recorder.capture(env)

    check_video(path)
    make_folder_for(path)  # before the episodes: a folder removed meanwhile is not recreated
    evaluation = evaluate_policy(policy, [env], seeds, on_step)
    recorder.pause()
    recorder.save(path)
    return evaluation


def record_side_by_side(policy: Predicts, envs: Sequence[AnyEnv], seed: int, path: Path) -> None:
    """Write an MP4 or a GIF of the same episode in several environments, with engine and outcome above each.

    An episode that ends earlier waits in its last frame.

    Args:
        policy: Policy that receives batches of one observation.
        envs: Environments with `render_mode="rgb_array"` and frames of the same size.
        seed: Seed of the episode.
        path: The file, with a suffix of `OUTPUTS`.

    Raises:
        ConfigError: The path has another suffix.
        RunError: The file cannot be written.
    """
    check_video(path)
    make_folder_for(path)
    takes = [_captioned_episode(policy, env, seed) for env in envs]
    recorder = VideoRecorder()
    for step in range(max(map(len, takes))):
        recorder.add(np.hstack([take[min(step, len(take) - 1)] for take in takes]), envs[0].metadata["render_fps"])
    recorder.pause()
    recorder.save(path)


def _captioned_episode(policy: Predicts, env: AnyEnv, seed: int) -> list[NDArray[np.uint8]]:
    """Return the frames `(height, width, 3)` of an episode."""
    frames: list[NDArray[np.uint8]] = []
    evaluation = evaluate_policy(policy, [env], [seed], lambda index, env: frames.append(_frame(env)))
    (episode,) = evaluation.episodes
    caption = f"{evaluation.engine}: {'success' if episode.success else 'failure'} after {episode.length} steps"
    return [_captioned(frame, caption) for frame in frames]


def _captioned(frame: NDArray[np.uint8], caption: str) -> NDArray[np.uint8]:
    picture = Image.fromarray(frame)
    size = max(9.0, frame.shape[0] / 20)
    font, place = ImageFont.load_default(size), (size / 2, size / 3)
    ImageDraw.Draw(picture).text(place, caption, (255, 255, 255), font, stroke_width=2, stroke_fill=(40, 40, 40))
    return np.asarray(picture)


def _frame(env: AnyEnv) -> NDArray[np.uint8]:
    frame = env.render()
    assert frame is not None
    return frame


def record_failure_videos(evaluation: Evaluation, env: AnyEnv, folder: Path) -> list[Path]:
    """Write an MP4 of the first failed episode of each stage with failures; existing files are kept.

    Raises:
        RunError: A file cannot be written.
    """
    paths = []
    for failure in evaluation.failures:
        stage = re.sub(r"\W+", "_", failure.stage).strip("_")[:60]  # the stage's name may contain a file path
        paths.append(_unused(folder / f"{FAILURE_PREFIX}{stage}_seed_{failure.seed}.mp4"))
        record_video(_ActionReplay(failure.actions), env, [failure.seed], paths[-1])
    return paths


def _unused(path: Path) -> Path:
    """Return the path, with a suffix if it exists."""
    names = (path.with_stem(f"{path.stem}{suffix}") for suffix in ("", *(f"_{number}" for number in range(2, 10_000))))
    return next(name for name in names if not name.exists())


class _ActionReplay:
    """Policy that repeats recorded actions: the original policy may be random or depend on the batch size."""

    def __init__(self, actions: FloatArray) -> None:
        self.actions: Iterator[NDArray[Any]] = iter(actions)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], None]:
        return next(self.actions)[None], None


def _encode(path: Path, frames: bytearray, size: tuple[int, int], fps: float) -> None:
    """Write RGB frames as H.264 or as a GIF, by the suffix of the path."""
    run_ffmpeg(path, "-", frames, size, fps, OUTPUTS[path.suffix])


def run_ffmpeg(
    path: Path, source: str, frames: bytearray | None, size: tuple[int, int], fps: float, options: Sequence[str]
) -> None:
    """Encode RGB frames in sequence, 3 bytes per pixel.

    Args:
        path: The video.
        source: Source of ffmpeg: `file:PATH`, or `-`, its standard input, which gets `frames`.
        frames: The frames for the standard input; None: another source.
        size: Width and height, pixels.
        fps: Frames per second.
        options: Options of ffmpeg for the video.

    Raises:
        RuntimeError: ffmpeg failed.
    """
    import imageio_ffmpeg

    form = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", "{}x{}".format(*size), "-framerate", str(fps)]
    with subprocess.Popen(  # noqa: S603  (no argument comes from outside)
        [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *form, "-i", source, *options, f"file:{path}"],
        stdin=subprocess.DEVNULL if frames is None else subprocess.PIPE,
        stderr=subprocess.PIPE,
        **SEPARATE,  # the main process handles Ctrl-C
    ) as encoder:
        try:
            _, stderr = encoder.communicate(frames)
        finally:
            encoder.kill()  # if a signal has ended the line above
            encoder.wait()
    if encoder.returncode:
        lines = stderr.decode(errors="replace").splitlines()
        why = lines[0].rpartition("] ")[2] if lines else f"exit code {encoder.returncode}"
        raise RuntimeError(f"the video encoder failed: {why}")
