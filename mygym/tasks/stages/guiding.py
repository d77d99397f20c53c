"""Stages that push along a path or move a part of the workspace: guide, press, turn, open."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import distance, length
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.motions import (
    flat,
    horizontal,
    lifted,
    over_then_down,
    progress,
    progress_to_goal,
    with_stand,
)
from mygym.tasks.state import namespace
from mygym.types import Array

PASSED = 0.035
"""m along each axis within which a point is passed; enough for an object in a corner of the passage around it."""

BESIDE = 0.02
"""m: distance from the segment between two points that is not corrected."""

BEHIND = 0.065
"""m between the end effector and the object's centre when a push begins: half an object plus half a tool."""

CONTACT = 0.045
"""m between the end effector and the object's centre when the tool pushes."""

HALF_SEGMENT, SHORTEST = 0.6, 0.05
"""Share of a segment's length from its end at which half of its progress is left; and its smallest length, m."""

ENTRANCE = 0.012
"""m from the start of the push within which the tool moves in; wider at greater depth, so that it does not waver."""

HOVER, CLEAR = 0.055, 0.04
"""m in front of the object's centre: where the tool moves around the object, and from where it is clear of it."""

PATH_WEIGHT = 3.0
"""Weight of the stage: the reward of a segment must exceed the cost of moving around the object."""

LEVEL = 0.05
"""m: largest height difference of a path that lies flat; other paths stand upright, facing the robot."""


def _point(context: StageContext, number: Array) -> Array:
    """`(N, 3)` m: the point of index `number` `(N,)`; before the first the object's start, after the last the goal."""
    xp = namespace(context.goal)
    points = xp.concat([context.start_object_position[:, None], context.path], axis=1)
    chosen = xp.arange(points.shape[1]) == xp.minimum(number + 1, points.shape[1] - 1)[:, None]
    return xp.where(chosen[:, :, None], points, xp.zeros_like(points)).sum(1)


def _waypoint(context: StageContext) -> Array:
    """`(N, 3)` m: the first point that is not passed; the goal when all are."""
    return _point(context, context.count)


def _points_passed(context: StageContext) -> Array:
    """`(N,)`: points passed: one more at the next point, fewer if the object is back at an earlier point."""
    xp = namespace(context.goal)
    numbers = xp.arange(context.path.shape[1])
    is_at = abs(context.object_position[:, None] - context.path) < PASSED
    is_passed = is_at.all(-1) & (numbers <= context.count[:, None])
    passed = xp.max(xp.where(is_passed, numbers + 1, 0 * numbers), axis=1)
    return xp.where(passed > 0, passed, context.count)


def _all_passed(context: StageContext) -> Array:
    """Return whether every point of the path is passed."""
    return context.count >= context.path.shape[1]


def _potential(context: StageContext) -> Array:
    """`(N,)`: share of the path that is passed, and for the present segment its progress and a tool behind the object.

    A segment that is passed counts in full, with its share for the tool's place: the reward must not drop while the
    tool moves around a corner; otherwise the policy stops there.
    """
    xp = namespace(context.goal)
    points = xp.concat([context.start_object_position[:, None], context.path], axis=1)
    lengths = xp.maximum(distance(points[:, 1:], points[:, :-1]), SHORTEST)
    numbers, count = xp.arange(lengths.shape[1]), context.count[:, None]
    none = xp.zeros_like(lengths)
    passed, segment = (xp.where(rows, lengths, none).sum(1) for rows in (numbers < count, numbers == count))
    half = HALF_SEGMENT * xp.maximum(segment, SHORTEST)
    advance = progress(distance(context.object_position, _waypoint(context)), half)
    stand = context.object_position - CONTACT * _push_direction(context)
    share = (passed + segment * with_stand(context, advance, stand)) / lengths.sum(1)
    return xp.clip(share, 0.0, 1.0)  # sums are rounded


