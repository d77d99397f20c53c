"""`Loop`: environment steps, evaluations, checkpoints and logs for the training loop of a `Runner`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from mygym.errors import RunError
from mygym.runs.curves import Curves
from mygym.runs.evaluation import Evaluation
from mygym.runs.evaluation_callback import EvaluationCallback
from mygym.runs.nested_callbacks import find_callback

Observations = Any
"""`(n_envs, …)` float32, or a dictionary of such arrays for goal environments."""

SEEDS = 2**30
"""Number of training seeds; the seeds of evaluations begin here (`mygym.runs.evaluation.episode_seeds`)."""


@dataclass(frozen=True)
class Transitions:
    """Env steps of a rollout in their order: arrays `(n, n_envs, …)`, or dictionaries of such arrays."""

    observations: Observations
    """Before each step."""
    actions: NDArray[Any]
    """As `act` returned them."""
    rewards: NDArray[np.float32]
    """`(n, n_envs)`."""
    terminated: NDArray[np.bool_]
    """`(n, n_envs)`: whether the episode has ended for good, so that no rewards follow."""
    truncated: NDArray[np.bool_]
    """`(n, n_envs)`: whether the horizon has ended the episode."""
    next_observations: Observations
    """After each step; at the end of an episode its last observation, not the first of the next."""
    infos: Sequence[Any]
    """`n` lists of `n_envs` dictionaries."""

    def flat(self) -> Transitions:
        """Return the env steps as rows `(n · n_envs, …)`, for a replay buffer; the infos become a single list."""
        rows = {name: _flattened(value) for name, value in vars(self).items() if name != "infos"}
        return Transitions(**rows, infos=[info for infos in self.infos for info in infos])


class Loop:
    """Argument of `Runner.training`: steps the environments, evaluates, writes checkpoints, ends the training.

    Args:
        runner: The `Runner` that trains.
        envs: Training environments: an SB3 vector environment, monitored, and normalised if the config asks for it.
        callback: All callbacks of the training, combined in an SB3 callback.
        total_steps: Env steps after which `next_iteration` returns False.
        end_iteration: Function that is called at the end of every iteration.
    """

    def __init__(
        self,
        runner: BaseAlgorithm,
        envs: VecEnv,
        callback: BaseCallback,
        total_steps: int,
        end_iteration: Callable[[], None],
    ) -> None:
        self.runner = runner
        self.envs = envs
        self.callback = callback
        self.total_steps = total_steps
        self.over = False
        """Whether training has ended."""
        self._end_iteration = end_iteration
        self._iterating = False
        self._stepped = False

    @property
    def num_timesteps(self) -> int:
        """Env steps so far, including those before a resumed run's checkpoint."""
        return self.runner.num_timesteps

    @property
    def observations(self) -> Observations:
        """Current observations of the environments."""
        return self.runner._last_obs

    @property
    def episode_starts(self) -> NDArray[np.bool_]:
        """`(n_envs,)`: whether the current observation is the first of an episode."""
        starts: NDArray[np.bool_] = self.runner._last_episode_starts  # type: ignore[assignment]
        return starts

    def next_iteration(self) -> bool:
        """End an iteration, and begin the next iteration if env steps remain.

        Only between iterations, the log is written, the policy is evaluated at marks, checkpoints are written, and
        Ctrl-C and SIGTERM are handled. In a resumed run, the first call loads the checkpoint. Afterwards the policy is
        in evaluation mode.

        Returns:
            Whether a next iteration has begun.

        Raises:
            RunError: `step` was not called since the last call, so the training would never end.
        """
        runner = self.runner
        if self.over:
            return False
        if self._iterating:
            if not self._stepped:
                why = "took no environment step between two calls of loop.next_iteration()"
                raise RunError(f"{type(runner).__name__}.training {why}, so it would never end")
            self.callback.on_rollout_end()
            self._end_iteration()
        self._iterating = self._stepped = False
        if runner.num_timesteps >= self.total_steps:
            self.end()
            return False
        self.callback.on_rollout_start()
        runner._update_current_progress_remaining(runner.num_timesteps, self.total_steps)
        runner.policy.set_training_mode(False)
        self._iterating = True
        return True

    def step(
        self, actions: torch.Tensor | NDArray[Any]
    ) -> tuple[Observations, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step every training environment once.

        Args:
            actions: `(n_envs, …)`, as returned by the policy: unscaled if it squashes its output, else clipped.

        Returns:
            Observations (after the end of an episode, the first of the next; `rollout` has the last), rewards
            `(n_envs,)`, whether an episode has ended `(n_envs,)`, and infos.

        Raises:
            RunError: `next_iteration` was not called before, or returned False.
            TrainingStopped: A callback ended the training; `learn` handles it.
        """
        runner = self.runner
        self._check_iterating("loop.step()")
        values = actions.detach().cpu().numpy() if isinstance(actions, torch.Tensor) else actions
        observations, rewards, dones, infos = self.envs.step(self._within_bounds(values))
        runner.num_timesteps += self.envs.num_envs
        self._stepped = True
        runner._update_current_progress_remaining(runner.num_timesteps, self.total_steps)
        self.callback.update_locals(
            {"actions": values, "new_obs": observations, "rewards": rewards, "dones": dones, "infos": infos}
        )
        if not self.callback.on_step():
            raise TrainingStopped
        runner._update_info_buffer(infos, dones)
        runner._last_obs = observations  # type: ignore[assignment]
        runner._last_episode_starts = dones
        return observations, rewards, dones, infos

    def rollout(self, steps: int, act: Callable[[Observations], Any]) -> Transitions:
        """Step every training environment `steps` times.

        Args:
            steps: Number of steps of each environment, at least 1.
            act: Returns the actions `(n_envs, …)`, as for `step`, for observations `(n_envs, …)`.

        Returns:
            The transitions `(steps, n_envs, …)`, with the last observations of the episodes that have ended.

        Raises:
            RunError: `steps` is below 1, `act` does not return an array, or as for `step`.
            TrainingStopped: A callback ended the training; `learn` handles it.
        """
        name = f"{type(self.runner).__name__}.training"
        if steps < 1:
            raise RunError(f"{name}: loop.rollout({steps}, …); allowed: 1 or more steps")
        self._check_iterating("loop.rollout()")
        rows: list[tuple[Any, ...]] = []
        for _ in range(steps):
            before = self.observations
            actions = act(before)
            if isinstance(actions, tuple):
                why = "`act` returned a tuple; allowed: an array of actions, e.g. predict(observations)[0]"
                raise RunError(f"{name}: loop.rollout({steps}, act): {why}")
            after, rewards, dones, infos = self.step(actions)
            truncated = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
            actions = actions.detach().cpu() if isinstance(actions, torch.Tensor) else actions
            rows.append((before, actions, rewards, dones & ~truncated, truncated, _last(after, dones, infos), infos))
        *columns, of_steps = zip(*rows, strict=True)
        values: list[Any] = [*map(_stacked, columns), of_steps]
        return Transitions(*values)

    def reset(self, seed: int | None = None) -> Observations:
        """Reset every training environment; unfinished episodes are dropped and not counted.

        Args:
            seed: Seed below `SEEDS`: every environment begins the same episode, e.g. to compare candidates. None: every
                environment begins its next episode.

        Returns:
            The first observations of the new episodes, as `observations`.

        Raises:
            RunError: `next_iteration` was not called before or returned False, or the seed is out of range.
        """
        self._check_iterating("loop.reset()")
        if seed is not None:
            if not 0 <= seed < SEEDS:  # larger seeds belong to evaluations
                raise RunError(f"{type(self.runner).__name__}.training: loop.reset({seed}); allowed: 0 to {SEEDS - 1}")
            inner = self.envs
            while isinstance(inner, VecEnvWrapper):
                inner = inner.venv
            inner._seeds = [int(seed)] * inner.num_envs  # `seed()` gives each environment a different seed
        self.runner._last_obs = self.envs.reset()  # type: ignore[assignment]
        self.runner._last_episode_starts = np.ones(self.envs.num_envs, dtype=bool)
        return self.observations

    def evaluate(self) -> Evaluation:
        """Evaluate the current policy over `eval.episodes` episodes in the evaluation environments.

        The result is not recorded and does not select the best model; the runner decides its use.

        Returns:
            The episodes and their success rate.

        Raises:
            RunError: `learn` was called outside a run, so evaluation environments are missing.
        """
        evaluations = find_callback(self.callback, EvaluationCallback)
        if evaluations is None:
            raise RunError(f"{type(self.runner).__name__}.training: loop.evaluate() is for runs of mygym.train")
        evaluation = evaluations.extra()
        self.runner.policy.set_training_mode(False)
        return evaluation

    @property
    def at_mark(self) -> bool:
        """Whether the next call of `next_iteration` evaluates: the time to compute figures that are expensive.

        It is known after the env steps of the iteration.
        """
        evaluations = find_callback(self.callback, EvaluationCallback)
        return evaluations is not None and self.num_timesteps >= evaluations.marks.next

    def record(self, name: str, value: float | torch.Tensor) -> None:
        """Record a figure of the runner, such as a loss on training, validation or test data.

        The next mark has the mean of the values since the last mark: in the curves and in result.json as `figures`, in
        progress.jsonl and TensorBoard as `figures/NAME`. When the run ends or stops, the mean of the values after the
        last mark is logged as well, and is in `last_interval` of result.json.

        Args:
            name: Name of the figure.
            value: A finite number, or a tensor with a single element.

        Raises:
            RunError: The value is not a finite number.
        """
        try:
            number = float(value.detach() if isinstance(value, torch.Tensor) else value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise RunError(
                f"{type(self.runner).__name__}.training: loop.record({name!r}, {value!r}) is no finite number"
            )
        evaluations = find_callback(self.callback, EvaluationCallback)
        if evaluations is not None:
            evaluations.figures.add(str(name), number)

    def curves(self) -> Curves:
        """Return the figures at all marks so far; empty outside a run."""
        evaluations = find_callback(self.callback, EvaluationCallback)
        return Curves.of(evaluations.records if evaluations is not None else ())

    def end(self) -> None:
        """End training, with a last evaluation if a mark has been passed; called by `next_iteration`."""
        if not self.over:
            self.over, self._iterating = True, False
            self.callback.on_training_end()

    def _check_iterating(self, call: str) -> None:
        if not self._iterating:
            name = type(self.runner).__name__
            raise RunError(f"{name}.training: {call} without a loop.next_iteration() that returned True")

    def _within_bounds(self, actions: NDArray[Any]) -> NDArray[Any]:
        space = self.runner.action_space
        if not isinstance(space, spaces.Box):
            return actions
        if self.runner.policy.squash_output:
            return self.runner.policy.unscale_action(actions)
        clipped: NDArray[Any] = np.clip(actions, space.low, space.high)
        return clipped


def _last(after: Observations, dones: NDArray[np.bool_], infos: Sequence[Mapping[str, Any]]) -> Observations:
    """Return the observations after a step, with the last observation of each episode that has ended."""
    ended = np.flatnonzero(dones).tolist()
    if not ended:
        return after
    last = _stacked([infos[index]["terminal_observation"] for index in ended])
    if not isinstance(after, dict):
        return _replaced(after, ended, last)
    return {key: _replaced(array, ended, last[key]) for key, array in after.items()}


def _replaced(array: NDArray[Any], rows: list[int], values: NDArray[Any]) -> NDArray[Any]:
    array = array.copy()
    array[rows] = values
    return array


def _stacked(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        return {key: np.stack([value[key] for value in values]) for key in values[0]}
    return np.stack(values)


def _flattened(values: Any) -> Any:
    """Return arrays `(n, n_envs, …)` as `(n · n_envs, …)`."""
    if isinstance(values, dict):
        return {key: _flattened(array) for key, array in values.items()}
    return values.reshape(-1, *values.shape[2:])


class TrainingStopped(Exception):  # noqa: N818  (no error)
    """Raised when a callback ends training in the middle of an iteration."""
