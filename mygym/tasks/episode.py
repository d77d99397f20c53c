"""What happens in an episode of a task: stages advance, the potential rises, the expert acts. Pure and batched."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import PREDICATES
from mygym.tasks.progress import Progress
from mygym.tasks.state import State, namespace
from mygym.tasks.task import Task
from mygym.types import Array

MANY = 8
"""From this batch size on every stage is evaluated under a mask, which is cheaper than finding out which are active."""


def advance(task: Task, progress: Progress, state: State, goals: Array) -> Progress:
    """Progress after a step: on when the active stage is complete, back where something given earlier was lost.

    Args:
        task: The task.
        progress: Before the step.
        state: After the step.
        goals: `(N, G, 3)` goal points in the world frame.
    """
    total = len(task.bound_stages)
    before = progress.stage
    after, count = before, progress.count
    for index in active(before, total):
        following, counted = _following(task, index, progress, state, goals)
        if before.shape[0] == 1:
            after, count = following, counted
        else:
            here = before == index
            xp = namespace(before)
            after, count = xp.where(here, following, after), xp.where(here, counted, count)
    held = (progress.held + 1) * (after == total)
    moved = after != before
    if not bool(moved.any()):
        starts = progress.start_ee_position, progress.start_object_position, progress.start_part_position
        return Progress(before, held, *starts, count)
    xp = namespace(before)
    return Progress(
        stage=after,
        held=held,
        start_ee_position=xp.where(moved[:, None], state.ee_position, progress.start_ee_position),
        start_object_position=xp.where(moved[:, None, None], state.object_position, progress.start_object_position),
        start_part_position=xp.where(moved[:, None], state.part_position, progress.start_part_position),
        count=count * ~moved,
    )


def _following(task: Task, index: int, progress: Progress, state: State, goals: Array) -> tuple[Array, Array]:
    """`(N,)`: the stage after this step for episodes in stage `index`, and what it has counted."""
    xp = namespace(state.time)
    count = progress.count
    if index < len(task.bound_stages):
        context = StageContext(state, progress, goals, task.bound_stages[index])
        stage = context.bound.stage
        first, *others = (PREDICATES[fact].begins for fact in stage.gives)
        complete = first(context)
        for begins in others:
            complete = complete & begins(context)
        if stage.complete is not None:
            complete = complete & stage.complete(context)
        if stage.count is not None:
            count = stage.count(context)
        following = index + xp.astype(complete, xp.int64)
    else:
        following = xp.full(state.time.shape, index, dtype=xp.int64)
    for fact, giver in task.plan.kept[index]:  # latest giver first, so that the earliest loss wins
        keeps = PREDICATES[fact].keeps(StageContext(state, progress, goals, task.bound_stages[giver]))
        following = xp.where(keeps, following, giver)
    return following, count


def potential(task: Task, progress: Progress, state: State, goals: Array) -> Array:
    """`(N,)` in [−stages, 0]: stages done, plus how far along the active one is, minus their number; 0 at the end."""
    xp = namespace(state.time)
    count = len(task.bound_stages)
    total = xp.astype(progress.stage, state.ee_position.dtype) - count
    for index in active(progress.stage, count):
        if index < count:
            share = task.bound_stages[index].stage.potential(
                StageContext(state, progress, goals, task.bound_stages[index])
            )
            total = total + xp.where(progress.stage == index, share, 0.0)
    return total


def is_success(task: Task, progress: Progress) -> Array:
    """`(N,)` bool: all stages done, in order, and held."""
    return progress.held >= task.hold


def act(task: Task, progress: Progress, state: State, goals: Array) -> ArmCommand:
    """What the expert of the active stage wants."""
    last = len(task.bound_stages) - 1
    motions = []
    for index in active(progress.stage, last + 1):
        bound = task.bound_stages[min(index, last)]  # when all is done, the last stage's expert holds what it has
        motions.append(
            (
                progress.stage == index,
                bound.stage.expert(StageContext(state, progress, goals, bound), _entry(task, index)),
            )
        )
    if len(motions) == 1:
        return motions[0][1]
    return _merged(motions, state)


def _entry(task: Task, index: int) -> StartPose:
    """Where the stage after this one wants the end effector, if it acts on the same."""
    stages = task.bound_stages
    if index + 1 < len(stages) and stages[index + 1].subtask == stages[index].subtask:
        return stages[index + 1].stage.entry or _at_target
    return _at_target


def _at_target(context: StageContext) -> Array:
    """Where a stage begins that does not say where."""
    return context.target


def _merged(motions: Sequence[tuple[Array, ArmCommand]], state: State) -> ArmCommand:
    """Of each episode the motion of its own stage; beside one that moves the second arm, others keep it as it is."""
    xp = namespace(state.time)
    zero = state.time * 0.0
    arms = state.second_ee_position.shape[1]
    rest = state.second_ee_position[:, 0] if arms else state.ee_position
    merged = ArmCommand(state.ee_position, zero, zero, rest, zero + 1.0)
    for here, motion in motions:
        turn = zero if motion.turn_by is None else motion.turn_by
        other = rest if motion.second_target is None else motion.second_target
        merged = ArmCommand(
            xp.where(here[:, None], motion.target, merged.target),
            xp.where(here, zero + motion.gripper, merged.gripper),
            xp.where(here, turn, merged.turn_by),
            xp.where(here[:, None], other, merged.second_target),
            xp.where(here, zero + motion.second_gripper, merged.second_gripper),
        )
    if all(motion.second_target is None for _, motion in motions):
        merged.second_target = None
    return merged


def active(stage: Array, count: int) -> Sequence[int]:
    """The stages that have to be looked at, for active stages `(N,)` of `count` (which stands for all done)."""
    if stage.shape[0] == 1:
        return (int(stage[0]),)
    return range(count + 1) if stage.shape[0] >= MANY else sorted({int(i) for i in stage})
