"""Callback that detects divergence and keeps the last finite weights."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mygym.errors import DivergedError
from mygym.runs.checkpoints.env_state import load_normalizer_state
from mygym.runs.policy import normalizer_of
from mygym.runs.weights import load_weights, weights


class DivergenceCallback(BaseCallback):
    """Raises `DivergedError` when a reward, a loss or a weight is not finite, and keeps the last finite weights."""

    EVERY = 200
    """Calls between checks of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.finite_weights: dict[str, torch.Tensor] = {}
        self.finite_normalizer: dict[str, Any] | None = None

    def _on_training_start(self) -> None:
        self.check_weights()

    def _on_rollout_start(self) -> None:
        self._check_losses()  # on-policy algorithms have just trained, off-policy algorithms since the last call

    def _on_rollout_end(self) -> None:
        self._check_losses()  # runners have just trained, and write their log before the next rollout

    def _on_step(self) -> bool:
        rewards = self.locals.get("rewards")
        if rewards is not None and not np.isfinite(rewards).all():
            raise DivergedError(f"a reward is not finite after {self.num_timesteps} steps: {np.asarray(rewards)}")
        if self.n_calls % self.EVERY == 0:
            self._check_losses()
            self.check_weights()
        return True

    def _on_training_end(self) -> None:
        self._check_losses()
        self.check_weights()

    def is_finite(self) -> bool:
        """Return whether every weight is finite."""
        if getattr(self, "model", None) is None:  # learning has not begun
            return True
        return all(bool(torch.isfinite(value).all()) for value in weights(self.model).values())

    def as_divergence(self, error: Exception) -> DivergedError | None:
        """Return the error of a run as a `DivergedError`; None if the numbers have not caused it.

        Torch raises on NaN before the next check: in any operation, or because a distribution of actions has a scale of
        0 or a parameter that is not finite.

        Args:
            error: The error.
        """
        if isinstance(error, DivergedError):
            return error
        if not self.is_finite():
            return DivergedError(f"a weight is not finite after {self.model.num_timesteps} steps")
        if name := _degenerate_parameter(error):
            after = f"after {self.model.num_timesteps} steps"
            return DivergedError(f"the {name} of the distribution of the actions is 0 or not finite {after}")
        return None

    def restore(self) -> None:
        """Load the last finite weights and the normaliser with which they were trained."""
        load_weights(self.model, self.finite_weights)
        normalizer = unwrap_vec_normalize(self.training_env)
        if normalizer is not None and self.finite_normalizer is not None:
            load_normalizer_state(normalizer, self.finite_normalizer)

    def check_weights(self) -> None:
        """Keep a copy of the weights if they are finite.

        Raises:
            DivergedError: A weight is not finite.
        """
        if not self.is_finite():
            raise DivergedError(f"a weight is not finite after {self.model.num_timesteps} steps")
        self.finite_weights = {key: value.detach().clone() for key, value in weights(self.model).items()}
        self.finite_normalizer = normalizer_of(self.training_env)

    def _check_losses(self) -> None:
        for key, value in self.logger.name_to_value.items():
            if key.startswith("train/") and isinstance(value, float | np.floating) and not math.isfinite(value):
                raise DivergedError(f"{key} is {value} after {self.model.num_timesteps} steps")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of calls, which determines the next check of the weights."""
        return {"calls": self.n_calls}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; the model's weights are loaded already."""
        self.n_calls = state["calls"]
        self.check_weights()


def _degenerate_parameter(error: Exception) -> str:
    """Return the name of a parameter that a distribution of torch refuses, if it is 0 or not finite; else empty."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not frames or frames[-1].f_globals.get("__name__") != "torch.distributions.distribution":
        return ""
    given = frames[-1].f_locals  # of `Distribution.__init__`
    name, values, valid = given.get("param", ""), given.get("value"), given.get("valid")
    if not isinstance(values, torch.Tensor) or not isinstance(valid, torch.Tensor) or valid.shape != values.shape:
        return ""
    refused = values[~valid]
    return str(name) if bool(((refused == 0) | ~torch.isfinite(refused)).any()) else ""
