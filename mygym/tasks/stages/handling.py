"""Stages of one hand: approach, grasp, move, insert, drop, withdraw."""

from __future__ import annotations

import math

from mygym.tasks.context import ArmCommand, StageContext, StartPose, wrapped
from mygym.tasks.predicates import PUT_DOWN_HEIGHT, at_goal, at_rest, distance, near_radius, touched
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.motions import (
    closeness,
    closeness_outside,
    lifted,
    limited,
    over_then_down,
    planar_distance,
    progress,
    travel_progress,
    with_height,
)
from mygym.tasks.state import namespace
from mygym.types import Array

SETTLED = 0.006
"""m from the goal within which the object is released."""

PATIENCE = 12
"""Control steps after which the object is released anyway: the surface below it may be higher than expected."""

HOLE_DEPTH = 0.05
"""m above its goal in a hole: an object that is higher is outside the hole."""

ARRIVAL_HEIGHT, AIR_HEIGHT, LOWERING = 0.04, 0.01, 0.015
"""m above its goal at which an object arrives before it is lowered; and if no stage puts it down, as a goal in the air
may be as high as the arm reaches. m beside its goal within which it is lowered."""

LIFT, RESTING = 0.08, 0.1
"""m by which an object is lifted before it is carried, and largest height of a tool at an object that rests: a stage
that begins again in the air would ask for a height beyond the reach of short arms."""

CLEARANCE, PRECISE, DESCENT = 0.02, 0.01, 0.03
"""m above the goal at which a carried object arrives; m beside the goal within which it may be as low as the goal, and
m beyond that over which it descends."""

PRECISE_IN_HOLE = 0.003
"""m beside a goal in a hole within which an object may be inside the hole."""

LIFT_SHARE, MISSING_HALF = 0.3, 0.03
"""Share of the potential for the height of an object that is carried over its goal, and m too low for half of it. For
high goals it is half of their height, so that lifting is rewarded from the table on."""

HALF = 0.2
"""m beyond the area of `near` at which half of the potential of the approach is left."""

BETWEEN, GRASP_HALF = 0.02, 0.04
"""m from the grip point: full closeness within the first, half of it beyond that by the second."""

STOPPED = 0.05
"""m/s of the tool up or down below which the palm rests on what it touches."""

AT_GRIP, PALM = 0.012, 0.03
"""m between the tool and the grip within which the fingers close; and m above the grip up to which they go on closing
with the palm on the object."""

CARRYING = 3.0
"""Weight of stages that carry an object: the reward of lifting must exceed the risk of losing it."""

RELEASING = 2.0
"""Weight of stages after an object is released: their reward must exceed the risk of losing it."""


def approach_potential(context: StageContext) -> Array:
    """`(N,)`: closeness of the end effector to the target, full where `near` holds on: beyond, the next stage leads."""
    return closeness_outside(distance(context.ee_position, context.target), near_radius(context), HALF)


def aligned(context: StageContext) -> Array | None:
    """`(N,)` rad: missing change of the tool's yaw to grasp the object along its axes; None without an object."""
    if context.bound.object is None:
        return None
    missing = wrapped(context.object_yaw - context.state.tool_yaw)
    xp = namespace(missing)
    half = xp.where(missing > 0.5 * math.pi, missing - math.pi, missing)  # two fingers: half a turn makes no difference
    return xp.where(half < -0.5 * math.pi, half + math.pi, half)


def _approach_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    if not context.has_target:
        return ArmCommand(context.goal, OPEN)
    return ArmCommand(over_then_down(context, start_pose(context)), OPEN, aligned(context))


APPROACH = Stage("approach", "A", ("free",), ("near",), "approach {object}", approach_potential, _approach_expert,
                 needs_object=False)  # fmt: skip


def _grasp_potential(context: StageContext) -> Array:
    between = closeness_outside(distance(context.ee_position, context.target), BETWEEN, GRASP_HALF)
    return 0.5 * between + 0.5 * _touch(context)


