"""What a sub-task says: stages, the thing that they act on, and where that goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from mygym.config.validation_errors import dotted, first_mistake
from mygym.errors import ConfigError, bad_value, did_you_mean

Bound = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class SubTask:
    """A composition of stages on one thing, with a goal of its own."""

    stages: str | tuple[str, ...]
    """Letters, or stage names."""
    object: str = "cube"
    """What is acted on: a role of the task's `objects`, or an object's name. Means nothing where no stage needs one."""
    part: str = ""
    """In place of an object a moving part of the workspace, as `fixture.joint`."""
    area: str | tuple[str, ...] = ""
    """Area of the workspace that the goal is drawn from, or several, one of which is drawn; empty: by the stages."""
    onto: str = ""
    """In place of an area the object, by its role, on top of which the goal is."""
    via: str = ""
    """Area of the workspace that a point on the way is drawn from, such as where one hand gives to the other."""
    path: str = ""
    """Path of the workspace along which the goal is reached."""
    to: tuple[Bound, Bound] | None = None
    """m or rad: lowest and highest goal of a part; rad: of the turn that an object should make."""
    tolerance: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """m (or rad of a part that turns): how close to the goal counts; None: the task's."""
    grip: tuple[Bound, Bound, Bound] = (0.0, 0.0, 0.0)
    """m from the object's centre, along its axes as it lies, to where the hand takes it."""
    deceleration: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3.9
    """m/s² at which the object slows down when it glides or rolls on: by it the expert of `slide` aims. That of wood on
    the table unless given."""
    words: str = ""
    """Where the goal is, for descriptions, such as `into the basket`; empty: by `onto` or `to the goal`."""

    def __post_init__(self) -> None:
        if self.onto and self.onto == self.object:
            raise ConfigError(bad_value("task.onto", self.onto, "another object", "is what is to be put onto it"))
        if self.to is not None and self.to[0] > self.to[1]:
            raise ConfigError(bad_value("task.to", list(self.to), "the lowest first"))
        said = [key for key in ("area", "onto", "path") if getattr(self, key)]
        if len(said) > 1:
            raise ConfigError(bad_value("task", said, "one of them", "are several places for one goal"))


_CHECKED = TypeAdapter(SubTask)


def read_subtask(number: int, said: Mapping[str, Any]) -> SubTask:
    """The sub-task that a mapping says.

    Raises:
        ConfigError: An unknown key, no stages, or a value of the wrong kind.
    """
    known = [one.name for one in fields(SubTask)]
    for key, value in said.items():
        if key not in known:
            near = did_you_mean(key, known, cutoff=0.7)
            raise ConfigError(bad_value(f"task.{number}", key, KEYS, "is not part of a sub-task") + near)
        if key == "to" and isinstance(value, str):
            allowed = "[lowest, highest], m or rad; an area goes by `area`, an object by `onto`"
            raise ConfigError(bad_value(f"task.{number}.to", value, allowed, "is no range"))
    if "stages" not in said:
        raise ConfigError(bad_value(f"task.{number}.stages", None, "letters or a list of stages", "is missing"))
    try:
        return _CHECKED.validate_python(dict(said))
    except ValidationError as error:
        path, given, allowed, _ = first_mistake(error)
        raise ConfigError(bad_value(dotted(("task", number, *path)), given, allowed)) from None
    except ConfigError as error:  # the sub-task does not know its number
        raise ConfigError(f"task.{number}{str(error).removeprefix('task')}") from None


KEYS = "stages; on what: object, part; to where: area, onto, path, to; via, tolerance, grip, deceleration, words"
"""Keys of a sub-task, in groups."""
