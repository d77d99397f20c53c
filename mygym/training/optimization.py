"""Helpers for custom training loops: repeated evaluation of a loss, and optimiser settings for parameter groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from mygym.errors import ConfigError, bad_value
from mygym.registry.signatures import signature
from mygym.training.checkpoints.states import load_random_state, random_state

GROUPS = ("encoder", "actor", "critic", "log_std")
"""Parameter groups of a policy, which may have separate optimiser settings."""

_CRITIC = ("critic", "value_net", "lstm_critic", "q_net", "quantile_net")
_TARGET = "_target"


class Closure(Protocol):
    """Protocol of the functions of `loss_closure`."""

    def __call__(self, backward: bool = True) -> torch.Tensor:
        """Return the loss `()` without a graph; with `backward`, write the gradients to `.grad` of the parameters."""
        ...


def loss_closure(
    loss: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer | None = None, max_grad_norm: float | None = None
) -> Closure:
    """Return a function that evaluates forward pass and loss repeatedly, each time with the same random numbers.

    Dropout and sampling draw the same numbers in every call, so all values belong to the same function of the
    parameters, as required by `torch.optim.LBFGS.step(closure)`, line searches, and methods that evaluate a second
    point before a step. After any number of calls, the global generators of Python, numpy and torch have the state
    of a single evaluation. Other generators are not reset.

        closure = loss_closure(lambda: policy_loss(batch), policy.optimizer, max_grad_norm=0.5)
        before = closure()                    # gradients at this point
        policy.optimizer.step()
        after = closure(backward=False)       # the same batch, the same dropout, other weights

    Args:
        loss: Computes the scalar loss of one batch from the current parameters.
        optimizer: Optimiser whose gradients are cleared before each backward pass; None: gradients add up, as in torch.
        max_grad_norm: Maximum norm of the optimiser's gradients, taken together.

    Raises:
        ValueError: `max_grad_norm` is given without an optimiser.
    """
    if max_grad_norm is not None and optimizer is None:
        raise ValueError("max_grad_norm needs an optimizer")
    start: dict[str, Any] = {}

    def evaluate(backward: bool) -> torch.Tensor:
        with torch.set_grad_enabled(backward):
            if backward and optimizer is not None:
                optimizer.zero_grad()
            value = loss()
            if backward:
                value.backward()  # type: ignore[no-untyped-call]
                if max_grad_norm is not None and optimizer is not None:
                    optimized = [parameter for group in optimizer.param_groups for parameter in group["params"]]
                    nn.utils.clip_grad_norm_(optimized, max_grad_norm)
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
    """Split a policy's parameters into `GROUPS` with separate optimiser settings.

    `encoder`: features extractors, shared or not; `log_std`: standard deviation of the exploration noise; `critic`:
    value functions; `actor`: all other parameters. Each parameter is in exactly one group. Parameters of target
    networks, which are not optimised, are in none. Groups without parameters are omitted.

        torch.optim.Adam(parameter_groups(policy, {"critic": {"lr": 1e-3}}), lr=3e-4)

    Args:
        policy: An SB3 policy, or the module `actor` or `critic` of an off-policy policy.
        settings: Group → optimiser settings, e.g. `lr` or `weight_decay`; other settings are the optimiser's settings.
        key: Name of `settings` in the config, for messages.

    Returns:
        The first argument of torch's optimisers; the name of the group is in `name`.

    Raises:
        ConfigError: Unknown group, group without parameters, unknown setting, or a value out of range.
    """
    groups: dict[str, list[nn.Parameter]] = {group: [] for group in GROUPS}
    root = "critic." if any(name.startswith("qf") for name, _ in policy.named_children()) else ""
    for name, parameter in policy.named_parameters():
        if (group := _group(f"{root}{name}")) is not None:
            groups[group].append(parameter)
    present = [group for group in GROUPS if groups[group]]
    for group, values in settings.items():
        if group not in present:
            why = "has no parameters in this policy" if group in GROUPS else "is not a parameter group of a policy"
            raise ConfigError(bad_value(f"{key}.{group}", group, present, why))
        _check(f"{key}.{group}", values, getattr(policy, "optimizer_class", torch.optim.Adam))
    return [{"params": groups[group], "name": group, **settings.get(group, {})} for group in present]


def _group(name: str) -> str | None:
    """Return the group of a parameter from its dotted name; None for target networks."""
    words = name.split(".")
    if any(word.endswith(_TARGET) for word in words):
        return None
    if any(word.endswith("features_extractor") for word in words):
        return "encoder"
    if "log_std" in words:
        return "log_std"
    return "critic" if any(word in _CRITIC for word in words) else "actor"


def _check(key: str, values: Mapping[str, Any], optimizer: type) -> None:
    """Refuse settings that torch would silently ignore, and values that torch does not check for single groups."""
    if not isinstance(values, Mapping):
        raise ConfigError(bad_value(key, values, "settings by name, e.g. {lr: 1e-3}", "is not a mapping"))
    known = [name for name in signature(optimizer).parameters if name != "params"]
    for name, value in values.items():
        if name not in known:
            raise ConfigError(bad_value(f"{key}.{name}", name, known, f"is not a parameter of {optimizer.__name__}"))
        if name in ("lr", "weight_decay", "eps"):
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not number or value < 0 or (name == "lr" and value == 0):
                allowed = "a number above 0" if name == "lr" else "a number of at least 0"
                raise ConfigError(bad_value(f"{key}.{name}", value, allowed))
