"""Low-rank changes of the linear layers of a policy (Hu et al., 2022), for the strategy `lora`."""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import torch
from torch import nn
from torch.nn import functional

from mygym.strategies.mixture.network_slots import optimized_modules


class LoRALinear(nn.Linear):
    """Frozen linear layer with a trained low-rank change: `W x + b + scale · B A x`.

    Args:
        layer: The layer.
        rank: Number of rows of `A`.
        scale: Factor of the change.
    """

    def __init__(self, layer: nn.Linear, rank: int, scale: float) -> None:
        device = layer.weight.device
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device=device)
        self.load_state_dict(layer.state_dict())
        self.requires_grad_(False)
        self.scale = scale
        self.lora_a = nn.Parameter(torch.empty(rank, layer.in_features, device=device))
        self.lora_b = nn.Parameter(torch.zeros(layer.out_features, rank, device=device))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(…, in_features)` to `(…, out_features)`."""
        change = functional.linear(functional.linear(x, self.lora_a), self.lora_b)
        return functional.linear(x, self.weight, self.bias) + self.scale * change


class LoRAPolicy:
    """Mixin that adds low-rank changes to the networks of the policy class after it."""

    rank: ClassVar[int]
    scale: ClassVar[float]

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]
        policy = cast(Any, self)
        trained = [
            (module, {id(parameter) for group in module.optimizer.param_groups for parameter in group["params"]})
            for module in optimized_modules(policy)
        ]
        changes = self._change_layers(policy)
        for name, parameter in policy.named_parameters():  # also those of normalisation layers
            parameter.requires_grad_(id(parameter) in changes or name.endswith("log_std"))
        for module, known in trained:
            parameters = [p for p in module.parameters() if p.requires_grad and changes.get(id(p), id(p)) in known]
            module.optimizer = policy.optimizer_class(parameters, lr=lr_schedule(1), **policy.optimizer_kwargs)

    def _change_layers(self, policy: nn.Module) -> dict[int, int]:
        """Replace every linear layer; return id of a new parameter → id of the weight that it changes."""
        changes: dict[int, int] = {}
        for module in list(policy.modules()):
            for name, child in list(module.named_children()):
                if type(child) is nn.Linear:
                    changed = LoRALinear(child, self.rank, self.scale)
                    setattr(module, name, changed)
                    changes |= {id(changed.lora_a): id(child.weight), id(changed.lora_b): id(child.weight)}
        return changes
