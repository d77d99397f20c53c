"""Several networks in one policy: who is passed, and how often each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.registry import algorithm
from mygym.strategies.mixture.path_sampling import draw_fair, draw_learned, draw_uniform, followed
from mygym.strategies.protocols import Protocol, Units, check_tau, check_weights, usage_entropy
from mygym.strategies.strategy import Strategy

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy
    from stable_baselines3.common.vec_env import VecEnv

    from mygym.runs.evaluation import Evaluation
    from mygym.runs.routed_vec_env import RoutedVecEnv
    from mygym.strategies.mixture.expert_routes import ByObservation
    from mygym.strategies.mixture.supernet import ForwardState

CANDIDATES = 4
"""Experts of a run that nothing says the number of."""


class Experts(Strategy):
    """Several networks in one policy: an expert for each stage or task, or a super-network to search.

    Actor and critics alike are replaced. Mixtures are of outputs, so of a Gaussian policy they mix means.

    Args:
        protocol: How the candidates are passed. `single`: one of them. `sum`: all, with given weights. `softmax`: all,
            with weights of a learned gate. `gumbel_softmax`: the same with noise and a temperature that falls.
        by: Which candidate `single` passes. `stage`: that of the stage in the observation. `task`: that of the task
            that `identify` appends. `sampler`: one that is drawn for each rollout, on-policy for each environment;
            after training a search finds the path to act by.
        candidates: How many, or a list of their `net_arch`; None: one for each stage or task, else 4.
        units: `whole` networks, or `blocks`: each linear layer is a choice of its own.
        sampler: `fair`: each candidate once before any twice (Chu et al., 2021). `uniform`: drawn, all alike.
            `differentiable`: drawn with weights that gradient ascent learns from rewards (the gradient bandit of Sutton
            and Barto, 2018, section 2.8).
        rate: Step size of the learned weights.
        weights: Of `sum`, one for each candidate; None: all alike.
        tau: Temperature of `gumbel_softmax` at the beginning.
        tau_end: And at the end of the run; it falls by equal factors.
        balance: Coefficient of the gate's importance loss (Shazeer et al., 2017), against one candidate doing it all.
        search: How a sampler's path is found: `random`, or `evolutionary` (Guo et al., 2020).
        tries: Paths that are judged; all, where there are not more.
        budget_us: Most microseconds that a forward pass of the actor may take; None: as many as it likes.
    """

    kept = ("queues", "counts", "logits", "baseline", "drawn", "began", "rewards", "used")

    def __init__(
        self,
        *,
        protocol: Literal["single", "sum", "softmax", "gumbel_softmax"] = "single",
        by: Literal["stage", "task", "sampler"] = "stage",
        candidates: int | list[Any] | None = None,
        units: Literal["whole", "blocks"] = "whole",
        sampler: Literal["fair", "uniform", "differentiable"] = "fair",
        rate: float = 0.1,
        weights: list[float] | None = None,
        tau: float = 1.0,
        tau_end: float = 0.1,
        balance: float = 0.0,
        search: Literal["random", "evolutionary"] = "evolutionary",
        tries: int = 20,
        budget_us: float | None = None,
    ) -> None:
        self.protocol: Protocol = protocol
        self.units: Units = units
        self.by, self.candidates, self.sampler, self.rate = by, candidates, sampler, rate
        self.weights, self.tau, self.tau_end, self.balance = weights, tau, tau_end, balance
        self.search, self.tries, self.budget_us = search, tries, budget_us
        self.queues: list[list[int]] = []
        """Of each layer the candidates that `fair` has still to draw."""
        self.counts: NDArray[Any] | None = None
        """`(layers, candidates)`: how often a sampler has drawn each."""
        self.logits: NDArray[Any] | None = None
        """`(layers, candidates)`: what `differentiable` learns."""
        self.baseline = 0.0
        """Running reward of a step, whatever is passed."""
        self.drawn: NDArray[Any] | None = None
        """`(n, layers)`: what the last rollout has passed."""
        self.began = 0
        """Env steps at which it began."""
        self.used: NDArray[Any] | None = None
        """`(layers, candidates)`: share of each in the last batch."""
        self.path: list[int] = []
        """The candidate of each layer that the search has chosen; empty before it."""
        said = len(candidates) if isinstance(candidates, list) else candidates
        if said is not None and said < 1:
            raise ConfigError(bad_value("strategy_params.candidates", candidates, "1 or more"))
        for number, arch in enumerate(candidates if isinstance(candidates, list) else ()):
            if not _is_arch(arch):
                allowed = "sizes of its hidden layers, each 1 or more, e.g. [64, 64]; or such of {pi: …, qf: …}"
                raise ConfigError(bad_value(f"strategy_params.candidates.{number}", arch, allowed))
        if isinstance(candidates, list) and units == "blocks":
            why = "are of different sizes, which layers that are chosen one by one cannot be"
            raise ConfigError(bad_value("strategy_params.candidates", candidates, "a number, or units whole", why))
        if weights is not None and protocol != "sum":
            raise ConfigError(bad_value("strategy_params.weights", weights, ["null"], "are only for protocol sum"))
        if weights is not None:
            check_weights("strategy_params.weights", weights, said or len(weights))
        check_tau("strategy_params.tau", tau)
        check_tau("strategy_params.tau_end", tau_end)
        for name, value in (("balance", balance), ("rate", rate)):
            if value < 0:
                raise ConfigError(bad_value(f"strategy_params.{name}", value, "0 or more"))
        if balance and protocol not in ("softmax", "gumbel_softmax"):
            why = "is for learned gates: protocol softmax or gumbel_softmax"
            raise ConfigError(bad_value("strategy_params.balance", balance, [0], why))
        if tries < 1:
            raise ConfigError(bad_value("strategy_params.tries", tries, "1 or more"))
        if budget_us is not None and budget_us <= 0:
            raise ConfigError(bad_value("strategy_params.budget_us", budget_us, "above 0, or null"))

    # What it is made of ---------------------------------------------------------------------------------------------

    @property
    def samples(self) -> bool:
        """Whether a sampler draws what is passed."""
        return self.protocol == "single" and self.by == "sampler"

    def wrap_env(self, env: VecEnv) -> VecEnv:
        """Observations of on-policy algorithms with the route in them, so that each update passes the rollout's.

        Raises:
            ConfigError: They are flat.
        """
        if not self.samples and self.protocol != "gumbel_softmax":
            return env
        from gymnasium import spaces
        from stable_baselines3.common.policies import ActorCriticPolicy

        from mygym.config.hyperparameters import Schema
        from mygym.runs.routed_vec_env import RoutedVecEnv

        said = self.config.algo_params
        cls = Schema(algorithm(self.config.algo, self.config.framework), said).component(("policy",))
        if not (isinstance(cls, type) and issubclass(cls, ActorCriticPolicy)):
            return RoutedVecEnv(env, 1, shown=False)
        if not isinstance(env.observation_space, spaces.Dict):
            why = "has a route for each rollout, which flat observations have no place for"
            raise ConfigError(bad_value(f"{self.section}.by", self.by, ["stage", "task"], why))
        layers = _depth(said.get("policy_kwargs", {}).get("net_arch")) if self.units == "blocks" else 1
        return RoutedVecEnv(env, layers * (1 if self.samples else self._experts(env)[0]), shown=True)

    def policy_class(self, cls: type[BasePolicy]) -> type[BasePolicy]:
        """Super-networks in place of its networks.

        Raises:
            ConfigError: It has none that are known, or observations do not tell what to pass.
        """
        from mygym.strategies.mixture.expert_policies import with_experts
        from mygym.strategies.mixture.expert_routes import Layout

        count, by = self._experts(self.training_env)
        archs = self.candidates if isinstance(self.candidates, list) else [None] * count
        return with_experts(cls, Layout(tuple(archs), self.units, by))

    def _experts(self, env: VecEnv) -> tuple[int, ByObservation | None]:
        """How many candidates there are, and what in the observation tells which is passed."""
        said = len(self.candidates) if isinstance(self.candidates, list) else self.candidates
        if self.protocol != "single" or self.by == "sampler":
            return said or len(self.weights or []) or CANDIDATES, None
        from mygym.strategies.mixture.expert_routes import by_observation

        count, found = by_observation(self.plan, env, self.by, f"{self.section}.by")
        if said not in (None, count):
            why = f"is not one for each {self.by}"
            raise ConfigError(bad_value(f"{self.section}.candidates", self.candidates, f"{count}, or null", why))
        return count, found

    def prepare_model(self) -> None:
        """Set the protocol, and the loss of the gates.

        Raises:
            ConfigError: No path could be within the budget.
        """
        from mygym.strategies.losses import add_loss
        from mygym.strategies.mixture.expert_policies import optimized, supernets
        from mygym.strategies.mixture.path_search import check_budget

        state = self.forward_state
        self.queues = [[] for _ in range(state.layers)]
        self.counts = np.zeros((state.layers, state.candidates))
        self.logits = np.zeros((state.layers, state.candidates))
        if self.samples and self.budget_us is not None:
            check_budget(self.model.policy, self.budget_us, f"{self.section}.budget_us")
        state.set_forward_state(self.protocol, weights=self.weights, tau=self.tau)
        if self.balance:
            for owner in optimized(self.model.policy):
                add_loss(owner.optimizer, partial(_balance, supernets(owner), self.balance))

    @property
    def forward_state(self) -> ForwardState:
        """How the policy's networks are passed."""
        policy: Any = self.model.policy
        state: ForwardState = policy.forward_state
        return state

    # While it trains ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Draw what the rollout passes, and say how much each candidate is used."""
        if self.samples:
            self._learn()
            self._draw()
        elif self.protocol == "gumbel_softmax":
            done = min(self.num_timesteps / self.config.steps, 1.0)
            self.forward_state.set_forward_state(self.protocol, tau=self.tau * (self.tau_end / self.tau) ** done)
            self._draw_noise()
        self.used = self._usage()
        if self.used is not None:
            self.logger.record("strategy/usage_entropy", usage_entropy(self.used))
        if self.protocol == "gumbel_softmax":
            self.logger.record("strategy/tau", float(self.forward_state.tau))

    def _draw(self) -> None:
        """Routes; the first environment's is what evaluations judge, and all that an off-policy algorithm passes."""
        assert self.counts is not None
        assert self.logits is not None
        env, state = self._routed_env, self.forward_state
        count = env.num_envs if env.shown else 1
        if self.sampler == "fair":
            self.drawn = draw_fair(self.queues, count, state.candidates)
        elif self.sampler == "uniform":
            self.drawn = draw_uniform(count, state.layers, state.candidates)
        else:
            self.drawn = draw_learned(self.logits, count)
        self.counts += np.eye(state.candidates)[self.drawn].sum(0)
        self.began = self.num_timesteps
        state.set_forward_state("single", path=self.drawn[0].tolist())
        self._show(self.drawn)

    def _learn(self) -> None:
        """Let the sampler's weights follow the rewards of the rollout that is over."""
        env, steps = self._routed_env, self.num_timesteps - self.began
        if self.sampler == "differentiable" and self.drawn is not None and steps:
            assert self.logits is not None
            rewards = env.rewards * env.num_envs / steps
            rewards = rewards if env.shown else rewards.mean(keepdims=True)
            self.logits = followed(self.logits, self.drawn, rewards - self.baseline, self.rate)
            self.baseline += self.rate * (float(rewards.mean()) - self.baseline)
        env.rewards[:] = 0.0

    def _draw_noise(self) -> None:
        """Noise of the rollout: of each environment, or off-policy one for all that is learned until the next."""
        import torch

        env, state = self._routed_env, self.forward_state
        rows = env.num_envs if env.shown else 1
        noise = -torch.empty(rows, state.layers, state.candidates).exponential_().log()
        state.noise = noise[0].to(state.tau.device)
        self._show(noise.flatten(1).numpy())

    def _show(self, routes: NDArray[Any]) -> None:
        """Have the observation that is there, and all until the next rollout, hold the routes `(n_envs, …)`."""
        env = self._routed_env
        if env.shown:
            env.routes[:, : routes.shape[1]] = routes
            self.model._last_obs = env.routed(self.model._last_obs)

    @property
    def _routed_env(self) -> RoutedVecEnv:
        from mygym.runs.routed_vec_env import RoutedVecEnv

        env: Any = self.training_env
        while not isinstance(env, RoutedVecEnv):
            env = env.venv
        return env

    @property
    def rewards(self) -> NDArray[np.float64] | None:
        """`(n_envs,)`: rewards since the rollout began; None where nothing follows them."""
        return self._routed_env.rewards if self.samples else None

    @rewards.setter
    def rewards(self, values: NDArray[np.float64] | None) -> None:
        if values is not None:
            self._routed_env.rewards[:] = values

    def _usage(self) -> NDArray[Any] | None:
        """`(layers, candidates)`: share of each: of a sampler's draws, else in the last batch that was learned from."""
        if self.samples:
            assert self.counts is not None
            total = self.counts.sum(-1, keepdims=True)
            return self.counts / total if total.all() else None
        from mygym.strategies.mixture.expert_policies import actor_of

        usage = actor_of(self.model.policy).usage()
        return self.used if usage is None else usage.cpu().numpy()

    def state_dict(self) -> dict[str, Any]:
        """What it has drawn and learned."""
        self.used = self._usage()
        return super().state_dict()

    def outcome(self) -> Mapping[str, Any]:
        """The path that the policy acts by, once a search has found it."""
        return {"path": list(self.path)} if self.path else {}

    def finish(self, judge: Callable[[], Evaluation]) -> None:
        """Find the path to act by, where training has left that open."""
        if not self.samples:
            return
        from mygym.strategies.mixture.path_search import search_paths

        policy: Any = self.model.policy
        search_paths(policy, judge, self.search, self.tries, self.budget_us, int(self.config.seed or 0))
        self.path = policy.forward_state.path.tolist()


def _is_arch(said: Any) -> bool:
    """Whether it is a `net_arch` that SB3 can build."""
    if isinstance(said, Mapping):
        return all(isinstance(part, list) and _is_arch(part) for part in said.values())
    return isinstance(said, list) and all(type(size) is int and size > 0 for size in said)


def _depth(net_arch: Any) -> int:
    """Linear layers of the deepest network; SB3's own have two hidden ones."""
    parts = net_arch.values() if isinstance(net_arch, dict) else [net_arch]
    return 1 + max((2 if part is None else len(part) for part in parts), default=0)


def _balance(networks: Sequence[Any], coefficient: float) -> Any:
    """The importance losses of the networks that have been passed; None if none has."""
    losses = [loss for network in networks if (loss := network.balance_loss()) is not None]
    return coefficient * sum(losses) if losses else None
