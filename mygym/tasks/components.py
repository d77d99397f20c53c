"""The built-in observation components, in the order: robot, objects, parts, distractors, goal, progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from mygym.registry import registry
from mygym.tasks.episode import active
from mygym.tasks.observations import Situation, register_observation
from mygym.tasks.state import CONTROL_HZ, Array, namespace
from mygym.tasks.view import View

# robot --------------------------------------------------------------------------------------------------------------


@register_observation("ee_position", 5, unit="m", frame="world")
def ee_position(situation: Situation) -> Array:
    """`(N, 3)` m, world frame: the end-effector point."""
    return situation.state.ee_position


@register_observation("ee_velocity", 20, unit="m/s", frame="world")
def ee_velocity(situation: Situation) -> Array:
    """`(N, 3)` m/s, world frame."""
    return situation.state.ee_velocity


@register_observation("ee_orientation", 1, unit="quaternion (x, y, z, w)", frame="world")
def ee_orientation(situation: Situation) -> Array:
    """`(N, 4)` unit quaternion `(x, y, z, w)` of the end-effector frame, world frame, with w ≥ 0."""
    return _one_sign(situation.state.ee_orientation)


@register_observation("ee_turn", 4, unit="rad", frame="the tool's, from home")
def ee_turn(situation: Situation) -> Array:
    """`(N, 1)` rad by which the tool is turned about the vertical from how it is held at home."""
    return situation.state.ee_turn[:, None]


@register_observation("joint_position", 10, unit="rad")
def joint_position(situation: Situation) -> Array:
    """`(N, J)` rad."""
    return situation.state.joint_position


@register_observation("joint_velocity", 50, unit="rad/s")
def joint_velocity(situation: Situation) -> Array:
    """`(N, J)` rad/s."""
    return situation.state.joint_velocity


@register_observation("command_lead", 1, unit="m, of joints rad", frame="world")
def command_lead(situation: Situation) -> Array:
    """`(N, L)` m or rad: how far what is commanded leads what is measured; deltas are added to the former."""
    return situation.state.command_lead


@register_observation("turn_lead", 1, unit="rad")
def turn_lead(situation: Situation) -> Array:
    """`(N, 1)` rad by which the turn that is commanded leads the one that is measured."""
    return situation.state.turn_lead[:, None]


@register_observation("gripper_width", 1, unit="m")
def gripper_width(situation: Situation) -> Array:
    """`(N, 1)` m between the fingers."""
    return situation.state.gripper_width[:, None]


@register_observation("other_ee_position", 5, of="other arms", unit="m", frame="world")
def other_ee_position(situation: Situation) -> Array:
    """`(N, 3 (A - 1))` m, world frame: the end-effector points of the arms but the first."""
    return _in_a_row(situation.state.other_ee_position)


@register_observation("other_ee_velocity", 20, of="other arms", unit="m/s", frame="world")
def other_ee_velocity(situation: Situation) -> Array:
    """`(N, 3 (A - 1))` m/s, world frame."""
    return _in_a_row(situation.state.other_ee_velocity)


@register_observation("other_ee_orientation", 1, of="other arms", unit="quaternion (x, y, z, w)", frame="world")
def other_ee_orientation(situation: Situation) -> Array:
    """`(N, 4 (A - 1))` unit quaternions `(x, y, z, w)`, world frame, with w ≥ 0."""
    return _in_a_row(_one_sign(situation.state.other_ee_orientation))


@register_observation("other_gripper_width", 1, of="other arms", unit="m")
def other_gripper_width(situation: Situation) -> Array:
    """`(N, A - 1)` m between the fingers of the arms but the first."""
    return situation.state.other_gripper_width


# objects ------------------------------------------------------------------------------------------------------------


@register_observation("object_position", 5, of="objects", size=3, unit="m", frame="world")
def object_position(situation: Situation) -> Array:
    """`(N, 3 R)` m, world frame: centres of mass of the `R` objects that the task is about."""
    return _of_roles(situation, situation.state.object_position)


@register_observation("object_from_ee", 5, of="objects", size=3, unit="m", frame="world axes, from the end effector")
def object_from_ee(situation: Situation) -> Array:
    """`(N, 3 R)` m, world axes: from the end effector to the objects."""
    return _of_roles(situation, situation.state.object_position - situation.state.ee_position[:, None])


@register_observation("object_orientation", 1, of="objects", size=4, unit="quaternion (x, y, z, w)", frame="world")
def object_orientation(situation: Situation) -> Array:
    """`(N, 4 R)` unit quaternions `(x, y, z, w)` of the objects, world frame, with w ≥ 0."""
    return _of_roles(situation, _one_sign(situation.state.object_orientation))


@register_observation("object_velocity", 20, of="objects", size=3, unit="m/s", frame="world")
def object_velocity(situation: Situation) -> Array:
    """`(N, 3 R)` m/s, world frame."""
    return _of_roles(situation, situation.state.object_velocity)


@register_observation("object_angular_velocity", 200, of="objects", size=3, unit="rad/s", frame="world")
def object_angular_velocity(situation: Situation) -> Array:
    """`(N, 3 R)` rad/s, world frame."""
    return _of_roles(situation, situation.state.object_angular_velocity)


@register_observation("touch", 1, of="objects", size=1, unit="0 or 1")
def touch(situation: Situation) -> Array:
    """`(N, R)`: 1 where any link of the robot presses on the object, by the physics' contacts, else 0."""
    return _number(situation, situation.state.touch[:, : len(situation.task.roles)])


