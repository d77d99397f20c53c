"""Strategies `bitfit`, `lora`, `ia3` and `bottleneck`: train few parameters of a pretrained policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import torch
from annotated_types import Ge, Le
from stable_baselines3.common.policies import BasePolicy
from torch import nn
from torch.nn import functional

from mygym.errors import ConfigError, bad_value
from mygym.planning.strategies import JOIN
from mygym.strategies.mixture.policies import optimized_modules
from mygym.strategies.strategy import Strategy

MAX_ROWS = 1024
"""Maximum number of rows that an adapter adds to a layer: more than the width of a policy's layers adds nothing."""


class AdaptedLinear(nn.Linear):
    """Frozen copy of a linear layer; a subclass adds trained parameters, which change nothing at the start."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device=layer.weight.device)
        self.load_state_dict(layer.state_dict())
        self.requires_grad_(False)

    def added(self, *shape: int) -> nn.Parameter:
        """Return a trained parameter of zeros."""
        return nn.Parameter(torch.zeros(shape, device=self.weight.device))


class LoRALinear(AdaptedLinear):
    """Low-rank change of the weights (Hu et al., 2022): `W x + b + scale · B A x`."""

    def __init__(self, layer: nn.Linear, rank: int, scale: float) -> None:
        super().__init__(layer)
        self.scale = scale
        self.lora_a, self.lora_b = self.added(rank, layer.in_features), self.added(layer.out_features, rank)
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(…, in_features)` to `(…, out_features)`."""
        change = functional.linear(functional.linear(x, self.lora_a), self.lora_b)
        return functional.linear(x, self.weight, self.bias) + self.scale * change


class IA3Linear(AdaptedLinear):
    """Scaled inputs (Liu et al., 2022, equation 1): `W (l ⊙ x) + b`, where `l` begins as 1."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer)
        self.ia3 = self.added(layer.in_features)
        nn.init.ones_(self.ia3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(…, in_features)` to `(…, out_features)`."""
        return functional.linear(self.ia3 * x, self.weight, self.bias)


