"""Registered components and their combinations, for the parametrisation of tests."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import numpy as np
import pytest

from mygym.config.hyperparameters import Schema
from mygym.config.parameter_checks import RUN_PARAMETERS
from mygym.envs.ids import env_id
from mygym.envs.supported import combinations
from mygym.errors import ConfigError
from mygym.registry import Algorithm, algorithm, implemented_combos, registry
from mygym.registry.signatures import Parameter, parameters
from mygym.tasks.context import ArmCommand
from mygym.tasks.goals import goal_space
from mygym.tasks.grammar import letters
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import camera_components
from mygym.tasks.stage import CLOSED, Stage

TASKS = registry("task").names()
ROBOTS = [entry.name for entry in registry("robot") if entry.origin.startswith("assets") and not entry.requires]
"""Built-in robots whose models need no extra; for the others see `tests/engines/bullet/test_robots.py`."""
CONTROLS = registry("controller").names()
ALGORITHMS = registry("algorithm").names()
SEEING = camera_components(registry("observation").names())
"""Observation components that see through a camera."""
OBSERVATIONS = [name for name in registry("observation").names() if name not in SEEING]
COMBOS = [(algo, framework) for algo in ALGORITHMS for framework in implemented_combos[algo]]
"""Each algorithm in each framework that has it."""
COMBOS_QUICKLY = [
    pytest.param(algo, framework, marks=[] if framework == "pytorch" or algo in ("ppo", "sac") else [pytest.mark.slow])
    for algo, framework in COMBOS
]
"""`COMBOS`, of which the normal suite takes two of JAX's, an on-policy and an off-policy one: they compile for long.
The others train their complete configs in it, and are stopped and resumed."""
REWARDS = [entry.name for entry in registry("reward") if entry.built_in]
IDS = {task: env_id(task) for task in TASKS}


KINDS = ("ppo", "recurrent_ppo", "sac", "dqn", "ars", "cem", "dagger", "ppo_runner", "two_players")
"""An algorithm of each kind: on-policy, with a state, off-policy, with discrete actions, two searches, imitation,
a runner of PyTorch, several networks."""
COMBOS_OF_EACH_KIND = [
    pytest.param(algo, framework, marks=[] if algo in KINDS and framework == "pytorch" else [pytest.mark.slow])
    for algo, framework in COMBOS
]
"""`COMBOS`, of which the normal suite takes `KINDS`: for code that all algorithms of a kind share."""


def known(cls: type) -> dict[str, Parameter]:
    """Hyperparameters of an algorithm's class."""
    return parameters(cls, leave_out={*RUN_PARAMETERS, "policy"})


def check(cls: type, values: Mapping[str, Any]) -> None:
    """Refuse arguments that the constructor of the class would not take."""
    Schema(Algorithm("untitled", "pytorch", cls), values).check(values)


def small(algo: str, framework: str | None = None) -> dict[str, Any]:
    """`algo_params` with which an algorithm is quick: small networks and batches."""
    cls, args, _ = algorithm(algo, framework).combo()
    networks: dict[str, Any] = {"net_arch": [16]}
    if "Lstm" in str(args[0]):
        networks["lstm_hidden_size"] = 8
    wanted: dict[str, Any] = {"batch_size": 32, "n_epochs": 2, "gradient_steps": 1, "n_delta": 2, "n_top": 1}
    wanted |= {"population": 2, "elites": 1}
    if "Linear" not in str(args[0]):
        wanted["policy_kwargs"] = networks
    return {key: value for key, value in wanted.items() if key in known(cls)}


MAX_LETTERS = 12
"""Letters beyond which a composition is a sign that the grammar allows endless compositions."""


@cache
def compositions() -> tuple[str, ...]:
    """Every valid string of the registered letters."""
    result, ends = [], [""]
    while ends and len(ends[0]) < MAX_LETTERS:
        ends = [longer for end in ends for letter in letters() if is_grammatical(longer := end + letter)]
        result += ends
    return tuple(result)


def is_grammatical(composition: str) -> bool:
    """Return whether letters are a valid task; by stage names, for which no folder is scanned: that takes longest."""
    stages = letters()
    try:
        find_task([stages[letter] for letter in composition])
    except ConfigError:
        return False
    return True


SHIFT = Stage(
    name="shift",
    letter="",
    requires=("near",),
    gives=("placed",),
    phrase="shift {object} {goal}",
    potential=lambda context: 0.0 * context.part_position,
    expert=lambda context, start_pose: ArmCommand(context.target, CLOSED),
    needs_object=False,
    needs_part=True,
)
"""A stage that moves parts of the workspace, for tests to register."""


def several(*roles: str, stages: str | list[str] = "AGMDW") -> list[dict[str, Any]]:
    """One sub-task after the other, the same with each object."""
    return [{"stages": stages, "object": role} for role in roles]


