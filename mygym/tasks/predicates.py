"""The facts that stages require and give: predicates over what a step sees, and which fact excludes which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mygym.registry.signatures import first_line
from mygym.tasks.context import Condition, StageContext, wrapped
from mygym.tasks.state import namespace
from mygym.types import Array


def length(vector: Array) -> Array:
    """Euclidean length along the last axis; numpy and torch alike."""
    return (vector * vector).sum(-1) ** 0.5


def distance(a: Array, b: Array) -> Array:
    """Euclidean distance along the last axis; numpy and torch alike."""
    return length(a - b)


def _reach(context: StageContext) -> float:
    return context.thresholds.near if context.has_target else context.thresholds.tolerance


def near(context: StageContext) -> Array:
    """The end effector is at the object or the handle (or, without either, at the goal)."""
    return distance(context.ee_position, context.target) < _reach(context)


def still_near(context: StageContext) -> Array:
    """`near` with slack at an object; a goal is reached within its tolerance or not."""
    slack = context.thresholds.slack if context.has_target else 1.0
    return distance(context.ee_position, context.target) < slack * _reach(context)


def clear(context: StageContext) -> Array:
    """The end effector is away from the object."""
    return distance(context.ee_position, context.target) > context.thresholds.clear


def still_clear(context: StageContext) -> Array:
    """`clear` with slack."""
    return distance(context.ee_position, context.target) > context.thresholds.clear / context.thresholds.slack


def held(context: StageContext) -> Array:
    """Every finger presses on the object."""
    touch = context.finger_contact
    return touch.all(-1) if touch.shape[-1] else context.state.time < 0


def still_held(context: StageContext) -> Array:
    """A finger presses on the object, which is between the fingers: a bounce of one step loses nothing."""
    between = distance(context.ee_position, context.target) < 0.5 * context.thresholds.near
    return context.finger_contact.any(-1) & between


def free(context: StageContext) -> Array:
    """No finger presses on the object."""
    touch = context.finger_contact
    return ~touch.any(-1) if touch.shape[-1] else context.state.time >= 0


def still_free(context: StageContext) -> Array:
    """Not held: brushing past the object is allowed."""
    return ~held(context)


def placed(context: StageContext) -> Array:
    """The object is at the goal; a part is where it should be."""
    if context.bound.part is not None:
        return abs(context.part_position - context.goal[:, 0]) < context.thresholds.tolerance
    return distance(context.object_position, context.goal) < context.thresholds.tolerance


def turned(context: StageContext) -> Array:
    """The object has the goal's heading."""
    return abs(wrapped(context.object_yaw - context.goal_yaw)) < context.thresholds.angle


def still_turned(context: StageContext) -> Array:
    """`turned` with slack."""
    return abs(wrapped(context.object_yaw - context.goal_yaw)) < context.thresholds.slack * context.thresholds.angle


def at_rest(context: StageContext) -> Array:
    """The object lies still."""
    velocity = context.object_velocity
    return (velocity * velocity).sum(-1) < context.thresholds.rest**2


def launched(context: StageContext) -> Array:
    """The object is under way, nothing of the robot touches it, and it leaves the hand behind."""
    apart = context.object_position - context.ee_position
    leaving = ((context.object_velocity - context.state.ee_velocity) * apart).sum(-1)
    return (leaving > context.thresholds.rest * length(apart)) & ~at_rest(context) & ~touched(context)


def still_launched(context: StageContext) -> Array:
    """It is under way, or has come to rest where it should."""
    return ~at_rest(context) | placed(context)


def touched(context: StageContext) -> Array:
    """The robot presses on the object."""
    return context.state.touch[:, context.bound.object or 0]


def offered(context: StageContext) -> Array:
    """The object is at the first point of its way."""
    return distance(context.object_position, context.path[:, 0]) < context.thresholds.tolerance


def handed(context: StageContext) -> Array:
    """Every finger of the second hand presses on the object, and none of the first's."""
    other = context.state.second_finger_contact[:, context.bound.object or 0]
    mine = context.finger_contact
    return other.all(-1) & ~mine.any(-1) if other.shape[-1] else context.state.time < 0


def still_handed(context: StageContext) -> Array:
    """A finger of the second hand presses on it."""
    return context.state.second_finger_contact[:, context.bound.object or 0].any(-1)


def always(context: StageContext) -> Array:
    """What has happened has happened."""
    return namespace(context.state.time).ones_like(context.state.time, dtype=bool)


@dataclass(frozen=True)
class Predicate:
    """A fact: when it begins to hold, and while it keeps holding."""

    begins: Condition
    keeps: Condition
    event: bool = False
    """It has happened once and for all: it never stops holding."""
    lasts: bool = False
    """It is about the object, and holds on while the robot turns to another sub-task."""

    @property
    def help(self) -> str:
        """When it begins to hold, in words."""
        return first_line(self.begins)


PREDICATES: Mapping[str, Predicate] = {
    "free": Predicate(free, still_free),
    "near": Predicate(near, still_near),
    "held": Predicate(held, still_held),
    "placed": Predicate(placed, placed, lasts=True),
    "turned": Predicate(turned, still_turned, lasts=True),
    "clear": Predicate(clear, still_clear),
    "offered": Predicate(offered, always, event=True),
    "handed": Predicate(handed, still_handed),
    "traced": Predicate(always, always, event=True),
    "followed": Predicate(always, always, event=True),
    "launched": Predicate(launched, still_launched),
    "touched": Predicate(touched, always, event=True),
    "struck": Predicate(placed, always, event=True),
}

EXCLUDES: Mapping[str, str] = {"free": "held", "held": "free", "near": "clear", "clear": "near"}
"""Giving a fact takes away the one it excludes."""

INITIALLY: tuple[str, ...] = ("free", "clear")
"""What holds at a reset, and when a sub-task begins."""
