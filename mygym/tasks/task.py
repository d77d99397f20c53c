"""`Task`: sub-tasks with their numbers. `register_task` adds a named task; `mygym.tasks.episode` runs the episodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from pydantic import ValidationError

from mygym.config.schema import Distractor, RunConfig, TaskParams
from mygym.config.validation_errors import explained
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.registry.signatures import checked_registration, fits
from mygym.tasks.context import StageBinding, Thresholds
from mygym.tasks.grammar import StageSequence, held_after, is_letters, parse, stage_sequence
from mygym.tasks.stage import Stage, SubTask, describe_subtask, read_subtask, readable, stage_phrases

Number = TypeVar("Number", int, float)


def episode_limit(horizon: Number, training_horizon: Number | None) -> Number:
    """Return the control steps after which an episode is truncated: the smaller of the two horizons."""
    return min(horizon, training_horizon or horizon)


def actions_within(steps: float, action_repeat: int) -> int:
    """Return the number of actions that fill control steps, where each action is repeated `action_repeat` times."""
    return math.ceil(steps / action_repeat)


@dataclass(frozen=True)
class GoalSlots:
    """Slots of a sub-task in the goals `(N, G, 3)`."""

    goal: int
    path: tuple[int, ...]
    """Slots of the points before the goal, in order."""
    yaw: int | None
    """Slot whose first number is the object's goal yaw in rad; None: any yaw."""


ALGORITHMS = str | list[str] | dict[str, str | list[str]]
"""Type of `algo` in `run_defaults`."""


def check_numbers(name: str, subtasks: Sequence[SubTask], numbers: Mapping[str, Any]) -> None:
    """Check the numbers of a task against the ranges of `TaskParams` and `SubTask`, as for a config.

    Raises:
        RegistryError: A number is out of its range, or the preferred values or their `algo` have a wrong form.
    """
    if not isinstance(preferred := numbers.get("run_defaults", {}), Mapping):
        raise RegistryError(bad_value(f"task {name}: run_defaults", preferred, "a mapping of config values"))
    if not fits(algorithms := preferred.get("algo", ()), ALGORITHMS):
        allowed = "a name, a list of names, or a mapping from engines to either"
        raise RegistryError(bad_value(f"task {name}: run_defaults.algo", algorithms, allowed))
    params = {key: value for key, value in numbers.items() if key in TaskParams.model_fields}
    try:
        TaskParams.model_validate({**params, "distractors": list(params.get("distractors", ()))})
        for number, subtask in enumerate(subtasks):
            read_subtask(number, asdict(subtask))
    except ValidationError as error:
        raise RegistryError(f"task {name}: {explained(error)}") from None
    except ConfigError as error:
        raise RegistryError(f"task {name}: {error}") from None


STARTS = {"at_object": "near", "in_hand": "held"}
"""Name of a start → the predicate that holds when such an episode begins."""

ALONG_EXPERT = "along_expert"
"""Name of the start at a random point of the scripted expert's episode."""

AIR, SURFACE = "air", "surface"
"""Areas of goals of objects that are held, or released, at the end."""


