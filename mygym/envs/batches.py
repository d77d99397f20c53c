"""Batches of episodes in every engine that has them: what no batch can have, and how one is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mygym.engines.arrays import Arrays
from mygym.engines.engine import FUSED, engines_with_batches, has_batches
from mygym.engines.world import BatchWorlds
from mygym.envs.env_spec import EnvSpec
from mygym.envs.episodes import BatchEpisodes
from mygym.envs.fused_worlds import check_supported, fused_worlds
from mygym.envs.randomization import BatchRandomization, draw_table
from mygym.envs.robot_env import RobotEnv
from mygym.envs.starts import POOL, StartTable, TableStarts, make_pools
from mygym.envs.task_world import TaskWorld, apply_task_params
from mygym.errors import ConfigError, bad_value
from mygym.robotics.controllers import find_controller
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import camera_components
from mygym.tasks.task import Task

POOL_OF_CONTACTS = 128
"""Size of `make_pools` for engines that solve contacts, in which the expert's episodes take seconds."""


def engine_of(spec: EnvSpec) -> str:
    """Return the engine of a batch of an environment: that of the description, or `fused` where it names none."""
    return spec.engine if "engine" in spec.model_fields_set else FUSED


def is_batch(spec: EnvSpec) -> bool:
    """Return whether training steps such environments as one batch; otherwise each has a world of its own.

    Engines with batches, except `fused`, also have single worlds, for environments that no batch can represent.

    Raises:
        ConfigError: An invalid value.
        RegistryError: Unknown name.
    """
    return has_batches(spec.engine) and (spec.engine == FUSED or _obstacle(spec, spec.engine) is None)


def check_batch(spec: EnvSpec, engine: str) -> None:
    """Refuse an environment that no batch, or no batch of an engine, can have, before anything is built.

    Raises:
        ConfigError: The message names the key, the value, and what is allowed.
        RegistryError: Unknown name.
    """
    if not has_batches(engine):
        why = "has no batches: each of its worlds is simulated for itself"
        raise ConfigError(bad_value("engine", engine, engines_with_batches(), why))
    if obstacle := _obstacle(spec, engine):
        raise ConfigError(obstacle)
    if engine == FUSED:
        check_supported(spec)


def _obstacle(spec: EnvSpec, engine: str) -> str | None:
    """Return a message about the first value that batches of an engine cannot represent."""

    def refused(key: str, value: Any, allowed: str, why: str) -> str:
        return bad_value(key, value, allowed, f"{why}, which batches of engine {engine} cannot represent")

    if spec.render_mode is not None:
        return refused("render_mode", spec.render_mode, "None", "draws pictures")
    task, *_ = apply_task_params(find_task(spec.task), spec.task_params)
    control = find_controller(spec.control).config
    if control.action_repeat != 1:  # the worlds of a batch end their episodes at different steps of an action
        return refused("control.action_repeat", control.action_repeat, "1", "repeats actions")
    if seen := camera_components(spec.observations or ()):
        return refused("observations", seen[0], "components without a camera", "needs images")
    for key in ("detector", "encoder"):
        if file := getattr(spec.image_params, key):
            return refused(f"image_params.{key}", file, "null", "needs images")
    same = "the same objects in all episodes"
    for role in task.roles:
        if len(task.assets(role)) > 1:
            return refused("task_params.objects", task.asset(role), same, "differs between episodes")
    for each in task.distractors:
        if len(set(each.counts)) > 1 or len(each.objects) > 1:
            return refused("task_params.distractors", each.object, same, "differs between episodes")
    return None


def episode_maker(
    env: RobotEnv, engine: str, arrays: Arrays, randomize: Mapping[str, Any]
) -> Callable[[int], BatchEpisodes]:
    """Return a function of `N` that returns a batch of the episodes of an environment.

    Args:
        env: The environment without randomization, in the engine, or in Bullet for `fused`; its world needs a reset
            afterwards.
        engine: Name of the engine.
        arrays: Array library of the engine `fused`; the others have their own.
        randomize: The config's `randomize`.

    Raises:
        ConfigError: The engine cannot represent a value.
    """
    task, bounds = env.task, env.workspace.bounds
    worlds_of: Callable[[int], BatchWorlds]
    worlds_of, pool = (fused_worlds(env, arrays), POOL) if engine == FUSED else (env.world.batch, POOL_OF_CONTACTS)
    table = StartTable.draw(TaskWorld(task, env.world, env.areas))
    one = worlds_of(1)
    joints = sum(len(arm.joints) for arm in env.robot.arms)
    randomized = draw_table(randomize, len(env.world.objects), joints, one.randomized_fields, engine)

    def batch(changed: Task, number: int) -> BatchEpisodes:
        return BatchEpisodes(changed, worlds_of(number), TableStarts(table, one.arrays), bounds)

    pools = make_pools(batch, task, find_task(env.env_spec.task).horizon, pool)

    def make(count: int) -> BatchEpisodes:
        worlds = worlds_of(count)
        disturbances = BatchRandomization(randomized, worlds) if randomized else None
        return BatchEpisodes(task, worlds, TableStarts(table, one.arrays, disturbances, pools), bounds, disturbances)

    return make
