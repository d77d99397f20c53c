"""Facts: what begins keeps holding, and what excludes each other never holds at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.tasks.facts import EXCLUDES, FACTS, distance
from mygym.tasks.view import Step, Thresholds, View, heading, wrapped
from tests.tasks.states import as_torch, bound, one, random_view

SEEDS = st.integers(0, 2**32 - 1)
N = 64
STEPS = {
    "object": bound(object=1, heading=1),
    "part": bound(object=None, part=1),
    "point": bound("approach", object=None),
}
"""What facts are about."""
OF_OBJECTS = ("turned", "launched", "touched")
CASES = [(fact, about) for fact in FACTS for about in STEPS if about == "object" or fact not in OF_OBJECTS]


def view_of(seed: int, n: int, step: Step) -> View:
    return random_view(np.random.default_rng(seed), n, step)


@pytest.mark.parametrize(("name", "about"), CASES)
@given(seed=SEEDS)
def test_what_has_just_begun_keeps_holding(name: str, about: str, seed: int) -> None:
    view = view_of(seed, N, STEPS[about])
    view.state.ee_position[0] = view.target[0]  # gripped in the middle
    begins, keeps = FACTS[name].begins(view), FACTS[name].keeps(view)
    assert begins.dtype == keeps.dtype == bool
    assert begins.shape == keeps.shape == (N,)
    gripped = np.linalg.norm(view.ee_position - view.target, axis=1) < 0.04
    assert (keeps | ~begins)[gripped | (name != "held")].all()


@pytest.mark.parametrize("about", STEPS)
@pytest.mark.parametrize("name", EXCLUDES)
@given(seed=SEEDS)
def test_what_excludes_each_other_does_not_hold_at_once(name: str, about: str, seed: int) -> None:
    view = view_of(seed, N, STEPS[about])
    assert not (FACTS[name].begins(view) & FACTS[EXCLUDES[name]].begins(view)).any()
    assert EXCLUDES[EXCLUDES[name]] == name


@pytest.mark.parametrize(("name", "about"), CASES)
@pytest.mark.parametrize("moment", ["begins", "keeps"])
@given(seed=SEEDS)
def test_facts_are_the_same_in_batches_one_by_one_and_in_torch(name: str, about: str, moment: str, seed: int) -> None:
    fact, view = getattr(FACTS[name], moment), view_of(seed, 9, STEPS[about])
    batch = fact(view)
    assert batch.tolist() == [bool(fact(one(view, i))[0]) for i in range(9)]
    assert batch.tolist() == fact(as_torch(view)).tolist()


@pytest.mark.parametrize("slot", [0, 1])
@given(seed=SEEDS)
def test_holding_takes_every_finger_on_the_steps_own_object(slot: int, seed: int) -> None:
    view = view_of(seed, N, bound(object=slot))
    assert FACTS["held"].begins(view).tolist() == view.state.finger_contact[:, slot].all(axis=1).tolist()


@given(seed=SEEDS)
def test_a_part_is_placed_by_its_own_position_and_near_by_its_handle(seed: int) -> None:
    view = view_of(seed, N, STEPS["part"])
    away = np.abs(view.state.part_position[:, 1] - view.goals[:, 0, 0])
    assert FACTS["placed"].begins(view).tolist() == (away < view.thresholds.tolerance).tolist()
    handle = np.linalg.norm(view.ee_position - view.state.part_handle_position[:, 1], axis=1)
    assert FACTS["near"].begins(view).tolist() == (handle < view.thresholds.near).tolist()
    assert not FACTS["held"].begins(view).any()


@given(seed=SEEDS, turns=st.integers(-2, 2), off=st.floats(-1, 1))
def test_turned_is_the_same_whole_turns_later(seed: int, turns: int, off: float) -> None:
    view = view_of(seed, 5, STEPS["object"])
    view.goals[:, 1, 0] = view.object_heading + off + 2 * np.pi * turns
    expected = abs(off) < view.thresholds.angle
    if abs(abs(off) - view.thresholds.angle) > 1e-6:
        assert FACTS["turned"].begins(view).tolist() == [expected] * 5


@given(yaw=st.floats(-3.1, 3.1))
def test_heading_is_the_yaw_of_what_lies_flat(yaw: float) -> None:
    quaternion = np.array([[0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)]])
    assert heading(quaternion)[0] == pytest.approx(yaw)
    assert wrapped(np.array([yaw + 4 * np.pi]))[0] == pytest.approx(yaw)


@pytest.mark.parametrize("name", ["placed", "near"])
def test_a_step_has_thresholds_of_its_own(name: str) -> None:
    def begins(**thresholds: Any) -> Any:
        step = replace(bound("approach", object=None if name == "near" else 0), thresholds=Thresholds(**thresholds))
        return FACTS[name].begins(view_of(0, 500, step))

    assert begins(tolerance=0.2).sum() > begins(tolerance=0.01).sum() > 0


@given(seed=SEEDS, scale=st.floats(0, 10))
def test_distance_is_euclidean(seed: int, scale: float) -> None:
    a, b = scale * np.random.default_rng(seed).normal(size=(2, 5, 3))
    np.testing.assert_allclose(distance(a, b), np.linalg.norm(a - b, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("about", STEPS)
def test_a_robot_without_fingers_never_holds(about: str) -> None:
    view = view_of(0, 5, STEPS[about])
    view.state.finger_contact = np.zeros((5, 2, 0), dtype=bool)
    assert not FACTS["held"].begins(view).any()
    assert FACTS["free"].begins(view).all()
