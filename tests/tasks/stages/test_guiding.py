"""Guiding along a path: passed points, share of the path, and the expert that pushes from behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mygym.envs.robot_env import RobotEnv
from mygym.tasks.context import StageBinding, StageContext
from mygym.tasks.stages.guiding import BEHIND, CONTACT, GUIDE, HALF_SEGMENT, HOVER, PASSED, _push_direction
from mygym.tasks.stages.motions import STAND_SHARE, progress
from mygym.tasks.state import Progress, State

START = (0.0, 0.0, 0.0)
LYING = ((0.2, 0.0, 0.0), (0.2, 0.1, 0.0), (0.0, 0.1, 0.0))
UPRIGHT = ((0.2, -0.2, 0.3), (0.2, 0.2, 0.2), (0.2, -0.2, 0.1))
FAR = (0.0, 0.0, 0.3)


def context(position: Any, count: int = 0, tool: Any = FAR, path: Any = LYING, start: Any = START) -> StageContext:
    """Return a context with an object at `position`, `count` points of the path passed, and the tool at `tool`."""
    state = State.zeros(1, 7, objects=1)
    state.object_position[0, 0], state.ee_position[0] = start, tool
    progress = replace(Progress.at_reset(state), count=np.array([count]))
    state.object_position[0, 0] = position
    last = len(path) - 1
    return StageContext(
        state, progress, np.array([path]), StageBinding(0, 0, None, goal_slot=last, path_slots=tuple(range(last)))
    )


def passed(*args: Any, **kwargs: Any) -> int:
    assert GUIDE.count is not None
    return int(GUIDE.count(context(*args, **kwargs))[0])


def target(*args: Any, **kwargs: Any) -> np.ndarray:
    result: np.ndarray = GUIDE.expert(context(*args, **kwargs), lambda context: context.target).target[0]
    return result


# share of the path --------------------------------------------------------------------------------------------------


def test_points_are_passed_in_order() -> None:
    assert GUIDE.complete is not None
    for number, point in enumerate(LYING):
        assert [passed(point, count) for count in range(4)] == [
            number + 1 if count >= number else count for count in range(4)
        ]
        assert GUIDE.complete(context(point, number)).tolist() == [False]
    assert GUIDE.complete(context(LYING[-1], 3)).tolist() == [True]


def test_after_going_back_points_must_be_passed_again() -> None:
    assert passed(LYING[0], count=2) == 1
    assert passed((0.1, 0.0, 0.0), count=2) == 2


def test_a_point_is_passed_in_a_corner_of_the_passage() -> None:
    away = np.array([1.0, -1.0, 0.0])
    assert passed(LYING[0] + 0.99 * PASSED * away) == 1
    assert passed(LYING[0] + 1.01 * PASSED * away) == 0


def test_the_waypoint_is_the_next_point_then_the_goal() -> None:
    assert GUIDE.waypoint is not None
    for count, point in enumerate((*LYING, LYING[-1])):
        np.testing.assert_array_equal(GUIDE.waypoint(context(START, count))[0], point)


def potential_behind(position: Any, count: int = 0) -> float:
    """Return the potential with the tool at the position from which it pushes."""
    view = context(position, count)
    view = context(position, count, tool=(view.object_position - CONTACT * _push_direction(view))[0])
    return float(GUIDE.potential(view)[0])


@pytest.mark.parametrize(
    ("position", "count", "passed_length", "segment", "left"),
    [
        (START, 0, 0.0, 0.2, 0.2),
        ((0.15, 0.0, 0.0), 0, 0.0, 0.2, 0.05),
        ((0.2, 0.04, 0.0), 1, 0.2, 0.1, 0.06),
        ((0.2, 0.1, 0.0), 2, 0.3, 0.2, 0.2),
        (LYING[-1], 0, 0.0, 0.2, np.hypot(0.2, 0.1)),  # the goal is not reached by a short cut
    ],
)
def test_the_potential_is_the_path_that_is_passed_and_the_progress_of_the_segment(
    position: Any, count: int, passed_length: float, segment: float, left: float
) -> None:
    """The path has segments of 0.2, 0.1 and 0.2 m from the start of the object."""
    advance = float(progress(np.array([left]), HALF_SEGMENT * segment)[0])
    expected = (passed_length + segment * ((1.0 - STAND_SHARE) * advance + STAND_SHARE)) / 0.5
    assert potential_behind(position, count) == pytest.approx(expected)


def test_the_potential_is_1_at_the_end() -> None:
    assert potential_behind(LYING[-1], 3) == pytest.approx(1.0)


@pytest.mark.parametrize("path", [LYING, UPRIGHT])
def test_to_pass_a_point_costs_nothing(path: Any) -> None:
    """The tool is still behind the object on the segment that ends, far from its place on the next segment."""
    for count, point in enumerate(path):
        view = context(point, count, path=path)
        tool = (view.object_position - CONTACT * _push_direction(view))[0]
        before, after = (float(GUIDE.potential(context(point, n, tool, path))[0]) for n in (count, count + 1))
        assert after >= before - 1e-9


# the expert -----------------------------------------------------------------------------------------------------------


def test_the_expert_pushes_from_behind_towards_the_next_point() -> None:
    tool = np.array([-BEHIND, 0.0, 0.01])
    end = target(START, tool=tool)
    assert end[0] > tool[0]
    np.testing.assert_allclose(end[1:], 0.0, atol=1e-9)
    tool[1] = 0.01
    np.testing.assert_allclose(target(START, tool=tool), end, atol=1e-9)  # back onto the line


@pytest.mark.parametrize(("path", "front"), [(LYING, (0, 0, 1)), (UPRIGHT, (-1, 0, 0))])
def test_the_expert_moves_around_in_front_of_the_path(path: Any, front: Any) -> None:
    """From the wrong side the tool goes out, along the path, and in again behind the object."""
    out, position = np.array(front), np.array(path[0])
    direction = np.array(path[1]) - path[0]
    direction[2] = 0.0  # gravity determines the height
    direction /= np.linalg.norm(direction)
    tool = position + 0.05 * direction
    np.testing.assert_allclose(target(position, 1, tool, path), tool + HOVER * out)
    begin = position - BEHIND * direction
    np.testing.assert_allclose(target(position, 1, tool + HOVER * out, path), begin + HOVER * out)
    np.testing.assert_allclose(target(position, 1, begin + HOVER * out, path), begin)
    assert GUIDE.start_pose is not None
    np.testing.assert_allclose(GUIDE.start_pose(context(position, 1, tool, path))[0], begin)


def test_an_object_far_from_the_leg_is_pushed_back_to_it() -> None:
    assert GUIDE.start_pose is not None
    np.testing.assert_allclose(GUIDE.start_pose(context((0.0, 0.019, 0.0)))[0], (-BEHIND, 0.019, 0.0), atol=1e-9)
    assert GUIDE.start_pose(context((0.0, 0.06, 0.0)))[0, 1] > 0.06


def test_an_object_at_the_goal_is_not_pushed() -> None:
    goal = np.array(LYING[-1])
    tool = goal + np.array([BEHIND, 0.0, 0.0])
    np.testing.assert_allclose(target(goal, 3, tool), tool + np.array([0.0, 0.0, HOVER]))


def test_torch_agrees_with_numpy() -> None:
    rng = np.random.default_rng(0)
    for count in range(4):
        in_numpy = context(rng.normal(0.1, 0.1, 3), count, rng.normal(0.1, 0.1, 3))
        fields = {name: torch.from_numpy(getattr(in_numpy.progress, name)) for name in Progress.__slots__}
        state = {name: torch.from_numpy(getattr(in_numpy.state, name)) for name in State.__slots__}
        in_torch = StageContext(State(**state), Progress(**fields), torch.from_numpy(in_numpy.goals), in_numpy.bound)
        for function in (GUIDE.potential, GUIDE.count, GUIDE.waypoint):
            assert function is not None
            np.testing.assert_allclose(function(in_numpy), function(in_torch))
        targets = [GUIDE.expert(each, lambda context: context.target).target for each in (in_numpy, in_torch)]
        np.testing.assert_allclose(*targets)


@pytest.mark.parametrize(("task", "robot"), [("maze", "kuka"), ("maze", "panda"), ("vertical_maze", "kuka_gripper")])
def test_the_expert_guides_through_the_maze(task: str, robot: str) -> None:
    env = RobotEnv(task, robot)
    env.reset(seed=0)
    counts, ended = [], False
    while not ended:
        _, _, ended, truncated, info = env.step(env.expert_action())
        counts.append(int(env.progress.count[0]))
        assert not truncated
    assert info["is_success"]
    assert max(counts) == len(env.workspace.paths["solution"])
    env.close()
