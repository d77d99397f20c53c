"""The facts that stages require and give: predicates over what a step sees, and which fact excludes which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mygym.parameters import first_line
from mygym.tasks.state import Array, namespace
from mygym.tasks.view import Predicate, View, wrapped


def length(vector: Array) -> Array:
    """Euclidean length along the last axis; numpy and torch alike."""
    return (vector * vector).sum(-1) ** 0.5


def distance(a: Array, b: Array) -> Array:
    """Euclidean distance along the last axis; numpy and torch alike."""
    return length(a - b)


def _reach(view: View) -> float:
    return view.thresholds.near if view.has_target else view.thresholds.tolerance


def near(view: View) -> Array:
    """The end effector is at the object or the handle (or, without either, at the goal)."""
    return distance(view.ee_position, view.target) < _reach(view)


def still_near(view: View) -> Array:
    """`near` with slack at an object; a goal is reached within its tolerance or not."""
    slack = view.thresholds.slack if view.has_target else 1.0
    return distance(view.ee_position, view.target) < slack * _reach(view)


def clear(view: View) -> Array:
    """The end effector is away from the object."""
    return distance(view.ee_position, view.target) > view.thresholds.clear


def still_clear(view: View) -> Array:
    """`clear` with slack."""
    return distance(view.ee_position, view.target) > view.thresholds.clear / view.thresholds.slack


def held(view: View) -> Array:
    """Every finger presses on the object."""
    touch = view.finger_contact
    return touch.all(-1) if touch.shape[-1] else view.state.time < 0


def still_held(view: View) -> Array:
    """A finger presses on the object, which is between the fingers: a bounce of one step loses nothing."""
    between = distance(view.ee_position, view.target) < 0.5 * view.thresholds.near
    return view.finger_contact.any(-1) & between


def free(view: View) -> Array:
    """No finger presses on the object."""
    touch = view.finger_contact
    return ~touch.any(-1) if touch.shape[-1] else view.state.time >= 0


def still_free(view: View) -> Array:
    """Not held: brushing past the object is allowed."""
    return ~held(view)


def placed(view: View) -> Array:
    """The object is at the goal; a part is where it should be."""
    if view.step.part is not None:
        return abs(view.part_position - view.goal[:, 0]) < view.thresholds.tolerance
    return distance(view.object_position, view.goal) < view.thresholds.tolerance


def turned(view: View) -> Array:
    """The object has the goal's heading."""
    return abs(wrapped(view.object_heading - view.goal_heading)) < view.thresholds.angle


def still_turned(view: View) -> Array:
    """`turned` with slack."""
    return abs(wrapped(view.object_heading - view.goal_heading)) < view.thresholds.slack * view.thresholds.angle


def at_rest(view: View) -> Array:
    """The object lies still."""
    velocity = view.object_velocity
    return (velocity * velocity).sum(-1) < view.thresholds.rest**2


def launched(view: View) -> Array:
    """The object is under way, nothing of the robot touches it, and it leaves the hand behind."""
    apart = view.object_position - view.ee_position
    leaving = ((view.object_velocity - view.state.ee_velocity) * apart).sum(-1)
    return (leaving > view.thresholds.rest * length(apart)) & ~at_rest(view) & ~touched(view)


def still_launched(view: View) -> Array:
    """It is under way, or has come to rest where it should."""
    return ~at_rest(view) | placed(view)


def touched(view: View) -> Array:
    """The robot presses on the object."""
    return view.state.touch[:, view.step.object or 0]


def offered(view: View) -> Array:
    """The object is at the first point of its way."""
    return distance(view.object_position, view.path[:, 0]) < view.thresholds.tolerance


def handed(view: View) -> Array:
    """Every finger of the second hand presses on the object, and none of the first's."""
    other = view.state.other_finger_contact[:, view.step.object or 0]
    mine = view.finger_contact
    return other.all(-1) & ~mine.any(-1) if other.shape[-1] else view.state.time < 0


def still_handed(view: View) -> Array:
    """A finger of the second hand presses on it."""
    return view.state.other_finger_contact[:, view.step.object or 0].any(-1)


def always(view: View) -> Array:
    """What has happened has happened."""
    return namespace(view.state.time).ones_like(view.state.time, dtype=bool)


@dataclass(frozen=True)
class Fact:
    """A fact: when it begins to hold, and while it keeps holding."""

    begins: Predicate
    keeps: Predicate
    event: bool = False
    """It has happened once and for all: it never stops holding."""
    lasts: bool = False
    """It is about the object, and holds on while the robot turns to another sub-task."""

    @property
    def help(self) -> str:
        """When it begins to hold, in words."""
        return first_line(self.begins)


FACTS: Mapping[str, Fact] = {
    "free": Fact(free, still_free),
    "near": Fact(near, still_near),
    "held": Fact(held, still_held),
    "placed": Fact(placed, placed, lasts=True),
    "turned": Fact(turned, still_turned, lasts=True),
    "clear": Fact(clear, still_clear),
    "offered": Fact(offered, always, event=True),
    "handed": Fact(handed, still_handed),
    "traced": Fact(always, always, event=True),
    "followed": Fact(always, always, event=True),
    "launched": Fact(launched, still_launched),
    "touched": Fact(touched, always, event=True),
    "struck": Fact(placed, always, event=True),
}

EXCLUDES: Mapping[str, str] = {"free": "held", "held": "free", "near": "clear", "clear": "near"}
"""Giving a fact takes away the one it excludes."""

INITIALLY: tuple[str, ...] = ("free", "clear")
"""What holds at a reset, and when a sub-task begins."""
