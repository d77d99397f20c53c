"""A task's card: how often chance, idleness and the scripted expert solve it, and what each is paid.

The numbers of episodes are those that mean something: 600 resets of which none is solved show, with 95 % confidence,
that at most 0.5 % are, and 100 episodes that chance never solves that it solves at most 3 % (`at_most`).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mygym import api
from mygym.envs.multi_task_env import AnyEnv
from mygym.envs.supported import a_robot_for
from mygym.registry import registry
from mygym.runs.evaluation import BATCH, EXTRA, Evaluation, episode_seeds, evaluate_policy
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task

EXPERT, IDLE = "oracle", ("random", "zero", "hover")
"""The policies of a card."""

EPISODES = 100
"""Of each policy."""

RESETS = 6
"""Resets for each of these."""

SOLVED = 0.95
"""Share of episodes that the expert must solve."""

AT_RESET = 0.005
"""Share of episodes that may be solved at their reset."""

CHANCE, CHANCE_OF_A_POINT = 0.05, 0.2
"""Share of episodes that an idle policy may solve; where a point in space is the goal, chance passes through some."""

CONFIDENCE = 0.95

REWARDS = ("sparse", "dense", "staged")
"""Rewards whose returns a card compares."""


@dataclass(frozen=True)
class Card:
    """What several policies come to on a task, in the same episodes."""

    task: Task
    robot: str
    workspace: str
    control: str
    resets: int
    solved_at_reset: tuple[int, ...]
    """Seeds of the episodes that are solved at their reset."""
    evaluations: Mapping[str, Evaluation]
    """Of each policy."""
    returns: Mapping[str, Mapping[str, float]]
    """Policy → kind of reward → mean return; `staged` with the discount of the config's algorithm."""

    @property
    def expert(self) -> Evaluation:
        """That of the scripted expert."""
        return self.evaluations[EXPERT]

    def best_idle(self, reward: str) -> str:
        """The idle policy that a kind of reward pays most."""
        return max(IDLE, key=lambda policy: self.returns[policy][reward])

    def to_json(self) -> dict[str, Any]:
        """What JSON takes; shares are in [0, 1]."""
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
            "untold": untold(self),
        }


def make_card(
    config: Mapping[str, Any], episodes: int = EPISODES, tell: Callable[[str], None] = lambda said: None
) -> Card:
    """Play the episodes of a card.

    Args:
        config: At least `task`; a robot that can do it is chosen if none is said.
        episodes: How many of each policy, and a sixth of the resets.
        tell: Called with what is done next.

    Raises:
        ConfigError: The config is wrong.
    """
    complete = {**with_robot(config), "reward": "staged"}  # which includes the others
    with contextlib.ExitStack() as stack:
        envs = []
        for _ in range(min(BATCH, episodes)):
            envs.append(api.make_env(complete))
            stack.callback(envs[-1].close)
        tell(f"{RESETS * episodes} resets")
        solved = _solved_at_reset(envs[0], RESETS * episodes)
        evaluations, returns = {}, {}
        for policy in (EXPERT, *IDLE):
            tell(f"{in_words(episodes)} of {policy}")
            evaluations[policy], returns[policy] = _judged(policy, envs, episodes)
        env = envs[0]
        return Card(
            env.task, env.robot.name, env.workspace.name, env.control, RESETS * episodes, solved, evaluations, returns
        )


def in_words(episodes: int) -> str:
    """A number of episodes."""
    return f"{episodes} episode{'' if episodes == 1 else 's'}"


