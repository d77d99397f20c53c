"""What a sub-task says: stages, the thing that they act on, and where that goes."""

from __future__ import annotations

from dataclasses import dataclass


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
    path: str = ""
    """Path of the workspace along which the goal is reached."""
    to: tuple[float, float] | None = None
    """m or rad: lowest and highest goal of a part; rad: of the turn that an object should make."""
    tolerance: float | None = None
    """m (or rad of a part that turns): how close to the goal counts; None: the task's."""
    deceleration: float = 3.9
    """m/s² at which the object slows down when it glides or rolls on: by it the expert of `slide` aims. That of wood on
    the table unless given."""
    words: str = ""
    """Where the goal is, for descriptions, such as `into the basket`; empty: by `onto` or `to the goal`."""
