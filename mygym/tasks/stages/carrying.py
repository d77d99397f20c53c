"""The stages of an object in the hand: rotate, transform (along a path), follow (a moving goal)."""

from __future__ import annotations

import math

from mygym.tasks.context import ArmCommand, StageContext, StartPose, wrapped
from mygym.tasks.predicates import distance
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.motions import lifted, limited
from mygym.tasks.state import namespace
from mygym.types import Array

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


def _rotate_potential(context: StageContext) -> Array:
    return 1.0 - abs(wrapped(context.object_yaw - context.goal_yaw)) / math.pi


def _rotate_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """Turn above the table, or where the object is if that is the goal already."""
    xp = namespace(context.goal)
    at_goal = distance(context.start_object_position, context.goal) < context.thresholds.tolerance
    target = xp.where(at_goal[:, None], context.start_ee_position, lifted(context.start_ee_position, 0.06))
    missing = wrapped(context.goal_yaw - context.object_yaw)
    return ArmCommand(limited(context.ee_position, target, 0.02), CLOSED, xp.clip(missing, -0.1, 0.1))


# transform ----------------------------------------------------------------------------------------------------------


def _arc(context: StageContext) -> Array:
    """`(N, 3)`: the next point of an arc from where the object was to the goal."""
    xp = namespace(context.goal)
    share = xp.clip((xp.astype(context.count, context.goal.dtype) + 1.0) / POINTS, 0.0, 1.0)[:, None]
    straight = context.start_object_position + share * (context.goal - context.start_object_position)
    return lifted(straight, RISE * xp.sin(math.pi * share[:, 0]))


def _points_passed(context: StageContext) -> Array:
    passed = distance(context.object_position, _arc(context)) < PASSED
    return context.count + passed * (context.count < POINTS)


def _all_passed(context: StageContext) -> Array:
    return context.count >= POINTS


def _transform_potential(context: StageContext) -> Array:
    xp = namespace(context.goal)
    close = 1.0 - xp.clip(distance(context.object_position, _arc(context)) / (2 * RISE), 0.0, 1.0)
    return xp.clip((xp.astype(context.count, context.goal.dtype) + close) / (POINTS + 1), 0.0, 1.0)


def _carry_expert(context: StageContext, there: Array) -> ArmCommand:
    return ArmCommand(limited(context.ee_position, there + context.ee_position - context.object_position, 0.04), CLOSED)


def _transform_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    return _carry_expert(context, _arc(context))


# follow -------------------------------------------------------------------------------------------------------------


def _moving_goal(context: StageContext, ahead: float = 0.0) -> Array:
    """`(N, 3)`: a point on a circle round the goal."""
    xp = namespace(context.goal)
    phase = 2.0 * math.pi / PERIOD * (context.state.time + ahead)
    way = xp.stack([xp.cos(phase), xp.sin(phase), xp.zeros_like(phase)], axis=-1)
    return context.goal + RADIUS * way


def _steps_with_it(context: StageContext) -> Array:
    with_it = distance(context.object_position, _moving_goal(context)) < context.thresholds.tolerance
    return (context.count + 1) * with_it


def _long_enough(context: StageContext) -> Array:
    return context.count >= FOLLOWED


def _follow_potential(context: StageContext) -> Array:
    xp = namespace(context.goal)
    close = 1.0 - xp.clip(distance(context.object_position, _moving_goal(context)) / 0.3, 0.0, 1.0)
    return 0.5 * close + 0.5 * xp.clip(xp.astype(context.count, context.goal.dtype) / FOLLOWED, 0.0, 1.0)


def _follow_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    return _carry_expert(context, _moving_goal(context, TIME_STEP))


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
