"""Whether hands can take the objects that they are to grasp, and tops hold what is put onto them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.models.objects import ObjectSpec, load_object, object_names
from mygym.models.robot import RobotSpec
from mygym.tasks.task import Task
from mygym.tasks.validation import named_objects

BALL_SHARE = 0.8
"""Of a ball's width that a hand must open: it takes the ball above its middle."""

EXAMPLES = 6
"""Objects that are named in place of one that does not fit."""


def check_objects(
    task: Task, objects: Sequence[ObjectSpec], robot: RobotSpec, largest: float, params: Mapping[str, Any]
) -> None:
    """Refuse objects that the hand cannot close around, and those on which nothing stays.

    Args:
        task: The task.
        objects: In the order of its roles.
        robot: Whose hand it is.
        largest: Times its own size that an object may have in an episode.
        params: The config's `task_params`: by these, mistakes are told by the key under which they were made.

    Raises:
        ConfigError: There is one.
    """
    hands = [arm.gripper.width for arm in robot.arms[: task.arms] if arm.gripper]
    keys = dict(zip(task.roles, (key for key, _ in named_objects(task, params)), strict=False))
    specs = dict(zip(task.roles, objects, strict=False))  # distractors come after those of the roles
    for one, stages in zip(task.subtasks, task.composed, strict=True):
        if one.part or one.object not in specs:
            continue
        if hands and any(stage.needs_gripper for stage in stages) and not any(one.grip):
            _check_width(keys[one.object], specs[one.object], robot.name, min(hands), largest)
        if one.onto and any("free" in stage.gives for stage in stages) and not specs[one.onto].flat_top:
            why = f"is round on top: {one.object} would not stay there"
            allowed = f"what has a flat top, e.g. {_examples(_base_for(specs[one.object]))}"
            raise ConfigError(bad_value(keys[one.onto], specs[one.onto].name, allowed, why))


def _check_width(key: str, spec: ObjectSpec, robot: str, hand: float, largest: float) -> None:
    """Refuse an object that does not fit between fingers that open by `hand` m, or not in its largest size."""
    width = _width(spec)
    why = f"too wide: {robot}'s hand opens by {100 * hand:.1f} cm, {spec.name} takes {100 * width:.1f} cm"
    if width >= hand:
        allowed = f"what is narrower, e.g. {_examples(lambda other: _width(other) < hand)}"
        raise ConfigError(bad_value(key, spec.name, allowed, f"is {why}"))
    if width * largest >= hand:
        allowed = f"at most {math.floor(99 * hand / width) / 100:g}, or a narrower object"
        raise ConfigError(bad_value("randomize.object_size", largest, allowed, f"makes {spec.name} {why} as it is"))


def _width(spec: ObjectSpec) -> float:
    """By how much a hand must open to take an object, m."""
    solid = [part.shape for part in spec.parts if part.collides]
    return (BALL_SHARE if solid == ["sphere"] else 1.0) * spec.grasp_width


def _examples(fits: Callable[[ObjectSpec], bool]) -> str:
    """Names of a few objects that fit."""
    fitting = (name for name in object_names() if fits(load_object(name)))
    return ", ".join(itertools.islice(fitting, EXAMPLES))


def _base_for(thing: ObjectSpec) -> Callable[[ObjectSpec], bool]:
    """Whether an object is a block on which a thing has room."""
    return lambda spec: spec.flat_top and len(spec.parts) == 1 and spec.grasp_width >= thing.grasp_width
