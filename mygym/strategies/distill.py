"""A student that learns from teachers, alone or beside an algorithm's own objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mygym.config.ranges import Range
from mygym.config.schedules import Schedule, parse
from mygym.errors import ConfigError, bad_value
from mygym.registry import algorithm
from mygym.runs.imitation_buffer import ImitationBuffer
from mygym.runs.routed_vec_env import seen
from mygym.strategies.losses import actor_optimizer, add_loss, imitation_loss
from mygym.strategies.mixture.gaussians import divergence, family, gaussian
from mygym.strategies.strategy import Strategy
from mygym.strategies.teachers import Teachers, absolute, read_teachers

WEIGHT = {"schedule": "linear", "from": 10.0, "to": 1.0}
"""Unless another is asked for: at first the teacher decides, whatever a critic that knows nothing says."""


class Distill(Strategy):
    """A student learns from a teacher: the scripted expert, or runs that were trained before.

    With `--algo dagger` or `bc` it learns from nothing else, and `teacher` alone counts. With an algorithm that learns
    from rewards the teacher says what it would do in the states that the student comes to, and the student is drawn
    there with a weight that falls: kickstarting (Schmitt et al., 2018). Where both draw from the same kind of
    Gaussian, the loss is KL(teacher ‖ student), else the mean absolute error of the student's actions, exploration
    included. Learning by labels is easier where observations are normalised (`normalize: true`). Of `trpo`
    it is a step of Adam's after the line search, in which `target_kl` has no say.

    A run sees what it was trained on, in the student's environments and without noise; so the student may observe less
    than its teacher. One that was trained with `experts` teaches by all of them: in each state that one answers whom
    the stage, the gate or the path that was found calls; a file of `mygym search --out` is another path of them.

    Args:
        teacher: `oracle`, the scripted expert; the path of a run; a list of these, of which one is drawn in each state;
            or a mapping from the label of each task that is played to these.
        weight: Of the loss that is added: a number or a schedule. None: linear from 10 to 1 over the run. While it is 0
            the teacher is not asked.
        batch_size: States in a minibatch, of which there is one for each step of the actor's optimiser.
        buffer_size: Latest states that minibatches are drawn from; checkpoints hold them.
    """

    kept = ("losses",)

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
        """Since the last `step`."""
        self.labels: ImitationBuffer | None = None
        """What the student saw, and the teacher's answers; None where the algorithm itself keeps them."""

    def run_defaults(self) -> Mapping[str, Any]:
        """Normalised observations, but of algorithms that imitate by themselves: in metres they are hardly imitated."""
        return {} if algorithm(self.config.algo, self.config.framework).own_budget else {"normalize": True}

    def settled(self) -> Mapping[str, Any]:
        """The schedule, and where the teachers are."""
        return {"teacher": absolute(self.teacher), "weight": self.weight}

    def requires(self) -> Sequence[str]:
        """A network that follows gradients, and goes by what it sees now: teachers are asked about single states."""
        return ("actor_optimizer", "no_memory")

    def prepare_model(self) -> None:
        """Ask the teachers in, and add their loss to the student's own."""
        model: Any = self.model
        self.teachers: Teachers = read_teachers(self.teacher, self.plan, self.training_env)
        if hasattr(model, "teacher"):  # as of `BC`
            model.teacher = self.teachers
            return
        self.has_gaussians = self.teachers.family is not None and self.teachers.family == family(model.policy)
        width = int(np.prod(model.action_space.shape)) * (2 if self.has_gaussians else 1)
        answers = Box(-np.inf, np.inf, (width,), np.float32)
        spaces = seen(self.training_env.observation_space), answers
        self.labels = ImitationBuffer(self.buffer_size, *spaces, model.device, self.training_env.num_envs)
        self.normalizer = unwrap_vec_normalize(self.training_env)
        self.schedule = self._schedule(self.config.steps)
        optimizer = actor_optimizer(model)
        assert optimizer is not None
        add_loss(optimizer, self.loss)

    def on_step(self, observations: Any) -> None:
        """Ask the teachers what to do where the environments are."""
        if self.labels is None or self.current_weight() == 0.0:
            return
        # Kept as they were, and normalised when they are drawn: with the figures that the student is trained with then.
        raw = observations if self.normalizer is None else self.normalizer.get_original_obs()
        self.labels.add(raw, self.teachers.gaussians() if self.has_gaussians else self.teachers.act(raw))

    def step(self) -> None:
        """Say what the teachers' part was."""
        if self.labels is None:
            return
        self.logger.record("strategy/weight", self.current_weight())
        if self.losses:
            self.logger.record("strategy/loss", float(np.mean(self.losses)))
            self.losses = []

    def current_weight(self) -> float:
        """Of the teachers' loss now."""
        return self.schedule.value(self.num_timesteps, self.config.steps)

    def loss(self) -> torch.Tensor | None:
        """`()`: the weighted loss of a minibatch; None while there is none."""
        weight = self.current_weight()
        if self.labels is None or weight == 0.0 or self.labels.size() == 0:
            return None
        states, answers = self.labels.sample(self.batch_size, self.normalizer)
        policy: Any = self.model.policy
        if self.has_gaussians:
            loss = divergence(answers, gaussian(policy, states))
        else:  # its noise is part of what it does: a student that explored on would not see what its teacher shows
            loss = imitation_loss(policy, states, answers, deterministic=getattr(self.model, "use_sde", False))
        self.losses.append(loss.item())
        return weight * loss

    def state_dict(self) -> dict[str, Any]:
        """With the states and answers."""
        return {**super().state_dict(), "labels": None if self.labels is None else self.labels.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        super().load_state_dict(state)
        if self.labels is not None:
            self.labels.load_state_dict(state["labels"])

    def _schedule(self, total_steps: int | None) -> Schedule:
        """The weight as a schedule.

        Raises:
            ConfigError: It is none, or goes below 0.
        """
        said = self.weight if isinstance(self.weight, Mapping) else {"schedule": "constant", "value": self.weight}
        return parse("strategy_params.weight", said, Range(0.0), total_steps)
