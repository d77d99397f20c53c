"""Algorithms of Stable-Baselines3 and sb3-contrib with `state_dict`, and exploration noise as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import sb3_contrib
import sb3_contrib.tqc.policies as tqc
import stable_baselines3 as sb3
import stable_baselines3.sac.policies as sac
import stable_baselines3.td3.policies as td3
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor
from stable_baselines3.common.type_aliases import GymEnv

from mygym.algos.device.off_policy import STEPS, STEPS_OF_POLICY, DeviceOffPolicy, is_of_user
from mygym.algos.device.on_policy import DeviceRollouts, DictDeviceRollouts, PPOUpdate, RolloutCollection
from mygym.algos.device.replay_updates import DQNUpdate, SACUpdate, TD3Update
from mygym.algos.images import ShiftedReplay
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.tasks.observations import CRITIC
from mygym.training.checkpoints.states import Stateful
from mygym.training.evaluation import stack_observations
from mygym.training.model_factory import gaussian_noise

Values = Callable[[list[int], list[Any]], Any]
"""Function of the indices of environments and their last observations; it returns the values `(n,)`."""


class BootstrapCallback(CallbackList):
    """Callback of a rollout that then adds the values of last observations to the rewards of truncated episodes.

    SB3 and SBX compute these values in turn, episode by episode; after this callback they find none to compute. Of
    thousands of environments, hundreds of episodes end in a step.
    """

    def __init__(self, callback: BaseCallback, model: Any, values: Values) -> None:
        super().__init__([callback])
        self.model, self.values = model, values
        self.gamma: float = model.gamma

    def _on_step(self) -> bool:
        if not super()._on_step():
            return False
        infos, ended = self.locals["infos"], np.flatnonzero(self.locals["dones"]).tolist()
        truncated = [index for index in ended if infos[index].get("TimeLimit.truncated", False)]
        if truncated:
            last = [infos[index]["terminal_observation"] for index in truncated]
            for index in truncated:
                infos[index]["TimeLimit.truncated"] = False
            self.locals["rewards"][truncated] += self.gamma * np.asarray(self.values(truncated, last))
        return True


class AsymmetricActorCritic:
    """Mixin of policies with an actor and critics, for observations with a vector for the critic.

    The actor observes everything else; the critic observes all numbers and no images. Without this vector, nothing
    changes.
    """

    takes_critic_observations = True
    """Whether runs with this policy may have `critic_observations`."""
    observation_space: spaces.Space[Any]
    features_extractor_class: type[BaseFeaturesExtractor]
    features_extractor_kwargs: dict[str, Any]

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Return an actor."""
        if features_extractor is None and (observed := _split(self.observation_space)):
            features_extractor = self.features_extractor_class(observed[0], **self.features_extractor_kwargs)
        return super().make_actor(features_extractor)  # type: ignore[misc]

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Return critics."""
        if features_extractor is None and (observed := _split(self.observation_space)):
            features_extractor = CombinedExtractor(observed[1])
        return super().make_critic(features_extractor)  # type: ignore[misc]


def _split(space: spaces.Space[Any]) -> tuple[spaces.Dict, spaces.Dict] | None:
    """Return the spaces of the actor and of the critic; None if both observe everything."""
    if not isinstance(space, spaces.Dict) or CRITIC not in space.spaces:
        return None
    of_actor = {key: subspace for key, subspace in space.spaces.items() if key != CRITIC}
    of_critic = {key: subspace for key, subspace in space.spaces.items() if not is_image_space(subspace)}
    return spaces.Dict(of_actor), spaces.Dict(of_critic)


class SACPolicy(AsymmetricActorCritic, sac.MultiInputPolicy):
    """Policy of SAC for dictionary observations."""


class TD3Policy(AsymmetricActorCritic, td3.MultiInputPolicy):
    """Policy of TD3 and DDPG for dictionary observations."""


class TQCPolicy(AsymmetricActorCritic, tqc.MultiInputPolicy):
    """Policy of TQC for dictionary observations."""


class GaussianExploration:
    """Mixin that accepts a number as `action_noise`: the standard deviation of Gaussian noise on the actions."""

    def __init__(
        self, policy: Any, env: GymEnv | str | None, action_noise: ActionNoise | float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(policy, env, **kwargs)  # type: ignore[call-arg]
        if isinstance(action_noise, int | float):
            action_noise = gaussian_noise(action_noise, self.action_space)  # type: ignore[attr-defined]
        self.__dict__["action_noise"] = action_noise


class BatchBootstrap:
    """Mixin of on-policy algorithms that computes the values of truncated episodes together, in the fused engine.

    In Bullet, with few environments, they are computed as SB3 does, so that results equal those of SB3 to the bit.
    """

    def collect_rollouts(self, env: Any, callback: BaseCallback, *args: Any, **kwargs: Any) -> bool:
        """Collect a rollout."""
        if isinstance(env.unwrapped, BatchVecEnv):
            callback = BootstrapCallback(callback, self, self._last_values)
        return super().collect_rollouts(env, callback, *args, **kwargs)  # type: ignore[misc,no-any-return]

    def _last_values(self, _: list[int], observations: list[Any]) -> Any:
        """Return the values `(n,)` of last observations."""
        policy = self.policy  # type: ignore[attr-defined]
        with torch.no_grad():
            return policy.predict_values(policy.obs_to_tensor(stack_observations(observations))[0]).flatten().cpu()


class PPO(BatchBootstrap, Stateful, sb3.PPO):
    """Proximal policy optimisation (Schulman et al., 2017)."""

    _not_in_checkpoints = ("_device_collection", "_device_update")
    """Their state is that of environments and normaliser."""

    def _setup_model(self) -> None:
        """Build networks and buffer; a saved model names no class of the buffer, so SB3 alone can load it."""
        chosen = self.rollout_buffer_class
        space: Any = self.observation_space
        is_dict = isinstance(space, spaces.Dict)
        has_images = any(map(is_image_space, space.values() if is_dict else [space]))
        if chosen in (None, RolloutBuffer, DictRolloutBuffer) and not has_images:  # a GPU may hold no rollout of images
            self.rollout_buffer_class = DictDeviceRollouts if is_dict else DeviceRollouts
        super()._setup_model()
        self.rollout_buffer_class = chosen
        self._device_collection: RolloutCollection | None = None
        self._device_update: PPOUpdate | None = None

    def collect_rollouts(self, env: Any, callback: BaseCallback, *args: Any, **kwargs: Any) -> bool:
        """Collect a rollout; it stays on a GPU if the fused engine runs on it and nothing needs its steps in numpy."""
        is_extended = type(self).collect_rollouts is not PPO.collect_rollouts
        if is_extended or not RolloutCollection.suits(self, env, callback):
            self._device_collection = None
            return super().collect_rollouts(env, callback, *args, **kwargs)
        if self._device_collection is None or self._device_collection.env is not env:
            self._device_collection = RolloutCollection(self, env)
        return self._device_collection.collect(callback, self.n_steps)

    def train(self) -> None:
        """Update the policy with the rollout."""
        if self._device_collection is None or not PPOUpdate.suits(self):
            super().train()
            return
        if self._device_update is None:
            self._device_update = PPOUpdate(self)
        self._device_update.train()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_device_collection", "_device_update"]


class A2C(BatchBootstrap, Stateful, sb3.A2C):
    """Advantage actor-critic, the synchronous form of A3C (Mnih et al., 2016)."""


class SAC(ShiftedReplay, DeviceOffPolicy, Stateful, sb3.SAC):
    """Soft actor-critic (Haarnoja et al., 2018)."""

    device_update = SACUpdate

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {**sb3.SAC.policy_aliases, "MultiInputPolicy": SACPolicy}


class TD3(ShiftedReplay, DeviceOffPolicy, GaussianExploration, Stateful, sb3.TD3):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""

    device_update = TD3Update

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {**sb3.TD3.policy_aliases, "MultiInputPolicy": TD3Policy}


class DQN(DeviceOffPolicy, Stateful, sb3.DQN):
    """Deep Q-learning (Mnih et al., 2015)."""

    device_update = DQNUpdate

    def next_q_values(self, observations: Any) -> torch.Tensor:
        """Return the values `(n, 1)` of next observations: the largest of the target network."""
        values: torch.Tensor = self.q_net_target(observations)
        return values.amax(dim=1, keepdim=True)


class DDPG(ShiftedReplay, DeviceOffPolicy, GaussianExploration, Stateful, sb3.DDPG):
    """Deep deterministic policy gradient (Lillicrap et al., 2015)."""

    device_update = TD3Update

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {**sb3.DDPG.policy_aliases, "MultiInputPolicy": TD3Policy}


def reason_for_numpy(cls: type, policy: Any, parent: type) -> str:
    """Return why a user's algorithm makes its steps in numpy although the fused engine runs on a GPU; empty if not."""
    if not issubclass(parent, PPO | DeviceOffPolicy):
        return ""
    if not issubclass(cls, PPO | DeviceOffPolicy):
        return f"{cls.__name__} is not a subclass of {parent.__module__}.{parent.__name__}"
    steps, of_policy = (STEPS, STEPS_OF_POLICY) if issubclass(cls, DeviceOffPolicy) else (("collect_rollouts",), ())
    overridden = [f"{cls.__name__}.{name}" for name in steps if is_of_user(cls, name)]
    if isinstance(policy, type):
        overridden += [f"{policy.__name__}.{name}" for name in of_policy if is_of_user(policy, name)]
    return f"{' and '.join(overridden)} is overridden" if overridden else ""


