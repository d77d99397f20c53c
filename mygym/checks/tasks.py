"""Conformance suite of tasks, and the card of a task: success and returns of several policies."""

from __future__ import annotations

import contextlib
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from gymnasium.utils.env_checker import check_env

from mygym import api
from mygym.checks.suite import Check, demand
from mygym.envs.arguments import checked_count
from mygym.envs.multi_task_env import AnyEnv
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import a_robot_for
from mygym.errors import counted
from mygym.registry import registry
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task
from mygym.training.evaluation import BATCH, EXTRA, Evaluation, episode_seeds, evaluate_policy

EXPERT, IDLE = "oracle", ("random", "zero", "hover")
"""Policies of a card."""

EPISODES = 100
"""Episodes of each policy."""

RESETS_PER_EPISODE = 6
"""Resets for each episode of a policy."""

MIN_EXPERT = 0.95
"""Smallest success rate of the expert."""

MAX_AT_RESET = 0.005
"""Largest share of episodes that are solved at the reset."""

MAX_IDLE, MAX_IDLE_POINT = 0.05, 0.2
"""Largest success rate of an idle policy; the second number is for a point in space, which chance may pass."""

CONFIDENCE = 0.95

REWARDS = ("sparse", "dense", "shaped")
"""Rewards whose returns a card compares."""


@dataclass(frozen=True)
class Card:
    """Results of several policies on a task, in the same episodes."""

    task: Task
    robot: str
    workspace: str
    control: str | Mapping[str, Any]
    resets: int
    solved_at_reset: tuple[int, ...]
    """Seeds of the episodes that are solved at the reset."""
    evaluations: Mapping[str, Evaluation]
    """Policy → evaluation."""
    returns: Mapping[str, Mapping[str, float]]
    """Policy → reward → mean return."""

    @property
    def expert(self) -> Evaluation:
        """Evaluation of the scripted expert."""
        return self.evaluations[EXPERT]

    def best_idle(self, reward: str) -> str:
        """Return the idle policy with the largest return."""
        return max(IDLE, key=lambda policy: self.returns[policy][reward])

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain data; shares are in [0, 1]."""
        return {
            "task": self.task.name,
            "words": self.task.describe(),
            "robot": self.robot,
            "workspace": self.workspace,
            "control": self.control,
            "episodes": len(self.expert.episodes),
            "resets": self.resets,
            "solved_at_reset": len(self.solved_at_reset) / self.resets,
            "policies": {
                policy: {
                    "success_rate": evaluation.success_rate,
                    "at_least": at_least(evaluation.solved, len(evaluation.episodes)),
                    "at_most": at_most(evaluation.solved, len(evaluation.episodes)),
                    "mean_length": evaluation.mean_length,
                    "returns": dict(self.returns[policy]),
                    "stage_reached": evaluation.stage_reached,
                }
                for policy, evaluation in self.evaluations.items()
            },
            "flaws": flaws(self),
            "inconclusive": inconclusive(self),
        }


def make_card(
    config: Mapping[str, Any], episodes: int = EPISODES, report: Callable[[str], None] = lambda text: None
) -> Card:
    """Play the episodes of a card, and check six times as many resets.

    A robot that can do the task is chosen if the config names none. `report` gets the next step, in words.

    Raises:
        ConfigError: The config or the number of episodes is wrong.
    """
    episodes = checked_count(episodes, "episodes")
    resets = RESETS_PER_EPISODE * episodes
    complete = {**with_robot(config), "reward": "shaped"}  # `goal_reward` gives the other rewards
    with contextlib.ExitStack() as stack:
        envs = [stack.enter_context(closing(api.make_env(complete))) for _ in range(min(BATCH, episodes))]
        report(f"{resets} resets")
        solved = _solved_at_reset(envs[0], resets)
        evaluations, returns = {}, {}
        for policy in (EXPERT, *IDLE):
            report(f"{counted(episodes, 'episode')} of {policy}")
            evaluations[policy], returns[policy] = _evaluate(policy, envs, episodes)
        scene = envs[0].task, envs[0].robot.name, envs[0].workspace.name, envs[0].control
        return Card(*scene, resets, solved, evaluations, returns)


def with_robot(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with a robot that can do the task, if it names none."""
    if config.get("robot"):
        return dict(config)
    return {**config, "robot": a_robot_for(find_task(config["task"]), config.get("workspace"))}


def _solved_at_reset(env: AnyEnv, resets: int) -> tuple[int, ...]:
    """Return the seeds of the episodes that are solved at the reset."""
    solved = []
    for seed in episode_seeds(0, EXTRA, resets):
        _, info = env.reset(seed=seed)
        solved += [seed] if info["is_success"] or env.goal_reward("sparse") == 0.0 else []
    return tuple(solved)


def _evaluate(policy: str, envs: list[AnyEnv], episodes: int) -> tuple[Evaluation, dict[str, float]]:
    """Evaluate a policy, with its mean return for every reward: rewards do not change the episodes."""
    totals: dict[str, float] = defaultdict(float)

    def watch(index: int, env: AnyEnv) -> None:
        for reward in REWARDS if env.elapsed_steps else ():
            totals[reward] += env.goal_reward(reward)

    acting = registry("policy").get(policy).load()(envs, 0)
    evaluation = evaluate_policy(acting, envs, episode_seeds(0, EXTRA, episodes), watch)
    returns = {reward: total / episodes for reward, total in totals.items()}
    return evaluation, {**returns, "shaped": evaluation.mean_return}