@register_observation("finger_contact", 1, of="objects", size=1, unit="share")
def finger_contact(situation: Situation) -> Array:
    """`(N, R)`: share of the fingers that press on the object, by the physics' contacts: 1 where all do."""
    contact = situation.state.finger_contact[:, : len(situation.task.roles)]
    return _number(situation, contact).sum(-1) / max(contact.shape[2], 1)


@register_observation("object_present", 1, of="objects", size=1, unit="0 or 1")
def object_present(situation: Situation) -> Array:
    """`(N, R)`: 1 for every object; in shared spaces 0 where there is none."""
    return _number(situation, namespace(situation.state.touch).ones_like(situation.state.touch))[
        :, : len(situation.task.roles)
    ]


@register_observation("object_active", 1, of="objects", size=1, unit="0 or 1")
def object_active(situation: Situation) -> Array:
    """`(N, R)`: 1 for the object that the active stage acts on, else 0."""
    roles = range(len(situation.task.roles))
    return _by_stage(situation, [[step.object == slot for slot in roles] for step in situation.task.steps])


# parts --------------------------------------------------------------------------------------------------------------


@register_observation("part_position", 10, of="parts", size=1, unit="m or rad")
def part_position(situation: Situation) -> Array:
    """`(N, p)` m or rad: how far the drawers, doors, levers that the task is about are."""
    return situation.state.part_position[:, list(situation.task.part_slots)]


@register_observation("part_velocity", 100, of="parts", size=1, unit="m/s or rad/s")
def part_velocity(situation: Situation) -> Array:
    """`(N, p)` m/s or rad/s."""
    return situation.state.part_velocity[:, list(situation.task.part_slots)]


@register_observation("handle_from_ee", 5, of="parts", size=3, unit="m", frame="world axes, from the end effector")
def handle_from_ee(situation: Situation) -> Array:
    """`(N, 3 p)` m, world axes: from the end effector to their handles."""
    handles = situation.state.part_handle_position[:, list(situation.task.part_slots)]
    return _in_a_row(handles - situation.state.ee_position[:, None])


@register_observation("part_present", 1, of="parts", size=1, unit="0 or 1")
def part_present(situation: Situation) -> Array:
    """`(N, p)`: 1 for every part that the task is about; in shared spaces 0 where there is none."""
    return namespace(situation.state.time).ones_like(part_position(situation))


