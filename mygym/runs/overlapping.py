"""Gradient steps of off-policy algorithms while worker processes step the environments (`overlap`)."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper


def overlapping(cls: type[OffPolicyAlgorithm]) -> type[OffPolicyAlgorithm]:
    """Return a subclass that takes the gradient steps after a rollout during the first step of the next rollout.

    The actions of that step come from the policy before the gradient steps, which do not use its transitions.
    Nothing depends on the speed of the processes, so the same seed gives the same result.

    Args:
        cls: Class of the algorithm.
    """
    return type(cls.__name__, (_Overlapping, cls), {"__doc__": cls.__doc__, "__module__": cls.__module__})


class _Overlapping(OffPolicyAlgorithm):
    postponed: dict[str, int] | None
    """Arguments of the call of `train` that the next step of the environments makes; part of checkpoints."""

    def _setup_model(self) -> None:
        super()._setup_model()
        self.postponed = None
        if self.env is not None:
            self.env = _TrainingWhileStepping(self.env, self)

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Postpone the gradient steps to the next step of the environments."""
        self.postponed = {"gradient_steps": gradient_steps, "batch_size": batch_size}

    def train_now(self) -> None:
        """Take the gradient steps that were postponed, if any."""
        if self.postponed is not None:
            arguments, self.postponed = self.postponed, None
            super().train(**arguments)
            self.policy.set_training_mode(False)  # as in the rest of the rollout

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "postponed"]  # saved models are those of the class itself


class _TrainingWhileStepping(VecEnvWrapper):
    """Trains an algorithm after the actions are sent, before the results of the step are awaited."""

    def __init__(self, env: VecEnv, algorithm: _Overlapping) -> None:
        super().__init__(env)
        self.algorithm = algorithm

    def reset(self) -> Any:
        """Reset the environments."""
        return self.venv.reset()

    def step_wait(self) -> Any:
        """Train, then return the results of the step."""
        self.algorithm.train_now()
        return self.venv.step_wait()
