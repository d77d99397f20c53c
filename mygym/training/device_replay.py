"""Replay buffers in tensors on the device of the networks: uniform, and with hindsight (Andrychowicz et al., 2017).

They hold the arrays of SB3's buffers, by the same names. SB3's buffers copy each minibatch from numpy, and count the
episodes of hindsight in Python, environment by environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from mygym.engines.arrays import Arrays, check_memory, free_memory
from mygym.nested import map_arrays
from mygym.training.vec_wrappers import FLOOR, MASKED, NEGLIGIBLE, FlooredNormalize, running_statistics

Observations = dict[str, torch.Tensor]


class DeviceNormalizer:
    """Normalises observations as a `FlooredNormalize` does, up to rounding.

    Args:
        normalizer: The statistics come from it at `load`, and return at `store`.
        device: Device of the tensors.
    """

    def __init__(self, normalizer: FlooredNormalize, device: torch.device) -> None:
        self._normalizer, self._device = normalizer, device
        self.load()

    @property
    def constants(self) -> tuple[Any, ...]:
        """Values of the normaliser on which its operations depend."""
        return self._normalizer.training, self._normalizer.clip_obs, self._normalizer.epsilon

    def load(self) -> None:
        """Take the statistics of the normaliser, in a single copy."""
        arrays = [np.asarray(getattr(each, name)) for each, name in self._statistics()]
        flat = np.concatenate([array.ravel() for array in arrays])
        values = torch.tensor(flat, dtype=torch.float64, device=self._device)
        parts = torch.split(values, [array.size for array in arrays])
        self.set_variables(part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True))

    def store(self) -> None:
        """Give the statistics to the normaliser, in a single copy."""
        tensors = self.variables()
        values = torch.cat([tensor.ravel() for tensor in tensors]).cpu()
        parts = torch.split(values, [tensor.numel() for tensor in tensors])
        for (each, name), tensor, part in zip(self._statistics(), tensors, parts, strict=True):
            setattr(each, name, part.reshape(tensor.shape).numpy() if tensor.ndim else part.item())

    def _statistics(self) -> Iterator[tuple[Any, str]]:
        """Yield SB3's running statistics and the attributes with their values, in the order of the variables."""
        for name in ("mean", "var", "count"):
            yield from ((each, name) for each in running_statistics(self._normalizer).values())

    def update(self, observations: Observations) -> None:
        """Take the observations `(N, …)` of a step into account, see `FlooredMeanStd`."""
        if not self._normalizer.training:
            return
        for key, values in observations.items():
            values, number = values.double(), len(values)
            count, mean, var = self._count[key], self._mean[key], self._var[key]
            var = torch.where(var == MASKED, 0.0, var)
            total, change = count + number, values.mean(0) - mean
            squares = var * count + values.var(0, correction=0) * number + change**2 * count * number / total
            self._mean[key], self._count[key] = mean + change * number / total, total
            var = squares / total
            self._var[key] = torch.where(var < NEGLIGIBLE, MASKED, var.clamp(min=FLOOR))

    def normalize(self, observations: Observations) -> Observations:
        """Return normalised observations, float32."""
        clip, epsilon = self._normalizer.clip_obs, self._normalizer.epsilon
        return {
            key: ((values - self._mean[key]) / torch.sqrt(self._var[key] + epsilon)).clamp(-clip, clip).float()
            for key, values in observations.items()
        }

    def variables(self) -> list[torch.Tensor]:
        """Return the statistics, in the order of `set_variables`."""
        return [*self._mean.values(), *self._var.values(), *self._count.values()]

    def set_variables(self, arrays: Iterable[torch.Tensor]) -> None:
        """Replace the statistics by the next of `arrays`."""
        rest, keys = iter(arrays), running_statistics(self._normalizer)
        self._mean, self._var, self._count = ({key: next(rest) for key in keys} for _ in range(3))


Tensors = Any
"""A tensor, or a dictionary of tensors for dictionary observations."""

Samples = ReplayBufferSamples | DictReplayBufferSamples
"""A minibatch."""

BLOCK = 2**20
"""Number of transitions that are drawn together, at most."""


