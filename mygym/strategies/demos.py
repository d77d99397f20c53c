"""Strategy `demos`: demonstrations in addition to the policy's experience."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from annotated_types import Ge, Le
from numpy.typing import NDArray
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space, maybe_transpose

from mygym.demonstrations import Demonstrations, Transitions, check_compatible, load_demonstrations, variant_indices
from mygym.demonstrations.episodes import Observations
from mygym.demonstrations.recording import ATTEMPTS, attempts
from mygym.demonstrations.storage import read_metadata, recorded_values
from mygym.errors import ConfigError, bad_value
from mygym.experts import OraclePolicy
from mygym.nested import map_arrays
from mygym.registry import algorithm
from mygym.strategies.losses import actor_optimizer, add_loss, imitation_loss, weight_schedule
from mygym.strategies.strategy import Strategy
from mygym.training import env_factory
from mygym.training.buffers import ImitationBuffer
from mygym.training.vec_wrappers import observation_normalizer, running_statistics, without_route


def demonstration_buffer(model: OffPolicyAlgorithm, steps: Transitions, variants: Sequence[int]) -> ReplayBuffer:
    """Return a replay buffer of demonstrations, with the class and arguments of the model's replay buffer.

    Hindsight replay therefore relabels demonstrations in the same way as the policy's episodes, each step by the reward
    function of its variant. The end of the steps counts as truncation.
    """
    kwargs = dict(model.replay_buffer_kwargs)
    cls = type(model.replay_buffer)
    assert issubclass(cls, ReplayBuffer)
    if issubclass(cls, HerReplayBuffer):
        kwargs["env"] = model.env
    rows = len(steps.actions) + 1  # hindsight replay samples no episode that fills its buffer
    buffer = cls(rows, model.observation_space, model.action_space, device=model.device, **kwargs)
    actions = model.policy.scale_action(steps.actions)
    observations, next_observations = (
        as_trained(values, model.observation_space) for values in (steps.observations, steps.next_observations)
    )
    timeouts = steps.truncated & ~steps.terminated
    for row in range(len(actions)):
        of_row = itemgetter((row, None))
        buffer.add(
            map_arrays(of_row, observations),
            map_arrays(of_row, next_observations),
            actions[row, None],
            steps.rewards[row, None],
            (steps.terminated | steps.truncated)[row, None],
            [{"TimeLimit.truncated": bool(timeouts[row]), "variant": variants[row]}],
        )
    return buffer


def label_buffer(model: BaseAlgorithm, steps: Transitions, labels: NDArray[np.float32]) -> ImitationBuffer:
    """Return a buffer of the demonstrated observations and their target actions `labels` `(n, A)`."""
    space = without_route(model.observation_space)
    buffer = ImitationBuffer(len(labels), space, model.action_space, model.device)
    observations = as_trained(steps.observations, space)
    for row, label in enumerate(model.policy.scale_action(labels)):
        buffer.add(map_arrays(itemgetter((row, None)), observations), label)
    return buffer


def as_trained(observations: Observations, space: Any) -> Observations:
    """Return observations `(n, …)` of an environment with their images as networks take them, `(n, C, H, W)`."""
    if not isinstance(observations, dict):
        return observations
    return {
        key: maybe_transpose(values, space[key]) if is_image_space(space[key]) else values
        for key, values in observations.items()
    }


def mix(buffer: ReplayBuffer, demonstrations: ReplayBuffer, share: float) -> None:
    """Make `buffer.sample` draw a share in [0, 1] of each minibatch from `demonstrations` (Ball et al., 2023).

    The saved content of `buffer` does not change. Both sources are spread evenly over the minibatch, because SBX's
    algorithms draw many minibatches at once and slice them.
    """
    sample_replay = buffer.sample

    def sample(batch_size: int, env: Any = None) -> Any:
        demonstrated = round(share * batch_size)
        if demonstrated in (0, batch_size):
            return (demonstrations.sample if demonstrated else sample_replay)(batch_size, env=env)
        batches = sample_replay(batch_size - demonstrated, env=env), demonstrations.sample(demonstrated, env=env)
        order = torch.as_tensor(spread(batch_size - demonstrated, demonstrated), device=buffer.device)
        return type(batches[0])(*(_merged(first, second, order) for first, second in zip(*batches, strict=True)))

    buffer.sample = sample  # type: ignore[method-assign]


def spread(first: int, second: int) -> NDArray[np.int64]:
    """Return an order `(first + second,)` that evenly mixes the first `first` rows with the other `second` rows."""
    positions = [(np.arange(count) + 0.5) / count for count in (first, second)]
    return np.argsort(np.concatenate(positions), kind="stable")


def _merged(first: Any, second: Any, order: torch.Tensor) -> Any:
    """Concatenate rows, or each entry of dictionaries, and reorder them; None stays None."""
    return map_arrays(lambda *parts: None if parts[0] is None else torch.cat(parts)[order], first, second)


EPISODES = 100
"""Default number of recorded demonstrations."""

BATCH_SIZE = 256
"""Number of demonstrated states in a minibatch of the imitation loss."""

WARM_START_RATES = (1e-3, 1e-5)
"""Initial and final learning rate of the warm start; large steps at the end would reduce precision."""

SHARE, WARM_START, WEIGHT = 0.5, 2000, 1.0
"""Defaults of parameters that the algorithm supports."""


class Demos(Strategy):
    """Demonstrations in each replay minibatch (RLPD: Ball et al., 2023), as a warm start, and as a loss.

    Observations are normalised unless the config sets `normalize`, with statistics initialised from demonstrations:
    imitation hardly works on observations in metres.

    Args:
        dataset: Path of a dataset of `mygym demos`; null: before training the scripted expert plays demonstrations as
            `mygym demos` would record them with the run's config and seed. A dataset decides the controller, and for
            replay the reward, unless the config sets them.
        episodes: Number of demonstrations; null: all of the dataset, or 100.
        share: Share of each replay minibatch that is drawn from demonstrations; null: 0.5 for algorithms with replay,
            else 0.
        warm_start: Gradient steps of behaviour cloning on the actor before training; null: 2000 with pytorch, else 0.
        weight: Weight of a loss that keeps the actor near the demonstrations during training (Nair et al., 2018): a
            number or a schedule; null: 1 with pytorch, else 0.
    """

    def __init__(
        self,
        *,
        dataset: str | None = None,
        episodes: Annotated[int, Ge(1)] | None = None,
        share: Annotated[float, Ge(0), Le(1)] | None = None,
        warm_start: Annotated[int, Ge(0)] | None = None,
        weight: Annotated[float, Ge(0)] | dict[str, Any] | None = None,
    ) -> None:
        self.dataset, self.episodes = dataset, episodes
        self.share, self.warm_start, self.weight = share, warm_start, weight
        if isinstance(weight, dict):
            weight_schedule(weight)

    def run_defaults(self) -> Mapping[str, Any]:
        """Return normalised observations; with a dataset, also its controller, and for replay its reward."""
        if self.dataset is None:
            return {"normalize": True}
        replays = self._has_replay() if self.share is None else self.share
        keys = ("control", "reward") if replays else ("control",)
        recorded = recorded_values(self.dataset)
        return {"normalize": True, **{key: recorded[key] for key in keys if key in recorded}}

    def complete_params(self) -> Mapping[str, Any]:
        """Return the uses that the algorithm supports, and the absolute path of the dataset.

        The path is absolute because a run can be resumed from any folder.

        Raises:
            ConfigError: The algorithm would not use the demonstrations.
        """
        algo, framework = self.config.algo, self.config.framework
        has_replay = self._has_replay()
        is_torch = framework == "pytorch"
        share = self.share if self.share is not None else SHARE if has_replay else 0.0
        warm_start = self.warm_start if self.warm_start is not None else WARM_START if is_torch else 0
        weight = self.weight if self.weight is not None else WEIGHT if is_torch else 0.0
        if share and not has_replay:
            why = f"needs a replay buffer, and {algo} has none"
            raise ConfigError(bad_value("strategy_params.share", share, "0, or an off-policy algo, such as sac", why))
        if not (share or warm_start or weight):
            why = "uses no demonstration, because warm_start and weight are also 0"
            allowed = "above 0 with an off-policy algo; or warm_start or weight above 0, with framework pytorch"
            raise ConfigError(bad_value("strategy_params.share", share, allowed, why))
        params: dict[str, Any] = {"share": share, "warm_start": warm_start, "weight": weight}
        if self.dataset is not None:
            params["dataset"] = str(Path(self.dataset).expanduser().absolute())
        elif self.episodes is None:
            params["episodes"] = EPISODES
        return params

    def requires(self) -> Sequence[str]:
        """Require continuous actions, and for behaviour cloning a gradient-based, memoryless actor.

        Raises:
            ConfigError: The path is not a dataset.
        """
        if self.dataset is not None:
            read_metadata(Path(self.dataset), "strategy_params.dataset")
        imitates = self.warm_start or self.weight
        return ("continuous_actions", *(("actor_optimizer", "trained_actor", "no_memory") if imitates else ()))

    def prepare_data(self) -> None:
        """Load or record demonstrations, mix them into replay, and imitate them."""
        demonstrations = self._recorded() if self.dataset is None else self._loaded(self.dataset)
        steps = demonstrations.transitions()
        labels = steps.expert_actions if demonstrations.about["policy"] == "oracle" else steps.actions
        self.labels = label_buffer(self.model, steps, labels)
        self.normalizer = observation_normalizer(self.model.get_env())
        if self.normalizer is not None:
            seen = steps.observations
            for key, running in running_statistics(self.normalizer).items():
                running.update(seen[key] if isinstance(seen, dict) else seen)
        if self.share:
            model = cast(OffPolicyAlgorithm, self.model)
            assert model.replay_buffer is not None
            lengths = [len(episode) for episode in demonstrations.episodes]
            variants = np.repeat(variant_indices(demonstrations, self.plan), lengths).tolist()
            mix(model.replay_buffer, demonstration_buffer(model, steps, variants), self.share)
        if self.warm_start:
            self._imitate(self.warm_start)
        if self.weight:
            self.schedule = weight_schedule(self.weight, self.config.steps)
            add_loss(self._optimizer(), self._weighted_loss)

    def begin_iteration(self) -> None:
        """Log the number of demonstrated env steps."""
        self.logger.record("strategy/demonstrated_steps", self.labels.size())

    def imitation_loss(self) -> torch.Tensor:
        """Return the loss `()` on a minibatch of demonstrated states, normalised with the current statistics."""
        observations, labels = self.labels.sample(BATCH_SIZE, self.normalizer)
        # With exploration noise, so that the actor also learns to explore less around the demonstrations.
        deterministic = getattr(self.model, "use_sde", False)
        return imitation_loss(self.model.policy, observations, labels, deterministic=deterministic)

    def _has_replay(self) -> bool:
        """Return whether the algorithm has a replay buffer."""
        entry = algorithm(self.config.algo, self.config.framework)
        return issubclass(entry.combo()[0], OffPolicyAlgorithm)

    def _loaded(self, dataset: str) -> Demonstrations:
        """Return the dataset, or its first episodes."""
        demonstrations = load_demonstrations(dataset, "strategy_params.dataset")
        check_compatible(demonstrations, self.plan, rewards=bool(self.share))
        count = len(demonstrations)
        if self.episodes is not None and self.episodes > count:
            why = f"is more than {dataset} contains"
            raise ConfigError(bad_value("strategy_params.episodes", self.episodes, f"1 to {count}, or null", why))
        episodes = demonstrations.episodes[: self.episodes]
        if not any(episode.success for episode in episodes):
            why = f"has no success among {len(episodes)} episodes"
            allowed = "demonstrations that include successful episodes: mygym demos"
            raise ConfigError(bad_value("strategy_params.dataset", dataset, allowed, why))
        return replace(demonstrations, episodes=episodes)

    def _recorded(self) -> Demonstrations:
        """Return demonstrations of the scripted expert."""
        config, wanted = self.config, self.episodes or EPISODES
        with contextlib.closing(env_factory.make_env(self.plan)) as env:
            expert = OraclePolicy([env], config.seed)
            solved = (episode for episode in attempts(expert, env, config.seed, wanted) if episode.success)
            episodes = tuple(itertools.islice(solved, wanted))
            spaces = env.observation_space, env.action_space
        if len(episodes) < wanted:
            allowed = "a dataset of demonstrations that end in success: mygym demos"
            why = f"needs the scripted expert, which solves only {len(episodes)} of {ATTEMPTS * wanted} episodes"
            raise ConfigError(bad_value("strategy_params.dataset", None, allowed, why))
        return Demonstrations(Path(), episodes, *spaces, config.model_dump(mode="json"), {"policy": "oracle"})

    def _imitate(self, gradient_steps: int) -> None:
        """Run behaviour cloning with a separate optimiser, so that the algorithm's optimiser starts fresh."""
        policy: Any = self.model.policy
        parameters = [p for group in self._optimizer().param_groups for p in group["params"]]
        optimizer = torch.optim.Adam(parameters, fused=True)
        policy.set_training_mode(True)
        for rate in np.linspace(*WARM_START_RATES, gradient_steps):
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            self.imitation_loss().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        optimizer.zero_grad()
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
        optimizer = actor_optimizer(self.model)
        assert optimizer is not None  # see `requires`
        return optimizer
