"""`Predicate`: conditions to begin and to keep holding, and a goal term; `register_predicate` adds a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mygym.errors import RegistryError, bad_value
from mygym.registry import decorator, registry
from mygym.registry.signatures import first_line
from mygym.tasks.context import Condition, StageBinding, StageContext
from mygym.tasks.goal_terms import GoalTerm
from mygym.tasks.state import namespace
from mygym.types import Array


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
