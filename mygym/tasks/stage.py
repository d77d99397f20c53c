"""`Stage`: its required and given predicates, its potential, and its expert. `register_stage` adds a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mygym.errors import RegistryError, bad_value
from mygym.registry import registry
from mygym.tasks.context import ArmCommand, Condition, StageContext, StartPose
from mygym.types import Array

OPEN, CLOSED = 1.0, -1.0
"""Gripper commands."""


@dataclass(frozen=True)
class Stage:
    """One stage of a task; every function takes a `StageContext` of `N` episodes and is pure."""

    name: str
    letter: str
    """One capital letter for compositions such as `AGMDW`; empty: none."""
    requires: tuple[str, ...]
    """Predicates that must hold when the stage starts."""
    gives: tuple[str, ...]
    """Predicates that hold when the stage is complete."""
    phrase: str
    """Description with the placeholders `{object}` and `{goal}`."""
    potential: Callable[[StageContext], Array]
    """`(N,)` in [0, 1]: progress within the stage."""
    expert: Callable[[StageContext, StartPose], ArmCommand]
    """Scripted policy of the stage; its second argument is the start pose of the next stage."""
    ends: tuple[str, ...] = ()
    """Predicates that need not hold once the stage has begun, besides those that `gives` exclude."""
    start_pose: StartPose | None = None
    """Pose of the end effector at the start of the stage; None: at the target."""
    complete: Condition | None = None
    """`(N,)` bool: additional condition of completion; None: the predicates in `gives` are sufficient."""
    count: Callable[[StageContext], Array] | None = None
    """`(N,)` int: `context.count` after this control step, such as points passed; None: the stage counts nothing."""
    returns: Condition | None = None
    """`(N,)` bool: the stage before begins again, although no predicate is lost; None: never."""
    waypoint: Callable[[StageContext], Array] | None = None
    """`(N, 3)` m: where the object should be at this moment, on the way to the goal; None: at the goal."""
    weight: float = 1.0
    """Share in the reward `shaped`, relative to the other stages: larger for a long way with much to lose."""
    stops_above: bool = False
    """Whether an object that a later stage puts down may stop up to 3 cm above its goal."""
    needs_object: bool = True
    """Whether the stage acts on an object, or on a part of the workspace if the sub-task names a part."""
    needs_part: bool = False
    """Whether the stage acts only on articulated parts (drawer, door, lever …)."""
    needs_gripper: bool = False
    """Whether the stage grasps."""
    uses_gripper: bool = False
    """Whether the fingers of a robot that has any move."""
    needs_tool_yaw: bool = False
    """Whether the tool's yaw must change."""
    arms: int = 1
    """Number of arms that the stage needs."""

    def words(self, object: str = "", goal: str = "to the goal") -> str:
        """Return the description of the stage for the names of an object and a goal.

        Args:
            object: Name of the object, with its article; empty: `the object` or `the part`.
            goal: The goal in words.
        """
        return self.phrase.format(object=object or ("the part" if self.needs_part else "the object"), goal=goal)


def register_stage(name: str, stage: Stage, *, override: bool = False) -> Stage:
    """Register `stage`, under its name and its letter (if it has one), for every composition.

    Args:
        name: Name in compositions.
        stage: The stage.
        override: Replace a stage of the same name.

    Returns:
        The stage.

    Raises:
        RegistryError: The name is taken, or the phrase has a placeholder other than `{object}` and `{goal}`.
    """
    try:
        help = stage.words()
    except (LookupError, ValueError):
        allowed, why = "text with {object}, {goal}", "has another placeholder"
        raise RegistryError(bad_value(f"stage {name}: phrase", stage.phrase, allowed, why)) from None
    registry("stage").register(name, stage, help=help, override=override)
    return stage
