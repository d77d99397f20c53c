"""Forward state of super-networks: the protocol, its numbers, and the routes of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.nn import functional

from mygym.errors import ConfigError, bad_value
from mygym.strategies.mixture.protocols import PROTOCOLS, Protocol, check_tau, check_weights


@dataclass(frozen=True)
class Route:
    """Candidate that each row of a batch passes through."""

    number: int | None
    """Candidate of all rows; None: the rows differ."""
    sizes: tuple[int, ...] = ()
    """If the rows differ: number of rows of each candidate."""
    order: torch.Tensor | None = None
    """`(n,)`: row indices, sorted by candidate."""
    numbers: torch.Tensor | None = None
    """`(n,)`: candidate of each row, in place of the other fields, where torch traces a graph."""

    def shares(self, candidates: int) -> torch.Tensor:
        """Return the share of the rows that pass through each candidate, `(candidates,)`."""
        if self.number is not None:
            return functional.one_hot(torch.tensor(self.number), candidates).float()
        return torch.tensor(self.sizes) / sum(self.sizes)


def route_rows(numbers: torch.Tensor, candidates: int) -> Route:
    """Return the route of rows that pass through the candidates `numbers` `(n,)`."""
    if torch.compiler.is_compiling():  # also exported: a graph cannot depend on the values
        return Route(None, numbers=numbers)
    sizes = tuple(numbers.bincount(minlength=candidates).tolist())
    if max(sizes) == len(numbers):
        return Route(sizes.index(len(numbers)))
    return Route(None, sizes, numbers.argsort(stable=True))


@dataclass(slots=True)
class Batch:
    """Routes and noise of the current batch."""

    routes: Sequence[Route] | None = None
    """Route of each layer, or one route for all layers; None: all rows follow the path."""
    noise: torch.Tensor | None = None
    """`(n, layers, candidates)`: Gumbel noise of each row."""


class ForwardState(nn.Module):
    """Protocol of a policy's super-networks and its numbers, shared by all of them and saved with the weights.

    Args:
        candidates: Number of candidates in each layer.
        layers: Number of choices in the deepest network; shallower networks use the first of them.
    """

    path: torch.Tensor
    weights: torch.Tensor
    tau: torch.Tensor
    number: torch.Tensor

    def __init__(self, candidates: int, layers: int) -> None:
        super().__init__()
        self.candidates, self.layers = candidates, layers
        self.register_buffer("number", torch.zeros((), dtype=torch.long))
        self.register_buffer("path", torch.zeros(layers, dtype=torch.long))
        self.register_buffer("weights", torch.full((layers, candidates), 1.0 / candidates))
        self.register_buffer("tau", torch.ones(()))
        self.batch = Batch()
        """Routes and noise of the current batch."""
        self.uniform_routes = tuple((Route(number),) for number in range(candidates))
        """For each candidate the routes of a batch whose rows all pass through it."""
        self.noise: torch.Tensor | None = None
        """`(layers, candidates)`: noise in training for rows without noise of their batch; drawn once per rollout."""
        self._cache_buffers()

    def _cache_buffers(self) -> None:
        """Copy buffers to Python numbers: reading tensors in each pass takes longer than a small network does."""
        self.protocol: Protocol = PROTOCOLS[int(self.number)]
        """Current protocol."""
        self.path_routes = tuple(Route(candidate) for candidate in self.path.tolist())
        """Routes of a batch whose rows all follow the path."""

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Load the buffers and check them, because the file may come from an untrusted source."""
        super()._load_from_state_dict(state_dict, prefix, *args)
        inside = 0 <= int(self.number) < len(PROTOCOLS) and bool(
            ((self.path >= 0) & (self.path < self.candidates)).all()
        )
        if not inside or not float(self.tau) > 0:
            self.number.zero_()
            self.path.zero_()
            errors: list[str] = args[-1]
            errors.append(f"{prefix.rstrip('.')} is not a valid state of {self.candidates} candidates")
        self._cache_buffers()

    def route(self, numbers: torch.Tensor) -> None:
        """Route the rows of the next batch to candidates `(n, layers)`, or `(n, 1)` for all layers."""
        self.batch.routes = [route_rows(column, self.candidates) for column in numbers.unbind(1)]

    def set_forward_state(
        self,
        protocol: str,
        *,
        path: Sequence[int] | None = None,
        weights: ArrayLike | None = None,
        tau: float | None = None,
    ) -> None:
        """Set the protocol and its numbers; None leaves a number unchanged.

        Args:
            protocol: `single`: one candidate of each layer. `sum`: all, with given weights. `softmax`: all, with the
                weights of a learned gate. `gumbel_softmax`: the same with noise and a temperature (Jang et al., 2017).
            path: For `single`: the candidate of each layer.
            weights: For `sum`: `(candidates,)`, or `(layers, candidates)`.
            tau: For `gumbel_softmax`: the temperature; towards 0 the choice approaches a single candidate.

        Raises:
            ConfigError: Unknown protocol or candidate, invalid weights (see `check_weights`), or tau not above 0.
        """
        if protocol not in PROTOCOLS:
            raise ConfigError(bad_value("protocol", protocol, PROTOCOLS, "is not a forward protocol"))
        if path is not None:
            if len(path) != self.layers or not all(0 <= candidate < self.candidates for candidate in path):
                allowed = f"{self.layers} of the numbers 0 to {self.candidates - 1}"
                raise ConfigError(bad_value("path", list(path), allowed))
            self.path.copy_(torch.as_tensor(path))
        if weights is not None:
            self.weights.copy_(torch.as_tensor(check_weights("weights", weights, self.candidates)))
        if tau is not None:
            check_tau("tau", tau)
            self.tau.fill_(tau)
        self.number.fill_(PROTOCOLS.index(protocol))
        self._cache_buffers()