@dataclass(frozen=True)
class Task:
    """A sequence of sub-tasks (most tasks have one) with their objects, thresholds and horizon."""

    name: str
    subtasks: tuple[SubTask, ...]
    help: str = ""
    tolerance: float = 0.05
    """m: distance within which the goal is reached."""
    hold: int = 3
    """Control steps for which the last stage must stay complete."""
    horizon: int = 100
    """Control steps after which an episode is truncated."""
    training_horizon: int | None = None
    """Control steps after which a training episode is truncated, if before the horizon; None: the horizon."""
    stages_done: float = 0.0
    """Stages that the scripted expert completes before an episode begins; the fraction is a potential of the next."""
    starts: Mapping[str, float] = field(default_factory=dict)
    """Start, as in `start_stages` → share of the training episodes that begin so, led in by the scripted expert."""
    goals_on_surface: float = 0.0
    """Share of the goals of objects held in the air that are on the surface instead, where chance reaches them."""
    workspace: str = "table"
    also: tuple[str, ...] = ()
    """Further supported workspaces, besides the default `workspace`."""
    objects: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Role → object, for roles that are not the name of an object; or objects, of which each episode draws one."""
    distractors: tuple[Distractor, ...] = ()
    """Distractors: objects that the task does not need, see `distractor_slots`."""
    rotation: tuple[float, float] = (0.0, 0.0)
    """rad: lowest and highest yaw of objects at the reset."""
    colors: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    """Role → RGBA, for objects that are shown in another colour than in their description."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Config values of runs of this task, below those of the user; `algo` if the user does not choose how to learn.

    Several algorithms are in order: the first that can be used here is the default. A mapping has them by engine; those
    of `pybullet` are for engines that it does not name.
    """
    parts: tuple[str, ...] = ()
    """Articulated parts of the workspace, as `fixture.joint`, in the order of `State`; set by the environment."""
    path_points: Mapping[str, int] = field(default_factory=dict)
    """Path of the workspace → number of its points; set by the environment."""
    rolls_by_axis: bool = True
    """Whether rolling friction slows each horizontal axis by itself; set by the environment from the engine."""

    @cached_property
    def sequence(self) -> StageSequence:
        """The stages, and the predicates that must hold during each."""
        subtasks = zip(self.subtasks, self.composed, strict=True)
        return stage_sequence(
            [(stages, subtask.stages, subtask.part or subtask.object) for subtask, stages in subtasks]
        )

    @cached_property
    def composed(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages of each sub-task; cached, because a look-up may scan the user's folders."""
        return tuple(parse(subtask.stages, f"task {self.name}: stages") for subtask in self.subtasks)

    @cached_property
    def held_after(self) -> tuple[tuple[bool, ...], ...]:
        """Whether the object of each sub-task is held after each of its stages."""
        return tuple(held_after(stages, self.sequence.predicates) for stages in self.composed)

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Roles of the objects that stages act on or that goals are on, in the order of their slots in `State`."""
        roles: dict[str, None] = {}
        for number, subtask in enumerate(self.subtasks):
            if self._acts_on_object(number):
                roles[subtask.object] = None
        for subtask in self.subtasks:
            if subtask.onto:
                roles[subtask.onto] = None
        return tuple(roles)

    @cached_property
    def goal_slots(self) -> tuple[GoalSlots, ...]:
        """Slots of each sub-task in the goals `(N, G, 3)`."""
        slots, first = [], 0
        for subtask, stages in zip(self.subtasks, self.composed, strict=True):
            points = 1 if subtask.via else self.path_points.get(subtask.path, 0)
            goal = first + points
            has_yaw = any(stage.needs_tool_yaw for stage in stages)
            slots.append(GoalSlots(goal, tuple(range(first, goal)), goal + 1 if has_yaw else None))
            first = goal + (2 if has_yaw else 1)
        return tuple(slots)

    @property
    def limit(self) -> int:
        """Control steps after which an episode is truncated, see `episode_limit`."""
        return episode_limit(self.horizon, self.training_horizon)

    @property
    def goal_count(self) -> int:
        """`G`: goal points of the task."""
        last = self.goal_slots[-1]
        return 1 + (last.goal if last.yaw is None else last.yaw)

    @cached_property
    def stage_bindings(self) -> tuple[StageBinding, ...]:
        """Object or part, goal and thresholds of each stage of all sub-tasks."""
        stage_bindings: list[StageBinding] = []
        for number, (subtask, slots) in enumerate(zip(self.subtasks, self.goal_slots, strict=True)):
            object_slot = self.roles.index(subtask.object) if self._acts_on_object(number) else None
            target = subtask.part or (self.object_name(subtask.object) if object_slot is not None else "")
            put_down_by = self._put_down_by(number)
            stage_bindings += [
                StageBinding(
                    number,
                    object=object_slot,
                    part=self.parts.index(subtask.part) if subtask.part in self.parts else None,
                    goal_slot=slots.goal,
                    path_slots=slots.path,
                    yaw_slot=slots.yaw,
                    thresholds=Thresholds(tolerance=subtask.tolerance or self.tolerance),
                    label=stage.name if len(self.subtasks) == 1 else f"{stage.name} {target}".rstrip(),
                    grip=subtask.grip,
                    put_down_by=put_down_by,
                    deceleration=subtask.deceleration,
                    rolls_by_axis=self.rolls_by_axis,
                )
                for stage in self.composed[number]
            ]
        return tuple(stage_bindings)

    @cached_property
    def led_by(self) -> tuple[tuple[int, ...], ...]:
        """For each stage, itself and the later stages of the same sub-task whose progress counts already.

        They end before a stage that counts something since it began, and before a stage that restores what holds at the
        reset (`drop`, `withdraw`): an untouched object is not yet released.
        """
        stages, bindings, result = self.sequence.stages, self.stage_bindings, []
        for index, bound in enumerate(bindings):
            led = [index]
            for later in range(index + 1, len(stages)):
                restores = any(self.sequence.predicates[name].initial for name in stages[later].gives)
                if bindings[later].subtask != bound.subtask or stages[later].count is not None or restores:
                    break
                led.append(later)
            result.append(tuple(led))
        return tuple(result)

    @cached_property
    def part_slots(self) -> tuple[int, ...]:
        """Slots in `State` of the articulated parts that stages act on."""
        return tuple(dict.fromkeys(bound.part for bound in self.stage_bindings if bound.part is not None))

    @property
    def robot(self) -> str:
        """The default robot."""
        return str(self.run_defaults.get("robot", RunConfig().robot))

    @cached_property
    def distractor_slots(self) -> tuple[Distractor, ...]:
        """Distractor of each slot in `State` after the objects of the roles: as many as an episode may have."""
        return tuple(distractor for distractor in self.distractors for _ in range(distractor.counts[1]))

    @property
    def object(self) -> str | None:
        """The object that the first sub-task acts on; None if it differs between episodes."""
        names = self.assets(self.subtasks[0].object)
        return names[0] if len(names) == 1 else None

    def assets(self, role: str) -> tuple[str, ...]:
        """Return the objects of a role, of which each episode draws one."""
        names = self.objects.get(role, role)
        return (names,) if isinstance(names, str) else tuple(names)

    def asset(self, role: str) -> str:
        """Return the object of a role in words: `cube`, or `cube or mug`."""
        return " or ".join(self.assets(role))

    def object_name(self, role: str) -> str:
        """Return the name of a role's object in descriptions; the role's name if several roles have the same object."""
        assets = self.assets(role)
        is_repeated = [self.assets(other) for other in self.roles].count(assets) > 1
        # The role `cube` is no name for an apple. `names` does not scan the user's folders again, unlike `in`.
        is_distinct = assets == (role,) or role not in registry("object").names()
        return readable(role) if is_repeated and is_distinct else " or ".join(map(readable, assets))

    @property
    def has_object(self) -> bool:
        """Whether any stage acts on an object."""
        return bool(self.roles)

    @property
    def needs_gripper(self) -> bool:
        """Whether any stage grasps."""
        return any(stage.needs_gripper for stage in self.sequence.stages)

    @property
    def uses_gripper(self) -> bool:
        """Whether the task moves the fingers, if the robot has any; else they stay closed and actions omit them."""
        return self.needs_gripper or any(stage.uses_gripper for stage in self.sequence.stages)

    @property
    def needs_tool_yaw(self) -> bool:
        """Whether the tool's yaw must change: for a stage, or to grasp a rotated object."""
        grasps_rotated = self.rotation[0] != self.rotation[1] and self.needs_gripper
        return grasps_rotated or any(stage.needs_tool_yaw for stage in self.sequence.stages)

    @property
    def arms(self) -> int:
        """Number of arms that the task needs."""
        return max(stage.arms for stage in self.sequence.stages)

    def goal_areas(self, subtask: int) -> tuple[str, ...]:
        """Return the areas from which a sub-task's goals are drawn; empty for a goal on an object, path or part.

        By default: `reach` without an object, `air` if the object is held at the end (and `surface` for
        `goals_on_surface`), else `surface`.
        """
        spec = self.subtasks[subtask]
        if spec.onto or spec.part or spec.path:
            return ()
        if spec.area:
            return (spec.area,) if isinstance(spec.area, str) else spec.area
        if not self._acts_on_object(subtask):
            return ("reach",)
        if not self.held_after[subtask][-1]:
            return (SURFACE,)
        return (AIR, SURFACE) if self.goals_on_surface else (AIR,)

    @cached_property
    def start_stages(self) -> Mapping[str, tuple[float, float]]:
        """Start → smallest and largest number of stages that are done before such an episode begins."""
        giving = {
            name: index + 1 for index, stage in reversed([*enumerate(self.sequence.stages)]) for name in stage.gives
        }
        starts = {name: giving.get(predicate, 0) for name, predicate in STARTS.items()}
        fixed = {name: (done, done) for name, done in starts.items() if 0 < done < len(self.sequence.stages)}
        return {**fixed, ALONG_EXPERT: (0.0, len(self.sequence.stages) - 0.1)}

    @property
    def has_goals_in_air(self) -> bool:
        """Whether goals of a sub-task are in the air, so that `goals_on_surface` applies."""
        return any(AIR in self.goal_areas(number) for number in range(len(self.subtasks)))

    @property
    def stage_names(self) -> tuple[str, ...]:
        """Stage names in order."""
        return tuple(stage.name for stage in self.sequence.stages)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the stages in results; with their object or part if the task has several sub-tasks."""
        return tuple(bound.label for bound in self.stage_bindings)

    def describe(self) -> str:
        """Return the stages in plain words."""
        pairs = zip(self.subtasks, self.composed, strict=True)
        return "; then ".join(describe_subtask(subtask, stages, self.object_name) for subtask, stages in pairs)

    @property
    def phrases(self) -> tuple[str, ...]:
        """Description of each stage, complete in itself."""
        pairs = zip(self.subtasks, self.composed, strict=True)
        return tuple(itertools.chain(*(stage_phrases(subtask, stages, self.object_name) for subtask, stages in pairs)))

    def _put_down_by(self, subtask: int) -> int | None:
        """Return the index in the task of the stage that puts the object of a sub-task down; None: no stage does."""
        predicates, is_carried, was_held = self.sequence.predicates, False, False
        stages = zip(self.composed[subtask], self.held_after[subtask], strict=True)
        for index, (stage, is_held) in enumerate(stages, self.sequence.firsts[subtask]):
            stays = not any(name in predicates and predicates[name].places_object for name in stage.ends)
            if is_carried and was_held and not is_held and stays:
                return index
            is_carried, was_held = stage.stops_above or (is_carried and stays), is_held
        return None

    def _acts_on_object(self, subtask: int) -> bool:
        """Return whether a stage of the sub-task needs an object, and the sub-task names no part instead."""
        return not self.subtasks[subtask].part and any(stage.needs_object for stage in self.composed[subtask])


TASK_FIELDS = tuple(
    field.name for field in fields(Task) if field.name not in ("name", "subtasks", "help", "parts", "path_points")
)
"""Keywords of `register_task` that belong to the task."""

SUBTASK_FIELDS = tuple(field.name for field in fields(SubTask) if field.name not in ("stages", "tolerance"))
"""Keywords of `register_task` that belong to the only sub-task."""


@checked_registration
def register_task(
    name: str,
    stages: str | Sequence[str] | Sequence[SubTask],
    help: str = "",
    *,
    override: bool = False,
    **numbers: Any,
) -> Task:
    """Register a named task: `register_task("tap", stages=["approach", "push", "withdraw"], horizon=120)`.

    Args:
        name: Name for `--task`; the environment's id is its CamelCase.
        stages: Letters or stage names; or several `SubTask`, done one after the other.
        help: One line.
        override: Replace a task of the same name.
        **numbers: Fields of `Task` (`tolerance`, `hold`, `horizon`, `workspace`, `objects`, `run_defaults` …) and, for
            a single composition, of `SubTask` (`object`, `part`, `area`, `onto`, `path`, `to`, `words`).

    Returns:
        The task.

    Raises:
        RegistryError: The name is taken or is a composition, a keyword is unknown, a number is out of its range, or an
            argument has a wrong type.
    """
    if name.isupper() and is_letters(name):
        allowed, why = "a name that is not a string of stages' letters", "is a composition of stages by their letters"
        raise RegistryError(bad_value("task", name, allowed, why))
    if not stages:
        raise RegistryError(bad_value("register_task: stages", stages, "letters, or a list of names or of SubTask"))
    subtasks = _subtasks(stages, numbers)
    for key in numbers:
        if key not in TASK_FIELDS:
            why = "is not a field of a task"
            raise RegistryError(bad_value(f"task {name}", key, [*TASK_FIELDS, *SUBTASK_FIELDS], why))
    check_numbers(name, subtasks, numbers)
    task = Task(name, subtasks, help, **numbers)
    registry("task").register(name, task, help=help, override=override)
    return task


def _subtasks(stages: str | Sequence[Any], numbers: dict[str, Any]) -> tuple[SubTask, ...]:
    """Return the sub-tasks; fields of a single sub-task are removed from `numbers`."""
    if isinstance(stages[0], SubTask):
        return tuple(stages)
    values = {key: numbers.pop(key) for key in SUBTASK_FIELDS if key in numbers}
    return (SubTask(stages if isinstance(stages, str) else tuple(stages), **values),)


TRAINING_PARAMS = ("training_horizon", "starts", "goals_on_surface")
"""Keys for training episodes; environments of evaluations leave them out."""

WORLD_INDEPENDENT_PARAMS = ("tolerance", "hold", "horizon", "stages_done", *TRAINING_PARAMS)
"""Keys that change the task, but not its world."""

CHANGEABLE = (*WORLD_INDEPENDENT_PARAMS, "object", "objects", "distractors", "rotation", "colors")
"""Keys that `change_task` accepts."""


def change_task(task: Task, numbers: Mapping[str, Any]) -> Task:
    """Return `task` with other numbers.

    Args:
        task: The task.
        numbers: Values of the keys in `CHANGEABLE`; `object` is the object that the first sub-task acts on.

    Raises:
        ConfigError: An unknown key, a role that the task does not have, a `hold` as long as the `horizon`,
            `stages_done` beyond the last stage, a start that no episode of the task passes, or goals on the surface of
            a task without goals in the air.
    """
    for key in numbers:
        if key not in CHANGEABLE:
            raise ConfigError(bad_value("task_params", key, CHANGEABLE, "is not a number of a task"))
    changes = dict(numbers)
    if "distractors" in changes:
        changes["distractors"] = tuple(map(Distractor.model_validate, changes["distractors"]))
    if "rotation" in changes:
        changes["rotation"] = tuple(changes["rotation"])
    objects = dict(task.objects)
    if "object" in changes:
        objects[task.subtasks[0].object] = changes.pop("object")
    by_role = changes.pop("objects", {})  # more specific than `object`
    objects |= {role: names if isinstance(names, str) else tuple(names) for role, names in by_role.items()}
    for key, roles in (("objects", objects), ("colors", changes.get("colors", {}))):
        for role in roles:
            if role not in task.roles and role not in task.objects and role != task.subtasks[0].object:
                raise ConfigError(bad_value(f"task_params.{key}", role, task.roles, f"is not a role of {task.name}"))
    changed = replace(task, objects=objects, **changes)
    if changes.keys() & {"hold", "horizon", "training_horizon"} and changed.hold >= changed.limit:
        why = f"is too long: success must hold for {changed.hold} of {changed.limit} control steps"
        raise ConfigError(bad_value("task_params.hold", changed.hold, f"less than the horizon, {changed.limit}", why))
    for name in changed.starts:
        if name not in changed.start_stages:
            why = f"is no start of {task.name}: no stage before the last gives {STARTS[name]}"
            raise ConfigError(bad_value("task_params.starts", name, list(changed.start_stages), why))
    if changed.goals_on_surface and not task.has_goals_in_air:
        why = f"is only for tasks whose goals are in the air, which those of {task.name} are not"
        raise ConfigError(bad_value("task_params.goals_on_surface", changed.goals_on_surface, ["0"], why))
    if changed.stages_done >= len(task.stage_names):
        allowed = f"less than the number of stages, {len(task.stage_names)}"
        raise ConfigError(bad_value("task_params.stages_done", changed.stages_done, allowed))
    return changed
