"""Observation components of articulated parts of the workspace."""

from __future__ import annotations

from mygym.tasks.components.batches import by_stage, flattened
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.observations import register_observation
from mygym.tasks.state import namespace
from mygym.types import Array


@register_observation("part_position", 10, of="parts", size=1, unit="m or rad")
def part_position(context: EpisodeContext) -> Array:
    """`(N, p)` m or rad: joint positions of the task's parts: drawers, doors, levers."""
    return context.state.part_position[:, list(context.task.part_slots)]


@register_observation("part_velocity", 100, of="parts", size=1, unit="m/s or rad/s")
def part_velocity(context: EpisodeContext) -> Array:
    """`(N, p)` m/s or rad/s: joint velocities of the parts."""
    return context.state.part_velocity[:, list(context.task.part_slots)]


@register_observation("handle_from_ee", 5, of="parts", size=3, unit="m", frame="world axes, from the end effector")
def handle_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3 p)` m, world axes: from the end effector to the handles of the parts."""
    handles = context.state.part_handle_position[:, list(context.task.part_slots)]
    return flattened(handles - context.state.ee_position[:, None])


@register_observation("part_present", 1, of="parts", size=1, measured=False, unit="0 or 1")
def part_present(context: EpisodeContext) -> Array:
    """`(N, p)`: 1 for every part of the task; in shared spaces 0 for an unused slot."""
    return namespace(context.state.time).ones_like(part_position(context))


@register_observation("part_active", 1, of="parts", size=1, measured=False, unit="0 or 1")
def part_active(context: EpisodeContext) -> Array:
    """`(N, p)`: 1 for the part that the active stage acts on, else 0."""
    slots = context.task.part_slots
    return by_stage(context, [[bound.part == slot for slot in slots] for bound in context.task.stage_bindings])
