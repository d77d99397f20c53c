"""A task: planned compositions of stages with their numbers; what happens in it is in `mygym.tasks.episode`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from mygym.config.schema import Distractor, RunConfig
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.tasks.checking import check_numbers, check_objects
from mygym.tasks.context import BoundStage, Thresholds
from mygym.tasks.grammar import Plan, parse, plan
from mygym.tasks.sequence import check_sequence
from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask, read_subtask
from mygym.tasks.wording import phrases, plain, sentence


@dataclass(frozen=True)
class Task:
    """Sub-tasks, one after the other (of most tasks it is one), and the numbers that make them a task."""

    name: str
    subtasks: tuple[SubTask, ...]
    help: str = ""
    tolerance: float = 0.05
    """m: how close to the goal counts."""
    hold: int = 3
    """Steps for which the last stage must stay complete."""
    horizon: int = 100
    """Steps after which an episode is truncated."""
    stages_done: float = 0.0
    """Stages that the scripted expert has done when an episode begins, a part of one measured by its potential."""
    workspace: str = "table"
    also: tuple[str, ...] = ()
    """Further workspaces in which it is proved, besides `workspace`, where it is at home."""
    objects: Mapping[str, str] = field(default_factory=dict)
    """Role → object, of the roles that are not an object's name themselves."""
    distractors: tuple[Distractor, ...] = ()
    """Objects that it is not about, and that are in the way; in `State` after those of the roles."""
    rotation: tuple[float, float] = (0.0, 0.0)
    """rad: lowest and highest yaw with which objects are put down."""
    colors: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    """Role → RGBA, of the roles that are to be seen in another colour than their object's."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of the run's config that this task prefers."""
    parts: tuple[str, ...] = ()
    """Moving parts of the workspace, as `fixture.joint`, in the order of `State.part_position`: the environment's."""
    path_points: Mapping[str, int] = field(default_factory=dict)
    """Path of the workspace → number of its points: the environment's."""

    @cached_property
    def plan(self) -> Plan:
        """The stages and the facts in force around them."""
        what = [(one.stages, one.part or one.object) for one in self.subtasks]
        return plan([(stages, *said) for stages, said in zip(self.composed, what, strict=True)])

    @cached_property
    def composed(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages of each sub-task; looking them up means looking into the user's folders."""
        return tuple(parse(one.stages) for one in self.subtasks)

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Of the objects that stages act on or that goals are on, in the order of their slots in `State`."""
        found: dict[str, None] = {}
        for number, one in enumerate(self.subtasks):
            if self._acts_on_object(number):
                found[one.object] = None
        for one in self.subtasks:
            if one.onto:
                found[one.onto] = None
        return tuple(found)

    @cached_property
    def goal_slots(self) -> tuple[GoalSlots, ...]:
        """Where in the goals `(N, G, 3)` those of each sub-task are."""
        slots, first = [], 0
        for one, stages in zip(self.subtasks, self.composed, strict=True):
            points = 1 if one.via else self.path_points.get(one.path, 0)
            path = tuple(range(first, first + points))
            first += len(path)
            turns = any(stage.needs_turning for stage in stages)
            slots.append(GoalSlots(first, path, first + 1 if turns else None))
            first += 2 if turns else 1
        return tuple(slots)

    @property
    def goal_count(self) -> int:
        """`G`: goal points of the task."""
        last = self.goal_slots[-1]
        return 1 + (last.goal if last.yaw is None else last.yaw)

    @cached_property
    def bound_stages(self) -> tuple[BoundStage, ...]:
        """The stages, each bound to what it acts on."""
        bound_stages = []
        for number, (one, slots) in enumerate(zip(self.subtasks, self.goal_slots, strict=True)):
            thresholds = Thresholds(tolerance=one.tolerance or self.tolerance)
            thing = self.roles.index(one.object) if self._acts_on_object(number) else None
            part = self.parts.index(one.part) if one.part in self.parts else None
            name = one.part or (self.called(one.object) if thing is not None else "")
            for stage in self.composed[number]:
                label = stage.name if len(self.subtasks) == 1 else f"{stage.name} {name}".rstrip()
                goal = slots.goal, slots.path, slots.yaw
                bound_stages.append(
                    BoundStage(stage, number, thing, part, *goal, thresholds, label, one.grip, one.deceleration)
                )
        return tuple(bound_stages)

    @cached_property
    def part_slots(self) -> tuple[int, ...]:
        """Slots in `State` of the parts that it is about."""
        return tuple(dict.fromkeys(bound.part for bound in self.bound_stages if bound.part is not None))

    @property
    def robot(self) -> str:
        """The robot that does it unless another is asked for."""
        return str(self.run_defaults.get("robot", RunConfig().robot))

    @property
    def stages(self) -> str | tuple[str, ...]:
        """Letters or stage names of the only sub-task, or stage names of all."""
        return self.subtasks[0].stages if len(self.subtasks) == 1 else self.stage_names

    @property
    def object(self) -> str:
        """The object that the first sub-task acts on."""
        return self.asset(self.subtasks[0].object)

    def asset(self, role: str) -> str:
        """The object that plays a role."""
        return self.objects.get(role, role)

    def called(self, role: str) -> str:
        """What descriptions call the object of a role: itself, or its role where several are of the same kind."""
        asset = self.asset(role)
        several = [self.asset(other) for other in self.roles].count(asset) > 1
        means_itself = role == asset or role not in registry("object")  # `cube` is no name for an apple
        return plain(role if several and means_itself else asset)

    @property
    def has_object(self) -> bool:
        """Whether any stage acts on an object."""
        return bool(self.roles)

    @property
    def needs_gripper(self) -> bool:
        """Whether any stage grasps."""
        return any(stage.needs_gripper for stage in self.plan.stages)

    @property
    def uses_gripper(self) -> bool:
        """Whether the fingers move, if the robot has any; else they are shut, and no part of actions."""
        return self.needs_gripper or any(stage.uses_gripper for stage in self.plan.stages)

    @property
    def needs_turning(self) -> bool:
        """Whether the tool must turn about the vertical: for a stage, or to grasp what lies turned."""
        turned = self.rotation[0] != self.rotation[1] and self.needs_gripper
        return turned or any(stage.needs_turning for stage in self.plan.stages)

    @property
    def arms(self) -> int:
        """Arms that it takes."""
        return max(stage.arms for stage in self.plan.stages)

    @property
    def goal_area(self) -> str:
        """Area of the workspace that the first sub-task's goals come from."""
        areas = self.goal_areas(0)
        return areas[0] if areas else ""

    def goal_areas(self, subtask: int) -> tuple[str, ...]:
        """Areas that a sub-task's goals come from; none where they are on an object or a part's.

        If it does not say: `reach` without an object, `air` where it is held in the end, else `surface`.
        """
        one = self.subtasks[subtask]
        if one.onto or one.part or one.path:
            return ()
        if one.area:
            return (one.area,) if isinstance(one.area, str) else one.area
        if not self._acts_on_object(subtask):
            return ("reach",)
        holds = [
            fact for stage in self.composed[subtask] for fact in stage.gives if fact in ("held", "free", "launched")
        ]
        return ("air",) if holds and holds[-1] == "held" else ("surface",)

    @property
    def stage_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(stage.name for stage in self.plan.stages)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the stages in results: with what they act on, where there are several sub-tasks."""
        return tuple(bound.label for bound in self.bound_stages)

    def describe(self) -> str:
        """The stages in plain words."""
        pairs = zip(self.subtasks, self.composed, strict=True)
        return "; then ".join(sentence(one, stages, self.called) for one, stages in pairs)

    @property
    def phrases(self) -> tuple[str, ...]:
        """What each stage does, in words that stand by themselves."""
        pairs = zip(self.subtasks, self.composed, strict=True)
        return tuple(itertools.chain(*(phrases(one, stages, self.called) for one, stages in pairs)))

    def _acts_on_object(self, subtask: int) -> bool:
        """Whether a stage of it needs an object, and it names no part of the workspace instead."""
        return not self.subtasks[subtask].part and any(stage.needs_object for stage in self.composed[subtask])


@dataclass(frozen=True)
class GoalSlots:
    """Slots of a sub-task's goals: the place, the points on the way, the heading."""

    goal: int
    path: tuple[int, ...]
    yaw: int | None


OF_TASK = tuple(
    one.name for one in fields(Task) if one.name not in ("name", "subtasks", "help", "parts", "path_points")
)
OF_SUBTASK = tuple(one.name for one in fields(SubTask) if one.name not in ("stages", "tolerance"))


def register_task(
    name: str,
    stages: str | Sequence[str] | Sequence[SubTask],
    help: str = "",
    *,
    override: bool = False,
    **numbers: Any,
) -> Task:
    """Make a named task: `register_task("tap", stages=["approach", "push", "withdraw"], horizon=120)`.

    Args:
        name: Keyword for `--task`; the environment's id is its CamelCase.
        stages: Letters or stage names; or several `SubTask`, done one after the other.
        help: One line.
        override: Replace a task of the same name.
        **numbers: Fields of `Task` (`tolerance`, `hold`, `horizon`, `workspace`, `objects`, `run_defaults` …) and, of
            a single composition, of `SubTask` (`object`, `part`, `area`, `onto`, `path`, `to`, `words`).

    Raises:
        RegistryError: The name is taken, a keyword is none of these, or a number is out of its range.
    """
    subtasks = _subtasks(stages, numbers)
    for key in numbers:
        if key not in OF_TASK:
            raise RegistryError(bad_value(f"task {name}", key, [*OF_TASK, *OF_SUBTASK], "is nothing that a task has"))
    check_numbers(name, subtasks, numbers)
    task = Task(name, subtasks, help, **numbers)
    registry("task").register(name, task, help=help, override=override)
    return task


def _subtasks(stages: str | Sequence[Any], numbers: dict[str, Any]) -> tuple[SubTask, ...]:
    """The sub-tasks; takes what is theirs out of `numbers`."""
    if not isinstance(stages, str) and stages and isinstance(stages[0], SubTask):
        return tuple(stages)
    own = {key: numbers.pop(key) for key in OF_SUBTASK if key in numbers}
    return (SubTask(stages if isinstance(stages, str) else tuple(stages), **own),)


def find_task(said: str | Sequence[Any]) -> Task:
    """A named task, letters, a list of stage names, or a list of sub-tasks → `Task`, checked.

    Args:
        said: Sub-tasks are mappings with the fields of `SubTask`.

    Raises:
        ConfigError: Not a task, a composition that makes no sense, or sub-goals that collide.
    """
    _check_kinds(said)
    tasks = registry("task")
    if isinstance(said, str) and said in tasks:
        task: Task = tasks.get(said).load()
        check_objects(task)
    elif not isinstance(said, str) and any(isinstance(one, Mapping) for one in said):
        subtasks = tuple(read_subtask(number, one) for number, one in enumerate(said))
        letters = ["".join(one.stages) if isinstance(one.stages, str) else "_".join(one.stages) for one in subtasks]
        count = sum(len(parse(one.stages, f"task.{number}")) for number, one in enumerate(subtasks))
        task = Task("-".join(letters), subtasks, horizon=50 + 25 * count)
    else:
        stages = said if isinstance(said, str) else tuple(said)
        composed = parse(stages)
        name = stages if isinstance(stages, str) else "_".join(stages)
        # Only what is built in lends its numbers: what letters mean does not depend on the user's files.
        built_in = [entry.target for entry in tasks if entry.built_in]
        known = next((task for task in built_in if _is_plainly(task, composed)), None)
        task = replace(known, name=name) if known else Task(name, (SubTask(stages),), horizon=50 + 25 * len(composed))
    _ = task.plan
    check_sequence(task.subtasks, task.composed)
    return task


def _check_kinds(said: object) -> None:
    """Refuse what is no text, nor a list of names alone or of mappings alone."""
    if isinstance(said, str):
        return
    if not isinstance(said, Sequence):
        raise ConfigError(bad_value("task", said, "a name, letters, or a list of stage names or of sub-tasks"))
    has_mappings = any(isinstance(one, Mapping) for one in said)
    kind, allowed = (Mapping, "a mapping, as the other sub-tasks are") if has_mappings else (str, "the name of a stage")
    for number, one in enumerate(said):
        if not isinstance(one, kind):
            raise ConfigError(bad_value(f"task.{number}", one, allowed))


def _is_plainly(task: Task, composed: tuple[Any, ...]) -> bool:
    """Whether a task is these stages and nothing else, so that they may be called by its numbers."""
    (first, *others) = task.subtasks
    return not others and first == SubTask(first.stages, first.object) and task.composed[0] == composed


CHANGEABLE = ("tolerance", "hold", "horizon", "stages_done", "object", "objects", "distractors", "rotation", "colors")
"""What `change_task` takes."""


def change_task(task: Task, numbers: Mapping[str, Any]) -> Task:
    """`task` with other numbers, see `CHANGEABLE`; `object` is what the first sub-task acts on.

    Raises:
        ConfigError: No such number, a role that the task has not, or a `hold` that the `horizon` has no room for.
    """
    for key in numbers:
        if key not in CHANGEABLE:
            raise ConfigError(bad_value("task_params", key, CHANGEABLE, "is not a number of a task"))
    changed = dict(numbers)
    if "distractors" in changed:
        changed["distractors"] = tuple(map(Distractor.model_validate, changed["distractors"]))
    if "rotation" in changed:
        changed["rotation"] = tuple(changed["rotation"])
    objects = dict(task.objects)
    if "object" in changed:
        objects[task.subtasks[0].object] = changed.pop("object")
    objects |= changed.pop("objects", {})  # said of a role, which is more than of the first
    for key, said in (("objects", objects), ("colors", changed.get("colors", {}))):
        for role in said:
            if role not in task.roles and role not in task.objects and role != task.subtasks[0].object:
                raise ConfigError(bad_value(f"task_params.{key}", role, task.roles, f"is no role of {task.name}"))
    changed_task = replace(task, objects=objects, **changed)
    if changed.keys() & {"hold", "horizon"} and changed_task.hold >= changed_task.horizon:
        why = f"leaves no time: success is to hold for {changed_task.hold} of {changed_task.horizon} steps"
        allowed = f"less than the horizon, {changed_task.horizon}"
        raise ConfigError(bad_value("task_params.hold", changed_task.hold, allowed, why))
    if changed_task.stages_done >= len(task.stage_names):
        allowed = f"less than the number of its stages, {len(task.stage_names)}"
        raise ConfigError(bad_value("task_params.stages_done", changed_task.stages_done, allowed))
    return changed_task
