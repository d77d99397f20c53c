"""Policies of any algorithm with super-networks in place of their networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import torch
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.crossq.policies import CrossQPolicy
from sb3_contrib.tqc.policies import TQCPolicy
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import nn

from mygym.algos.imitation_policies import ImitationPolicy
from mygym.errors import ConfigError, bad_value
from mygym.runs.vec_envs.routed_vec_env import ROUTE, without_route
from mygym.strategies.mixture.forward_state import ForwardState, Route, route_rows
from mygym.strategies.mixture.network_slots import (
    linear_layers,
    modules_of,
    networks,
    optimized_modules,
    renewed_optimizer,
    replace_network,
    set_net_arch,
)
from mygym.strategies.mixture.routing import ByObservation, Layout
from mygym.strategies.mixture.supernet import SuperNet

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
        if self.layout.units == "whole":
            layers = 1
        else:
            layers = max(len(linear_layers(network)) for network in candidates[0].values())
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
