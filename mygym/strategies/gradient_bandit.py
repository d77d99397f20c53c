"""Gradient bandit (Sutton and Barto, 2018, section 2.8): learns sampling weights from rewards by gradient ascent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mygym.types import FloatArray

MIN_SHARE = 0.1
"""Share of draws with uniform probability; it keeps every choice in use."""


def probabilities(logits: FloatArray) -> FloatArray:
    """Return the sampling probabilities `(…, n)` of logits `(…, n)`: softmax mixed with `MIN_SHARE` of uniform."""
    mixed: FloatArray = MIN_SHARE / logits.shape[-1] + (1.0 - MIN_SHARE) * softmax(logits)
    return mixed


def bandit_step(logits: FloatArray, drawn: NDArray[np.int64], advantages: FloatArray, rate: float) -> FloatArray:
    """Return the logits after one step of the gradient bandit (equation 2.12).

    Args:
        logits: `(layers, candidates)`.
        drawn: `(n, layers)`, the candidates that were drawn.
        advantages: `(n,)`, reward of each draw minus the baseline.
        rate: Step size.
    """
    one_hot = np.eye(logits.shape[-1])[drawn]
    return logits + rate * np.tensordot(advantages, one_hot - softmax(logits), axes=1)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax `(…, n)` of logits `(…, n)` over the last axis."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    normalized: FloatArray = powers / powers.sum(-1, keepdims=True)
    return normalized
