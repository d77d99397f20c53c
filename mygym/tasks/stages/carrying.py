"""Stages of an object in the hand: rotate, transform (along an arc), follow (a moving goal)."""

from __future__ import annotations

import math

from mygym.tasks.context import ArmCommand, StageContext, StartPose, wrapped
from mygym.tasks.predicates import distance
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.motions import closeness, lifted, limited
from mygym.tasks.state import namespace
from mygym.types import Array

ARC_POINTS = 8
"""Points of the arc of `transform`; the last is the goal."""

ARC_HEIGHT = 0.10
"""m: height of the arc above the straight line."""

PASSED = 0.03
"""m: distance within which a point of the arc is passed."""

RADIUS, PERIOD = 0.06, 4.0
"""m and s: circle on which the goal of `follow` moves."""

FOLLOW_STEPS = 25
"""Consecutive control steps for which the object must be at the moving goal."""

TIME_STEP = 0.04
"""s: duration of a control step; the expert of a moving goal looks one step ahead."""


# rotate -------------------------------------------------------------------------------------------------------------


def _rotate_potential(context: StageContext) -> Array:
    return 1.0 - abs(wrapped(context.object_yaw - context.goal_yaw)) / math.pi


def _rotate_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Turn the object above the table; if the stage began at the goal, turn it at its position."""
    xp = namespace(context.goal)
    at_goal = distance(context.start_object_position, context.goal) < context.thresholds.tolerance
    target = xp.where(at_goal[:, None], context.start_ee_position, lifted(context.start_ee_position, 0.06))
    missing = wrapped(context.goal_yaw - context.object_yaw)
    return ArmCommand(limited(context.ee_position, target, 0.02), CLOSED, xp.clip(missing, -0.1, 0.1))


# transform ----------------------------------------------------------------------------------------------------------


def _arc(context: StageContext) -> Array:
    """`(N, 3)` m: the next point of the arc from the object's start position to the goal."""
    xp = namespace(context.goal)
    share = xp.clip((xp.astype(context.count, context.goal.dtype) + 1.0) / ARC_POINTS, 0.0, 1.0)[:, None]
    straight = context.start_object_position + share * (context.goal - context.start_object_position)
    return lifted(straight, ARC_HEIGHT * xp.sin(math.pi * share[:, 0]))


def _points_passed(context: StageContext) -> Array:
    passed = distance(context.object_position, _arc(context)) < PASSED
    return context.count + passed * (context.count < ARC_POINTS)


def _all_points_passed(context: StageContext) -> Array:
    """Return whether every point of the arc is passed."""
    return context.count >= ARC_POINTS


def _transform_potential(context: StageContext) -> Array:
    xp = namespace(context.goal)
    close = closeness(distance(context.object_position, _arc(context)), ARC_HEIGHT)
    return xp.clip((xp.astype(context.count, context.goal.dtype) + close) / (ARC_POINTS + 1), 0.0, 1.0)


def _carry_expert(context: StageContext, position: Array) -> ArmCommand:
    target = position + context.ee_position - context.object_position
    return ArmCommand(limited(context.ee_position, target, 0.04), CLOSED)


def _transform_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    return _carry_expert(context, _arc(context))


# follow -------------------------------------------------------------------------------------------------------------


def _moving_goal(context: StageContext, ahead: float = 0.0) -> Array:
    """`(N, 3)` m: the moving goal, on a circle around the goal, `ahead` seconds from now."""
    xp = namespace(context.goal)
    phase = 2.0 * math.pi / PERIOD * (context.state.time + ahead)
    direction = xp.stack([xp.cos(phase), xp.sin(phase), xp.zeros_like(phase)], axis=-1)
    return context.goal + RADIUS * direction


def _steps_at_moving_goal(context: StageContext) -> Array:
    """Return the consecutive control steps for which the object has been at the moving goal."""
    is_at_goal = distance(context.object_position, _moving_goal(context)) < context.thresholds.tolerance
    return (context.count + 1) * is_at_goal


def _followed_long_enough(context: StageContext) -> Array:
    """Return whether the object has been at the moving goal for 25 control steps in a row."""
    return context.count >= FOLLOW_STEPS


def _follow_potential(context: StageContext) -> Array:
    return closeness(distance(context.object_position, _moving_goal(context)), RADIUS)


def _follow_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    return _carry_expert(context, _moving_goal(context, TIME_STEP))


ROTATE = Stage("rotate", "R", ("held",), ("turned",), "turn {object}", _rotate_potential, _rotate_expert,
               needs_tool_yaw=True)  # fmt: skip
TRANSFORM = Stage("transform", "T", ("held",), ("traced", "placed"), "carry {object} along an arc {goal}",
                  _transform_potential, _transform_expert, complete=_all_points_passed, count=_points_passed,
                  waypoint=_arc)  # fmt: skip
FOLLOW = Stage("follow", "F", ("held",), ("followed",), "follow the moving goal with {object}", _follow_potential,
               _follow_expert, ends=("placed",), complete=_followed_long_enough, count=_steps_at_moving_goal,
               waypoint=_moving_goal)  # fmt: skip

for _stage in (ROTATE, TRANSFORM, FOLLOW):
    register_stage(_stage.name, _stage)
