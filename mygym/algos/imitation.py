"""Learning from a teacher, by default the scripted expert: behaviour cloning, and DAgger."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
import torch
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import obs_as_tensor
from torch.nn import functional

from mygym.algos.imitation_policies import ImitationPolicy
from mygym.experts import Expert, make_expert
from mygym.runs.curves import Curves
from mygym.runs.imitation_buffer import ImitationBuffer
from mygym.runs.runner import Loop, Runner


class BC(Runner):
    """Behaviour cloning: the expert drives, and the policy learns to do in each state what the expert did.

    The expert is the scripted one, unless strategy `distill` sets another `teacher`. Rollouts alternate with gradient
    steps on everything that was seen so far. The policy meets states of the expert's alone, so what it does in others,
    where its own errors lead it, is left to chance: see `DAgger`.

    Args:
        policy: `MultiInputPolicy` or `MlpPolicy`, or a subclass of `ImitationPolicy`.
        env: Vector environment with scripted experts.
        learning_rate: Of the policy's optimiser.
        batch_size: States in a minibatch.
        buffer_size: States that the data set holds; beyond them the newest take the place of the oldest.
        **kwargs: Those of `Runner`.

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
        **kwargs: Any,
    ) -> None:
        self.batch_size, self.buffer_size = batch_size, buffer_size
        self.rollouts = 0
        self.replay_buffer: ImitationBuffer | None = None
        self.teacher: Expert | None = None
        super().__init__(policy, env, learning_rate, **kwargs)
        if self.env is not None:
            make_expert(self.env)

    def setup(self) -> None:
        """Make room for the data set."""
        spaces = self.observation_space, self.action_space
        self.replay_buffer = ImitationBuffer(self.buffer_size, *spaces, self.device, self.n_envs)

    @property
    def student(self) -> ImitationPolicy:
        """The policy, as what it is."""
        return cast(ImitationPolicy, self.policy)

    @property
    def expert_share(self) -> float:
        """Probability with which it is the expert who acts, in each step of the rollout that comes."""
        return 1.0

    def training(self, loop: Loop, *, rollout_steps: int = 50, gradient_steps: int = 100) -> Curves:
        """Rollout after rollout.

        Args:
            loop: The training environments and everything around them.
            rollout_steps: Of each environment, between two phases of learning.
            gradient_steps: After each rollout.
        """
        expert = self.teacher or make_expert(loop.envs)
        while loop.goes_on():
            self.logger.record("train/expert_share", self.expert_share)
            for _ in range(rollout_steps):
                self._step(loop, expert)
            self.train(gradient_steps)
            self.rollouts += 1
        return loop.curves()

    @torch.no_grad()
    def _step(self, loop: Loop, expert: Expert) -> None:
        """One step of each environment, driven by the expert or by the policy; the expert's action is the label."""
        assert self.replay_buffer is not None
        labels = self.policy.scale_action(expert.act(loop.observations))
        seen = obs_as_tensor(loop.observations, self.device)
        self.student.standardize(seen)
        self.replay_buffer.add(loop.observations, labels)
        share = self.expert_share
        if share < 1.0:
            expert_acts = np.random.random(len(labels)) < share  # noqa: NPY002  (a run's state has this generator)
            labels = np.where(expert_acts[:, None], labels, self.student(seen).cpu().numpy())
        loop.step(labels)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "teacher"]

    def train(self, gradient_steps: int) -> None:
        """Gradient steps on the mean absolute error: fingers close or open, and no mean of the two is right."""
        assert self.replay_buffer is not None
        optimizer = self.student.optimizer
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate
        self.policy.set_training_mode(True)
        losses = []
        for _ in range(gradient_steps):
            observations, labels = self.replay_buffer.sample(self.batch_size)
            loss = functional.l1_loss(self.student(observations), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        self.policy.set_training_mode(False)
        self.logger.record("train/loss", float(np.mean(losses)))
        self.logger.record("train/samples", self.replay_buffer.size() * self.replay_buffer.n_envs)
        self.logger.record("train/learning_rate", self.learning_rate)


class DAgger(BC):
    """Dataset aggregation (Ross, Gordon and Bagnell, 2011): the policy drives, the expert says what it would have done.

    So the policy learns what to do in the states that its own errors lead it to. At first, while it knows nothing, the
    expert drives; in rollout `i` the expert acts in a share `beta ** i` of the steps, the policy in the others.

    Args:
        policy: As of `BC`.
        env: As of `BC`.
        beta: By which the expert's share of the steps falls from rollout to rollout; 0: the first one is the expert's.
        **kwargs: Those of `BC`.
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
        """See the class."""
        return float(self.beta**self.rollouts)
