"""Rollouts of PPO on a GPU: environments, normalisation, policy and advantages in tensors, without a wait in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_wrapper

from mygym.algos.device_rollouts import DeviceRollouts, DictDeviceRollouts
from mygym.envs.fused_envs import BatchStep
from mygym.envs.fused_vec_env import FusedVecEnv
from mygym.errors import DivergedError
from mygym.fused.captured_step import capture_or_refuse
from mygym.runs.device_normalizer import DeviceNormalizer, Observations
from mygym.runs.nested_callbacks import find_callback
from mygym.runs.strategy_callback import StrategyCallback
from mygym.runs.variance_floor import FlooredNormalize, LastObservations
from mygym.runs.vec_envs.episode_monitor import EpisodeMonitor
from mygym.tasks.episode import LARGE_BATCH

FIGURES = tuple(field.name for field in fields(BatchStep) if field.name not in ("observations", "last"))
"""Fields of `BatchStep` that infos and logs contain."""


class DeviceCollection:
    """Collects rollouts of an on-policy algorithm of SB3, as its `collect_rollouts` does.

    The callbacks are called after the rollout, once for each of its steps, with the infos, rewards and ends of that
    step: the policy is the same for the whole rollout. The environments are then at the end of the rollout.

    Args:
        model: The algorithm.
        env: Its environments.
    """

    def __init__(self, model: Any, env: VecEnv) -> None:
        self.model = model
        self.vec_env: FusedVecEnv = env.unwrapped  # type: ignore[assignment]
        self.envs = self.vec_env.fused
        self.env, self.monitor = env, unwrap_vec_wrapper(env, EpisodeMonitor)
        normalizer = unwrap_vec_wrapper(env, FlooredNormalize)
        self.normalizer = None if normalizer is None else DeviceNormalizer(normalizer, model.device)
        self.observations: Observations = {}
        """Normalised observations before the next step."""
        low, high = model.action_space.low, model.action_space.high
        self._low, self._high = (torch.as_tensor(bound, device=model.device) for bound in (low, high))
        self._step: Callable[[], dict[str, Any]] | None = None
        self._constants: tuple[Any, ...] = ()

    @staticmethod
    def suits(model: Any, env: VecEnv, callback: BaseCallback) -> bool:
        """Return whether a rollout can stay on the device: neither wrappers nor strategies need a step in numpy."""
        batch, strategies = env.unwrapped, find_callback(callback, StrategyCallback)
        layers = []
        while env is not batch:
            layers.append(type(env))
            env = env.venv  # type: ignore[attr-defined]
        return (
            isinstance(batch, FusedVecEnv)
            and batch.fused.arrays.device is not None
            and batch.fused.count >= LARGE_BATCH  # fewer episodes are evaluated stage by stage, which waits
            and batch.fused.arrays.device.type == model.device.type
            and set(layers) <= {EpisodeMonitor, FlooredNormalize, LastObservations}
            and not (strategies and strategies.strategies)
            and isinstance(model.action_space, spaces.Box)
            and isinstance(model.rollout_buffer, DeviceRollouts | DictDeviceRollouts)
            and not model.use_sde
            and not model.policy.squash_output
        )

    def collect(self, callback: BaseCallback, steps: int) -> bool:
        """Collect a rollout; return whether the training continues."""
        model = self.model
        model.policy.set_training_mode(False)
        model.rollout_buffer.reset()
        callback.on_rollout_start()
        self._load()
        with torch.no_grad():
            step = self._prepared()
            outcomes = [step() for _ in range(steps)]
            rollout = _stacked(outcomes)
            last_values = model.policy.predict_values(self._arranged(self.observations)).flatten()
            figures, values = rollout["figures"], rollout["values"]
            ends = figures["terminated"] | figures["truncated"]
            rewards = figures["reward"] + model.gamma * rollout["last_values"] * figures["truncated"]  # SB3 #633
            advantages = self._advantages(rewards, torch.cat([values, last_values[None]]), ends)
        if not bool(torch.isfinite(rollout["actions"]).all()):
            raise DivergedError("an action is not finite")
        self._store(ends[-1])
        arrays = {name: array.cpu().numpy() for name, array in figures.items()}
        reports = [
            BatchStep({}, {}, **{name: array[number] for name, array in arrays.items()}) for number in range(steps)
        ]
        for number, report in enumerate(reports):
            if not self._report(callback, report):
                for rest in reports[number + 1 :]:  # the environments are at the end of the rollout
                    self._monitored(rest)
                return False
        model.rollout_buffer.fill(
            {
                "observations": self._arranged(rollout["observations"]),
                "actions": rollout["actions"],
                "old_values": values,
                "old_log_prob": rollout["log_probs"],
                "advantages": advantages,
                "returns": advantages + values,
            }
        )
        callback.on_rollout_end()
        return True

    def _prepared(self) -> Callable[[], dict[str, Any]]:
        """Return `advance`; on a GPU captured, again if a value has changed that is a constant of the graph."""
        constants = self.model.policy, None if self.normalizer is None else self.normalizer.constants
        if self._step is None or constants != self._constants:
            self._constants, self._step = constants, self.advance
            if self.model.device.type == "cuda":
                self._step = capture_or_refuse(self, self.advance)
        return self._step

    def advance(self) -> dict[str, Any]:
        """Make a step of policy and environments; it waits for nothing, so that `CapturedStep` can capture it."""
        model, observations = self.model, self.observations
        actions, values, log_probs = model.policy(self._arranged(observations))
        step = self.envs.advance(torch.minimum(torch.maximum(actions, self._low), self._high))
        if self.normalizer is not None:
            self.normalizer.update(self._keyed(step.observations))
        self.observations = self._normalized(step.observations)
        last = model.policy.predict_values(self._arranged(self._normalized(step.last))).flatten()
        return {
            "observations": observations,
            "actions": actions,
            "values": values.flatten(),
            "log_probs": log_probs,
            "last_values": last,
            "figures": {name: getattr(step, name) for name in FIGURES},
        }

    def variables(self) -> list[torch.Tensor]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        statistics = [] if self.normalizer is None else self.normalizer.variables()
        return [*self.observations.values(), *statistics, *self.envs.variables()]

    def set_variables(self, arrays: Iterable[torch.Tensor]) -> None:
        """Replace the arrays of `variables`."""
        rest = iter(arrays)
        self.observations = {key: next(rest) for key in self.observations}
        if self.normalizer is not None:
            self.normalizer.set_variables(rest)
        self.envs.set_variables(rest)

    def _load(self) -> None:
        """Take last observations and statistics from the algorithm and the normaliser."""
        if self.normalizer is not None:
            self.normalizer.load()
        last = self.model._last_obs
        last = last if isinstance(last, dict) else {"": last}
        self.observations = {key: torch.as_tensor(value, device=self.model.device) for key, value in last.items()}

    def _store(self, ends: torch.Tensor) -> None:
        """Give last observations and statistics to the algorithm and the normaliser."""
        if self.normalizer is not None:
            self.normalizer.store()
        last = {key: value.cpu().numpy() for key, value in self.observations.items()}
        self.model._last_obs = self._arranged(last)
        self.model._last_episode_starts = ends.cpu().numpy()

    def _monitored(self, step: BatchStep) -> tuple[Any, list[dict[str, Any]]]:
        """Count a step of the episodes; return `(N,)` bool: whether they have ended, and the infos."""
        dones, infos = step.terminated | step.truncated, self.vec_env.infos(step)
        return dones, infos if self.monitor is None else self.monitor.record(step.reward, dones, infos)

    def _report(self, callback: BaseCallback, step: BatchStep) -> bool:
        """Count a step; call the callback; return whether the training continues."""
        model = self.model
        dones, infos = self._monitored(step)
        model.num_timesteps += self.vec_env.num_envs
        callback.update_locals({"self": model, "infos": infos, "rewards": step.reward, "dones": dones})
        if not callback.on_step():
            return False
        ended = np.flatnonzero(dones)
        model._update_info_buffer([infos[index] for index in ended.tolist()], dones[ended])
        return True

    def _advantages(self, rewards: torch.Tensor, values: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Return generalised advantage estimates `(T, N)`, as SB3's buffer computes them.

        Args:
            rewards: `(T, N)`.
            values: `(T + 1, N)`.
            ends: `(T, N)` bool: the episode has ended in the step.
        """
        model, continues = self.model, 1.0 - ends.float()
        errors = rewards + model.gamma * values[1:] * continues - values[:-1]
        following, advantages = torch.zeros_like(rewards[0]), []
        for error, continued in zip(errors.flip(0), continues.flip(0), strict=True):
            following = error + model.gamma * model.gae_lambda * continued * following
            advantages.append(following)
        return torch.stack(advantages[::-1])

    def _keyed(self, observations: Any) -> Observations:
        """Return observations by key; an empty key for flat observations."""
        arranged = self.envs.arranged(observations)
        return arranged if isinstance(arranged, dict) else {"": arranged}

    def _normalized(self, observations: Any) -> Observations:
        keyed = self._keyed(observations)
        return keyed if self.normalizer is None else self.normalizer.normalize(keyed)

    def _arranged(self, observations: dict[str, Any]) -> Any:
        """Return a dictionary as the policy takes observations."""
        return observations if self.envs.goal_env else observations[""]


def _stacked(outcomes: list[Any]) -> Any:
    """Return the arrays of dictionaries, stacked."""
    if isinstance(outcomes[0], dict):
        return {key: _stacked([outcome[key] for outcome in outcomes]) for key in outcomes[0]}
    return torch.stack(outcomes)
