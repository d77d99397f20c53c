"""Teachers of a config: absolute paths, assignment to tasks, and checks that runs fit the student."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value
from mygym.runs import devices, directory, env_factory
from mygym.runs.checkpoints.random_state import load_random_state, random_state
from mygym.runs.loading import config_of_run, load
from mygym.runs.planning.engines import env_arguments
from mygym.runs.planning.plan import Plannable, plan_of
from mygym.runs.planning.variants import Variant
from mygym.strategies.teachers import Oracle, Teacher, Teachers, Trained

KEY = "strategy_params.teacher"

ORACLE = "oracle"
"""Name of the scripted expert."""

TeacherConfig = str | list[str] | dict[str, Any]
"""One teacher; several; or either of these for each task label."""


def absolute(teacher: TeacherConfig, key: str = KEY) -> Any:
    """Return the config with absolute paths, because a run can be resumed from any folder.

    Args:
        teacher: Value of the config.
        key: Its key, for messages.

    Raises:
        ConfigError: A teacher is not text.
    """
    if isinstance(teacher, Mapping):
        return {label: absolute(each, f"{key}.{label}") for label, each in teacher.items()}
    if isinstance(teacher, list):
        return [absolute(each, f"{key}.{number}") for number, each in enumerate(teacher)]
    if not isinstance(teacher, str) or not teacher:
        raise ConfigError(bad_value(key, teacher, f"{ORACLE}, or the path of a run", "names no teacher"))
    return teacher if teacher == ORACLE else str(Path(teacher).expanduser().absolute())


def read_teachers(teacher: TeacherConfig, run: Plannable, env: Any) -> Teachers:
    """Load the teachers of a config.

    Args:
        teacher: Value of the config.
        run: Plan of the student's run.
        env: Training environments of the student.

    Raises:
        ConfigError: A run does not exist, or does not fit the student's environments.
        RunError: A policy cannot be loaded.
    """
    plan = plan_of(run)
    config, tasks = plan.config, plan.variants
    names_of = _names_by_variant(teacher, [variant.label for variant in tasks])
    teachers: dict[str, Teacher] = {ORACLE: Oracle()}
    random = random_state()  # loading builds networks and sets seeds, which must not change the student's training
    try:
        for name in dict.fromkeys(name for names in names_of for name in names if name != ORACLE):
            taught = [variant for variant, names in zip(tasks, names_of, strict=True) if name in names]
            teachers[name] = _trained(name, taught)
    finally:
        load_random_state(random)
        devices.use(config.framework, config.device, config.threads)
    return Teachers(env, [[teachers[name] for name in names] for names in names_of])


def _names_by_variant(teacher: TeacherConfig, labels: Sequence[str]) -> list[list[str]]:
    """Return the names of the teachers of each variant.

    Raises:
        ConfigError: An unknown label, or a variant without a teacher.
    """
    if not isinstance(teacher, Mapping):
        names = [teacher] if isinstance(teacher, str) else list(teacher)
        if not names:
            raise ConfigError(bad_value(KEY, teacher, f"{ORACLE}, the path of a run, or several", "names no teacher"))
        return [names] * len(labels)
    for label in teacher:
        if label not in labels:
            raise ConfigError(bad_value(f"{KEY}.{label}", teacher[label], labels, "is for a task that is not played"))
    for label in labels:
        if label not in teacher:
            raise ConfigError(bad_value(f"{KEY}.{label}", None, f"{ORACLE}, or the path of a run", "is missing"))
    return [_names_by_variant(teacher[label], [label])[0] for label in labels]


def _trained(name: str, taught: Sequence[Variant]) -> Trained:
    """Load the teacher of a path, for the variants `taught`.

    Raises:
        ConfigError: The path is not a run, or its policy cannot act in the student's environments.
        RunError: Its policy cannot be loaded.
    """
    config = config_of_run(directory.find_policy(name, KEY)[0])
    if plan_of(config).codes is not None:
        why = "needs a task code in its observations, which the student's environments cannot provide"
        raise ConfigError(bad_value(KEY, name, "a run without identify", why))
    policy = load(name)
    if hasattr(policy.model.policy, "lstm_actor"):
        why = "has a memory, but teachers are queried on single states"
        raise ConfigError(bad_value(KEY, name, "a run of an algorithm without memory, such as ppo", why))
    with contextlib.closing(env_factory.make_env(config)) as teacher_env:
        for variant in taught:
            with contextlib.closing(RobotEnv(**env_arguments(variant.config))) as env:
                if mismatch := _mismatch(teacher_env, env):
                    why, allowed = mismatch
                    raise ConfigError(bad_value(KEY, name, allowed, f"does not fit {variant.label}: it {why}"))
        return Trained(policy, teacher_env.observation_spec)


def _mismatch(teacher: Any, student: RobotEnv) -> tuple[str, str] | None:
    """Return the difference between the teacher's and the student's environment, and allowed values; None if equal."""
    if teacher.control != student.control:
        why = f"uses control {teacher.control}, the student uses {student.control}"
        return why, f"control: {teacher.control}; or a run with control: {student.control}"
    if teacher.action_space != student.action_space:
        sizes = [env.world.action_size for env in (teacher, student)]
        allowed = "a run with the same actions: the same robot, and the same value of spaces"
        return f"has {sizes[0]} actions, the student has {sizes[1]}", allowed
    same = f"a run of the same task on {student.robot.name}, or both with spaces: shared"
    try:
        space = student.observation_space_as(teacher.observation_spec)
    except ConfigError as error:
        return f"needs an observation that the student's environment lacks ({error})", same
    if space != teacher.observation_space:
        return "was trained on observations of another size", same
    return None
