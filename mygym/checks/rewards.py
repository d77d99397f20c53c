"""Conformance suite of rewards: finite in an episode, the same in a batch, and exact for hindsight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.batches import arrays_of, demand_pure, expert_episode, joined
from mygym.checks.suite import Check, demand
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.rewards import Memory, Reward, find_reward

TASK, GAMMA = "push", 0.95
"""Task and discount for the checks of rewards."""


def reward_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a reward, in episodes of the expert and of random actions."""
    yield Check("loads", lambda: demand(isinstance(find_reward(name), Reward), "is not a Reward"))
    yield Check("finite", lambda: _is_finite(name), needs=("loads",))
    yield Check("batches", lambda: _is_batched(name), needs=("finite",))
    yield Check("relabelling", lambda: _relabels(name), needs=("finite",))


def _is_finite(name: str) -> str:
    """The reward of every step of an episode is a finite number."""
    returns = {}
    with api.make_env({"task": TASK, "reward": name}) as env:
        env.action_space.seed(0)
        for policy in ("expert", "random"):
            env.reset(seed=0)
            rewards: list[float] = []
            ended = False
            while not ended:
                action = env.expert_action() if policy == "expert" else env.action_space.sample()
                _, reward, terminated, truncated, _ = env.step(action)
                demand(np.isfinite(reward), f"is {reward} in step {len(rewards)} of an episode with {policy} actions")
                rewards.append(float(reward))
                ended = terminated or truncated
            returns[policy] = sum(rewards)
    return ", ".join(f"{policy} actions {total:.2f}" for policy, total in returns.items())


def _is_batched(name: str) -> None:
    """The reward of a batch equals the rewards of its single goals or states; arguments are unchanged."""
    reward = find_reward(name)
    if reward.depends_on_goals_only:
        _is_batched_over_goals(name)
        return
    contexts = expert_episode({"task": TASK}).contexts

    def step(state: tuple[EpisodeContext, Memory]) -> tuple[Any, Memory]:
        n = len(state[0].goals)
        return reward.step_reward(*state, sparse=np.full(n, -1.0), gamma=GAMMA, failed=np.zeros(n, dtype=bool))

    memories = [reward.begin(contexts[0])]
    for context in contexts[1:]:
        memories.append(step((context, memories[-1]))[1])
    singles = list(zip(contexts[1:], memories[:-1], strict=True))
    batch = joined(contexts[1:])
    memory = {name: np.concatenate([memory[name] for _, memory in singles]) for name in memories[0]}
    arrays = [*arrays_of(batch.state), *arrays_of(batch.progress), batch.goals, *memory.values()]
    result = demand_pure("the reward", lambda state: step(state)[0], (batch, memory), singles, arrays)
    demand(result.shape == (len(singles),), f"the reward has shape {result.shape}, not {(len(singles),)}")


def _is_batched_over_goals(name: str) -> None:
    observations, _ = _observations(name)
    with api.make_env({"task": TASK, "reward": name}) as env:
        pairs = [(seen["achieved_goal"][None], seen["desired_goal"][None]) for seen in observations]
        batch = tuple(map(np.concatenate, zip(*pairs, strict=True)))
        result = demand_pure("the reward", lambda goals: env.compute_reward(*goals, {}), batch, pairs, batch)
        demand(result.shape == (len(pairs),), f"the reward has shape {result.shape}, not {(len(pairs),)}")


def _relabels(name: str) -> str:
    """`compute_reward` repeats the rewards of the episode, and is highest for reaching the goal."""
    if not find_reward(name).depends_on_goals_only:
        return "a reward of the context: hindsight gets the sparse reward"
    observations, rewards = _observations(name)
    with api.make_env({"task": TASK, "reward": name}) as env:
        for seen, reward in zip(observations[1:], rewards, strict=True):
            again = float(env.compute_reward(seen["achieved_goal"], seen["desired_goal"], {}))
            demand(again == reward, f"compute_reward gives {again:g} where the step gave {reward:g}")
        first, last = observations[0], observations[-1]
        reached = float(env.compute_reward(last["achieved_goal"], last["achieved_goal"], {}))
        missed = float(env.compute_reward(first["achieved_goal"], last["achieved_goal"], {}))
        demand(reached >= missed, f"gives {reached:g} for reaching a relabelled goal, and {missed:g} for missing it")
    return f"{reached + 0.0:g} for reaching a relabelled goal, {missed:g} for missing it"  # no "-0"


def _observations(name: str) -> tuple[list[Any], list[float]]:
    """Return the observations and rewards of an expert's episode, `n + 1` observations and `n` rewards."""
    with api.make_env({"task": TASK, "reward": name}) as env:
        observations, rewards, ended = [env.reset(seed=0)[0]], [], False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(env.expert_action())
            observations.append(observation)
            rewards.append(float(reward))
            ended = terminated or truncated
    return observations, rewards
