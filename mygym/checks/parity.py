"""Parity of an engine with batches with Bullet: both get the same actions from the same starts.

Compared are the tool points, the objects, the scripted expert's success in each, and the grasps: of the episodes in
which the engine holds the object, the share in which Bullet holds it, too, and the same for those grasps before which
the object is at the same place in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mygym import api
from mygym.engines.arrays import Rows
from mygym.engines.engine import BULLET, FUSED
from mygym.envs.batch_env import BatchEnv
from mygym.envs.episodes import BatchEpisodes
from mygym.envs.multi_task_batch import MultiTaskBatch, make_batch
from mygym.envs.robot_env import RobotEnv
from mygym.planning.checks import check_engine
from mygym.planning.derived import env_spec
from mygym.tasks.state import State
from mygym.training import directory
from mygym.training.loading import find_plan, load
from mygym.types import Array, FloatArray

STEPS = 50
"""Control steps of a random episode."""

NOISE = 0.5
"""Largest noise of the actions of the noisy expert; the scale of each episode is drawn between 0 and this."""

HELD = 5
"""Control steps in a row for which the engine must hold the object to count as a grasp."""

SAME_PLACE = 0.005
"""m between the objects of the engines before a grasp within which they are at the same place."""

LIFTED = 0.03
"""m between tool point and object within which an object that the fingers press on is in Bullet's hand."""


@dataclass(frozen=True)
class Parity:
    """Differences between the engines in episodes of the same actions."""

    actions: str
    """`random`, each component at full scale; `expert`, of the scripted expert in Bullet; or `noisy expert`, of the
    scripted expert in the engine, with noise on the motion."""
    episodes: int
    steps: int
    """Control steps of all episodes."""
    mean: float
    """mm: mean distance between the tool points after a step."""
    percentile: float
    """mm: distance that 95 % of the steps do not exceed."""
    object_mean: float | None = None
    """mm: mean distance between the objects after a step; None without an object."""
    object_median: float | None = None
    """mm: median of the same."""
    success_pybullet: float | None = None
    """Share of episodes that the expert solves in Bullet; None for other actions."""
    success_engine: float | None = None
    """Share of episodes that the expert solves in the engine, closed loop; None for other actions."""
    grasps: int | None = None
    """Episodes in which the engine grasps the object; None for tasks without a grasp, and for other actions."""
    gate: float | None = None
    """Share of these in which Bullet grasps it under the same actions; None without a grasp."""
    grasps_same_place: int | None = None
    """Grasps before which the object is within `SAME_PLACE` of Bullet's; earlier contacts have not moved them apart."""
    gate_same_place: float | None = None
    """Share of these in which Bullet grasps it; None without such a grasp."""


@dataclass
class _Recording:
    """An episode of Bullet."""

    seed: int
    actions: FloatArray
    """`(steps, A)`."""
    points: FloatArray
    """`(steps, 3)` m: tool points after each step."""
    objects: FloatArray
    """`(steps, 3)` m: the object; empty rows `(steps, 0)` without one."""
    held: Array
    """`(steps,)` bool: every finger presses on the object, which is at the tool."""
    start: FloatArray
    """`(k, 7)`: poses of the objects at the reset."""
    parts: FloatArray
    """`(P,)` m or rad: positions of the articulated parts at the reset."""
    goals: FloatArray
    """`(G, 3)` m."""
    solved: bool


def compare_engines(arguments: Mapping[str, Any], episodes: int, seed: int, engine: str = FUSED) -> tuple[Parity, ...]:
    """Return the differences in random episodes, in episodes of the expert and, with a grasp, of the noisy expert.

    All but the expert's success are open loop from each reset.

    Raises:
        ConfigError: The engine has no batches, or cannot represent the arguments; or PyBullet is not installed.
        RegistryError: Unknown engine.
    """
    batch = BatchEnv({**arguments, "engine": engine}, episodes)
    rng = np.random.default_rng(seed)
    seeds = range(seed, seed + episodes)
    with closing(RobotEnv(**{**arguments, "engine": BULLET})) as env:
        size = env.world.action_size
        action_sequences = [rng.uniform(-1.0, 1.0, (STEPS, size)) for _ in seeds]
        recordings = [_played(env, number, sequence) for number, sequence in zip(seeds, action_sequences, strict=True)]
        kinds = [Parity("random", *_figures(batch, recordings))]
        recordings = [_played(env, number, None) for number in seeds]
        solved = float(np.mean([recording.solved for recording in recordings]))
        in_engine = success_rate(batch, lambda _: batch.expert_action(), seeds)
        expert = Parity("expert", *_figures(batch, recordings))
        kinds.append(replace(expert, success_pybullet=solved, success_engine=in_engine))
        if batch.task.needs_gripper and batch.task.roles:
            actions, held, objects = _noisy_expert(batch, recordings, rng)
            recordings = [_played(env, number, sequence) for number, sequence in zip(seeds, actions, strict=True)]
            noisy = Parity("noisy expert", *_figures(batch, recordings))
            kinds.append(replace(noisy, **_compare_grasps(held, objects, recordings)))
    return tuple(kinds)


