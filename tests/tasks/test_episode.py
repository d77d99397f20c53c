"""Progress of an episode: to the next stage when a stage is complete, back when one of its predicates is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mygym.tasks.context import StageContext
from mygym.tasks.episode import act, advance, is_success, potential
from mygym.tasks.lookup import find_task
from mygym.tasks.predicates import near_radius
from mygym.tasks.state import Progress, State
from mygym.tasks.task import Task
from tests.tasks.states import arrays_of, as_torch, each, of_compositions, single, whole, worlds

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([1, 2, 7, 8, 40])
FEW = settings(max_examples=5)
"""For tests of each composition: all compositions run the same code."""
GOAL = np.array([[[0.10, 0.0, 0.15]]])


def naive_stage(task: Task, progress: Progress, state: State, goals: Any) -> int:
    """Reference implementation for a single episode."""
    stage = int(progress.stage[0])

    def context(index: int) -> StageContext:
        return StageContext(state, progress, goals, task.stage_bindings[index])

    lost = [
        giver
        for name, giver in task.sequence.kept[stage]
        if not task.sequence.predicates[name].keeps(context(giver))[0]
    ]
    if lost:
        return min(lost)
    if stage == len(task.stage_bindings):
        return stage
    active, active_context = task.sequence.stages[stage], context(stage)
    complete = all(task.sequence.predicates[name].begins(active_context)[0] for name in active.gives)
    if complete and (active.complete is None or bool(active.complete(active_context)[0])):
        return stage + 1
    returns = active.returns is not None and bool(active.returns(active_context)[0])
    same_subtask = stage > 0 and task.stage_bindings[stage - 1].subtask == task.stage_bindings[stage].subtask
    return stage - (returns and same_subtask)


@of_compositions
@FEW
@given(seed=SEEDS, n=SIZES)
def test_advance_goes_to_the_next_stage_when_complete_and_back_when_a_predicate_is_lost(
    compositions: list[Any], seed: int, n: int
) -> None:
    for composition in compositions:
        task, progress, state, goals = worlds(composition, seed, n)
        after = advance(task, progress, state, goals)
        assert after.stage.tolist() == [
            naive_stage(task, single(progress, i), single(state, i), goals[i : i + 1]) for i in range(n)
        ]
        done = after.stage == len(task.stage_bindings)
        assert after.held.tolist() == np.where(done, progress.held + 1, 0).tolist()
        moved = after.stage != progress.stage
        for name in ("ee_position", "object_position", "part_position"):
            current, before = getattr(state, name), getattr(progress, f"start_{name}")
            expected = np.where(moved.reshape(-1, *[1] * (current.ndim - 1)), current, before)
            np.testing.assert_array_equal(getattr(after, f"start_{name}"), expected)


@of_compositions
@FEW
@given(seed=SEEDS, n=SIZES)
def test_the_counter_restarts_with_each_stage(compositions: list[Any], seed: int, n: int) -> None:
    for composition in compositions:
        task, progress, state, goals = worlds(composition, seed, n)
        after = advance(task, progress, state, goals)
        for i in range(n):
            index = min(int(progress.stage[i]), len(task.stage_bindings) - 1)
            stage, bound = task.sequence.stages[index], task.stage_bindings[index]
            counted = int(progress.count[i])
            if stage.count is not None and progress.stage[i] < len(task.stage_bindings):
                counted = int(
                    stage.count(StageContext(single(state, i), single(progress, i), goals[i : i + 1], bound))[0]
                )
            assert after.count[i] == (0 if after.stage[i] != progress.stage[i] else counted)


FUNCTIONS: dict[str, Callable[[Task, Progress, State, Any], Any]] = {
    "advance": advance,
    "potential": potential,
    "motion": lambda task, progress, state, goals: whole(act(task, progress, state, goals), state),
    "is_success": lambda task, progress, state, goals: is_success(task, progress),
}


@of_compositions
@FEW
@given(seed=SEEDS, n=SIZES)
def test_a_batch_agrees_with_single_episodes(compositions: list[Any], seed: int, n: int) -> None:
    for composition in compositions:
        task, progress, state, goals = worlds(composition, seed, n)
        batches = {name: arrays_of(function(task, progress, state, goals)) for name, function in FUNCTIONS.items()}
        for index in range(n):
            row = slice(index, index + 1)
            episode = single(progress, index), single(state, index), goals[row]
            for name, function in FUNCTIONS.items():
                for array, expected in zip(batches[name], arrays_of(function(task, *episode)), strict=True):
                    np.testing.assert_allclose(array[row], expected, rtol=0, atol=1e-12, err_msg=name)


@of_compositions
@FEW
@given(seed=SEEDS, n=SIZES)
def test_torch_agrees_with_numpy(compositions: list[Any], seed: int, n: int) -> None:
    for composition in compositions:
        task, *values = worlds(composition, seed, n)
        tensors = [as_torch(value) for value in values]
        for name, function in FUNCTIONS.items():
            arrays, results = arrays_of(function(task, *values)), arrays_of(function(task, *tensors))
            for array, tensor in zip(arrays, results, strict=True):
                assert array.dtype == tensor.dtype, name
                np.testing.assert_allclose(array, tensor, rtol=0, atol=1e-12, err_msg=name)


@of_compositions
@FEW
@given(seed=SEEDS, n=SIZES)
def test_inputs_are_not_modified(compositions: list[Any], seed: int, n: int) -> None:
    for composition in compositions:
        task, progress, state, goals = worlds(composition, seed, n)
        before = [each(value, np.copy) for value in (progress, state, goals)]
        for function in FUNCTIONS.values():
            function(task, progress, state, goals)
        for old, new in zip(before, (progress, state, goals), strict=True):
            for a, b in zip(arrays_of(old), arrays_of(new), strict=True):
                np.testing.assert_array_equal(a, b)


@of_compositions
@FEW
@given(seed=SEEDS, n=SIZES)
def test_potential_is_zero_at_the_end_and_never_positive(compositions: list[Any], seed: int, n: int) -> None:
    for composition in compositions:
        task, progress, state, goals = worlds(composition, seed, n)
        count = len(task.stage_bindings)
        value = potential(task, progress, state, goals)
        done = progress.stage == count
        assert (value[done] == 0).all()
        assert (value <= 0).all()
        assert (value >= progress.stage - count).all()


@pytest.mark.parametrize("composition", ["push", "AGM", "press"])
@given(seed=SEEDS)
def test_the_potential_has_no_cliff_where_the_approach_is_lost(composition: str, seed: int) -> None:
    """Within the area in which `near` holds on, both stages have the same potential; so has its edge from outside."""
    task, progress, state, goals = worlds(composition, seed, 20)
    view = StageContext(state, progress, goals, task.stage_bindings[0])
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(20, 3))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)

    def values(share: float, stage: int) -> Any:
        state.ee_position[:] = view.target + share * near_radius(view) * direction
        return potential(task, replace(progress, stage=np.full(20, stage)), state, goals)

    for share in (0.5, 0.999):
        np.testing.assert_allclose(values(share, 0), values(share, 1))
    np.testing.assert_allclose(values(1.001, 0), values(0.999, 1), atol=0.02)


# episodes with known stages -----------------------------------------------------------------------------------------


def placed(ee: Any, *objects: Any, fingers: tuple[bool, bool] = (False, False), on: int = 0) -> State:
    """Return the state with the end effector at `ee`, the objects at `objects`, and fingers on object number `on`."""
    state = State.zeros(1, 7, 2, len(objects))
    state.ee_position[0], state.object_position[0], state.finger_contact[0, on] = ee, objects, fingers
    return state


BOTH = (True, True)
CUBE = np.array([0.0, 0.0, 0.02])
GOAL_POINT = GOAL[0, 0]
FAR, AT, GRIP = placed(CUBE + 0.2, CUBE), placed(CUBE, CUBE), placed(CUBE, CUBE, fingers=BOTH)
HALF = placed(CUBE + 0.05, CUBE + 0.05, fingers=BOTH)
AT_GOAL = placed(GOAL_POINT, GOAL_POINT, fingers=BOTH)
ONE_FINGER = placed(GOAL_POINT, GOAL_POINT, fingers=(True, False))
LOST = placed(GOAL_POINT, GOAL_POINT)
DROPPED = placed(GOAL_POINT, CUBE)
RELEASED = placed(GOAL_POINT, GOAL_POINT)
AWAY = placed(GOAL_POINT + 0.2, GOAL_POINT)


def stages(composition: str, states: list[State]) -> list[int]:
    """Return the active stage after each state of an episode."""
    task, progress, stages = find_task(composition), Progress.at_reset(FAR), []
    for state in states:
        progress = advance(task, progress, state, GOAL)
        stages.append(int(progress.stage[0]))
    return stages


@pytest.mark.parametrize(
    ("composition", "states", "expected"),
    [
        ("pick_and_place", [FAR, FAR, AT, AT, GRIP, HALF, AT_GOAL, AT_GOAL], [0, 0, 1, 1, 2, 2, 3, 3]),
        ("pick_and_place", [AT, GRIP, AT_GOAL, ONE_FINGER, AT_GOAL], [1, 2, 3, 3, 3]),
        ("pick_and_place", [AT, GRIP, LOST, GRIP, AT_GOAL], [1, 2, 1, 2, 3]),
        ("pick_and_place", [AT, GRIP, HALF, DROPPED, FAR, AT, GRIP, AT_GOAL], [1, 2, 2, 0, 0, 1, 2, 3]),
        ("pick_and_place", [AT, GRIP, AT_GOAL, HALF, AT_GOAL], [1, 2, 3, 2, 3]),
        ("pick_and_place", [AT_GOAL, AT_GOAL, AT_GOAL], [1, 2, 3]),
        ("AGMDW", [AT, GRIP, AT_GOAL, RELEASED, AWAY, AWAY], [1, 2, 3, 4, 5, 5]),
        ("AGMDW", [AT, GRIP, AT_GOAL, RELEASED, FAR], [1, 2, 3, 4, 2]),
        ("AG", [FAR, AT, AT, FAR, AT], [0, 1, 1, 0, 1]),
        ("push", [AT, AT, placed(GOAL_POINT - 0.02, GOAL_POINT), AWAY], [1, 1, 2, 2]),
    ],
)
def test_an_episode_has_the_known_stages(composition: str, states: list[State], expected: list[int]) -> None:
    assert stages(composition, states) == expected


def test_reach_succeeds_when_the_goal_is_held_and_restarts_when_it_is_lost() -> None:
    task = find_task("reach")
    at, away = State.zeros(1, 7), State.zeros(1, 7)
    at.ee_position[0] = GOAL[0, 0]
    away.ee_position[0] = GOAL[0, 0] + (0.0, 0.0, task.tolerance + 1e-6)
    progress = Progress.at_reset(away)
    for held in range(1, task.hold):
        progress = advance(task, progress, at, GOAL)
        assert int(progress.held[0]) == held
        assert not is_success(task, progress)[0]
    progress = advance(task, progress, away, GOAL)
    assert (int(progress.stage[0]), int(progress.held[0])) == (0, 0)
    for _ in range(task.hold):
        assert not is_success(task, progress)[0]
        progress = advance(task, progress, at, GOAL)
    assert is_success(task, progress)[0]


def test_progress_copies_the_state_that_the_engine_refills() -> None:
    task, state = find_task("pick_and_place"), placed(CUBE, CUBE)
    progress = advance(task, Progress.at_reset(state), state, GOAL)
    snapshot = [array.copy() for array in arrays_of(progress)]
    state.ee_position[:], state.object_position[:] = 9.0, 9.0
    for old, new in zip(snapshot, arrays_of(progress), strict=True):
        np.testing.assert_array_equal(old, new)


@of_compositions
def test_the_expert_acts_in_every_stage(compositions: list[Any]) -> None:
    for n in [1, 9]:
        for composition in compositions:
            task, progress, state, goals = worlds(composition, 0, n)
            for stage in range(len(task.stage_bindings) + 1):
                motion = act(task, replace(progress, stage=np.full(n, stage)), state, goals)
                assert motion.target.shape == (n, 3)
                assert np.isfinite(motion.target).all()
                gripper = np.broadcast_to(motion.gripper, (n,))
                assert ((gripper >= -1.0) & (gripper <= 1.0)).all()