def _touch(context: StageContext) -> Array:
    """`(N,)`: share of the fingers that press on the object."""
    return namespace(context.ee_position).astype(context.finger_contact, context.ee_position.dtype).mean(-1)


def _grasp_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Close the fingers at the grip; or, without more pressure, where the palm rests on a tall object."""
    grip, ee = context.target, context.ee_position
    xp = namespace(grip)
    is_at_grip = distance(ee, grip) < AT_GRIP
    on_palm = touched(context) & ~xp.any(context.finger_contact, axis=-1)
    on_palm = on_palm & (abs(context.state.ee_velocity[:, 2]) < STOPPED)
    closing = (context.state.gripper_command < 0.5) & (ee[:, 2] < grip[:, 2] + PALM)
    rests = (on_palm | closing) & (planar_distance(ee, grip) < AT_GRIP) & ~is_at_grip
    target = xp.where(is_at_grip[:, None], grip, over_then_down(context, grip))
    target = xp.where(rests[:, None], with_height(grip, ee[:, 2]), target)
    return ArmCommand(target, xp.where(is_at_grip | rests, CLOSED, OPEN), aligned(context))


GRASP = Stage("grasp", "G", ("free", "near"), ("held",), "grasp {object}", _grasp_potential, _grasp_expert,
              start_pose=lambda context: lifted(context.target, 0.05), needs_gripper=True)  # fmt: skip


def move_potential(context: StageContext) -> Array:
    """`(N,)`: progress of the object to the goal; from above if a later stage puts the object down."""
    if context.bound.put_down_by is None:
        return carrying_progress(context, context.goal)
    return from_above(context, context.goal, CLEARANCE, PRECISE, carrying_progress(context, context.goal))


def from_above(context: StageContext, goal: Array, clearance: float, precise: float, travelled: Array) -> Array:
    """`(N,)`: progress of the object to a goal `(N, 3)` m, as far as it is high enough to meet nothing on its way.

    The object arrives `clearance` m above the goal; within `precise` m beside the goal it may be as low. `travelled`
    `(N,)`, in [0, 1], is the progress of an object that is high enough.
    """
    xp = namespace(goal)
    beside = planar_distance(context.object_position, goal)
    needed = goal[:, 2] + clearance * xp.clip((beside - precise) / DESCENT, 0.0, 1.0)
    missing = xp.maximum(needed - context.object_position[:, 2], 0.0)
    lift = progress(missing, xp.maximum(0.5 * goal[:, 2], MISSING_HALF))
    return LIFT_SHARE * lift + (1.0 - LIFT_SHARE) * progress(missing, MISSING_HALF) * travelled


def carrying_progress(context: StageContext, position: Array) -> Array:
    """`(N,)`: progress of the object to `position` `(N, 3)` m."""
    return travel_progress(distance(context.object_position, position), context.thresholds.tolerance)


def _move_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Carry the object up, over and down, so that it knocks nothing over on the way or at the goal."""
    xp = namespace(context.goal)
    ee = context.ee_position
    target = context.goal + ee - context.object_position
    is_far = planar_distance(context.object_position, context.goal) > LOWERING
    lifted = xp.clip(context.start_ee_position[:, 2], None, RESTING) + LIFT
    cruise = xp.maximum(target[:, 2] + (AIR_HEIGHT if context.bound.put_down_by is None else ARRIVAL_HEIGHT), lifted)
    height = xp.where(is_far, cruise, target[:, 2])
    is_low = is_far & (ee[:, 2] < cruise - 0.04)
    next_target = xp.where(is_low[:, None], ee, target)
    return ArmCommand(limited(ee, with_height(next_target, height), 0.04), CLOSED)


MOVE = Stage("move", "M", ("held",), ("placed",), "move {object} {goal}", move_potential, _move_expert,
             weight=CARRYING, stops_above=True)  # fmt: skip


