"""Super-networks: several candidates in place of a network, of which one is passed, or a mixture of all.

The idea is that of one-shot architecture search (SPOS, Guo et al., 2020; DARTS, Liu et al., 2019). A mixture is of
*outputs*: that of two means of a Gaussian policy is the mean of one Gaussian between them, no mixture distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.nn import functional

from mygym.errors import ConfigError, bad_value
from mygym.strategies.protocols import PROTOCOLS, Protocol, Units, check_tau, check_weights


@dataclass(frozen=True)
class Route:
    """Which candidate each row of a batch passes."""

    number: int | None
    """The one that all rows pass; None: they differ."""
    sizes: tuple[int, ...] = ()
    """If they differ: how many rows pass each candidate."""
    order: torch.Tensor | None = None
    """`(n,)`: the rows, those of the first candidate first."""

    def shares(self, candidates: int) -> torch.Tensor:
        """`(candidates,)`: share of the rows that pass each."""
        if self.number is not None:
            return functional.one_hot(torch.tensor(self.number), candidates).float()
        return torch.tensor(self.sizes) / sum(self.sizes)


def route_rows(numbers: torch.Tensor, candidates: int) -> Route:
    """The route of rows that pass the candidates `numbers` `(n,)`."""
    sizes = tuple(numbers.bincount(minlength=candidates).tolist())
    if max(sizes) == len(numbers):
        return Route(sizes.index(len(numbers)))
    return Route(None, sizes, numbers.argsort(stable=True))


@dataclass(slots=True)
class Batch:
    """How one batch is passed."""

    routes: Sequence[Route] | None = None
    """Of each layer, or one for all, where the rows pass, in place of the path."""
    noise: torch.Tensor | None = None
    """`(n, layers, candidates)`: the Gumbel noise of each row."""


class ForwardState(nn.Module):
    """How super-networks are passed: the protocol and its numbers, shared by all of a policy, saved with its weights.

    Args:
        candidates: How many there are in each layer.
        layers: Choices in the deepest of the networks; those of less depth take the first of them.
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
        """What is different for the batch that is passed now."""
        self.same = tuple((Route(number),) for number in range(candidates))
        """For each candidate the routes of a batch of which all rows pass it."""
        self.noise: torch.Tensor | None = None
        """`(layers, candidates)`: noise while training of rows that have none of their own; drawn once per rollout."""
        self._read()

    def _read(self) -> None:
        """Have as numbers what the tensors say: to ask these in each pass would take longer than small networks do."""
        self.protocol: Protocol = PROTOCOLS[int(self.number)]
        """The one that is set."""
        self.path_routes = tuple(Route(one) for one in self.path.tolist())
        """The path as the routes of any rows."""

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Load numbers that a stranger may have written."""
        super()._load_from_state_dict(state_dict, prefix, *args)
        inside = 0 <= int(self.number) < len(PROTOCOLS) and bool(
            ((self.path >= 0) & (self.path < self.candidates)).all()
        )
        if not inside or not float(self.tau) > 0:
            self.number.zero_()
            self.path.zero_()
            errors: list[str] = args[-1]
            errors.append(f"{prefix.rstrip('.')} is no state of {self.candidates} candidates")
        self._read()

    def route(self, numbers: torch.Tensor) -> None:
        """Let the rows of the batch that comes pass the candidates `numbers`: `(n, layers)`, or `(n, 1)` for all."""
        self.batch.routes = [route_rows(column, self.candidates) for column in numbers.unbind(1)]

    def set_forward_state(
        self,
        protocol: str,
        *,
        path: Sequence[int] | None = None,
        weights: ArrayLike | None = None,
        tau: float | None = None,
    ) -> None:
        """Say how networks are passed from now on; what is None stays.

        Args:
            protocol: `single`: one candidate of each layer. `sum`: all, with given weights. `softmax`: all, with the
                weights of a learned gate. `gumbel_softmax`: the same with noise and a temperature (Jang et al., 2017).
            path: Of `single`: which candidate, for each layer.
            weights: Of `sum`: `(candidates,)`, or `(layers, candidates)`.
            tau: Of `gumbel_softmax`: the temperature; towards 0 one candidate is taken.

        Raises:
            ConfigError: No such protocol or candidate, weights that are negative or do not sum to 1, tau not above 0.
        """
        if protocol not in PROTOCOLS:
            raise ConfigError(bad_value("protocol", protocol, PROTOCOLS, "is not a forward protocol"))
        if path is not None:
            if len(path) != self.layers or not all(0 <= one < self.candidates for one in path):
                allowed = f"{self.layers} of the numbers 0 to {self.candidates - 1}"
                raise ConfigError(bad_value("path", list(path), allowed))
            self.path.copy_(torch.as_tensor(path))
        if weights is not None:
            self.weights.copy_(torch.as_tensor(check_weights("weights", weights, self.candidates)))
        if tau is not None:
            check_tau("tau", tau)
            self.tau.fill_(tau)
        self.number.fill_(PROTOCOLS.index(protocol))
        self._read()


class SuperNet(nn.Module):
    """Candidates in place of one network: whole networks, or each of its linear layers.

    Args:
        candidates: Networks that take and give the same sizes; for `blocks` all of the same layers.
        units: `whole`: they are chosen as they are. `blocks`: of each linear layer one is chosen, and what is between,
            such as activations, is the first candidate's.
        state: How it is passed, if others share it; by default one of its own.

    Raises:
        ConfigError: There is no candidate, or the layers differ where they shall be chosen one by one.
    """

    def __init__(
        self, candidates: Sequence[nn.Sequential], units: Units = "whole", state: ForwardState | None = None
    ) -> None:
        super().__init__()
        if not candidates:
            raise ConfigError(bad_value("candidates", 0, "1 or more"))
        layers = [Choice(candidates)] if units == "whole" else _blocks(candidates)
        self.layers = nn.ModuleList(layers)
        self._layers = tuple(layers)
        self.depth = sum(isinstance(layer, Choice) for layer in layers)
        """Number of choices."""
        self.candidates = len(candidates)
        width = next(module.in_features for module in candidates[0].modules() if isinstance(module, nn.Linear))
        self.gate = nn.Linear(width, self.depth * self.candidates)
        """Scores of candidates on the input; its biases are what architecture search calls architecture parameters."""
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self.own_state = ForwardState(self.candidates, self.depth) if state is None else None
        self._state = (self.own_state or state,)  # in a tuple: as a module it would be saved with each network
        self.seen: torch.Tensor | None = None
        """`(n, d)`: input of the last pass while training, of which usage is told."""
        self.passed: Sequence[Route] = ()
        """Where its rows passed, if one of the candidates did."""

    @property
    def state(self) -> ForwardState:
        """How it is passed."""
        return cast(ForwardState, self._state[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, d)` → `(n, e)`."""
        state = self.state
        single = state.protocol == "single"
        routes = state.batch.routes or state.path_routes
        if self.training:
            self.seen, self.passed = x.detach(), routes
        weights = () if single else self.mixture(x).unbind(-2)
        number = 0
        for layer in self._layers:
            if not isinstance(layer, Choice):
                x = layer(x)
                continue
            x = layer.single(x, routes[min(number, len(routes) - 1)]) if single else layer.mixed(x, weights[number])
            number += 1
        return x

    def mixture(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, depth, K)`, or `(depth, K)` where all rows have the same: weights of the candidates on an input."""
        state = self.state
        if state.protocol == "sum":
            return state.weights[: self.depth]
        scores = self.scores(x)
        if state.protocol == "softmax":
            return scores.softmax(-1)
        noise = state.batch.noise if state.batch.noise is not None else state.noise if self.training else None
        if noise is not None:
            scores = scores + noise[..., : self.depth, :]
        return (scores / state.tau).softmax(-1)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, depth, K)`: of the gate, before the softmax."""
        scores: torch.Tensor = self.gate(x)
        return scores.view(*scores.shape[:-1], self.depth, self.candidates)

    def usage(self) -> torch.Tensor | None:
        """`(depth, K)`: share of each candidate in the last pass while training; None before there was one."""
        state = self.state
        if self.seen is None:
            return None
        if state.protocol != "single":
            with torch.no_grad():
                mixture = self.mixture(self.seen) if state.protocol == "sum" else self.scores(self.seen).softmax(-1)
                return mixture if mixture.ndim == 2 else mixture.mean(0)
        shares = torch.stack([route.shares(self.candidates) for route in self.passed])
        return shares[: self.depth].expand(self.depth, -1)

    def balance_loss(self) -> torch.Tensor | None:
        """Importance loss of the gate on the last batch (Shazeer et al., 2017, equation 8); None before there was one.

        The squared coefficient of variation of the candidates' total weights: 0 where all are used alike.
        """
        if self.seen is None:
            return None
        importance = self.scores(self.seen).softmax(-1).sum(0)
        return (importance.var(-1, correction=0) / importance.mean(-1) ** 2).sum()


class Choice(nn.Module):
    """A layer of which there are several.

    Args:
        candidates: They take and give the same sizes.
    """

    def __init__(self, candidates: Sequence[nn.Module]) -> None:
        super().__init__()
        self.candidates = nn.ModuleList(candidates)
        self._candidates = tuple(candidates)  # a list of modules takes longer to ask
        # batch statistics of the few rows that one candidate gets would be none, so each of those sees all rows
        self.sees_all = any(hasattr(module, "momentum") for one in candidates for module in one.modules())

    def single(self, x: torch.Tensor, route: Route) -> torch.Tensor:
        """Output of the candidate that each row passes; those that none passes are not computed."""
        if route.number is not None:
            return cast(torch.Tensor, self._candidates[route.number](x))
        order = route.order
        assert order is not None
        outputs = []
        for candidate, rows in zip(self._candidates, torch.split(order, list(route.sizes)), strict=True):
            if len(rows):
                outputs.append(candidate(x)[rows] if self.sees_all else candidate(x[rows]))
        joined = torch.cat(outputs)
        return torch.empty_like(joined).index_copy(0, order, joined)

    def mixed(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Sum of the outputs with `weights` `(K,)` or `(n, K)`."""
        outputs = torch.stack([candidate(x) for candidate in self.candidates], dim=-1)
        return (outputs * weights.unsqueeze(-2)).sum(-1)


def _blocks(candidates: Sequence[nn.Sequential]) -> list[nn.Module]:
    """The layers of candidates that are alike, of which the linear ones become choices."""
    shapes = [[(type(layer), [p.shape for p in layer.parameters()]) for layer in one] for one in candidates]
    if any(one != shapes[0] for one in shapes):
        raise ConfigError(bad_value("units", "blocks", ["whole"], "takes candidates of the same layers"))
    return [Choice(parts) if isinstance(parts[0], nn.Linear) else parts[0] for parts in zip(*candidates, strict=True)]
