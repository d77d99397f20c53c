"""The built-in observation components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter

import numpy as np
from array_api_compat import device

from mygym.registry.signatures import wrong_result
from mygym.tasks.context import StageContext
from mygym.tasks.episode import EpisodeContext, active
from mygym.tasks.observations import CameraView, Image, register_camera_observation, register_observation
from mygym.tasks.state import CONTROL_HZ, constant, namespace
from mygym.types import Array, FloatArray


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
        value = functions[number](stage_context)
        if getattr(value, "shape", None) != values.shape:  # numpy would broadcast some
            key = f"stage {context.task.sequence.stages[number].name}"
            raise wrong_result(key, functions[number], value, f"an array of shape {tuple(values.shape)}")
        values = xp.where((context.progress.stage == index)[:, None], value, values)
    return values


@register_camera_observation("image", channels=3, unit="1/255")
def image(view: CameraView) -> Image:
    """`(H, W, 3)` uint8: red, green and blue of a camera's pixels; `image:wrist` names another camera than `main`."""
    return view.frame.rgb


@register_camera_observation("depth", channels=1, unit="1/255 of image_params.depth_range")
def depth(view: CameraView) -> Image:
    """`(H, W, 1)` uint8: distances, 0 to 255 in `image_params.depth_range`; 255 also for the background."""
    near, far = view.depth_range
    share = np.clip((view.frame.depth - near) / (far - near), 0.0, 1.0)
    pixels: Image = np.rint(255.0 * share).astype(np.uint8)
    return pixels[..., None]


@register_camera_observation("rgbd", channels=4, unit="1/255")
def rgbd(view: CameraView) -> Image:
    """`(H, W, 4)` uint8: the channels of `image`, then the channel of `depth`."""
    return np.concatenate([image(view), depth(view)], axis=-1)


@register_camera_observation("segmentation", channels=1, unit="index")
def segmentation(view: CameraView) -> Image:
    """`(H, W, 1)` uint8: 0 background, 1 robot, then the fixtures, the objects, and the marker of the goal."""
    return (view.frame.segmentation + 1).astype(np.uint8)[..., None]


@register_camera_observation("centroids", size=3, unit="half images")
def centroids(view: CameraView) -> FloatArray:
    """`(3 S,)`: of each object and of a seen goal, centre to the right and downwards in [-1, 1], and 1 if visible."""
    return _of_targets(view, 3, lambda x, y: (x.mean(), y.mean(), 1.0))


@register_camera_observation("boxes", size=5, unit="half images")
def boxes(view: CameraView) -> FloatArray:
    """`(5 S,)`: of each object and of a seen goal, left, top, right and bottom in [-1, 1], and share of the pixels."""
    return _of_targets(view, 5, lambda x, y: (x.min(), y.min(), x.max(), y.max(), len(x) / view.frame.depth.size))


@register_camera_observation("latent", encoded=True, unit="deviations")
def latent(view: CameraView) -> FloatArray:
    """`(Z,)`: latents of a camera's image by the encoder in `image_params.encoder`."""
    assert view.latent is not None
    return view.latent


