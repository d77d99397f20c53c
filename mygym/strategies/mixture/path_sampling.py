"""Which candidates the next rollout passes; drawn from the global generator, whose state checkpoints hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST = 0.1
"""Share of draws that learned weights spread evenly, so that no candidate is given up."""


def draw_uniform(count: int, layers: int, candidates: int) -> NDArray[np.int64]:
    """`(count, layers)`: candidates, all alike."""
    return np.random.randint(candidates, size=(count, layers))  # noqa: NPY002


def draw_fair(queues: list[list[int]], count: int, candidates: int) -> NDArray[np.int64]:
    """`(count, layers)`: of each layer every candidate once before any twice (FairNAS, Chu et al., 2021).

    Args:
        queues: Of each layer the candidates that are still to come, which this takes from and fills up.
        count: How many are drawn.
        candidates: How many there are.
    """
    rows = []
    for _ in range(count):
        for queue in queues:
            if not queue:
                queue.extend(np.random.permutation(candidates).tolist())  # noqa: NPY002
        rows.append([queue.pop(0) for queue in queues])
    return np.array(rows)


def draw_learned(logits: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """`(count, layers)`: candidates by learned weights `(layers, candidates)`."""
    columns = [np.random.choice(len(row), size=count, p=row) for row in shares(logits)]  # noqa: NPY002
    return np.stack(columns, axis=1)


def shares(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """`(layers, candidates)`: how often each is drawn by learned weights."""
    spread: NDArray[np.float64] = LEAST / logits.shape[-1] + (1.0 - LEAST) * softmax(logits)
    return spread


def followed(
    logits: NDArray[np.float64], drawn: NDArray[np.int64], advantages: NDArray[np.float64], rate: float
) -> NDArray[np.float64]:
    """The weights after a step of the gradient bandit (Sutton and Barto, 2018, equation 2.12).

    Args:
        logits: `(layers, candidates)`.
        drawn: `(n, layers)`, what was passed.
        advantages: `(n,)`, by how much its reward was above the usual one.
        rate: Step size.
    """
    taken = np.eye(logits.shape[-1])[drawn]
    return logits + rate * np.tensordot(advantages, taken - softmax(logits), axes=1)


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares `(…, n)` of logits `(…, n)`."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    softened: NDArray[np.float64] = powers / powers.sum(-1, keepdims=True)
    return softened
