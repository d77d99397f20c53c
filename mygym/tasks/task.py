"""A task: a planned composition of stages with its numbers, and what a step does to it. Pure functions over batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.registry import ASSETS, registry
from mygym.tasks.facts import FACTS, Thresholds
from mygym.tasks.grammar import Plan, parse, plan
from mygym.tasks.progress import Progress
from mygym.tasks.state import Array, State, namespace

MANY = 8
"""From this batch size on every stage is evaluated under a mask, which is cheaper than finding out which are active."""


@dataclass(frozen=True)
class Task:
    """A sequence of stages, and the numbers that make it a task."""

    name: str
    stages: str | tuple[str, ...]
    """Letters, or stage names."""
    help: str = ""
    tolerance: float = 0.05
    """m: how close to the goal counts."""
    hold: int = 3
    """Steps for which the last stage must stay complete."""
    horizon: int = 100
    """Steps after which an episode is truncated."""
    workspace: str = "table"
    object: str = "cube"
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of the run's config that this task prefers."""

    @cached_property
    def plan(self) -> Plan:
        """The stages and the facts in force around them."""
        return plan(parse(self.stages), self.stages)

    @cached_property
    def thresholds(self) -> Thresholds:
        """Distances of the facts."""
        return Thresholds(tolerance=self.tolerance)

    @property
    def has_object(self) -> bool:
        """Whether any stage acts on an object."""
        return any(stage.needs_object for stage in self.plan.stages)

    @property
    def needs_gripper(self) -> bool:
        """Whether any stage grasps."""
        return any(stage.needs_gripper for stage in self.plan.stages)

    @property
    def goal_area(self) -> str:
        """Area of the workspace that goals come from: `reach` without objects, `air` while held, else `surface`."""
        if not self.has_object:
            return "reach"
        gives = self.plan.gives
        carried = "held" in gives and gives["held"] < gives.get("placed", -1)
        return "air" if carried else "surface"

    @property
    def stage_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(stage.name for stage in self.plan.stages)

    def describe(self) -> str:
        """The stages in plain words."""
        thing = f"the {PurePath(self.object).stem}" if self.has_object else "the goal"
        return ", ".join(stage.phrase.format(object=thing) for stage in self.plan.stages)


def register_task(name: str, stages: str | Sequence[str], help: str = "", **numbers: Any) -> Task:
    """Make a named task: `register_task("tap", stages=["approach", "push", "withdraw"], horizon=120)`.

    Args:
        name: Keyword for `--task`; the environment's id is its CamelCase.
        stages: Letters or stage names.
        help: One line.
        **numbers: `tolerance`, `hold`, `horizon`, `workspace`, `object`, `run_defaults` of `Task`.
    """
    task = Task(name, stages if isinstance(stages, str) else tuple(stages), help, **numbers)
    registry("task").register(name, task, help=help)
    return task


def find_task(said: str | Sequence[str]) -> Task:
    """A named task, letters, or a list of stage names → `Task`, checked.

    Raises:
        ConfigError: Not a task, or a composition that makes no sense.
    """
    tasks = registry("task")
    if isinstance(said, str) and said in tasks:
        task: Task = tasks.get(said).load()
    else:
        stages = said if isinstance(said, str) else tuple(said)
        composed = parse(stages)
        name = stages if isinstance(stages, str) else "_".join(stages)
        # Only what is built in lends its numbers: what letters mean does not depend on the user's files.
        built_in = [entry.target for entry in tasks if entry.origin.startswith(str(ASSETS.parent))]
        known = next((task for task in built_in if parse(task.stages) == composed), None)
        task = replace(known, name=name) if known else Task(name, stages, horizon=50 + 25 * len(composed))
    _ = task.plan
    return task


def change_task(task: Task, numbers: Mapping[str, Any]) -> Task:
    """`task` with other numbers (`tolerance`, `hold`, `horizon`, `object`).

    Raises:
        ConfigError: No such number.
    """
    allowed = ("tolerance", "hold", "horizon", "object")
    for key in numbers:
        if key not in allowed:
            raise ConfigError(bad_value("task_params", key, allowed, "is not a number of a task"))
    return replace(task, **numbers)


def advance(task: Task, progress: Progress, state: State, goal: Array) -> Progress:
    """Progress after a step: on when the active stage is complete, back where something given earlier was lost.

    Args:
        task: The task.
        progress: Before the step.
        state: After the step.
        goal: `(N, 3)` target position in the world frame.
    """
    count = len(task.plan.stages)
    before = progress.stage
    after = before
    for index in _active(before, count):
        following = _following(task, index, state, goal)
        after = following if before.shape[0] == 1 else namespace(before).where(before == index, following, after)
    held = (progress.held + 1) * (after == count)
    moved = after != before
    if not bool(moved.any()):
        return Progress(before, held, progress.start_ee_position, progress.start_object_position)
    xp = namespace(before)
    return Progress(
        stage=after,
        held=held,
        start_ee_position=xp.where(moved[:, None], state.ee_position, progress.start_ee_position),
        start_object_position=xp.where(moved[:, None, None], state.object_position, progress.start_object_position),
    )


def _following(task: Task, index: int, state: State, goal: Array) -> Array:
    """`(N,)`: the stage after this step for episodes in stage `index`."""
    xp = namespace(state.time)
    if index < len(task.plan.stages):
        first, *others = (FACTS[fact].begins for fact in task.plan.stages[index].gives)
        complete = first(state, goal, task.thresholds)
        for begins in others:
            complete = complete & begins(state, goal, task.thresholds)
        following = index + xp.astype(complete, xp.int64)
    else:
        following = xp.full(state.time.shape, index, dtype=xp.int64)
    for fact, giver in task.plan.kept[index]:  # latest giver first, so that the earliest loss wins
        following = xp.where(FACTS[fact].keeps(state, goal, task.thresholds), following, giver)
    return following


def potential(task: Task, progress: Progress, state: State, goal: Array) -> Array:
    """`(N,)` in [−stages, 0]: stages done, plus how far along the active one is, minus their number; 0 at the end."""
    xp = namespace(state.time)
    count = len(task.plan.stages)
    total = xp.astype(progress.stage, state.ee_position.dtype) - count
    for index in _active(progress.stage, count):
        if index < count:
            share = task.plan.stages[index].potential(state, progress, goal, task.thresholds)
            total = total + xp.where(progress.stage == index, share, 0.0)
    return total


def is_success(task: Task, progress: Progress) -> Array:
    """`(N,)` bool: all stages done, in order, and held."""
    return progress.held >= task.hold


def act(task: Task, progress: Progress, state: State, goal: Array) -> tuple[Array, Array]:
    """The expert of the active stage: end-effector target `(N, 3)` m in the world frame, gripper command `(N,)`."""
    xp = namespace(state.time)
    stages = task.plan.stages
    target, gripper = state.ee_position, state.time
    for index in _active(progress.stage, len(stages)):
        last = min(index, len(stages) - 1)  # when all is done, the last stage's expert holds what it has
        entry = stages[last + 1].entry if last + 1 < len(stages) else None
        wanted, command = stages[last].expert(state, progress, goal, entry or _at_object)
        here = progress.stage == index
        target, gripper = xp.where(here[:, None], wanted, target), xp.where(here, command, gripper)
    return target, gripper


def _at_object(state: State, goal: Array) -> Array:
    """Where a stage begins that does not say where."""
    return state.object_position[:, 0]


def _active(stage: Array, count: int) -> Sequence[int]:
    if stage.shape[0] == 1:
        return (int(stage[0]),)
    return range(count + 1) if stage.shape[0] >= MANY else sorted({int(i) for i in stage})
