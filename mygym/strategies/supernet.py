"""Super-networks: several candidates in place of a network, of which one is passed, or a mixture of all.

The idea is that of one-shot architecture search (SPOS, Guo et al., 2020; DARTS, Liu et al., 2019). A mixture is of
*outputs*: that of two means of a Gaussian policy is the mean of one Gaussian between them, no mixture distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.nn import functional

from mygym.errors import ConfigError, bad_value
from mygym.strategies.protocols import PROTOCOLS, Protocol, Units, check_tau, check_weights


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
        self.route: torch.Tensor | None = None
        """`(n, 1)` or `(n, layers)`: the candidates that each row of the batch passes, in place of the path."""
        self.row_noise: torch.Tensor | None = None
        """`(n, layers, candidates)`: the Gumbel noise of each row of the batch."""
        self.noise: torch.Tensor | None = None
        """`(layers, candidates)`: noise while training of rows that have none of their own; drawn once per rollout."""

    @property
    def protocol(self) -> Protocol:
        """The one that is set."""
        return PROTOCOLS[int(self.number)]

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
        self.depth = sum(isinstance(layer, Choice) for layer in layers)
        """Number of choices."""
        self.candidates = len(candidates)
        width = next(module.in_features for module in candidates[0].modules() if isinstance(module, nn.Linear))
        self.gate = nn.Linear(width, self.depth * self.candidates)
        """Scores of candidates on the input; its biases are what architecture search calls architecture parameters."""
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self.own_state = ForwardState(self.candidates, self.depth) if state is None else None
        self._state = (self.own_state or state,)  # in a tuple, as a module it would be saved with each network
        self.seen: torch.Tensor | None = None
        """`(n, d)`: input of the last pass while training, of which a gate's usage is told."""

    @property
    def state(self) -> ForwardState:
        """How it is passed."""
        return cast(ForwardState, self._state[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, d)` → `(n, e)`."""
        state = self.state
        protocol = state.protocol
        if self.training:
            self.seen = x.detach()
        if protocol == "single":
            chosen: list[int] | tuple[torch.Tensor, ...]
            chosen = state.path.tolist() if state.route is None else state.route.unbind(1)
            number = 0
            for layer in self.layers:
                if isinstance(layer, Choice):
                    x = layer.single(x, chosen[min(number, len(chosen) - 1)])
                    number += 1
                else:
                    x = layer(x)
            return x
        weights = self.mixture(x).unbind(-2)
        number = 0
        for layer in self.layers:
            if isinstance(layer, Choice):
                x = layer.mixed(x, weights[number])
                number += 1
            else:
                x = layer(x)
        return x

    def mixture(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, depth, K)`, or `(depth, K)` where all rows have the same: weights of the candidates on an input."""
        state = self.state
        if state.protocol == "sum":
            return state.weights[: self.depth]
        scores = self.scores(x)
        if state.protocol == "softmax":
            return scores.softmax(-1)
        noise = state.row_noise if state.row_noise is not None else state.noise if self.training else None
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
        route = state.path[None] if state.route is None else state.route
        shares = functional.one_hot(route.long(), self.candidates).float().mean(0)
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
        # batch statistics of the few rows that one candidate gets would be none, so each of those sees all rows
        self.sees_all = any(hasattr(module, "momentum") for one in candidates for module in one.modules())

    def single(self, x: torch.Tensor, chosen: int | torch.Tensor) -> torch.Tensor:
        """Output of the candidate that is chosen, for all rows or, by a tensor `(n,)`, for each; no other is passed."""
        if isinstance(chosen, int):
            return cast(torch.Tensor, self.candidates[chosen](x))
        rows = chosen.long()
        numbers = sorted(set(rows.tolist()))
        if len(numbers) == 1:
            return cast(torch.Tensor, self.candidates[numbers[0]](x))
        groups = [(rows == number).nonzero().flatten() for number in numbers]
        if self.sees_all:
            outputs = [self.candidates[number](x)[group] for number, group in zip(numbers, groups, strict=True)]
        else:
            outputs = [self.candidates[number](x[group]) for number, group in zip(numbers, groups, strict=True)]
        return torch.cat(outputs)[torch.cat(groups).argsort()]

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
