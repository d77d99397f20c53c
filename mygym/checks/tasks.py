"""The conformance suite of tasks: makes sense, is a proper environment, is solvable, and worth solving."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from gymnasium.utils.env_checker import check_env

from mygym import training
from mygym.checks.suite import Check, demand
from mygym.runs.evaluation import EXTRA, Evaluation, episode_seeds
from mygym.tasks.rewards import KINDS
from mygym.tasks.task import find_task

EPISODES = 100
SOLVED = 0.95
"""Share of episodes that the expert must solve."""

CHANCE = 0.2
"""Share of episodes that random actions may solve."""


def task_checks(name: str) -> Iterator[Check]:
    """The suite of one task, with the default robot."""
    yield Check("grammatical", lambda: demand(find_task(name).describe(), "has no stages"))
    yield Check("environment", lambda: _is_an_environment({"task": name}), needs=("grammatical",))
    yield Check("not solved at reset", lambda: _starts_unsolved({"task": name}), needs=("environment",))
    yield Check("expert solves it", lambda: expert_solves({"task": name}), needs=("environment",))
    yield Check("chance does not", lambda: _needs_skill({"task": name}), needs=("environment",))
    yield Check("worth solving", lambda: _pays({"task": name}), needs=("expert solves it",))


def expert_solves(config: Mapping[str, Any], episodes: int = EPISODES) -> None:
    """Demand that the scripted expert solves nearly every episode of a config."""
    evaluation = _judge("oracle", config, episodes)
    solved = sum(episode.success for episode in evaluation.episodes)
    failed = next((episode.seed for episode in evaluation.episodes if not episode.success), None)
    demand(
        solved >= SOLVED * episodes,
        f"the expert solves {solved} of {episodes} episodes, needed are {SOLVED:.0%}; they end in "
        f"{evaluation.stage_reached}, that of seed {failed} among the failed ones",
    )


def _judge(policy: str, config: Mapping[str, Any], episodes: int) -> Evaluation:
    return training.evaluate(policy=policy, config=dict(config), episodes=episodes)


def _is_an_environment(config: Mapping[str, Any]) -> None:
    for goal_env in (True, False):
        with training.make_env(dict(config)) as made, warnings.catch_warnings():
            warnings.simplefilter("error")
            env = made if goal_env else type(made)(config["task"], goal_env=False)
            try:
                check_env(env, skip_render_check=True)
            finally:
                env.close()


def _starts_unsolved(config: Mapping[str, Any]) -> None:
    with training.make_env(dict(config)) as env:
        seeds = episode_seeds(0, EXTRA, EPISODES)
        solved = []
        for seed in seeds:
            observation, info = env.reset(seed=seed)
            assert isinstance(observation, dict)
            reached = env.compute_terminated(observation["achieved_goal"], observation["desired_goal"], None)
            solved += [seed] if info["is_success"] or bool(reached) else []
    demand(not solved, f"{len(solved)} of {EPISODES} episodes are solved at the reset, e.g. that of seed {solved[:1]}")


def _needs_skill(config: Mapping[str, Any]) -> None:
    rate = _judge("random", config, EPISODES // 4).success_rate
    demand(rate <= CHANCE, f"random actions solve {rate:.0%} of the episodes; at most {CHANCE:.0%} may be so easy")


def _pays(config: Mapping[str, Any]) -> None:
    """With each kind of reward solving a task gives more than idling, or chance."""
    for reward in KINDS:
        returns = {
            policy: _judge(policy, {**config, "reward": reward}, 5).mean_return
            for policy in ("oracle", "zero", "random")
        }
        best = max(returns, key=lambda policy: returns[policy])
        demand(
            best == "oracle",
            f"with the {reward} reward {best} earns {returns[best]:.2f}, the expert {returns['oracle']:.2f}",
        )