def _of_targets(
    view: CameraView, size: int, measure: Callable[[FloatArray, FloatArray], tuple[float, ...]]
) -> FloatArray:
    """Return `size` numbers of each target, zeros for a target that is not visible.

    `measure` gets the coordinates of a target's pixels, to the right and downwards, from -1 to 1.
    """
    segmentation = view.frame.segmentation
    height, width = segmentation.shape
    values = np.zeros((len(view.targets), size))
    for row, target in enumerate(view.targets):
        rows, columns = np.nonzero(segmentation == target)
        if len(rows):
            values[row] = measure((2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1)
    return values.ravel()


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


@register_observation("object_position", 5, of="objects", size=3, unit="m", frame="world", detectable=True)
def object_position(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m, world frame: centres of mass of the task's `R` objects."""
    return of_roles(context, context.state.object_position)


@register_observation(
    "object_from_ee", 5, of="objects", size=3, detectable=True, unit="m", frame="world axes, from the end effector"
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
    """`(N, 1)`: share of the horizon that has passed, 0 to 1; 0 also where the expert has begun the episode."""
    now = context.state.time
    xp = namespace(now)
    before = xp.round(now * CONTROL_HZ) - xp.astype(context.elapsed, now.dtype)  # steps of the expert
    return (now - before / CONTROL_HZ)[:, None] * (CONTROL_HZ / context.task.horizon)


@register_observation("ee_position", 5, unit="m", frame="world")
def ee_position(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world frame: the end-effector point."""
    return context.state.ee_position


@register_observation("ee_velocity", 20, unit="m/s", frame="world")
def ee_velocity(context: EpisodeContext) -> Array:
    """`(N, 3)` m/s, world frame: velocity of the end-effector point."""
    return context.state.ee_velocity


@register_observation("ee_orientation", 1, unit="quaternion (x, y, z, w)", frame="world")
def ee_orientation(context: EpisodeContext) -> Array:
    """`(N, 4)` unit quaternion `(x, y, z, w)` of the end-effector frame, world frame, with w ≥ 0."""
    return positive_w(context.state.ee_orientation)


@register_observation("tool_yaw", 4, unit="rad", frame="tool, relative to home")
def tool_yaw(context: EpisodeContext) -> Array:
    """`(N, 1)` rad: yaw of the tool about the vertical, relative to home."""
    return context.state.tool_yaw[:, None]


@register_observation("joint_position", 10, unit="rad")
def joint_position(context: EpisodeContext) -> Array:
    """`(N, J)` rad: joint positions of all arms."""
    return context.state.joint_position


@register_observation("joint_velocity", 50, unit="rad/s")
def joint_velocity(context: EpisodeContext) -> Array:
    """`(N, J)` rad/s: joint velocities of all arms."""
    return context.state.joint_velocity


@register_observation("command_offset", 1, unit="m, or rad of joints", frame="world")
def command_offset(context: EpisodeContext) -> Array:
    """`(N, L)` m or rad: commanded minus measured position; delta actions change the commanded position."""
    return context.state.command_offset


@register_observation("tool_yaw_offset", 1, unit="rad")
def tool_yaw_offset(context: EpisodeContext) -> Array:
    """`(N, 1)` rad: commanded minus measured tool yaw."""
    return context.state.tool_yaw_offset[:, None]


@register_observation("gripper_width", 1, unit="m")
def gripper_width(context: EpisodeContext) -> Array:
    """`(N, 1)` m: distance between the fingers."""
    return context.state.gripper_width[:, None]


@register_observation("second_ee_position", 5, of="other arms", unit="m", frame="world")
def second_ee_position(context: EpisodeContext) -> Array:
    """`(N, 3 (A - 1))` m, world frame: end-effector points of the arms after the first."""
    return flattened(context.state.second_ee_position)


@register_observation("second_ee_velocity", 20, of="other arms", unit="m/s", frame="world")
def second_ee_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 (A - 1))` m/s, world frame: velocities of the end-effector points of the arms after the first."""
    return flattened(context.state.second_ee_velocity)


@register_observation("second_ee_orientation", 1, of="other arms", unit="quaternion (x, y, z, w)", frame="world")
def second_ee_orientation(context: EpisodeContext) -> Array:
    """`(N, 4 (A - 1))` unit quaternions `(x, y, z, w)`, world frame, with w ≥ 0, of the arms after the first."""
    return flattened(positive_w(context.state.second_ee_orientation))


@register_observation("second_gripper_width", 1, of="other arms", unit="m")
def second_gripper_width(context: EpisodeContext) -> Array:
    """`(N, A - 1)` m: distance between the fingers of the arms after the first."""
    return context.state.second_gripper_width
