"""The facts that stages require and give: predicates over the state, and which fact excludes which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mygym.tasks.state import Array, State


@dataclass(frozen=True)
class Thresholds:
    """Distances in metres at which facts begin to hold."""

    tolerance: float = 0.05
    """Of the goal."""
    near: float = 0.08
    """Between the end effector and the object's centre."""
    clear: float = 0.12
    """Between the end effector and the object's centre, to be away from it."""
    slack: float = 1.5
    """A distance fact once given is lost only beyond `slack` times its threshold: no flicker at the edge."""


def distance(a: Array, b: Array) -> Array:
    """Euclidean distance along the last axis; numpy and torch alike."""
    difference = a - b
    return (difference * difference).sum(-1) ** 0.5


def target(state: State, goal: Array) -> Array:
    """`(N, 3)`: what is approached: the first object, or the goal of a task without objects."""
    return state.object_position[:, 0] if state.object_position.shape[1] else goal


def _reach(state: State, thresholds: Thresholds) -> float:
    return thresholds.near if state.object_position.shape[1] else thresholds.tolerance


def near(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """The end effector is at the object (or, without objects, at the goal)."""
    return distance(state.ee_position, target(state, goal)) < _reach(state, thresholds)


def still_near(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """`near` with slack at an object; a goal is reached within its tolerance or not."""
    slack = thresholds.slack if state.object_position.shape[1] else 1.0
    return distance(state.ee_position, target(state, goal)) < slack * _reach(state, thresholds)


def clear(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """The end effector is away from the object."""
    return distance(state.ee_position, target(state, goal)) > thresholds.clear


def still_clear(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """`clear` with slack."""
    return distance(state.ee_position, target(state, goal)) > thresholds.clear / thresholds.slack


def held(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """Every finger presses on the object."""
    touch = state.finger_contact[:, 0]
    return touch.all(-1) if touch.shape[-1] else state.time < 0


def still_held(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """A finger presses on the object, which is between the fingers: a bounce of one step loses nothing."""
    between = distance(state.ee_position, state.object_position[:, 0]) < 0.5 * thresholds.near
    return state.finger_contact[:, 0].any(-1) & between


def free(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """No finger presses on the object."""
    touch = state.finger_contact[:, 0]
    return ~touch.any(-1) if touch.shape[-1] else state.time >= 0


def still_free(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """Not held: brushing past the object is allowed."""
    return ~held(state, goal, thresholds)


def placed(state: State, goal: Array, thresholds: Thresholds) -> Array:
    """The object is at the goal."""
    return distance(state.object_position[:, 0], goal) < thresholds.tolerance


Predicate = Callable[[State, Array, Thresholds], Array]


@dataclass(frozen=True)
class Fact:
    """A fact: when it begins to hold, and while it keeps holding."""

    begins: Predicate
    keeps: Predicate


FACTS: Mapping[str, Fact] = {
    "free": Fact(free, still_free),
    "near": Fact(near, still_near),
    "held": Fact(held, still_held),
    "placed": Fact(placed, placed),
    "clear": Fact(clear, still_clear),
}

EXCLUDES: Mapping[str, str] = {"free": "held", "held": "free", "near": "clear", "clear": "near"}
"""Giving a fact takes away the one it excludes."""

INITIALLY: tuple[str, ...] = ("free", "clear")
"""What holds at a reset."""
