"""Conformance suite of stages: composition, pure functions of batches, an expert, and a reward that teaches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from mygym.checks.batches import arrays_of, expert_episode, joined
from mygym.checks.cards import with_robot
from mygym.checks.suite import Check, CheckFailed, demand
from mygym.checks.tasks import expert_solves
from mygym.checks.teaching import demand_teaching
from mygym.envs.supported import a_robot_for
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.grammar import parse
from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask
from mygym.tasks.task import Task

EPISODES = 40
MAX_STAGES = 6
"""Largest number of stages in a composition."""


def stage_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a stage, in a named task that has it or in the shortest composition that ends with it."""
    yield Check("known predicates", lambda: _has_known_predicates(registry("stage").get(name).load()))
    yield Check("composes", lambda: demand(setting(name), ""), needs=("known predicates",))
    yield Check("pure functions", lambda: _is_pure(name), needs=("composes",))
    yield Check(
        "expert completes it",
        lambda: expert_solves(setting(name), EPISODES),
        needs=("composes",),
    )
    needs = ("pure functions", "expert completes it")
    yield Check("teaches", lambda: demand_teaching(setting(name)), needs=needs)


def setting(name: str) -> dict[str, Any]:
    """Return a config that ends with a stage: the beginning of the shortest named task that has it, with its numbers.

    The task decides what the stage acts on, e.g. a drawer, a second arm, or an object that can be thrown. Built-in
    tasks go first, so that the result does not depend on the user's. Without a task it is the shortest composition.

    Raises:
        CheckFailed: No task and no composition has the stage.
    """
    candidates = [
        (not entry.built_in, len(task.sequence.stages), entry.name, task, subtask)
        for entry in registry("task")
        for task in [entry.load()]
        if _is_valid(task)
        for subtask in task.subtasks
        if name in _stage_names(subtask)
    ]
    if not candidates:
        return with_robot({"task": list(composition(name))})
    *_, task, subtask = min(candidates, key=lambda candidate: candidate[:3])
    stages = _stage_names(subtask)
    beginning = replace(subtask, stages=stages[: stages.index(name) + 1])
    return {
        "task": [asdict(beginning)],
        "workspace": task.workspace,
        "robot": a_robot_for(task),
        "task_params": {
            "tolerance": task.tolerance,
            "hold": task.hold,
            "horizon": task.horizon,
            "objects": {role: task.asset(role) for role in (subtask.object, subtask.onto) if role in task.roles},
            "rotation": list(task.rotation),
        },
    }


def _stage_names(subtask: SubTask) -> tuple[str, ...]:
    return tuple(stage.name for stage in parse(subtask.stages))


def composition(name: str) -> tuple[str, ...]:
    """Return the shortest grammatical composition of registered stages that ends with a stage.

    Raises:
        CheckFailed: No composition of registered stages ends with this stage.
    """
    stages = registry("stage").names()
    shorter: list[tuple[str, ...]] = [()]
    for _ in range(MAX_STAGES):
        longer = [(*names, stage) for names, stage in itertools.product(shorter, stages)]
        grammatical = [names for names in longer if _is_valid(Task("", (SubTask(names),)))]
        match = next((names for names in grammatical if names[-1] == name), None)
        if match is not None:
            return match
        shorter = grammatical
    stage: Stage = registry("stage").get(name).load()
    raise CheckFailed(
        f"no composition of at most {MAX_STAGES} registered stages gives {', '.join(stage.requires)}, which it "
        f"requires, and lacks {', '.join(stage.gives)}, which it gives"
    )


def _is_valid(task: Task) -> bool:
    try:
        _ = task.sequence
    except ConfigError:
        return False
    return True


def _has_known_predicates(stage: Stage) -> None:
    known = registry("predicate").names()
    for key in ("requires", "gives", "ends"):
        unknown = [predicate for predicate in getattr(stage, key) if predicate not in known]
        demand(not unknown, f"{key} {', '.join(unknown)}: no known predicate; known are {', '.join(known)}")
    demand(stage.gives, "gives no predicate, so it is never complete")
    demand(
        not stage.letter or (len(stage.letter) == 1 and stage.letter.isupper()),
        f"its letter is {stage.letter!r}, not one capital letter",
    )


def _is_pure(name: str) -> None:
    """Potential and expert give the same values for a batch and for its states alone, and change no argument."""
    episode = expert_episode(setting(name))
    bound = episode.contexts[0].task.stage_bindings[-1]
    last = len(episode.contexts[0].task.stage_bindings) - 1
    visited = [context for context, active in zip(episode.contexts, episode.stages, strict=True) if active == last]
    demand(visited, f"the experts of {', '.join(episode.contexts[0].task.stage_names[:-1])} do not reach its start")
    stage, count, batched = episode.contexts[0].task.sequence.stages[last], len(visited), joined(visited)
    batch = StageContext(batched.state, batched.progress, batched.goals, bound)
    arrays = [*arrays_of(batch.state), *arrays_of(batch.progress), batch.goals]
    before = [array.copy() for array in arrays]
    potential, command = np.asarray(stage.potential(batch)), stage.expert(batch, stage.start_pose or _at_target)
    target, gripper = np.asarray(command.target), np.broadcast_to(command.gripper, (count,))
    demand(all(map(np.array_equal, before, arrays)), "changes the state, the progress or the goals that it gets")
    shapes = {"potential": (potential, (count,)), "expert's target": (target, (count, 3))}
    for key, (array, shape) in shapes.items():
        demand(array.shape == shape, f"{key} has shape {array.shape} for {count} states, not {shape}")
        demand(np.isfinite(array).all(), f"{key} is not finite")
    demand(((potential >= 0) & (potential <= 1)).all(), f"potential is {potential.min():g} … {potential.max():g}")
    for index, context in enumerate(visited):
        alone = StageContext(context.state, context.progress, context.goals, bound)
        same = np.allclose(stage.potential(alone), potential[index])
        demand(same, "potential gives other values for a batch than for its states alone")
        single = stage.expert(alone, stage.start_pose or _at_target)
        demand(
            np.allclose(single.target, target[index]) and np.allclose(single.gripper, gripper[index]),
            "the expert gives other commands for a batch than for its states alone",
        )


def _at_target(context: StageContext) -> Any:
    return context.target
