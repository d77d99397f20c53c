"""Cross-entropy method over the parameters of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from sb3_contrib.ars.policies import ARSLinearPolicy, ARSPolicy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv
from torch.func import functional_call, vmap

from mygym.training.result import Curves
from mygym.training.runner import SEEDS, Loop, Runner


class CEM(Runner):
    """Cross-entropy method (Rubinstein, 1999) with decreasing extra noise (Szita and Lőrincz, 2006).

    Each generation draws `population` parameter vectors from a diagonal Gaussian, evaluates them on the same episodes,
    and fits the Gaussian to the `elites` best vectors. The policy is the mean of the Gaussian. No gradients are used.

    Args:
        policy: `LinearPolicy`, or `MlpPolicy` for a small network.
        env: Vector environment with flat observations; each environment evaluates one vector at a time.
        population: Parameter vectors in a generation.
        elites: Number of best vectors to which the Gaussian is fitted.
        initial_std: Initial standard deviation of each parameter.
        extra_std: Standard deviation of extra noise in generation 0, against early collapse; decreases linearly to 0.
        extra_generations: Generation at which the extra noise reaches 0.
        smoothing: Step size towards the new fit of mean and standard deviation, in (0, 1].
        policy_kwargs: Further arguments of the policy class, e.g. `net_arch`.
        seed: Random seed.
        device: Device of the policies.
        verbose: 0: no output.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"LinearPolicy": ARSLinearPolicy, "MlpPolicy": ARSPolicy}
    read_once: ClassVar[tuple[str, ...]] = ("initial_std",)
    is_gradient_free: ClassVar[bool] = True
    """Then no parameter can be frozen."""

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        population: int = 24,
        elites: int = 7,
        initial_std: float = 0.5,
        extra_std: float = 0.2,
        extra_generations: int = 100,
        smoothing: float = 0.5,
        *,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        seed: int | None = None,
        device: torch.device | str = "auto",
        verbose: int = 0,
        _init_setup_model: bool = True,
    ) -> None:
        if elites > population:
            raise ValueError(f"elites: {elites} is more than the population of {population}")
        self.population, self.elites = population, elites
        self.initial_std, self.smoothing = initial_std, smoothing
        self.extra_std, self.extra_generations = extra_std, extra_generations
        self.generation = 0
        self.mean: torch.Tensor | None = None
        self.std: torch.Tensor | None = None
        super().__init__(
            policy,
            env,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            seed=seed,
            device=device,
            verbose=verbose,
            _init_setup_model=_init_setup_model,
        )

    def setup(self) -> None:
        """Set the mean to the parameters of the policy, unless a saved model has set it."""
        if self.mean is None:
            self.mean = torch.as_tensor(self.policy.parameters_to_vector())
            self.std = torch.full_like(self.mean, self.initial_std)

    @classmethod
    def run_name(cls, hyperparameters: Mapping[str, Any], training_params: Mapping[str, Any]) -> str:
        """Return a name with population and episodes, which determine the cost of a generation."""
        return f"population={hyperparameters['population']}_episodes={training_params['episodes']}"

    @torch.no_grad()
    def training(self, loop: Loop, *, episodes: int = 4) -> Curves:
        """Run generations until the loop ends.

        Args:
            loop: Training environments, logging and budget of the run.
            episodes: Episodes per parameter vector; more episodes make the selection of elites more reliable.
        """
        while loop.next_iteration():
            assert self.mean is not None
            assert self.std is not None
            candidates = self.mean + self.std * torch.randn(self.population, len(self.mean))
            returns = self._returns(loop, candidates, episodes)
            best = returns.argsort(descending=True, stable=True)[: self.elites]
            self._fit(candidates[best])
            self.policy.load_from_vector(self.mean.numpy())
            self.generation += 1
            self.logger.record("train/return_of_population", returns.mean().item())
            self.logger.record("train/return_of_elites", returns[best].mean().item())
            self.logger.record("train/std", self.std.mean().item())
            self.logger.record("train/generation", self.generation, exclude="tensorboard")
        return loop.curves()

    def _fit(self, elites: torch.Tensor) -> None:
        """Move mean and standard deviation towards the elites' values `(elites, parameters)`, plus extra noise."""
        assert self.mean is not None
        assert self.std is not None
        extra = self.extra_std * max(0.0, 1.0 - self.generation / self.extra_generations)
        fitted = (elites.var(dim=0, correction=0) + extra**2).sqrt()
        self.mean += self.smoothing * (elites.mean(dim=0) - self.mean)
        self.std += self.smoothing * (fitted - self.std)

    def _returns(self, loop: Loop, candidates: torch.Tensor, episodes: int) -> torch.Tensor:
        """Return the mean return of each candidate `(population, parameters)` over the same `episodes` episodes.

        With different episodes, candidates with easy goals would become elites.
        """
        totals = torch.zeros(len(candidates), dtype=torch.float64)
        for seed in np.random.randint(SEEDS, size=episodes):  # noqa: NPY002  (checkpoints contain the global generator)
            for start in range(0, len(candidates), loop.envs.num_envs):
                group = slice(start, start + loop.envs.num_envs)
                totals[group] += self._episode(loop, candidates[group], int(seed))
        return totals / episodes

    def _episode(self, loop: Loop, candidates: torch.Tensor, seed: int) -> torch.Tensor:
        """Return each candidate's return in the episode of `seed`; at most one candidate per environment."""
        spare = loop.envs.num_envs - len(candidates)
        parameters = self._named(torch.cat([candidates, candidates[-1:].expand(spare, -1)]))
        total, is_running = np.zeros(loop.envs.num_envs), np.ones(loop.envs.num_envs, dtype=bool)
        loop.reset(seed)
        while is_running.any():
            _, rewards, dones, _ = loop.step(self._act(parameters, torch.as_tensor(loop.observations)))
            total += np.where(is_running, rewards, 0.0)
            is_running &= ~dones
        return torch.as_tensor(total[: len(candidates)])

    def _named(self, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Split vectors `(n, parameters)` into the policy's parameters by name, each `(n, …)`."""
        vectors, start = vectors.to(self.device), 0
        named = {}
        for name, parameter in self.policy.named_parameters():
            end = start + parameter.numel()
            named[name] = vectors[:, start:end].reshape(-1, *parameter.shape)
            start = end
        return named

    def _act(self, parameters: dict[str, torch.Tensor], observations: torch.Tensor) -> torch.Tensor:
        """Return the action of the i-th parameter vector for the i-th observation of `(n, …)`."""

        def act(single: dict[str, torch.Tensor], observation: torch.Tensor) -> torch.Tensor:
            action: torch.Tensor = functional_call(self.policy, single, (observation.unsqueeze(0),))
            return action.squeeze(0)

        return vmap(act)(parameters, observations.to(self.device))