@register_observation("part_active", 1, of="parts", size=1, unit="0 or 1")
def part_active(situation: Situation) -> Array:
    """`(N, p)`: 1 for the part that the active stage acts on, else 0."""
    slots = situation.task.part_slots
    return _by_stage(situation, [[step.part == slot for slot in slots] for step in situation.task.steps])


# distractors --------------------------------------------------------------------------------------------------------


@register_observation("distractor_position", 5, of="distractors", size=3, unit="m", frame="world")
def distractor_position(situation: Situation) -> Array:
    """`(N, 3 C)` m, world frame: centres of mass of the `C` objects beyond those that the task is about."""
    return _of_distractors(situation, situation.state.object_position)


@register_observation(
    "distractor_from_ee", 5, of="distractors", size=3, unit="m", frame="world axes, from the end effector"
)
def distractor_from_ee(situation: Situation) -> Array:
    """`(N, 3 C)` m, world axes: from the end effector to them."""
    return _of_distractors(situation, situation.state.object_position - situation.state.ee_position[:, None])


@register_observation(
    "distractor_orientation", 1, of="distractors", size=4, unit="quaternion (x, y, z, w)", frame="world"
)
def distractor_orientation(situation: Situation) -> Array:
    """`(N, 4 C)` unit quaternions `(x, y, z, w)`, world frame, with w ≥ 0."""
    return _of_distractors(situation, _one_sign(situation.state.object_orientation))


@register_observation("distractor_velocity", 20, of="distractors", size=3, unit="m/s", frame="world")
def distractor_velocity(situation: Situation) -> Array:
    """`(N, 3 C)` m/s, world frame."""
    return _of_distractors(situation, situation.state.object_velocity)


# goal ---------------------------------------------------------------------------------------------------------------


@register_observation("goal", 5, tells_goal=True, unit="m, of a part m or rad", frame="world")
def goal(situation: Situation) -> Array:
    """`(N, 3)` m, world frame: the goal point of the sub-task under way; of a part its position (m or rad), 0, 0."""
    return _of_active_step(situation, lambda view: view.goal)


@register_observation("goal_from_ee", 5, tells_goal=True, unit="m", frame="world axes, from the end effector")
def goal_from_ee(situation: Situation) -> Array:
    """`(N, 3)` m, world axes: from the end effector to the goal point; zeros where the goal is a part's position."""

    def way(view: View) -> Array:
        return view.goal * 0.0 if view.step.part is not None else view.goal - view.ee_position

    return _of_active_step(situation, way)


@register_observation(
    "goal_from_object",
    5,
    of="objects or parts",
    size=3,
    tells_goal=True,
    unit="m, of a part m or rad",
    frame="world axes, from the object",
)
def goal_from_object(situation: Situation) -> Array:
    """`(N, 3)` m, world axes: what the object has yet to go; of a part m or rad, 0, 0; zeros where there is neither."""

    def way(view: View) -> Array:
        if view.step.part is None:
            return view.goal - view.target  # the same point where there is no object
        left = view.goal[:, 0] - view.part_position
        xp = namespace(left)
        return xp.stack([left, left * 0.0, left * 0.0], axis=-1)

    task = situation.task
    return _of_active_step(situation, way)[:, : 3 * bool(task.roles or task.part_slots)]


@register_observation("waypoint", 5, of="waypoints", size=3, tells_goal=True, unit="m", frame="world")
def waypoint(situation: Situation) -> Array:
    """`(N, 3)` m, world frame: where the object should be now, on a path or behind a moving goal."""

    def point(view: View) -> Array:
        return view.step.stage.waypoint(view) if view.step.stage.waypoint else view.goal

    there = any(step.stage.waypoint is not None for step in situation.task.steps)
    return _of_active_step(situation, point)[:, : 3 * there]


