"""A replay buffer is restored after any number of new rows; old rows are not written again."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from mygym.training.buffers import ImitationBuffer
from mygym.training.checkpoints import checkpoints as storage
from mygym.training.checkpoints.checkpoints import FOLDER, Checkpoints, ReplayLog
from tests.components import slow_except

FLAT = spaces.Box(-1, 1, (3,), np.float32)
GOALS = spaces.Dict({"observation": FLAT, "achieved_goal": FLAT, "desired_goal": FLAT})
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)


class Plane(gymnasium.Env[Any, Any]):
    """Minimal environment for hindsight replay: it only computes rewards."""

    observation_space, action_space = GOALS, ACTIONS

    def compute_reward(self, achieved: Any, desired: Any, infos: Any) -> Any:
        extra = np.array([info.get("extra", 0.0) for info in infos])
        return -np.linalg.norm(achieved - desired, axis=-1) - extra


class Fading(DictReplayBuffer):
    """Buffer that changes old rows when a row is added, and has an additional array."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.priorities = np.ones((self.buffer_size, self.n_envs))

    def add(self, *args: Any) -> None:
        self.rewards *= 0.5
        self.priorities += 1
        super().add(*args)


@cache
def plane() -> DummyVecEnv:
    return DummyVecEnv([Plane])


def flat(cls: Any, **more: Any) -> Any:
    return lambda size, n_envs: cls(size * n_envs, FLAT, ACTIONS, "cpu", n_envs, **more)


def goals(cls: Any, **more: Any) -> Any:
    return lambda size, n_envs: cls(size * n_envs, GOALS, ACTIONS, device="cpu", n_envs=n_envs, **more)


def hindsight(**more: Any) -> Any:
    return lambda size, n_envs: goals(HerReplayBuffer, env=plane(), **more)(size, n_envs)


BUFFERS = {
    "flat": flat(ReplayBuffer),
    "flat, one array": flat(ReplayBuffer, optimize_memory_usage=True, handle_timeout_termination=False),
    "n steps": flat(NStepReplayBuffer),
    "dictionaries": goals(DictReplayBuffer),
    "hindsight": hindsight(),
    "hindsight with infos": hindsight(copy_info_dict=True),
    "fading": goals(Fading),
    "labels": goals(ImitationBuffer),
    "labels, flat": flat(ImitationBuffer),
}


