"""`Stage`: its required and given predicates, its potential, and its expert. `register_stage` adds a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import inf
from pathlib import PurePath
from string import ascii_uppercase
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from mygym.config.validation_errors import explained
from mygym.errors import ConfigError, RegistryError, bad_value, did_you_mean
from mygym.registry import registry
from mygym.registry.signatures import check_types, checked_registration
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


@checked_registration
def register_stage(name: str, stage: Stage, *, override: bool = False) -> Stage:
    """Register `stage`, under its name and its letter (if it has one), for every composition.

    Args:
        name: Name in compositions.
        stage: The stage.
        override: Replace a stage of the same name.

    Returns:
        The stage.

    Raises:
        RegistryError: The name or the letter is taken, the stage has another name or no capital as its letter, the
            phrase has a placeholder other than `{object}` and `{goal}`, or a field has a value of another type or out
            of its range.
    """
    if stage.name != name:
        raise RegistryError(bad_value(f"stage {name}: name", stage.name, [name], "is not the registered name"))
    _check_values(stage)
    if stage.letter:
        _check_letter(stage)
    try:
        help = stage.words()
    except (LookupError, ValueError):
        allowed, why = "text with {object}, {goal}", "has another placeholder"
        raise RegistryError(bad_value(f"stage {name}: phrase", stage.phrase, allowed, why)) from None
    registry("stage").register(name, stage, help=help, override=override)
    return stage


def _check_values(stage: Stage) -> None:
    """Refuse predicates that are no tuple of names, such as `("held")`, other types, and numbers out of range."""
    for field in ("requires", "gives", "ends"):
        names = getattr(stage, field)
        if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
            raise RegistryError(bad_value(f"stage {stage.name}: {field}", names, 'a tuple of names, such as ("held",)'))
    check_types(Stage, vars(stage), RegistryError, f"stage {stage.name}: ")
    if not 0 < stage.weight < inf:
        raise RegistryError(bad_value(f"stage {stage.name}: weight", stage.weight, "a positive number"))
    if stage.arms not in (1, 2):
        raise RegistryError(bad_value(f"stage {stage.name}: arms", stage.arms, [1, 2]))


def _check_letter(stage: Stage) -> None:
    """Refuse a letter that is no single capital, or that is another stage's."""
    key = f"stage {stage.name}: letter"
    if stage.letter not in set(ascii_uppercase):
        raise RegistryError(bad_value(key, stage.letter, "one capital letter, or '' for none"))
    taken = {entry.target.letter: entry for entry in registry("stage").registered() if entry.name != stage.name}
    if (other := taken.get(stage.letter)) is not None:
        free = [letter for letter in ascii_uppercase if letter not in taken]
        raise RegistryError(bad_value(key, stage.letter, free, f"is the letter of {other.name} ({other.origin})"))


Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class SubTask:
    """A composition of stages that acts on one object or part and has one goal."""

    stages: str | tuple[str, ...]
    """Letters, or stage names."""
    object: str = "cube"
    """Object to act on: a role of the task's `objects`, or an object's name. Ignored if no stage needs an object."""
    part: str = ""
    """Articulated part of the workspace to act on instead of an object, as `fixture.joint`."""
    area: str | tuple[str, ...] = ""
    """Area of the workspace from which the goal is drawn, or several areas; empty: the stages determine the area."""
    onto: str = ""
    """Role of the object that has the goal on top, instead of an area."""
    via: str = ""
    """Area of the workspace from which a point before the goal is drawn, such as the point where hands meet."""
    path: str = ""
    """Path of the workspace along which the goal is reached."""
    to: tuple[Finite, Finite] | None = None
    """m or rad: lowest and highest goal of a part; rad: lowest and highest rotation of an object to its goal yaw."""
    tolerance: Positive | None = None
    """m (or rad for a part that turns): distance within which the goal is reached; None: the task's."""
    grip: tuple[Finite, Finite, Finite] = (0.0, 0.0, 0.0)
    """m from the object's centre to the grip point, in the object's frame."""
    deceleration: Positive = 3.9
    """m/s² at which the object slows down when it glides or rolls; the expert of `slide` aims by it. The default is
    the deceleration of wood on the table."""
    words: str = ""
    """The goal in descriptions, such as `into the basket`; empty: by `onto`, or `to the goal`."""

    def __post_init__(self) -> None:
        if self.onto and self.onto == self.object:
            raise ConfigError(bad_value("task.onto", self.onto, "another object", "is the object itself"))
        if self.to is not None and self.to[0] > self.to[1]:
            raise ConfigError(bad_value("task.to", list(self.to), "the lowest first"))
        goals = [key for key in ("area", "onto", "path") if getattr(self, key)]
        if len(goals) > 1:
            raise ConfigError(bad_value("task", goals, "one of them", "are several goals"))