# progress -----------------------------------------------------------------------------------------------------------


@register_observation("stage", 1, of="stages", unit="0 or 1")
def stage(situation: Situation) -> Array:
    """`(N, stages + 1)`: one-hot of the active stage, the last for all done."""
    xp = namespace(situation.state.time)
    stages = xp.arange(len(situation.task.steps) + 1)
    return xp.astype(situation.progress.stage[:, None] == stages, situation.state.ee_position.dtype)


@register_observation("stage_name", 1, unit="0 or 1")
def stage_name(situation: Situation) -> Array:
    """`(N, built-in stages + 1)`: one-hot of the active stage by name, the last for all of yours; zeros when done."""
    return _by_stage(situation, _rows_by_name(situation.task.stage_names))


def stage_columns() -> list[str]:
    """What the numbers of `stage_name` stand for, but for the last, which is for all stages of the user's own."""
    return [entry.name for entry in registry("stage") if entry.built_in]


@cache
def _rows_by_name(stages: tuple[str, ...]) -> list[list[bool]]:
    """Of each stage its one-hot; kept, because the registry looks into the user's folders, 1 ms in every step."""
    columns = stage_columns()
    return [[stage == name for name in columns] + [stage not in columns] for stage in stages]


@register_observation("subtask", 1, of="sub-tasks", size=1, unit="0 or 1")
def subtask(situation: Situation) -> Array:
    """`(N, sub-tasks)`: one-hot of the sub-task under way; zeros when all is done."""
    numbers = range(len(situation.task.subtasks))
    return _by_stage(situation, [[step.subtask == number for number in numbers] for step in situation.task.steps])


@register_observation("time", 1, unit="share of the horizon")
def time(situation: Situation) -> Array:
    """`(N, 1)`: share of the horizon that has passed, 0 to 1."""
    return situation.state.time[:, None] * (CONTROL_HZ / situation.task.horizon)


# what they are made with --------------------------------------------------------------------------------------------


def _in_a_row(values: Array) -> Array:
    """`(N, A, d)` as `(N, A d)`."""
    return namespace(values).reshape(values, (values.shape[0], -1))


def _of_roles(situation: Situation, values: Array) -> Array:
    """`(N, k, d)` of all objects as `(N, R d)` of those that the task is about."""
    return _in_a_row(values[:, : len(situation.task.roles)])


def _of_distractors(situation: Situation, values: Array) -> Array:
    """`(N, k, d)` of all objects as `(N, C d)` of the others."""
    return _in_a_row(values[:, len(situation.task.roles) :])


def _one_sign(quaternion: Array) -> Array:
    """The same orientations `(…, 4)` with w ≥ 0."""
    return namespace(quaternion).where(quaternion[..., 3:] < 0, -quaternion, quaternion)


def _number(situation: Situation, flags: Array) -> Array:
    """Bool as 0 and 1, of the type of all else."""
    return namespace(flags).astype(flags, situation.state.ee_position.dtype)


def _by_stage(situation: Situation, rows: Sequence[Sequence[bool]]) -> Array:
    """`(N, d)`: the row `(stages, d)` of the active stage as 0 and 1; zeros when all is done."""
    xp = namespace(situation.state.time)
    table = xp.asarray([*rows, [False] * len(rows[0])], dtype=situation.state.ee_position.dtype)
    return xp.take(table, situation.progress.stage, axis=0)


def _of_active_step(situation: Situation, points: Callable[[View], Array]) -> Array:
    """`(N, 3)`: of each episode what the active step sees; when all is done, what the last one does."""
    xp = namespace(situation.state.time)
    steps, last = situation.task.steps, len(situation.task.steps) - 1
    found = situation.goals[:, steps[0].place]
    for index in active(situation.progress.stage, last + 1):
        view = View(situation.state, situation.progress, situation.goals, steps[min(index, last)])
        found = xp.where((situation.progress.stage == index)[:, None], points(view), found)
    return found
