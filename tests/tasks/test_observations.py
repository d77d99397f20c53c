"""Observation components: shapes, bounds, and the same in batches, one by one and in torch."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.registry import registry
from mygym.tasks.context import EpisodeContext
from mygym.tasks.observations import default_components, find_component
from tests.components import CONTROLS, OBSERVATIONS, TASKS_AND_COMPOSITIONS
from tests.tasks.states import LISTED, as_torch, random_state, single, the_task, worlds

SAID = [*TASKS_AND_COMPOSITIONS, *LISTED]
SEEDS = st.integers(0, 2**32 - 1)
OF_OBJECTS = {"object_position": 3, "object_from_ee": 3, "object_orientation": 4, "object_velocity": 3}
OF_PARTS = {"part_position": 1, "part_velocity": 1, "handle_from_ee": 3}


def context(composition: str, seed: int, n: int) -> EpisodeContext:
    return EpisodeContext(*worlds(composition, seed, n))


def alone(context: EpisodeContext, i: int) -> EpisodeContext:
    return replace(
        context,
        progress=single(context.progress, i),
        state=single(context.state, i),
        goals=context.goals[i : i + 1],
    )


@pytest.mark.parametrize("composition", ["pick_and_place", *LISTED])
@pytest.mark.parametrize("name", OBSERVATIONS)
@given(seed=SEEDS)
def test_components_agree_in_batches_single_episodes_and_torch(name: str, composition: str, seed: int) -> None:
    several, n = context(composition, seed, 5), 5
    component = find_component(name)
    batch = component.function(several)
    assert batch.ndim == 2
    assert len(batch) == n
    assert np.isfinite(batch).all()
    for i in range(n):
        np.testing.assert_array_equal(batch[i : i + 1], component.function(alone(several, i)))
    tensors = [as_torch(value) for value in (several.progress, several.state, several.goals)]
    np.testing.assert_array_equal(batch, component.function(EpisodeContext(several.task, *tensors)).numpy())


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("composition", SAID)
def test_default_components_are_sufficient_and_unique(composition: str, control: str) -> None:
    controller, task = registry("controller").get(control).load(), the_task(composition)
    cartesian, remembers = controller.commands == "cartesian", controller.remembers_command
    names = default_components(task, cartesian=cartesian, remembers_command=remembers)
    assert len(set(names)) == len(names)
    assert set(names) <= set(OBSERVATIONS)
    assert ("gripper_width" in names) == task.uses_gripper
    assert ("object_position" in names) == task.has_object
    assert ("part_position" in names) == bool(task.part_slots)
    assert ("joint_position" in names) == control.startswith("joint")
    assert ("command_offset" in names) == (control.startswith("ee") or control == "joint_delta")
    assert ("stage" in names) == (len(task.bound_stages) > 1)


@pytest.mark.parametrize("composition", SAID)
def test_components_cover_exactly_the_objects_and_parts_of_the_task(composition: str) -> None:
    task = the_task(composition)
    several = context(composition, 0, 3)
    more = random_state(np.random.default_rng(1), 3, len(task.roles) + 2, len(task.parts))  # distractors
    for now, name in itertools.product((several, replace(several, state=more)), {**OF_OBJECTS, **OF_PARTS}):
        size, count = (OF_OBJECTS | OF_PARTS)[name], len(task.roles if name in OF_OBJECTS else task.part_slots)
        assert find_component(name).function(now).shape == (3, size * count), name


def test_components_follow_the_order_of_roles_and_part_slots() -> None:
    stacking, handle = context("stack", 3, 4), context("handle", 3, 4)
    seen = find_component("object_position").function(stacking)
    np.testing.assert_array_equal(seen, stacking.state.object_position.reshape(4, 6))
    assert stacking.task.roles == ("cube", "die")
    seen = find_component("part_position").function(handle)
    np.testing.assert_array_equal(seen, handle.state.part_position[:, 1:])
    seen = find_component("handle_from_ee").function(handle)
    np.testing.assert_array_equal(seen, handle.state.part_handle_position[:, 1] - handle.state.ee_position)


def test_the_stage_is_one_hot_and_the_orientation_has_one_sign() -> None:
    several = context("stack", 0, 50)
    stage = find_component("stage").function(several)
    assert stage.shape == (50, 11)
    assert stage.argmax(axis=1).tolist() == several.progress.stage.tolist()
    assert (stage.sum(axis=1) == 1).all()
    turned = find_component("object_orientation").function(several)
    assert (turned[:, [3, 7]] >= 0).all()
    several.state.object_orientation *= -1
    np.testing.assert_array_equal(turned, find_component("object_orientation").function(several))
