"""Goal vectors and the rewards that depend on nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mygym.tasks import goals, rewards
from mygym.tasks.task import find_task
from tests.components import TASKS, compositions
from tests.tasks.states import as_torch, one, random_state

SAID = sorted({*TASKS, *compositions()})
TOLERANCE = 0.05


@st.composite
def pairs(draw: Any) -> tuple[Any, Any]:
    """Achieved and desired goal vectors of some batch shape, often close to each other."""
    batch, flags = draw(st.sampled_from([(), (1,), (6,), (2, 3)])), draw(st.integers(0, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    position = rng.uniform(-2, 2, (*batch, 3))
    away = rng.choice([0.0, 0.01, 0.03, 0.06, 1.0], (*batch, 1)) * rng.uniform(-1, 1, (*batch, 3))
    right = rng.integers(0, 2, (*batch, flags))
    desired = np.concatenate([position, np.ones((*batch, flags))], axis=-1, dtype=np.float32)
    return np.concatenate([position + away, right], axis=-1, dtype=np.float32), desired


FUNCTIONS = {
    **rewards.GOAL_REWARDS,
    "distance": lambda achieved, desired, tolerance: goals.goal_distance(achieved, desired),
    "reached": goals.goal_reached,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(pair=pairs())
def test_a_batch_is_the_same_as_one_by_one_and_in_torch(name: str, pair: tuple[Any, Any]) -> None:
    achieved, desired = pair
    whole = np.asarray(FUNCTIONS[name](achieved, desired, TOLERANCE))
    assert whole.shape == achieved.shape[:-1]
    for index in np.ndindex(whole.shape):
        assert whole[index] == FUNCTIONS[name](achieved[index], desired[index], TOLERANCE)
    there = FUNCTIONS[name](torch.from_numpy(achieved), torch.from_numpy(desired), TOLERANCE)
    np.testing.assert_allclose(whole, there.numpy(), rtol=1e-6, atol=1e-7)


@given(pair=pairs())
def test_sparse_is_zero_where_the_goal_is_reached_and_minus_one_elsewhere(pair: tuple[Any, Any]) -> None:
    achieved, desired = pair
    reached = goals.goal_reached(achieved, desired, TOLERANCE)
    assert (np.asarray(rewards.sparse(achieved, desired, TOLERANCE)) == np.where(reached, 0.0, -1.0)).all()


@given(pair=pairs())
def test_dense_is_minus_metres_and_zero_only_at_the_goal(pair: tuple[Any, Any]) -> None:
    achieved, desired = pair
    value = np.asarray(rewards.dense(achieved, desired, TOLERANCE))
    flags = np.abs(achieved - desired)[..., 3:].sum(-1)
    metres = np.linalg.norm((achieved - desired)[..., :3], axis=-1) + goals.FLAG_METRES * flags
    np.testing.assert_allclose(value, -metres, atol=1e-6)
    assert (rewards.dense(desired, desired, TOLERANCE) == 0).all()


@given(pair=pairs())
def test_reached_is_within_tolerance_with_every_flag_right(pair: tuple[Any, Any]) -> None:
    achieved, desired = pair
    difference = (achieved - desired).astype(np.float64)
    metres = np.linalg.norm(difference[..., :3], axis=-1)
    expected = (metres < TOLERANCE) & (np.abs(difference[..., 3:]) < 0.5).all(-1)
    clear_cut = np.abs(metres - TOLERANCE) > 1e-6
    reached = np.asarray(goals.goal_reached(achieved, desired, TOLERANCE))
    assert (reached == expected)[clear_cut].all()


@given(values=arrays.arrays(np.float64, st.integers(2, 30), elements=st.floats(-5, 0)), gamma=st.floats(0.5, 1))
def test_shaping_telescopes(values: Any, gamma: float) -> None:
    total = sum(gamma**t * rewards.shaping(values[t], values[t + 1], gamma) for t in range(len(values) - 1))
    assert total == pytest.approx(gamma ** (len(values) - 1) * values[-1] - values[0], abs=1e-9)


@pytest.mark.parametrize("said", SAID)
@given(seed=st.integers(0, 2**32 - 1))
def test_goal_vectors_are_the_same_in_batches_one_by_one_and_in_torch(said: str, seed: int) -> None:
    task, rng, n = find_task(said), np.random.default_rng(seed), 6
    space, goal = goals.goal_space(task), rng.uniform(-0.2, 0.2, (n, 3))
    state = random_state(rng, n, int(task.has_object), goal)
    achieved, desired = goals.achieved_goal(space, task, state, goal), goals.desired_goal(space, goal)
    assert achieved.shape == desired.shape == (n, space.size)
    for i in range(n):
        alone = goals.achieved_goal(space, task, one(state, i), goal[i : i + 1])
        np.testing.assert_array_equal(achieved[i : i + 1], alone)
        np.testing.assert_array_equal(desired[i : i + 1], goals.desired_goal(space, goal[i : i + 1]))
    there = goals.achieved_goal(space, task, as_torch(state), as_torch(goal))
    np.testing.assert_array_equal(achieved, there.numpy())
    np.testing.assert_array_equal(desired, goals.desired_goal(space, as_torch(goal)).numpy())


@pytest.mark.parametrize(
    ("said", "position", "flags"),
    [
        ("reach", "end_effector", ()),
        ("push", "object", ()),
        ("pick_and_place", "object", ()),
        ("AG", "end_effector_from_object", ("held",)),
        ("AGMD", "object", ("free",)),
        ("AGMDW", "object", ("free", "clear")),
    ],
)
def test_what_is_achieved_follows_from_the_stages(said: str, position: str, flags: tuple[str, ...]) -> None:
    space = goals.goal_space(find_task(said))
    assert (space.position, space.flags) == (position, flags)
