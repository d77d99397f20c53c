"""Strategy `mixture`: several networks in one policy; each forward pass uses one network or all."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.config.hyperparameters import Schema
from mygym.config.parameter_checks import check_parameters
from mygym.config.schema import PretrainedParams
from mygym.envs.arguments import checked_arguments
from mygym.errors import ConfigError, bad_value
from mygym.planning.strategies import JOIN, join_params, sections
from mygym.registry import algorithm, registry
from mygym.registry.signatures import parameters
from mygym.strategies.mixture.routing import (
    PROTOCOLS,
    ByObservation,
    Layout,
    Protocol,
    Units,
    by_observation,
    check_candidates,
    check_weights,
    usage_entropy,
)
from mygym.strategies.mixture.samplers import Sampler
from mygym.strategies.strategy import Strategy
from mygym.training.directory import POLICY, find_policy
from mygym.training.result import Result

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy
    from stable_baselines3.common.vec_env import VecEnv

    from mygym.strategies.mixture.supernet import ForwardState
    from mygym.training.evaluation import Evaluation
    from mygym.training.vec_wrappers import RoutedVecEnv

CANDIDATES = 4
"""Default number of candidates if stages or tasks do not determine it."""


class Mixture(Strategy):
    """Several networks in one policy: one for each stage or task, or a super-network to search.

    Actor and critic networks are replaced. A mixture combines outputs; of a Gaussian policy it combines the means.

    Args:
        protocol: Combination of candidates. `single`: one of them. `sum`: all, with given weights. `softmax`: all,
            with weights of a learned gate. `gumbel_softmax`: the same with noise and a falling temperature.
        by: Selection of the candidate of `single`. `stage`: the stage in the observation. `task`: the task code that
            `identify` appends. `sampler`: decided for each rollout, on-policy for each environment; after training a
            search selects the final path.
        candidates: Number of candidates, or a list of their `net_arch`; null: one for each stage or task, else 4.
        units: `whole` networks, or `blocks`: each linear layer is a separate choice.
        sampler: Name of a registered sampler (`mygym list sampler`), which also sets `by` and the protocol; null: with
            `by: sampler`, `fair`.
        sampler_params: Parameters of the sampler.
        weights: Weights of `sum`, one for each candidate; null: equal weights.
        tau: Initial temperature of `gumbel_softmax`.
        tau_end: Final temperature; it decays geometrically over the run.
        balance: Coefficient of the gate's importance loss (Shazeer et al., 2017), which keeps all candidates in use.
        search: Search for the path of a sampler: `random`, or `evolutionary` (Guo et al., 2020).
        tries: Maximum number of paths to evaluate.
        budget_us: Longest forward pass of the actor in microseconds; null: no limit.
    """

    checkpointed = ("rollout_start", "used")

    def __init__(
        self,
        *,
        protocol: Protocol = "single",
        by: Literal["stage", "task", "sampler"] = "stage",
        candidates: int | list[Any] | None = None,
        units: Units = "whole",
        sampler: str | None = None,
        sampler_params: dict[str, Any] | None = None,
        weights: list[float] | None = None,
        tau: Annotated[float, Gt(0)] = 1.0,
        tau_end: Annotated[float, Gt(0)] = 0.1,
        balance: Annotated[float, Ge(0)] = 0.0,
        search: Literal["random", "evolutionary"] = "evolutionary",
        tries: Annotated[int, Ge(1)] = 20,
        budget_us: Annotated[float, Gt(0)] | None = None,
    ) -> None:
        self.protocol, self.units, self.by = protocol, units, by
        self.candidates, self.weights = candidates, weights
        self.tau, self.tau_end, self.balance = tau, tau_end, balance
        self.search, self.tries, self.budget_us = search, tries, budget_us
        self.sampler_name = sampler or ("fair" if by == "sampler" else None)
        self.sampler = _construct_sampler(self.sampler_name, sampler_params)
        """Decides the passes of each rollout; None: no sampler."""
        if self.sampler is not None:
            first = self.sampler.protocols[0]
            if protocol not in ("single", first):
                why = f"is not the protocol of sampler {self.sampler_name}"
                raise ConfigError(bad_value("strategy_params.protocol", protocol, [first], why))
            self.by, self.protocol = "sampler", first
        self.rollout_start = 0
        """Env steps at the start of the current rollout."""
        self.used: NDArray[Any] | None = None
        """`(layers, candidates)`: share of each candidate in the last batch."""
        self.path: list[int] = []
        """Candidate of each layer that the search has selected; empty before the search."""
        self.candidate_count = check_candidates("strategy_params.candidates", candidates, units)
        """Number of candidates that the user has set."""
        if weights is not None and self.protocol != "sum":
            raise ConfigError(bad_value("strategy_params.weights", weights, ["null"], "are only for protocol sum"))
        if weights is not None:
            check_weights("strategy_params.weights", weights, self.candidate_count or len(weights))
        if balance and self.protocol not in ("softmax", "gumbel_softmax"):
            why = "is for learned gates: protocol softmax or gumbel_softmax"
            raise ConfigError(bad_value("strategy_params.balance", balance, [0], why))

    def complete_params(self) -> Mapping[str, Any]:
        """Return the sampler, its parameters, and the values that it decides."""
        if self.sampler is None:
            return {}
        known = parameters(type(self.sampler))
        params = {name: getattr(self.sampler, name, parameter.default) for name, parameter in known.items()}
        return {"by": self.by, "protocol": self.protocol, "sampler": self.sampler_name, "sampler_params": params}

    # Environments and networks --------------------------------------------------------------------------------------

    @property
    def is_sampled(self) -> bool:
        """Whether a sampler activates candidates for each rollout; a sampler of several protocols may change it."""
        return self.sampler is not None and self.current_protocol == "single"

    @property
    def current_protocol(self) -> Protocol:
        """Protocol of the next passes: that of the networks, if they are built."""
        return self.forward_state.protocol if hasattr(self, "model") else self.protocol

    def wrap_env(self, env: VecEnv) -> VecEnv:
        """Add the route to the observations of on-policy algorithms, so that updates repeat the rollout's passes.

        Raises:
            ConfigError: The observations are flat.
        """
        if self.sampler is None and self.protocol != "gumbel_softmax":
            return env
        from stable_baselines3.common.policies import ActorCriticPolicy

        from mygym.training.vec_wrappers import RoutedVecEnv

        params = self.config.algo_params
        cls = Schema(algorithm(self.config.algo, self.config.framework), params).component(("policy",))
        protocols = {self.protocol} if self.sampler is None else {*self.sampler.protocols}
        routed = not protocols.isdisjoint(("single", "gumbel_softmax"))
        if not (routed and isinstance(cls, type) and issubclass(cls, ActorCriticPolicy)):
            return RoutedVecEnv(env, 1, shown=False)
        if not isinstance(env.observation_space, spaces.Dict):
            why = "needs a route in the observation, which flat observations cannot contain"
            raise ConfigError(bad_value(f"{self.section}.by", self.by, ["stage", "task"], why))
        layers = _depth(params.get("policy_kwargs", {}).get("net_arch")) if self.units == "blocks" else 1
        return RoutedVecEnv(env, layers * (self._routing(env)[0] if "gumbel_softmax" in protocols else 1), shown=True)

    def policy_class(self, cls: type[BasePolicy]) -> type[BasePolicy]:
        """Return a subclass with super-networks.

        Raises:
            ConfigError: The networks of `cls` cannot be replaced, or observations do not select a candidate.
        """
        from mygym.strategies.mixture.policies import mixture_policy
        from mygym.training.vec_wrappers import FlooredNormalize, observation_normalizer, running_statistics

        count, by = self._routing(self.training_env)
        normalizer = observation_normalizer(self.training_env)
        if by is not None and isinstance(normalizer, FlooredNormalize):
            statistics: Any = running_statistics(normalizer)[by.key or ""]
            statistics.selecting = slice(by.start, by.stop)
        archs = self.candidates if isinstance(self.candidates, list) else [None] * count
        return mixture_policy(cls, Layout(tuple(archs), self.units, by))

    def _routing(self, env: VecEnv) -> tuple[int, ByObservation | None]:
        """Return the number of candidates, and the observation component that selects the candidate."""
        if self.protocol != "single" or self.by == "sampler":
            return self.candidate_count or len(self.weights or []) or CANDIDATES, None
        count, component = by_observation(self.plan, env, self.by, f"{self.section}.by")
        if self.candidate_count not in (None, count):
            why = f"differs from the number of candidates by {self.by}"
            raise ConfigError(bad_value(f"{self.section}.candidates", self.candidates, f"{count}, or null", why))
        return count, component

    def prepare_model(self) -> None:
        """Set the forward protocol and add the loss of the gates; refuse a budget that no path meets."""
        from mygym.strategies.losses import add_loss
        from mygym.strategies.mixture.path_search import check_budget
        from mygym.strategies.mixture.policies import optimized_modules, supernets

        state = self.forward_state
        state.set_forward_state(self.protocol, weights=self.weights, tau=self.tau)
        if self.is_sampled and self.budget_us is not None:
            check_budget(self.model.policy, self.budget_us, f"{self.section}.budget_us")
        if self.sampler is not None:
            sampler, env = self.sampler, self._routed_env
            sampler.supernet, sampler.layers, sampler.candidates = state, state.layers, state.candidates
            sampler.model, sampler.total_timesteps = self.model, self.config.steps
            sampler.rows = env.num_envs if env.shown else 1
            sampler.counts = np.zeros((state.layers, state.candidates))
            sampler.prepare()
        if self.balance:
            for module in optimized_modules(self.model.policy):
                add_loss(module.optimizer, partial(_balance_loss, supernets(module), self.balance))

    @property
    def forward_state(self) -> ForwardState:
        """Forward state of the policy's super-networks."""
        policy: Any = self.model.policy
        state: ForwardState = policy.forward_state
        return state

    # Training -------------------------------------------------------------------------------------------------------

    def begin_iteration(self) -> None:
        """Decide the passes of the next rollout, and log the usage of the candidates."""
        self.used = self._usage()  # of the last batch, whose protocol may end here
        if self.sampler is not None:
            self._sample(self.sampler)
        elif self.protocol == "gumbel_softmax":
            progress = min(self.num_timesteps / self.config.steps, 1.0)
            self.forward_state.set_forward_state(self.protocol, tau=self.tau * (self.tau_end / self.tau) ** progress)
        if self.current_protocol == "gumbel_softmax":
            self._draw_noise()
        if self.is_sampled:
            self.used = self._usage()
        if self.used is not None:
            self.logger.record("strategy/usage_entropy", usage_entropy(self.used))
        if self.current_protocol == "gumbel_softmax":
            self.logger.record("strategy/tau", float(self.forward_state.tau))

    def _sample(self, sampler: Sampler) -> None:
        """Pass the rewards of the last rollout to the sampler, which decides the passes of the next rollout.

        Evaluations and off-policy algorithms use the architecture of the first environment. TD3 and CrossQ update the
        actor only in some gradient steps: the sampler decides after such a step, or else a sampler that alternates
        could train the same candidate each time.
        """
        if not self._has_updated_actor():
            return
        env, steps = self._routed_env, self.num_timesteps - self.rollout_start
        if steps:
            rewards = env.rewards * env.num_envs / steps
            sampler.learn(rewards if env.shown else rewards.mean(keepdims=True))
        env.rewards[:] = 0.0
        sampler.begin_iteration()
        self.rollout_start = self.num_timesteps
        if self.current_protocol != "single":
            return
        if sampler.drawn is None:
            allowed = "a call of set_activate_architecture"
            why = f"of sampler {self.sampler_name} has activated no architecture"
            raise ConfigError(bad_value("begin_iteration", type(sampler).__name__, allowed, why))
        self._set_routes(sampler.drawn)

    def _has_updated_actor(self) -> bool:
        """Return whether the gradient steps after the last rollout include the actor, or none was due yet."""
        delay, steps = getattr(self.model, "policy_delay", 1), getattr(self.model, "gradient_steps", 1)
        updates = getattr(self.model, "_n_updates", 0)
        return updates == 0 or steps < 0 or updates // delay > (updates - steps) // delay

    def _draw_noise(self) -> None:
        """Draw the noise of the next rollout: for each environment; off-policy, a single sample for all updates."""
        import torch

        env, state = self._routed_env, self.forward_state
        rows = env.num_envs if env.shown else 1
        noise = -torch.empty(rows, state.layers, state.candidates).exponential_().log()
        state.noise = noise[0].to(state.tau.device)
        self._set_routes(noise.flatten(1).numpy())

    def _set_routes(self, routes: NDArray[Any]) -> None:
        """Put the routes `(n_envs, …)` into the current observation and the observations of the next rollout."""
        env = self._routed_env
        if env.shown:
            env.routes[:, : routes.shape[1]] = routes
            self.model._last_obs = env.routed(self.model._last_obs)

    @property
    def _routed_env(self) -> RoutedVecEnv:
        from mygym.training.vec_wrappers import RoutedVecEnv

        env: Any = self.training_env
        while not isinstance(env, RoutedVecEnv):
            env = env.venv
        return env

    def _usage(self) -> NDArray[Any] | None:
        """Return the share of each candidate, `(layers, candidates)`: in all draws, or in the last training batch."""
        if self.is_sampled and self.sampler is not None:
            return self.sampler.usage()
        from mygym.strategies.mixture.policies import acting_supernet

        usage = acting_supernet(self.model.policy).usage()
        return self.used if usage is None else usage.cpu().numpy()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, including the state of the sampler and the rewards of the current rollout."""
        self.used = self._usage()
        state = super().state_dict()
        if self.sampler is not None:
            state |= {"sampler": self.sampler.state_dict(), "rewards": self._routed_env.rewards.copy()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        if self.sampler is not None:
            self.sampler.load_state_dict(state["sampler"])
            self._routed_env.rewards[:] = state["rewards"]

    def outcome(self) -> Mapping[str, Any]:
        """Return the path that the search has selected."""
        return {"path": list(self.path)} if self.path else {}

    def finish(self, judge: Callable[[], Evaluation]) -> None:
        """Search for the final path if training ends with sampled candidates."""
        if not self.is_sampled:
            return
        from mygym.strategies.mixture.path_search import search_paths

        policy: Any = self.model.policy
        search_paths(policy, judge, self.search, self.tries, self.budget_us, int(self.config.seed or 0))
        self.path = policy.forward_state.path.tolist()


def _construct_sampler(name: str | None, params: Mapping[str, Any] | None) -> Sampler | None:
    """Return the sampler with a registered name."""
    section = "strategy_params.sampler_params"
    if name is None:
        if params:
            raise ConfigError(bad_value(section, params, "null", "needs a sampler: strategy_params.sampler"))
        return None
    cls: type[Sampler] = registry("sampler").get(name, "strategy_params.sampler").load()
    check_parameters(section, name, parameters(cls), params or {})
    return cls(**(params or {}))


def _depth(net_arch: Any) -> int:
    """Return the number of linear layers of the deepest network; SB3's default has two hidden layers."""
    archs = net_arch.values() if isinstance(net_arch, dict) else [net_arch]
    return 1 + max((2 if arch is None else len(arch) for arch in archs), default=0)


