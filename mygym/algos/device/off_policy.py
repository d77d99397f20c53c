"""Mixin of algorithms with a replay buffer, which stay on a GPU if the fused engine runs on it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.type_aliases import RolloutReturn, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.vec_env import VecEnv

from mygym.algos.device.replay_updates import ReplayUpdate
from mygym.algos.device.steps import FIGURES, DeviceSteps
from mygym.envs.batch_env import BatchStep
from mygym.envs.batch_vec_env import BatchVecEnv, in_numpy
from mygym.errors import DivergedError
from mygym.training.device_replay import IN_TENSORS, InTensors
from mygym.training.schedule_callback import noises_of
from mygym.training.vec_wrappers import FlooredNormalize


class ReplayCollection(DeviceSteps):
    """Makes the steps of an off-policy algorithm of SB3, as its `collect_rollouts` does.

    Each environment explores for itself: with discrete actions, a random action of an environment is independent of the
    others, where SB3 draws random actions for all environments or for none.
    """

    def __init__(self, model: Any, env: VecEnv) -> None:
        super().__init__(model, env)
        self._commands = self.envs.commands()

    @staticmethod
    def suits(model: Any, env: VecEnv, callback: BaseCallback) -> bool:
        """Return whether the steps of an algorithm whose buffer is in tensors can stay on the device."""
        space, noise = model.action_space, model.action_noise
        return (
            DeviceSteps.suits(model, env, callback)
            and model.train_freq.unit is TrainFrequencyUnit.STEP
            and (isinstance(space, spaces.Discrete) or is_unit_box(space))
            and all(type(each) is NormalActionNoise for each in noises_of(noise))
        )

    def collect(
        self, callback: BaseCallback, train_freq: TrainFreq, learning_starts: int, log_interval: int | None
    ) -> RolloutReturn:
        """Make `train_freq` steps of all environments."""
        model, count, episodes = self.model, self.vec_env.num_envs, 0
        model.policy.set_training_mode(False)
        callback.on_rollout_start()
        self._load()
        for number in range(1, train_freq.frequency + 1):
            inputs = self._exploration(learning_starts)
            with torch.no_grad():
                outcome = self._prepared(*inputs)(*inputs)
            step = in_numpy(BatchStep({}, {}, **outcome["figures"]))
            if not bool(outcome["is_finite"]):
                raise DivergedError("an action is not finite")
            self._store()
            if not self._report(callback, step):
                return RolloutReturn(number * count, episodes, continue_training=False)
            ends = outcome["figures"]["terminated"] | outcome["figures"]["truncated"]
            model.replay_buffer.store(
                self._arranged(outcome["observations"]),
                self._arranged(outcome["last"]),
                outcome["actions"],
                outcome["figures"]["reward"],
                ends,
                outcome["figures"]["truncated"],
            )
            model._update_current_progress_remaining(model.num_timesteps, model._total_timesteps)
            model._on_step()
            ended, former = int((step.terminated | step.truncated).sum()), model._episode_num
            episodes, model._episode_num = episodes + ended, former + ended
            if log_interval is not None and model._episode_num // log_interval > former // log_interval:
                model.dump_logs()
        callback.on_rollout_end()
        return RolloutReturn(train_freq.frequency * count, episodes, continue_training=True)

    def advance(self, *inputs: torch.Tensor) -> dict[str, Any]:
        """Make a step with the inputs of `_exploration`; observations that are not normalised are the variables."""
        model, observations = self.model, self.observations
        exploration_rate, mean, deviation = inputs
        chosen = model.policy._predict(self._arranged(self._normalized(observations)), deterministic=False)
        random = torch.rand(chosen.shape, device=model.device)
        random = 2.0 * random - 1.0 if self._commands is None else (random * len(self._commands)).long()
        is_random = torch.rand(len(chosen), device=model.device) < exploration_rate
        actions = torch.where(is_random.reshape(-1, *[1] * (chosen.ndim - 1)), random, chosen)
        if self._commands is None:
            actions = commands = (actions + mean + deviation * torch.randn_like(actions)).clamp(-1.0, 1.0)
        else:
            commands = self._commands[actions]
        step = self.envs.advance(commands)
        self.observations = self._keyed(step.observations)
        if self.normalizer is not None:
            self.normalizer.update(self.observations)
        return {
            "observations": observations,
            "actions": actions,
            "is_finite": torch.isfinite(actions.float()).all(),
            "last": self._keyed(step.last),
            "figures": {name: getattr(step, name) for name in FIGURES},
        }

    def _exploration(self, learning_starts: int) -> list[torch.Tensor]:
        """Return the inputs of a step.

        Returns:
            Probability of a random action, `(1,)`; mean and standard deviation of the action noise, `(N, A)`.
        """
        model, noise = self.model, self.model.action_noise
        rate = 1.0 if model.num_timesteps < learning_starts else getattr(model, "exploration_rate", 0.0)
        mean = deviation = np.zeros((self.vec_env.num_envs, *(model.action_space.shape or (1,))))
        if noise is not None:
            noises = noises_of(noise)
            mean = np.broadcast_to([each._mu for each in noises], mean.shape)
            deviation = np.broadcast_to([each._sigma for each in noises], mean.shape)
        values = ([rate], mean, deviation)
        return [torch.tensor(value, dtype=torch.float32, device=model.device) for value in values]

    def _load(self) -> None:
        """Take last observations and statistics from the algorithm and the normaliser."""
        last = self.model._last_obs
        if self.normalizer is not None:
            self.normalizer.load()
            last = self.model._last_original_obs
        self.observations = self._on_device(last)

    def _store(self) -> None:
        """Give last observations and statistics to the algorithm and the normaliser."""
        model = self.model
        model._last_original_obs = self._in_numpy(self.observations)
        model._last_obs = model._last_original_obs
        if self.normalizer is not None:
            self.normalizer.store()
            model._last_obs = self._in_numpy(self._normalized(self.observations))


def is_unit_box(space: spaces.Space[Any]) -> bool:
    """Return whether all actions have the bounds [-1, 1], which are those of the policies."""
    return isinstance(space, spaces.Box) and bool(np.all(space.low == -1.0) and np.all(space.high == 1.0))


STEPS = ("collect_rollouts", "predict", "_sample_action", "_store_transition")
"""Methods that decide the steps: a class that overrides one takes the steps in numpy."""


STEPS_OF_POLICY = ("predict", "scale_action", "unscale_action")
"""Methods of the policy that decide the steps."""


class DeviceOffPolicy:
    """Mixin of off-policy algorithms of SB3: buffer, steps and gradient steps in tensors."""

    _not_in_checkpoints = ("_device_collection", "_device_update")
    """Their state is that of environments and normaliser."""
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
        envs, normalizer = model.env.unwrapped, model._vec_normalize_env
        return (
            isinstance(envs, BatchVecEnv)
            and envs.batch.arrays.device is not None
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