def with_robot(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config of a task with a robot that can do it, if it names none."""
    if config.get("robot"):
        return dict(config)
    return {**config, "robot": a_robot_for(find_task(config["task"]), config.get("workspace"))}


def _solved_at_reset(env: AnyEnv, resets: int) -> tuple[int, ...]:
    """Seeds of those episodes that are."""
    solved = []
    for seed in episode_seeds(0, EXTRA, resets):
        _, info = env.reset(seed=seed)
        solved += [seed] if info["is_success"] or env.goal_reward("sparse") == 0.0 else []
    return tuple(solved)


def _judged(policy: str, envs: list[AnyEnv], episodes: int) -> tuple[Evaluation, dict[str, float]]:
    """Rewards differ in what they pay, not in what happens: one episode is judged by all."""
    paid: dict[str, float] = defaultdict(float)

    def watch(index: int, env: AnyEnv) -> None:
        for kind in REWARDS if env.elapsed_steps else ():
            paid[kind] += env.goal_reward(kind)

    acting = registry("policy").get(policy).load()(envs, 0)
    evaluation = evaluate_policy(acting, envs, episode_seeds(0, EXTRA, episodes), watch)
    returns = {kind: total / episodes for kind, total in paid.items()}
    return evaluation, {**returns, "staged": evaluation.mean_return}


def at_least(count: int, total: int) -> float:
    """What a share is at least, with 95 % confidence, given `count` of `total`."""
    return 1.0 - at_most(total - count, total)


def at_most(count: int, total: int) -> float:
    """What a share is at most, with 95 % confidence, given `count` of `total` (Clopper and Pearson, 1934)."""
    from scipy.special import betaincinv

    return float(betaincinv(count + 1, total - count, CONFIDENCE)) if count < total else 1.0


# what a card has to say ---------------------------------------------------------------------------------------------


def flaws(card: Card) -> dict[str, str]:
    """Name of a demand → how the task falls short of it."""
    return {name: said for name, wrong in DEMANDS.items() if (said := wrong(card))}


def untold(card: Card) -> list[str]:
    """What a task without flaws may yet fall short of, by what so many episodes show with 95 % confidence."""
    count = len(card.expert.episodes)
    of_resets = at_most(len(card.solved_at_reset), card.resets)
    by_expert = at_least(card.expert.solved, count)
    policy = max(IDLE, key=lambda policy: card.evaluations[policy].solved)
    by_chance = at_most(card.evaluations[policy].solved, count)
    said = [f"up to {of_resets:.1%} of resets may be solved"] if of_resets > AT_RESET else []
    said += [f"the expert may solve as few as {by_expert:.1%}"] if by_expert < SOLVED else []
    return said + ([f"{policy} actions may solve up to {by_chance:.1%}"] if by_chance > _chance(card) else [])


def _is_solved_at_reset(card: Card) -> str:
    count = len(card.solved_at_reset)
    if count <= AT_RESET * card.resets:
        return ""
    return f"{count} of {card.resets} episodes are solved at the reset, e.g. that of seed {card.solved_at_reset[0]}"


def unsolved(expert: Evaluation) -> str:
    """How the expert falls short of solving nearly every episode, if it does."""
    count = len(expert.episodes)
    where = ", ".join(f"{expert.failed_in(one.stage)} in {one.stage}, first seed {one.seed}" for one in expert.failures)
    short = f"the expert solves {expert.solved} of {count} episodes, needed are {SOLVED:.0%}; it fails {where}"
    return short if expert.solved < SOLVED * count else ""


def _chance(card: Card) -> float:
    """Share of episodes that an idle policy may solve."""
    return CHANCE if card.task.has_object or card.task.part_slots else CHANCE_OF_A_POINT


def _is_solved_by_chance(card: Card) -> str:
    limit = _chance(card)
    rates = {policy: card.evaluations[policy].success_rate for policy in IDLE}
    worst = max(IDLE, key=lambda policy: rates[policy])
    said = f"{worst} actions solve {rates[worst]:.0%} of the episodes; at most {limit:.0%} may be so easy"
    return said if rates[worst] > limit else ""


def _does_not_pay(card: Card) -> str:
    """With each kind of reward solving a task must give more than idling, or chance."""
    said = []
    for reward in REWARDS:
        idle, mine = card.best_idle(reward), card.returns[EXPERT][reward]
        best = card.returns[idle][reward]
        said += [f"with the {reward} reward {idle} earns {best:.2f}, the expert {mine:.2f}"] if best >= mine else []
    return "; ".join(said)


DEMANDS: Mapping[str, Callable[[Card], str]] = {
    "not solved at reset": _is_solved_at_reset,
    "expert solves it": lambda card: unsolved(card.expert),
    "chance does not": _is_solved_by_chance,
    "worth solving": _does_not_pay,
}
"""What is demanded of a task → what is wrong with it, empty if nothing is."""