def _balance_loss(networks: Sequence[Any], coefficient: float) -> Any:
    """Return the weighted sum of the networks' importance losses; None if no network has a loss."""
    losses = [loss for network in networks if (loss := network.balance_loss()) is not None]
    return coefficient * sum(losses) if losses else None


@checked_arguments
def network_of(run: str | Path) -> dict[str, Any]:
    """Return the config of a run with the network that its search has selected, in place of the super-network.

    Training this config trains the network alone, from random weights: `mygym.train(mygym.network_of(run))`. The
    config does not refer to the run. With `units: blocks`, or a number of candidates, all paths have the same network.

    Args:
        run: Path of a run that was trained with strategy `mixture` and a sampler; or of a file in a `mixture` run that
            `search` has written.

    Raises:
        ConfigError: The run has no path, or its observations select the networks.
        RunError: The file cannot be read.
    """
    from mygym.training.loading import plan_of_run, read_config

    folder, file = find_policy(run, "network_of")
    plan = plan_of_run(folder)
    mixture = next((strategy for strategy in plan.strategies if isinstance(strategy, Mixture)), None)
    why, allowed, path = "has no super-networks", "a finished run with strategy mixture and a sampler", []
    if mixture is not None and mixture.protocol == "single" and mixture.sampler is None:
        why = "needs all its networks, because observations select them"
    elif mixture is not None:
        why, path = "has no selected path", _selected_path(folder, file)
        quoted = shlex.quote(str(folder))
        allowed += f"; or the file of: mygym search {quoted} --out {quoted}/NAME.safetensors"
    if mixture is None or not path:
        raise ConfigError(bad_value("network_of", str(run), allowed, why))
    values = read_config(folder)
    kept = sections(plan.config.strategy, plan.config.strategy_params)
    remaining = {name: params for name, (_, params) in kept.items() if name != mixture.name}
    values |= {"strategy": JOIN.join(remaining) or "standard", "strategy_params": join_params(remaining)}
    values["pretrained"] = PretrainedParams().model_dump(mode="json")  # from random weights
    if isinstance(mixture.candidates, list):
        arch, kwargs = mixture.candidates[path[0]], dict(values["algo_params"].get("policy_kwargs", {}))
        if isinstance(arch, Mapping) and isinstance(known := kwargs.get("net_arch"), Mapping):
            # a network that the candidate does not name has no hidden layers
            arch = {**{name: [] for name in known}, **arch}
        values["algo_params"] = {**values["algo_params"], "policy_kwargs": {**kwargs, "net_arch": arch}}
    return values


def _selected_path(folder: Path, file: Path) -> list[int]:
    """Return the path that the search has selected: at the end of a run, or in a file; empty without a search."""
    from mygym.training.policy import read_policy

    if file == folder / POLICY:
        result = Result.read(folder)
        return list(result.strategy.get("mixture", {}).get("path", ())) if result else []
    if file.suffix != ".safetensors":
        return []
    tensors, _ = read_policy(file)
    is_single = PROTOCOLS[int(tensors["forward_state.number"])] == "single"
    return [int(candidate) for candidate in tensors["forward_state.path"].tolist()] if is_single else []
