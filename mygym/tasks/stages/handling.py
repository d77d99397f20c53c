"""The stages of a hand: approach, grasp, move, insert, drop, withdraw."""

from __future__ import annotations

import math

from mygym.tasks.context import ArmCommand, StageContext, StartPose, wrapped
from mygym.tasks.predicates import at_rest, distance
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.motions import lifted, limited, over_then_down, planar_distance, share_covered, with_height
from mygym.tasks.state import namespace
from mygym.types import Array

SETTLED = 0.006
"""m from the goal within which an object is let go."""

PATIENCE = 12
"""Steps after which it is let go anyway: what it lies on may be higher than was thought."""

HOLE = 0.05
"""m above its place in a hole at which what is inserted is still outside."""

LANDING = 0.04
"""m above its goal at which an object arrives, to be put down from there."""

# approach -----------------------------------------------------------------------------------------------------------


def approach_potential(context: StageContext) -> Array:
    """Share of the way to the target that is done."""
    at_start = context.start_object_position if context.bound.object is not None else context.target
    return share_covered(distance(context.ee_position, context.target), distance(context.start_ee_position, at_start))


def aligned(context: StageContext) -> Array | None:
    """`(N,)` rad by which the tool has to turn yet to take the object as it would one that lies straight."""
    if context.bound.object is None:
        return None
    missing = wrapped(context.object_yaw - context.state.tool_yaw)
    xp = namespace(missing)
    half = xp.where(missing > 0.5 * math.pi, missing - math.pi, missing)  # two fingers take it either way round
    return xp.where(half < -0.5 * math.pi, half + math.pi, half)


def _approach_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    if not context.has_target:
        return ArmCommand(context.goal, OPEN)
    return ArmCommand(over_then_down(context, entry(context)), OPEN, aligned(context))


# grasp --------------------------------------------------------------------------------------------------------------


def _grasp_entry(context: StageContext) -> Array:
    return lifted(context.target, 0.05)


def _grasp_potential(context: StageContext) -> Array:
    xp = namespace(context.ee_position)
    closeness = 1.0 - xp.clip(distance(context.ee_position, context.target) / context.thresholds.near, 0.0, 1.0)
    touch = xp.astype(context.finger_contact, closeness.dtype)
    return 0.5 * closeness + 0.5 * touch.mean(-1)


def _grasp_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    there = context.target
    xp = namespace(there)
    at = distance(context.ee_position, there) < 0.012
    target = xp.where(at[:, None], there, over_then_down(context, there))
    return ArmCommand(target, xp.where(at, CLOSED, OPEN), aligned(context))


# move ---------------------------------------------------------------------------------------------------------------


def move_potential(context: StageContext) -> Array:
    """Share of the object's way to the goal that is done."""
    left, at_start = (
        distance(context.object_position, context.goal),
        distance(context.start_object_position, context.goal),
    )
    return share_covered(left, at_start)


def carry(context: StageContext, arrival: float, precision: float) -> ArmCommand:
    """Up, over, and down: nothing that stands at the goal, or on the way, is knocked over.

    Args:
        context: Of an object that is held.
        arrival: m above the goal at which it arrives, to be put down from there.
        precision: m beside the goal, seen from above, within which it is put down.
    """
    xp = namespace(context.goal)
    at = context.ee_position
    there = context.goal + at - context.object_position
    far = planar_distance(context.object_position, context.goal) > precision
    cruise = xp.maximum(there[:, 2] + arrival, context.start_ee_position[:, 2] + 0.08)
    height = xp.where(far, cruise, there[:, 2])
    low = far & (at[:, 2] < cruise - 0.04)
    over = xp.where(low[:, None], at, there)
    return ArmCommand(limited(at, with_height(over, height), 0.04), CLOSED)


def _move_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    return carry(context, LANDING, 0.015)


# insert -------------------------------------------------------------------------------------------------------------


def _insert_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """Over the hole, slowly, so that what is held does not swing; then straight down, whatever happens beside."""
    xp = namespace(context.goal)
    at = context.ee_position
    there = context.goal + at - context.object_position
    beside = planar_distance(context.object_position, context.goal)
    above = context.object_position[:, 2] - context.goal[:, 2]
    enters = (beside < 0.0015) | ((beside < 0.004) & (above < HOLE))
    low = ~enters & (beside > 0.015) & (above < HOLE)
    target = xp.where(low[:, None], at, there)
    target = with_height(target, xp.where(enters, there[:, 2], there[:, 2] + HOLE + 0.015))
    step = 0.004 + 0.008 * xp.astype(~enters & (beside >= 0.02), at.dtype)
    return ArmCommand(limited(at, target, step[:, None]), CLOSED)


# drop ---------------------------------------------------------------------------------------------------------------


def _drop_potential(context: StageContext) -> Array:
    xp = namespace(context.ee_position)
    return 1.0 - xp.astype(context.finger_contact, context.ee_position.dtype).mean(-1)


def _drop_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """Bring the object to rest at the goal, if it is there, then open."""
    xp = namespace(context.goal)
    away = distance(context.object_position, context.goal)
    at_goal = away < 2 * context.thresholds.tolerance
    there = context.goal + context.ee_position - context.object_position
    opens = ~at_goal | (away < SETTLED) | (context.count >= PATIENCE) | ~context.finger_contact.all(-1)
    target = xp.where((at_goal & ~opens)[:, None], there, context.ee_position)
    return ArmCommand(limited(context.ee_position, target, 0.02), xp.where(opens, OPEN, CLOSED))


def _steps(context: StageContext) -> Array:
    """Steps since the stage began."""
    return context.count + 1


# withdraw -----------------------------------------------------------------------------------------------------------


def _withdraw_potential(context: StageContext) -> Array:
    xp = namespace(context.ee_position)
    return xp.clip(distance(context.ee_position, context.target) / context.thresholds.clear, 0.0, 1.0)


def _withdraw_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    return ArmCommand(lifted(context.start_ee_position, 0.25), OPEN)


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