def _played(env: RobotEnv, seed: int, actions: FloatArray | None) -> _Recording:
    """Play actions `(steps, A)` in Bullet, or the scripted expert's to the end of the episode, from a reset."""
    env.reset(seed=seed)
    state, goals = env.world.state, env.goals[0].copy()
    has_object = bool(env.task.roles)
    start = np.concatenate([state.object_position[0], state.object_orientation[0]], axis=1)
    parts = state.part_position[0].copy()
    taken, points, objects, held, solved, ended = [], [], [], [], False, False
    while not ended:
        if actions is None:
            taken.append(env.expert_action().astype(float))
            _, _, terminated, truncated, info = env.step(taken[-1])
            solved, ended = info["is_success"], terminated or truncated
        else:
            taken.append(actions[len(taken)])
            env.world.step(taken[-1])
            ended = len(taken) == len(actions)
        points.append(state.ee_position[0].copy())
        objects.append(state.object_position[0, 0].copy() if has_object else np.zeros(0))
        held.append(bool(has_object and _holds(state)[0]))
    return _Recording(
        seed, np.array(taken), np.array(points), np.array(objects), np.array(held), start, parts, goals, solved
    )


def _holds(state: State) -> Array:
    """Return `(N,)` bool: all fingers press on the first object, which is at the tool."""
    pressing = state.finger_contact[:, 0]
    near = np.linalg.norm(state.object_position[:, 0] - state.ee_position, axis=1) < LIFTED
    return near & pressing.all(axis=1) & (pressing.shape[1] > 0)


def _begin(episodes: BatchEpisodes, recordings: list[_Recording]) -> None:
    """Put the engine's episodes at the starts of Bullet's."""
    arrays = episodes.worlds.arrays
    poses = arrays.floats(np.array([recording.start for recording in recordings]))
    parts = arrays.floats(np.array([recording.parts for recording in recordings]))
    episodes.worlds.reset(Rows.all(episodes.count, arrays), poses, parts)
    episodes.begin_at(arrays.floats(np.array([recording.goals for recording in recordings])))


def _figures(batch: BatchEnv, recordings: list[_Recording]) -> tuple[Any, ...]:
    """Return the first figures of a `Parity`: the engine repeats the actions of the recordings."""
    episodes, worlds = batch.episodes, batch.worlds
    _begin(episodes, recordings)
    tools, objects = [], []
    for step, rows in enumerate(_padded([recording.actions for recording in recordings])):
        worlds.step_all(worlds.arrays.floats(rows))
        for number, recording in enumerate(recordings):
            if step < len(recording.points):
                tools.append(np.linalg.norm(worlds.state.ee_position[number] - recording.points[step]))
                if recording.objects.shape[1]:
                    position = worlds.state.object_position[number, 0]
                    objects.append(np.linalg.norm(position - recording.objects[step]))
    figures = len(recordings), len(tools), 1000.0 * float(np.mean(tools)), 1000.0 * float(np.percentile(tools, 95))
    if not objects:
        return figures
    return *figures, 1000.0 * float(np.mean(objects)), 1000.0 * float(np.median(objects))


def _padded(action_sequences: list[FloatArray]) -> FloatArray:
    """Return actions `(steps of the longest, N, A)`, with zeros after the end of the others."""
    padded = np.zeros((max(map(len, action_sequences)), len(action_sequences), action_sequences[0].shape[1]))
    for number, sequence in enumerate(action_sequences):
        padded[: len(sequence), number] = sequence
    return padded


