"""Steps of algorithms with a replay buffer on a GPU: environments, normalisation, policy and buffer in tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise
from stable_baselines3.common.type_aliases import RolloutReturn, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.vec_env import VecEnv

from mygym.algos.device.steps import FIGURES, DeviceSteps
from mygym.envs.fused_envs import BatchStep
from mygym.envs.fused_vec_env import in_numpy
from mygym.errors import DivergedError


class ReplayCollection(DeviceSteps):
    """Makes the steps of an off-policy algorithm of SB3, as its `collect_rollouts` does.

    Each environment explores for itself: with discrete actions, a random action of an environment is independent of the
    others, where SB3 draws random actions for all environments or for none.

    Args:
        model: The algorithm.
        env: Its environments.
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
        """Make a step of policy and environments; observations that are not normalised are the variables.

        Args:
            inputs: See `_exploration`.
        """
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


def noises_of(noise: Any) -> list[Any]:
    """Return the action noise of each environment, or of all; empty without noise."""
    return noise.noises if isinstance(noise, VectorizedActionNoise) else [] if noise is None else [noise]
