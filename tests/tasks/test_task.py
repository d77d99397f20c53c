"""What happens to a task in a step: a stage forward when it is complete, back when something given was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.errors import ConfigError
from mygym.tasks.facts import FACTS
from mygym.tasks.progress import Progress
from mygym.tasks.state import State
from mygym.tasks.task import Task, act, advance, change_task, find_task, is_success, potential, register_task
from tests.components import TASKS, compositions
from tests.tasks.states import arrays_of, as_torch, each, one, random_progress, random_state

SAID = sorted({*TASKS, *compositions()})
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([1, 2, 7, 8, 40])
GOAL = np.array([[0.10, 0.0, 0.15]])


def worlds(said: str, seed: int, n: int) -> tuple[Task, Progress, State, Any]:
    task, rng = find_task(said), np.random.default_rng(seed)
    goal = rng.uniform(-0.2, 0.2, (n, 3))
    state = random_state(rng, n, int(task.has_object), goal)
    return task, random_progress(rng, state, len(task.plan.stages)), state, goal


def naive_stage(task: Task, stage: int, state: State, goal: Any) -> int:
    """What the design says of one episode, without a batch."""
    lost = [giver for fact, giver in task.plan.kept[stage] if not FACTS[fact].keeps(state, goal, task.thresholds)[0]]
    if lost:
        return min(lost)
    if stage == len(task.plan.stages):
        return stage
    complete = all(FACTS[fact].begins(state, goal, task.thresholds)[0] for fact in task.plan.stages[stage].gives)
    return stage + complete


@pytest.mark.parametrize("said", SAID)
@given(seed=SEEDS, n=SIZES)
def test_advance_goes_one_stage_on_when_complete_and_back_to_what_was_lost(said: str, seed: int, n: int) -> None:
    task, progress, state, goal = worlds(said, seed, n)
    after = advance(task, progress, state, goal)
    expected = [naive_stage(task, int(progress.stage[i]), one(state, i), goal[i : i + 1]) for i in range(n)]
    assert after.stage.tolist() == expected
    done = after.stage == len(task.plan.stages)
    assert after.held.tolist() == np.where(done, progress.held + 1, 0).tolist()
    moved = after.stage != progress.stage
    starts = np.where(moved[:, None], state.ee_position, progress.start_ee_position)
    np.testing.assert_array_equal(after.start_ee_position, starts)
    objects = np.where(moved[:, None, None], state.object_position, progress.start_object_position)
    np.testing.assert_array_equal(after.start_object_position, objects)


FUNCTIONS: dict[str, Callable[[Task, Progress, State, Any], Any]] = {
    "advance": advance,
    "potential": potential,
    "target": lambda *batch: act(*batch)[0],
    "gripper": lambda *batch: act(*batch)[1],
    "is_success": lambda task, progress, state, goal: is_success(task, progress),
}


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("name", FUNCTIONS)
@given(seed=SEEDS, n=SIZES)
def test_a_batch_is_the_same_as_one_by_one(said: str, name: str, seed: int, n: int) -> None:
    task, progress, state, goal = worlds(said, seed, n)
    whole = arrays_of(FUNCTIONS[name](task, progress, state, goal))
    for index in range(n):
        alone = FUNCTIONS[name](task, one(progress, index), one(state, index), goal[index : index + 1])
        for batch, single in zip(whole, arrays_of(alone), strict=True):
            np.testing.assert_allclose(batch[index : index + 1], single, rtol=0, atol=1e-12)


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("name", FUNCTIONS)
@given(seed=SEEDS, n=SIZES)
def test_torch_is_the_same_as_numpy(said: str, name: str, seed: int, n: int) -> None:
    task, progress, state, goal = worlds(said, seed, n)
    there = FUNCTIONS[name](task, as_torch(progress), as_torch(state), as_torch(goal))
    for array, tensor in zip(arrays_of(FUNCTIONS[name](task, progress, state, goal)), arrays_of(there), strict=True):
        assert array.dtype == tensor.dtype
        np.testing.assert_allclose(array, tensor, rtol=0, atol=1e-12)


@pytest.mark.parametrize("said", SAID)
@given(seed=SEEDS, n=SIZES)
def test_nothing_that_goes_in_is_changed(said: str, seed: int, n: int) -> None:
    task, progress, state, goal = worlds(said, seed, n)
    before = [each(value, np.copy) for value in (progress, state, goal)]
    for function in FUNCTIONS.values():
        function(task, progress, state, goal)
    for old, new in zip(before, (progress, state, goal), strict=True):
        for a, b in zip(arrays_of(old), arrays_of(new), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("said", SAID)
@given(seed=SEEDS, n=SIZES)
def test_potential_is_zero_when_all_is_done_and_never_above(said: str, seed: int, n: int) -> None:
    task, progress, state, goal = worlds(said, seed, n)
    count = len(task.plan.stages)
    value = potential(task, progress, state, goal)
    done = progress.stage == count
    assert (value[done] == 0).all()
    assert (value <= 0).all()
    assert (value >= progress.stage - count).all()
    assert (value <= np.minimum(progress.stage + 1 - count, 0)).all()


# a whole episode by hand --------------------------------------------------------------------------------------------


def placed(ee: Any, thing: Any, fingers: tuple[bool, bool] = (False, False)) -> State:
    state = State.zeros(1, 7, 2, 1)
    state.ee_position[0], state.object_position[0, 0], state.finger_contact[0, 0] = ee, thing, fingers
    return state


CUBE = np.array([0.0, 0.0, 0.02])
FAR, AT, GRIP = placed(CUBE + 0.2, CUBE), placed(CUBE, CUBE), placed(CUBE, CUBE, (True, True))
HALF = placed(CUBE + 0.05, CUBE + 0.05, (True, True))
THERE = placed(GOAL[0], GOAL[0], (True, True))
ONE_FINGER = placed(GOAL[0], GOAL[0], (True, False))
LOST = placed(GOAL[0], GOAL[0])
DROPPED = placed(GOAL[0], CUBE)
RELEASED = placed(GOAL[0], GOAL[0])
AWAY = placed(GOAL[0] + (0.0, 0.0, 0.2), GOAL[0])


def stages(said: str, states: list[State]) -> list[int]:
    task, progress, found = find_task(said), Progress.at_reset(FAR), []
    for state in states:
        progress = advance(task, progress, state, GOAL)
        found.append(int(progress.stage[0]))
    return found


@pytest.mark.parametrize(
    ("said", "states", "expected"),
    [
        ("pick_and_place", [FAR, FAR, AT, AT, GRIP, HALF, THERE, THERE], [0, 0, 1, 1, 2, 2, 3, 3]),
        ("pick_and_place", [AT, GRIP, THERE, ONE_FINGER, THERE], [1, 2, 3, 3, 3]),
        ("pick_and_place", [AT, GRIP, LOST, GRIP, THERE], [1, 2, 1, 2, 3]),
        ("pick_and_place", [AT, GRIP, HALF, DROPPED, FAR, AT, GRIP, THERE], [1, 2, 2, 0, 0, 1, 2, 3]),
        ("pick_and_place", [AT, GRIP, THERE, HALF, THERE], [1, 2, 3, 2, 3]),
        ("pick_and_place", [THERE, THERE, THERE], [1, 2, 3]),
        ("AGMDW", [AT, GRIP, THERE, RELEASED, AWAY, AWAY], [1, 2, 3, 4, 5, 5]),
        ("AGMDW", [AT, GRIP, THERE, RELEASED, FAR], [1, 2, 3, 4, 2]),
        ("AG", [FAR, AT, AT, FAR, AT], [0, 1, 1, 0, 1]),
        ("push", [AT, AT, placed(GOAL[0] - 0.02, GOAL[0]), AWAY], [1, 1, 2, 2]),
    ],
)
def test_an_episode_by_hand(said: str, states: list[State], expected: list[int]) -> None:
    assert stages(said, states) == expected


def test_reach_succeeds_when_held_and_starts_again_when_left() -> None:
    task = find_task("reach")
    at, away = State.zeros(1, 7), State.zeros(1, 7)
    at.ee_position[0] = GOAL[0]
    away.ee_position[0] = GOAL[0] + (0.0, 0.0, task.tolerance + 1e-6)
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


def test_a_state_that_the_engine_refills_does_not_change_progress() -> None:
    task, state = find_task("pick_and_place"), placed(CUBE, CUBE)
    progress = advance(task, Progress.at_reset(state), state, GOAL)
    snapshot = [array.copy() for array in arrays_of(progress)]
    state.ee_position[:], state.object_position[:] = 9.0, 9.0
    for old, new in zip(snapshot, arrays_of(progress), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("said", SAID)
def test_the_expert_acts_in_every_stage(said: str) -> None:
    task = find_task(said)
    state = random_state(np.random.default_rng(0), 1, int(task.has_object), GOAL)
    for stage in range(len(task.plan.stages) + 1):
        progress = Progress(np.array([stage]), np.array([0]), state.ee_position + 0.1, state.object_position + 0.1)
        target, gripper = act(task, progress, state, GOAL)
        assert target.shape == (1, 3)
        assert np.isfinite(target).all()
        assert -1.0 <= gripper <= 1.0


# numbers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_named_tasks_are_strict(name: str) -> None:
    task = find_task(name)
    assert 0 < task.tolerance <= 0.05
    assert task.hold >= 2
    assert task.help


def test_numbers_of_a_task_can_be_changed() -> None:
    task = change_task(find_task("reach"), {"tolerance": 0.01, "horizon": 7})
    assert (task.tolerance, task.horizon, task.thresholds.tolerance) == (0.01, 7, 0.01)
    assert find_task("reach").horizon != 7
    with pytest.raises(ConfigError, match="did you mean 'horizon'"):
        change_task(task, {"horizonn": 7})


def test_what_a_composition_means_does_not_depend_on_tasks_of_the_users() -> None:
    stages = ["approach", "push", "withdraw"]
    before = find_task(stages).horizon
    register_task("mine", stages, horizon=before + 7)
    assert find_task("mine").horizon == before + 7
    assert find_task(stages).horizon == before