class TQC(ShiftedReplay, DeviceOffPolicy, Stateful, sb3_contrib.TQC):
    """Truncated quantile critics (Kuznetsov et al., 2020)."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **sb3_contrib.TQC.policy_aliases,
        "MultiInputPolicy": TQCPolicy,
    }


class TRPO(Stateful, sb3_contrib.TRPO):
    """Trust region policy optimisation (Schulman et al., 2015)."""


class CrossQ(DeviceOffPolicy, Stateful, sb3_contrib.CrossQ):
    """CrossQ: batch normalisation in place of target networks (Bhatt et al., 2024)."""


class QRDQN(DeviceOffPolicy, Stateful, sb3_contrib.QRDQN):
    """Quantile regression deep Q-learning (Dabney et al., 2018)."""


class ARS(Stateful, sb3_contrib.ARS):
    """Augmented random search (Mania et al., 2018); the rollout starts before its perturbations are drawn."""

    def _trigger_callback(
        self, _locals: dict[str, Any], _globals: dict[str, Any], callback: BaseCallback, n_envs: int
    ) -> None:
        callback.update_locals(_locals)  # so that non-finite rewards are detected immediately
        super()._trigger_callback(_locals, _globals, callback, n_envs)

    def _do_one_update(self, callback: BaseCallback, async_eval: Any) -> None:
        callback.on_rollout_start()
        super()._do_one_update(_WithoutStart(callback), async_eval)  # type: ignore[arg-type]


class _WithoutStart:
    """Wrapper of a callback whose `on_rollout_start` was already called."""

    def __init__(self, callback: BaseCallback) -> None:
        self.callback = callback

    def on_rollout_start(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.callback, name)


class RecurrentPPO(Stateful, sb3_contrib.RecurrentPPO):
    """Proximal policy optimisation with an LSTM (Schulman et al., 2017; Pleines et al., 2022)."""
