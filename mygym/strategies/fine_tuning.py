"""Strategies `bitfit` and `lora`: train few parameters of a pretrained policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mygym.errors import ConfigError, bad_value
from mygym.strategies.strategy import Strategy

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy


class BitFit(Strategy):
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


class LoRA(Strategy):
    """Trains low-rank changes of the linear layers, which are frozen themselves (Hu et al., 2022).

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

    def requires(self) -> Sequence[str]:
        """Return the requirement: an algorithm that can leave parameters frozen."""
        return ("first_order",)

    def policy_class(self, cls: type[BasePolicy]) -> type[BasePolicy]:
        """Return a subclass whose linear layers have low-rank changes.

        Raises:
            ConfigError: The class is no policy of PyTorch that builds its networks in `_build`.
        """
        from stable_baselines3.common.policies import BasePolicy

        from mygym.strategies.low_rank import LoRAPolicy

        if not (isinstance(cls, type) and issubclass(cls, BasePolicy) and hasattr(cls, "_build")):
            allowed = "an algorithm of framework pytorch with networks, such as ppo or sac"
            why = f"cannot change the layers of {getattr(cls, '__name__', cls)}"
            raise ConfigError(bad_value("strategy", self.name, allowed, why))
        members = {"rank": self.rank, "scale": self.scale, "__doc__": cls.__doc__}
        return type(f"LoRA{cls.__name__}", (LoRAPolicy, cls), members)
