"""`SubTask`: stages, the object or part that they act on, and its goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from mygym.config.validation_errors import dotted, first_mistake
from mygym.errors import ConfigError, bad_value, did_you_mean

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


_ADAPTER = TypeAdapter(SubTask)

KEY_HELP = "stages; on what: object, part; to where: area, onto, path, to; via, tolerance, grip, deceleration, words"
"""Keys of a sub-task, in groups, for messages."""


def read_subtask(number: int, values: Mapping[str, Any]) -> SubTask:
    """Return the sub-task for a mapping.

    Args:
        number: Index of the sub-task, for messages.
        values: Fields of `SubTask`.

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
        return _ADAPTER.validate_python(dict(values))
    except ValidationError as error:
        path, given, allowed, *_ = first_mistake(error)
        raise ConfigError(bad_value(dotted(("task", number, *path)), given, allowed)) from None
    except ConfigError as error:  # `SubTask` does not know its number
        raise ConfigError(f"task.{number}{str(error).removeprefix('task')}") from None
