"""Policies of any algorithm with super-networks in place of their networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, cast

import torch
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.crossq.policies import CrossQPolicy
from sb3_contrib.tqc.policies import TQCPolicy
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, get_actor_critic_arch
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import nn

from mygym.algos.imitation import ImitationPolicy
from mygym.errors import ConfigError, bad_value
from mygym.strategies.mixture.routing import ByObservation, Layout
from mygym.strategies.mixture.supernet import ForwardState, Route, SuperNet, route_rows
from mygym.training.vec_wrappers import ROUTE, without_route

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
    """Selects columns `start` to `stop` of each row."""

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


SUPPORTED: tuple[type[BasePolicy], ...] = (
    *(ActorCriticPolicy, SACPolicy, TQCPolicy, CrossQPolicy, TD3Policy),
    ImitationPolicy,
)
"""Policy classes whose networks can be replaced, also in subclasses."""


def mixture_policy(cls: type[BasePolicy], layout: Layout) -> type[BasePolicy]:
    """Return a subclass of a policy class with super-networks.

    Raises:
        ConfigError: The networks of this class cannot be replaced.
    """
    supported = isinstance(cls, type) and issubclass(cls, SUPPORTED) and not issubclass(cls, RecurrentActorCriticPolicy)
    if not supported:
        allowed = "an algorithm of framework pytorch whose networks are layers: ppo, a2c, trpo, sac, tqc, td3, ddpg, "
        why = f"cannot replace the networks of {getattr(cls, '__name__', cls)}"
        raise ConfigError(bad_value("strategy", "mixture", f"{allowed}crossq, ppo_runner, bc, dagger", why))
    return type(f"Mixture{cls.__name__}", (MixturePolicy, cls), {"layout": layout, "__doc__": cls.__doc__})


class MixturePolicy:
    """Mixin that replaces the networks of the policy class after it by super-networks.

    The policy class builds each candidate, so that all candidates have its initial weights, normalisation and sizes.
    """

    layout: ClassVar[Layout]
    forward_state: ForwardState

    def _build(self, lr_schedule: Schedule) -> None:
        policy = cast(Any, self)
        if getattr(policy, "use_sde", False) or getattr(policy, "actor_kwargs", {}).get("use_sde"):
            why = "draws exploration noise from the last layer, but a mixture has several last layers"
            raise ConfigError(bad_value("algo_params.use_sde", True, [False], why))
        net_arch, candidates = policy.net_arch, []
        for arch in self.layout.archs:
            set_net_arch(policy, net_arch if arch is None else arch)
            super()._build(lr_schedule)  # type: ignore[misc]
            candidates.append(dict(networks(policy)))
        set_net_arch(policy, net_arch)
        layers = 1
        if self.layout.units == "blocks":
            layers = max(sum(isinstance(each, nn.Linear) for each in network) for network in candidates[0].values())
        self.forward_state = ForwardState(len(candidates), layers)
        for name in candidates[0]:
            supernet = SuperNet([built[name] for built in candidates], self.layout.units, self.forward_state)
            replace_network(policy, name, supernet)
        for name in ("actor_target", "critic_target"):
            if hasattr(policy, name):
                getattr(policy, name).set_training_mode(False)
        rate = lr_schedule(1)
        for module in optimized_modules(policy):
            module.optimizer = renewed_optimizer(module, policy.optimizer_class, lr=rate, **policy.optimizer_kwargs)
        if not isinstance(self, ImitationPolicy):  # that policy standardises the input of its extractor
            extractors = [getattr(module, "features_extractor", None) for module in modules_of(policy)]
            extractors += [getattr(policy, "vf_features_extractor", None)]
            for extractor in {id(e): e for e in extractors if e is not None}.values():
                extractor.register_forward_pre_hook(self._before_features)

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """Return a features extractor for observations without routes."""
        policy = cast(Any, self)
        extractor: BaseFeaturesExtractor = policy.features_extractor_class(
            without_route(policy.observation_space), **policy.features_extractor_kwargs
        )
        return extractor

    def forward(self, obs: PyTorchObs, *args: Any, **kwargs: Any) -> Any:
        """Call the policy class's `forward` with the routes of `obs` set."""
        if isinstance(self, ImitationPolicy):
            self._read_route(obs)
        return super().forward(obs, *args, **kwargs)  # type: ignore[misc]

    def _before_features(self, _: nn.Module, inputs: tuple[Any]) -> tuple[Any] | None:
        """Set the routes before features are extracted, which every network does first; remove them from the input."""
        self._read_route(inputs[0])
        if isinstance(inputs[0], dict) and ROUTE in inputs[0]:
            return ({key: array for key, array in inputs[0].items() if key != ROUTE},)
        return None

    def _read_route(self, observations: Any) -> None:
        state, by = self.forward_state, self.layout.by
        batch = state.batch
        batch.routes = batch.noise = None
        if by is not None:
            rows = observations if by.key is None else observations[by.key]
            batch.routes = _routes(rows, by, state)
        elif isinstance(observations, dict) and ROUTE in observations:
            route = observations[ROUTE]
            if state.protocol == "gumbel_softmax":
                size = state.layers * state.candidates
                batch.noise = route[:, :size].unflatten(1, (state.layers, state.candidates))
            else:
                state.route(route[:, : state.layers].round().long())


def _routes(rows: torch.Tensor, by: ByObservation, state: ForwardState) -> Sequence[Route]:
    """Return the routes of observation rows `(n, d)`.

    In a one-hot vector, normalised or not, only the hot number is above 0.
    """
    size = by.stop - by.start
    if not torch.compiler.is_compiling():  # also exported: a graph cannot depend on the values
        alone = len(rows) == 1
        # Python numbers for the first row: making a tensor takes longer than passing a small layer.
        numbers = (rows if alone else rows[:1]).tolist()[0][by.start : by.stop]
        most = max(numbers)
        hot = numbers.index(most) if most > 0 or len(by.candidates) == size else size
        # All rows are often equal, and checking this is faster than sorting them.
        if alone or (most > 0 and rows[:, by.start + hot].min().item() > 0):
            return state.uniform_routes[by.candidates[hot]]
    values, index = rows[:, by.start : by.stop].max(dim=1)
    if len(by.candidates) > size:
        index = torch.where(values > 0, index, size)
    return (route_rows(torch.as_tensor(by.candidates, device=index.device)[index], state.candidates),)
