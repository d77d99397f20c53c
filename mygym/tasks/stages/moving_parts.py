"""The stages that move a part of the workspace: open, press, switch, turn."""

from __future__ import annotations

from mygym.tasks.facts import distance, length
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.motions import lifted, over_then_down, share_covered
from mygym.tasks.state import Array, namespace
from mygym.tasks.view import EntryPoint, Motion, View

STAND_OFF = 0.04
"""m behind the handle from which a part is pushed."""

HOOK = 0.024
"""m behind the handle at which a rod hooks it, and how far below."""

GRIPPED = 5
"""Steps that fingers take to close on a handle."""


def _potential(view: View) -> Array:
    left, at_start = abs(view.part_position - view.goal[:, 0]), abs(view.start_part_position - view.goal[:, 0])
    return share_covered(left, at_start)


def _onward(view: View) -> tuple[Array, Array]:
    """`(N, 3)` unit vector along which the handle has to move, and `(N,)` m how far yet."""
    xp = namespace(view.goal)
    missing = view.goal[:, 0] - view.part_position
    motion = view.handle_motion * xp.sign(missing)[:, None]
    speed = xp.clip(length(motion), 1e-6, None)
    return motion / speed[:, None], abs(missing) * speed


# open: take hold of the handle, or hook it, and take it along --------------------------------------------------------


def _has_fingers(view: View) -> bool:
    return bool(view.state.finger_contact.shape[-1])


def _hold(view: View) -> Array:
    """`(N, 3)`: where the end effector holds the handle: between the fingers, or behind and below it."""
    if _has_fingers(view):
        return view.target
    way, _ = _onward(view)
    return lifted(view.target - HOOK * way, -0.5 * HOOK)


def _open_entry(view: View) -> Array:
    return lifted(_hold(view), 0.05)


def _steps_at_handle(view: View) -> Array:
    at = distance(view.ee_position, _hold(view)) < 0.5 * HOOK
    lost = distance(view.ee_position, _hold(view)) > 2 * HOOK
    return (view.count + (at | (view.count > 0))) * ~lost


def _open_expert(view: View, entry: EntryPoint) -> Motion:
    xp = namespace(view.goal)
    way, left = _onward(view)
    hold = _hold(view)
    pulls = view.count >= (GRIPPED if _has_fingers(view) else 1)
    onward = hold + xp.clip(left, None, 0.02)[:, None] * way
    target = xp.where(pulls[:, None], onward, over_then_down(view, hold))
    return Motion(target, xp.where(view.count > 0, CLOSED, OPEN))


# press, switch, turn: push the handle from behind -------------------------------------------------------------------


def _push_entry(view: View) -> Array:
    way, _ = _onward(view)
    return view.target - STAND_OFF * way


def _push_expert(view: View, entry: EntryPoint) -> Motion:
    """From behind the handle straight on, ever slower, and stay there.

    Who has pushed too far gives way first, all that a part with a spring needs, then comes from the other side.
    """
    xp = namespace(view.goal)
    way, left = _onward(view)
    at = view.ee_position
    offset = at - view.target
    along = (offset * way).sum(-1)
    aside = distance(offset, along[:, None] * way)
    there = abs(view.goal[:, 0] - view.part_position) < 0.5 * view.thresholds.tolerance
    behind = (along < 0.005) & (aside < 0.015)
    before = (along >= 0.005) & (length(offset) < STAND_OFF)
    step = xp.clip(0.4 * left, 0.002, 0.012)[:, None]
    target = xp.where(before[:, None], at + 0.005 * way, over_then_down(view, _push_entry(view)))
    target = xp.where(behind[:, None], view.target + (along[:, None] + step) * way, target)
    return Motion(xp.where(there[:, None], at, target), CLOSED)


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
