"""The stages of two hands: offer, hand over, bring."""

from __future__ import annotations

from mygym.tasks.facts import distance
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.handling import move_potential
from mygym.tasks.stages.motions import lifted, limited, planar_distance, share_covered, with_height
from mygym.tasks.state import Array, namespace
from mygym.tasks.view import EntryPoint, Motion, View

CALM = 0.012
"""m in a step: faster, a long thing swings in the fingers."""

FIRM = 5
"""Steps for which the second hand must hold before the first lets go."""


def _other_grip(view: View) -> Array:
    """`(N, 3)`: where the second hand takes the object: at its other end."""
    x, y, z = view.step.grip
    return view.grip_position((-x, y, z))


def _other_ee(view: View) -> Array:
    return view.state.other_ee_position[:, 0]


def _other_holds(view: View) -> Array:
    """Every finger of the second hand presses on the object."""
    return view.state.other_finger_contact[:, view.step.object or 0].all(-1)


def _brought(view: View, there: Array, at: Array) -> Array:
    """`(N, 3)`: where an end effector at `at` must go for the object to come to `there`, calmly."""
    return limited(at, there + at - view.object_position, CALM)


# offer --------------------------------------------------------------------------------------------------------------


def _offer_potential(view: View) -> Array:
    there = view.path[:, 0]
    return share_covered(distance(view.object_position, there), distance(view.start_object_position, there))


def _offer_expert(view: View, entry: EntryPoint) -> Motion:
    target = _brought(view, view.path[:, 0], view.ee_position)
    waits = limited(_other_ee(view), lifted(_other_grip(view), 0.10), 0.02)
    return Motion(target, CLOSED, other_target=waits)


# hand over ----------------------------------------------------------------------------------------------------------


def _steps_held_by_both(view: View) -> Array:
    return (view.count + 1) * _other_holds(view)


def _hand_over_potential(view: View) -> Array:
    xp = namespace(view.ee_position)
    close = 1.0 - xp.clip(distance(_other_ee(view), _other_grip(view)) / (3 * view.thresholds.near), 0.0, 1.0)
    touch = xp.astype(view.state.other_finger_contact[:, view.step.object or 0], close.dtype)
    return 0.5 * close + 0.5 * touch.mean(-1)


def _hand_over_expert(view: View, entry: EntryPoint) -> Motion:
    """The second hand comes down on the other end and closes; when it holds, the first opens."""
    xp = namespace(view.ee_position)
    grip, other = _other_grip(view), _other_ee(view)
    above = planar_distance(other, grip) > 0.015
    there = with_height(grip, xp.where(above, grip[:, 2] + 0.10, grip[:, 2]))
    closes = distance(other, grip) < 0.015
    opens = view.count >= FIRM
    target = xp.where((closes | opens)[:, None], view.ee_position, _brought(view, view.path[:, 0], view.ee_position))
    return Motion(
        target,
        xp.where(opens, OPEN, CLOSED),
        other_target=limited(other, there, CALM),
        other_gripper=xp.where(closes | (view.count > 0), CLOSED, OPEN),
    )


# bring --------------------------------------------------------------------------------------------------------------


def _bring_expert(view: View, entry: EntryPoint) -> Motion:
    """The second hand brings the object to the goal; the first gets out of the way."""
    away = limited(view.ee_position, lifted(view.start_ee_position, 0.12), 0.03)
    return Motion(away, OPEN, other_target=_brought(view, view.goal, _other_ee(view)), other_gripper=CLOSED)


OFFER = Stage("offer", "", ("held",), ("offered",), "offer {object} to the other hand", _offer_potential,
              _offer_expert, arms=2)  # fmt: skip
HAND_OVER = Stage("hand_over", "", ("held", "offered"), ("handed",), "hand {object} over", _hand_over_potential,
                  _hand_over_expert, ends=("near", "held"), count=_steps_held_by_both, arms=2)  # fmt: skip
BRING = Stage("bring", "", ("handed",), ("placed",), "bring {object} {goal}", move_potential, _bring_expert,
              arms=2)  # fmt: skip

for _stage in (OFFER, HAND_OVER, BRING):
    register_stage(_stage.name, _stage)
