"""Goal terms: the numbers of a goal vector that stand for one predicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from mygym.tasks.context import StageBinding, StageContext, Thresholds
from mygym.tasks.state import namespace, on_host
from mygym.types import Array

ANGLE_METRES = 0.1
"""Approximate distance in m that a radian of yaw error adds to the distance of the dense reward."""

FLAG_METRES = 0.1
"""Metres that a wrong flag adds to the distance of the dense reward."""

PRESSED_IN, SINK = 0.01, 10.0
"""Depth in m above which an object is pressed into its support (scripted experts reach 4 mm at the goal), and factor by
which the depth beyond it lowers the position that is compared with the goal."""


@dataclass(frozen=True)
class GoalTerm:
    """Numbers of the achieved and the desired goal that stand for a predicate, such as the position of an object.

    A predicate without a term is a flag in goal vectors: 1 where it holds, else 0.
    """

    name: str
    size: int
    """Number of values. Each must stay within ±`mygym.tasks.goals.BOUND`."""
    achieved: Callable[[StageContext], Array]
    """Returns `(N, size)`: the achieved values."""
    desired: Callable[[Array, StageBinding], Array]
    """Takes all goal points `(N, G, 3)` and the binding of the stage that gives the predicate; returns `(N, size)`."""
    tolerance: Callable[[Thresholds], float] = attrgetter("tolerance")
    """Returns the Euclidean distance, in the term's unit, within which the goal is reached."""
    metres: float = 1.0
    """Metres that a unit of error adds to the distance of the dense reward."""
    position_rank: int = 0
    """A sub-task's goal contains only the ranked term with the highest rank; 0: the term is always in the goal."""
    achieved_later: Callable[[StageContext], Array] | None = None
    """Achieved values after the stage that gives the predicate; None: computed as before. Required for an event."""


def goal_point(goals: Array, bound: StageBinding) -> Array:
    """`(N, 3)` m: the goal point of a stage."""
    return goals[:, bound.goal_slot]


def _no_offset(goals: Array, bound: StageBinding) -> Array:
    return namespace(goals).zeros_like(goal_point(goals, bound))


def _part_goal(goals: Array, bound: StageBinding) -> Array:
    return goal_point(goals, bound)[:, :1]


def _yaw_goal(goals: Array, bound: StageBinding) -> Array:
    return _direction(goals[:, bound.yaw_slot or 0, 0])


def _direction(angle: Array) -> Array:
    xp = namespace(angle)
    return xp.stack([xp.cos(angle), xp.sin(angle)], axis=-1)


def _ee_from_target(context: StageContext) -> Array:
    return context.ee_position - context.target


def _part_position(context: StageContext) -> Array:
    return context.part_position[:, None]


def _object_direction(context: StageContext) -> Array:
    return _direction(context.object_yaw)


def placed_position(context: StageContext) -> Array:
    """`(N, 3)` m: position of the object; lower, by `SINK` times the excess, if it is pressed deep into its support."""
    position, slot = context.object_position, context.bound.object
    if slot is None:
        return position
    excess = context.state.object_depth[:, slot] - PRESSED_IN
    if on_host(excess) and not bool((excess > 0.0).any()):
        return position
    xp = namespace(position)
    drop = SINK * xp.where(excess > 0.0, excess, 0.0 * excess)
    return xp.stack([position[:, 0], position[:, 1], position[:, 2] - drop], axis=-1)


def hit_position(context: StageContext) -> Array:
    """`(N, 3)` m: position of the object when it met another body in the last control step, else at its end."""
    if context.bound.object is None:
        return context.object_position
    return context.state.hit_position[:, context.bound.object]


def has_hit(context: StageContext) -> Array:
    """`(N,)` bool: the object met a body other than the robot in the last control step; True for a part."""
    if context.bound.object is None:
        return namespace(context.state.time).ones_like(context.state.time, dtype=bool)
    return context.state.hit[:, context.bound.object]


def _hit_flag(context: StageContext) -> Array:
    return namespace(context.goal).astype(has_hit(context), context.goal.dtype)[:, None]


def _ones(goals: Array, bound: StageBinding) -> Array:
    return namespace(goals).ones_like(goal_point(goals, bound)[:, :1])


def _later_flag(context: StageContext) -> Array:
    return _ones(context.goals, context.bound)


END_EFFECTOR = GoalTerm("end_effector", 3, attrgetter("ee_position"), goal_point, position_rank=1)
END_EFFECTOR_FROM_OBJECT = GoalTerm("end_effector_from_object", 3, _ee_from_target, _no_offset, position_rank=1)
OBJECT = GoalTerm("object", 3, placed_position, goal_point, position_rank=2)
PART = GoalTerm("part", 1, _part_position, _part_goal, position_rank=2)
STRUCK = GoalTerm("struck", 3, hit_position, goal_point, position_rank=3, achieved_later=attrgetter("goal"))
HIT = GoalTerm("hit", 1, _hit_flag, _ones, lambda thresholds: 0.5, FLAG_METRES, achieved_later=_later_flag)
YAW = GoalTerm("yaw", 2, _object_direction, _yaw_goal, attrgetter("angle"), ANGLE_METRES)


def near_term(bound: StageBinding) -> GoalTerm:
    """Return the term of `near`: relative to the object or the handle if the stage has either."""
    return END_EFFECTOR_FROM_OBJECT if bound.object is not None or bound.part is not None else END_EFFECTOR


def placed_term(bound: StageBinding) -> GoalTerm:
    """Return the term of `placed`: the part's position if the stage acts on a part, else the object's."""
    return OBJECT if bound.part is None else PART


def struck_term(bound: StageBinding) -> GoalTerm:
    """Return the term of `struck`: the position at which the object hits; for a part its position."""
    return STRUCK if bound.part is None else PART
