"""Replay that stores each image once gives the samples of SB3's buffer, and is restored from checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer

from mygym.training.buffers import FrameReplayBuffer
from mygym.training.checkpoints import checkpoints as storage
from mygym.training.checkpoints.checkpoints import ReplayLog
from mygym.training.model_factory import buffer_bytes

ACTIONS = spaces.Box(-1, 1, (2,), np.float32)


IMAGES: dict[str, Any] = {
    "image": spaces.Box(0, 255, (3, 8, 8), np.uint8),
    "depth:wrist": spaces.Box(0, 255, (1, 8, 9), np.uint8),
    "observation": spaces.Box(-1, 1, (3,), np.float32),
}


class Stream:
    """Random episodes of random observations, in which images are stacks of `frames` images."""

    def __init__(self, n_envs: int, frames: int = 1) -> None:
        self.n_envs, self.frames, self.rng = n_envs, frames, np.random.default_rng(0)
        self.space = spaces.Dict({name: self.stacked(name, each) for name, each in IMAGES.items()})
        self.observations = self.repeated(self.drawn())

    def stacked(self, name: str, space: Any) -> Any:
        channels, *size = space.shape
        return space if name == "observation" else spaces.Box(0, 255, (channels * self.frames, *size), np.uint8)

    def repeated(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """Return the first observations of episodes: stacks of the same image."""
        return {
            name: np.concatenate([each] * self.frames, 1) if each.ndim > 2 else each for name, each in drawn.items()
        }

    def following(self) -> dict[str, Any]:
        """Return observations after a step: the oldest image is gone."""
        return {
            name: np.concatenate([self.observations[name][:, IMAGES[name].shape[0] :], each], 1)
            if each.ndim > 2
            else each
            for name, each in self.drawn().items()
        }

    def drawn(self) -> dict[str, Any]:
        """Return random observations of every environment."""
        shapes = {name: (self.n_envs, *each.shape) for name, each in IMAGES.items() if each.dtype == np.uint8}
        images = {name: self.rng.integers(0, 256, shape).astype(np.uint8) for name, shape in shapes.items()}
        return images | {"observation": self.rng.random((self.n_envs, 3), np.float32)}

    def rows(self, count: int) -> Iterator[tuple[Any, ...]]:
        """Yield arguments of `add` for `count` steps of every environment."""
        for _ in range(count):
            following = self.following()
            dones = self.rng.random(self.n_envs) < 0.2
            infos = [{"TimeLimit.truncated": bool(done) and self.rng.random() < 0.5} for done in dones]
            actions = self.rng.random((self.n_envs, 2), np.float32)
            yield self.observations, following, actions, self.rng.random(self.n_envs), dones, infos
            reset = dones | (self.rng.random(self.n_envs) < 0.05)  # also where an outer loop resets
            first = self.repeated(self.drawn())
            self.observations = {
                name: np.where(reset.reshape(-1, *(1,) * (values.ndim - 1)), first[name], values)
                for name, values in following.items()
            }


def samples(buffer: DictReplayBuffer, rows: Any) -> list[Any]:
    np.random.seed(0)  # noqa: NPY002  (SB3 draws the environments from the global generator)
    batch = buffer._get_samples(rows)
    return [*batch.observations.values(), *batch.next_observations.values(), batch.actions, batch.rewards, batch.dones]


@pytest.mark.parametrize(("n_envs", "frames"), [(1, 1), (3, 1), (1, 2), (3, 4)])
def test_samples_are_those_of_the_buffer_that_stores_images_twice(n_envs: int, frames: int) -> None:
    stream = Stream(n_envs, frames)
    arguments = 20 * n_envs, stream.space, ACTIONS, "cpu", n_envs
    once, twice = FrameReplayBuffer(*arguments, frames=frames), DictReplayBuffer(*arguments)
    for added, row in enumerate(stream.rows(60), 1):
        once.add(*row)
        twice.add(*row)
        numbers = np.repeat(np.arange(min(added, 20)), 2 * n_envs)
        if frames > 1 and added > 20:  # of the oldest rows, earlier images are overwritten
            numbers = numbers[(numbers - added) % 20 >= frames - 1]
        for left, right in zip(samples(once, numbers), samples(twice, numbers), strict=True):
            np.testing.assert_array_equal(left, right)
    assert once.separate


def test_rows_whose_earlier_images_are_overwritten_are_not_sampled() -> None:
    """In their place, the sample contains a later row, whole."""
    stream, seen = Stream(1, 3), []
    buffer = FrameReplayBuffer(20, stream.space, ACTIONS, "cpu", frames=3)
    for row in stream.rows(60):
        buffer.add(*row)
        seen.append(row[0]["image"][0].tobytes())
    for number in range(20):
        image = buffer._get_samples(np.array([number])).observations["image"][0]
        assert image.numpy().astype(np.uint8).tobytes() in seen[-20:]


@pytest.mark.parametrize(("n_envs", "small", "frames"), [(1, 0, 1), (3, 0, 1), (2, 30, 1), (2, 0, 3)])
def test_checkpoints_restore_it_after_any_number_of_rows(
    n_envs: int, small: int, frames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SMALL", small)
    monkeypatch.setattr("os.fsync", lambda file: None)
    stream, log, steps = Stream(n_envs, frames), ReplayLog(tmp_path), 0
    arguments = 20 * n_envs, stream.space, ACTIONS, "cpu", n_envs, False, True, frames
    buffer = FrameReplayBuffer(*arguments)
    for added in (1, 4, 0, 13, 3, 1, 19, 20, 21, 2, 50, 7):
        for row in stream.rows(added):
            buffer.add(*row)
        steps += added * n_envs
        state, restored = log.save(buffer, steps), FrameReplayBuffer(*arguments)
        chunks, log = log.chunks, ReplayLog(tmp_path)  # as a new process
        log.load(restored, state, chunks, steps)
        assert restored.separate.keys() == buffer.separate.keys()
        numbers = np.arange(max(steps // n_envs - 20, 0), steps // n_envs) % 20
        for left, right in zip(samples(restored, numbers), samples(buffer, numbers), strict=True):
            np.testing.assert_array_equal(left, right)
        buffer = restored  # its further rows connect to `newest`
    assert len(chunks) > 1 or small


def test_a_hundred_thousand_frames_take_at_most_1_4_gigabytes() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (3, 64, 64), np.uint8)})
    buffer = FrameReplayBuffer(100_000, space, ACTIONS, "cpu", n_envs=4)
    size, rows = buffer_bytes(type("Model", (), {"replay_buffer": buffer}))
    episodes = rows / 15  # of `reach`, if they succeed
    assert rows == 100_000
    assert size + episodes * buffer.end_bytes < 1.4e9
    stream = Stream(2)
    filled = FrameReplayBuffer(200, stream.space, ACTIONS, "cpu", n_envs=2)
    before, _ = buffer_bytes(type("Model", (), {"replay_buffer": filled}))
    for row in stream.rows(100):
        filled.add(*row)
    after, _ = buffer_bytes(type("Model", (), {"replay_buffer": filled}))
    assert filled.full
    assert after - before == len(filled.separate) * filled.end_bytes
    assert before < 1.3 * filled.observations["image"].nbytes + filled.observations["depth:wrist"].nbytes
