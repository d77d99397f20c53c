"""The conformance suite of stages: composes with others, and its functions are what the grammar takes them for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from mygym import api
from mygym.checks.cards import with_robot
from mygym.checks.suite import Check, CheckFailed, demand
from mygym.checks.tasks import expert_solves
from mygym.envs.supported import a_robot_for
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.tasks.context import BoundStage, StageContext
from mygym.tasks.grammar import parse
from mygym.tasks.progress import Progress
from mygym.tasks.stage import Stage
from mygym.tasks.state import State
from mygym.tasks.subtask import SubTask
from mygym.tasks.task import Task

EPISODES = 40
LONGEST = 6
"""Stages of the longest composition that is tried."""


def stage_checks(name: str) -> Iterator[Check]:
    """The suite of one stage, as a named task has it, or in the shortest composition that ends with it."""
    yield Check("known facts", lambda: _knows_its_facts(registry("stage").get(name).load()))
    yield Check("composes", lambda: demand(setting(name), ""), needs=("known facts",))
    yield Check("pure functions", lambda: _is_pure(name), needs=("composes",))
    yield Check(
        "expert completes it",
        lambda: expert_solves(setting(name), EPISODES),
        needs=("composes",),
    )


def setting(name: str) -> dict[str, Any]:
    """A config that ends with a stage: the beginning of the plainest named task that has it, with that task's numbers.

    What a stage takes (a drawer, a second arm, an object that can be thrown) only a task says. Built-in tasks go first,
    so that what a stage is tried on does not depend on the user's. Without a task it is the shortest composition.

    Raises:
        CheckFailed: No task has it, and no composition.
    """
    having = [
        (not entry.built_in, len(task.plan.stages), entry.name, task, one)
        for entry in registry("task")
        for task in [entry.load()]
        if _makes_sense(task)
        for one in task.subtasks
        if name in _names(one)
    ]
    if not having:
        return with_robot({"task": list(composition(name))})
    *_, task, one = min(having, key=lambda found: found[:3])
    stages = _names(one)
    beginning = replace(one, stages=stages[: stages.index(name) + 1])
    return {
        "task": [asdict(beginning)],
        "workspace": task.workspace,
        "robot": a_robot_for(task),
        "task_params": {
            "tolerance": task.tolerance,
            "hold": task.hold,
            "horizon": task.horizon,
            "objects": {role: task.asset(role) for role in (one.object, one.onto) if role in task.roles},
            "rotation": list(task.rotation),
        },
    }


def _names(one: SubTask) -> tuple[str, ...]:
    return tuple(stage.name for stage in parse(one.stages))


def composition(name: str) -> tuple[str, ...]:
    """The shortest grammatical composition of registered stages that ends with this one.

    Raises:
        CheckFailed: There is none.
    """
    stages = registry("stage").names()
    begun: list[tuple[str, ...]] = [()]
    for _ in range(LONGEST):
        longer = [(*begin, stage) for begin, stage in itertools.product(begun, stages)]
        grammatical = [one for one in longer if _makes_sense(Task("", (SubTask(one),)))]
        found = next((one for one in grammatical if one[-1] == name), None)
        if found is not None:
            return found
        begun = grammatical
    stage: Stage = registry("stage").get(name).load()
    raise CheckFailed(
        f"no composition of at most {LONGEST} registered stages gives {', '.join(stage.requires)}, which it requires, "
        f"and lacks {', '.join(stage.gives)}, which it gives"
    )


def _makes_sense(task: Task) -> bool:
    try:
        _ = task.plan
    except ConfigError:
        return False
    return True


def _knows_its_facts(stage: Stage) -> None:
    for key in ("requires", "gives", "ends"):
        unknown = [fact for fact in getattr(stage, key) if fact not in registry("predicate")]
        demand(
            not unknown,
            f"{key} {', '.join(unknown)}: no known fact; known are {', '.join(registry('predicate').names())}",
        )
    demand(stage.gives, "gives no fact, so it is never complete")
    demand(
        not stage.letter or (len(stage.letter) == 1 and stage.letter.isupper()),
        f"its letter is {stage.letter!r}, not one capital letter",
    )


def _is_pure(name: str) -> None:
    """Potential and expert give, for a batch of states, what they give for each, and leave what they get as it is."""
    states, progresses, goals, step = _visited(setting(name))
    stage, count = step.stage, len(states)
    batch = StageContext(_joined(states), _joined(progresses), np.repeat(goals, count, axis=0), step)
    arrays = [*_arrays(batch.state), *_arrays(batch.progress), batch.goals]
    before = [array.copy() for array in arrays]
    potential, motion = np.asarray(stage.potential(batch)), stage.expert(batch, stage.entry or _at_target)
    target, gripper = np.asarray(motion.target), np.broadcast_to(motion.gripper, (count,))
    demand(all(map(np.array_equal, before, arrays)), "changes the state, the progress or the goals that it is given")
    shapes = {"potential": (potential, (count,)), "expert's target": (target, (count, 3))}
    for what, (array, shape) in shapes.items():
        demand(array.shape == shape, f"{what} has shape {array.shape} for {count} states, not {shape}")
        demand(np.isfinite(array).all(), f"{what} is not finite")
    demand(((potential >= 0) & (potential <= 1)).all(), f"potential is {potential.min():g} … {potential.max():g}")
    for index, (state, progress) in enumerate(zip(states, progresses, strict=True)):
        alone = StageContext(state, progress, goals, step)
        same = np.allclose(stage.potential(alone), potential[index])
        demand(same, "potential of a batch is not that of each of its states")
        one = stage.expert(alone, stage.entry or _at_target)
        demand(
            np.allclose(one.target, target[index]) and np.allclose(one.gripper, gripper[index]),
            "the expert does something else in a batch than alone",
        )


def _at_target(context: StageContext) -> Any:
    return context.target


def _visited(config: Mapping[str, Any]) -> tuple[list[State], list[Progress], Any, BoundStage]:
    """States and progress of an expert's episode in which the last stage is active, the goals, and the stage bound."""
    states: list[State] = []
    progresses: list[Progress] = []
    with api.make_env(config) as env:
        env.reset(seed=0)
        ended = False
        while not ended:
            if env.progress.stage[0] == len(env.task.bound_stages) - 1:
                states.append(_joined([env.world.state]))
                progresses.append(_joined([env.progress]))
            _, _, terminated, truncated, _ = env.step(env.expert_action())
            ended = terminated or truncated
    demand(states, f"the experts of {', '.join(env.task.stage_names[:-1])} do not come to where it begins")
    return states, progresses, env.goals, env.task.bound_stages[-1]


def _joined(batches: list[Any]) -> Any:
    """Dataclasses of arrays with a batch axis → one of all; the arrays are copies."""
    names = [field.name for field in fields(batches[0])]
    return type(batches[0])(**{name: np.concatenate([getattr(one, name) for one in batches]) for name in names})


def _arrays(batch: Any) -> list[Any]:
    return [getattr(batch, field.name) for field in fields(batch)]
