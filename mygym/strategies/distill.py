"""Strategy `distill`: a student learns from teachers, alone or in addition to an algorithm's objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mygym.config.parameter_checks import Range
from mygym.config.schedules import Schedule, parse
from mygym.errors import ConfigError, bad_value
from mygym.registry import algorithm
from mygym.strategies.losses import actor_optimizer, add_loss, imitation_loss
from mygym.strategies.strategy import Strategy
from mygym.strategies.teachers import Teachers, absolute, divergence, family, gaussian, read_teachers
from mygym.training.buffers import ImitationBuffer
from mygym.training.vec_wrappers import without_route

WEIGHT = {"schedule": "linear", "from": 10.0, "to": 1.0}
"""Default weight: at first the teacher outweighs the untrained critic."""


class Distill(Strategy):
    """A student learns from teachers: the scripted expert, or trained runs.

    With `--algo dagger` or `bc` the student learns from the teacher alone, and only `teacher` is used. With an
    algorithm that learns from rewards, a loss with a decreasing weight draws the student towards the teacher's actions
    in the states that the student visits (kickstarting, Schmitt et al., 2018). If both have the same kind of Gaussian,
    the loss is KL(teacher ‖ student), else the mean absolute error of the student's actions, exploration included.
    Imitation works better on normalised observations (`normalize: true`). With `trpo` the loss is an Adam step after
    the line search, not limited by `target_kl`.

    A teacher run receives the observations of its training, built from the student's environments and without noise.
    The student may therefore observe less than its teacher. A run trained with `mixture` teaches with all of its
    candidates: the stage, the gate or the selected path determines the candidate; a file of `mygym search --out` has
    another path.

    Args:
        teacher: `oracle`, the scripted expert; the path of a run; a list of these (in each state, a teacher is drawn
            from the list); or a mapping from the label of each task to these.
        weight: Weight of the added loss: a number or a schedule. null: linear from 10 to 1 over the run. While it is 0
            the teacher is not queried.
        batch_size: States in a minibatch; one minibatch for each step of the actor's optimiser.
        buffer_size: Number of latest states from which minibatches are drawn; checkpoints contain them.
    """

    checkpointed = ("losses",)

    def __init__(
        self,
        *,
        teacher: str | list[str] | dict[str, Any] = "oracle",
        weight: float | dict[str, Any] | None = None,
        batch_size: int = 256,
        buffer_size: int = 20_000,
    ) -> None:
        self.teacher = teacher
        self.weight: Any = WEIGHT if weight is None else weight
        self.batch_size, self.buffer_size = batch_size, buffer_size
        for name, value in (("batch_size", batch_size), ("buffer_size", buffer_size)):
            if value < 1:
                raise ConfigError(bad_value(f"strategy_params.{name}", value, "1 or more"))
        self._schedule(None)
        self.losses: list[float] = []
        """Losses since the last `begin_iteration`."""
        self.labels: ImitationBuffer | None = None
        """Observations of the student and answers of the teachers; None if the algorithm stores them."""

    def run_defaults(self) -> Mapping[str, Any]:
        """Return normalised observations, except for imitation algorithms, which standardise them."""
        return {} if algorithm(self.config.algo, self.config.framework).replaces_task_budget else {"normalize": True}

    def complete_params(self) -> Mapping[str, Any]:
        """Return the schedule, and absolute paths of the teachers."""
        return {"teacher": absolute(self.teacher), "weight": self.weight}

    def requires(self) -> Sequence[str]:
        """Require a gradient-based, memoryless actor of continuous actions: teachers are queried on single states."""
        return ("continuous_actions", "actor_optimizer", "no_memory")

    def prepare_model(self) -> None:
        """Load the teachers and add their loss to the student's."""
        model: Any = self.model
        self.teachers: Teachers = read_teachers(self.teacher, self.plan, self.training_env)
        if hasattr(model, "teacher"):  # imitation algorithms, see `BC`
            model.teacher = self.teachers
            return
        self.has_gaussians = self.teachers.family is not None and self.teachers.family == family(model.policy)
        width = int(np.prod(model.action_space.shape)) * (2 if self.has_gaussians else 1)
        answers = Box(-np.inf, np.inf, (width,), np.float32)
        spaces = without_route(self.training_env.observation_space), answers
        self.labels = ImitationBuffer(self.buffer_size, *spaces, model.device, self.training_env.num_envs)
        self.normalizer = unwrap_vec_normalize(self.training_env)
        self.schedule = self._schedule(self.config.steps)
        optimizer = actor_optimizer(model)
        assert optimizer is not None  # see `requires`
        add_loss(optimizer, self.loss)

    def on_step(self, observations: Any) -> None:
        """Query the teachers in the current states."""
        if self.labels is None or self.current_weight() == 0.0:
            return
        # Stored raw; normalised when sampled, with the current statistics, like the student's inputs.
        raw = observations if self.normalizer is None else self.normalizer.get_original_obs()
        self.labels.add(raw, self.teachers.gaussians() if self.has_gaussians else self.teachers.act(raw))

    def begin_iteration(self) -> None:
        """Log weight and mean loss."""
        if self.labels is None:
            return
        self.logger.record("strategy/weight", self.current_weight())
        if self.losses:
            self.logger.record("strategy/loss", float(np.mean(self.losses)))
            self.losses = []

    def current_weight(self) -> float:
        """Return the current weight of the loss."""
        return self.schedule.value(self.num_timesteps, self.config.steps)

    def loss(self) -> torch.Tensor | None:
        """Return the weighted loss `()` of a minibatch; None without weight or answers."""
        weight = self.current_weight()
        if self.labels is None or weight == 0.0 or self.labels.size() == 0:
            return None
        observations, answers = self.labels.sample(self.batch_size, self.normalizer)
        policy: Any = self.model.policy
        if self.has_gaussians:
            loss = divergence(answers, gaussian(policy, observations))
        else:  # with exploration noise, so that the student also learns to explore less
            deterministic = getattr(self.model, "use_sde", False)
            loss = imitation_loss(policy, observations, answers, deterministic=deterministic)
        self.losses.append(loss.item())
        return weight * loss

    def state_dict(self) -> dict[str, Any]:
        """Return the state with observations and answers."""
        return {**super().state_dict(), "labels": None if self.labels is None else self.labels.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        if self.labels is not None:
            self.labels.load_state_dict(state["labels"])

    def _schedule(self, total_steps: int | None) -> Schedule:
        """Return the weight as a schedule.

        Raises:
            ConfigError: The weight is not a schedule, or it falls below 0.
        """
        schedule = self.weight if isinstance(self.weight, Mapping) else {"schedule": "constant", "value": self.weight}
        return parse("strategy_params.weight", schedule, Range(0.0), total_steps)
