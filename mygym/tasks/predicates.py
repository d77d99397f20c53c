"""Built-in predicates that stages require and give."""

from __future__ import annotations

from mygym.tasks.context import StageContext, wrapped
from mygym.tasks.predicate import (
    HIT,
    YAW,
    always,
    has_hit,
    hit_position,
    near_term,
    placed_position,
    placed_term,
    register_predicate,
    struck_term,
)
from mygym.tasks.state import namespace
from mygym.types import Array

PUT_DOWN_HEIGHT, PUT_DOWN_SPEED = 0.03, 0.1
"""m above the goal and m/s below which an object may be put down: a cube let go so low stays on another cube."""


def length(vector: Array) -> Array:
    """Return the Euclidean length along the last axis; numpy and torch alike, and equal bits for a row and a batch."""
    squares = (vector * vector).sum(-1)
    if vector.ndim == 1:  # numpy takes the root of an array, but a power of a number, whose last bit may differ
        return namespace(vector).sqrt(squares)
    return squares**0.5


def distance(a: Array, b: Array) -> Array:
    """Return the Euclidean distance along the last axis; numpy and torch alike."""
    return length(a - b)


def _reach(context: StageContext) -> float:
    return context.thresholds.near if context.has_target else context.thresholds.tolerance


def near_radius(context: StageContext) -> float:
    """Return the distance in m within which `near` holds on: with slack at an object or a handle, but not at a goal."""
    return (context.thresholds.slack if context.has_target else 1.0) * _reach(context)


def still_near(context: StageContext) -> Array:
    """`near` with slack at an object or a handle, without slack at a goal."""
    return distance(context.ee_position, context.target) < near_radius(context)


@register_predicate("near", keeps=still_near, excludes=("clear",), goal=near_term)
def near(context: StageContext) -> Array:
    """The end effector is at the object or the handle (or, without either, at the goal)."""
    return distance(context.ee_position, context.target) < _reach(context)


def still_clear(context: StageContext) -> Array:
    """`clear` with slack."""
    return distance(context.ee_position, context.target) > context.thresholds.clear / context.thresholds.slack


@register_predicate("clear", keeps=still_clear, excludes=("near",), initial=True)
def clear(context: StageContext) -> Array:
    """The end effector is away from the object."""
    return distance(context.ee_position, context.target) > context.thresholds.clear


def between_fingers(context: StageContext, ee_position: Array, grip: Array) -> Array:
    """The grip point `(N, 3)` m of the object is between the fingers of the hand at `ee_position` `(N, 3)` m."""
    return distance(ee_position, grip) < 0.5 * context.thresholds.near


def still_held(context: StageContext) -> Array:
    """A finger presses on the object, which is between the fingers: a bounce of one control step does not end it."""
    return context.finger_contact.any(-1) & between_fingers(context, context.ee_position, context.target)


@register_predicate("held", keeps=still_held, excludes=("free",), holds_object=True)
def held(context: StageContext) -> Array:
    """Every finger presses on the object, whose grip point is between them."""
    touch = context.finger_contact
    if not touch.shape[-1]:
        return context.state.time < 0
    return touch.all(-1) & between_fingers(context, context.ee_position, context.target)


def still_free(context: StageContext) -> Array:
    """Not held: brushing past the object is allowed."""
    return ~held(context)


@register_predicate("free", keeps=still_free, excludes=("held",), initial=True)
def free(context: StageContext) -> Array:
    """No finger presses on the object."""
    touch = context.finger_contact
    return ~touch.any(-1) if touch.shape[-1] else context.state.time >= 0


def at_goal(context: StageContext) -> Array:
    """The object is at the goal and not pressed deep into its support, or the part is at its goal position."""
    if context.bound.part is not None:
        return abs(context.part_position - context.goal[:, 0]) < context.thresholds.tolerance
    return distance(placed_position(context), context.goal) < context.thresholds.tolerance


def above_goal(context: StageContext) -> Array:
    """The object is above its goal, low enough to be put down, and the stage that puts it down is not complete."""
    offset = context.object_position - context.goal
    beside = length(offset[:, :2])
    low = (beside < context.thresholds.tolerance) & (offset[:, 2] > 0.0) & (offset[:, 2] < PUT_DOWN_HEIGHT)
    return low & (context.progress.stage <= (context.bound.put_down_by or 0))


