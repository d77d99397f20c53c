"""Launched objects are released in motion, and success depends on where they end."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pybullet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.engines.bullet.object_bodies import position_at_hit
from mygym.envs.robot_env import RobotEnv
from mygym.tasks.context import StageContext
from mygym.tasks.lookup import find_task
from mygym.tasks.stages.pushing import THROW, TOSS, _miss
from mygym.tasks.state import Progress, State
from tests.tasks.states import PREDICATES

TASKS = ("throw", "hit_board", "score_goal", "slide")


def context_of(state: State, task: str = "slide") -> StageContext:
    the_task = find_task(task)
    return StageContext(
        state, Progress.at_reset(state), np.zeros((1, the_task.goal_count, 3)), the_task.stage_bindings[-1]
    )


def moving(velocity: Any, hand: Any = (0.0, 0.0, 0.0), touch: bool = False, at: Any = (0.2, 0.0, 0.0)) -> StageContext:
    state = State.zeros(1, 7, 2, 1)
    state.object_position[0, 0] = at
    state.object_velocity[0, 0], state.ee_velocity[0], state.touch[0, 0] = velocity, hand, touch
    return context_of(state)


@pytest.mark.parametrize(
    ("context", "is_launched"),
    [
        (moving((0.5, 0.0, 0.0)), True),
        (moving((0.0, 0.0, 0.0)), False),
        (moving((0.5, 0.0, 0.0), touch=True), False),
        (moving((0.5, 0.0, 0.0), hand=(0.5, 0.0, 0.0)), False),
        (moving((0.5, 0.0, 0.0), at=(0.07, 0.0, 0.0)), False),
        (moving((0.0, 0.0, -1.0), at=(0.0, 0.0, -0.2)), False),
        (moving((0.1, 0.0, 0.0)), False),
    ],
    ids=("under way", "at rest", "still pushed", "as fast as the hand", "within reach", "dropped", "let go"),
)
def test_launched_requires_an_untouched_object_that_leaves_the_hand(context: StageContext, is_launched: bool) -> None:
    assert PREDICATES["launched"].begins(context).tolist() == [is_launched]


@pytest.mark.parametrize(("at", "still"), [((0.01, 0.0, 0.0), True), ((0.3, 0.0, 0.0), False)], ids=("goal", "short"))
def test_launched_is_lost_at_rest_away_from_the_goal(at: Any, still: bool) -> None:
    state = State.zeros(1, 7, 2, 1)
    state.object_position[0, 0] = at
    assert PREDICATES["launched"].keeps(context_of(state)).tolist() == [still]


@pytest.mark.parametrize("task", TASKS)
def test_launched_is_lost_at_the_next_touch(task: str) -> None:
    state = State.zeros(1, 7, 2, 1)
    state.object_velocity[0, 0], state.touch[0, 0] = (0.5, 0.0, 0.0), True
    assert PREDICATES["launched"].keeps(context_of(state, task)).tolist() == [False]


@pytest.mark.parametrize("task", TASKS)
def test_the_expert_releases_in_motion_and_the_object_ends_at_the_goal(task: str) -> None:
    with RobotEnv(task) as env:
        last = len(env.task.stage_bindings) - 1
        for seed in range(3):
            env.reset(seed=seed)
            low, high = (np.array(end) for end in (env.workspace.tool_bounds.low, env.workspace.tool_bounds.high))
            goal = env.goals[0, env.task.stage_bindings[-1].goal_slot]
            assert ((goal[:2] < low[:2]) | (goal[:2] > high[:2])).any(), "the goal is within reach of the tool"
            steps_in_flight, ended = 0, False
            while not ended:
                _, _, terminated, truncated, info = env.step(env.expert_action())
                steps_in_flight += info["stage"] == last and not env.world.state.touch[0, 0]
                ended = terminated or truncated
            assert info["is_success"], (seed, info)
            assert steps_in_flight >= 1
            away = np.linalg.norm(env.world.state.object_position[0, 0] - goal)
            assert away < env.task.tolerance or env.task.stage_names[-1] == "strike"


def test_an_object_put_down_at_the_goal_was_not_launched() -> None:
    with RobotEnv("slide") as env:
        env.reset(seed=0)
        poses = np.array([[*env.goals[0, 0], 0.0, 0.0, 0.0, 1.0]])
        env.world.reset(poses)
        for _ in range(10):
            *_, info = env.step(np.zeros(env.action_space.shape, dtype=np.float32))
        assert not info["is_success"]


@pytest.mark.parametrize(
    "velocity", [(0.0, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 2.0, 0.0)], ids=("falls", "short", "hits")
)
def test_hit_board_requires_that_the_ball_meets_the_board(velocity: Any) -> None:
    """A ball that is within the tolerance of the goal, but in the air, is no success."""
    with RobotEnv("hit_board") as env:
        env.reset(seed=0)
        goal, bodies = env.goals[0, 0], env.world.object_bodies
        env.world.reset(np.array([[*(goal - (0.0, 0.075, 0.0)), 0.0, 0.0, 0.0, 1.0]]))
        env._episodes.progress = replace(env.progress, stage=np.array([3]))
        pybullet.resetBaseVelocity(bodies.ids[0], velocity, physicsClientId=env.world.client)
        env.world.state.object_velocity[0, 0] = velocity
        nearest, rewards = 1.0, []
        for _ in range(6):
            _, reward, *_, info = env.step(np.zeros(env.action_space.shape, dtype=np.float32))
            nearest = min(nearest, np.linalg.norm(env.world.state.object_position[0, 0] - goal))
            rewards.append(reward)
            if info["is_success"]:
                break
        assert nearest < env.task.tolerance
        assert (info["is_success"], max(rewards)) == ((True, 0.0) if velocity[1] > 1.0 else (False, -1.0))


@pytest.mark.parametrize("delay", [0.0, 0.011, 0.02, 0.039])
def test_a_hit_is_where_the_object_met_the_board_within_the_control_step(delay: float) -> None:
    start, before, after = np.array((0.1, 0.2, 0.3)), np.array((0.1, 1.5, -1.0)), np.array((0.0, -0.3, -0.9))
    fall, dt = np.array((0.0, 0.0, -9.81)), 0.04
    at = start + before * delay + 0.5 * fall * delay**2
    end = at + after * (dt - delay) + 0.5 * fall * (dt - delay) ** 2
    hit = position_at_hit(start, before, end, after + fall * (dt - delay), dt, 9.81)
    np.testing.assert_allclose(hit, at, atol=1e-9)


def test_free_flight_is_no_hit() -> None:
    end = (0.02, 0.0, -0.5 * 9.81 * 0.04**2)
    assert position_at_hit((0.0, 0.0, 0.0), (0.5, 0.0, 0.0), end, (0.5, 0.0, -9.81 * 0.04), 0.04, 9.81) is None


def test_an_object_on_the_table_hits_it_unless_the_robot_touches_it() -> None:
    with RobotEnv("push") as env:
        env.reset(seed=0)
        ended, seen = False, set()
        while not ended:
            before = bool(env.world.state.touch[0, 0])
            *_, terminated, truncated, _ = env.step(env.expert_action())
            touched = before or bool(env.world.state.touch[0, 0])
            seen.add(touched)
            assert env.world.state.hit[0, 0] != touched
            ended = terminated or truncated
        assert seen == {True, False}
        env.reset(seed=1)
        assert not env.world.state.hit.any()
        np.testing.assert_array_equal(env.world.state.hit_position, env.world.state.object_position)


def thrown(
    at: Any, velocity: Any = (0.0, 0.0, 0.0), finger: bool = False, hand: Any = (0.0, 0.0, 0.3), goal: Any = None
) -> StageContext:
    """The context of the stage `toss` of the task `throw`, with a ball that was grasped on the table, 3 cm up."""
    task = find_task("throw")
    (number,) = [index for index, stage in enumerate(task.sequence.stages) if stage.name == "toss"]
    state = State.zeros(1, 7, 2, 1)
    state.object_position[0, 0] = (0.0, 0.0, 0.03)
    progress = Progress.at_reset(state)
    state.object_position[0, 0], state.object_velocity[0, 0], state.ee_position[0] = at, velocity, hand
    state.finger_contact[0, 0] = finger
    goals = np.zeros((1, task.goal_count, 3))
    goals[0, task.stage_bindings[number].goal_slot] = (0.0, 0.62, 0.01) if goal is None else goal
    return StageContext(state, progress, goals, task.stage_bindings[number])


@pytest.mark.parametrize("side", [-1.0, 1.0])
@given(
    height=st.floats(0.3, 0.6), away=st.floats(0.1, 0.5), time=st.floats(0.1, 0.5),
    beside=st.floats(-0.3, 0.3),
)  # fmt: skip
def test_the_miss_is_the_distance_at_which_the_flight_passes_the_goal(
    side: float, height: float, away: float, time: float, beside: float
) -> None:
    """A flight that meets a point over the basket after `time`, moved aside, misses it by that much."""
    velocity = np.array([0.0, side * away / time, (0.16 - height) / time + 0.5 * 9.81 * time])
    goal = (beside, side * away, 0.01)
    assert _miss(thrown((0.0, 0.0, height), velocity, goal=goal))[0] == pytest.approx(abs(beside), abs=2e-3)


@pytest.mark.parametrize(
    ("height", "velocity", "throw", "toss"),
    [
        (0.47, (0.0, 2.0, 0.0), True, True),
        (0.47, (0.0, 1.7, 0.0), True, True),
        (0.47, (0.0, 1.2, 0.0), False, True),
        (0.47, (0.0, -2.0, 0.0), False, False),
        (0.47, (3.0, 0.0, 0.0), False, False),
        (0.03, (0.0, 2.0, 0.0), False, False),
    ],
    ids=("to the basket", "within the tolerance", "a little short", "away", "aside", "along the table"),
)
def test_a_throw_is_complete_only_if_the_object_flies_to_the_goal(
    height: float, velocity: Any, throw: bool, toss: bool
) -> None:
    context = thrown((0.0, 0.1, height), velocity)
    assert [bool(stage.complete(context)[0]) for stage in (THROW, TOSS) if stage.complete] == [throw, toss]


def test_a_throw_pays_most_in_flight_then_in_the_hand_then_on_the_table() -> None:
    """A hand that never lets go, or that lets the object roll, earns less than a hand that throws."""
    swing = {"at": (0.0, 0.28, 0.47), "velocity": (0.0, 1.2, 0.0)}
    contexts = [
        thrown(**swing),
        thrown(**swing, finger=True),
        thrown((0.0, 0.28, 0.47), finger=True),
        thrown((0.0, 0.28, 0.03), hand=(0.0, 0.28, 0.05)),
        thrown((0.0, 0.28, 0.03), hand=(0.0, -0.28, 0.3)),
    ]
    potentials = [float(THROW.potential(context)[0]) for context in contexts]
    assert potentials == sorted(potentials, reverse=True)
    assert len({round(value, 3) for value in potentials}) == len(potentials)


@pytest.mark.parametrize(("task", "stage"), [("throw", 1), ("hit_board", 2)])
def test_a_ball_that_falls_out_of_the_hand_has_to_be_grasped_again(task: str, stage: int) -> None:
    """In `toss` of the task `throw`; the stage `throw` of `hit_board` stays active. Then the expert solves the task."""
    with closing(RobotEnv(task=task, task_params={"stages_done": 2.0})) as env:
        env.reset(seed=0)
        opens = np.array([0.0, 0.0, 0.0, 1.0], dtype=np.float32)
        stages = [env.step(opens)[4]["stage"] for _ in range(20)]
        assert stages[0] in (stage, 2)
        assert stages[-1] == stage
        if task == "throw":
            info: dict[str, Any] = {}
            while not info.get("is_success") and env.elapsed_steps < 200:
                info = env.step(env.expert_action())[4]
            assert info["is_success"]
