"""Observation components of the task's objects and of distractors."""

from __future__ import annotations

from mygym.tasks.components.batches import as_numbers, by_stage, of_distractors, of_roles, positive_w
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.observations import register_observation
from mygym.tasks.state import namespace
from mygym.types import Array


@register_observation("object_position", 5, of="objects", size=3, unit="m", frame="world", detectable=True)
def object_position(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m, world frame: centres of mass of the task's `R` objects."""
    return of_roles(context, context.state.object_position)


@register_observation(
    "object_from_ee",
    5,
    of="objects",
    size=3,
    detectable=True,
    unit="m",
    frame="world axes, from the end effector",
)
def object_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m, world axes: from the end effector to the task's objects."""
    return of_roles(context, context.state.object_position - context.state.ee_position[:, None])


@register_observation("object_orientation", 1, of="objects", size=4, unit="quaternion (x, y, z, w)", frame="world")
def object_orientation(context: EpisodeContext) -> Array:
    """`(N, 4 R)` unit quaternions `(x, y, z, w)` of the objects, world frame, with w ≥ 0."""
    return of_roles(context, positive_w(context.state.object_orientation))


@register_observation("object_velocity", 20, of="objects", size=3, unit="m/s", frame="world")
def object_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m/s, world frame: linear velocities of the objects."""
    return of_roles(context, context.state.object_velocity)


@register_observation("object_angular_velocity", 200, of="objects", size=3, unit="rad/s", frame="world")
def object_angular_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 R)` rad/s, world frame: angular velocities of the objects."""
    return of_roles(context, context.state.object_angular_velocity)


@register_observation("touch", 1, of="objects", size=1, unit="0 or 1")
def touch(context: EpisodeContext) -> Array:
    """`(N, R)`: 1 if any link of the robot presses on the object (simulator contacts), else 0."""
    return as_numbers(context, context.state.touch[:, : len(context.task.roles)])


@register_observation("finger_contact", 1, of="objects", size=1, unit="share")
def finger_contact(context: EpisodeContext) -> Array:
    """`(N, R)`: share of the fingers that press on the object (simulator contacts)."""
    contact = context.state.finger_contact[:, : len(context.task.roles)]
    return as_numbers(context, contact).sum(-1) / max(contact.shape[2], 1)


@register_observation("object_present", 1, of="objects", size=1, measured=False, unit="0 or 1", detectable=True)
def object_present(context: EpisodeContext) -> Array:
    """`(N, R)`: 1 for every object; in shared spaces 0 for an unused slot."""
    return as_numbers(context, namespace(context.state.touch).ones_like(context.state.touch))[
        :, : len(context.task.roles)
    ]


@register_observation("object_active", 1, of="objects", size=1, measured=False, unit="0 or 1")
def object_active(context: EpisodeContext) -> Array:
    """`(N, R)`: 1 for the object that the active stage acts on, else 0."""
    roles = range(len(context.task.roles))
    return by_stage(context, [[bound.object == slot for slot in roles] for bound in context.task.stage_bindings])


@register_observation("object_size", 1, of="objects", size=3, unit="m", frame="the object's axes", detectable=True)
def object_size(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m: edges of the bounding boxes of the objects; observed by default if objects differ by episode."""
    return of_roles(context, context.state.object_size)


@register_observation("distractor_present", 1, of="distractors", size=1, measured=False, unit="0 or 1")
def distractor_present(context: EpisodeContext) -> Array:
    """`(N, C)`: 1 for a distractor in the episode, 0 for an absent distractor, whose other numbers are 0."""
    return as_numbers(context, context.state.object_present)[:, len(context.task.roles) :]


@register_observation("distractor_position", 5, of="distractors", size=3, unit="m", frame="world")
def distractor_position(context: EpisodeContext) -> Array:
    """`(N, 3 C)` m, world frame: centres of mass of the `C` distractors."""
    return of_distractors(context, context.state.object_position)


@register_observation(
    "distractor_from_ee", 5, of="distractors", size=3, unit="m", frame="world axes, from the end effector"
)
def distractor_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3 C)` m, world axes: from the end effector to the distractors."""
    offsets = context.state.object_position - context.state.ee_position[:, None]
    return of_distractors(context, offsets * as_numbers(context, context.state.object_present)[:, :, None])


@register_observation(
    "distractor_orientation", 1, of="distractors", size=4, unit="quaternion (x, y, z, w)", frame="world"
)
def distractor_orientation(context: EpisodeContext) -> Array:
    """`(N, 4 C)` unit quaternions `(x, y, z, w)` of the distractors, world frame, with w ≥ 0."""
    return of_distractors(context, positive_w(context.state.object_orientation))


@register_observation("distractor_velocity", 20, of="distractors", size=3, unit="m/s", frame="world")
def distractor_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 C)` m/s, world frame: linear velocities of the distractors."""
    return of_distractors(context, context.state.object_velocity)
