"""Imitation of a teacher, by default the scripted expert: behaviour cloning and DAgger."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from annotated_types import Ge
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor, FlattenExtractor, create_mlp
from stable_baselines3.common.type_aliases import GymEnv, PyTorchObs, Schedule
from stable_baselines3.common.utils import obs_as_tensor
from torch import nn
from torch.nn import functional

from mygym.algos.images import KeypointExtractor, shifted
from mygym.experts import Expert, make_expert
from mygym.training.buffers import ImitationBuffer
from mygym.training.result import Curves
from mygym.training.runner import Loop, Runner
from mygym.vision.networks import Standardizer


class ImitationPolicy(BasePolicy):
    """Deterministic policy: standardised observation, features, layers, action in [-1, 1].

    Args:
        observation_space: Observation space; all arrays are standardised.
        action_space: Box action space.
        lr_schedule: Learning rate of the optimiser.
        net_arch: Sizes of the hidden layers; None: three layers of 128.
        activation_fn: Activation after each hidden layer.
        features_extractor_class: Maps the observation to one vector; None: concatenates its arrays, and keypoints of
            images.
        features_extractor_kwargs: Arguments of the features extractor.
        normalize_images: Whether byte images are divided by 255.
        optimizer_class: Class of the optimiser.
        optimizer_kwargs: Arguments of the optimiser.
    """

    optimizer: torch.optim.Optimizer
    image_extractor = KeypointExtractor
    """Default features extractor for images."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Box,
        lr_schedule: Schedule,
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        is_dict = isinstance(observation_space, spaces.Dict)
        subspaces = (
            observation_space.spaces if isinstance(observation_space, spaces.Dict) else {"flat": observation_space}
        )
        images = {
            name
            for name, subspace in subspaces.items()
            if is_image_space(subspace, normalized_image=not normalize_images)
        }
        default = self.image_extractor if is_dict and images else CombinedExtractor if is_dict else FlattenExtractor
        extractor = features_extractor_class or default
        super().__init__(
            observation_space,
            action_space,
            extractor,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=True,
        )
        self.net_arch = [128, 128, 128] if net_arch is None else net_arch
        self.activation_fn = activation_fn
        as_they_are = getattr(extractor, "takes_encoder", False)
        self.standardizers = nn.ModuleDict(
            {
                name: Standardizer(subspace.shape, name in images)
                for name, subspace in subspaces.items()
                if isinstance(subspace, spaces.Box) and not (name in images and as_they_are)
            }
        )
        self.features_extractor = self.make_features_extractor()
        self._build(lr_schedule)

    def _build(self, lr_schedule: Schedule) -> None:
        """Build the network and its optimiser."""
        assert self.features_extractor is not None
        layers = create_mlp(
            self.features_extractor.features_dim,
            cast(spaces.Box, self.action_space).shape[0],
            self.net_arch,
            self.activation_fn,
            squash_output=True,
        )
        self.network = nn.Sequential(*layers)
        optimizer_class: Any = self.optimizer_class
        self.optimizer = optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def standardize(self, observations: PyTorchObs) -> None:
        """Update means and variances with observations `(n, …)`."""
        inputs = preprocess_obs(observations, self.observation_space, normalize_images=self.normalize_images)
        for name, standardizer in self.standardizers.items():
            cast(Standardizer, standardizer).update(inputs[name] if isinstance(inputs, dict) else inputs)

    def forward(self, observations: PyTorchObs) -> torch.Tensor:
        """Return actions `(n, A)` in [-1, 1] for observations `(n, …)`."""
        inputs = preprocess_obs(observations, self.observation_space, normalize_images=self.normalize_images)
        if isinstance(inputs, dict):
            inputs = {name: self._standardized(name, values) for name, values in inputs.items()}
        else:
            inputs = self._standardized("flat", inputs)
        return cast(torch.Tensor, self.network(self.features_extractor(inputs)))

    def _standardized(self, name: str, values: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.standardizers[name](values)) if name in self.standardizers else values

    def _predict(self, observation: PyTorchObs, deterministic: bool = True) -> torch.Tensor:
        return self.forward(observation)


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

    _not_in_checkpoints = ("teacher",)
    """The strategy of the config sets it."""
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

    def training(self, loop: Loop, *, rollout_steps: int = 50, gradient_steps: Annotated[int, Ge(1)] = 100) -> Curves:
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
        self, policy: str | type[ImitationPolicy], env: GymEnv | str | None, *, beta: float = 0.7, **kwargs: Any
    ) -> None:
        self.beta = beta
        super().__init__(policy, env, **kwargs)

    @property
    def expert_share(self) -> float:
        """Share `beta ** i` in rollout `i`."""
        return float(self.beta**self.rollouts)