def _insert_potential(context: StageContext) -> Array:
    """`(N,)`: progress of the object to a point over the hole, from above, and then into the hole.

    The distance beside the hole counts, not that to the goal, which has no slope above the middle of the goal.
    """
    beside = planar_distance(context.object_position, context.goal)
    above = abs(context.object_position[:, 2] - context.goal[:, 2])
    over = travel_progress(beside, PRECISE_IN_HOLE)
    into = closeness(beside, PRECISE_IN_HOLE) * progress(above, HOLE_DEPTH)
    return from_above(context, context.goal, HOLE_DEPTH + 0.01, PRECISE_IN_HOLE, 0.5 * over + 0.5 * into)


def _insert_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Move over the hole, slowly, so that the object does not swing; then straight down without corrections."""
    xp = namespace(context.goal)
    ee = context.ee_position
    goal = context.goal + ee - context.object_position
    beside = planar_distance(context.object_position, context.goal)
    above = context.object_position[:, 2] - context.goal[:, 2]
    enters = (beside < 0.0015) | ((beside < 0.004) & (above < HOLE_DEPTH))
    is_low = ~enters & (beside > 0.015) & (above < HOLE_DEPTH)
    target = xp.where(is_low[:, None], ee, goal)
    target = with_height(target, xp.where(enters, goal[:, 2], goal[:, 2] + HOLE_DEPTH + 0.015))
    advance = 0.004 + 0.008 * xp.astype(~enters & (beside >= 0.02), ee.dtype)
    return ArmCommand(limited(ee, target, advance[:, None]), CLOSED)


INSERT = Stage("insert", "", ("held",), ("placed",), "insert {object} {goal}", _insert_potential, _insert_expert,
               weight=CARRYING)  # fmt: skip


def _drop_potential(context: StageContext) -> Array:
    """`(N,)`: the object at the goal, fingers that do not touch it, and the command to open, a third each.

    The command counts, as fingers that are commanded to open a little still press on the object.
    """
    at_goal = closeness(distance(context.object_position, context.goal), context.thresholds.tolerance)
    return (at_goal + (1.0 - _touch(context)) + context.state.gripper_command) / 3.0


def _drop_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Bring an object near the goal to rest at the goal, then open."""
    xp = namespace(context.goal)
    distance_to_goal = distance(context.object_position, context.goal)
    is_over = planar_distance(context.object_position, context.goal) < 2 * context.thresholds.tolerance
    is_near = is_over & (distance_to_goal < PUT_DOWN_HEIGHT + context.thresholds.tolerance)
    ee_goal = context.goal + context.ee_position - context.object_position
    opens = ~is_near | (distance_to_goal < SETTLED) | (context.count >= PATIENCE) | ~context.finger_contact.all(-1)
    target = xp.where((is_near & ~opens)[:, None], ee_goal, context.ee_position)
    return ArmCommand(limited(context.ee_position, target, 0.02), xp.where(opens, OPEN, CLOSED))


def _lies_at_goal(context: StageContext) -> Array:
    """Return whether the object is at rest, and at its goal if the stage puts it down at a goal."""
    rests = at_rest(context)
    return rests if context.bound.put_down_by is None else rests & at_goal(context)


DROP = Stage("drop", "D", ("held",), ("free",), "release {object}", _drop_potential, _drop_expert,
             complete=_lies_at_goal, count=lambda context: context.count + 1, weight=RELEASING)  # fmt: skip


def _withdraw_potential(context: StageContext) -> Array:
    xp = namespace(context.ee_position)
    return xp.clip(distance(context.ee_position, context.target) / context.thresholds.clear, 0.0, 1.0)


WITHDRAW = Stage("withdraw", "W", ("free",), ("clear",), "withdraw", _withdraw_potential,
                 lambda context, start_pose: ArmCommand(lifted(context.start_ee_position, 0.25), OPEN),
                 weight=RELEASING)  # fmt: skip

for _stage in (APPROACH, GRASP, MOVE, INSERT, DROP, WITHDRAW):
    register_stage(_stage.name, _stage)
