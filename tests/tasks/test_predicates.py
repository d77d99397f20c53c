"""Built-in predicates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.tasks.context import StageBinding, StageContext, Thresholds, wrapped, yaw
from mygym.tasks.predicates import distance
from tests.tasks.states import EXCLUDES, PREDICATES, as_torch, random_view, single, stage_binding

SEEDS = st.integers(0, 2**32 - 1)
N = 64
STAGES = {
    "object": stage_binding(object=1, yaw_slot=1),
    "part": stage_binding(object=None, part=1),
    "point": stage_binding(object=None),
}
"""Stages bound to an object, a part and a point."""
OBJECT_PREDICATES = ("turned", "launched", "touched")
CASES = [
    (predicate, subject)
    for predicate in PREDICATES
    for subject in STAGES
    if subject == "object" or predicate not in OBJECT_PREDICATES
]


def view_of(seed: int, n: int, step: StageBinding) -> StageContext:
    return random_view(np.random.default_rng(seed), n, step)


@given(seed=SEEDS)
def test_a_predicate_that_begins_keeps_holding(seed: int) -> None:
    for name, subject in CASES:
        context = view_of(seed, N, STAGES[subject])
        context.state.ee_position[0] = context.target[0]  # the gripper is at the centre
        begins, keeps = PREDICATES[name].begins(context), PREDICATES[name].keeps(context)
        assert begins.dtype == keeps.dtype == bool
        assert begins.shape == keeps.shape == (N,)
        assert (keeps | ~begins).all()


@given(seed=SEEDS)
def test_predicates_that_exclude_each_other_do_not_hold_together(seed: int) -> None:
    for name in EXCLUDES:
        for subject in STAGES:
            context = view_of(seed, N, STAGES[subject])
            for excluded in EXCLUDES[name]:
                assert not (PREDICATES[name].begins(context) & PREDICATES[excluded].begins(context)).any()
                assert name in EXCLUDES[excluded]


@pytest.mark.parametrize("subject", STAGES)
@given(seed=SEEDS)
def test_predicates_agree_in_batches_single_episodes_and_torch(subject: str, seed: int) -> None:
    context = view_of(seed, 9, STAGES[subject])
    singles, tensors = [single(context, i) for i in range(9)], as_torch(context)
    for name in (name for name, of in CASES if of == subject):
        for predicate in (PREDICATES[name].begins, PREDICATES[name].keeps):
            batch = predicate(context).tolist()
            assert batch == [bool(predicate(episode)[0]) for episode in singles], name
            assert batch == predicate(tensors).tolist(), name


@pytest.mark.parametrize("slot", [0, 1])
@given(seed=SEEDS)
def test_held_requires_every_finger_on_the_object_of_the_stage_around_its_grip(slot: int, seed: int) -> None:
    context = view_of(seed, N, stage_binding(object=slot))
    context.state.ee_position[::2] = context.target[::2] + np.array([0.0, 0.039, 0.0])
    context.state.ee_position[1::2] = context.target[1::2] + np.array([0.0, 0.041, 0.0])
    expected = context.state.finger_contact[:, slot].all(axis=1)
    expected[1::2] = False
    assert PREDICATES["held"].begins(context).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("offset", "speed", "stage", "begins", "keeps"),
    [
        ((0.0, 0.0, 0.0), 1.0, 4, True, True),  # at the goal
        ((0.01, 0.0, 0.025), 0.05, 2, True, True),  # above it, before the stage that puts the object down
        ((0.01, 0.0, 0.025), 0.2, 2, False, True),  # too fast to be let go
        ((0.01, 0.0, 0.025), 0.05, 4, False, False),  # put down already, but not at the goal
        ((0.0, 0.0, 0.035), 0.0, 2, False, False),  # too high
        ((0.021, 0.0, 0.01), 0.0, 2, False, False),  # beside the goal
        ((0.0, 0.0, -0.025), 0.0, 2, False, False),  # below it
    ],
)
def test_an_object_that_will_be_put_down_may_be_above_its_goal(
    offset: tuple[float, float, float], speed: float, stage: int, begins: bool, keeps: bool
) -> None:
    for put_down_by in (3, None):
        context = view_of(0, 1, stage_binding(thresholds=Thresholds(tolerance=0.02), put_down_by=put_down_by))
        context.state.object_position[0, 0] = context.goal[0] + offset
        context.state.object_velocity[0, 0] = (speed, 0.0, 0.0)
        context.state.object_depth[:] = 0.0
        context = replace(context, progress=replace(context.progress, stage=np.array([stage])))
        at_goal = np.linalg.norm(offset) < 0.02
        placed = PREDICATES["placed"]
        assert placed.begins(context)[0] == (begins if put_down_by else at_goal)
        assert placed.keeps(context)[0] == (keeps if put_down_by else at_goal)


@given(seed=SEEDS)
def test_placed_depends_on_the_joint_position_of_a_part_and_near_on_its_handle(seed: int) -> None:
    context = view_of(seed, N, STAGES["part"])
    away = np.abs(context.state.part_position[:, 1] - context.goals[:, 0, 0])
    assert PREDICATES["placed"].begins(context).tolist() == (away < context.thresholds.tolerance).tolist()
    handle = np.linalg.norm(context.ee_position - context.state.part_handle_position[:, 1], axis=1)
    assert PREDICATES["near"].begins(context).tolist() == (handle < context.thresholds.near).tolist()
    assert not PREDICATES["held"].begins(context).any()


@given(seed=SEEDS)
def test_placed_requires_an_object_that_is_not_pressed_deep_into_its_support(seed: int) -> None:
    context = view_of(seed, N, stage_binding())
    is_near = distance(context.object_position, context.goal) < context.thresholds.tolerance
    is_deep = context.state.object_depth[:, 0] > 0.01
    placed = PREDICATES["placed"].begins(context)
    assert placed[~is_deep].tolist() == is_near[~is_deep].tolist()
    assert not placed[is_near & is_deep].any()


@given(seed=SEEDS, turns=st.integers(-2, 2), offset=st.floats(-1, 1))
def test_turned_is_invariant_to_full_turns(seed: int, turns: int, offset: float) -> None:
    context = view_of(seed, 5, STAGES["object"])
    context.goals[:, 1, 0] = context.object_yaw + offset + 2 * np.pi * turns
    expected = abs(offset) < context.thresholds.angle
    if abs(abs(offset) - context.thresholds.angle) > 1e-6:
        assert PREDICATES["turned"].begins(context).tolist() == [expected] * 5


@given(angle=st.floats(-3.1, 3.1))
def test_yaw_of_a_rotation_about_the_vertical(angle: float) -> None:
    quaternion = np.array([[0.0, 0.0, np.sin(angle / 2), np.cos(angle / 2)]])
    assert yaw(quaternion)[0] == pytest.approx(angle)
    assert wrapped(np.array([angle + 4 * np.pi]))[0] == pytest.approx(angle)


@pytest.mark.parametrize("name", ["placed", "near"])
def test_predicates_use_the_thresholds_of_the_stage(name: str) -> None:
    def begins(**thresholds: Any) -> Any:
        step = replace(stage_binding(object=None if name == "near" else 0), thresholds=Thresholds(**thresholds))
        return PREDICATES[name].begins(view_of(0, 500, step))

    assert begins(tolerance=0.2).sum() > begins(tolerance=0.01).sum() > 0


@given(seed=SEEDS, scale=st.floats(0, 10))
def test_distance_is_euclidean(seed: int, scale: float) -> None:
    a, b = scale * np.random.default_rng(seed).normal(size=(2, 5, 3))
    np.testing.assert_allclose(distance(a, b), np.linalg.norm(a - b, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("subject", STAGES)
def test_a_robot_without_fingers_never_holds(subject: str) -> None:
    context = view_of(0, 5, STAGES[subject])
    context.state.finger_contact = np.zeros((5, 2, 0), dtype=bool)
    assert not PREDICATES["held"].begins(context).any()
    assert PREDICATES["free"].begins(context).all()