def tower(*roles: str) -> list[dict[str, Any]]:
    """Sub-tasks that stack each object on the previous object; the first goes to an area."""
    first = {"stages": "AGMDW", "object": roles[0]}
    return [first, *({"stages": "AGMDW", "object": b, "onto": a} for a, b in itertools.pairwise(roles))]


HOSTED = [
    (combination.task, combination.robot)
    for combination in combinations(TASKS)
    if combination.robot in ROBOTS and combination.workspace == find_task(combination.task).workspace
]
"""Each named task with each robot that is at home where the task is, and can do it."""


def covering(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """As few of `pairs` as hold each task and each robot: a further robot is one more, not one for each task."""
    result: list[tuple[str, str]] = []
    for side in (0, 1):
        for name in dict.fromkeys(pair[side] for pair in pairs):
            if all(pair[side] != name for pair in result):
                taken = Counter(pair[1 - side] for pair in result)
                result.append(min((p for p in pairs if p[side] == name), key=lambda pair: taken[pair[1 - side]]))
    return result


COVERING = covering(HOSTED)
HOSTED_QUICKLY = [pair if pair in COVERING else pytest.param(*pair, marks=pytest.mark.slow) for pair in HOSTED]
"""`HOSTED`, of which the normal suite takes `COVERING`: for tests of seconds, of code that all pairs share."""


def slow_except(cases: Iterable[Any], quick: Callable[[Any], bool]) -> list[Any]:
    """Cases of a parametrisation; those that `quick` rejects get the marker `slow`."""
    return [
        case if quick(case) else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


def quickly(names: Iterable[str], features: Callable[[str], Iterable[Any]]) -> list[Any]:
    """Names, of which the normal suite takes as many as show every feature of any once; the others are slow."""
    result, seen = [], set[Any]()
    for name in names:
        new = set(features(name)) - seen
        seen |= new
        result.append(name if new else pytest.param(name, marks=pytest.mark.slow))
    return result


COMPOSITIONS = quickly(compositions(), lambda composition: zip(composition, composition[1:] + ".", strict=True))
"""Each composition of letters; the normal suite takes those in which a stage follows another for the first time."""

EVERY_TASK = [*TASKS, *compositions()]
each_stage = quickly(EVERY_TASK, lambda composition: find_task(composition).stage_names)
TASKS_OF_EACH_STAGE = [name for name in each_stage if isinstance(name, str)]
"""The tasks and compositions in which a stage comes for the first time: for pure functions."""


def traits(task: str) -> Iterator[Any]:
    """Yield the features on which the code of environments depends: arms, objects, a part, gripper, goal sections."""
    definition = find_task(task)
    yield "arms", definition.arms
    yield "objects", len(definition.roles)
    yield "part", any(subtask.part for subtask in definition.subtasks)
    yield "sub-tasks", len(definition.subtasks) > 1
    yield "gripper", definition.uses_gripper
    yield from goal_space(definition).names


SHORTEST_FIRST = sorted(TASKS, key=lambda task: find_task(task).horizon)
TASKS_QUICKLY = quickly(SHORTEST_FIRST, traits)
"""`TASKS`, of which the normal suite takes the fewest and shortest that have all `traits`: for code of environments."""
TRAITS = [pair for task in TASKS_QUICKLY if isinstance(task, str) for pair in COVERING if pair[0] == task]
TRAITS_QUICKLY = slow_except(HOSTED, lambda pair: pair in TRAITS)
"""`HOSTED`, of which the normal suite takes one robot for each such task: for tests of environments that take long."""
ROBOTS_AND_CONTROLS = [(robot, control) for robot in ROBOTS for control in CONTROLS]
ROBOTS_AND_CONTROLS_QUICKLY = slow_except(ROBOTS_AND_CONTROLS, lambda pair: pair in covering(ROBOTS_AND_CONTROLS))
"""Each robot with each controller, of which the normal suite takes as few as hold each of both."""


def has_extra() -> bool:
    """Whether the extra `robots` is installed."""
    try:
        distribution("example-robot-data")
    except PackageNotFoundError:
        return False
    return True


needs_extra = pytest.mark.skipif(not has_extra(), reason="the extra `robots` is not installed")


def wrong_observations(right: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield wrong variants of a flat or a dictionary observation, and words of the messages."""
    key, array = next(iter(right.items())) if isinstance(right, dict) else ("", right)
    name, shape = f"observation.{key}".rstrip("."), str(array.shape)
    for wrong in (array[:1], array[None, None], np.full(array.shape, "x"), np.array(None)):
        yield ({**right, key: wrong} if key else wrong), [f"{name}: '{wrong.dtype} {wrong.shape}'", shape]
    yield ({other: right[other] for other in right if other != key} if key else {"other": right}), [key or shape]
    if key:
        yield array, ["a dictionary of", key]
