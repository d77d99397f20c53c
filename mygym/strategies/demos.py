"""Demonstrations beside what the policy lives through itself."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from mygym.config.ranges import Range
from mygym.config.schedules import parse
from mygym.demonstrations import Demonstrations, check_fits, load_demonstrations, played_as
from mygym.demonstrations.episodes import Observations
from mygym.demonstrations.recording import ATTEMPTS, attempts
from mygym.errors import ConfigError, bad_value
from mygym.experts import OraclePolicy
from mygym.registry import algorithm
from mygym.runs import factory
from mygym.strategies.demonstration_replay import demonstration_buffer, label_buffer, mix
from mygym.strategies.losses import actor_optimizer, add_loss, imitation_loss
from mygym.strategies.strategy import Strategy

EPISODES = 100
"""That are recorded where nobody says how many."""

BATCH = 256
"""Demonstrated states in a minibatch of the imitation loss."""

RATES = (1e-3, 1e-5)
"""Learning rate of the warm start at its beginning and its end; large steps at the end would spoil precision."""

SHARE, WARM_START, WEIGHT = 0.5, 2000, 1.0
"""Defaults, where the algorithm can."""


class Demos(Strategy):
    """Demonstrations in each replay minibatch (RLPD: Ball et al., 2023), as a warm start, and as a loss.

    Observations are normalised unless the config says otherwise, by figures that demonstrations begin: a network that
    gets them in metres hardly imitates.

    Args:
        dataset: Path of a dataset of `mygym demos`; null: the scripted expert plays before training, on seeds of its
            own, what `mygym demos` would record with the run's config and seed.
        episodes: How many demonstrations; null: all of the dataset, or 100.
        share: Part of each replay minibatch that is drawn from demonstrations; null: 0.5 where there is replay, else 0.
        warm_start: Gradient steps of behaviour cloning on the actor before training; null: 2000 with pytorch, else 0.
        weight: Of a loss that keeps the actor near the demonstrations while it trains (Nair et al., 2018): a number or
            a schedule; null: 1 with pytorch, else 0.
    """

    def __init__(
        self,
        *,
        dataset: str | None = None,
        episodes: int | None = None,
        share: float | None = None,
        warm_start: int | None = None,
        weight: float | dict[str, Any] | None = None,
    ) -> None:
        self.dataset, self.episodes = dataset, episodes
        self.share, self.warm_start, self.weight = share, warm_start, weight
        if episodes is not None and episodes < 1:
            raise ConfigError(bad_value("strategy_params.episodes", episodes, "1 or more, or null"))
        if share is not None and not 0.0 <= share <= 1.0:
            raise ConfigError(bad_value("strategy_params.share", share, "0 to 1, or null"))
        if warm_start is not None and warm_start < 0:
            raise ConfigError(bad_value("strategy_params.warm_start", warm_start, "0 or more, or null"))
        if isinstance(weight, dict):
            parse("strategy_params.weight", weight, Range(0))
        elif weight is not None and weight < 0:
            raise ConfigError(bad_value("strategy_params.weight", weight, "0 or more, a schedule, or null"))

    def run_defaults(self) -> Mapping[str, Any]:
        """Normalised observations."""
        return {"normalize": True}

    def settled(self) -> Mapping[str, Any]:
        """What the algorithm can; and where the dataset is, as a run is also resumed from other folders.

        Raises:
            ConfigError: It could use no demonstration.
        """
        algo, framework = self.config.algo, self.config.framework
        replays = issubclass(algorithm(algo, framework).combo()[0], OffPolicyAlgorithm)
        follows = framework == "pytorch"
        share = self.share if self.share is not None else SHARE if replays else 0.0
        warm_start = self.warm_start if self.warm_start is not None else WARM_START if follows else 0
        weight = self.weight if self.weight is not None else WEIGHT if follows else 0.0
        if share and not replays:
            why = f"needs replay of transitions, which {algo} has none of"
            raise ConfigError(bad_value("strategy_params.share", share, "0, or an off-policy algo, such as sac", why))
        if not (share or warm_start or weight):
            why = "uses no demonstration, as warm_start and weight are 0 too"
            allowed = "above 0 with an off-policy algo; or one of the others above 0, with framework pytorch"
            raise ConfigError(bad_value("strategy_params.share", share, allowed, why))
        found: dict[str, Any] = {"share": share, "warm_start": warm_start, "weight": weight}
        if self.dataset is not None:
            found["dataset"] = str(Path(self.dataset).expanduser().absolute())
        elif self.episodes is None:
            found["episodes"] = EPISODES
        return found

    def requires(self) -> Sequence[str]:
        """For behaviour cloning an actor that follows gradients and goes by what it sees now."""
        return ("actor_optimizer", "no_memory") if self.warm_start or self.weight else ()

    def prepare_data(self) -> None:
        """Get demonstrations, let replay mix them in, and the actor imitate them."""
        shown = self._recorded() if self.dataset is None else self._loaded(self.dataset)
        steps = shown.transitions()
        labels = steps.expert_actions if shown.about["policy"] == "oracle" else steps.actions
        self.labels = label_buffer(self.model, steps, labels)
        self.normalizer = self.model.get_vec_normalize_env()
        if self.normalizer is not None:
            _show(self.normalizer.obs_rms, steps.observations)
        if self.share:
            model = cast(OffPolicyAlgorithm, self.model)
            assert model.replay_buffer is not None
            variants = np.repeat(played_as(shown, self.plan), [len(one) for one in shown.episodes]).tolist()
            mix(model.replay_buffer, demonstration_buffer(model, steps, variants), self.share)
        if self.warm_start:
            self._imitate(self.warm_start)
        if self.weight:
            said = self.weight if isinstance(self.weight, dict) else {"schedule": "constant", "value": self.weight}
            self.schedule = parse("strategy_params.weight", said, Range(0), self.config.steps)
            add_loss(self._optimizer(), self._weighted_loss)

    def step(self) -> None:
        """Say how many env steps the demonstrations have taken."""
        self.logger.record("strategy/demonstrated_steps", self.labels.size())

    def imitation_loss(self) -> torch.Tensor:
        """`()`: of a minibatch of demonstrated states, as the normaliser now has them."""
        seen, labels = self.labels.sample(BATCH, self.normalizer)
        # Its noise is part of what it does: an actor that explored on would not come to what demonstrations show.
        return imitation_loss(self.model.policy, seen, labels, deterministic=getattr(self.model, "use_sde", False))

    def _loaded(self, dataset: str) -> Demonstrations:
        """The dataset, or its first episodes.

        Raises:
            ConfigError: It is none, or not of what is trained, or none of its episodes succeed, or they are too few.
        """
        demonstrations = load_demonstrations(dataset, "strategy_params.dataset")
        check_fits(demonstrations, self.plan, rewards=bool(self.share))
        count = len(demonstrations)
        if self.episodes is not None and self.episodes > count:
            why = f"is more than {dataset} holds"
            raise ConfigError(bad_value("strategy_params.episodes", self.episodes, f"1 to {count}, or null", why))
        chosen = demonstrations.episodes[: self.episodes]
        if not any(one.success for one in chosen):
            why = f"has no success among {len(chosen)} episodes"
            allowed = "demonstrations of which some end in success: mygym demos"
            raise ConfigError(bad_value("strategy_params.dataset", dataset, allowed, why))
        return replace(demonstrations, episodes=chosen)

    def _recorded(self) -> Demonstrations:
        """Those of the scripted expert.

        Raises:
            ConfigError: It fails too often.
        """
        config, wanted = self.config, self.episodes or EPISODES
        with contextlib.closing(factory.make_env(self.plan)) as env:
            expert = OraclePolicy([env], config.seed)
            solved = (one for one in attempts(expert, env, config.seed, wanted) if one.success)
            episodes = tuple(itertools.islice(solved, wanted))
            spaces = env.observation_space, env.action_space
        if len(episodes) < wanted:
            allowed = "a dataset of demonstrations that end in success: mygym demos"
            why = f"leaves them to the scripted expert, who solves {len(episodes)} of {ATTEMPTS * wanted} episodes"
            raise ConfigError(bad_value("strategy_params.dataset", None, allowed, why))
        return Demonstrations(Path(), episodes, *spaces, config.model_dump(mode="json"), {"policy": "oracle"})

    def _imitate(self, gradient_steps: int) -> None:
        """Behaviour cloning, with an optimiser of its own: the algorithm's begins fresh."""
        policy: Any = self.model.policy
        own = torch.optim.Adam([one for group in self._optimizer().param_groups for one in group["params"]], fused=True)
        policy.set_training_mode(True)
        for rate in np.linspace(*RATES, gradient_steps):
            own.param_groups[0]["lr"] = rate
            own.zero_grad()
            self.imitation_loss().backward()  # type: ignore[no-untyped-call]
            own.step()
        own.zero_grad()
        policy.set_training_mode(False)
        if hasattr(policy, "actor_target"):
            policy.actor_target.load_state_dict(policy.actor.state_dict())

    def _weighted_loss(self) -> torch.Tensor | None:
        weight = self.schedule.value(self.num_timesteps, self.config.steps)
        self.logger.record("strategy/weight", weight)
        if weight == 0.0:
            return None
        loss = self.imitation_loss()
        self.logger.record("strategy/imitation_loss", loss.item())
        return weight * loss

    def _optimizer(self) -> torch.optim.Optimizer:
        found = actor_optimizer(self.model)
        assert found is not None  # required
        return found


def _show(figures: Any, observations: Observations) -> None:
    """Let a normaliser's running figures take observations into account."""
    if isinstance(observations, dict):
        for key, running in figures.items():
            running.update(observations[key])
    else:
        figures.update(observations)
