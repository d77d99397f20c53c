"""The built-in observation components, in the order: robot, objects, parts, distractors, goal, progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.episode import active
from mygym.tasks.observations import EpisodeContext, register_observation
from mygym.tasks.state import CONTROL_HZ, namespace
from mygym.types import Array

# robot --------------------------------------------------------------------------------------------------------------


@register_observation("ee_position", 5, unit="m", frame="world")
def ee_position(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world frame: the end-effector point."""
    return context.state.ee_position


@register_observation("ee_velocity", 20, unit="m/s", frame="world")
def ee_velocity(context: EpisodeContext) -> Array:
    """`(N, 3)` m/s, world frame."""
    return context.state.ee_velocity


@register_observation("ee_orientation", 1, unit="quaternion (x, y, z, w)", frame="world")
def ee_orientation(context: EpisodeContext) -> Array:
    """`(N, 4)` unit quaternion `(x, y, z, w)` of the end-effector frame, world frame, with w ≥ 0."""
    return _one_sign(context.state.ee_orientation)


@register_observation("tool_yaw", 4, unit="rad", frame="the tool's, from home")
def tool_yaw(context: EpisodeContext) -> Array:
    """`(N, 1)` rad by which the tool is turned about the vertical from how it is held at home."""
    return context.state.tool_yaw[:, None]


@register_observation("joint_position", 10, unit="rad")
def joint_position(context: EpisodeContext) -> Array:
    """`(N, J)` rad."""
    return context.state.joint_position


@register_observation("joint_velocity", 50, unit="rad/s")
def joint_velocity(context: EpisodeContext) -> Array:
    """`(N, J)` rad/s."""
    return context.state.joint_velocity


@register_observation("command_offset", 1, unit="m, of joints rad", frame="world")
def command_offset(context: EpisodeContext) -> Array:
    """`(N, L)` m or rad: how far what is commanded leads what is measured; deltas are added to the former."""
    return context.state.command_offset


@register_observation("tool_yaw_offset", 1, unit="rad")
def tool_yaw_offset(context: EpisodeContext) -> Array:
    """`(N, 1)` rad by which the turn that is commanded leads the one that is measured."""
    return context.state.tool_yaw_offset[:, None]


@register_observation("gripper_width", 1, unit="m")
def gripper_width(context: EpisodeContext) -> Array:
    """`(N, 1)` m between the fingers."""
    return context.state.gripper_width[:, None]


@register_observation("second_ee_position", 5, of="other arms", unit="m", frame="world")
def second_ee_position(context: EpisodeContext) -> Array:
    """`(N, 3 (A - 1))` m, world frame: the end-effector points of the arms but the first."""
    return _in_a_row(context.state.second_ee_position)


@register_observation("second_ee_velocity", 20, of="other arms", unit="m/s", frame="world")
def second_ee_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 (A - 1))` m/s, world frame."""
    return _in_a_row(context.state.second_ee_velocity)


@register_observation("second_ee_orientation", 1, of="other arms", unit="quaternion (x, y, z, w)", frame="world")
def second_ee_orientation(context: EpisodeContext) -> Array:
    """`(N, 4 (A - 1))` unit quaternions `(x, y, z, w)`, world frame, with w ≥ 0."""
    return _in_a_row(_one_sign(context.state.second_ee_orientation))


@register_observation("second_gripper_width", 1, of="other arms", unit="m")
def second_gripper_width(context: EpisodeContext) -> Array:
    """`(N, A - 1)` m between the fingers of the arms but the first."""
    return context.state.second_gripper_width


# objects ------------------------------------------------------------------------------------------------------------


@register_observation("object_position", 5, of="objects", size=3, unit="m", frame="world")
def object_position(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m, world frame: centres of mass of the `R` objects that the task is about."""
    return _of_roles(context, context.state.object_position)


@register_observation("object_from_ee", 5, of="objects", size=3, unit="m", frame="world axes, from the end effector")
def object_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m, world axes: from the end effector to the objects."""
    return _of_roles(context, context.state.object_position - context.state.ee_position[:, None])


@register_observation("object_orientation", 1, of="objects", size=4, unit="quaternion (x, y, z, w)", frame="world")
def object_orientation(context: EpisodeContext) -> Array:
    """`(N, 4 R)` unit quaternions `(x, y, z, w)` of the objects, world frame, with w ≥ 0."""
    return _of_roles(context, _one_sign(context.state.object_orientation))


@register_observation("object_velocity", 20, of="objects", size=3, unit="m/s", frame="world")
def object_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 R)` m/s, world frame."""
    return _of_roles(context, context.state.object_velocity)


@register_observation("object_angular_velocity", 200, of="objects", size=3, unit="rad/s", frame="world")
def object_angular_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 R)` rad/s, world frame."""
    return _of_roles(context, context.state.object_angular_velocity)


@register_observation("touch", 1, of="objects", size=1, unit="0 or 1")
def touch(context: EpisodeContext) -> Array:
    """`(N, R)`: 1 where any link of the robot presses on the object, by the physics' contacts, else 0."""
    return _number(context, context.state.touch[:, : len(context.task.roles)])