@cache
def _adapter() -> TypeAdapter[SubTask]:
    return TypeAdapter(SubTask)


KEY_HELP = "stages; on what: object, part; to where: area, onto, path, to; via, tolerance, grip, deceleration, words"
"""Keys of a sub-task, in groups, for messages."""


def read_subtask(number: int, values: Mapping[str, Any]) -> SubTask:
    """Return the sub-task for a mapping of fields of `SubTask`; `number` is its index, for messages.

    Raises:
        ConfigError: An unknown key, no stages, or a value of the wrong type.
    """
    known = [field.name for field in fields(SubTask)]
    for key, value in values.items():
        if key not in known:
            hint = did_you_mean(key, known, cutoff=0.7)
            raise ConfigError(bad_value(f"task.{number}", key, KEY_HELP, "is not a key of a sub-task") + hint)
        if key == "to" and isinstance(value, str):
            allowed = "[lowest, highest], m or rad; for an area use `area`, for an object `onto`"
            raise ConfigError(bad_value(f"task.{number}.to", value, allowed, "is not a range"))
    if "stages" not in values:
        raise ConfigError(bad_value(f"task.{number}.stages", None, "letters or a list of stages", "is missing"))
    try:
        return _adapter().validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError(explained(error, "task", number)) from None
    except ConfigError as error:  # `SubTask` does not know its number
        raise ConfigError(f"task.{number}{str(error).removeprefix('task')}") from None


ObjectName = Callable[[str], str]
"""Role → name of its object in descriptions."""


def describe_subtask(subtask: SubTask, stages: Sequence[Stage], object_name: ObjectName) -> str:
    """Return a sentence of all stages, which names the target once."""
    target, goal = _target(subtask, stages, object_name), _goal(subtask, object_name)
    first, *further = stages
    pronoun = target if target == "the goal" else "it"
    return ", ".join([first.words(target, goal), *(stage.words(pronoun, goal) for stage in further)])


def stage_phrases(subtask: SubTask, stages: Sequence[Stage], object_name: ObjectName) -> list[str]:
    """Return a description of each stage, complete in itself."""
    return [stage.words(_target(subtask, stages, object_name), _goal(subtask, object_name)) for stage in stages]


def readable(name: str) -> str:
    """Return the name of a role, a part or an object, or the stem of an object's file, with spaces."""
    return PurePath(name).stem.replace("_", " ")


def _target(subtask: SubTask, stages: Sequence[Stage], object_name: ObjectName) -> str:
    """Return the name of the object or part that the stages act on."""
    if subtask.part:
        return f"the {subtask.part.rpartition('.')[2].replace('_', ' ')}"
    return f"the {object_name(subtask.object)}" if any(stage.needs_object for stage in stages) else "the goal"


def _goal(subtask: SubTask, object_name: ObjectName) -> str:
    """Return the phrase for the goal of the target."""
    return subtask.words or (f"onto the {object_name(subtask.onto)}" if subtask.onto else "to the goal")