def _front(context: StageContext) -> Array:
    """`(N, 3)` unit vector to the side from which the tool comes: up, or towards the robot for an upright path."""
    xp = namespace(context.goal)
    heights = context.path[:, :, 2]
    is_flat = xp.max(heights, axis=1) - xp.min(heights, axis=1) < LEVEL
    up, back = xp.asarray([0.0, 0.0, 1.0]), xp.asarray([-1.0, 0.0, 0.0])
    return xp.astype(xp.where(is_flat[:, None], up, back), context.goal.dtype)


def _push_direction(context: StageContext) -> Array:
    """`(N, 3)` horizontal unit vector of the push: along the segment, and back to it if the object is far from it."""
    xp = namespace(context.goal)
    segment = horizontal(_waypoint(context) - _point(context, context.count - 1))
    towards = _waypoint(context) - context.object_position
    along = (towards * segment).sum(-1)[:, None] * segment
    aside = flat(towards - along)
    off = length(aside)[:, None]
    return horizontal(along + aside * (1.0 - xp.minimum(BESIDE / xp.maximum(off, 1e-6), 1.0)))


def _start_pose(context: StageContext) -> Array:
    return context.object_position - BEHIND * _push_direction(context)


def _expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Push from behind; if the tool is elsewhere, move it around the object first, then in behind the object.

    The tool does not touch an object at the goal.
    """
    xp = namespace(context.goal)
    position, ee = context.object_position, context.ee_position
    front, direction = _front(context), _push_direction(context)
    offset = ee - position
    along, height = (offset * direction).sum(-1)[:, None], (offset * front).sum(-1)[:, None]
    has_arrived = (abs(position - context.goal) < PASSED).all(-1)[:, None]
    on_line = along * direction + height * front
    is_behind = (along[:, 0] < -0.01) & (distance(offset, on_line) < 0.015) & (height[:, 0] < 0.5 * CLEAR)
    advance = xp.clip(0.1 * distance(position, _waypoint(context)), 0.006, 0.01)[:, None]
    start = _start_pose(context)
    beside = distance(ee - height * front, start)[:, None]
    is_outside = beside > ENTRANCE + 0.5 * xp.clip(HOVER - height, 0.0, HOVER)
    target_outside = xp.where(has_arrived | (height < CLEAR), ee - height * front, start) + HOVER * front
    target_inside = xp.where(is_behind[:, None], position + (along + advance) * direction, start)
    return ArmCommand(xp.where(has_arrived | (is_outside & ~is_behind[:, None]), target_outside, target_inside), CLOSED)


GUIDE = Stage("guide", "", ("free", "near"), ("traced", "placed"), "guide {object} {goal}", _potential, _expert,
              weight=PATH_WEIGHT, ends=("near",), start_pose=_start_pose, complete=_all_passed,
              count=_points_passed, waypoint=_waypoint)  # fmt: skip


STAND_OFF = 0.04
"""m behind the handle from which a part is pushed."""

HANDLE_CONTACT = 0.02
"""m behind the handle where a tool pushes it."""

HOOK = 0.024
"""m behind the handle at which a rod hooks the handle; half as far below it."""

SOFT_PULL, PULL = 0.004, 0.02
"""m by which a pull grows in each control step, so that fingers do not slip off the handle of a part at rest; and m by
which the hand leads the handle at most."""

GRIP_STEPS = 5
"""Control steps that fingers need to close on a handle."""


def _progress(context: StageContext) -> Array:
    """`(N,)`: progress of the part's joint to its goal position."""
    return progress_to_goal(context, abs(context.part_position - context.goal[:, 0]))


def _smooth_way(context: StageContext) -> Array:
    """`(N, 3)`: direction in which the handle must move; shorter than 1 near the goal, so that it turns smoothly."""
    xp = namespace(context.goal)
    missing = (context.goal[:, 0] - context.part_position) / context.thresholds.tolerance
    direction = context.handle_motion / xp.maximum(length(context.handle_motion), 1e-6)[:, None]
    return direction * xp.tanh(missing)[:, None]


