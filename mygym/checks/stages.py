"""Conformance suite of stages: composition, pure functions of batches, an expert, and a reward that teaches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym import api
from mygym.checks.suite import Check, CheckFailed, demand
from mygym.checks.tasks import expert_solves, with_robot
from mygym.envs.multi_task_env import AnyEnv
from mygym.envs.supported import a_robot_for
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.grammar import parse
from mygym.tasks.stage import Stage, SubTask
from mygym.tasks.task import Task
from mygym.types import FloatArray


@dataclass(frozen=True)
class Episode:
    """States of an expert's episode."""

    contexts: tuple[EpisodeContext, ...]
    """One context for each control step, the reset included; the arrays are copies with a batch axis of 1."""
    stages: tuple[int, ...]
    """Index of the active stage in each context."""

    @property
    def batch(self) -> EpisodeContext:
        """All contexts as a batch."""
        return joined(self.contexts)


def expert_episode(config: Mapping[str, Any]) -> Episode:
    """Return the states of an episode in which the scripted expert acts."""
    contexts, stages = [], []
    with api.make_env(config) as env:

        def act(step: int) -> NDArray[np.float32]:
            contexts.append(joined([env.context]))
            stages.append(int(env.progress.stage[0]))
            return env.expert_action()

        play(env, 0, act)
    return Episode(tuple(contexts), tuple(stages))


def joined(contexts: Sequence[EpisodeContext]) -> EpisodeContext:
    """Return contexts of the same task as a batch, with copies of all arrays."""
    return EpisodeContext(
        contexts[0].task,
        concatenated([context.progress for context in contexts]),
        concatenated([context.state for context in contexts]),
        np.concatenate([context.goals for context in contexts]),
        np.concatenate([context.elapsed for context in contexts]),
        contexts[0].action_repeat,
    )


def concatenated(batches: Sequence[Any]) -> Any:
    """Concatenate dataclasses of arrays along the batch axis; the arrays are copies."""
    names = [field.name for field in fields(batches[0])]
    return type(batches[0])(**{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in names})


def arrays_of(batch: EpisodeContext | StageContext) -> list[Any]:
    """Return the arrays of the state, of the progress, of the goals and of the steps."""
    values = [getattr(each, field.name) for each in (batch.state, batch.progress) for field in fields(each)]
    return [*values, batch.goals, *([batch.elapsed] if isinstance(batch, EpisodeContext) else [])]


def demand_pure(
    name: str,
    function: Callable[[Any], Any],
    batch: Any,
    singles: Sequence[Any],
    arrays: Sequence[Any],
    shape: tuple[int, ...] | None = (),
    exact: bool = False,
) -> Any:
    """Demand that a function of a batch is finite, changes no argument, and equals the function of each single state.

    The function maps a batch of `N` states to `(N, *shape)`; with `shape=None`, the values of a state have any shape.
    `singles` has each state as a batch of 1, and `arrays` are those of the batch. `exact` demands that the results are
    equal to the bit, e.g. because they are bool.

    Returns:
        The result for the batch.
    """
    before = [np.copy(array) for array in arrays]
    result = np.asarray(function(batch))
    demand(all(map(np.array_equal, before, arrays)), f"{name} changes the arrays that it gets")
    needed = (len(singles), *(result.shape[1:] if shape is None else shape))
    demand(result.shape == needed, f"{name} has shape {result.shape}, not {needed}")
    demand(np.isfinite(result).all(), f"{name} is not finite")
    for index, single in enumerate(singles):
        alone = np.asarray(function(single))[0]
        same = np.array_equal(alone, result[index]) if exact else np.allclose(alone, result[index], atol=1e-9)
        demand(same, f"{name} gives other values for a batch than for its states alone")
    return result


REWARD, GAMMA = "shaped", 0.95
"""The reward, and the discount with which idling is compared with progress."""

MAX_FLAT, MIN_CORRELATION = 0.05, 0.8
"""Largest share of random steps without a change of the reward; smallest correlation with the expert's progress."""

TEACHING_EPISODES = 10
"""Episodes of the expert, of each idle policy, and of the expert with each pause."""

CHANGE = 1e-6
"""Smallest change of the reward that counts as a gradient; its range is 1."""

PAUSES = (0.2, 0.5, 0.8)
"""Shares of the expert's episode after which it is compared with idling."""

Rewards = FloatArray
Actions = list[NDArray[np.float32]]


@dataclass(frozen=True)
class Teaching:
    """Measurements of the reward in the episodes of several policies."""

    flat: float
    """Share of random steps, before success, in which the reward does not change: after the reset or the last stage's
    start, whichever is larger."""
    correlation: float
    """Pearson correlation of the reward with minus the steps that the expert still needs, mean of the episodes."""
    expert: float
    """Mean return of the expert."""
    idle: float
    """Largest mean return of random and zero actions."""
    idling: tuple[str, ...]
    """States in which idling, without success, earns more than the expert."""

    def __str__(self) -> str:
        """Return the numbers in words."""
        return (
            f"{self.flat:.1%} of random steps without a change, correlation {self.correlation:.2f}, "
            f"return of the expert {self.expert:.1f}, of idling {self.idle:.1f}"
        )


def demand_teaching(config: Mapping[str, Any]) -> str:
    """Demand that the reward teaches the task of a config; return the measurements in words."""
    measured = measure(config)
    demand(measured.flat <= MAX_FLAT, f"the reward does not change in {measured.flat:.1%} of random steps")
    demand(
        measured.correlation >= MIN_CORRELATION,
        f"the reward has a correlation of {measured.correlation:.2f} with the steps that the expert still needs; "
        f"{MIN_CORRELATION} is required",
    )
    text = f"idling earns {measured.idle:.1f}, the expert {measured.expert:.1f}"
    demand(measured.expert > measured.idle, text)
    demand(not measured.idling, f"idling earns more than the expert's progress {'; '.join(measured.idling)}")
    return str(measured)


