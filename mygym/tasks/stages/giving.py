"""Stages of two hands: offer, hand over, bring."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import distance, second_grip
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.handling import CARRYING, carrying_progress, from_above, move_potential
from mygym.tasks.stages.motions import closeness, lifted, limited, planar_distance, with_height
from mygym.tasks.state import namespace
from mygym.types import Array

CALM_ADVANCE = 0.012
"""m per control step: a long object swings in the fingers when it moves faster."""

FIRM_STEPS = 5
"""Control steps for which the second hand must hold the object before the first opens."""


def _handover_position(context: StageContext) -> Array:
    """`(N, 3)` m: position at which the other hand takes the object."""
    return context.path[:, 0]


def _second_ee(context: StageContext) -> Array:
    """`(N, 3)` m: end-effector point of the second arm."""
    return context.state.second_ee_position[:, 0]


def _second_holds(context: StageContext) -> Array:
    """Return whether every finger of the second hand presses on the object."""
    return context.state.second_finger_contact[:, context.bound.object or 0].all(-1)


def _bring_to(context: StageContext, position: Array, ee_position: Array) -> Array:
    """`(N, 3)` m: next target of the end effector that brings the object slowly to `position`."""
    return limited(ee_position, position + ee_position - context.object_position, CALM_ADVANCE)


# offer --------------------------------------------------------------------------------------------------------------


def _offer_potential(context: StageContext) -> Array:
    """`(N,)`: progress of the object to the other hand, as far as it is lifted: else a policy drags it to and fro."""
    position = _handover_position(context)
    return from_above(context, position, 0.0, 0.0, carrying_progress(context, position))


def _offer_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    target = _bring_to(context, _handover_position(context), context.ee_position)
    second_target = limited(_second_ee(context), lifted(second_grip(context), 0.10), 0.02)
    return ArmCommand(target, CLOSED, second_target=second_target)


# hand over ----------------------------------------------------------------------------------------------------------


def _steps_held_by_both(context: StageContext) -> Array:
    return (context.count + 1) * _second_holds(context)


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


# bring --------------------------------------------------------------------------------------------------------------


def _bring_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Bring the object to the goal with the second hand, and move the first up out of the way."""
    retreat = limited(context.ee_position, lifted(context.start_ee_position, 0.12), 0.03)
    return ArmCommand(
        retreat, OPEN, second_target=_bring_to(context, context.goal, _second_ee(context)), second_gripper=CLOSED
    )


OFFER = Stage("offer", "", ("held",), ("offered",), "offer {object} to the other hand", _offer_potential,
              _offer_expert, weight=CARRYING, arms=2, waypoint=_handover_position)  # fmt: skip
HAND_OVER = Stage("hand_over", "", ("held", "offered"), ("handed",), "hand {object} over", _hand_over_potential,
                  _hand_over_expert, ends=("near", "held"), count=_steps_held_by_both, arms=2,
                  waypoint=_handover_position)  # fmt: skip
BRING = Stage("bring", "", ("handed",), ("placed",), "bring {object} {goal}", move_potential, _bring_expert,
              weight=CARRYING, arms=2)  # fmt: skip

for _stage in (OFFER, HAND_OVER, BRING):
    register_stage(_stage.name, _stage)
