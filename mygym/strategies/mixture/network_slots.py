"""Networks of SB3's policies: list them, replace them by super-networks, renew the optimisers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import get_actor_critic_arch
from torch import nn

from mygym.algos.imitation_policies import ImitationPolicy
from mygym.strategies.mixture.supernet import SuperNet

OFF_POLICY_MODULES = ("actor", "actor_target", "critic", "critic_target")
"""Modules of off-policy policies that have networks."""


def networks(policy: Any) -> Iterator[tuple[str, nn.Sequential]]:
    """Yield the networks of a policy, from features to outputs, by the names that `replace_network` takes."""
    if isinstance(policy, ActorCriticPolicy):
        yield "action_net", nn.Sequential(*policy.mlp_extractor.policy_net, policy.action_net)
        yield "value_net", nn.Sequential(*policy.mlp_extractor.value_net, policy.value_net)
    elif isinstance(policy, ImitationPolicy):
        yield "network", policy.network
    else:
        for name in OFF_POLICY_MODULES:
            module: Any = getattr(policy, name, None)
            if hasattr(module, "latent_pi"):
                yield f"{name}.latent_pi", nn.Sequential(*module.latent_pi, _joined(module.mu, module.log_std))
            elif hasattr(module, "mu"):
                yield f"{name}.mu", module.mu
            elif module is not None:
                for number, network in enumerate(module.q_networks):
                    yield f"{name}.qf{number}", network


def replace_network(policy: Any, name: str, network: SuperNet) -> None:
    """Put a super-network in the place of the network that `networks` yields under `name`."""
    module_name, _, attribute = name.rpartition(".")
    module = getattr(policy, module_name) if module_name else policy
    setattr(module, attribute, network)
    if name in ("action_net", "value_net"):
        setattr(policy.mlp_extractor, "policy_net" if name == "action_net" else "value_net", nn.Sequential())
    elif attribute == "latent_pi":
        size = module.mu.out_features
        module.mu, module.log_std = ColumnSlice(0, size), ColumnSlice(size, 2 * size)
    elif attribute.startswith("qf"):
        module.q_networks[int(attribute.removeprefix("qf"))] = network


def set_net_arch(policy: Any, arch: Any) -> None:
    """Set the `net_arch` with which a policy class builds its networks."""
    policy.net_arch = arch
    if hasattr(policy, "actor_kwargs"):
        policy.actor_kwargs["net_arch"], policy.critic_kwargs["net_arch"] = get_actor_critic_arch(arch)


def linear_layers(network: nn.Sequential) -> list[nn.Linear]:
    """Return the linear layers of a network."""
    return [layer for layer in network if isinstance(layer, nn.Linear)]


def supernets(module: nn.Module) -> list[SuperNet]:
    """Return the super-networks in a module."""
    return [submodule for submodule in module.modules() if isinstance(submodule, SuperNet)]


def acting_supernet(policy: Any) -> SuperNet:
    """Return the super-network that computes actions."""
    return supernets(getattr(policy, "actor", policy))[0]


def modules_of(policy: Any) -> list[Any]:
    """Return the policy and its modules that have networks."""
    modules = (getattr(policy, name, None) for name in OFF_POLICY_MODULES)
    return [policy, *(module for module in modules if module is not None)]


def optimized_modules(policy: Any) -> list[Any]:
    """Return the modules of a policy that have an optimiser."""
    return [
        module for module in modules_of(policy) if isinstance(getattr(module, "optimizer", None), torch.optim.Optimizer)
    ]


def renewed_optimizer(module: nn.Module, optimizer_class: Any, **kwargs: Any) -> torch.optim.Optimizer:
    """Return a new optimiser of the old optimiser's parameters and of the parameters of all candidates."""
    known = {id(p) for group in cast(Any, module).optimizer.param_groups for p in group["params"]}
    known |= {id(p) for network in supernets(module) for p in network.parameters()}
    optimizer: torch.optim.Optimizer = optimizer_class([p for p in module.parameters() if id(p) in known], **kwargs)
    return optimizer


class ColumnSlice(nn.Module):
    """Selects columns `start` to `stop` of each row.

    Args:
        start: First column.
        stop: Column after the last.
    """

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.start, self.stop = start, stop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(n, d)` to `(n, stop - start)`."""
        return x[:, self.start : self.stop]


def _joined(first: nn.Linear, second: nn.Linear) -> nn.Linear:
    """Return a layer with the outputs of two layers that have the same input."""
    joined = nn.Linear(first.in_features, first.out_features + second.out_features, device=first.weight.device)
    with torch.no_grad():
        joined.weight.copy_(torch.cat([first.weight, second.weight]))
        joined.bias.copy_(torch.cat([first.bias, second.bias]))
    return joined