class InTensors:
    """Mixin of SB3's replay buffers whose arrays are tensors."""

    device: torch.device
    buffer_size: int
    n_envs: int
    pos: int
    full: bool
    observations: Tensors
    next_observations: Tensors
    actions: Any
    rewards: Any
    dones: Any
    timeouts: Any
    handle_timeout_termination: bool
    _samples: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        arrays = {name: value for name, value in vars(self).items() if _is_numbers(value)}
        size = sum(array.nbytes for value in arrays.values() for array in _leaves(value))
        rows, free = self.buffer_size * self.n_envs, free_memory(Arrays(None, self.device))
        check_memory("algo_params.buffer_size", rows, size, free, f"on {self.device}")
        for name, value in arrays.items():
            setattr(self, name, _zeros(value, self.device))

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        """Add a row in numpy, with the infos of the environments, as SB3's buffers do."""
        timeouts = [info.get("TimeLimit.truncated", False) for info in infos]
        self.store(obs, next_obs, action, reward, done, np.array(timeouts))

    def store(
        self, observations: Tensors, next_observations: Tensors, actions: Any, rewards: Any, dones: Any, timeouts: Any
    ) -> None:
        """Add a row: a transition of each environment, in arrays `(n_envs, …)`.

        Args:
            observations: Before the step.
            next_observations: After the step, before any reset.
            actions: In the bounds of the policy, [-1, 1], or numbers of discrete actions.
            rewards: `(n_envs,)`.
            dones: `(n_envs,)` bool: the episode has ended.
            timeouts: `(n_envs,)` bool: it has ended without a terminal state.
        """
        row = self.pos
        _set(self.observations, row, observations)
        _set(self.next_observations, row, next_observations)
        _set(self.actions, row, actions)
        _set(self.rewards, row, rewards)
        _set(self.dones, row, dones)
        if self.handle_timeout_termination:
            _set(self.timeouts, row, timeouts)
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Return a random minibatch, normalised by `env`."""
        return next(self.batches(batch_size, 1, env))

    def batches(self, batch_size: int, count: int, env: VecNormalize | None = None) -> Iterator[Samples]:
        """Yield random minibatches; as many as fit into `BLOCK` transitions are drawn and normalised together.

        Args:
            batch_size: Transitions in a minibatch.
            count: Number of minibatches.
            env: Normaliser of the run, a `FlooredNormalize`; None: observations are not normalised.
        """
        normalizer: Any = None if env is None else DeviceNormalizer(env, self.device)  # type: ignore[arg-type]
        while count > 0:
            drawn = min(count, max(BLOCK // batch_size, 1))
            fields = self._drawn(batch_size, drawn)
            if normalizer is not None:
                for name in ("observations", "next_observations"):
                    keyed = fields[name] if isinstance(fields[name], dict) else {"": fields[name]}
                    normalized = normalizer.normalize(keyed)
                    fields[name] = normalized if isinstance(fields[name], dict) else normalized[""]
            for number in range(drawn):
                rows = slice(number * batch_size, (number + 1) * batch_size)
                yield self._samples(**map_arrays(itemgetter(rows), fields))
            count -= drawn

    def _drawn(self, batch_size: int, count: int) -> dict[str, Tensors]:
        """Return the fields of minibatches, `(count · batch_size, …)`."""
        filled = (self.buffer_size if self.full else self.pos) * self.n_envs
        return self._fields(torch.randint(filled, (count * batch_size,), device=self.device))

    def _fields(self, numbers: torch.Tensor) -> dict[str, Tensors]:
        """Return the fields of transitions with the numbers row · n_envs + environment."""
        dones = _selected(self.dones, numbers) * (1.0 - _selected(self.timeouts, numbers))
        return {
            "observations": _selected(self.observations, numbers),
            "actions": _selected(self.actions, numbers),
            "next_observations": _selected(self.next_observations, numbers),
            "dones": dones[:, None],
            "rewards": _selected(self.rewards, numbers)[:, None],
        }


class DeviceReplayBuffer(InTensors, ReplayBuffer):
    """Transitions of flat observations."""

    _samples = ReplayBufferSamples


class DictDeviceReplayBuffer(InTensors, DictReplayBuffer):
    """Transitions of dictionary observations."""

    _samples = DictReplayBufferSamples


class DeviceHerReplayBuffer(InTensors, HerReplayBuffer):
    """Transitions of complete episodes; most get a goal that a later step of their episode has achieved."""

    _samples = DictReplayBufferSamples
    ep_start: Any
    ep_length: Any
    _current_ep_start: Any

    def store(
        self, observations: Tensors, next_observations: Tensors, actions: Any, rewards: Any, dones: Any, timeouts: Any
    ) -> None:
        """Add a row: a transition of each environment, in arrays `(n_envs, …)`."""
        row = self.pos
        overwritten = (self.ep_start == self.ep_start[row]) & (self.ep_length[row] > 0)
        self.ep_length *= ~overwritten  # the other transitions of these episodes cannot be sampled any more
        self.ep_start[row] = self._current_ep_start
        super().store(observations, next_observations, actions, rewards, dones, timeouts)
        self._complete(torch.as_tensor(dones, device=self.device))

    def truncate_last_trajectory(self) -> None:
        """Let the running episodes end, as SB3's buffer does when it is loaded."""
        running = self._current_ep_start != self.pos
        for array in (self.dones, self.timeouts) if self.handle_timeout_termination else (self.dones,):
            array[self.pos - 1, running] = 1.0
        self._complete(running)

    def _complete(self, ended: torch.Tensor) -> None:
        """Set the lengths of the episodes of `ended`, `(n_envs,)` bool, so that they can be sampled."""
        starts = self._current_ep_start
        length = (self.pos - starts) % self.buffer_size  # 0, as in SB3: an episode that fills the buffer is not sampled
        rows = torch.arange(self.buffer_size, device=self.device)[:, None]
        complete = ended & ((rows - starts) % self.buffer_size < length)
        self.ep_length = torch.where(complete, length, self.ep_length)
        self._current_ep_start = torch.where(ended, self.pos, starts)

    def _drawn(self, batch_size: int, count: int) -> dict[str, Tensors]:
        """Return the fields of minibatches, `(count · batch_size, …)`; the first of each minibatch have other goals.

        Raises:
            RuntimeError: The buffer has no complete episode.
        """
        order = torch.cumsum((self.ep_length > 0).flatten(), 0)
        if not bool(order[-1] > 0):
            why = "learning_starts is too early, or buffer_size too small, for hindsight replay"
            raise RuntimeError(f"the replay buffer has no complete episode: {why}")
        chosen = (torch.rand(count * batch_size, dtype=torch.float64, device=self.device) * order[-1]).long() + 1
        numbers = torch.searchsorted(order, chosen)
        fields = self._fields(numbers)
        virtual = (torch.arange(batch_size, device=self.device) < int(self.her_ratio * batch_size)).repeat(count)
        achieved = _selected(self.next_observations["achieved_goal"], self._goal_numbers(numbers))
        goal = torch.where(virtual[:, None], achieved, fields["observations"]["desired_goal"])
        for name in ("observations", "next_observations"):
            fields[name] = {**fields[name], "desired_goal": goal}
        assert self.env is not None
        reached = fields["next_observations"]["achieved_goal"]
        (rewards,) = self.env.env_method("compute_reward", reached, goal, [], indices=[0])
        fields["rewards"] = torch.where(virtual[:, None], rewards.float()[:, None], fields["rewards"])
        return fields

    def _goal_numbers(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return, for each transition, the transition of its episode whose achieved goal it gets."""
        rows, envs = numbers // self.n_envs, numbers % self.n_envs
        starts, lengths = self.ep_start[rows, envs], self.ep_length[rows, envs]
        first = torch.zeros_like(starts)
        if self.goal_selection_strategy is GoalSelectionStrategy.FINAL:
            first = lengths - 1
        elif self.goal_selection_strategy is GoalSelectionStrategy.FUTURE:
            first = (rows - starts) % self.buffer_size
        random = torch.rand(len(numbers), dtype=torch.float64, device=self.device)
        steps = first + (random * (lengths - first)).long()
        chosen: torch.Tensor = (starts + steps) % self.buffer_size * self.n_envs + envs
        return chosen


IN_TENSORS: dict[type | None, type] = {
    ReplayBuffer: DeviceReplayBuffer,
    DictReplayBuffer: DictDeviceReplayBuffer,
    HerReplayBuffer: DeviceHerReplayBuffer,
}
"""SB3's class → the same buffer in tensors."""


def _is_numbers(value: Any) -> bool:
    """Return whether a value is an array of numbers, or a dictionary of such arrays."""
    leaves = list(_leaves(value))
    return bool(leaves) and all(isinstance(leaf, np.ndarray) and leaf.dtype != object for leaf in leaves)


def _leaves(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else [value]


def _zeros(value: Any, device: torch.device) -> Tensors:
    """Return tensors of zeros with the shapes and types of arrays."""
    return map_arrays(
        lambda each: torch.zeros(each.shape, dtype=torch.from_numpy(each[:0]).dtype, device=device), value
    )


def _set(target: Tensors, row: int, values: Any) -> None:
    """Write a row."""

    def write(tensor: torch.Tensor, new: Any) -> None:
        tensor[row] = torch.as_tensor(new, device=tensor.device).reshape(tensor.shape[1:])

    map_arrays(write, target, values)


def _selected(values: Tensors, numbers: torch.Tensor) -> Tensors:
    """Return the transitions of numbers, row · n_envs + environment, from tensors `(rows, n_envs, …)`."""
    return map_arrays(lambda array: array.flatten(0, 1)[numbers], values)
