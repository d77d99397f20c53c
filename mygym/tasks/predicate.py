"""`Predicate`: conditions to begin and to keep holding, and a goal term; `register_predicate` adds a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from mygym.errors import RegistryError, bad_value
from mygym.registry import decorator, registry
from mygym.registry.signatures import first_line
from mygym.tasks.context import Condition, StageBinding, StageContext, Thresholds
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


@dataclass(frozen=True)
class Predicate:
    """A registered predicate."""

    name: str
    begins: Condition
    """Function that returns whether the predicate begins to hold."""
    keeps: Condition
    """Function that returns whether the predicate keeps holding."""
    event: bool = False
    """Whether the predicate is an event, which is never lost after it has happened."""
    lasts: bool = False
    """Whether the predicate must keep holding while later sub-tasks act on other objects or parts."""
    excludes: tuple[str, ...] = ()
    """Predicates that cannot hold together with this predicate."""
    initial: bool = False
    """Whether the predicate holds at a reset, and when a sub-task begins."""
    moves_object: bool = False
    """Whether a stage that gives the predicate moves the object; implied by the two below."""
    holds_object: bool = False
    """Whether a hand holds the object while the predicate holds."""
    places_object: bool = False
    """Whether the object is at the goal while the predicate holds."""
    strikes_goal: bool = False
    """Whether the object meets another body at the goal, which is a point of that body."""
    goal: GoalTerm | Callable[[StageBinding], GoalTerm] | None = None
    """Term in goal vectors, or a function that returns the term; None: a flag."""
    help: str = ""
    """Description of the condition."""

    def goal_term(self, bound: StageBinding) -> GoalTerm | None:
        """Return the term in goal vectors of a task in which `bound` gives the predicate; None: a flag."""
        return self.goal if self.goal is None or isinstance(self.goal, GoalTerm) else self.goal(bound)


def register_predicate(
    name: str,
    *,
    keeps: Condition | None = None,
    event: bool = False,
    lasts: bool = False,
    excludes: Iterable[str] = (),
    initial: bool = False,
    moves_object: bool = False,
    holds_object: bool = False,
    places_object: bool = False,
    strikes_goal: bool = False,
    goal: GoalTerm | Callable[[StageBinding], GoalTerm] | None = None,
    help: str = "",
    override: bool = False,
) -> Callable[[Condition], Condition]:
    """Decorator that registers a predicate under `name`, from the function that returns whether it begins to hold.

    The function takes a `StageContext` and returns `(N,)` bool. A stage that gives the predicate is complete when it
    begins to hold; when it stops holding, the episode goes back to that stage.

    Args:
        name: Name in `requires`, `gives` and `ends` of stages.
        keeps: Function that returns whether the predicate keeps holding; None: the decorated function, or always for
            an event.
        event: Whether the predicate is never lost after it has happened. In goal vectors its flag is 1 after the stage
            that gives it.
        lasts: Whether the predicate must keep holding while later sub-tasks act on other objects or parts.
        excludes: Predicates that cannot hold together with this predicate: when either is given, the other ends.
        initial: Whether the predicate holds at a reset, and when a sub-task begins.
        moves_object: Whether a stage that gives the predicate moves the object, as `launched` does. Later sub-tasks may
            not move an object that was put onto another, or that other. Implied by the next two.
        holds_object: Whether a hand holds the object while the predicate holds, as `held` does. If the object is held
            at the end of a sub-task, its goal is in the air by default; a stage that ends the predicate (by its `ends`,
            or by a predicate that excludes this one) lets the object go, so its base must be flat.
        places_object: Whether the object is at the goal while the predicate holds, as `placed` does: goals must have
            space for the object and, unless it is held, a support; with `onto`, the object is then on its base.
        strikes_goal: Whether the object meets another body at the goal, as `struck` does: the goal is a point, and
            needs no space for the object.
        goal: Term in goal vectors, or a function that takes the `StageBinding` and returns the term; None: a flag.
        help: One line; by default the first line of the docstring.
        override: Replace a predicate of the same name.

    Raises:
        RegistryError: The name is taken, or an event has a goal term without `achieved_later`.
    """
    if event and isinstance(goal, GoalTerm) and goal.achieved_later is None:
        why = "needs `achieved_later`: an event is over when the goal is compared"
        raise RegistryError(
            bad_value(f"predicate {name}: goal", goal.name, "a term with `achieved_later`, or None", why)
        )

    def build(begins: Condition) -> Predicate:
        keeps_holding = keeps or (always if event else begins)
        return Predicate(
            name,
            begins,
            keeps_holding,
            event=event,
            lasts=lasts,
            excludes=tuple(excludes),
            initial=initial,
            moves_object=moves_object or holds_object or places_object,
            holds_object=holds_object,
            places_object=places_object,
            strikes_goal=strikes_goal,
            goal=goal,
            help=help or first_line(begins),
        )

    return decorator("predicate", name, build=build, allowed="a function", help=help, override=override)


def find_predicate(name: str, key: str = "predicate") -> Predicate:
    """Return a registered predicate.

    Args:
        name: Name of the predicate.
        key: Origin of the name, for the message.

    Raises:
        RegistryError: No predicate has this name.
    """
    predicate: Predicate = registry("predicate").get(name, key).load()
    return predicate


def load_predicates(names: Iterable[str]) -> dict[str, Predicate]:
    """Return name → predicate, of all built-in predicates and of the user-defined predicates in `names`.

    Other user-defined predicates are omitted: a task does not depend on user files that it does not use.
    """
    wanted = set(names)
    return {entry.name: entry.load() for entry in registry("predicate") if entry.built_in or entry.name in wanted}


def always(context: StageContext) -> Array:
    """Return True for every episode."""
    return namespace(context.state.time).ones_like(context.state.time, dtype=bool)
