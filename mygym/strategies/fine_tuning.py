"""Strategies `bitfit`, `lora`, `ia3` and `bottleneck`: train few parameters of a pretrained policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mygym.errors import ConfigError, bad_value
from mygym.strategies.strategy import Strategy

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy
    from torch import nn

    from mygym.strategies.adapters import AdaptedLinear


class FineTuning(Strategy):
    """Base class of strategies that train few parameters of a policy; use them with `pretrained`."""

    def requires(self) -> Sequence[str]:
        """Return the requirement: an algorithm that can leave parameters frozen."""
        return ("first_order",)


class BitFit(FineTuning):
    """Trains the biases alone, and the standard deviations of the actions (Ben Zaken et al., 2022).

    Use it with `pretrained`: the weights keep the values that they have when training begins.
    """

    def requires(self) -> Sequence[str]:
        """Return the requirements: networks of PyTorch that are trained by gradients, some of them frozen."""
        return ("actor_optimizer", "first_order")

    def prepare_model(self) -> None:
        """Exclude every weight matrix from training."""
        policy: Any = self.model.policy
        for name, parameter in policy.named_parameters():
            parameter.requires_grad_(name.endswith(("bias", "log_std")))


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
            ConfigError: The class is no policy of PyTorch that builds its networks in `_build`.
        """
        from stable_baselines3.common.policies import BasePolicy

        from mygym.strategies.adapters import AdaptedPolicy

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

    def __init__(self, *, rank: int = 8, scale: float = 2.0) -> None:
        if rank < 1:
            raise ConfigError(bad_value("strategy_params.rank", rank, "1 or more"))
        self.rank, self.scale = rank, scale

    def adapter(self) -> Callable[[nn.Linear], AdaptedLinear]:
        """Return a function that returns the layer with a low-rank change."""
        from mygym.strategies.adapters import LoRALinear

        return partial(LoRALinear, rank=self.rank, scale=self.scale)


class IA3(Adapter):
    """Trains a factor for each input of the linear layers, which are frozen (IA³, Liu et al., 2022, arXiv:2205.05638).

    A layer computes `W (l ⊙ x) + b`, where `l` begins with ones, so that the policy begins unchanged: training inhibits
    or amplifies observations and activations. It has the fewest parameters of all adapters. Use it with `pretrained`.
    """

    def adapter(self) -> Callable[[nn.Linear], AdaptedLinear]:
        """Return a function that returns the layer with scaled inputs."""
        from mygym.strategies.adapters import IA3Linear

        return IA3Linear


class Bottleneck(Adapter):
    """Trains a small network after each linear layer, which is frozen (Houlsby et al., 2019, arXiv:1902.00751).

    The output `y` of a layer becomes `y + U relu(D y + d) + u`, where `D` has `size` rows, and `U` and `u` begin with
    zeros, so that the policy begins unchanged. Use it with `pretrained`.

    Args:
        size: Number of rows of `D`, the width of the bottleneck.
    """

    def __init__(self, *, size: int = 8) -> None:
        if size < 1:
            raise ConfigError(bad_value("strategy_params.size", size, "1 or more"))
        self.size = size

    def adapter(self) -> Callable[[nn.Linear], AdaptedLinear]:
        """Return a function that returns the layer with a bottleneck after it."""
        from mygym.strategies.adapters import BottleneckLinear

        return partial(BottleneckLinear, size=self.size)