def measure(config: Mapping[str, Any]) -> Teaching:
    """Play episodes of the expert, with pauses and without, of zero actions, and of random actions from two starts."""
    rng = np.random.default_rng(0)
    experts: list[Rewards] = []
    idle: dict[str, list[float]] = {"random": [], "zero": []}
    flat: dict[int, list[bool]] = {}
    idling: list[str] = []
    with api.make_env({**config, "reward": REWARD}) as env:
        size = env.world.action_size
        for seed in range(TEACHING_EPISODES):
            rewards, actions, _ = play(env, seed, lambda _: env.expert_action())
            experts.append(rewards)
            idling += _idling(env, seed, rewards, actions)
            for stages_done in sorted({0, len(env.task.stage_names) - 1}):
                later = env.env_spec.task_params.model_copy(update={"stages_done": stages_done})
                start = env.in_same_world(env.env_spec.model_copy(update={"task_params": later}))
                random = play(start, seed, lambda _: rng.uniform(-1.0, 1.0, size).astype(np.float32))[0]
                flat.setdefault(stages_done, []).extend(abs(np.diff(random))[random[1:] < 0.0] < CHANGE)
                if not stages_done:
                    idle["random"].append(random.sum())
            idle["zero"].append(play(env, seed, lambda _: np.zeros(size, dtype=np.float32))[0].sum())
    correlations = [np.corrcoef(rewards, np.arange(len(rewards)))[0, 1] for rewards in experts]
    return Teaching(
        max(float(np.mean(unchanged or [False])) for unchanged in flat.values()),
        float(np.mean(correlations)),
        float(np.mean([rewards.sum() for rewards in experts])),
        max(float(np.mean(returns)) for returns in idle.values()),
        tuple(idling),
    )


def _idling(env: AnyEnv, seed: int, rewards: Rewards, actions: Actions) -> Iterator[str]:
    """Yield the states of an expert's episode in which an arm that stays, with its fingers, earns more from then on."""
    fingers = len(env.robot.arms) if env.task.uses_gripper and env.robot.gripper else 0
    for share in PAUSES:
        begin = max(1, int(share * len(rewards)))
        pause = np.zeros_like(actions[0])
        pause[len(pause) - fingers :] = actions[begin - 1][len(pause) - fingers :]
        idle = play(env, seed, _followed_by(pause, actions[:begin]))[0]
        if idle[-1] < 0.0 and _discounted(idle[begin:]) > _discounted(rewards[begin:]):  # the object may move on
            earned = f"{_discounted(idle[begin:]):.2f} against {_discounted(rewards[begin:]):.2f}"
            yield f"from step {begin} of {len(rewards)}, seed {seed}: {earned}"


def _followed_by(pause: NDArray[np.float32], actions: Actions) -> Callable[[int], NDArray[np.float32]]:
    """Return a policy that performs `actions`, then `pause` in every step."""
    return lambda step: actions[step] if step < len(actions) else pause


def play(env: AnyEnv, seed: int, act: Callable[[int], NDArray[np.float32]]) -> tuple[Rewards, Actions, list[Any]]:
    """Play an episode of `n` steps with the actions `act(step)`; return rewards, actions, and `n + 1` observations."""
    observations, rewards, ended = [env.reset(seed=seed)[0]], [], False
    actions: Actions = []
    while not ended:
        actions.append(act(len(actions)))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        observations.append(observation)
        rewards.append(float(reward))
        ended = terminated or truncated
    return np.array(rewards), actions, observations


def _discounted(rewards: Rewards) -> float:
    return float((rewards * GAMMA ** np.arange(len(rewards))).sum())


EPISODES = 40
MAX_STAGES = 6
"""Largest number of stages in a composition."""


def stage_checks(name: str) -> Iterator[Check]:
    """Yield the checks of a stage, in a named task that has it or in the shortest composition that ends with it."""
    yield Check("known predicates", lambda: _has_known_predicates(registry("stage").get(name).load()))
    yield Check("composes", lambda: demand(setting(name), ""), needs=("known predicates",))
    yield Check("pure functions", lambda: _is_pure(name), needs=("composes",))
    yield Check("expert completes it", lambda: expert_solves(setting(name), EPISODES), needs=("composes",))
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
            "objects": {role: list(task.assets(role)) for role in (subtask.object, subtask.onto) if role in task.roles},
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


def _is_pure(name: str) -> None:
    """Potential and expert give the same values for a batch and for its states alone, and change no argument."""
    episode = expert_episode(setting(name))
    task = episode.contexts[0].task
    last = len(task.stage_bindings) - 1
    visited = [context for context, active in zip(episode.contexts, episode.stages, strict=True) if active == last]
    demand(visited, f"the experts of {', '.join(task.stage_names[:-1])} do not reach its start")
    stage = task.sequence.stages[last]
    batch, *singles = (
        StageContext(each.state, each.progress, each.goals, task.stage_bindings[last])
        for each in (joined(visited), *visited)
    )

    def command(context: StageContext) -> FloatArray:
        """Return `(n, 4)`: target and gripper."""
        given = stage.expert(context, stage.start_pose or (lambda context: context.target))
        return np.column_stack([given.target, np.broadcast_to(given.gripper, len(context.goals))])

    potential = demand_pure("potential", stage.potential, batch, singles, arrays_of(batch))
    demand(((potential >= 0) & (potential <= 1)).all(), f"potential is {potential.min():g} … {potential.max():g}")
    demand_pure("the expert's target and gripper", command, batch, singles, arrays_of(batch), shape=(4,))
