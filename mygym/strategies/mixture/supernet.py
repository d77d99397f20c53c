"""Super-networks: several candidates in place of one network; a pass uses one candidate or a mixture of all.

One-shot architecture search (SPOS, Guo et al., 2020; DARTS, Liu et al., 2019). A mixture combines *outputs*: mixing two
means of a Gaussian policy gives one Gaussian with the mean between them, not a mixture distribution.
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
from mygym.strategies.mixture.routing import PROTOCOLS, Protocol, Units, check_weights


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
            if not 0 < tau < float("inf"):
                raise ConfigError(bad_value("tau", tau, "above 0"))
            self.tau.fill_(tau)
        self.number.fill_(PROTOCOLS.index(protocol))
        self._cache_buffers()


class SuperNet(nn.Module):
    """Candidates in place of one network: whole networks, or a choice for each linear layer.

    Args:
        candidates: Networks with equal input and output sizes; with units `blocks`, with the same layers.
        units: `whole`: the candidates are the networks. `blocks`: each linear layer is a separate choice; modules
            between them, such as activations, come from the first candidate.
        state: Forward state, which is shared with the other networks of the policy.

    Raises:
        ConfigError: Candidates are missing, or have different layers with units `blocks`.
    """

    def __init__(self, candidates: Sequence[nn.Sequential], units: Units, state: ForwardState) -> None:
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
        """Network that scores the candidates for an input; its biases are the architecture parameters of the search."""
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self._state = (state,)  # in a tuple: as a submodule it would be saved with each network
        self.last_input: torch.Tensor | None = None
        """`(n, d)`: input of the last pass in training, for `usage` and `balance_loss`."""
        self.last_routes: Sequence[Route] = ()
        """Routes of that pass under protocol `single`."""

    @property
    def state(self) -> ForwardState:
        """Forward state."""
        return self._state[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, d)` to `(n, e)`."""
        state = self.state
        single = state.protocol == "single"
        routes = state.batch.routes or state.path_routes
        if self.training:
            self.last_input, self.last_routes = x.detach(), routes
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
        """Return the weights of the candidates for an input: `(n, depth, K)`, or `(depth, K)` if equal for all rows."""
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
        """Return the gate's scores before the softmax, `(n, depth, K)`."""
        scores: torch.Tensor = self.gate(x)
        return scores.view(*scores.shape[:-1], self.depth, self.candidates)

    def usage(self) -> torch.Tensor | None:
        """Return the share of each candidate in the last training pass, `(depth, K)`; None before the first."""
        state = self.state
        if self.last_input is None:
            return None
        if state.protocol != "single":
            with torch.no_grad():
                if state.protocol == "sum":
                    mixture = self.mixture(self.last_input)
                else:
                    mixture = self.scores(self.last_input).softmax(-1)
                return mixture if mixture.ndim == 2 else mixture.mean(0)
        shares = torch.stack([route.shares(self.candidates) for route in self.last_routes])
        return shares[: self.depth].expand(self.depth, -1)

    def balance_loss(self) -> torch.Tensor | None:
        """Return the gate's importance loss on the last training batch; None before the first.

        Shazeer et al., 2017, equation 8: the squared coefficient of variation of the candidates' total weights, which
        is 0 if all candidates are used equally.
        """
        if self.last_input is None:
            return None
        importance = self.scores(self.last_input).softmax(-1).sum(0)
        return (importance.var(-1, correction=0) / importance.mean(-1) ** 2).sum()


class Choice(nn.Module):
    """Layer with several candidates, modules with equal input and output sizes."""

    def __init__(self, candidates: Sequence[nn.Module]) -> None:
        super().__init__()
        self.candidates = nn.ModuleList(candidates)
        self._candidates = self.candidates._modules  # its own: a strategy replaces layers, and indexing it is slower
        # Batch statistics over the few rows of one candidate would be meaningless, so such candidates get all rows.
        modules = (module for candidate in candidates for module in candidate.modules())
        self.needs_all_rows = any(hasattr(module, "momentum") for module in modules)

    def single(self, x: torch.Tensor, route: Route) -> torch.Tensor:
        """Return the output of each row's candidate; unused candidates are not computed."""
        if route.number is not None:
            return cast(torch.Tensor, self._candidates[str(route.number)](x))
        if route.numbers is not None:
            return self.mixed(x, functional.one_hot(route.numbers, len(self.candidates)).to(x.dtype))
        order = route.order
        assert order is not None
        outputs = []
        for candidate, rows in zip(self.candidates, torch.split(order, list(route.sizes)), strict=True):
            if len(rows):
                outputs.append(candidate(x)[rows] if self.needs_all_rows else candidate(x[rows]))
        joined = torch.cat(outputs)
        return torch.empty_like(joined).index_copy(0, order, joined)

    def mixed(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return the sum of all outputs with `weights` `(K,)` or `(n, K)`."""
        outputs = torch.stack([candidate(x) for candidate in self.candidates], dim=-1)
        return (outputs * weights.unsqueeze(-2)).sum(-1)


def _blocks(candidates: Sequence[nn.Sequential]) -> list[nn.Module]:
    """Return the layers of equal candidates, with a `Choice` in place of each linear layer."""
    shapes = [[(type(layer), [p.shape for p in layer.parameters()]) for layer in network] for network in candidates]
    if any(shape != shapes[0] for shape in shapes):
        raise ConfigError(bad_value("units", "blocks", ["whole"], "needs candidates with the same layers"))
    return [
        Choice(layers) if isinstance(layers[0], nn.Linear) else layers[0] for layers in zip(*candidates, strict=True)
    ]
