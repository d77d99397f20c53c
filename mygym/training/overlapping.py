"""Gradient steps of off-policy algorithms while worker processes step the environments (`overlap`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper


def overlapping(cls: type[OffPolicyAlgorithm]) -> type[OffPolicyAlgorithm]:
    """Return a subclass that takes the gradient steps that follow a rollout during the step of the next rollout.

    The actions of that step come from the policy before the gradient steps, which do not use its transitions.
    Nothing depends on the speed of the processes, so the same seed gives the same result.

    Args:
        cls: Class of the algorithm; its rollouts are single steps (`train_freq` 1).
    """
    return type(cls.__name__, (_Overlapping, cls), {"__doc__": cls.__doc__, "__module__": cls.__module__})


class _Overlapping(OffPolicyAlgorithm):
    postponed: list[Any]
    """Arguments of the calls of `train` that the next step of the environments makes: lists `[args, kwargs]`."""

    def _setup_model(self) -> None:
        super()._setup_model()
        self.postponed = []
        self._training_env: VecEnvWrapper | None = None

    def train(self, *args: Any, **kwargs: Any) -> None:
        """Postpone the gradient steps to the next step of the environments."""
        self.postponed.append([list(args), kwargs])

    def train_now(self) -> None:
        """Take the gradient steps that were postponed."""
        calls, self.postponed = self.postponed, []
        for args, kwargs in calls:
            super().train(*args, **kwargs)
            self.policy.set_training_mode(False)  # as in the rest of the rollout

    def collect_rollouts(self, env: VecEnv, *args: Any, **kwargs: Any) -> Any:
        """Collect a rollout; train after the actions are sent, before the results of the step are awaited."""
        if self._training_env is None or self._training_env.venv is not env:
            self._training_env = _TrainingWhileStepping(env, self.train_now)
        return super().collect_rollouts(self._training_env, *args, **kwargs)

    def _excluded_save_params(self) -> list[str]:  # saved models are those of the class itself
        return [*super()._excluded_save_params(), "postponed", "_training_env"]


class _TrainingWhileStepping(VecEnvWrapper):
    """Calls a function between sending the actions and waiting for the results of a step."""

    def __init__(self, env: VecEnv, train: Callable[[], None]) -> None:
        super().__init__(env)
        self.train = train

    def reset(self) -> Any:
        """Reset the environments."""
        return self.venv.reset()

    def step_wait(self) -> Any:
        """Train, then return the results of the step."""
        self.train()
        return self.venv.step_wait()
