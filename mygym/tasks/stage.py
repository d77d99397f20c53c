"""What a stage is: the facts it requires and gives, how far along it is, and how an expert acts in it."""

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
    """One capital letter for compositions such as `AGMDW`; empty if the stage has none."""
    requires: tuple[str, ...]
    """Facts that must hold for it to start."""
    gives: tuple[str, ...]
    """Facts that hold when it is complete."""
    phrase: str
    """What it does, with `{object}` and `{goal}`, for descriptions."""
    potential: Callable[[StageContext], Array]
    """`(N,)` in [0, 1]: how far along the stage is."""
    expert: Callable[[StageContext, StartPose], ArmCommand]
    """What to do, given where the next stage wants the end effector."""
    ends: tuple[str, ...] = ()
    """Facts that need not hold any more once it has begun, besides those that what it gives excludes."""
    entry: StartPose | None = None
    """Where the end effector should be when the stage begins; None: at the object."""
    complete: Condition | None = None
    """`(N,)` bool: what must hold besides the facts that it gives; None: nothing."""
    count: Callable[[StageContext], Array] | None = None
    """`(N,)` int: `context.count` after this step, such as points passed; None: the stage counts nothing."""
    waypoint: Callable[[StageContext], Array] | None = None
    """`(N, 3)` m: where the object should be now, on its way to the goal; None: at the goal."""
    needs_object: bool = True
    """Whether it acts on an object, or, where the sub-task names one, on a part of the workspace."""
    needs_part: bool = False
    """Whether it acts on a drawer, a door, a lever … only."""
    needs_gripper: bool = False
    uses_gripper: bool = False
    """Whether the fingers move, if the robot has any."""
    needs_turning: bool = False
    """Whether the tool has to turn about the vertical."""
    arms: int = 1

    def words(self, object: str = "", goal: str = "to the goal") -> str:
        """What it does to an object, called so, that is to go to a goal."""
        return self.phrase.format(object=object or ("the part" if self.needs_part else "the object"), goal=goal)


def register_stage(name: str, stage: Stage, *, override: bool = False) -> Stage:
    """Make `stage` known under its name (and letter, if it has one) to every composition.

    `override` replaces a stage of the same name.

    Raises:
        RegistryError: The name is taken, or the phrase has other names in braces than `{object}` and `{goal}`.
    """
    try:
        help = stage.words()
    except (LookupError, ValueError):
        why = "has other braces than those"
        raise RegistryError(
            bad_value(f"stage {name}: phrase", stage.phrase, "text with {object}, {goal}", why)
        ) from None
    registry("stage").register(name, stage, help=help, override=override)
    return stage
