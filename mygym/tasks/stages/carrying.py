"""The stages of an object in the hand: rotate, transform (along a path), follow (a moving goal)."""

from __future__ import annotations

import math

from mygym.tasks.facts import distance
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.motions import lifted, limited
from mygym.tasks.state import Array, namespace
from mygym.tasks.view import EntryPoint, Motion, View, wrapped

POINTS = 8
"""Of the arc of `transform`, the last of which is the goal."""

RISE = 0.10
"""m by which the arc rises above the straight line."""

PASSED = 0.03
"""m within which a point counts as passed."""

RADIUS, PERIOD = 0.06, 4.0
"""m and s of the circle on which the goal of `follow` moves."""

FOLLOWED = 25
"""Steps in a row that the object must be with it."""

TIME_STEP = 0.04
"""s: experts of moving goals look one control step ahead."""


# rotate -------------------------------------------------------------------------------------------------------------


def _rotate_potential(view: View) -> Array:
    return 1.0 - abs(wrapped(view.object_heading - view.goal_heading)) / math.pi


def _rotate_expert(view: View, entry: EntryPoint) -> Motion:
    """Turn above the table, or where the object is if that is the goal already."""
    xp = namespace(view.goal)
    at_goal = distance(view.start_object_position, view.goal) < view.thresholds.tolerance
    target = xp.where(at_goal[:, None], view.start_ee_position, lifted(view.start_ee_position, 0.06))
    missing = wrapped(view.goal_heading - view.object_heading)
    return Motion(limited(view.ee_position, target, 0.02), CLOSED, xp.clip(missing, -0.1, 0.1))


# transform ----------------------------------------------------------------------------------------------------------


def _arc(view: View) -> Array:
    """`(N, 3)`: the next point of an arc from where the object was to the goal."""
    xp = namespace(view.goal)
    share = xp.clip((xp.astype(view.count, view.goal.dtype) + 1.0) / POINTS, 0.0, 1.0)[:, None]
    straight = view.start_object_position + share * (view.goal - view.start_object_position)
    return lifted(straight, RISE * xp.sin(math.pi * share[:, 0]))


def _points_passed(view: View) -> Array:
    passed = distance(view.object_position, _arc(view)) < PASSED
    return view.count + passed * (view.count < POINTS)


def _all_passed(view: View) -> Array:
    return view.count >= POINTS


def _transform_potential(view: View) -> Array:
    xp = namespace(view.goal)
    close = 1.0 - xp.clip(distance(view.object_position, _arc(view)) / (2 * RISE), 0.0, 1.0)
    return xp.clip((xp.astype(view.count, view.goal.dtype) + close) / (POINTS + 1), 0.0, 1.0)


def _carry_expert(view: View, there: Array) -> Motion:
    return Motion(limited(view.ee_position, there + view.ee_position - view.object_position, 0.04), CLOSED)


def _transform_expert(view: View, entry: EntryPoint) -> Motion:
    return _carry_expert(view, _arc(view))


# follow -------------------------------------------------------------------------------------------------------------


def _moving_goal(view: View, ahead: float = 0.0) -> Array:
    """`(N, 3)`: a point on a circle round the goal."""
    xp = namespace(view.goal)
    phase = 2.0 * math.pi / PERIOD * (view.state.time + ahead)
    way = xp.stack([xp.cos(phase), xp.sin(phase), xp.zeros_like(phase)], axis=-1)
    return view.goal + RADIUS * way


def _steps_with_it(view: View) -> Array:
    with_it = distance(view.object_position, _moving_goal(view)) < view.thresholds.tolerance
    return (view.count + 1) * with_it


def _long_enough(view: View) -> Array:
    return view.count >= FOLLOWED


def _follow_potential(view: View) -> Array:
    xp = namespace(view.goal)
    close = 1.0 - xp.clip(distance(view.object_position, _moving_goal(view)) / 0.3, 0.0, 1.0)
    return 0.5 * close + 0.5 * xp.clip(xp.astype(view.count, view.goal.dtype) / FOLLOWED, 0.0, 1.0)


def _follow_expert(view: View, entry: EntryPoint) -> Motion:
    return _carry_expert(view, _moving_goal(view, TIME_STEP))


ROTATE = Stage("rotate", "R", ("held",), ("turned",), "turn {object}", _rotate_potential, _rotate_expert,
               needs_turning=True)  # fmt: skip
TRANSFORM = Stage("transform", "T", ("held",), ("traced", "placed"), "carry {object} along an arc {goal}",
                  _transform_potential, _transform_expert, complete=_all_passed, count=_points_passed,
                  waypoint=_arc)  # fmt: skip
FOLLOW = Stage("follow", "F", ("held",), ("followed",), "follow the moving goal with {object}", _follow_potential,
               _follow_expert, ends=("placed",), complete=_long_enough, count=_steps_with_it,
               waypoint=_moving_goal)  # fmt: skip

for _stage in (ROTATE, TRANSFORM, FOLLOW):
    register_stage(_stage.name, _stage)
