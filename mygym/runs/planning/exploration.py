"""Exploration noise given as a number."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.noise import NormalActionNoise


def gaussian_noise(deviation: float, action_space: spaces.Space[Any]) -> NormalActionNoise:
    """Return Gaussian noise on every action component with this standard deviation."""
    assert action_space.shape is not None
    return NormalActionNoise(np.zeros(action_space.shape), np.full(action_space.shape, float(deviation)))
