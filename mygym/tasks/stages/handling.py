"""The stages of a hand: approach, grasp, move, insert, drop, withdraw."""

from __future__ import annotations

import math

from mygym.tasks.facts import at_rest, distance
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.motions import lifted, limited, over_then_down, planar_distance, share_covered, with_height
from mygym.tasks.state import Array, namespace
from mygym.tasks.view import EntryPoint, Motion, View, wrapped

SETTLED = 0.006
"""m from the goal within which an object is let go."""

PATIENCE = 12
"""Steps after which it is let go anyway: what it lies on may be higher than was thought."""

HOLE = 0.05
"""m above its place in a hole at which what is inserted is still outside."""

LANDING = 0.04
"""m above its goal at which an object arrives, to be put down from there."""

# approach -----------------------------------------------------------------------------------------------------------


def approach_potential(view: View) -> Array:
    """Share of the way to the target that is done."""
    at_start = view.start_object_position if view.step.object is not None else view.target
    return share_covered(distance(view.ee_position, view.target), distance(view.start_ee_position, at_start))


def aligned(view: View) -> Array | None:
    """`(N,)` rad by which the tool has to turn yet to take the object as it would one that lies straight."""
    if view.step.object is None:
        return None
    missing = wrapped(view.object_heading - view.state.ee_turn)
    xp = namespace(missing)
    half = xp.where(missing > 0.5 * math.pi, missing - math.pi, missing)  # two fingers take it either way round
    return xp.where(half < -0.5 * math.pi, half + math.pi, half)


def _approach_expert(view: View, entry: EntryPoint) -> Motion:
    if not view.has_target:
        return Motion(view.goal, OPEN)
    return Motion(over_then_down(view, entry(view)), OPEN, aligned(view))


# grasp --------------------------------------------------------------------------------------------------------------


def _grasp_entry(view: View) -> Array:
    return lifted(view.target, 0.05)


def _grasp_potential(view: View) -> Array:
    xp = namespace(view.ee_position)
    closeness = 1.0 - xp.clip(distance(view.ee_position, view.target) / view.thresholds.near, 0.0, 1.0)
    touch = xp.astype(view.finger_contact, closeness.dtype)
    return 0.5 * closeness + 0.5 * touch.mean(-1)


def _grasp_expert(view: View, entry: EntryPoint) -> Motion:
    there = view.target
    xp = namespace(there)
    at = distance(view.ee_position, there) < 0.012
    target = xp.where(at[:, None], there, over_then_down(view, there))
    return Motion(target, xp.where(at, CLOSED, OPEN), aligned(view))


# move ---------------------------------------------------------------------------------------------------------------


def move_potential(view: View) -> Array:
    """Share of the object's way to the goal that is done."""
    left, at_start = distance(view.object_position, view.goal), distance(view.start_object_position, view.goal)
    return share_covered(left, at_start)


def carry(view: View, arrival: float, precision: float) -> Motion:
    """Up, over, and down: nothing that stands at the goal, or on the way, is knocked over.

    Args:
        view: Of an object that is held.
        arrival: m above the goal at which it arrives, to be put down from there.
        precision: m beside the goal, seen from above, within which it is put down.
    """
    xp = namespace(view.goal)
    at = view.ee_position
    there = view.goal + at - view.object_position
    far = planar_distance(view.object_position, view.goal) > precision
    cruise = xp.maximum(there[:, 2] + arrival, view.start_ee_position[:, 2] + 0.08)
    height = xp.where(far, cruise, there[:, 2])
    low = far & (at[:, 2] < cruise - 0.04)
    over = xp.where(low[:, None], at, there)
    return Motion(limited(at, with_height(over, height), 0.04), CLOSED)


def _move_expert(view: View, entry: EntryPoint) -> Motion:
    return carry(view, LANDING, 0.015)


# insert -------------------------------------------------------------------------------------------------------------


def _insert_expert(view: View, entry: EntryPoint) -> Motion:
    """Over the hole, slowly, so that what is held does not swing; then straight down, whatever happens beside."""
    xp = namespace(view.goal)
    at = view.ee_position
    there = view.goal + at - view.object_position
    beside = planar_distance(view.object_position, view.goal)
    above = view.object_position[:, 2] - view.goal[:, 2]
    enters = (beside < 0.0015) | ((beside < 0.004) & (above < HOLE))
    low = ~enters & (beside > 0.015) & (above < HOLE)
    target = xp.where(low[:, None], at, there)
    target = with_height(target, xp.where(enters, there[:, 2], there[:, 2] + HOLE + 0.015))
    step = 0.004 + 0.008 * xp.astype(~enters & (beside >= 0.02), at.dtype)
    return Motion(limited(at, target, step[:, None]), CLOSED)


# drop ---------------------------------------------------------------------------------------------------------------


def _drop_potential(view: View) -> Array:
    xp = namespace(view.ee_position)
    return 1.0 - xp.astype(view.finger_contact, view.ee_position.dtype).mean(-1)


def _drop_expert(view: View, entry: EntryPoint) -> Motion:
    """Bring the object to rest at the goal, if it is there, then open."""
    xp = namespace(view.goal)
    away = distance(view.object_position, view.goal)
    at_goal = away < 2 * view.thresholds.tolerance
    there = view.goal + view.ee_position - view.object_position
    opens = ~at_goal | (away < SETTLED) | (view.count >= PATIENCE) | ~view.finger_contact.all(-1)
    target = xp.where((at_goal & ~opens)[:, None], there, view.ee_position)
    return Motion(limited(view.ee_position, target, 0.02), xp.where(opens, OPEN, CLOSED))


def _steps(view: View) -> Array:
    """Steps since the stage began."""
    return view.count + 1


# withdraw -----------------------------------------------------------------------------------------------------------


def _withdraw_potential(view: View) -> Array:
    xp = namespace(view.ee_position)
    return xp.clip(distance(view.ee_position, view.target) / view.thresholds.clear, 0.0, 1.0)


def _withdraw_expert(view: View, entry: EntryPoint) -> Motion:
    return Motion(lifted(view.start_ee_position, 0.25), OPEN)


APPROACH = Stage("approach", "A", ("free",), ("near",), "approach {object}", approach_potential, _approach_expert,
                 needs_object=False)  # fmt: skip
GRASP = Stage("grasp", "G", ("free", "near"), ("held",), "grasp {object}", _grasp_potential, _grasp_expert,
              entry=_grasp_entry, needs_gripper=True)  # fmt: skip
MOVE = Stage("move", "M", ("held",), ("placed",), "move {object} {goal}", move_potential, _move_expert)
INSERT = Stage("insert", "", ("held",), ("placed",), "insert {object} {goal}", move_potential, _insert_expert)
DROP = Stage(
    "drop", "D", ("held",), ("free",), "release {object}", _drop_potential, _drop_expert, complete=at_rest, count=_steps
)
WITHDRAW = Stage("withdraw", "W", ("free",), ("clear",), "withdraw", _withdraw_potential, _withdraw_expert)

for _stage in (APPROACH, GRASP, MOVE, INSERT, DROP, WITHDRAW):
    register_stage(_stage.name, _stage)
