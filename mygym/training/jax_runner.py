"""`JaxRunner`: base class of algorithms with a custom training loop in JAX."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from mygym.training.runner import Runner

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # tensorflow-probability uses deprecated JAX functions
    import jax
    from sbx.ppo.policies import CnnPolicy, PPOPolicy


class JaxRunner(Runner):
    """A `Runner` whose networks are those of SBX: flax modules and optax optimisers.

    `policy.actor_state` and `policy.vf_state` are flax train states: `training` replaces them by the results of jitted
    functions, and calls `next_key` for every random draw in JAX. Checkpoints hold both states and the random key.
    `learning_rate` reaches the optimisers at each iteration, so it may follow a schedule, if the constructor of the
    subclass declares it. Register a subclass with `framework="jax"` and `policy="MlpPolicy"`, for flat observations.

    Args:
        policy: An alias in `policy_aliases`, or a subclass of SBX's `PPOPolicy`.
        env: Vector environment with flat observations.
        **kwargs: Arguments of `Runner`.
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": PPOPolicy, "CnnPolicy": CnnPolicy}
    max_grad_norm: ClassVar[float] = 0.5
    """Maximum norm of each network's gradients."""

    policy: Any
    """SBX's policy, with the train states `actor_state` and `vf_state`."""
    key: jax.Array
    """Random key, replaced at each call of `next_key`."""

    def next_key(self) -> jax.Array:
        """Return a new random key for one draw."""
        key: jax.Array
        self.key, key = jax.random.split(self.key)
        return key

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed the random generators of Python, numpy, torch, the environments, and the key."""
        super().set_random_seed(seed)
        self.key = jax.random.PRNGKey(np.random.randint(2**31) if seed is None else seed)  # noqa: NPY002  (as SB3)

    def _setup_model(self) -> None:
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        if getattr(self, "policy", None) is None:  # `load` restores the whole policy
            policy_class: Any = self.policy_class
            self.policy = policy_class(
                self.observation_space, self.action_space, self.lr_schedule, **self.policy_kwargs
            )
            self.key = self.policy.build(self.key, self.lr_schedule, self.max_grad_norm)
        self.setup()

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        super()._update_current_progress_remaining(num_timesteps, total_timesteps)
        for state in (self.policy.actor_state, self.policy.vf_state):
            state.opt_state[1].hyperparams["learning_rate"] = self.learning_rate  # [0] clips the gradients

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return [], []

    def _excluded_save_params(self) -> list[str]:
        return [name for name in super()._excluded_save_params() if name != "policy"]
