"""Replay and imitation buffers: images stored once, demonstrations, and hindsight for several tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import BaseBuffer, DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, TensorDict
from stable_baselines3.common.vec_env import VecNormalize

from mygym.nested import map_arrays

Arrays = dict[str, NDArray[Any]]
Separate = dict[tuple[int, int], Arrays]
"""Row and environment → arrays."""

NUMBERS, SEPARATE = "separate.numbers", "separate.of."
"""Key of rows and environments in a checkpoint; beginning of the keys of their arrays."""


class FrameReplayBuffer(DictReplayBuffer):
    """Replay buffer of dictionary observations that stores each observation once, where SB3's stores it twice.

    The next observation of a row is the observation of the following row; where it is not, as at the end of an episode,
    it is stored separately.

    Args:
        buffer_size: Total number of rows, shared by the environments.
        observation_space: Dictionary of images `(C, H, W)` and vectors.
        action_space: Space of the actions.
        device: Device of the samples.
        n_envs: Number of environments.
        optimize_memory_usage: False; present because SB3 passes it.
        handle_timeout_termination: Whether an episode that ends by its time limit counts as not terminated.
        frames: Number of images that each image of an observation stacks as channels, the newest last. A stack begins
            with copies of the first image of its episode. Only the newest image is stored.

    Raises:
        ValueError: `optimize_memory_usage` is true.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        frames: int = 1,
    ) -> None:
        if optimize_memory_usage:
            raise ValueError("optimize_memory_usage: this buffer stores observations once in any case")
        rows = max(buffer_size // n_envs, 1)
        super(ReplayBuffer, self).__init__(rows, observation_space, action_space, device, n_envs=n_envs)
        self.optimize_memory_usage, self.handle_timeout_termination = False, handle_timeout_termination
        types = {name: observation_space[name].dtype for name in self.obs_shape}
        self.frames = frames
        self.stacked = set(images_of(observation_space)) if frames > 1 else set()
        """Keys of images that are stacks."""
        shapes = {
            name: (shape[0] // frames, *shape[1:]) if name in self.stacked else shape
            for name, shape in self.obs_shape.items()
        }
        self.observations = {name: np.zeros((rows, n_envs, *shape), types[name]) for name, shape in shapes.items()}
        self.actions = np.zeros((rows, n_envs, self.action_dim), self._maybe_cast_dtype(action_space.dtype))
        self.rewards, self.dones, self.timeouts = (np.zeros((rows, n_envs), np.float32) for _ in range(3))
        self.newest: Arrays = {name: np.zeros((n_envs, *shape), types[name]) for name, shape in self.obs_shape.items()}
        """Next observations of the newest row."""
        if self.stacked:
            self.earlier = np.zeros((rows, n_envs), np.uint8)
            """Number of earlier images in the stack of a row."""
        self.separate: Separate = {}
        """Next observations that are not the observation of the next row."""

    @property
    def end_bytes(self) -> int:
        """Bytes of a next observation that is stored separately."""
        return sum(array[0].nbytes for array in self.newest.values())

    def add(  # type: ignore[override]
        self,
        obs: Arrays,
        next_obs: Arrays,
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[np.bool_],
        infos: list[dict[str, Any]],
    ) -> None:
        """Add a row: a transition of each environment."""
        observations = self._shaped(obs)
        for env in range(self.n_envs):
            self._connect(env, {name: array[env] for name, array in observations.items()})
        for name, array in observations.items():
            kept = self.observations[name]
            kept[self.pos] = array[:, -kept.shape[2] :] if name in self.stacked else array
        self.newest = self._shaped(next_obs)
        self.actions[self.pos] = action.reshape(self.n_envs, self.action_dim)
        self.rewards[self.pos], self.dones[self.pos] = reward, done
        if self.handle_timeout_termination:
            self.timeouts[self.pos] = [info.get("TimeLimit.truncated", False) for info in infos]
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    def _shaped(self, observations: Arrays) -> Arrays:
        """Return copies of the arrays, each `(n_envs, …)`: SB3 gives numbers without their axis."""
        return {name: observations[name].reshape(self.n_envs, *shape).copy() for name, shape in self.obs_shape.items()}

    def _connect(self, env: int, observation: Arrays) -> None:
        """Store the next observation of the previous row separately unless it is the observation of the new row."""
        follows = all(np.array_equal(self.newest[name][env], observation[name]) for name in observation)
        previous = (self.pos - 1) % self.buffer_size, env
        if self.size() and not follows:
            self.separate[previous] = {name: array[env].copy() for name, array in self.newest.items()}
        if self.stacked:
            known = min(int(self.earlier[previous]) + 1, self.frames - 1)
            self.earlier[self.pos, env] = known if self.size() and follows else 0
        self.separate.pop((self.pos, env), None)

    def _get_samples(self, batch_inds: NDArray[np.int64], env: VecNormalize | None = None) -> DictReplayBufferSamples:  # type: ignore[override]
        envs = np.random.randint(self.n_envs, size=len(batch_inds))  # noqa: NPY002  (the draw of SB3's buffer)
        if self.stacked:
            batch_inds = self._complete(batch_inds, envs)
        observations = self._observed(batch_inds, envs)
        following = self._next_observations(batch_inds, envs)
        normalized: list[Any] = [self._normalize_obs(values, env) for values in (observations, following)]
        tensors = [{name: self.to_torch(array) for name, array in values.items()} for values in normalized]
        rows = batch_inds, envs
        rewards = self._normalize_reward(self.rewards[rows].reshape(-1, 1), env)
        return DictReplayBufferSamples(
            observations=tensors[0],
            actions=self.to_torch(self.actions[rows]),
            next_observations=tensors[1],
            dones=self.to_torch(self.dones[rows] * (1 - self.timeouts[rows])).reshape(-1, 1),
            rewards=self.to_torch(rewards),
        )

    def _complete(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return rows `(n,)`; in place of a row whose earlier images are overwritten, a later row."""
        age = (rows - self.pos) % self.buffer_size
        lacks = self.full & (age < self.earlier[rows, envs])
        return np.where(lacks, (rows + self.frames - 1) % self.buffer_size, rows)

    def _observed(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> Arrays:
        """Return the observations `(n, …)` of rows."""
        result = {name: array[rows, envs] for name, array in self.observations.items() if name not in self.stacked}
        if self.stacked:
            back = np.minimum(np.arange(self.frames)[::-1], self.earlier[rows, envs][:, None])
            numbers = (rows[:, None] - back) % self.buffer_size
        for name in self.stacked:
            images = self.observations[name][numbers, envs[:, None]]  # (n, frames, C, H, W)
            result[name] = images.reshape(len(rows), -1, *images.shape[3:])
        return {name: result[name] for name in self.observations}

    def _next_observations(self, rows: NDArray[np.int64], envs: NDArray[np.int64]) -> Arrays:
        """Return the next observations `(n, …)` of rows."""
        result = self._observed((rows + 1) % self.buffer_size, envs)
        is_newest = rows == (self.pos - 1) % self.buffer_size
        separate = [self.separate.get(key) for key in zip(rows, envs, strict=True)]
        for name, values in result.items():
            values[is_newest] = self.newest[name][envs[is_newest]]
            for index, arrays in enumerate(separate):
                if arrays is not None:
                    values[index] = arrays[name]
        return result

    # Checkpoints --------------------------------------------------------------------------------------------------

    def separate_rows(self, first: int, last: int) -> Arrays:
        """Return the separately stored data for the rows from `first` to `last - 1`, counted since the start.

        The next observation of row `last - 1` may still be `newest`, so that of the row before `first` takes its place.
        """
        numbers = [
            (row, env)
            for row in range(first - 1, last - 1)
            for env in range(self.n_envs)
            if (row % self.buffer_size, env) in self.separate
        ]
        if not numbers:
            return {}
        chosen = [self.separate[row % self.buffer_size, env] for row, env in numbers]
        stacked = {f"{SEPARATE}{name}": np.stack([each[name] for each in chosen]) for name in chosen[0]}
        return {NUMBERS: np.array(numbers), **stacked}

    def load_separate_rows(self, arrays: Mapping[str, NDArray[Any]], oldest: int) -> Arrays:
        """Add the arrays of `separate_rows` for the rows from `oldest`; return the other arrays."""
        rest = dict(arrays)
        numbers = rest.pop(NUMBERS, ())
        columns = {name: rest.pop(SEPARATE + name) for name in self.observations if SEPARATE + name in rest}
        for index, (row, env) in enumerate(numbers):
            if row >= oldest:
                slot = int(row) % self.buffer_size, int(env)
                self.separate[slot] = {name: column[index].copy() for name, column in columns.items()}
        return rest


def images_of(space: spaces.Space[Any]) -> Iterator[str]:
    """Yield the keys of the images of a dictionary."""
    for name, subspace in space.spaces.items() if isinstance(space, spaces.Dict) else ():
        if is_image_space(subspace):
            yield name


Tensors = torch.Tensor | TensorDict


class ImitationBuffer(BaseBuffer):
    """Ring buffer of observations and labels (the teacher's actions).

    As an algorithm's `replay_buffer` it is part of checkpoints, and each checkpoint writes only new rows (`ReplayLog`).
    Elsewhere it is saved by `state_dict`, with all rows.

    Args:
        buffer_size: Total number of rows, shared by the environments.
        observation_space: Space of the observations.
        action_space: Space of the labels, a `Box`.
        device: Device of the samples.
        n_envs: Number of rows per call of `add`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
    ) -> None:
        super().__init__(max(buffer_size // n_envs, 1), observation_space, action_space, device, n_envs)
        rows = self.buffer_size, n_envs
        self.observations = map_arrays(lambda each: np.zeros((*rows, *each.shape), each.dtype), observation_space)
        self.actions = np.zeros((self.buffer_size, n_envs, self.action_dim), dtype=np.float32)
        self.optimize_memory_usage = False

    def add(self, observations: Any, actions: NDArray[np.float32]) -> None:
        """Add a row for each environment: observations `(n_envs, …)` and labels `(n_envs, A)`."""

        def write(rows: NDArray[Any], new: NDArray[Any]) -> None:
            rows[self.pos] = new

        map_arrays(write, self.observations, observations)
        self.actions[self.pos] = actions
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    def _get_samples(self, batch_inds: NDArray[np.int64], env: Any = None) -> tuple[Tensors, torch.Tensor]:  # type: ignore[override]
        """Return observations, normalised by `env` if given, and labels of rows of randomly chosen environments."""
        rows = batch_inds, np.random.randint(self.n_envs, size=len(batch_inds))  # noqa: NPY002  (as SB3's buffers)
        observations = self._normalize_obs(map_arrays(lambda array: array[rows], self.observations), env)
        return map_arrays(self.to_torch, observations), self.to_torch(self.actions[rows])

    def state_dict(self) -> dict[str, Any]:
        """Return the filled rows and the position of the next row."""
        rows = {name: array[: self.size()].copy() for name, array in self._arrays().items()}
        return {"rows": rows, "pos": self.pos, "full": self.full}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; raise `ValueError` if its rows do not fit."""
        for name, array in self._arrays().items():
            rows = state["rows"][name]
            array[: len(rows)] = rows
        self.pos, self.full = int(state["pos"]), bool(state["full"])

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return every array of rows by name."""
        observations = self.observations if isinstance(self.observations, dict) else {"": self.observations}
        return {"actions": self.actions, **{f"observations.{name}": array for name, array in observations.items()}}


KEPT = ("variant", "TimeLimit.truncated")
"""Keys of a transition's info to keep: the variant, whose reward function is used, and SB3's time-limit flag."""


class MultiTaskHerReplayBuffer(HerReplayBuffer):
    """Hindsight replay buffer that stores the task variant of each transition instead of the whole info.

    Args:
        *args: As for `HerReplayBuffer`.
        **kwargs: As for `HerReplayBuffer`; `copy_info_dict` passes the variant to `compute_reward`.
    """

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        """Add a transition of every environment."""
        kept = [{key: info[key] for key in KEPT if key in info} for info in infos]
        super().add(obs, next_obs, action, reward, done, kept)
