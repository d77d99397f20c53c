"""Suites of rewards, predicates, observations and controllers: built-in components pass, mistakes are detected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mygym.checks import SUITES, Outcome, check
from mygym.registry import REGISTRIES, registry, resolve
from mygym.robotics.controllers import register_controller
from mygym.tasks.observations import register_observation
from mygym.tasks.predicates import GoalTerm, register_predicate
from mygym.tasks.rewards import register_reward
from mygym.tasks.stage import register_stage
from tests.components import REWARDS


def not_passed(kind: str, name: str) -> list[Outcome]:
    return [outcome for outcome in check(kind, name) if outcome.status != "passed"]


def finding(kind: str, name: str) -> tuple[str, str]:
    """Return the name and the finding of the only check that fails; checks that need it are left out."""
    (outcome,) = [outcome for outcome in check(kind, name) if outcome.failed]
    return outcome.check, outcome.why


def test_every_suite_is_of_a_registered_kind() -> None:
    assert set(SUITES) <= set(REGISTRIES)
    assert all(callable(resolve(checks)) for checks in SUITES.values())


QUICK_PREDICATES = ("near", "clear", "held", "free", "placed", "turned", "touched")
QUICK_OBSERVATIONS = ("ee_position", "distractor_position", "part_position", "stage_name", "time")
BUILT_IN = [
    *(("reward", name) for name in REWARDS),
    *(
        (kind, name) if name in quick else pytest.param(kind, name, marks=pytest.mark.slow)
        for kind, quick in (
            ("predicate", QUICK_PREDICATES),
            ("observation", QUICK_OBSERVATIONS),
            ("controller", ("ee_delta",)),
        )
        for name in registry(kind).names()
    ),
]


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_built_in_components_pass(kind: str, name: str) -> None:
    assert not_passed(kind, name) == []


def test_a_reward_that_is_not_finite() -> None:
    register_reward("custom")(lambda achieved_goal, desired_goal: achieved_goal[..., 0] * np.nan)
    assert finding("reward", "custom")[0] == "finite"


def test_a_reward_without_batches() -> None:
    register_reward("custom")(lambda achieved_goal, desired_goal: -float(np.abs(achieved_goal - desired_goal).sum()))
    assert finding("reward", "custom")[0] == "batches"


def test_a_reward_that_mixes_the_batch() -> None:
    register_reward("custom")(lambda context: context.state.time * 0 + context.state.time.mean())
    assert finding("reward", "custom") == (
        "batches",
        "the reward gives other values for a batch than for its states alone",
    )


def test_a_reward_that_rewards_missing_the_goal() -> None:
    register_reward("custom")(lambda achieved_goal, desired_goal: ((achieved_goal - desired_goal) ** 2).sum(-1))
    name, text = finding("reward", "custom")
    assert name == "relabelling"
    assert text.startswith("gives 0 for reaching a relabelled goal")


def test_a_reward_for_tasks_with_a_part() -> None:
    register_reward("custom")(lambda context: -np.abs(context.state.part_position[:, 0] - context.goals[:, 0, 0]))
    assert not_passed("reward", "custom") == []


def test_predicates_with_mistakes() -> None:
    def ahead(context: Any) -> Any:
        """The tool is in front of the base."""
        return context.ee_position[:, 0] > 0

    register_predicate("good")(ahead)
    assert not_passed("predicate", "good") == []
    register_predicate("number", help="a number")(lambda context: context.ee_position[:, 0])
    assert finding("predicate", "number") == ("pure functions", "begins gives float64, not bool")
    register_predicate("lost", keeps=lambda context: context.ee_position[:, 0] > 10)(ahead)
    assert finding("predicate", "lost")[0] == "keeps holding"
    register_predicate("both", excludes=("good",))(ahead)
    name, text = finding("predicate", "both")
    assert (name, text.split(",")[0]) == ("excludes", "excludes good")


def test_observations_with_mistakes() -> None:
    register_observation("large", 0.001)(lambda context: context.state.ee_position)
    name, text = finding("observation", "large")
    assert name == "pure function"
    assert text.endswith("its bound is 0.001")
    register_observation("flat", 5.0)(lambda context: context.state.ee_position[:, 0])
    assert finding("observation", "flat")[0] == "pure function"

    def changed(context: Any) -> Any:
        context.state.ee_position[:] += 0.01
        return context.state.ee_position

    register_observation("changed", 5.0)(changed)
    assert finding("observation", "changed") == ("pure function", "the component changes the arrays that it gets")


def test_a_controller_that_does_not_move() -> None:
    good = registry("controller").get("ee_delta").load()

    class Frozen(good):  # type: ignore[misc, valid-type]
        """Ignores the action."""

        def command(self, action: Any, joint_position: Any, ee_position: Any) -> Any:
            return self.joint_command

    register_controller("frozen")(Frozen)
    failed = [outcome.check for outcome in check("controller", "frozen") if outcome.failed]
    assert failed == ["follows a path", "reaches"]


def test_a_controller_with_a_command_of_the_wrong_shape() -> None:
    good = registry("controller").get("joint_delta").load()

    class Short(good):  # type: ignore[misc, valid-type]
        """Commands all joints except the first."""

        def command(self, action: Any, joint_position: Any, ee_position: Any) -> Any:
            return super().command(action, joint_position, ee_position)[1:]

    register_controller("short")(Short)
    assert finding("controller", "short")[0] == "commands"


@pytest.mark.parametrize("result", [np.full((1, 1), np.nan), np.zeros(1)], ids=["NaN", "flat"])
def test_a_goal_term_of_another_form_fails_the_checks_of_its_predicate_and_stage(result: Any) -> None:
    term = GoalTerm("height", 1, lambda context: result, lambda goals, bound: goals[:, 0, 2:])
    register_predicate("high", goal=term, help="high")(lambda context: context.ee_position[:, 2] > context.goal[:, 2])
    move = registry("stage").get("move").load()
    register_stage("hoist", replace(move, name="hoist", letter="", requires=(), gives=("high",)))
    for kind, name in (("predicate", "high"), ("stage", "hoist")):
        outcome = next(outcome for outcome in check(kind, name) if outcome.failed)
        assert "predicate high" in outcome.why
        assert f"{__file__}:" in outcome.why
