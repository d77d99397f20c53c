"""The stages of two hands: offer, hand over, bring."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import distance
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.handling import move_potential
from mygym.tasks.stages.motions import lifted, limited, planar_distance, share_covered, with_height
from mygym.tasks.state import namespace
from mygym.types import Array

CALM = 0.012
"""m in a step: faster, a long thing swings in the fingers."""

FIRM = 5
"""Steps for which the second hand must hold before the first lets go."""


def _other_grip(context: StageContext) -> Array:
    """`(N, 3)`: where the second hand takes the object: at its other end."""
    x, y, z = context.bound.grip
    return context.grip_position((-x, y, z))


def _other_ee(context: StageContext) -> Array:
    return context.state.second_ee_position[:, 0]


def _other_holds(context: StageContext) -> Array:
    """Every finger of the second hand presses on the object."""
    return context.state.second_finger_contact[:, context.bound.object or 0].all(-1)


def _brought(context: StageContext, there: Array, at: Array) -> Array:
    """`(N, 3)`: where an end effector at `at` must go for the object to come to `there`, calmly."""
    return limited(at, there + at - context.object_position, CALM)


# offer --------------------------------------------------------------------------------------------------------------


def _offer_potential(context: StageContext) -> Array:
    there = context.path[:, 0]
    return share_covered(distance(context.object_position, there), distance(context.start_object_position, there))


def _offer_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    target = _brought(context, context.path[:, 0], context.ee_position)
    waits = limited(_other_ee(context), lifted(_other_grip(context), 0.10), 0.02)
    return ArmCommand(target, CLOSED, second_target=waits)


# hand over ----------------------------------------------------------------------------------------------------------


def _steps_held_by_both(context: StageContext) -> Array:
    return (context.count + 1) * _other_holds(context)


def _hand_over_potential(context: StageContext) -> Array:
    xp = namespace(context.ee_position)
    close = 1.0 - xp.clip(distance(_other_ee(context), _other_grip(context)) / (3 * context.thresholds.near), 0.0, 1.0)
    touch = xp.astype(context.state.second_finger_contact[:, context.bound.object or 0], close.dtype)
    return 0.5 * close + 0.5 * touch.mean(-1)


def _hand_over_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """The second hand comes down on the other end and closes; when it holds, the first opens."""
    xp = namespace(context.ee_position)
    grip, other = _other_grip(context), _other_ee(context)
    above = planar_distance(other, grip) > 0.015
    there = with_height(grip, xp.where(above, grip[:, 2] + 0.10, grip[:, 2]))
    closes = distance(other, grip) < 0.015
    opens = context.count >= FIRM
    target = xp.where(
        (closes | opens)[:, None], context.ee_position, _brought(context, context.path[:, 0], context.ee_position)
    )
    return ArmCommand(
        target,
        xp.where(opens, OPEN, CLOSED),
        second_target=limited(other, there, CALM),
        second_gripper=xp.where(closes | (context.count > 0), CLOSED, OPEN),
    )


# bring --------------------------------------------------------------------------------------------------------------


def _bring_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """The second hand brings the object to the goal; the first gets out of the way."""
    away = limited(context.ee_position, lifted(context.start_ee_position, 0.12), 0.03)
    return ArmCommand(
        away, OPEN, second_target=_brought(context, context.goal, _other_ee(context)), second_gripper=CLOSED
    )


OFFER = Stage("offer", "", ("held",), ("offered",), "offer {object} to the other hand", _offer_potential,
              _offer_expert, arms=2)  # fmt: skip
HAND_OVER = Stage("hand_over", "", ("held", "offered"), ("handed",), "hand {object} over", _hand_over_potential,
                  _hand_over_expert, ends=("near", "held"), count=_steps_held_by_both, arms=2)  # fmt: skip
BRING = Stage("bring", "", ("handed",), ("placed",), "bring {object} {goal}", move_potential, _bring_expert,
              arms=2)  # fmt: skip

for _stage in (OFFER, HAND_OVER, BRING):
    register_stage(_stage.name, _stage)
