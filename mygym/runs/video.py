"""Films of a policy, and of where it fails."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.multi_task_env import AnyEnv
from mygym.runs.directory import write
from mygym.runs.evaluation import Evaluation, Predicts, evaluate_policy

PAUSE = 10
"""Frames for which the end of an episode stays on the screen."""


class Film:
    """Pictures of episodes, of one size, one after the other."""

    def __init__(self) -> None:
        self._frames = bytearray()
        self._last, self._size, self._fps = b"", (0, 0), 0

    def show(self, env: AnyEnv) -> None:
        """Append what the camera of `env`, which has `render_mode="rgb_array"`, sees."""
        frame = env.render()
        assert frame is not None
        self._last, self._size, self._fps = (
            frame.tobytes(),
            (frame.shape[1], frame.shape[0]),
            env.metadata["render_fps"],
        )
        self._frames.extend(self._last)

    def pause(self) -> None:
        """Let the last picture, if there is any, stay for a moment."""
        self._frames.extend(PAUSE * self._last)

    def save(self, path: Path) -> None:
        """Write an MP4.

        Raises:
            RunError: The file cannot be written.
        """
        write(path, lambda temporary: _encode(temporary, self._frames, self._size, self._fps))


def film(policy: Predicts, env: AnyEnv, seeds: Sequence[int], path: Path) -> Evaluation:
    """Write an MP4 of one episode for each seed; `env` has `render_mode="rgb_array"`.

    Raises:
        RunError: The file cannot be written.
    """
    made = Film()

    def watch(index: int, shown: AnyEnv) -> None:
        if not shown.elapsed_steps:
            made.pause()
        made.show(shown)

    path.parent.mkdir(parents=True, exist_ok=True)  # not later: a folder that goes away meanwhile stays away
    evaluation = evaluate_policy(policy, [env], seeds, watch)
    made.pause()
    made.save(path)
    return evaluation


FAILED = "failed_in_"
"""How the names of films of failed episodes begin."""


def film_failures(evaluation: Evaluation, env: AnyEnv, folder: Path) -> list[Path]:
    """Write an MP4 of the first failed episode for each stage in which any failed, beside those that are there.

    Raises:
        RunError: A file cannot be written.
    """
    paths = []
    for failure in evaluation.failures:
        stage = re.sub(r"\W+", "_", failure.stage).strip("_")[:60]  # it may name a file, with its path
        paths.append(_free(folder / f"{FAILED}{stage}_seed_{failure.seed}.mp4"))
        film(_Recording(failure.actions), env, [failure.seed], paths[-1])
    return paths


def _free(path: Path) -> Path:
    """The path, with a suffix if that exists."""
    names = (path.with_stem(f"{path.stem}{suffix}") for suffix in ("", *(f"_{number}" for number in range(2, 10_000))))
    return next(name for name in names if not name.exists())


class _Recording:
    """Does again what was done in an episode: the policy itself may draw, or compute otherwise in another batch."""

    def __init__(self, actions: NDArray[np.float64]) -> None:
        self.actions: Iterator[NDArray[Any]] = iter(actions)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], None]:
        return next(self.actions)[None], None


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
