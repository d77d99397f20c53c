"""Episodes are played and recorded, and played again as they were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mygym.demonstrations.episodes import Demonstration, Observations
from mygym.demonstrations.keyboard import GivenUp
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.errors import DivergedError, RunError
from mygym.experts import make_expert
from mygym.runs.evaluation import DEMONSTRATION, Predicts, episode_seeds, in_turn, stacked
from mygym.runs.video import Film

ATTEMPTS = 10
"""Episodes that are played for each that is wanted, before a policy is said to fail too often."""


def attempts(
    policy: Predicts,
    env: AnyEnv,
    seed: int,
    episodes: int,
    levels: Sequence[float] = (0.0,),
    name: str = "oracle",
    keep_failures: bool = False,
) -> Iterator[Demonstration]:
    """Episodes on seeds that no training and no evaluation uses, until they are too many or whoever drives gives up.

    Args:
        policy: Gets batches of one observation.
        env: Where they are played.
        seed: Decides the episodes.
        episodes: How many are wanted.
        levels: Of noise, as many episodes of each as can be: the next is of the one of which the fewest were kept.
        name: Of the policy, for messages.
        keep_failures: Whether episodes that do not end in success are kept too.

    Raises:
        RunError: The policy's actions are not finite.
    """
    seeds = in_turn(episode_seeds(seed, DEMONSTRATION, ATTEMPTS * episodes), env)
    kept = [0] * len(levels)
    for one in seeds:
        level = kept.index(min(kept))
        try:
            played = play(policy, env, one, levels[level])
        except GivenUp:
            return
        except (DivergedError, ValueError) as error:  # torch's distributions raise the latter
            raise RunError(f"{name}: cannot be recorded: {' '.join(str(error).split())}") from error
        kept[level] += played.success or keep_failures
        yield played


def play(policy: Predicts, env: AnyEnv, seed: int, noise: float = 0.0) -> Demonstration:
    """Record one episode.

    Args:
        policy: Gets batches of one observation.
        env: Where it is played.
        seed: Decides the episode, and what the noise is.
        noise: Standard deviation of the normal noise on each number of an action; the sum is clipped to the space.

    Raises:
        DivergedError: An action is not finite.
    """
    expert, rng = make_expert(env), np.random.default_rng([DEMONSTRATION, 0, seed])
    low, high = env.action_space.low, env.action_space.high  # type: ignore[attr-defined]
    observation, info = env.reset(seed=seed)
    observations, infos, labels = [observation], [info], [expert.act(observation)]
    actions, rewards, ends = [], [], []
    memory, starts, done = None, np.ones(1, dtype=bool), False
    while not done:
        predicted, memory = policy.predict(stacked([observation]), memory, starts, deterministic=True)
        starts = np.zeros(1, dtype=bool)
        wanted = predicted[0] + rng.normal(0.0, noise, low.shape) if noise else predicted[0]
        if not np.isfinite(wanted).all():
            raise DivergedError(f"action {np.asarray(wanted).tolist()} is not finite")  # clipping would hide it
        action = np.clip(wanted, low, high).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        observations.append(observation)
        infos.append(info)
        labels.append(expert.act(observation))
        actions.append(action)
        rewards.append(reward)
        ends.append((terminated, truncated))
        done = terminated or truncated
    return Demonstration(
        seed=seed,
        observations=stacked(observations),
        actions=np.array(actions, dtype=np.float32),
        expert_actions=np.array(labels, dtype=np.float32),
        rewards=np.array(rewards, dtype=np.float64),
        terminated=np.array([end[0] for end in ends]),
        truncated=np.array([end[1] for end in ends]),
        stages=np.array([one["stage"] for one in infos], dtype=np.int64),
        lead_in=np.empty((0, *low.shape), dtype=np.float32),
        success=bool(info["is_success"]),
        noise=noise,
        task=env.label if isinstance(env, MultiTaskEnv) else "",
    )


def replay(demonstration: Demonstration, env: AnyEnv, film: Film | None = None) -> int | None:
    """Play it again: an exact reset, then the same actions.

    Args:
        demonstration: What to play.
        env: One as it was recorded in.
        film: Where its pictures go; `env` then has `render_mode="rgb_array"`.

    Returns:
        The first step after which the observation or what the expert would do there, or a reward or the end before it,
        is not as stored, 0 being the beginning; None where everything is as it was, to the bit.
    """
    differs, expert = None, make_expert(env)
    observation, _ = env.reset(seed=demonstration.seed)
    for action in demonstration.lead_in:
        observation, *_ = env.step(action)
    same = _is_same(observation, demonstration.observations, 0)
    same &= np.array_equal(expert.act(observation), demonstration.expert_actions[0])
    for step in range(len(demonstration) + 1):
        if step:
            observation, reward, terminated, _, _ = env.step(demonstration.actions[step - 1])
            same = _is_same(observation, demonstration.observations, step)
            same &= np.array_equal(expert.act(observation), demonstration.expert_actions[step])
            same &= reward == demonstration.rewards[step - 1] and terminated == demonstration.terminated[step - 1]
        if not same and differs is None:
            differs = step
        if film is not None:
            film.show(env)
    return differs


def _is_same(observation: Any, stored: Observations, step: int) -> bool:
    if isinstance(stored, dict):
        return all(np.array_equal(observation[key], values[step]) for key, values in stored.items())
    return np.array_equal(observation, stored[step])
