"""User-defined predicates: grammar, goal vectors and messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, DivergedError, RegistryError
from mygym.registry import registry
from mygym.tasks.context import StageBinding, StageContext
from mygym.tasks.goals import achieved_goal, desired_goal, goal_reached, goal_space
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import GOAL_SIZES, shared_goal_space
from mygym.tasks.predicates import GoalTerm, at_goal, held, register_predicate
from mygym.tasks.stage import register_stage
from tests.tasks.states import PREDICATES, worlds


def height(context: StageContext) -> Any:
    return context.object_position[:, 2:]


def goal_height(goals: Any, bound: StageBinding) -> Any:
    return goals[:, bound.goal_slot, 2:]


def is_high(context: StageContext) -> Any:
    """The object is at the height of the goal."""
    return abs(context.object_position[:, 2] - context.goal[:, 2]) < context.thresholds.tolerance


def hoist(predicate: str, **fields: Any) -> list[str]:
    """Register a stage that gives `predicate`; return a composition that ends with the stage."""
    move = registry("stage").get("move").load()
    register_stage("hoist", replace(move, name="hoist", letter="", gives=(predicate,), **fields), override=True)
    return ["approach", "grasp", "hoist"]


def test_a_predicate_without_a_term_is_a_flag() -> None:
    register_predicate("high", override=True)(is_high)
    task, progress, state, goals = worlds(hoist("high"), 0, 50)
    space = goal_space(task)
    assert registry("predicate").get("high").help == "The object is at the height of the goal."
    assert space.names == ("end_effector_from_object", "held", "high")
    context = StageContext(state, progress, goals, task.stage_bindings[-1])
    np.testing.assert_array_equal(achieved_goal(space, progress, state, goals)[:, -1], is_high(context))
    assert (desired_goal(space, goals)[:, -1] == 1).all()


def test_a_predicate_with_a_term_adds_its_values_and_tolerance() -> None:
    register_predicate("high", goal=GoalTerm("height", 1, height, goal_height), override=True)(is_high)
    task, progress, state, goals = worlds(hoist("high"), 0, 50)
    space = goal_space(task)
    assert space.names == ("end_effector_from_object", "height", "held")
    achieved, desired = achieved_goal(space, progress, state, goals), desired_goal(space, goals)
    np.testing.assert_array_equal(achieved[:, 3], state.object_position[:, 0, 2])
    np.testing.assert_array_equal(desired[:, 3], goals[:, 0, 2])
    desired[:, :3], desired[:, 4] = achieved[:, :3], achieved[:, 4]
    context = StageContext(state, progress, goals, task.stage_bindings[-1])
    assert goal_reached(space, achieved, desired).tolist() == is_high(context).tolist()


def test_a_user_defined_term_uses_places_of_unused_flags_in_shared_goals() -> None:
    register_predicate("high", goal=GoalTerm("height", 1, height, goal_height), override=True)(is_high)
    task, progress, state, goals = worlds(hoist("high"), 0, 5)
    (section,) = [section for section in shared_goal_space(task).sections if section.name == "height"]
    assert section.first == sum(GOAL_SIZES.values()) - 1
    achieved = achieved_goal(shared_goal_space(task), progress, state, goals)
    np.testing.assert_array_equal(achieved[:, section.first], state.object_position[:, 0, 2])
    register_predicate("high", goal=GoalTerm("height", 13, height, goal_height), override=True)(is_high)
    with pytest.raises(ConfigError, match="no room for the goal term 'height'"):
        shared_goal_space(find_task(hoist("high")))


def test_a_predicate_ends_the_predicates_that_it_excludes() -> None:
    register_predicate("high", excludes=("near",), override=True)(is_high)
    task = find_task(hoist("high"))
    assert [name for name, _ in task.sequence.kept[-1]] == ["high", "held"]
    register_predicate("high", override=True)(is_high)
    assert "near" in dict(find_task(hoist("high")).sequence.kept[-1])


def test_an_initial_predicate_holds_at_the_reset() -> None:
    register_predicate("high", initial=True, override=True)(is_high)
    hoist("placed", requires=("high",))
    assert find_task(["hoist"]).sequence.gives == (("placed", 0),)


def pinch(**ends: Any) -> list[str]:
    """Register stages that hold the object by `pinched` in place of `held`; return a composition of them."""
    stages = {name: registry("stage").get(name).load() for name in ("grasp", "move", "drop")}
    fields: dict[str, dict[str, Any]] = {
        "grasp": {"gives": ("pinched",)},
        "move": {"requires": ("pinched",), "gives": ("there",)},
        "drop": {"requires": ("pinched",), "gives": ("let_go",), **ends},
    }
    for name, stage in stages.items():
        register_stage(f"my_{name}", replace(stage, name=f"my_{name}", letter="", **fields[name]), override=True)
    return ["approach", "my_grasp", "my_move", "my_drop"]


@pytest.mark.parametrize(("excludes", "ends"), [(("pinched",), ()), ((), ("pinched",))])
def test_stages_with_user_defined_predicates_hold_the_object_and_put_it_down(
    excludes: tuple[str, ...], ends: tuple[str, ...]
) -> None:
    register_predicate("pinched", holds_object=True, override=True)(held)
    register_predicate("there", places_object=True, override=True)(at_goal)
    register_predicate("let_go", excludes=excludes, override=True)(is_high)
    stages = pinch(ends=ends)
    carried, released = find_task(stages[:3]), find_task(stages)
    assert (carried.goal_areas(0), released.goal_areas(0)) == (("air",), ("surface",))
    assert {binding.put_down_by for binding in carried.stage_bindings} == {None}
    assert {binding.put_down_by for binding in released.stage_bindings} == {3}


def test_a_stage_that_ends_a_predicate_that_places_the_object_carries_it_away() -> None:
    register_predicate("pinched", holds_object=True, override=True)(held)
    register_predicate("let_go", excludes=("pinched",), override=True)(is_high)
    for places, put_down_by in ((True, None), (False, 3)):
        register_predicate("there", places_object=places, override=True)(at_goal)
        task = find_task(pinch(ends=("there",)))
        assert {binding.put_down_by for binding in task.stage_bindings} == {put_down_by}


def test_an_event_with_a_term_needs_achieved_later() -> None:
    term = GoalTerm("height", 1, height, goal_height)
    with pytest.raises(RegistryError, match=r"predicate high: goal: 'height' .* `achieved_later`"):
        register_predicate("high", event=True, goal=term, override=True)
    register_predicate("high", event=True, goal=replace(term, achieved_later=height), override=True)(is_high)
    assert ("high", 2) not in find_task(hoist("high")).sequence.kept[-1]


def test_an_unknown_predicate_is_refused_with_the_known_predicates() -> None:
    with pytest.raises(ConfigError, match=r"stage hoist: gives: 'hihg' is not a known predicate.* near"):
        find_task(hoist("hihg"))


@pytest.mark.parametrize("field", ["requires", "ends"])
def test_an_unknown_predicate_of_another_field_is_refused_too(field: str) -> None:
    with pytest.raises(ConfigError, match=rf"stage hoist: {field}: 'heldd' is not a known predicate.* held"):
        find_task(hoist("near", **{field: ("heldd",)}))


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("requires", "held", r"a tuple of names, such as \(\"held\",\)"),
        ("ends", "held", "a tuple of names"),
        ("requires", (3,), "a tuple of names"),
        ("potential", 3, r"a function \(StageContext\)$"),
        ("expert", lambda context: context, r"a function \(StageContext, a function"),
        ("complete", True, r"a function \(StageContext\) or None"),
        ("waypoint", (0, 0, 0), r"a function \(StageContext\) or None"),
        ("weight", "heavy", "a number"),
    ],
)
def test_a_field_of_another_type_is_refused_when_the_stage_is_registered(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(RegistryError, match=f"stage hoist: {field}: .*allowed: {allowed}"):
        hoist("held", **{field: value})


@pytest.mark.parametrize("field", ["begins", "complete", "returns"])
def test_a_condition_that_returns_numbers_is_refused(field: str) -> None:
    """A step to the next stage would add the number to the stage, and the task would never be solved."""

    def height_above_goal(context: StageContext) -> Any:
        return context.object_position[:, 2] - context.goal[:, 2]

    register_predicate("high", override=True)(height_above_goal if field == "begins" else is_high)
    fields = {} if field == "begins" else {field: height_above_goal}
    key = "predicate high" if field == "begins" else "stage hoist"
    with RobotEnv(hoist("high", requires=(), **fields)[2:]) as env:
        env.reset(seed=0)
        with pytest.raises(RegistryError, match=rf"{key}: result: .*ndarray.*\.py:\d+.*allowed: bool of shape \(1,\)"):
            env.step(env.action_space.sample())


@pytest.mark.parametrize("field", ["achieved", "achieved_later", "desired"])
@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (None, RegistryError, r"predicate high: goal term height: result: 'None' .*\.py:\d+.*allowed: shape \(1, 1\)"),
        (np.zeros(1), RegistryError, r"predicate high: goal term height: result: .*\(1,\).*allowed: shape \(1, 1\)"),
        (np.zeros((1, 3)), RegistryError, r"predicate high: goal term height: result: .*\(1, 3\).*shape \(1, 1\)"),
        (np.full((1, 1), np.nan), DivergedError, r"predicate high \(.*\.py:\d+\) gave a goal that is not finite"),
    ],
    ids=["None", "(N,)", "(N, 3)", "NaN"],
)
def test_a_goal_term_of_another_form_is_refused_by_name(
    field: str, result: Any, error: type[Exception], message: str
) -> None:
    term = replace(GoalTerm("height", 1, height, goal_height), **{field: lambda *_: result})
    register_predicate("high", goal=term, override=True)(lambda context: context.object_position[:, 2] > -1.0)
    with pytest.raises(error, match=message):
        complete_a_stage(hoist("high", requires=())[2:])


def complete_a_stage(task: list[str]) -> None:
    with RobotEnv(task) as env:
        env.reset(seed=0)
        env.step(env.action_space.sample())


@pytest.mark.parametrize("built_in", [False, True])
def test_further_predicates_move_no_section_of_shared_goals(built_in: bool) -> None:
    """Policies of before keep their goal vectors, whatever predicates are added to mygym or by a user's file."""
    before = {name: shared_goal_space(find_task(name)) for name in ("push", "AGMDW")}
    origin = str(Path(mygym.__file__).parent / "new.py") if built_in else __file__
    tapped, push = replace(PREDICATES["touched"], name="tapped"), registry("stage").get("push").load()
    registry("predicate").register("tapped", tapped, origin=origin)
    register_stage("tap", replace(push, name="tap", letter="", gives=("tapped",)))
    assert {name: shared_goal_space(find_task(name)) for name in before} == before
    goals = shared_goal_space(find_task(["approach", "tap"]))
    assert goals.size == before["push"].size == 75
    assert goals.names == ("tapped",)


def test_predicates_and_the_stages_that_register_some_are_imported_in_any_order(python: Any) -> None:
    code = (
        "import sys, mygym.tasks.predicates; from mygym.registry import registry; registry('predicate').names(); "
        "assert 'mygym.tasks.stages.carrying' in sys.modules"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
