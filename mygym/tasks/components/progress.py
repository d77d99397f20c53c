"""Observation components of the progress through stages and sub-tasks."""

from __future__ import annotations

from functools import cache

from array_api_compat import device

from mygym.registry import registry
from mygym.tasks.components.batches import by_stage
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.observations import register_observation
from mygym.tasks.state import CONTROL_HZ, namespace
from mygym.types import Array


@register_observation("stage", 1, of="stages", measured=False, unit="0 or 1")
def stage(context: EpisodeContext) -> Array:
    """`(N, stages + 1)`: one-hot of the active stage; the last number for all complete."""
    xp = namespace(context.state.time)
    stages = xp.arange(len(context.task.stage_bindings) + 1, device=device(context.progress.stage))
    return xp.astype(context.progress.stage[:, None] == stages, context.state.ee_position.dtype)


@register_observation("stage_name", 1, measured=False, detectable=False, unit="0 or 1")
def stage_name(context: EpisodeContext) -> Array:
    """`(N, built-in stages + 1)`: one-hot of the active stage's name, the last for user-defined; zeros at the end."""
    return by_stage(context, _rows_by_name(context.task.stage_names))


def stage_columns() -> list[str]:
    """Return the stages of the columns of `stage_name`, without the last column, for all user-defined stages."""
    return [entry.name for entry in registry("stage") if entry.built_in]


@cache
def _rows_by_name(stages: tuple[str, ...]) -> list[list[bool]]:
    """Return a one-hot row for each stage; cached, because a look-up may scan the user's folders."""
    columns = stage_columns()
    return [[stage == name for name in columns] + [stage not in columns] for stage in stages]


@register_observation("subtask", 1, of="sub-tasks", size=1, measured=False, unit="0 or 1")
def subtask(context: EpisodeContext) -> Array:
    """`(N, sub-tasks)`: one-hot of the active sub-task; zeros at the end."""
    numbers = range(len(context.task.subtasks))
    return by_stage(context, [[bound.subtask == number for number in numbers] for bound in context.task.stage_bindings])


@register_observation("time", 1, measured=False, unit="share of the horizon")
def time(context: EpisodeContext) -> Array:
    """`(N, 1)`: share of the horizon that has passed, 0 to 1."""
    return context.state.time[:, None] * (CONTROL_HZ / context.task.horizon)
