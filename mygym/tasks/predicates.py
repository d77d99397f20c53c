"""Predicates, which stages require, give and end, with their terms in goal vectors; the built-in predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from mygym.errors import RegistryError, bad_value
from mygym.registry import decorator, registry
from mygym.registry.signatures import checked_registration
from mygym.tasks.context import Condition, StageBinding, StageContext, Thresholds, wrapped
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
        return always(context)
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
    """A registered predicate; the fields are the arguments of `register_predicate`."""

    name: str
    begins: Condition
    """Function that returns whether the predicate begins to hold."""
    keeps: Condition
    event: bool = False
    lasts: bool = False
    excludes: tuple[str, ...] = ()
    initial: bool = False
    moves_object: bool = False
    holds_object: bool = False
    places_object: bool = False
    strikes_goal: bool = False
    goal: GoalTerm | Callable[[StageBinding], GoalTerm] | None = None

    def goal_term(self, bound: StageBinding) -> GoalTerm | None:
        """Return the term in goal vectors of a task in which `bound` gives the predicate; None: a flag."""
        return self.goal if self.goal is None or isinstance(self.goal, GoalTerm) else self.goal(bound)


@checked_registration
def register_predicate(
    name: str,
    *,
    keeps: Condition | None = None,
    event: bool = False,
    lasts: bool = False,
    excludes: Sequence[str] = (),
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
        return Predicate(
            name,
            begins,
            keeps or (always if event else begins),
            event=event,
            lasts=lasts,
            excludes=tuple(excludes),
            initial=initial,
            moves_object=moves_object or holds_object or places_object,
            holds_object=holds_object,
            places_object=places_object,
            strikes_goal=strikes_goal,
            goal=goal,
        )

    return decorator("predicate", name, build=build, form=Condition, help=help, override=override)


def load_predicates(names: Iterable[str]) -> dict[str, Predicate]:
    """Return name → predicate, of all built-in predicates and of the user-defined predicates in `names`.

    Other user-defined predicates are omitted: a task does not depend on user files that it does not use.
    """
    wanted = set(names)
    return {entry.name: entry.load() for entry in registry("predicate") if entry.built_in or entry.name in wanted}


def always(context: StageContext) -> Array:
    """Return True for every episode."""
    return namespace(context.state.time).ones_like(context.state.time, dtype=bool)


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