def _noisy_expert(
    batch: BatchEnv, recordings: list[_Recording], rng: np.random.Generator
) -> tuple[list[FloatArray], Array, FloatArray]:
    """Let the noisy expert act in the engine.

    Returns:
        Its actions `(steps, A)` in each episode; `(steps, N)` bool: the engine holds the object; `(steps, N, 3)` m: the
        objects after each step.
    """
    episodes, worlds = batch.episodes, batch.worlds
    _begin(episodes, recordings)
    scale = rng.uniform(0.0, NOISE, (len(recordings), 1))
    taken, held, objects = [], [], []
    for _ in range(STEPS):
        actions = np.asarray(episodes.expert_action(), dtype=float)
        actions[:, :3] += scale * rng.uniform(-1.0, 1.0, actions[:, :3].shape)
        taken.append(np.clip(actions, -1.0, 1.0))
        episodes.step(worlds.arrays.floats(taken[-1]))
        held.append(np.array(worlds.grasp.held) if batch.engine == FUSED else _holds(worlds.state))
        objects.append(np.array(worlds.state.object_position[:, 0]))
    return list(np.array(taken).transpose(1, 0, 2)), np.array(held), np.array(objects)


def _compare_grasps(held: Array, objects: FloatArray, recordings: list[_Recording]) -> dict[str, Any]:
    """Return the figures of a `Parity` about the grasps of the engine, see `_noisy_expert`."""
    agreements, at_same_place = [], []
    for number, recording in enumerate(recordings):
        for step in range(HELD, len(held)):
            if held[step - HELD + 1 : step + 1, number].all():
                before = step - HELD
                agreements.append(bool(recording.held[step]))
                at_same_place.append(np.linalg.norm(objects[before, number] - recording.objects[before]) <= SAME_PLACE)
                break
    agreements_same_place = [agreed for agreed, same in zip(agreements, at_same_place, strict=True) if same]
    return {
        "grasps": len(agreements),
        "gate": float(np.mean(agreements)) if agreements else None,
        "grasps_same_place": len(agreements_same_place),
        "gate_same_place": float(np.mean(agreements_same_place)) if agreements_same_place else None,
    }


def success_rate(batch: BatchEnv | MultiTaskBatch, act: Callable[[Any], Array], seeds: range) -> float:
    """Return the share of the environments whose first episode a policy solves in the engine.

    `act` is a function from observations to actions `(N, A)`; `seeds` has a seed for each environment.
    """
    observations = batch.reset(seeds)
    running = np.ones(batch.count, dtype=bool)
    solved = np.zeros(batch.count, dtype=bool)
    while running.any():
        step = batch.step(act(batch.arranged(observations)))
        observations = step.observations
        solved |= running & step.success
        running &= ~(step.terminated | step.truncated)
    return float(solved.mean())


@dataclass(frozen=True)
class Transfer:
    """Success rates of a policy, both in fresh episodes from the beginning of the task."""

    episodes: int
    """Episodes in each engine; those of the engines are not the same."""
    success_engine: float
    success_pybullet: float


def measure_transfer(run: str | Path, episodes: int, seed: int, engine: str = FUSED) -> Transfer:
    """Return the success of a run's policy in Bullet and in an engine with batches; it may have been trained in either.

    Raises:
        ConfigError: The path is not a run, or the engine has no batches or cannot represent its config.
        RunError: The policy cannot be loaded, or its actions are not finite.
    """
    plan = find_plan(directory.find_policy(run)[0])
    config = plan.config.model_copy(update={"engine": engine, "n_envs": 1})
    check_engine(config, plan.evaluated_variants)
    specs = [
        spec.model_copy(update={"engine": engine, "task_params": spec.task_params.model_copy(update={"starts": None})})
        for spec in (env_spec(variant.config, plan.algorithm.dict_observations) for variant in plan.evaluated_variants)
    ]
    batch = make_batch(specs, episodes, codes=plan.evaluation_codes)
    policy = load(run)
    solved = success_rate(batch, lambda observations: policy.predict(observations)[0], range(seed, seed + episodes))
    return Transfer(episodes, solved, api.evaluate(run, episodes=episodes, seed=seed).success_rate)
