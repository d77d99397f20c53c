"""The conformance suite of tasks: makes sense, is a proper environment, is solvable, and worth solving."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from gymnasium.utils.env_checker import check_env

from mygym import api
from mygym.checks.cards import DEMANDS, EPISODES, EXPERT, Card, make_card, unsolved, with_robot
from mygym.checks.suite import Check, demand
from mygym.envs.robot_env import RobotEnv
from mygym.tasks.lookup import find_task


def task_checks(name: str) -> Iterator[Check]:
    """The suite of one task, with the default robot, or one that can do it."""
    cards: list[Card] = []

    def plays() -> str:
        cards.append(make_card({"task": name}))
        rates = {policy: f"{one.success_rate:.0%}" for policy, one in cards[0].evaluations.items()}
        return f"with {cards[0].robot}: " + ", ".join(f"{policy} {rate}" for policy, rate in rates.items())

    def meets(wrong: Callable[[Card], str]) -> None:
        said = wrong(cards[0])
        demand(not said, said)

    yield Check("grammatical", lambda: demand(find_task(name).describe(), "has no stages"))
    yield Check("environment", lambda: _is_an_environment(name), needs=("grammatical",))
    yield Check("card", plays, needs=("environment",))
    for demanded, wrong in DEMANDS.items():
        yield Check(demanded, partial(meets, wrong), needs=("card",))


def expert_solves(config: Mapping[str, Any], episodes: int = EPISODES) -> None:
    """Demand that the scripted expert solves nearly every episode of a config."""
    said = unsolved(api.evaluate(policy=EXPERT, config=dict(config), episodes=episodes))
    demand(not said, said)


def _is_an_environment(name: str) -> None:
    config = with_robot({"task": name})
    for goal_env in (True, False):
        with warnings.catch_warnings(), RobotEnv(goal_env=goal_env, **config) as env:
            warnings.simplefilter("error")
            check_env(env, skip_render_check=True)
