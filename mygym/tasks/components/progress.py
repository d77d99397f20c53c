"""Observation components of the progress through stages and sub-tasks."""

from __future__ import annotations

from functools import cache

from array_api_compat import device

from mygym.tasks.components.batches import by_stage
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.observations import register_observation
from mygym.tasks.state import CONTROL_HZ, namespace
from mygym.types import Array

STAGE_COLUMNS = (
    *("approach", "bring", "drop", "follow", "grasp", "guide", "hand_over", "insert", "move", "offer", "open", "poke"),
    *("press", "push", "rotate", "settle", "slide", "strike", "switch", "throw", "toss", "transform", "turn"),
    "withdraw",
)
"""Stages with a column in `stage_name` and in task codes; all other stages share one more column, the last.

Saved policies contain this order, so it is never changed or extended, whatever stages are registered."""


@register_observation("stage", 1, of="stages", measured=False, unit="0 or 1")
def stage(context: EpisodeContext) -> Array:
    """`(N, stages + 1)`: one-hot of the active stage; the last number for all complete."""
    xp = namespace(context.state.time)
    stages = xp.arange(len(context.task.stage_bindings) + 1, device=device(context.progress.stage))
    return xp.astype(context.progress.stage[:, None] == stages, context.state.ee_position.dtype)


@register_observation("stage_name", 1, measured=False, detectable=False, unit="0 or 1")
def stage_name(context: EpisodeContext) -> Array:
    """`(N, 25)`: one-hot of the active stage's name, the last for stages not in `STAGE_COLUMNS`; zeros at the end."""
    return by_stage(context, _rows_by_name(context.task.stage_names))


@cache
def _rows_by_name(stages: tuple[str, ...]) -> list[list[bool]]:
    """Return a one-hot row for each stage."""
    return [[index == stage_column(name) for index in range(len(STAGE_COLUMNS) + 1)] for name in stages]


def stage_column(name: str) -> int:
    """Return the column of a stage in `stage_name`."""
    return STAGE_COLUMNS.index(name) if name in STAGE_COLUMNS else len(STAGE_COLUMNS)


@register_observation("subtask", 1, of="sub-tasks", size=1, measured=False, unit="0 or 1")
def subtask(context: EpisodeContext) -> Array:
    """`(N, sub-tasks)`: one-hot of the active sub-task; zeros at the end."""
    numbers = range(len(context.task.subtasks))
    return by_stage(context, [[bound.subtask == number for number in numbers] for bound in context.task.stage_bindings])


@register_observation("time", 1, measured=False, unit="share of the horizon")
def time(context: EpisodeContext) -> Array:
    """`(N, 1)`: share of the horizon that has passed, 0 to 1."""
    return context.state.time[:, None] * (CONTROL_HZ / context.task.horizon)
