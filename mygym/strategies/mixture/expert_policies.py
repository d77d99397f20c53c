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

from mygym.algos.imitation_policies import ImitationPolicy
from mygym.errors import ConfigError, bad_value
from mygym.runs.routed_vec_env import ROUTE, without_route
from mygym.strategies.mixture.expert_routes import ByObservation, Layout
from mygym.strategies.mixture.supernet import ForwardState, Route, SuperNet, route_rows

KNOWN: tuple[type[BasePolicy], ...] = (
    *(ActorCriticPolicy, SACPolicy, TQCPolicy, CrossQPolicy, TD3Policy),
    ImitationPolicy,
)
"""Classes whose networks, and those of their subclasses, can be replaced."""

OWNERS = ("actor", "actor_target", "critic", "critic_target")
"""Modules of off-policy policies that have networks."""


def with_experts(cls: type[BasePolicy], layout: Layout) -> type[BasePolicy]:
    """A subclass of a policy class with super-networks.

    Raises:
        ConfigError: Its networks are none of those that can be replaced.
    """
    known = isinstance(cls, type) and issubclass(cls, KNOWN) and not issubclass(cls, RecurrentActorCriticPolicy)
    if not known:
        allowed = "an algorithm of framework pytorch whose networks are layers: ppo, a2c, trpo, sac, tqc, td3, ddpg, "
        why = f"replaces networks, which {getattr(cls, '__name__', cls)} has none of that it knows"
        raise ConfigError(bad_value("strategy", "experts", f"{allowed}crossq, ppo_runner, bc, dagger", why))
    return type(f"Expert{cls.__name__}", (ExpertPolicy, cls), {"layout": layout, "__doc__": cls.__doc__})


class ExpertPolicy:
    """What makes super-networks of the networks of the class that comes after it, which it lets build each candidate.

    So all candidates have the initial weights, the normalisation and the sizes that the class gives to its networks.
    """

    layout: ClassVar[Layout]
    forward_state: ForwardState

    def _build(self, lr_schedule: Schedule) -> None:
        policy = cast(Any, self)
        if getattr(policy, "use_sde", False) or getattr(policy, "actor_kwargs", {}).get("use_sde"):
            why = "draws exploration noise by the last layer, of which experts have several"
            raise ConfigError(bad_value("algo_params.use_sde", True, [False], why))
        own, built = policy.net_arch, []
        for arch in self.layout.archs:
            _resize(policy, own if arch is None else arch)
            super()._build(lr_schedule)  # type: ignore[misc]
            built.append(dict(_networks(policy)))
        _resize(policy, own)
        layers = 1 if self.layout.units == "whole" else max(len(list(_linears(one))) for one in built[0].values())
        self.forward_state = ForwardState(len(built), layers)
        for name in built[0]:
            _put(policy, name, SuperNet([one[name] for one in built], self.layout.units, self.forward_state))
        for name in ("actor_target", "critic_target"):
            if hasattr(policy, name):
                getattr(policy, name).set_training_mode(False)
        rate = lr_schedule(1)
        for owner in optimized(policy):
            owner.optimizer = _renewed(owner, policy.optimizer_class, lr=rate, **policy.optimizer_kwargs)
        if not isinstance(self, ImitationPolicy):  # which standardises what its extractor gets
            extractors = [getattr(owner, "features_extractor", None) for owner in _owners(policy)]
            extractors += [getattr(policy, "vf_features_extractor", None)]
            for extractor in {id(one): one for one in extractors if one is not None}.values():
                extractor.register_forward_pre_hook(self._before_features)

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """One that knows of no routes."""
        policy = cast(Any, self)
        extractor: BaseFeaturesExtractor = policy.features_extractor_class(
            without_route(policy.observation_space), **policy.features_extractor_kwargs
        )
        return extractor

    def forward(self, obs: PyTorchObs, *args: Any, **kwargs: Any) -> Any:
        """As the class does."""
        if isinstance(self, ImitationPolicy):
            self._read_route(obs)
        return super().forward(obs, *args, **kwargs)  # type: ignore[misc]

    def _before_features(self, _: nn.Module, inputs: tuple[Any]) -> tuple[Any] | None:
        """Every network asks for the features first: then is the time to look where its rows shall pass."""
        self._read_route(inputs[0])
        if isinstance(inputs[0], dict) and ROUTE in inputs[0]:
            return ({key: part for key, part in inputs[0].items() if key != ROUTE},)
        return None

    def _read_route(self, observations: Any) -> None:
        state, by = self.forward_state, self.layout.by
        batch = state.batch
        batch.routes = batch.noise = None
        if by is not None:
            part = observations if by.key is None else observations[by.key]
            batch.routes = _routes(part, by, state)
        elif isinstance(observations, dict) and ROUTE in observations:
            given = observations[ROUTE]
            if state.protocol == "gumbel_softmax":
                size = state.layers * state.candidates
                batch.noise = given[:, :size].unflatten(1, (state.layers, state.candidates))
            else:
                state.route(given[:, : state.layers].round().long())


