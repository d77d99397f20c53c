"""Stages of an object in the hand: rotate, transform (along an arc), follow (a moving goal), and hand over."""

from __future__ import annotations

import math

from mygym.tasks.context import ArmCommand, StageContext, StartPose, wrapped
from mygym.tasks.predicates import distance, second_grip
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.handling import CARRYING, carrying_progress, from_above, move_potential
from mygym.tasks.stages.motions import closeness, lifted, limited, planar_distance, with_height
from mygym.tasks.state import TIME_STEP, namespace
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

ADVANCE, CALM_ADVANCE = 0.04, 0.012
"""m per control step: of a held object, and of a long object, which swings in the fingers when it moves faster."""


def _bring_to(context: StageContext, position: Array, ee_position: Array, advance: float = CALM_ADVANCE) -> Array:
    """`(N, 3)` m: next target of the end effector that brings the object to `position`, by `advance` m at most."""
    return limited(ee_position, position + ee_position - context.object_position, advance)


def _rotate_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Turn the object above the table; if the stage began at the goal, turn it at its position."""
    xp = namespace(context.goal)
    at_goal = distance(context.start_object_position, context.goal) < context.thresholds.tolerance
    target = xp.where(at_goal[:, None], context.start_ee_position, lifted(context.start_ee_position, 0.06))
    missing = wrapped(context.goal_yaw - context.object_yaw)
    return ArmCommand(limited(context.ee_position, target, 0.02), CLOSED, xp.clip(missing, -0.1, 0.1))


ROTATE = Stage("rotate", "R", ("held",), ("turned",), "turn {object}",
               lambda context: 1.0 - abs(wrapped(context.object_yaw - context.goal_yaw)) / math.pi, _rotate_expert,
               needs_tool_yaw=True)  # fmt: skip


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


def _transform_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    return ArmCommand(_bring_to(context, _arc(context), context.ee_position, ADVANCE), CLOSED)


TRANSFORM = Stage("transform", "T", ("held",), ("traced", "placed"), "carry {object} along an arc {goal}",
                  _transform_potential, _transform_expert, complete=_all_points_passed, count=_points_passed,
                  waypoint=_arc)  # fmt: skip


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


def _follow_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    return ArmCommand(_bring_to(context, _moving_goal(context, TIME_STEP), context.ee_position, ADVANCE), CLOSED)


FOLLOW = Stage("follow", "F", ("held",), ("followed",), "follow the moving goal with {object}",
               lambda context: closeness(distance(context.object_position, _moving_goal(context)), RADIUS),
               _follow_expert, ends=("placed",), complete=_followed_long_enough, count=_steps_at_moving_goal,
               waypoint=_moving_goal)  # fmt: skip


FIRM_STEPS = 5
"""Control steps for which the second hand must hold the object before the first opens."""


def _handover_position(context: StageContext) -> Array:
    """`(N, 3)` m: position at which the other hand takes the object."""
    return context.path[:, 0]


def _second_ee(context: StageContext) -> Array:
    """`(N, 3)` m: end-effector point of the second arm."""
    return context.state.second_ee_position[:, 0]


def _offer_potential(context: StageContext) -> Array:
    """`(N,)`: progress of the object to the other hand, as far as it is lifted: else a policy drags it to and fro."""
    position = _handover_position(context)
    return from_above(context, position, 0.0, 0.0, carrying_progress(context, position))


def _offer_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    target = _bring_to(context, _handover_position(context), context.ee_position)
    second_target = limited(_second_ee(context), lifted(second_grip(context), 0.10), 0.02)
    return ArmCommand(target, CLOSED, second_target=second_target)


OFFER = Stage("offer", "", ("held",), ("offered",), "offer {object} to the other hand", _offer_potential,
              _offer_expert, weight=CARRYING, arms=2, waypoint=_handover_position)  # fmt: skip


def _steps_held_by_both(context: StageContext) -> Array:
    """Return the consecutive control steps in which every finger of the second hand has pressed on the object."""
    return (context.count + 1) * context.state.second_finger_contact[:, context.bound.object or 0].all(-1)


def _hand_over_potential(context: StageContext) -> Array:
    """`(N,)`: the second hand at its grip, its fingers on the object, and then the first hand apart from it."""
    xp = namespace(context.ee_position)
    close = closeness(distance(_second_ee(context), second_grip(context)), context.thresholds.near)
    second = xp.astype(context.state.second_finger_contact[:, context.bound.object or 0], close.dtype).mean(-1)
    first = xp.astype(context.finger_contact, close.dtype).mean(-1)
    return 0.4 * close + 0.3 * second + 0.3 * second * (1.0 - first)


def _hand_over_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Lower the second hand onto the other end and close it; open the first hand when the second holds."""
    xp = namespace(context.ee_position)
    grip, second_ee = second_grip(context), _second_ee(context)
    is_beside = planar_distance(second_ee, grip) > 0.015
    second_target = with_height(grip, xp.where(is_beside, grip[:, 2] + 0.10, grip[:, 2]))
    closes = distance(second_ee, grip) < 0.015
    opens = context.count >= FIRM_STEPS
    target = xp.where(
        (closes | opens)[:, None],
        context.ee_position,
        _bring_to(context, _handover_position(context), context.ee_position),
    )
    return ArmCommand(
        target,
        xp.where(opens, OPEN, CLOSED),
        second_target=limited(second_ee, second_target, CALM_ADVANCE),
        second_gripper=xp.where(closes | (context.count > 0), CLOSED, OPEN),
    )


HAND_OVER = Stage("hand_over", "", ("held", "offered"), ("handed",), "hand {object} over", _hand_over_potential,
                  _hand_over_expert, ends=("near", "held"), count=_steps_held_by_both, arms=2,
                  waypoint=_handover_position)  # fmt: skip


def _bring_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Bring the object to the goal with the second hand, and move the first up out of the way."""
    retreat = limited(context.ee_position, lifted(context.start_ee_position, 0.12), 0.03)
    return ArmCommand(
        retreat, OPEN, second_target=_bring_to(context, context.goal, _second_ee(context)), second_gripper=CLOSED
    )


BRING = Stage("bring", "", ("handed",), ("placed",), "bring {object} {goal}", move_potential, _bring_expert,
              weight=CARRYING, arms=2)  # fmt: skip

for _stage in (ROTATE, TRANSFORM, FOLLOW, OFFER, HAND_OVER, BRING):
    register_stage(_stage.name, _stage)
