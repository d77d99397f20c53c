"""Steps of a policy and of the fused engine's environments on a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_wrapper

from mygym.engines.fused.captured_step import CapturedStep, capture_or_refuse
from mygym.envs.batch_env import BatchStep
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.tasks.episode import LARGE_BATCH
from mygym.training.device_replay import DeviceNormalizer, Observations
from mygym.training.run_callbacks import StrategyCallback, find_callback
from mygym.training.vec_wrappers import EpisodeMonitor, FlooredNormalize, LastObservations


class CapturedGradient:
    """A function that sets the gradients of parameters; on a GPU, it is captured as a CUDA graph.

    The optimisers are not part of the graph, so their states are those of SB3.

    Args:
        compute: Function that sets the gradients and returns a tensor; it waits for nothing. Its arguments are tensors
            and dictionaries of tensors. A number that changes in training must be in one: the graph keeps others.
        model: The algorithm.
    """

    def __init__(self, compute: Callable[..., torch.Tensor], model: Any) -> None:
        self._compute, self._model = compute, model
        self._graph: CapturedStep | None = None
        self._gradients: list[torch.Tensor | None] = []
        """Gradients to which the graph writes."""
        self._constants: tuple[Any, ...] = ()

    def __call__(
        self, parameters: Sequence[torch.nn.Parameter], constants: tuple[Any, ...], *inputs: Any
    ) -> torch.Tensor:
        """Set the gradients; return the result of the function.

        Args:
            parameters: Parameters whose gradients are set.
            constants: Values on which the function depends: if one changes, the function is captured again.
            inputs: Arguments of the function.
        """
        if self._model.device.type != "cuda":
            return self._compute(*inputs)
        keys = [list(each) if isinstance(each, dict) else None for each in inputs]
        arrays = [array for each in inputs for array in (each.values() if isinstance(each, dict) else [each])]
        constants = *constants, keys, [array.shape for array in arrays]
        if self._graph is None or constants != self._constants:

            def compute(*flat: torch.Tensor) -> torch.Tensor:
                return self._compute(*_nested(flat, keys))

            buffers = list(self._model.policy.buffers())
            before = [buffer.clone() for buffer in buffers]
            self._constants, self._graph = constants, capture_or_refuse(None, compute, *arrays)
            for buffer, values in zip(buffers, before, strict=True):
                buffer.copy_(values)  # running statistics, which the warm-up has updated
            self._gradients = [parameter.grad for parameter in parameters]
        result: torch.Tensor = self._graph(*arrays)
        for parameter, gradient in zip(parameters, self._gradients, strict=True):
            parameter.grad = gradient  # another loss, e.g. of a callback, may have removed it
        return result


def memory_of(model: Any) -> list[int]:
    """Return the addresses of the tensors of an algorithm that graphs read: a callback may replace one."""
    coefficients = [getattr(model, name, None) for name in ("log_ent_coef", "ent_coef_tensor")]
    tensors = [*model.policy.parameters(), *model.policy.buffers(), *coefficients]
    return [tensor.data_ptr() for tensor in tensors if tensor is not None]


def trainable(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Return the parameters of a network that are trained."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def set_gradients(loss: torch.Tensor, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Set the gradients of a loss; a parameter on which it does not depend has none."""
    for parameter in parameters:
        parameter.grad = None
    torch.autograd.backward(loss, inputs=list(parameters))


def clip_gradients(parameters: Iterable[torch.nn.Parameter], max_norm: torch.Tensor) -> None:
    """Scale gradients to a norm of at most `max_norm`, as torch's `clip_grad_norm_` does with a number."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]).norm()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)


def _nested(arrays: Iterable[torch.Tensor], keys: Sequence[list[str] | None]) -> list[Any]:
    """Return arrays in sequence; None in `keys` is an array, a list the keys of a dictionary of arrays."""
    rest = iter(arrays)
    return [next(rest) if names is None else {name: next(rest) for name in names} for names in keys]


FIGURES = tuple(field.name for field in fields(BatchStep) if field.name not in ("observations", "last"))
"""Fields of `BatchStep` that infos and logs contain."""


class DeviceSteps(ABC):
    """Steps of policy, environments and normalisation in tensors; on a GPU, each is a CUDA graph."""

    def __init__(self, model: Any, env: VecEnv) -> None:
        self.model = model
        self.vec_env: BatchVecEnv = env.unwrapped  # type: ignore[assignment]
        self.envs = self.vec_env.batch
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
        envs, of_strategies = env.unwrapped, find_callback(callback, StrategyCallback)
        strategies = {"standard"} if of_strategies is None else {each.name for each in of_strategies.strategies}
        layers = []
        while env is not envs:
            layers.append(type(env))
            env = env.venv  # type: ignore[attr-defined]
        return (
            isinstance(envs, BatchVecEnv)
            and envs.batch.arrays.device is not None
            and envs.batch.count >= LARGE_BATCH  # fewer episodes are evaluated stage by stage, which waits
            and envs.batch.arrays.device.type == model.device.type
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
