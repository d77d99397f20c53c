"""Length of a rollout: training stops, writes checkpoints and evaluates between two of them."""

from __future__ import annotations

from typing import Any

from mygym.config import RunConfig


def rollout_steps(model: Any, config: RunConfig) -> int:
    """Return the env steps between two updates of the policy, of ARS at most; 0 if unknown."""
    from sb3_contrib import ARS
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.type_aliases import TrainFrequencyUnit

    if isinstance(model, ARS):  # every environment plays both ends of each direction
        return 2 * model.n_delta * model.n_eval_episodes * (config.task_params.horizon or 0) * config.n_envs
    steps = getattr(model, "n_steps", 0)
    if isinstance(model, OffPolicyAlgorithm):
        frequency: Any = model.train_freq
        steps = frequency.frequency if frequency.unit is TrainFrequencyUnit.STEP else 0
    return steps * config.n_envs if isinstance(steps, int) else 0
