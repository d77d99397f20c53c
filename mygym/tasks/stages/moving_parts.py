"""The stages that move a part of the workspace: open, press, switch, turn."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import distance, length
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.motions import lifted, over_then_down, share_covered
from mygym.tasks.state import namespace
from mygym.types import Array

STAND_OFF = 0.04
"""m behind the handle from which a part is pushed."""

HOOK = 0.024
"""m behind the handle at which a rod hooks it, and how far below."""

GRIPPED = 5
"""Steps that fingers take to close on a handle."""


def _potential(context: StageContext) -> Array:
    left, at_start = (
        abs(context.part_position - context.goal[:, 0]),
        abs(context.start_part_position - context.goal[:, 0]),
    )
    return share_covered(left, at_start)


def _onward(context: StageContext) -> tuple[Array, Array]:
    """`(N, 3)` unit vector along which the handle has to move, and `(N,)` m how far yet."""
    xp = namespace(context.goal)
    missing = context.goal[:, 0] - context.part_position
    motion = context.handle_motion * xp.sign(missing)[:, None]
    speed = xp.clip(length(motion), 1e-6, None)
    return motion / speed[:, None], abs(missing) * speed


# open: take hold of the handle, or hook it, and take it along --------------------------------------------------------


def _has_fingers(context: StageContext) -> bool:
    return bool(context.state.finger_contact.shape[-1])


def _hold(context: StageContext) -> Array:
    """`(N, 3)`: where the end effector holds the handle: between the fingers, or behind and below it."""
    if _has_fingers(context):
        return context.target
    way, _ = _onward(context)
    return lifted(context.target - HOOK * way, -0.5 * HOOK)


def _open_entry(context: StageContext) -> Array:
    return lifted(_hold(context), 0.05)


def _steps_at_handle(context: StageContext) -> Array:
    at = distance(context.ee_position, _hold(context)) < 0.5 * HOOK
    lost = distance(context.ee_position, _hold(context)) > 2 * HOOK
    return (context.count + (at | (context.count > 0))) * ~lost


def _open_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    xp = namespace(context.goal)
    way, left = _onward(context)
    hold = _hold(context)
    pulls = context.count >= (GRIPPED if _has_fingers(context) else 1)
    onward = hold + xp.clip(left, None, 0.02)[:, None] * way
    target = xp.where(pulls[:, None], onward, over_then_down(context, hold))
    return ArmCommand(target, xp.where(context.count > 0, CLOSED, OPEN))


# press, switch, turn: push the handle from behind -------------------------------------------------------------------


def _push_entry(context: StageContext) -> Array:
    way, _ = _onward(context)
    return context.target - STAND_OFF * way


def _push_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """From behind the handle straight on, ever slower, and stay there.

    Who has pushed too far gives way first, all that a part with a spring needs, then comes from the other side.
    """
    xp = namespace(context.goal)
    way, left = _onward(context)
    at = context.ee_position
    offset = at - context.target
    along = (offset * way).sum(-1)
    aside = distance(offset, along[:, None] * way)
    there = abs(context.goal[:, 0] - context.part_position) < 0.5 * context.thresholds.tolerance
    behind = (along < 0.005) & (aside < 0.015)
    before = (along >= 0.005) & (length(offset) < STAND_OFF)
    step = xp.clip(0.4 * left, 0.002, 0.012)[:, None]
    target = xp.where(before[:, None], at + 0.005 * way, over_then_down(context, _push_entry(context)))
    target = xp.where(behind[:, None], context.target + (along[:, None] + step) * way, target)
    return ArmCommand(xp.where(there[:, None], at, target), CLOSED)


def _pushing(name: str, phrase: str) -> Stage:
    return Stage(name, "", ("free", "near"), ("placed",), phrase, _potential, _push_expert, ends=("near",),
                 entry=_push_entry, needs_part=True)  # fmt: skip


OPENING = Stage("open", "", ("free", "near"), ("placed",), "open {object}", _potential, _open_expert, entry=_open_entry,
                count=_steps_at_handle, needs_part=True, uses_gripper=True)  # fmt: skip
PRESS = _pushing("press", "press {object}")
SWITCH = _pushing("switch", "flip {object}")
TURN = _pushing("turn", "turn {object}")

for _stage in (OPENING, PRESS, SWITCH, TURN):
    register_stage(_stage.name, _stage)
