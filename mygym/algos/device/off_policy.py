"""Mixin of algorithms with a replay buffer, which stay on a GPU if the fused engine runs on it."""

from __future__ import annotations

from typing import Any, ClassVar

from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback

from mygym.algos.device.replay_collection import ReplayCollection
from mygym.algos.device.replay_updates import ReplayUpdate
from mygym.envs.fused_vec_env import FusedVecEnv
from mygym.runs.device_replay import IN_TENSORS, InTensors
from mygym.runs.variance_floor import FlooredNormalize

STEPS = ("collect_rollouts", "predict", "_sample_action", "_store_transition")
"""Methods that decide the steps: a class that overrides one takes the steps in numpy."""


STEPS_OF_POLICY = ("predict", "scale_action", "unscale_action")
"""Methods of the policy that decide the steps."""


class DeviceOffPolicy:
    """Mixin of off-policy algorithms of SB3: buffer, steps and gradient steps in tensors."""

    device_update: ClassVar[type[ReplayUpdate] | None] = None
    """Class of the gradient steps; None: those of SB3, with minibatches of the buffer in tensors."""

    def _setup_model(self) -> None:
        """Build networks and buffer; a saved model names SB3's class of the buffer."""
        model: Any = self
        chosen = model.replay_buffer_class
        if chosen is None and model.n_steps == 1:
            chosen = DictReplayBuffer if isinstance(model.observation_space, spaces.Dict) else ReplayBuffer
        in_tensors = IN_TENSORS.get(chosen) if self._engine_is_on_device() else None
        if in_tensors is not None:
            model.replay_buffer_class = in_tensors
        super()._setup_model()  # type: ignore[misc]
        if in_tensors is not None:
            model.replay_buffer_class = chosen
        self._device_collection: ReplayCollection | None = None
        self._device_update: ReplayUpdate | None = None

    def _engine_is_on_device(self) -> bool:
        """Return whether the environments are those of the fused engine in torch, with a buffer that fits them."""
        model: Any = self
        if model.env is None or model.optimize_memory_usage or model.replay_buffer_kwargs.get("copy_info_dict"):
            return False
        batch, normalizer = model.env.unwrapped, model._vec_normalize_env
        return (
            isinstance(batch, FusedVecEnv)
            and batch.fused.arrays.device is not None
            and (normalizer is None or (isinstance(normalizer, FlooredNormalize) and not normalizer.norm_reward))
        )

    def collect_rollouts(
        self,
        env: Any,
        callback: BaseCallback,
        train_freq: Any,
        replay_buffer: Any,
        action_noise: Any = None,
        learning_starts: int = 0,
        log_interval: int | None = None,
    ) -> Any:
        """Make the steps of a rollout."""
        in_tensors = isinstance(replay_buffer, InTensors)  # elsewhere, the other checks would cost time in each step
        if in_tensors and not self._extends_steps() and ReplayCollection.suits(self, env, callback):
            if self._device_collection is None or self._device_collection.env is not env:
                self._device_collection = ReplayCollection(self, env)
            return self._device_collection.collect(callback, train_freq, learning_starts, log_interval)
        self._device_collection = None
        arguments = (env, callback, train_freq, replay_buffer, action_noise, learning_starts, log_interval)
        return super().collect_rollouts(*arguments)  # type: ignore[misc]

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Make gradient steps on minibatches of the replay buffer."""
        if not self.trains_on_device():
            super().train(gradient_steps, batch_size)  # type: ignore[misc]
            return
        if self._device_update is None:
            assert self.device_update is not None
            self._device_update = self.device_update(self)
        self._device_update.train(gradient_steps, batch_size)

    def trains_on_device(self) -> bool:
        """Return whether the gradient steps are those of `device_update`."""
        buffer = self.replay_buffer  # type: ignore[attr-defined]
        replaces_sample = not isinstance(buffer, InTensors) or "sample" in vars(buffer)
        return self.device_update is not None and self._device_collection is not None and not replaces_sample

    def _extends_steps(self) -> bool:
        """Return whether code outside this package, SB3 and sb3-contrib decides the steps."""
        policy = self.policy  # type: ignore[attr-defined]
        return any(is_overridden(self, name) for name in STEPS) or any(
            is_overridden(policy, name) for name in STEPS_OF_POLICY
        )

    def _excluded_save_params(self) -> list[str]:
        excluded: list[str] = super()._excluded_save_params()  # type: ignore[misc]
        return [*excluded, "_device_collection", "_device_update"]


def is_overridden(value: Any, name: str) -> bool:
    """Return whether a method is set on an object, or comes from a class outside SB3, sb3-contrib and this package."""
    return name in vars(value) or is_of_user(type(value), name)


def is_of_user(cls: type, name: str) -> bool:
    """Return whether a class has a method from a class outside SB3, sb3-contrib and this package."""
    defining = next((base for base in cls.__mro__ if name in vars(base)), object)
    packages = ("stable_baselines3.", "sb3_contrib.", "mygym.algos.", "builtins")
    return not defining.__module__.startswith(packages)
