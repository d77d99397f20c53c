"""Replay minibatches with a share of demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space, maybe_transpose

from mygym.demonstrations import Transitions
from mygym.demonstrations.episodes import Observations
from mygym.runs.imitation_buffer import ImitationBuffer
from mygym.runs.vec_envs.routed_vec_env import without_route


def demonstration_buffer(model: OffPolicyAlgorithm, steps: Transitions, variants: Sequence[int]) -> ReplayBuffer:
    """Return a replay buffer of demonstrations, with the class and arguments of the model's replay buffer.

    Hindsight replay therefore relabels demonstrations in the same way as the policy's episodes.

    Args:
        model: Model whose replay buffer class is used.
        steps: Whole episodes, or segments, whose end counts as truncation.
        variants: Variant that was played in each step; its reward function relabels the step.
    """
    kwargs = dict(model.replay_buffer_kwargs)
    cls = type(model.replay_buffer)
    assert issubclass(cls, ReplayBuffer)
    if issubclass(cls, HerReplayBuffer):
        kwargs["env"] = model.env
    buffer = cls(len(steps.actions), model.observation_space, model.action_space, device=model.device, **kwargs)
    actions = model.policy.scale_action(steps.actions)
    observations, next_observations = (
        as_trained(values, model.observation_space) for values in (steps.observations, steps.next_observations)
    )
    timeouts = steps.truncated & ~steps.terminated
    for row in range(len(actions)):
        buffer.add(
            _observation(observations, row),
            _observation(next_observations, row),
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
        buffer.add(_observation(observations, row), label)
    return buffer


def as_trained(observations: Observations, space: Any) -> Observations:
    """Return observations `(n, …)` of an environment with their images as networks take them, `(n, C, H, W)`."""
    if not isinstance(observations, dict):
        return observations
    return {
        key: maybe_transpose(values, space[key]) if is_image_space(space[key]) else values
        for key, values in observations.items()
    }


def _observation(observations: Observations, row: int) -> Any:
    """Return the observation of one step, `(1, …)`."""
    if isinstance(observations, dict):
        return {key: values[row, None] for key, values in observations.items()}
    return observations[row, None]


def mix(buffer: ReplayBuffer, demonstrations: ReplayBuffer, share: float) -> None:
    """Make `buffer.sample` draw a share of each minibatch from `demonstrations` (Ball et al., 2023).

    The saved content of `buffer` does not change. Both sources are spread evenly over the minibatch, because SBX's
    algorithms draw many minibatches at once and slice them.

    Args:
        buffer: The model's replay buffer.
        demonstrations: Buffer of the same class.
        share: Share in [0, 1]; rounded to a number of transitions.
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
    if isinstance(first, dict):
        return {key: _merged(first[key], second[key], order) for key in first}
    return None if first is None else torch.cat((first, second))[order]
