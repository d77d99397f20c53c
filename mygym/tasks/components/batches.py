"""Helpers of observation components for batched arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mygym.tasks.context import StageContext
from mygym.tasks.episode import active
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.state import constant, namespace
from mygym.types import Array


def flattened(values: Array) -> Array:
    """Reshape `(N, A, d)` to `(N, A d)`."""
    return namespace(values).reshape(values, (values.shape[0], -1))


def of_roles(context: EpisodeContext, values: Array) -> Array:
    """`(N, k, d)` of all objects → `(N, R d)` of the task's objects."""
    return flattened(values[:, : len(context.task.roles)])


def of_distractors(context: EpisodeContext, values: Array) -> Array:
    """`(N, k, d)` of all objects → `(N, C d)` of the distractors."""
    return flattened(values[:, len(context.task.roles) :])


def positive_w(quaternion: Array) -> Array:
    """Return the same orientations `(…, 4)` as quaternions with w ≥ 0."""
    return namespace(quaternion).where(quaternion[..., 3:] < 0, -quaternion, quaternion)


def as_numbers(context: EpisodeContext, flags: Array) -> Array:
    """Convert bool to 0 and 1, in the dtype of the state."""
    return namespace(flags).astype(flags, context.state.ee_position.dtype)


def by_stage(context: EpisodeContext, rows: Sequence[Sequence[bool]]) -> Array:
    """`(N, d)`: the row of the active stage in `rows` `(stages, d)`, as 0 and 1; zeros when all stages are complete."""
    table = constant((*map(tuple, rows), (False,) * len(rows[0])), context.state.ee_position)
    return namespace(table).take(table, context.progress.stage, axis=0)


def of_active_stage(context: EpisodeContext, function: Callable[[StageContext], Array]) -> Array:
    """`(N, 3)`: `function` of each episode's active stage, or of the last stage when all are complete."""
    return function_of_active_stage(context, [function] * len(context.task.stage_bindings))


def function_of_active_stage(context: EpisodeContext, functions: Sequence[Callable[[StageContext], Array]]) -> Array:
    """`(N, 3)`: the active stage's function in `functions` `(stages,)`; the last stage's when all are complete."""
    xp = namespace(context.state.time)
    stage_bindings, last = context.task.stage_bindings, len(context.task.stage_bindings) - 1
    values = context.goals[:, stage_bindings[0].goal_slot]
    for index in active(context.progress.stage, last + 1):
        number = min(index, last)
        stage_context = StageContext(context.state, context.progress, context.goals, stage_bindings[number])
        values = xp.where((context.progress.stage == index)[:, None], functions[number](stage_context), values)
    return values