class BottleneckLinear(AdaptedLinear):
    """Bottleneck after the layer (Houlsby et al., 2019): `y + U relu(D y + d) + u` of the output `y = W x + b`."""

    def __init__(self, layer: nn.Linear, size: int) -> None:
        super().__init__(layer)
        width = layer.out_features
        self.bottleneck_down, self.bottleneck_down_bias = self.added(size, width), self.added(size)
        self.bottleneck_up, self.bottleneck_up_bias = self.added(width, size), self.added(width)
        nn.init.kaiming_uniform_(self.bottleneck_down, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(…, in_features)` to `(…, out_features)`."""
        output = functional.linear(x, self.weight, self.bias)
        hidden = functional.linear(output, self.bottleneck_down, self.bottleneck_down_bias).relu()
        return output + functional.linear(hidden, self.bottleneck_up, self.bottleneck_up_bias)


class AdaptedPolicy:
    """Mixin that adapts the networks of the policy class after it."""

    adapt: ClassVar[Callable[[nn.Linear], AdaptedLinear]]
    """Returns the adapted layer of a linear layer."""

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]
        policy = cast(Any, self)
        trained = [
            (module, {id(parameter) for group in module.optimizer.param_groups for parameter in group["params"]})
            for module in optimized_modules(policy)
        ]
        added = self._adapt_layers(policy)
        for name, parameter in policy.named_parameters():  # also those of normalisation layers
            parameter.requires_grad_(id(parameter) in added or name.endswith("log_std"))
        for name, target in policy.named_children():
            if name.endswith("_target"):
                target.load_state_dict(getattr(policy, name.removesuffix("_target")).state_dict())
        for module, known in trained:
            parameters = [p for p in module.parameters() if p.requires_grad and added.get(id(p), id(p)) in known]
            module.optimizer = policy.optimizer_class(parameters, lr=lr_schedule(1), **policy.optimizer_kwargs)

    def _adapt_layers(self, policy: nn.Module) -> dict[int, int]:
        """Replace every linear layer; return id of an added parameter → id of the weight of its layer."""
        added: dict[int, int] = {}
        for module in list(policy.modules()):
            for name, child in list(module.named_children()):
                if type(child) is nn.Linear:
                    adapted = type(self).adapt(child)
                    setattr(module, name, adapted)
                    added |= {id(p): id(child.weight) for p in adapted.parameters() if p.requires_grad}
        return added


class FineTuning(Strategy):
    """Base class of strategies that train few parameters of a policy; use them with `pretrained`."""

    def requires(self) -> Sequence[str]:
        """Return the requirement: an algorithm that can leave parameters frozen."""
        return ("first_order",)

    def policy_class(self, cls: type[BasePolicy]) -> type[BasePolicy]:
        """Return the class.

        Raises:
            ConfigError: Another strategy of the run freezes parameters that this one trains.
        """
        names = [each.name for each in self.plan.strategies if isinstance(each, FineTuning)]
        if len(names) > 1:
            why = f"joins {len(names)} strategies of fine-tuning: {', '.join(names)}"
            raise ConfigError(bad_value("strategy", self.config.strategy, "one of them", why))
        return cls


class BitFit(FineTuning):
    """Trains the biases alone, and the standard deviations of the actions (Ben Zaken et al., 2022).

    Use it with `pretrained`: the weights keep the values that they have when training begins.
    """

    def requires(self) -> Sequence[str]:
        """Return the requirements: networks of PyTorch that are trained by gradients, some of them frozen."""
        return ("actor_optimizer", "first_order")

    def prepare_model(self) -> None:
        """Exclude every weight matrix from training.

        Raises:
            ConfigError: `pretrained.freeze` has excluded the biases.
        """
        policy: Any = self.model.policy
        for name, parameter in policy.named_parameters():
            if not name.rpartition(".")[2].startswith(("bias", "log_std")):  # an LSTM has bias_ih_l0
                parameter.requires_grad_(False)
        if not any(parameter.requires_grad for parameter in policy.parameters()):
            why = f"leaves strategy {self.name} none to train"
            raise ConfigError(
                bad_value("pretrained.freeze", self.config.pretrained.freeze, "patterns that leave a bias", why)
            )


class Adapter(FineTuning):
    """Base class of strategies that freeze a policy and train the parameters that an adapter adds to its linear layers.

    The policy begins unchanged.
    """

    def adapter(self) -> Callable[[nn.Linear], AdaptedLinear]:
        """Return a function of a layer that returns the adapted layer; it is saved with the policy."""
        raise NotImplementedError(f"{type(self).__name__} does not define adapter")

    def policy_class(self, cls: type[BasePolicy]) -> type[BasePolicy]:
        """Return a subclass whose linear layers are adapted.

        Raises:
            ConfigError: The class is no policy of PyTorch that builds its networks in `_build`, or a later strategy
                would replace adapted layers.
        """
        cls = super().policy_class(cls)
        names = [each.name for each in self.plan.strategies]
        later = self.plan.strategies[names.index(self.name) + 1 :]
        if replacing := [each.name for each in later if type(each).policy_class is not Strategy.policy_class]:
            allowed = JOIN.join([*(name for name in names if name != self.name), self.name])
            why = f"adapts layers that {', '.join(replacing)} would replace"
            raise ConfigError(bad_value("strategy", self.config.strategy, allowed, why))
        if not (isinstance(cls, type) and issubclass(cls, BasePolicy) and hasattr(cls, "_build")):
            allowed = "an algorithm of framework pytorch with networks, such as ppo or sac"
            why = f"cannot change the layers of {getattr(cls, '__name__', cls)}"
            raise ConfigError(bad_value("strategy", self.name, allowed, why))
        members = {"adapt": staticmethod(self.adapter()), "__doc__": cls.__doc__}
        return type(f"{type(self).__name__}{cls.__name__}", (AdaptedPolicy, cls), members)


class LoRA(Adapter):
    """Trains low-rank changes of the linear layers, which are frozen themselves (Hu et al., 2022, arXiv:2106.09685).

    A layer computes `W x + b + scale · B A x`, where `A` has `rank` rows and `B` begins with zeros, so that the policy
    begins unchanged. Use it with `pretrained`.

    Args:
        rank: Number of rows of `A`.
        scale: Factor of the change.
    """

    def __init__(self, *, rank: Annotated[int, Ge(1), Le(MAX_ROWS)] = 8, scale: float = 2.0) -> None:
        self.rank, self.scale = rank, scale

    def adapter(self) -> Callable[[nn.Linear], AdaptedLinear]:
        """Return a function that returns the layer with a low-rank change."""
        return partial(LoRALinear, rank=self.rank, scale=self.scale)


class IA3(Adapter):
    """Trains a factor for each input of the linear layers, which are frozen (IA³, Liu et al., 2022, arXiv:2205.05638).

    A layer computes `W (l ⊙ x) + b`, where `l` begins with ones, so that the policy begins unchanged: training inhibits
    or amplifies observations and activations. It has the fewest parameters of all adapters. Use it with `pretrained`.
    """

    def adapter(self) -> Callable[[nn.Linear], AdaptedLinear]:
        """Return a function that returns the layer with scaled inputs."""
        return IA3Linear


class Bottleneck(Adapter):
    """Trains a small network after each linear layer, which is frozen (Houlsby et al., 2019, arXiv:1902.00751).

    The output `y` of a layer becomes `y + U relu(D y + d) + u`, where `D` has `size` rows, and `U` and `u` begin with
    zeros, so that the policy begins unchanged. Use it with `pretrained`.

    Args:
        size: Number of rows of `D`, the width of the bottleneck.
    """

    def __init__(self, *, size: Annotated[int, Ge(1), Le(MAX_ROWS)] = 8) -> None:
        self.size = size

    def adapter(self) -> Callable[[nn.Linear], AdaptedLinear]:
        """Return a function that returns the layer with a bottleneck after it."""
        return partial(BottleneckLinear, size=self.size)
