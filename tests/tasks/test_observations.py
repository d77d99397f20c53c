"""Observation components: shapes, bounds, and the same in batches, one by one and in torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.tasks.observations import default_components, find_component
from mygym.tasks.task import find_task
from tests.components import CONTROLS, OBSERVATIONS, TASKS, compositions
from tests.tasks.states import as_torch, one, random_progress, random_state


@pytest.mark.parametrize("name", OBSERVATIONS)
@given(seed=st.integers(0, 2**32 - 1))
def test_components_are_the_same_in_batches_one_by_one_and_in_torch(name: str, seed: int) -> None:
    task, rng, n = find_task("pick_and_place"), np.random.default_rng(seed), 5
    state = random_state(rng, n)
    progress = random_progress(rng, state, len(task.plan.stages))
    component = find_component(name)
    whole = component.function(task, progress, state)
    assert whole.ndim == 2
    assert np.isfinite(whole).all()
    for i in range(n):
        np.testing.assert_array_equal(whole[i : i + 1], component.function(task, one(progress, i), one(state, i)))
    there = component.function(task, as_torch(progress), as_torch(state))
    np.testing.assert_array_equal(whole, there.numpy())


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("said", sorted({*TASKS, *compositions()}))
def test_a_task_observes_what_matters_to_it_and_nothing_twice(said: str, control: str) -> None:
    task, names = find_task(said), default_components(find_task(said), control)
    assert len(set(names)) == len(names)
    assert set(names) <= set(OBSERVATIONS)
    assert ("gripper_width" in names) == task.needs_gripper
    assert ("object_position" in names) == task.has_object
    assert ("joint_position" in names) == control.startswith("joint")
    assert ("stage" in names) == (len(task.plan.stages) > 1)


def test_the_stage_is_one_hot_and_the_orientation_has_one_sign() -> None:
    task, rng = find_task("pick_and_place"), np.random.default_rng(0)
    state = random_state(rng, 50)
    progress = random_progress(rng, state, 3)
    stage = find_component("stage").function(task, progress, state)
    assert stage.shape == (50, 4)
    assert stage.argmax(axis=1).tolist() == progress.stage.tolist()
    assert (stage.sum(axis=1) == 1).all()
    turned = find_component("object_orientation").function(task, progress, state)
    assert (turned[:, 3] >= 0).all()
    state.object_orientation *= -1
    np.testing.assert_array_equal(turned, find_component("object_orientation").function(task, progress, state))
