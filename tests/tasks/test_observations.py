"""Observation components: shapes, order, and equal values in batches, single episodes and PyTorch."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.registry import registry
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import default_components, find_component
from tests.components import CONTROLS, OBSERVATIONS
from tests.tasks.states import LISTED, as_torch, of_compositions, random_state, single, the_task, worlds

SEEDS = st.integers(0, 2**32 - 1)
OBJECT_SIZES = {"object_position": 3, "object_from_ee": 3, "object_orientation": 4, "object_velocity": 3}
PART_SIZES = {"part_position": 1, "part_velocity": 1, "handle_from_ee": 3}


def context(composition: str, seed: int, n: int) -> EpisodeContext:
    return EpisodeContext(*worlds(composition, seed, n), elapsed=np.arange(n))


def single_context(context: EpisodeContext, i: int) -> EpisodeContext:
    return replace(
        context,
        progress=single(context.progress, i),
        state=single(context.state, i),
        goals=context.goals[i : i + 1],
        elapsed=context.elapsed[i : i + 1],
    )


@pytest.mark.parametrize("composition", ["pick_and_place", *LISTED])
@given(seed=SEEDS)
def test_components_agree_in_batches_single_episodes_and_torch(composition: str, seed: int) -> None:
    batch_context, n = context(composition, seed, 5), 5
    singles = [single_context(batch_context, i) for i in range(n)]
    values = (batch_context.progress, batch_context.state, batch_context.goals, batch_context.elapsed)
    torch_context = EpisodeContext(batch_context.task, *map(as_torch, values))
    for name in OBSERVATIONS:
        component = find_component(name)
        batch = component.function(batch_context)
        assert batch.ndim == 2, name
        assert len(batch) == n, name
        assert np.isfinite(batch).all(), name
        rows = np.concatenate([component.function(episode) for episode in singles])
        np.testing.assert_array_equal(batch, rows, name)
        np.testing.assert_array_equal(batch, component.function(torch_context).numpy(), name)


@of_compositions
def test_default_components_are_sufficient_and_unique(compositions: list[Any]) -> None:
    for control in CONTROLS:
        for composition in compositions:
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
            assert ("stage" in names) == (len(task.stage_bindings) > 1)


@of_compositions
def test_components_cover_exactly_the_objects_and_parts_of_the_task(compositions: list[Any]) -> None:
    for composition in compositions:
        task = the_task(composition)
        batch_context = context(composition, 0, 3)
        with_distractors = random_state(np.random.default_rng(1), 3, len(task.roles) + 2, len(task.parts))
        for current, name in itertools.product(
            (batch_context, replace(batch_context, state=with_distractors)), {**OBJECT_SIZES, **PART_SIZES}
        ):
            size, count = (
                (OBJECT_SIZES | PART_SIZES)[name],
                len(task.roles if name in OBJECT_SIZES else task.part_slots),
            )
            assert find_component(name).function(current).shape == (3, size * count), name


def test_components_follow_the_order_of_roles_and_part_slots() -> None:
    stacking, handle = context("stack", 3, 4), context("handle", 3, 4)
    values = find_component("object_position").function(stacking)
    np.testing.assert_array_equal(values, stacking.state.object_position.reshape(4, 6))
    assert stacking.task.roles == ("cube", "die")
    values = find_component("part_position").function(handle)
    np.testing.assert_array_equal(values, handle.state.part_position[:, 1:])
    values = find_component("handle_from_ee").function(handle)
    np.testing.assert_array_equal(values, handle.state.part_handle_position[:, 1] - handle.state.ee_position)


def test_the_stage_is_one_hot_and_the_orientation_has_one_sign() -> None:
    batch_context = context("stack", 0, 50)
    stage = find_component("stage").function(batch_context)
    assert stage.shape == (50, 11)
    assert stage.argmax(axis=1).tolist() == batch_context.progress.stage.tolist()
    assert (stage.sum(axis=1) == 1).all()
    turned = find_component("object_orientation").function(batch_context)
    assert (turned[:, [3, 7]] >= 0).all()
    batch_context.state.object_orientation *= -1
    np.testing.assert_array_equal(turned, find_component("object_orientation").function(batch_context))
