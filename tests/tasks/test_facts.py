"""Facts: what begins keeps holding, and what excludes each other never holds at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.tasks.facts import EXCLUDES, FACTS, Thresholds, distance
from tests.tasks.states import as_torch, one, random_state

SEEDS = st.integers(0, 2**32 - 1)
N = 64


@pytest.mark.parametrize("name", FACTS)
@given(seed=SEEDS)
def test_what_has_just_begun_keeps_holding(name: str, seed: int) -> None:
    state, goal = random_state(rng := np.random.default_rng(seed), N), rng.uniform(-0.2, 0.2, (N, 3))
    state.ee_position[0] = state.object_position[0, 0]  # gripped in the middle
    begins, keeps = FACTS[name].begins(state, goal, Thresholds()), FACTS[name].keeps(state, goal, Thresholds())
    assert begins.dtype == keeps.dtype == bool
    gripped = np.linalg.norm(state.ee_position - state.object_position[:, 0], axis=1) < 0.04
    assert (keeps | ~begins)[gripped | (name != "held")].all()


@pytest.mark.parametrize("name", EXCLUDES)
@given(seed=SEEDS)
def test_what_excludes_each_other_does_not_hold_at_once(name: str, seed: int) -> None:
    state, goal = random_state(rng := np.random.default_rng(seed), N), rng.uniform(-0.2, 0.2, (N, 3))
    both = [FACTS[fact].begins(state, goal, Thresholds()) for fact in (name, EXCLUDES[name])]
    assert not (both[0] & both[1]).any()
    assert EXCLUDES[EXCLUDES[name]] == name


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("moment", ["begins", "keeps"])
@given(seed=SEEDS)
def test_facts_are_the_same_in_batches_one_by_one_and_in_torch(name: str, moment: str, seed: int) -> None:
    fact = getattr(FACTS[name], moment)
    state, goal = random_state(rng := np.random.default_rng(seed), 9), rng.uniform(-0.2, 0.2, (9, 3))
    whole = fact(state, goal, Thresholds())
    assert whole.tolist() == [bool(fact(one(state, i), goal[i : i + 1], Thresholds())[0]) for i in range(9)]
    assert whole.tolist() == fact(as_torch(state), as_torch(goal), Thresholds()).tolist()


@given(seed=SEEDS)
def test_holding_takes_every_finger(seed: int) -> None:
    state, goal = random_state(rng := np.random.default_rng(seed), N), rng.uniform(-0.2, 0.2, (N, 3))
    held = FACTS["held"].begins(state, goal, Thresholds())
    assert held.tolist() == state.finger_contact[:, 0].all(axis=1).tolist()


@given(seed=SEEDS, scale=st.floats(0, 10))
def test_distance_is_euclidean(seed: int, scale: float) -> None:
    a, b = scale * np.random.default_rng(seed).normal(size=(2, 5, 3))
    np.testing.assert_allclose(distance(a, b), np.linalg.norm(a - b, axis=-1), rtol=1e-12)


def test_a_robot_without_fingers_never_holds() -> None:
    state = random_state(np.random.default_rng(0), 5)
    state.finger_contact = np.zeros((5, 1, 0), dtype=bool)
    assert not FACTS["held"].begins(state, np.zeros((5, 3)), Thresholds()).any()
    assert FACTS["free"].begins(state, np.zeros((5, 3)), Thresholds()).all()