class Filler:
    """Adds distinct rows in episodes of at most six steps; hindsight replay needs several episodes in a buffer."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lengths: Any = 0

    def add(self, *buffers: Any, rows: int) -> None:
        for _ in range(rows):
            n_envs = buffers[0].n_envs
            observations = [
                {key: self.rng.random((n_envs, 3), np.float32) for key in GOALS.spaces}
                if isinstance(buffers[0].observation_space, spaces.Dict)
                else self.rng.random((n_envs, 3), np.float32)
                for _ in range(2)
            ]
            self.lengths = np.zeros(n_envs) + self.lengths + 1
            dones = (self.rng.random(n_envs) < 0.25) | (self.lengths >= 6)
            self.lengths[dones] = 0
            numbers = [self.rng.random((n_envs, 2), np.float32), self.rng.random(n_envs, np.float32), dones]
            infos = [
                {"TimeLimit.truncated": bool(done) and self.rng.random() < 0.5, "extra": self.rng.random(), "a": [()]}
                for done in dones
            ]
            for buffer in buffers:
                if isinstance(buffer, ImitationBuffer):
                    buffer.add(observations[0], numbers[0])
                else:
                    buffer.add(*observations, *numbers, infos)


def content(buffer: Any) -> dict[str, Any]:
    """Return copies of every array, and the position in the buffer."""
    result: dict[str, Any] = {"pos": buffer.pos, "full": buffer.full}
    for name, value in vars(buffer).items():
        for key, array in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(array, np.ndarray):
                result[f"{name}.{key}"] = array.copy()
    return result


def sampled(buffer: Any) -> list[Any]:
    """Return a batch; empty if the buffer has no rows to sample."""
    if not (buffer.ep_length.any() if isinstance(buffer, HerReplayBuffer) else buffer.full or buffer.pos):
        return []
    np.random.seed(0)  # noqa: NPY002  (SB3 draws from the global generator)
    return [
        {key: array.numpy() for key, array in (sample.items() if isinstance(sample, dict) else [("", sample)])}
        for sample in buffer.sample(16)
        if sample is not None
    ]


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], key)


def loaded(make: Any, size: int, n_envs: int, checkpoint: Any, checkpoints: Checkpoints) -> Any:
    buffer = make(size, n_envs)
    checkpoints.replay.load(buffer, checkpoint.replay, checkpoint.chunks, checkpoint.steps)
    return buffer


def files(run: Path) -> set[str]:
    folder = run / "checkpoints" / FOLDER
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def total_of(checkpoint: Any) -> int:
    return int(checkpoint.replay["total"])


# Any number of rows -------------------------------------------------------------------------------------------------

SIZES = st.sampled_from([7, 8, 16, 50])
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["0", "1", "few", "few", "size - 1", "size", "size + 1", "several rounds"]),
        st.sampled_from(["continue", "continue", "resume", "resume from the previous checkpoint"]),
    ),
    min_size=1,
    max_size=7,
)


def number(kind: str, size: int, rng: np.random.Generator) -> int:
    known = {"0": 0, "1": 1, "size - 1": size - 1, "size": size, "size + 1": size + 1}
    more = {"few": int(rng.integers(2, 6)), "several rounds": int(rng.integers(2 * size, 4 * size))}
    return (known | more)[kind]


@pytest.mark.parametrize(
    ("kind", "n_envs"), slow_except(itertools.product(BUFFERS, (1, 3)), lambda case: case[1] == 3 or case[0] == "flat")
)
def test_buffer_is_restored_after_any_number_of_rows(kind: str, n_envs: int) -> None:
    make = BUFFERS[kind]

    @settings(max_examples=8)
    @given(size=SIZES, moves=MOVES, small=st.sampled_from([0, 10, 10_000]), seed=st.integers(0, 9))
    def holds(size: int, moves: list[tuple[str, str]], small: int, seed: int) -> None:
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch.setattr(storage, "SMALL", small)
            patch.setattr("os.fsync", lambda file: None)
            run, filler = Path(folder), Filler(seed)
            buffer, steps, checkpoints = make(size, n_envs), 0, Checkpoints(run, keep=2)
            history: list[tuple[int, dict[str, Any]]] = []
            for rows, then in moves:
                added = number(rows, size, filler.rng)
                filler.add(buffer, rows=added)
                steps += added * n_envs
                checkpoints.write(steps, {}, {}, buffer)
                history.append((steps, content(buffer)))
                checkpoint = checkpoints.newest(pytest.fail)
                assert checkpoint.steps == steps
                fresh = loaded(make, size, n_envs, checkpoint, Checkpoints(run, keep=2))
                assert_same(content(fresh), history[-1][1])
                for first, second in zip(sampled(fresh), sampled(buffer), strict=True):
                    assert_same(first, second)
                known = [checkpoints.read(path) for path in checkpoints.paths()]
                assert files(run) == {chunk["file"] for entry in known for chunk in entry.chunks}
                assert all(chunk["rows"] <= size for entry in known for chunk in entry.chunks)
                assert len(known) == min(len(history), 2)
                if then == "continue":
                    continue
                if then == "resume from the previous checkpoint" and len(known) == 2:
                    (known.pop().path / "manifest.json").write_text("{}")
                    history.pop()
                checkpoints = Checkpoints(run, keep=2)
                checkpoint = checkpoints.newest(str)
                checkpoints.discard_after(checkpoint)
                buffer = loaded(make, size, n_envs, checkpoint, checkpoints)
                steps = checkpoint.steps
                assert_same(content(buffer), history[-1][1])
                assert steps == history[-1][0]

    holds()


@pytest.mark.parametrize("kind", [kind for kind in BUFFERS if kind != "fading"])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_larger_buffer_accepts_the_rows_of_a_buffer_that_was_never_full(kind: str, n_envs: int) -> None:
    """It then continues as if it had been as large from the start."""
    make = BUFFERS[kind]

    @settings(max_examples=8)
    @given(rows=st.sampled_from([0, 1, 5, 11, 12]), later=st.integers(1, 40), seed=st.integers(0, 9))
    def holds(rows: int, later: int, seed: int) -> None:
        if kind == "flat, one array":
            rows = min(rows, 11)  # the next observation of the twelfth row overwrites the first row
        with tempfile.TemporaryDirectory() as folder:
            filler, log = Filler(seed), ReplayLog(Path(folder))
            short, reference = make(12, n_envs), make(20, n_envs)
            filler.add(short, reference, rows=rows)
            state = log.save(short, rows * n_envs)
            again = ReplayLog(Path(folder))
            longer = make(20, n_envs)
            again.load(longer, state, log.chunks, log.steps)
            assert_same(content(longer), content(reference))
            filler.add(longer, reference, rows=later)
            assert_same(content(longer), content(reference))
            steps = (rows + later) * n_envs
            state, fresh = again.save(longer, steps), make(20, n_envs)
            ReplayLog(Path(folder)).load(fresh, state, again.chunks, steps)
            assert_same(content(fresh), content(reference))

    holds()


@pytest.mark.parametrize("kind", BUFFERS)
def test_full_buffer_fits_only_into_the_same_size(kind: str, tmp_path: Path) -> None:
    for rows in [13, 24, 31]:
        log, buffer = ReplayLog(tmp_path), BUFFERS[kind](12, 1)
        Filler(0).add(buffer, rows=rows)
        state = log.save(buffer, rows)
        for size in (11, 13, 40):
            with pytest.raises(ValueError, match=f"12 rows does not fit into a buffer of {size}"):
                ReplayLog(tmp_path).load(BUFFERS[kind](size, 1), state, log.chunks, rows)


def test_memory_optimized_buffer_fits_only_before_it_is_full(tmp_path: Path) -> None:
    make = BUFFERS["flat, one array"]
    log, buffer = ReplayLog(tmp_path), make(12, 1)
    Filler(0).add(buffer, rows=12)
    state = log.save(buffer, 12)
    with pytest.raises(ValueError, match="does not fit"):
        ReplayLog(tmp_path).load(make(20, 1), state, log.chunks, 12)


@pytest.mark.parametrize(
    ("kind", "other", "n_envs"),
    [
        ("flat", "flat", 3),
        ("hindsight", "hindsight", 3),
        ("dictionaries", "flat", 1),
        ("hindsight", "dictionaries", 1),
        ("fading", "dictionaries", 1),
    ],
)
def test_rows_of_a_different_buffer_are_refused(kind: str, other: str, n_envs: int, tmp_path: Path) -> None:
    log, buffer = ReplayLog(tmp_path), BUFFERS[kind](12, 1)
    Filler(0).add(buffer, rows=5)
    state = log.save(buffer, 5)
    with pytest.raises(ValueError, match="does not fit"):
        ReplayLog(tmp_path).load(BUFFERS[other](12, n_envs), state, log.chunks, 5)


# Rows that do not follow the env steps ------------------------------------------------------------------------------


def irregular_moves(buffer: Any, filler: Filler) -> Iterator[tuple[str, int]]:
    """Add rows as only a custom algorithm does; yield a description and the env steps after each move."""
    filler.add(buffer, rows=5)
    yield "rows from a demonstration", 0
    filler.add(buffer, rows=6)
    yield "two rows per step", 3
    filler.add(buffer, rows=4)
    yield "a row per step", 7
    filler.add(buffer, rows=14)
    yield "more than a round, two rows per step", 14
    yield "steps without rows", 18
    buffer.reset()
    yield "reset", 18
    filler.add(buffer, rows=7)
    yield "restarted", 25
    buffer.reset()
    filler.add(buffer, rows=9)
    yield "restarted with more rows", 34
    buffer.reset()
    filler.add(buffer, rows=12 + 9)
    yield "the same position a round later", 55


def test_rows_that_do_not_follow_the_env_steps_are_saved(tmp_path: Path) -> None:
    make = BUFFERS["flat"]
    buffer, log = make(12, 1), ReplayLog(tmp_path)
    for move, steps in irregular_moves(buffer, Filler(0)):
        state, fresh = log.save(buffer, steps), make(12, 1)
        ReplayLog(tmp_path).load(fresh, state, log.chunks, steps)
        filled = 12 if buffer.full else buffer.pos
        assert (fresh.pos, fresh.full) == (buffer.pos, buffer.full), move
        for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
            np.testing.assert_array_equal(getattr(fresh, name)[:filled], getattr(buffer, name)[:filled], move)


# Chunks on disk -----------------------------------------------------------------------------------------------------


def test_old_rows_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "SMALL", 0)
    filler, log, buffer, steps = Filler(0), ReplayLog(tmp_path), BUFFERS["hindsight"](50, 2), 0
    known: dict[Path, tuple[int, int]] = {}
    for rows in (10, 10, 1, 0, 20, 30, 7):
        filler.add(buffer, rows=rows)
        steps += rows * 2
        log.save(buffer, steps)
        current = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (tmp_path / FOLDER).iterdir()}
        assert {path: current[path] for path in known} == known
        assert [len(load_file(path)["rewards"]) for path in current.keys() - known.keys()] == [rows] * (rows > 0)
        known = current
    assert sum(chunk["rows"] for chunk in log.chunks) < 50 + 30


def test_small_chunks_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "SMALL", 20)
    filler, log, buffer, steps = Filler(0), ReplayLog(tmp_path), BUFFERS["flat"](500, 2), 0
    sizes = []
    for rows in (3, 3, 3, 3, 3, 40, 2, 2):
        filler.add(buffer, rows=rows)
        steps += rows * 2
        log.save(buffer, steps)
        sizes.append([chunk["rows"] for chunk in log.chunks])
    assert sizes == [[3], [6], [9], [12], [12, 3], [12, 43], [12, 43, 2], [12, 43, 4]]


def test_partly_overwritten_chunk_is_kept(tmp_path: Path) -> None:
    filler, log, buffer = Filler(0), ReplayLog(tmp_path), BUFFERS["flat"](12, 1)
    for steps in (8, 16):
        filler.add(buffer, rows=8)
        log.save(buffer, steps)
    assert [chunk["rows"] for chunk in log.chunks] == [8, 8]


def test_buffer_that_changes_old_rows_has_no_chunks(tmp_path: Path) -> None:
    filler, log, buffer = Filler(0), ReplayLog(tmp_path), BUFFERS["fading"](12, 1)
    filler.add(buffer, rows=5)
    state = log.save(buffer, 5)
    assert log.chunks == []
    assert {"rewards", "priorities", "observations.achieved_goal"} <= state["whole"].keys()
    assert all(len(array) == 12 for array in state["whole"].values())


def test_failed_save_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = BUFFERS["hindsight"]
    filler, log, buffer = Filler(0), ReplayLog(tmp_path), make(12, 1)
    filler.add(buffer, rows=5)
    log.save(buffer, 5)
    filler.add(buffer, rows=4)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            log.save(buffer, 9)
    state, fresh = log.save(buffer, 9), make(12, 1)
    ReplayLog(tmp_path).load(fresh, state, log.chunks, 9)
    assert_same(content(fresh), content(buffer))


def test_chunk_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MAX_CHUNK_ROWS", 20)
    make = BUFFERS["dictionaries"]
    buffer, checkpoints = make(50, 3), Checkpoints(tmp_path, keep=1)
    (tmp_path / "checkpoints").mkdir()
    Filler(0).add(buffer, rows=47)
    checkpoints.write(47 * 3, {}, {}, buffer)
    checkpoint = Checkpoints(tmp_path, keep=1).newest(pytest.fail)
    assert checkpoint is not None
    assert [chunk["rows"] for chunk in checkpoint.chunks] == [6] * 7 + [5]
    assert_same(content(loaded(make, 50, 3, checkpoint, Checkpoints(tmp_path, keep=1))), content(buffer))
