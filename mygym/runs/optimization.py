"""Helpers for training loops of one's own: a loss that is evaluated again and again, optimiser settings by part."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from mygym.errors import ConfigError, bad_value
from mygym.runs.checkpoints.state import load_random_state, random_state

PARTS = ("encoder", "actor", "critic", "log_std")
"""Parts of a policy that may have optimiser settings of their own."""

_CRITIC = ("critic", "value_net", "lstm_critic", "q_net", "quantile_net")
_TARGET = "_target"


class Closure(Protocol):
    """What `loss_closure` gives."""

    def __call__(self, backward: bool = True) -> torch.Tensor:
        """The loss now, `()`, without a graph; with `backward` the gradients are in `.grad` of the parameters."""
        ...


def loss_closure(
    loss: Callable[[], torch.Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    max_grad_norm: float | None = None,
) -> Closure:
    """A function that evaluates forward pass and loss as often as wanted, each time with the same random numbers.

    What dropout and sampling draw in the first call, they draw in every other, so that the values belong to one
    function of the parameters: for `torch.optim.LBFGS.step(closure)`, line searches, and methods that look at a second
    point before they step. However often it is called, Python's, numpy's and torch's global generators end where one
    evaluation leaves them. Generators of one's own are not rewound.

        closure = loss_closure(lambda: policy_loss(batch), policy.optimizer, max_grad_norm=0.5)
        before = closure()                    # gradients at this point
        policy.optimizer.step()
        after = closure(backward=False)       # the same batch, the same dropout, other weights

    Args:
        loss: Computes the scalar loss of one batch from the parameters as they are.
        optimizer: Whose gradients are cleared before each backward pass; None: they add up, as torch leaves them.
        max_grad_norm: Norm of all the optimiser's gradients together to which they are scaled down.

    Raises:
        ValueError: `max_grad_norm` without an optimiser, whose gradients it would be of.
    """
    if max_grad_norm is not None and optimizer is None:
        raise ValueError("max_grad_norm is of an optimiser's gradients: there is none")
    start: dict[str, Any] = {}

    def evaluate(backward: bool) -> torch.Tensor:
        with torch.set_grad_enabled(backward):
            if backward and optimizer is not None:
                optimizer.zero_grad()
            value = loss()
            if backward:
                value.backward()  # type: ignore[no-untyped-call]
                if max_grad_norm is not None and optimizer is not None:
                    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
                    nn.utils.clip_grad_norm_(own, max_grad_norm)
        return value.detach()

    def closure(backward: bool = True) -> torch.Tensor:
        if not start:
            start.update(random_state())
            return evaluate(backward)
        now = random_state()
        load_random_state(start)
        try:
            return evaluate(backward)
        finally:
            load_random_state(now)

    return closure


def parameter_groups(
    policy: nn.Module, settings: Mapping[str, Mapping[str, Any]], key: str = "groups"
) -> list[dict[str, Any]]:
    """Split a policy's parameters into `PARTS`, each with optimiser settings of its own.

    `encoder` are features extractors, whether actor and critic share one or not; `log_std` is the standard deviation of
    exploration; `critic` are value functions; `actor` is everything else. Each parameter is in exactly one part, except
    those of target networks, which follow others and are in none. Parts without parameters are left out.

        torch.optim.Adam(parameter_groups(policy, {"critic": {"lr": 1e-3}}), lr=3e-4)

    Args:
        policy: An SB3 policy, or one of the modules `actor` and `critic` of an off-policy one.
        settings: Part → settings of its optimiser, e.g. `lr` or `weight_decay`; the others have the optimiser's.
        key: What the user calls `settings`, for messages.

    Returns:
        What torch's optimisers take as their first argument; the name of the part is in `name`.

    Raises:
        ConfigError: No such part, or one without parameters; no such setting, or a number that it cannot be.
    """
    parts: dict[str, list[nn.Parameter]] = {part: [] for part in PARTS}
    root = "critic." if any(name.startswith("qf") for name, _ in policy.named_children()) else ""
    for name, parameter in policy.named_parameters():
        if (part := _part(f"{root}{name}")) is not None:
            parts[part].append(parameter)
    present = [part for part in PARTS if parts[part]]
    for part, values in settings.items():
        if part not in present:
            why = "has no parameters in this policy" if part in PARTS else "is no part of a policy"
            raise ConfigError(bad_value(f"{key}.{part}", part, present, why))
        _check(f"{key}.{part}", values, getattr(policy, "optimizer_class", torch.optim.Adam))
    return [{"params": parts[part], "name": part, **settings.get(part, {})} for part in present]


def _part(name: str) -> str | None:
    """The part that a parameter belongs to, by its dotted name; None for target networks."""
    words = name.split(".")
    if any(word.endswith(_TARGET) for word in words):
        return None
    if any(word.endswith("features_extractor") for word in words):
        return "encoder"
    if "log_std" in words:
        return "log_std"
    return "critic" if any(word in _CRITIC for word in words) else "actor"


def _check(key: str, values: Mapping[str, Any], optimizer: type) -> None:
    """Refuse settings that torch would keep and never look at, and numbers that it only checks for all groups."""
    if not isinstance(values, Mapping):
        raise ConfigError(bad_value(key, values, "settings by name, e.g. {lr: 1e-3}", "is no mapping"))
    known = [name for name in inspect.signature(optimizer).parameters if name != "params"]
    for name, value in values.items():
        if name not in known:
            raise ConfigError(bad_value(f"{key}.{name}", name, known, f"is not a parameter of {optimizer.__name__}"))
        if name in ("lr", "weight_decay", "eps"):
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not number or value < 0 or (name == "lr" and value == 0):
                allowed = "a number above 0" if name == "lr" else "a number of at least 0"
                raise ConfigError(bad_value(f"{key}.{name}", value, allowed))