def _onward(context: StageContext) -> tuple[Array, Array]:
    """`(N, 3)` unit vector in which the handle must move, and `(N,)` m: the distance that is left."""
    xp = namespace(context.goal)
    missing = context.goal[:, 0] - context.part_position
    direction = context.handle_motion * xp.sign(missing)[:, None]
    speed = xp.maximum(length(direction), 1e-6)
    return direction / speed[:, None], abs(missing) * speed


def _has_fingers(context: StageContext) -> bool:
    return bool(context.state.finger_contact.shape[-1])


def _hold(context: StageContext) -> Array:
    """`(N, 3)` m: position of the end effector that holds the handle with the fingers, or hooks it from behind."""
    if _has_fingers(context):
        return context.target
    way, _ = _onward(context)
    return lifted(context.target - HOOK * way, -0.5 * HOOK)


def _steps_at_handle(context: StageContext) -> Array:
    is_at_handle = distance(context.ee_position, _hold(context)) < 0.5 * HOOK
    is_lost = distance(context.ee_position, _hold(context)) > 2 * HOOK
    return (context.count + (is_at_handle | (context.count > 0))) * ~is_lost


def _open_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    xp = namespace(context.goal)
    direction, left = _onward(context)
    hold = _hold(context)
    pulled = context.count - (GRIP_STEPS if _has_fingers(context) else 1)
    lead = xp.minimum(left, xp.clip(SOFT_PULL * (xp.astype(pulled, left.dtype) + 1.0), 0.0, PULL))
    pulls = pulled >= 0
    onward = hold + lead[:, None] * direction
    target = xp.where(pulls[:, None], onward, over_then_down(context, hold))
    return ArmCommand(target, xp.where(context.count > 0, CLOSED, OPEN))


def _open_potential(context: StageContext) -> Array:
    hold = context.target
    if not _has_fingers(context):
        hold = lifted(hold - HOOK * _smooth_way(context), -0.5 * HOOK)
    return with_stand(context, _progress(context), hold)


OPENING = Stage("open", "", ("free", "near"), ("placed",), "open {object}", _open_potential, _open_expert,
                start_pose=lambda context: lifted(_hold(context), 0.05), count=_steps_at_handle, needs_part=True,
                uses_gripper=True)  # fmt: skip


def _push_start(context: StageContext) -> Array:
    way, _ = _onward(context)
    return context.target - STAND_OFF * way


def _push_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Push the handle from behind, slower and slower, and stop at the goal.

    After pushing too far, move back first, which is enough for a part with a spring; then push from the other side.
    """
    xp = namespace(context.goal)
    direction, left = _onward(context)
    ee = context.ee_position
    offset = ee - context.target
    along = (offset * direction).sum(-1)
    aside = distance(offset, along[:, None] * direction)
    is_at_goal = abs(context.goal[:, 0] - context.part_position) < 0.5 * context.thresholds.tolerance
    is_behind = (along < 0.005) & (aside < 0.015)
    is_in_front = (along >= 0.005) & (length(offset) < STAND_OFF)
    advance = xp.clip(0.4 * left, 0.002, 0.012)[:, None]
    target = xp.where(is_in_front[:, None], ee + 0.005 * direction, over_then_down(context, _push_start(context)))
    target = xp.where(is_behind[:, None], context.target + (along[:, None] + advance) * direction, target)
    return ArmCommand(xp.where(is_at_goal[:, None], ee, target), CLOSED)


def _push_potential(context: StageContext) -> Array:
    return with_stand(context, _progress(context), context.target - HANDLE_CONTACT * _smooth_way(context))


def _push_stage(name: str, phrase: str) -> Stage:
    return Stage(name, "", ("free", "near"), ("placed",), phrase, _push_potential, _push_expert, ends=("near",),
                 start_pose=_push_start, needs_part=True)  # fmt: skip


PRESS = _push_stage("press", "press {object}")
SWITCH = _push_stage("switch", "flip {object}")
TURN = _push_stage("turn", "turn {object}")

for _stage in (GUIDE, OPENING, PRESS, SWITCH, TURN):
    register_stage(_stage.name, _stage)