def at_least(count: int, total: int) -> float:
    """Return the lower bound of a share with 95 % confidence, given `count` of `total`."""
    return 1.0 - at_most(total - count, total)


def at_most(count: int, total: int) -> float:
    """Return the upper bound of a share with 95 % confidence, given `count` of `total` (Clopper and Pearson, 1934)."""
    from scipy.special import betaincinv

    return float(betaincinv(count + 1, total - count, CONFIDENCE)) if count < total else 1.0


# criteria -----------------------------------------------------------------------------------------------------------


def flaws(card: Card) -> dict[str, str]:
    """Return criterion → finding, for the criteria that the task does not meet."""
    return {name: finding for name, criterion in CRITERIA.items() if (finding := criterion(card))}


def inconclusive(card: Card) -> list[str]:
    """Describe the criteria for which 95 % confidence needs more episodes."""
    count = len(card.expert.episodes)
    at_reset = at_most(len(card.solved_at_reset), card.resets)
    by_expert = at_least(card.expert.solved, count)
    policy = max(IDLE, key=lambda policy: card.evaluations[policy].solved)
    by_chance = at_most(card.evaluations[policy].solved, count)
    findings = [f"up to {at_reset:.1%} of resets may be solved"] if at_reset > MAX_AT_RESET else []
    findings += [f"the expert may solve as few as {by_expert:.1%}"] if by_expert < MIN_EXPERT else []
    return findings + ([f"{policy} actions may solve up to {by_chance:.1%}"] if by_chance > _max_idle(card) else [])


def _solved_resets(card: Card) -> str:
    count = len(card.solved_at_reset)
    if count <= MAX_AT_RESET * card.resets:
        return ""
    return f"{count} of {card.resets} episodes are solved at the reset, e.g. with seed {card.solved_at_reset[0]}"


def expert_shortfall(expert: Evaluation) -> str:
    """Describe the failures of the expert; empty if it solves nearly every episode."""
    count = len(expert.episodes)
    failures = ", ".join(
        f"{expert.failed_in(episode.stage)} in {episode.stage}, first seed {episode.seed}"
        for episode in expert.failures
    )
    text = f"the expert solves {expert.solved} of {count} episodes; {MIN_EXPERT:.0%} are required; it fails {failures}"
    return text if expert.solved < MIN_EXPERT * count else ""


def _max_idle(card: Card) -> float:
    """Return the largest allowed success rate of an idle policy."""
    return MAX_IDLE if card.task.has_object or card.task.part_slots else MAX_IDLE_POINT


def _solved_by_chance(card: Card) -> str:
    limit = _max_idle(card)
    rates = {policy: card.evaluations[policy].success_rate for policy in IDLE}
    best = max(IDLE, key=lambda policy: rates[policy])
    text = f"{best} actions solve {rates[best]:.0%} of the episodes; at most {limit:.0%} are allowed"
    return text if rates[best] > limit else ""


def _idling_pays(card: Card) -> str:
    """With each reward, solving the task must give more than idling and random actions."""
    findings = []
    for reward in REWARDS:
        policy, expert = card.best_idle(reward), card.returns[EXPERT][reward]
        idle = card.returns[policy][reward]
        text = f"with the {reward} reward {policy} earns {idle:.2f}, the expert {expert:.2f}"
        findings += [text] if idle >= expert else []
    return "; ".join(findings)


CRITERIA: Mapping[str, Callable[[Card], str]] = {
    "not solved at reset": _solved_resets,
    "expert solves it": lambda card: expert_shortfall(card.expert),
    "chance does not": _solved_by_chance,
    "worth solving": _idling_pays,
}
"""Criterion → function that returns the finding, empty if the task meets the criterion."""


def task_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a task, with the default robot if it can do the task, else with another robot."""
    cards: list[Card] = []

    def play() -> str:
        cards.append(make_card({"task": name}))
        rates = {policy: f"{evaluation.success_rate:.0%}" for policy, evaluation in cards[0].evaluations.items()}
        return f"with {cards[0].robot}: " + ", ".join(f"{policy} {rate}" for policy, rate in rates.items())

    def meets(criterion: Callable[[Card], str]) -> None:
        finding = criterion(cards[0])
        demand(not finding, finding)

    yield Check("grammatical", lambda: demand(find_task(name).describe(), "has no stages"))
    yield Check("environment", lambda: _is_valid_environment(name), needs=("grammatical",))
    yield Check("card", play, needs=("environment",))
    for title, criterion in CRITERIA.items():
        yield Check(title, partial(meets, criterion), needs=("card",))


def expert_solves(config: Mapping[str, Any], episodes: int = EPISODES) -> None:
    """Demand that the scripted expert solves nearly every episode of a config."""
    finding = expert_shortfall(api.evaluate(policy=EXPERT, config=dict(config), episodes=episodes))
    demand(not finding, finding)


def _is_valid_environment(name: str) -> None:
    config = with_robot({"task": name})
    for goal_env in (True, False):
        with warnings.catch_warnings(), RobotEnv(goal_env=goal_env, **config) as env:
            warnings.simplefilter("error")
            check_env(env, skip_render_check=True)