def still_placed(context: StageContext) -> Array:
    """The object or the part is at the goal, or the object is above the goal and not put down yet."""
    return at_goal(context) if context.bound.put_down_by is None else at_goal(context) | above_goal(context)


@register_predicate("placed", keeps=still_placed, lasts=True, places_object=True, goal=placed_term)
def placed(context: StageContext) -> Array:
    """The object or the part is at the goal; or the object is not put down yet, above the goal and slow."""
    if context.bound.put_down_by is None:
        return at_goal(context)
    slow = length(context.object_velocity) < PUT_DOWN_SPEED
    return at_goal(context) | (above_goal(context) & slow)


def still_turned(context: StageContext) -> Array:
    """`turned` with slack."""
    return abs(wrapped(context.object_yaw - context.goal_yaw)) < context.thresholds.slack * context.thresholds.angle


@register_predicate("turned", keeps=still_turned, lasts=True, moves_object=True, goal=YAW)
def turned(context: StageContext) -> Array:
    """The object has the goal's yaw."""
    return abs(wrapped(context.object_yaw - context.goal_yaw)) < context.thresholds.angle


def at_rest(context: StageContext) -> Array:
    """The object is at rest."""
    velocity = context.object_velocity
    return (velocity * velocity).sum(-1) < context.thresholds.rest**2


def still_launched(context: StageContext) -> Array:
    """The object moves, or has come to rest at the goal, and the robot has not touched it again."""
    return (~at_rest(context) | placed(context)) & ~touched(context)


@register_predicate("touched", event=True)
def touched(context: StageContext) -> Array:
    """The robot presses on the object."""
    return context.state.touch[:, context.bound.object or 0]


@register_predicate("launched", keeps=still_launched, moves_object=True)
def launched(context: StageContext) -> Array:
    """The object has left the reach of the hand at speed, and no link of the robot touches it.

    The speed is horizontal: an object that is dropped, or let go at the end of a push, was not launched.
    """
    apart = context.object_position - context.ee_position
    leaving = ((context.object_velocity - context.state.ee_velocity) * apart).sum(-1) > 0.0
    fast = length(context.object_velocity[:, :2]) > context.thresholds.launch
    return leaving & fast & ~near(context) & ~touched(context)


def second_grip(context: StageContext) -> Array:
    """`(N, 3)` m: grip point of the second hand, at the other end of the object."""
    x, y, z = context.bound.grip
    return context.grip_position((-x, y, z))


def in_a_hand(context: StageContext) -> Array:
    """A finger of a hand presses on the object, which is between the fingers of this hand."""
    first, second_ee = still_held(context), context.state.second_ee_position
    if not second_ee.shape[1]:
        return first
    return first | still_handed(context) & between_fingers(context, second_ee[:, 0], second_grip(context))


@register_predicate("offered", keeps=in_a_hand)
def offered(context: StageContext) -> Array:
    """The object is in a hand, at the first point of its path."""
    return (distance(context.object_position, context.path[:, 0]) < context.thresholds.tolerance) & in_a_hand(context)


def still_handed(context: StageContext) -> Array:
    """A finger of the second hand presses on the object."""
    return context.state.second_finger_contact[:, context.bound.object or 0].any(-1)


@register_predicate("handed", keeps=still_handed, holds_object=True)
def handed(context: StageContext) -> Array:
    """Every finger of the second hand presses on the object, and no finger of the first."""
    second = context.state.second_finger_contact[:, context.bound.object or 0]
    first = context.finger_contact
    return second.all(-1) & ~first.any(-1) if second.shape[-1] else context.state.time < 0


@register_predicate("struck", event=True, moves_object=True, strikes_goal=True, goal=struck_term)
def struck(context: StageContext) -> Array:
    """The object meets a body other than the robot at the goal, or the part is at its goal position."""
    if context.bound.part is not None:
        return placed(context)
    return has_hit(context) & (distance(hit_position(context), context.goal) < context.thresholds.tolerance)


register_predicate("hit", event=True, goal=HIT, help="The object meets a body other than the robot.")(has_hit)
for _name in ("traced", "followed"):
    register_predicate(_name, event=True, help="The stage's `complete` holds.")(always)
