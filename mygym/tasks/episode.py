"""Progress, potential and expert of a task's episodes; pure functions over batched states."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from mygym.registry.signatures import wrong_result
from mygym.tasks.context import ArmCommand, Condition, StageContext, StartPose
from mygym.tasks.state import Progress, State, namespace
from mygym.tasks.task import Task
from mygym.types import Array

AT_TARGET: StartPose = attrgetter("target")
"""Start pose of stages that declare none, and of the next sub-task's stages."""

LARGE_BATCH = 8
"""From this batch size on, every stage is evaluated under a mask: cheaper than a search for the active stages."""


def advance(task: Task, progress: Progress, state: State, goals: Array) -> Progress:
    """Return the progress after a control step.

    The next stage begins when the active stage is complete; an earlier stage begins again when its predicate is lost.

    Args:
        task: The task.
        progress: Before the control step.
        state: After the control step.
        goals: `(N, G, 3)` goal points in the world frame.
    """
    total = len(task.stage_bindings)
    before = progress.stage
    after, count = before, progress.count
    for index in active(before, total):
        next_stage, next_count = _next_stage(task, index, progress, state, goals)
        if before.shape[0] == 1:
            after, count = next_stage, next_count
        else:
            is_active = before == index
            xp = namespace(before)
            after, count = xp.where(is_active, next_stage, after), xp.where(is_active, next_count, count)
    held = (progress.held + 1) * (after == total)
    moved = after != before
    if before.shape[0] < LARGE_BATCH and not bool(moved.any()):
        starts = progress.start_ee_position, progress.start_object_position, progress.start_part_position
        return Progress(before, held, *starts, count)
    return Progress(after, held, *progress.starts(moved, state), count * ~moved)


def _next_stage(task: Task, index: int, progress: Progress, state: State, goals: Array) -> tuple[Array, Array]:
    """`(N,)` stage and `(N,)` counter after this control step, for episodes in stage `index`."""
    xp = namespace(state.time)
    count = progress.count
    predicates = task.sequence.predicates
    if index < len(task.stage_bindings):
        context = StageContext(state, progress, goals, task.stage_bindings[index])
        stage = task.sequence.stages[index]
        complete, *further = (_condition(predicates[name].begins, context, "predicate", name) for name in stage.gives)
        if stage.complete is not None:
            further.append(_condition(stage.complete, context, "stage", stage.name))
        for condition in further:
            complete = complete & condition
        if stage.count is not None:
            count = stage.count(context)
        next_stage = index + xp.astype(complete, progress.stage.dtype)
        if stage.returns is not None:
            before = max(index - 1, task.sequence.firsts[task.stage_bindings[index].subtask])
            returns = _condition(stage.returns, context, "stage", stage.name)
            next_stage = xp.where(returns & ~complete, before, next_stage)
    else:
        next_stage = xp.full_like(progress.stage, index)
    for name, giver in task.sequence.kept[index]:  # latest giver first, so that the earliest loss wins
        context = StageContext(state, progress, goals, task.stage_bindings[giver])
        keeps = _condition(predicates[name].keeps, context, "predicate", name)
        next_stage = xp.where(keeps, next_stage, giver)
    return next_stage, count


def _of_shape(function: Callable[[StageContext], Array], context: StageContext, kind: str, name: str) -> Array:
    """Return the result `(N,)` of a function of a stage or predicate; refuse other shapes: numpy may broadcast."""
    result, shape = function(context), context.state.time.shape
    if getattr(result, "shape", None) != shape:
        raise wrong_result(f"{kind} {name}", function, result, f"shape {tuple(shape)}, a value for each episode")
    return result


def _condition(function: Condition, context: StageContext, kind: str, name: str) -> Array:
    """Return the result `(N,)` bool of a condition of a stage or predicate; 0.3, e.g., would be added to the stage."""
    result = _of_shape(function, context, kind, name)
    if result.dtype != namespace(result).bool:
        allowed = f"bool of shape {tuple(result.shape)}, a value for each episode"
        raise wrong_result(f"{kind} {name}", function, result, allowed)
    return result


def potential(task: Task, progress: Progress, state: State, goals: Array) -> Array:
    """`(N,)` in [−stages, 0]: completed stages plus the progress of the others, minus the number of stages.

    With the potentials `a` of the active stage and `b`, `c` … of the stages after it, the progress is
    `a + a b + a b c …`: an episode that goes back to an earlier stage keeps what it has done for the later stages.
    """
    return weighted_potential(task, progress, state, goals, [1.0] * len(task.stage_bindings))