def _routes(part: torch.Tensor, by: ByObservation, state: ForwardState) -> Sequence[Route]:
    """Which experts rows `(n, d)` are for. Normalised or not, of a one-hot vector only the hot number is above 0."""
    size = by.stop - by.start
    alone = len(part) == 1
    # as numbers, not as tensors, each of which takes longer to make than a small layer takes to pass
    numbers = (part if alone else part[:1]).tolist()[0][by.start : by.stop]
    most = max(numbers)
    hot = numbers.index(most) if most > 0 or len(by.experts) == size else size
    # often all rows are alike: to ask that first is quicker than to sort them
    if alone or (most > 0 and part[:, by.start + hot].min().item() > 0):
        return state.same[by.experts[hot]]
    values, index = part[:, by.start : by.stop].max(dim=1)
    if len(by.experts) > size:
        index = torch.where(values > 0, index, size)
    return (route_rows(torch.as_tensor(by.experts, device=index.device)[index], state.candidates),)


def optimized(policy: Any) -> list[Any]:
    """The modules of a policy that have an optimiser."""
    return [owner for owner in _owners(policy) if isinstance(getattr(owner, "optimizer", None), torch.optim.Optimizer)]


def supernets(module: nn.Module) -> list[SuperNet]:
    """The super-networks in a module."""
    return [one for one in module.modules() if isinstance(one, SuperNet)]


def actor_of(policy: Any) -> SuperNet:
    """The super-network that acts."""
    return supernets(getattr(policy, "actor", policy))[0]


def _owners(policy: Any) -> list[Any]:
    return [policy, *(getattr(policy, name) for name in OWNERS if getattr(policy, name, None) is not None)]


def _renewed(owner: nn.Module, optimizer_class: Any, **kwargs: Any) -> torch.optim.Optimizer:
    """An optimiser of all that the old one had and all candidates."""
    known = {id(one) for group in cast(Any, owner).optimizer.param_groups for one in group["params"]}
    known |= {id(one) for network in supernets(owner) for one in network.parameters()}
    made: torch.optim.Optimizer = optimizer_class([one for one in owner.parameters() if id(one) in known], **kwargs)
    return made


def _resize(policy: Any, arch: Any) -> None:
    policy.net_arch = arch
    if hasattr(policy, "actor_kwargs"):
        policy.actor_kwargs["net_arch"], policy.critic_kwargs["net_arch"] = get_actor_critic_arch(arch)


def _networks(policy: Any) -> Iterator[tuple[str, nn.Sequential]]:
    """The networks of a policy, from features to what comes out, by names that `_put` knows."""
    if isinstance(policy, ActorCriticPolicy):
        yield "action_net", nn.Sequential(*policy.mlp_extractor.policy_net, policy.action_net)
        yield "value_net", nn.Sequential(*policy.mlp_extractor.value_net, policy.value_net)
    elif isinstance(policy, ImitationPolicy):
        yield "network", policy.network
    else:
        for name in OWNERS:
            owner: Any = getattr(policy, name, None)
            if hasattr(owner, "latent_pi"):
                yield f"{name}.latent_pi", nn.Sequential(*owner.latent_pi, _joined(owner.mu, owner.log_std))
            elif hasattr(owner, "mu"):
                yield f"{name}.mu", owner.mu
            elif owner is not None:
                for number, network in enumerate(owner.q_networks):
                    yield f"{name}.qf{number}", network


def _put(policy: Any, name: str, network: SuperNet) -> None:
    """Put a super-network where `_networks` has found its candidates."""
    owner, _, attribute = name.rpartition(".")
    module = getattr(policy, owner) if owner else policy
    setattr(module, attribute, network)
    if name in ("action_net", "value_net"):
        setattr(policy.mlp_extractor, "policy_net" if name == "action_net" else "value_net", nn.Sequential())
    elif attribute == "latent_pi":
        size = module.mu.out_features
        module.mu, module.log_std = Part(0, size), Part(size, 2 * size)
    elif attribute.startswith("qf"):
        module.q_networks[int(attribute.removeprefix("qf"))] = network


class Part(nn.Module):
    """Some of the numbers of each row.

    Args:
        start: The first of them.
        stop: The first after them.
    """

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.start, self.stop = start, stop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, d)` → `(n, stop - start)`."""
        return x[:, self.start : self.stop]


def _joined(one: nn.Linear, other: nn.Linear) -> nn.Linear:
    """Two layers on the same input as one."""
    joined = nn.Linear(one.in_features, one.out_features + other.out_features, device=one.weight.device)
    with torch.no_grad():
        joined.weight.copy_(torch.cat([one.weight, other.weight]))
        joined.bias.copy_(torch.cat([one.bias, other.bias]))
    return joined


def _linears(network: nn.Sequential) -> Iterator[nn.Linear]:
    return (layer for layer in network if isinstance(layer, nn.Linear))
