"""Observation components of the goal."""

from __future__ import annotations

from operator import attrgetter

from mygym.tasks.components.batches import function_of_active_stage, of_active_stage
from mygym.tasks.context import StageContext
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.observations import register_observation
from mygym.tasks.state import namespace
from mygym.types import Array


@register_observation("goal", 5, depends_on_goal=True, measured=False, unit="m, or m or rad of a part", frame="world")
def goal(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world frame: goal point of the active sub-task; for a part `(position, 0, 0)` in m or rad."""
    return of_active_stage(context, lambda context: context.goal)


@register_observation("goal_from_ee", 5, depends_on_goal=True, unit="m", frame="world axes, from the end effector")
def goal_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world axes: from the end effector to the goal point; zeros if the goal is a part's position."""

    def offset(context: StageContext) -> Array:
        return context.goal * 0.0 if context.bound.part is not None else context.goal - context.ee_position

    return of_active_stage(context, offset)


@register_observation("target_from_ee", 5, depends_on_goal=True, unit="m", frame="world axes, from the end effector")
def target_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world axes: from the end effector to the active sub-task's object or part, or else to its goal."""
    return of_active_stage(context, lambda context: context.target - context.ee_position)


@register_observation(
    "goal_from_object",
    5,
    of="objects or parts",
    size=3,
    depends_on_goal=True,
    detectable=True,
    unit="m, or m or rad of a part",
    frame="world axes, from the object",
)
def goal_from_object(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world axes: from the object to the goal; for a part `(m or rad, 0, 0)`; zeros without either."""

    def offset(context: StageContext) -> Array:
        if context.bound.part is None:
            return context.goal - context.object_position  # zeros without an object: the target is the goal
        missing = context.goal[:, 0] - context.part_position
        xp = namespace(missing)
        return xp.stack([missing, missing * 0.0, missing * 0.0], axis=-1)

    task = context.task
    return of_active_stage(context, offset)[:, : 3 * bool(task.roles or task.part_slots)]


@register_observation(
    "waypoint", 5, of="waypoints", size=3, depends_on_goal=True, measured=False, unit="m", frame="world"
)
def waypoint(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world frame: where the object should be at this moment, on a path or at a moving goal."""
    waypoints = [stage.waypoint for stage in context.task.sequence.stages]
    values = function_of_active_stage(context, [waypoint or attrgetter("goal") for waypoint in waypoints])
    return values[:, : 3 * any(waypoints)]