@register_observation("finger_contact", 1, of="objects", size=1, unit="share")
def finger_contact(context: EpisodeContext) -> Array:
    """`(N, R)`: share of the fingers that press on the object, by the physics' contacts: 1 where all do."""
    contact = context.state.finger_contact[:, : len(context.task.roles)]
    return _number(context, contact).sum(-1) / max(contact.shape[2], 1)


@register_observation("object_present", 1, of="objects", size=1, unit="0 or 1")
def object_present(context: EpisodeContext) -> Array:
    """`(N, R)`: 1 for every object; in shared spaces 0 where there is none."""
    return _number(context, namespace(context.state.touch).ones_like(context.state.touch))[:, : len(context.task.roles)]


@register_observation("object_active", 1, of="objects", size=1, unit="0 or 1")
def object_active(context: EpisodeContext) -> Array:
    """`(N, R)`: 1 for the object that the active stage acts on, else 0."""
    roles = range(len(context.task.roles))
    return _by_stage(context, [[bound.object == slot for slot in roles] for bound in context.task.bound_stages])


# parts --------------------------------------------------------------------------------------------------------------


@register_observation("part_position", 10, of="parts", size=1, unit="m or rad")
def part_position(context: EpisodeContext) -> Array:
    """`(N, p)` m or rad: how far the drawers, doors, levers that the task is about are."""
    return context.state.part_position[:, list(context.task.part_slots)]


@register_observation("part_velocity", 100, of="parts", size=1, unit="m/s or rad/s")
def part_velocity(context: EpisodeContext) -> Array:
    """`(N, p)` m/s or rad/s."""
    return context.state.part_velocity[:, list(context.task.part_slots)]


@register_observation("handle_from_ee", 5, of="parts", size=3, unit="m", frame="world axes, from the end effector")
def handle_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3 p)` m, world axes: from the end effector to their handles."""
    handles = context.state.part_handle_position[:, list(context.task.part_slots)]
    return _in_a_row(handles - context.state.ee_position[:, None])


@register_observation("part_present", 1, of="parts", size=1, unit="0 or 1")
def part_present(context: EpisodeContext) -> Array:
    """`(N, p)`: 1 for every part that the task is about; in shared spaces 0 where there is none."""
    return namespace(context.state.time).ones_like(part_position(context))


@register_observation("part_active", 1, of="parts", size=1, unit="0 or 1")
def part_active(context: EpisodeContext) -> Array:
    """`(N, p)`: 1 for the part that the active stage acts on, else 0."""
    slots = context.task.part_slots
    return _by_stage(context, [[bound.part == slot for slot in slots] for bound in context.task.bound_stages])


# distractors --------------------------------------------------------------------------------------------------------


@register_observation("distractor_position", 5, of="distractors", size=3, unit="m", frame="world")
def distractor_position(context: EpisodeContext) -> Array:
    """`(N, 3 C)` m, world frame: centres of mass of the `C` objects beyond those that the task is about."""
    return _of_distractors(context, context.state.object_position)


@register_observation(
    "distractor_from_ee", 5, of="distractors", size=3, unit="m", frame="world axes, from the end effector"
)
def distractor_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3 C)` m, world axes: from the end effector to them."""
    return _of_distractors(context, context.state.object_position - context.state.ee_position[:, None])


@register_observation(
    "distractor_orientation", 1, of="distractors", size=4, unit="quaternion (x, y, z, w)", frame="world"
)
def distractor_orientation(context: EpisodeContext) -> Array:
    """`(N, 4 C)` unit quaternions `(x, y, z, w)`, world frame, with w ≥ 0."""
    return _of_distractors(context, _one_sign(context.state.object_orientation))


@register_observation("distractor_velocity", 20, of="distractors", size=3, unit="m/s", frame="world")
def distractor_velocity(context: EpisodeContext) -> Array:
    """`(N, 3 C)` m/s, world frame."""
    return _of_distractors(context, context.state.object_velocity)


# goal ---------------------------------------------------------------------------------------------------------------


@register_observation("goal", 5, tells_goal=True, unit="m, of a part m or rad", frame="world")
def goal(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world frame: the goal point of the sub-task under way; of a part its position (m or rad), 0, 0."""
    return _of_active_stage(context, lambda context: context.goal)


