"""Steps of a policy and of the fused engine's environments on a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_wrapper

from mygym.algos.device.gradients import memory_of
from mygym.envs.fused_envs import BatchStep
from mygym.envs.fused_vec_env import FusedVecEnv
from mygym.fused.captured_step import capture_or_refuse
from mygym.runs.device_normalizer import DeviceNormalizer, Observations
from mygym.runs.nested_callbacks import find_callback
from mygym.runs.strategy_callback import StrategyCallback
from mygym.runs.variance_floor import FlooredNormalize, LastObservations
from mygym.runs.vec_envs.episode_monitor import EpisodeMonitor
from mygym.tasks.episode import LARGE_BATCH

FIGURES = tuple(field.name for field in fields(BatchStep) if field.name not in ("observations", "last"))
"""Fields of `BatchStep` that infos and logs contain."""


class DeviceSteps(ABC):
    """Steps of policy, environments and normalisation in tensors; on a GPU, each is a CUDA graph.

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
        """Observations before the next step."""
        self._step: Callable[..., dict[str, Any]] | None = None
        self._constants: tuple[Any, ...] = ()

    @staticmethod
    def suits(model: Any, env: VecEnv, callback: BaseCallback) -> bool:
        """Return whether steps can stay on the device: neither wrappers nor strategies need a step in numpy."""
        batch, of_strategies = env.unwrapped, find_callback(callback, StrategyCallback)
        strategies = {"standard"} if of_strategies is None else {each.name for each in of_strategies.strategies}
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
            and strategies == {"standard"}
            and not model.use_sde
        )

    @abstractmethod
    def advance(self, *inputs: torch.Tensor) -> dict[str, Any]:
        """Make a step of policy and environments; it waits for nothing, so that `CapturedStep` can capture it."""

    def _prepared(self, *inputs: torch.Tensor) -> Callable[..., dict[str, Any]]:
        """Return `advance`; on a GPU captured, again if a value has changed that is a constant of the graph."""
        constants = memory_of(self.model), None if self.normalizer is None else self.normalizer.constants
        if self._step is None or constants != self._constants:
            self._constants, self._step = constants, self.advance
            if self.model.device.type == "cuda":
                self._step = capture_or_refuse(self, self.advance, *inputs)
        return self._step

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

    def _monitored(self, step: BatchStep) -> tuple[Any, list[dict[str, Any]]]:
        """Count a step of the episodes; return `(N,)` bool: whether they have ended, and the infos."""
        dones, infos = step.terminated | step.truncated, self.vec_env.infos(step)
        return dones, infos if self.monitor is None else self.monitor.record(step.reward, dones, infos)

    def _report(self, callback: BaseCallback, step: BatchStep) -> bool:
        """Count a step in numpy; call the callback; return whether the training continues."""
        model = self.model
        dones, infos = self._monitored(step)
        model.num_timesteps += self.vec_env.num_envs
        callback.update_locals({"self": model, "infos": infos, "rewards": step.reward, "dones": dones})
        if not callback.on_step():
            return False
        ended = np.flatnonzero(dones)
        model._update_info_buffer([infos[index] for index in ended.tolist()], dones[ended])
        return True

    def _on_device(self, observations: Any) -> Observations:
        """Return observations in numpy as tensors by key."""
        keyed = observations if isinstance(observations, dict) else {"": observations}
        return {key: torch.as_tensor(value, device=self.model.device) for key, value in keyed.items()}

    def _in_numpy(self, observations: Observations) -> Any:
        """Return observations by key in numpy, as the policy takes them."""
        return self._arranged({key: value.cpu().numpy() for key, value in observations.items()})

    def _keyed(self, observations: Any) -> Observations:
        """Return observations by key; an empty key for flat observations."""
        arranged = self.envs.arranged(observations)
        return arranged if isinstance(arranged, dict) else {"": arranged}

    def _normalized(self, observations: Observations) -> Observations:
        """Return observations by key, normalised if the run normalises."""
        return observations if self.normalizer is None else self.normalizer.normalize(observations)

    def _arranged(self, observations: dict[str, Any]) -> Any:
        """Return a dictionary as the policy takes observations."""
        return observations if self.envs.goal_env else observations[""]
