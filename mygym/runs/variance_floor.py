"""Normalisation of the fused engine's observations: inputs that do not vary are masked, the others hardly scaled up.

Some numbers never vary in the engine, and vary in Bullet, e.g. the tilt of a box while it is pushed. Divided by a
standard deviation of nearly zero, they would reach the network as large numbers that it was never trained on.
"""

from __future__ import annotations

import numpy as np
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from mygym.types import FloatArray

FLOOR = 1e-4
"""Least variance of an input that varies: that of a standard deviation of 1 cm, 1 cm/s or 0.01 rad."""

NEGLIGIBLE = 1e-8
"""Variance below which an input does not vary."""

MASKED = 1e12
"""Variance that stands for an input which does not vary: divided by its square root, the input is nearly 0."""


class FlooredMeanStd(RunningMeanStd):
    """Running mean and variance; the variance is `MASKED`, or at least `FLOOR`.

    Args:
        shape: Shape of the mean.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(epsilon=0.0, shape=shape)  # no count of a first value, which would add variance
        self.var = np.full(shape, MASKED)

    def update_from_moments(self, batch_mean: FloatArray, batch_var: FloatArray, batch_count: float) -> None:
        """Take the moments of a batch into account."""
        self.var = np.where(self.var == MASKED, 0.0, self.var)
        super().update_from_moments(batch_mean, batch_var, batch_count)
        self.var = np.where(self.var < NEGLIGIBLE, MASKED, np.maximum(self.var, FLOOR))


def set_variance_floor(normalizer: VecNormalize) -> None:
    """Replace the running figures of a new normaliser by figures with a floor."""
    running = normalizer.obs_rms
    if isinstance(running, dict):
        normalizer.obs_rms = {key: FlooredMeanStd(shape=each.mean.shape) for key, each in running.items()}
    else:
        normalizer.obs_rms = FlooredMeanStd(shape=running.mean.shape)