@register_observation("goal_from_ee", 5, tells_goal=True, unit="m", frame="world axes, from the end effector")
def goal_from_ee(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world axes: from the end effector to the goal point; zeros where the goal is a part's position."""

    def way(context: StageContext) -> Array:
        return context.goal * 0.0 if context.bound.part is not None else context.goal - context.ee_position

    return _of_active_stage(context, way)


@register_observation(
    "goal_from_object",
    5,
    of="objects or parts",
    size=3,
    tells_goal=True,
    unit="m, of a part m or rad",
    frame="world axes, from the object",
)
def goal_from_object(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world axes: what the object has yet to go; of a part m or rad, 0, 0; zeros where there is neither."""

    def way(context: StageContext) -> Array:
        if context.bound.part is None:
            return context.goal - context.target  # the same point where there is no object
        left = context.goal[:, 0] - context.part_position
        xp = namespace(left)
        return xp.stack([left, left * 0.0, left * 0.0], axis=-1)

    task = context.task
    return _of_active_stage(context, way)[:, : 3 * bool(task.roles or task.part_slots)]


@register_observation("waypoint", 5, of="waypoints", size=3, tells_goal=True, unit="m", frame="world")
def waypoint(context: EpisodeContext) -> Array:
    """`(N, 3)` m, world frame: where the object should be now, on a path or behind a moving goal."""

    def point(context: StageContext) -> Array:
        return context.bound.stage.waypoint(context) if context.bound.stage.waypoint else context.goal

    there = any(bound.stage.waypoint is not None for bound in context.task.bound_stages)
    return _of_active_stage(context, point)[:, : 3 * there]


# progress -----------------------------------------------------------------------------------------------------------


@register_observation("stage", 1, of="stages", unit="0 or 1")
def stage(context: EpisodeContext) -> Array:
    """`(N, stages + 1)`: one-hot of the active stage, the last for all done."""
    xp = namespace(context.state.time)
    stages = xp.arange(len(context.task.bound_stages) + 1)
    return xp.astype(context.progress.stage[:, None] == stages, context.state.ee_position.dtype)


@register_observation("stage_name", 1, unit="0 or 1")
def stage_name(context: EpisodeContext) -> Array:
    """`(N, built-in stages + 1)`: one-hot of the active stage by name, the last for all of yours; zeros when done."""
    return _by_stage(context, _rows_by_name(context.task.stage_names))


def stage_columns() -> list[str]:
    """What the numbers of `stage_name` stand for, but for the last, which is for all stages of the user's own."""
    return [entry.name for entry in registry("stage") if entry.built_in]


@cache
def _rows_by_name(stages: tuple[str, ...]) -> list[list[bool]]:
    """Of each stage its one-hot; kept, because the registry looks into the user's folders, 1 ms in every step."""
    columns = stage_columns()
    return [[stage == name for name in columns] + [stage not in columns] for stage in stages]


@register_observation("subtask", 1, of="sub-tasks", size=1, unit="0 or 1")
def subtask(context: EpisodeContext) -> Array:
    """`(N, sub-tasks)`: one-hot of the sub-task under way; zeros when all is done."""
    numbers = range(len(context.task.subtasks))
    return _by_stage(context, [[bound.subtask == number for number in numbers] for bound in context.task.bound_stages])


@register_observation("time", 1, unit="share of the horizon")
def time(context: EpisodeContext) -> Array:
    """`(N, 1)`: share of the horizon that has passed, 0 to 1."""
    return context.state.time[:, None] * (CONTROL_HZ / context.task.horizon)


# what they are made with --------------------------------------------------------------------------------------------


def _in_a_row(values: Array) -> Array:
    """`(N, A, d)` as `(N, A d)`."""
    return namespace(values).reshape(values, (values.shape[0], -1))


def _of_roles(context: EpisodeContext, values: Array) -> Array:
    """`(N, k, d)` of all objects as `(N, R d)` of those that the task is about."""
    return _in_a_row(values[:, : len(context.task.roles)])


def _of_distractors(context: EpisodeContext, values: Array) -> Array:
    """`(N, k, d)` of all objects as `(N, C d)` of the others."""
    return _in_a_row(values[:, len(context.task.roles) :])


def _one_sign(quaternion: Array) -> Array:
    """The same orientations `(…, 4)` with w ≥ 0."""
    return namespace(quaternion).where(quaternion[..., 3:] < 0, -quaternion, quaternion)


def _number(context: EpisodeContext, flags: Array) -> Array:
    """Bool as 0 and 1, of the type of all else."""
    return namespace(flags).astype(flags, context.state.ee_position.dtype)


def _by_stage(context: EpisodeContext, rows: Sequence[Sequence[bool]]) -> Array:
    """`(N, d)`: the row `(stages, d)` of the active stage as 0 and 1; zeros when all is done."""
    xp = namespace(context.state.time)
    table = xp.asarray([*rows, [False] * len(rows[0])], dtype=context.state.ee_position.dtype)
    return xp.take(table, context.progress.stage, axis=0)


def _of_active_stage(context: EpisodeContext, points: Callable[[StageContext], Array]) -> Array:
    """`(N, 3)`: of each episode what the active step sees; when all is done, what the last one does."""
    xp = namespace(context.state.time)
    bound_stages, last = context.task.bound_stages, len(context.task.bound_stages) - 1
    found = context.goals[:, bound_stages[0].goal_slot]
    for index in active(context.progress.stage, last + 1):
        staged = StageContext(context.state, context.progress, context.goals, bound_stages[min(index, last)])
        found = xp.where((context.progress.stage == index)[:, None], points(staged), found)
    return found
