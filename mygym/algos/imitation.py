"""Imitation of a teacher, by default the scripted expert: behaviour cloning and DAgger."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
import torch
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import obs_as_tensor
from torch.nn import functional

from mygym.algos.image_augmentation import shifted
from mygym.algos.imitation_policies import ImitationPolicy
from mygym.experts import Expert, make_expert
from mygym.runs.curves import Curves
from mygym.runs.imitation_buffer import ImitationBuffer
from mygym.runs.runner import Loop, Runner


class BC(Runner):
    """Behaviour cloning: the expert acts, and the policy learns the expert's action in each state.

    The expert is the scripted expert unless strategy `distill` sets another `teacher`. Rollouts alternate with gradient
    steps on all data so far. Training covers only states that the expert visits; the policy is not trained for
    states to which its errors lead (see `DAgger`).

    Args:
        policy: `MultiInputPolicy` or `MlpPolicy`, or a subclass of `ImitationPolicy`.
        env: Vector environment with scripted experts.
        learning_rate: Learning rate of the optimiser.
        batch_size: States in a minibatch.
        buffer_size: Maximum number of states in the data set; when it is full, new states replace the oldest.
        random_shift: Pixels by which images are shifted at random in every minibatch, at most; 0: not at all.
        **kwargs: Arguments of `Runner`.

    Raises:
        ConfigError: The environment has no scripted expert.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": ImitationPolicy,
        "MultiInputPolicy": ImitationPolicy,
    }

    def __init__(
        self,
        policy: str | type[ImitationPolicy],
        env: GymEnv | str | None,
        learning_rate: float = 1e-3,
        batch_size: int = 256,
        buffer_size: int = 1_000_000,
        random_shift: int = 2,
        **kwargs: Any,
    ) -> None:
        self.batch_size, self.buffer_size, self.random_shift = batch_size, buffer_size, random_shift
        self.rollouts = 0
        self.replay_buffer: ImitationBuffer | None = None
        self.teacher: Expert | None = None
        super().__init__(policy, env, learning_rate, **kwargs)
        if self.env is not None:
            make_expert(self.env)

    def setup(self) -> None:
        """Allocate the data set."""
        spaces = self.observation_space, self.action_space
        self.replay_buffer = ImitationBuffer(self.buffer_size, *spaces, self.device, self.n_envs)

    @property
    def student(self) -> ImitationPolicy:
        """The policy, typed for this class."""
        return cast(ImitationPolicy, self.policy)

    @property
    def expert_share(self) -> float:
        """Probability that the expert acts in a step of the next rollout."""
        return 1.0

    def training(self, loop: Loop, *, rollout_steps: int = 50, gradient_steps: int = 100) -> Curves:
        """Alternate rollouts and gradient steps until the loop ends.

        Args:
            loop: Training environments, logging and budget of the run.
            rollout_steps: Steps of each environment in a rollout.
            gradient_steps: Gradient steps after each rollout.
        """
        expert = self.teacher or make_expert(loop.envs)
        while loop.next_iteration():
            self.logger.record("train/expert_share", self.expert_share)
            for _ in range(rollout_steps):
                self._step(loop, expert)
            self.train(gradient_steps)
            self.rollouts += 1
        return loop.curves()

    @torch.no_grad()
    def _step(self, loop: Loop, expert: Expert) -> None:
        """Step each environment with the action of the expert or the policy; the expert's action is the label."""
        assert self.replay_buffer is not None
        labels = self.policy.scale_action(expert.act(loop.observations))
        observations = obs_as_tensor(loop.observations, self.device)
        self.student.standardize(observations)
        self.replay_buffer.add(loop.observations, labels)
        share = self.expert_share
        if share < 1.0:
            expert_acts = np.random.random(len(labels)) < share  # noqa: NPY002  (checkpoints contain this generator)
            labels = np.where(expert_acts[:, None], labels, self.student(observations).cpu().numpy())
        loop.step(labels)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "teacher"]

    def train(self, gradient_steps: int) -> None:
        """Make gradient steps on the absolute error: a squared error would average an open and a closed gripper."""
        assert self.replay_buffer is not None
        optimizer = self.student.optimizer
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate
        self.policy.set_training_mode(True)
        losses = []
        for _ in range(gradient_steps):
            observations, labels = self.replay_buffer.sample(self.batch_size)
            loss = functional.l1_loss(self.student(shifted(observations, self.random_shift)), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        self.policy.set_training_mode(False)
        self.logger.record("train/loss", float(np.mean(losses)))
        self.logger.record("train/samples", self.replay_buffer.size() * self.replay_buffer.n_envs)
        self.logger.record("train/learning_rate", self.learning_rate)


class DAgger(BC):
    """Dataset aggregation (Ross, Gordon and Bagnell, 2011): the policy acts, the expert labels its states.

    The policy therefore learns actions for states to which its errors lead. In rollout `i` the expert acts in a share
    `beta ** i` of the steps and the policy in the rest.

    Args:
        policy: See `BC`.
        env: See `BC`.
        beta: Factor of the expert's share from each rollout to the next; 0: the expert acts only in the first rollout.
        **kwargs: Arguments of `BC`.
    """

    def __init__(
        self,
        policy: str | type[ImitationPolicy],
        env: GymEnv | str | None,
        *,
        beta: float = 0.7,
        **kwargs: Any,
    ) -> None:
        self.beta = beta
        super().__init__(policy, env, **kwargs)

    @property
    def expert_share(self) -> float:
        """Share `beta ** i` in rollout `i`."""
        return float(self.beta**self.rollouts)
