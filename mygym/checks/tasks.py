"""Conformance suite of tasks: a valid composition, a valid environment, solvable, and worth solving."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from gymnasium.utils.env_checker import check_env

from mygym import api
from mygym.checks.cards import CRITERIA, EPISODES, EXPERT, Card, expert_shortfall, make_card, with_robot
from mygym.checks.suite import Check, demand
from mygym.envs.robot_env import RobotEnv
from mygym.tasks.lookup import find_task


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
