"""Random paths for the next rollout, drawn from numpy's global generator, whose state checkpoints contain."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mygym.strategies.gradient_bandit import bandit_step, probabilities


class PathSampler:
    """Draws a path (the candidate of each layer) for each rollout.

    Args:
        kind: `fair`, `uniform` or `differentiable`, see `Mixture`.
        rate: Step size of the learned weights.
        layers: Number of layers with a choice.
        candidates: Number of candidates in each layer.
    """

    STATE = ("queues", "counts", "logits", "baseline", "drawn")

    def __init__(
        self, kind: Literal["fair", "uniform", "differentiable"], rate: float, layers: int, candidates: int
    ) -> None:
        self.kind, self.rate, self.layers, self.candidates = kind, rate, layers, candidates
        self.queues: list[list[int]] = [[] for _ in range(layers)]
        """For each layer the candidates that `fair` draws next."""
        self.counts: NDArray[Any] = np.zeros((layers, candidates))
        """`(layers, candidates)`: number of draws of each candidate."""
        self.logits: NDArray[Any] = np.zeros((layers, candidates))
        """`(layers, candidates)`: weights that `differentiable` learns."""
        self.baseline = 0.0
        """Running mean of the reward of a step."""
        self.drawn: NDArray[Any] | None = None
        """`(n, layers)`: paths of the current rollout; None before the first."""

    def draw(self, count: int) -> NDArray[Any]:
        """Draw `count` paths `(count, layers)` for the next rollout."""
        if self.kind == "fair":
            self.drawn = draw_fair(self.queues, count, self.candidates)
        elif self.kind == "uniform":
            self.drawn = draw_uniform(count, self.layers, self.candidates)
        else:
            self.drawn = draw_learned(self.logits, count)
        self.counts += np.eye(self.candidates)[self.drawn].sum(0)
        return self.drawn

    def learn(self, rewards: NDArray[np.float64]) -> None:
        """Update the learned weights with the mean reward per step `(n,)` of each drawn path."""
        if self.kind == "differentiable" and self.drawn is not None:
            self.logits = bandit_step(self.logits, self.drawn, rewards - self.baseline, self.rate)
            self.baseline += self.rate * (float(rewards.mean()) - self.baseline)

    def usage(self) -> NDArray[Any] | None:
        """Return the share of each candidate in all draws, `(layers, candidates)`; None before the first draw."""
        total = self.counts.sum(-1, keepdims=True)
        return self.counts / total if total.all() else None

    def state_dict(self) -> dict[str, Any]:
        """Return the state on which further draws depend, except the global generator."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self.STATE}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        for name in self.STATE:
            setattr(self, name, copy.deepcopy(state[name]))


def draw_uniform(count: int, layers: int, candidates: int) -> NDArray[np.int64]:
    """Draw candidates `(count, layers)` with equal probability."""
    return np.random.randint(candidates, size=(count, layers))  # noqa: NPY002


def draw_fair(queues: list[list[int]], count: int, candidates: int) -> NDArray[np.int64]:
    """Draw candidates `(count, layers)`; each layer draws every candidate once before it repeats any.

    Strict fairness of FairNAS (Chu et al., 2021).

    Args:
        queues: For each layer the candidates to draw next; drawn candidates are removed, empty queues are refilled.
        count: Number of paths.
        candidates: Number of candidates in each layer.
    """
    rows = []
    for _ in range(count):
        for queue in queues:
            if not queue:
                queue.extend(np.random.permutation(candidates).tolist())  # noqa: NPY002
        rows.append([queue.pop(0) for queue in queues])
    return np.array(rows)


def draw_learned(logits: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Draw candidates `(count, layers)` by learned weights `(layers, candidates)`."""
    columns = [np.random.choice(len(row), size=count, p=row) for row in probabilities(logits)]  # noqa: NPY002
    return np.stack(columns, axis=1)
