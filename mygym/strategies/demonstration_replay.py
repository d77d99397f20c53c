"""Replay minibatches of which a share are demonstrations."""

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

from mygym.demonstrations import Transitions
from mygym.demonstrations.episodes import Observations
from mygym.runs.imitation_buffer import ImitationBuffer
from mygym.runs.routed_vec_env import without_route


def demonstration_buffer(model: OffPolicyAlgorithm, steps: Transitions, variants: Sequence[int]) -> ReplayBuffer:
    """A buffer that holds demonstrations and nothing else, of the class and arguments of the model's own.

    So hindsight replay relabels demonstrations as it does what the policy lives through.

    Args:
        model: Whose replay buffer is there.
        steps: Whole episodes, or stretches that end as if truncated.
        variants: Of each step, which of several tasks was played: by that one's reward it is relabelled.
    """
    kwargs = dict(model.replay_buffer_kwargs)
    cls = type(model.replay_buffer)
    assert issubclass(cls, ReplayBuffer)
    if issubclass(cls, HerReplayBuffer):
        kwargs["env"] = model.env
    buffer = cls(len(steps.actions), model.observation_space, model.action_space, device=model.device, **kwargs)
    actions = model.policy.scale_action(steps.actions)
    timeouts = steps.truncated & ~steps.terminated
    for row in range(len(actions)):
        buffer.add(
            at(steps.observations, row),
            at(steps.next_observations, row),
            actions[row, None],
            steps.rewards[row, None],
            (steps.terminated | steps.truncated)[row, None],
            [{"TimeLimit.truncated": bool(timeouts[row]), "variant": variants[row]}],
        )
    return buffer


def label_buffer(model: BaseAlgorithm, steps: Transitions, labels: NDArray[np.float32]) -> ImitationBuffer:
    """A buffer that holds what was seen in demonstrations, and `labels` `(n, A)` of what to do there."""
    buffer = ImitationBuffer(len(labels), without_route(model.observation_space), model.action_space, model.device)
    for row, label in enumerate(model.policy.scale_action(labels)):
        buffer.add(at(steps.observations, row), label)
    return buffer


def at(observations: Observations, row: int) -> Any:
    """Those of one step, `(1, …)`."""
    if isinstance(observations, dict):
        return {key: values[row, None] for key, values in observations.items()}
    return observations[row, None]


def mix(buffer: ReplayBuffer, demonstrations: ReplayBuffer, share: float) -> None:
    """Let `buffer.sample` draw a share of each minibatch from `demonstrations` (Ball et al., 2023).

    What is saved of `buffer` is as before. The two are spread evenly over the minibatch, because SBX's algorithms
    draw many minibatches at a time and take slices.

    Args:
        buffer: The model's own.
        demonstrations: Of the same class.
        share: In [0, 1]; rounded to a number of transitions.
    """
    own = buffer.sample

    def sample(batch_size: int, env: Any = None) -> Any:
        shown = round(share * batch_size)
        if shown in (0, batch_size):
            return (demonstrations.sample if shown else own)(batch_size, env=env)
        parts = own(batch_size - shown, env=env), demonstrations.sample(shown, env=env)
        order = torch.as_tensor(spread(batch_size - shown, shown), device=buffer.device)
        return type(parts[0])(*(_merged(one, other, order) for one, other in zip(*parts, strict=True)))

    buffer.sample = sample  # type: ignore[method-assign]


def spread(own: int, shown: int) -> NDArray[np.int64]:
    """`(own + shown,)`: an order of `own` rows and `shown` rows after them in which every stretch has its share."""
    places = [(np.arange(count) + 0.5) / count for count in (own, shown)]
    return np.argsort(np.concatenate(places), kind="stable")


def _merged(one: Any, other: Any, order: torch.Tensor) -> Any:
    """Rows of both in `order`; of a dictionary those of each part, of what neither has nothing."""
    if isinstance(one, dict):
        return {key: _merged(one[key], other[key], order) for key in one}
    return None if one is None else torch.cat((one, other))[order]
