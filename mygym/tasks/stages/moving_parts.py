"""Stages that move an articulated part of the workspace: open, press, switch, turn."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import distance, length
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.motions import lifted, over_then_down, progress_to_goal, with_stand
from mygym.tasks.state import namespace
from mygym.types import Array

STAND_OFF = 0.04
"""m behind the handle from which a part is pushed."""

CONTACT = 0.02
"""m behind the handle where a tool pushes it."""

HOOK = 0.024
"""m behind the handle at which a rod hooks the handle; half as far below it."""

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


# open: grasp or hook the handle and pull ------------------------------------------------------------------------------


def _has_fingers(context: StageContext) -> bool:
    return bool(context.state.finger_contact.shape[-1])


def _hold(context: StageContext) -> Array:
    """`(N, 3)` m: position of the end effector that holds the handle with the fingers, or hooks it from behind."""
    if _has_fingers(context):
        return context.target
    way, _ = _onward(context)
    return lifted(context.target - HOOK * way, -0.5 * HOOK)


def _open_start(context: StageContext) -> Array:
    return lifted(_hold(context), 0.05)


def _steps_at_handle(context: StageContext) -> Array:
    is_at_handle = distance(context.ee_position, _hold(context)) < 0.5 * HOOK
    is_lost = distance(context.ee_position, _hold(context)) > 2 * HOOK
    return (context.count + (is_at_handle | (context.count > 0))) * ~is_lost


def _open_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    xp = namespace(context.goal)
    direction, left = _onward(context)
    hold = _hold(context)
    pulls = context.count >= (GRIP_STEPS if _has_fingers(context) else 1)
    onward = hold + xp.minimum(left, 0.02)[:, None] * direction
    target = xp.where(pulls[:, None], onward, over_then_down(context, hold))
    return ArmCommand(target, xp.where(context.count > 0, CLOSED, OPEN))


def _open_potential(context: StageContext) -> Array:
    hold = context.target
    if not _has_fingers(context):
        hold = lifted(hold - HOOK * _smooth_way(context), -0.5 * HOOK)
    return with_stand(context, _progress(context), hold)


# press, switch, turn: push the handle from behind -------------------------------------------------------------------


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
    return with_stand(context, _progress(context), context.target - CONTACT * _smooth_way(context))


def _push_stage(name: str, phrase: str) -> Stage:
    return Stage(name, "", ("free", "near"), ("placed",), phrase, _push_potential, _push_expert, ends=("near",),
                 start_pose=_push_start, needs_part=True)  # fmt: skip


OPENING = Stage("open", "", ("free", "near"), ("placed",), "open {object}", _open_potential, _open_expert,
                start_pose=_open_start, count=_steps_at_handle, needs_part=True, uses_gripper=True)  # fmt: skip
PRESS = _push_stage("press", "press {object}")
SWITCH = _push_stage("switch", "flip {object}")
TURN = _push_stage("turn", "turn {object}")

for _stage in (OPENING, PRESS, SWITCH, TURN):
    register_stage(_stage.name, _stage)