def weighted_potential(task: Task, progress: Progress, state: State, goals: Array, weights: Sequence[float]) -> Array:
    """`(N,)` in [−sum of the weights, 0]: the potential in which a stage counts by its weight."""
    xp = namespace(state.time)
    count = len(task.stage_bindings)
    before = [-sum(weights[index:]) for index in range(count + 1)]
    total = xp.zeros_like(state.ee_position[:, 0])
    shares: dict[int, Array] = {}
    for index in active(progress.stage, count):
        done, share = before[index], 1.0
        for later in task.led_by[index] if index < count else ():
            if later not in shares:
                context = StageContext(state, progress, goals, task.stage_bindings[later])
                stage = task.sequence.stages[later]
                shares[later] = _of_shape(stage.potential, context, "stage", stage.name)
            share = share * shares[later]
            done = done + weights[later] * share
        total = xp.where(progress.stage == index, done, total)
    return total


def is_success(task: Task, progress: Progress) -> Array:
    """`(N,)` bool: all stages are complete, and have been for `hold` control steps."""
    return progress.held >= task.hold


def act(task: Task, progress: Progress, state: State, goals: Array) -> ArmCommand:
    """Return the command of the active stage's expert."""
    stages, bindings, last = task.sequence.stages, task.stage_bindings, len(task.stage_bindings) - 1
    commands = []
    for index in active(progress.stage, last + 1):
        number = min(index, last)  # when all stages are complete, the last stage's expert continues
        context, expert = StageContext(state, progress, goals, bindings[number]), stages[number].expert
        goes_on = index < last and bindings[index + 1].subtask == bindings[index].subtask
        command: Any = expert(context, (goes_on and stages[index + 1].start_pose) or AT_TARGET)
        key, shape = f"stage {stages[number].name}", tuple(state.ee_position.shape)
        if not isinstance(command, ArmCommand):
            raise wrong_result(key, expert, command, "an ArmCommand")
        for field in ("target", *(() if command.second_target is None else ("second_target",))):
            target = getattr(command, field)
            if tuple(getattr(target, "shape", ())) != shape:
                raise wrong_result(f"{key}: {field} of the", expert, target, f"an array of shape {shape}")
        commands.append((progress.stage == index, command))
    if len(commands) == 1:
        return commands[0][1]
    return _merged(commands, state)


def _merged(commands: Sequence[tuple[Array, ArmCommand]], state: State) -> ArmCommand:
    """Merge `(mask, command)` pairs: each episode gets the command of its active stage, whatever the others do."""
    xp = namespace(state.time)
    zero = state.time * 0.0
    rest = xp.full_like(state.ee_position, math.nan)
    merged = ArmCommand(state.ee_position, zero, zero, rest, zero + 1.0)
    for mask, command in commands:
        turn = zero if command.yaw_change is None else command.yaw_change
        second = rest if command.second_target is None else command.second_target
        merged = ArmCommand(
            xp.where(mask[:, None], command.target, merged.target),
            xp.where(mask, zero + command.gripper, merged.gripper),
            xp.where(mask, turn, merged.yaw_change),
            xp.where(mask[:, None], second, merged.second_target),
            xp.where(mask, zero + command.second_gripper, merged.second_gripper),
        )
    if all(command.second_target is None for _, command in commands):
        merged.second_target = None
    return merged


def active(stage: Array, count: int) -> Sequence[int]:
    """Return the stages to evaluate for active stages `(N,)`; `count` means that all stages are complete."""
    if stage.shape[0] == 1:
        return (int(stage[0]),)
    return range(count + 1) if stage.shape[0] >= LARGE_BATCH else sorted({int(i) for i in stage})


@dataclass(slots=True)
class EpisodeContext:
    """`N` episodes of a task."""

    task: Task
    progress: Progress
    state: State
    goals: Array
    """`(N, G, 3)`: every goal point of the task, m in the world frame."""
    elapsed: Array
    """`(N,)` control steps of the episode; `state.time` also has those of an expert that has begun it."""
    action_repeat: int = 1
    """Control steps for which each action is repeated: there is a reward per action."""
