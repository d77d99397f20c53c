"""Normalisation that hardly scales up inputs which hardly vary.

Some numbers never vary in the fused engine, and vary by a thousandth in Bullet. Divided by a standard deviation of
nearly zero, they would reach the network as large numbers that it was never trained on.
"""

from __future__ import annotations

import numpy as np
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from mygym.types import FloatArray

FLOOR = 1e-4
"""Least variance of an input: that of a standard deviation of 1 cm, 1 cm/s or 0.01 rad."""


class FlooredMeanStd(RunningMeanStd):
    """Running mean and variance, the variance at least `FLOOR`."""

    def update_from_moments(self, batch_mean: FloatArray, batch_var: FloatArray, batch_count: float) -> None:
        """Take the moments of a batch into account."""
        super().update_from_moments(batch_mean, batch_var, batch_count)
        self.var = np.maximum(self.var, FLOOR)


def set_variance_floor(normalizer: VecNormalize) -> None:
    """Replace the running figures of a new normaliser by figures with a floor."""
    running = normalizer.obs_rms
    if isinstance(running, dict):
        normalizer.obs_rms = {key: FlooredMeanStd(shape=each.mean.shape) for key, each in running.items()}
    else:
        normalizer.obs_rms = FlooredMeanStd(shape=running.mean.shape)
