"""Start a run: a new run from a config, or a stopped run from its newest checkpoint."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

from mygym.config import Resolved, config_hash
from mygym.config.layers import flatten
from mygym.config.schema import renamed
from mygym.engines.arrays import cores
from mygym.engines.engine import has_batches, judge_of
from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import ConfigError, MygymError, RunError, bad_value
from mygym.planning.plan import Config, RunPlan, plan_from_python, plan_of
from mygym.planning.resolve import python_values, resolve_config
from mygym.training import directory, env_factory, files, logs, model_factory
from mygym.training.checkpoints.checkpoints import Checkpoint, Checkpoints
from mygym.training.env_processes import process_vec_env
from mygym.training.loading import read_config
from mygym.training.result import Result


@dataclass(frozen=True)
class Start:
    """Start of a run: its plan, and the checkpoint of a resumed run."""

    plan: RunPlan
    started: float
    """`time.perf_counter()` when this process began."""
    path: Path | None = None
    """Directory of a resumed run, locked; None: a new run."""
    checkpoint: Checkpoint | None = None
    """Checkpoint of a resumed run; None: step 0."""
    complete: Result | None = None
    """Result of a resumed run that has nothing left to do."""


@contextlib.contextmanager
def start_run(config: Config | None, resume: str | Path | None, notify: Callable[[str], None]) -> Iterator[Start]:
    """Plan a new run, or lock a stopped run and plan its remaining part.

    Args:
        config: Config of a new run; with `resume`, the values to change.
        resume: Path of a stopped run.
        notify: Called with messages for the user.

    Raises:
        ConfigError: The config is wrong, the run cannot be resumed, or another thread trains; nothing has been written.
    """
    started = time.perf_counter()
    with _only_thread():
        if resume is None:
            plan = plan_from_python(config or {})
            files.check_writable(plan.config.logdir)
            yield Start(with_process_count(plan, notify), started)
            return

        path = directory.find(resume)
        with directory.lock(path):
            resolved, checkpoint, complete = resume_run(path, _changes(config or {}), notify)
            plan = plan_of(resolved)
            if not complete:
                plan = with_process_count(plan, notify)
            yield Start(plan, started, path, checkpoint, complete)


_TRAINING = threading.RLock()
"""Held by the thread that trains: torch, numpy and Python have one random generator for all threads."""


@contextlib.contextmanager
def _only_thread() -> Iterator[None]:
    """Refuse a second run in another thread, because both would draw from the same random generators."""
    if not _TRAINING.acquire(blocking=False):
        raise ConfigError(
            "train: another thread of this process is training, and both would draw from the same random generators; "
            "allowed: a process for each run, e.g. by multiprocessing or concurrent.futures.ProcessPoolExecutor"
        )
    try:
        yield
    finally:
        _TRAINING.release()


@contextlib.contextmanager
def open_result(start: Start, plan: RunPlan, model: Any, env: AnyEnv) -> Iterator[Result]:
    """Create and lock the directory of a new run; yield the empty result, whose `path` is the run directory.

    Args:
        start: Where the run starts.
        plan: The plan, as built.
        model: The algorithm.
        env: An environment of the run.
    """
    from mygym.training.runner import setting_name

    config, robot, digest = plan.config, env.robot.name, config_hash(plan.resolved.values())
    with contextlib.ExitStack() as stack:
        path = start.path
        if path is None:
            setting = setting_name(type(model), config.algo_params, config.training_params, digest)
            path = directory.create(config.logdir, plan.task_label, robot, config.algo, setting, config.seed)
            stack.enter_context(directory.lock(path))
        yield Result(
            path=path,
            algo=config.algo,
            framework=config.framework,
            robot=robot,
            task=plan.task_label,
            workspace=str(config.workspace),
            engine=config.engine,
            judge=judge_of(config.engine),
            seed=config.seed,
            config_hash=digest,
            algo_source=plan.algorithm.origin,
        )


def _changes(config: Config) -> Mapping[str, Any]:
    """Return the explicit values of a config."""
    if isinstance(config, RunPlan | Resolved):
        config = config.resolved.config if isinstance(config, RunPlan) else config.config
    return python_values(config)


MAY_CHANGE = ("steps", "stop_at_success", "eval", "checkpoint", "video", "tensorboard", "env_processes")
"""Config keys that do not affect the training so far."""

_IRRELEVANT = ("logdir", "strict")
"""Config keys without an effect on the training; `logdir` may not change, because a run stays in its directory."""


def resume_run(
    run: Path, changes: Mapping[str, Any], notify: Callable[[str], None]
) -> tuple[Resolved, Checkpoint | None, Result | None]:
    """Return the remaining part of a run that this process has locked.

    Args:
        run: The run directory.
        changes: Config values that differ from now on.
        notify: Called with messages for the user.

    Returns:
        The config; the newest checkpoint, or None to start again from step 0, with the same results; and the result, if
        the run is complete.

    Raises:
        ConfigError: A change would invalidate the training so far, or the run cannot be resumed on this machine.
        RunError: The newest checkpoint was not written by a run, or a folder is in the place of a file.
    """
    logs.check_files(run)
    directory.remove_partial_files(run)
    before = resolve_config(read_config(run))
    model_factory.use(before.config.framework, before.config.device, before.config.threads)  # before arrays are read
    result = Result.read(run)
    if result is not None and result.status == "diverged":
        why = "has diverged, and would diverge again"
        raise ConfigError(bad_value("resume", str(run), "a new run with another seed or other algo_params", why))
    checkpoint = Checkpoints(run, keep=1).newest(notify)
    trained_with = _config_at(checkpoint) if checkpoint else before.values()
    resolved = _changed(before, changes, checkpoint)
    steps = resolved.config.steps
    _refuse_changes(trained_with, resolved.values())
    if resolved.config.logdir != before.config.logdir:
        why = "cannot change: a resumed run stays in its directory"
        raise ConfigError(bad_value("logdir", resolved.config.logdir, repr(before.config.logdir), why))
    if checkpoint is None:
        notify("the run has no checkpoint yet: it starts again from step 0, with the same results")
        return resolved, None, None
    wants_more = steps > trained_with["steps"] or resolved.config.stop_at_success != trained_with["stop_at_success"]
    if checkpoint.finished and wants_more and checkpoint.steps < steps:
        notify(f"learning continues from {checkpoint.steps:,} to {steps:,} steps, where schedules now end")
        return resolved, replace(checkpoint, finished=False), None
    if checkpoint.finished:
        if steps != trained_with["steps"]:
            longest = max(checkpoint.steps, trained_with["steps"])
            why = "is no longer than the run, which is complete"
            raise ConfigError(bad_value("steps", steps, f"{trained_with['steps']}, or more than {longest}", why))
        done = result is not None and result.status == "done" and resolved.values() == before.values()
        whole = all((run / name).is_file() for name in (directory.MODEL, directory.POLICY))
        if done and whole:
            notify("the run is complete; --steps N makes it longer")
        return resolved, checkpoint, result if done and whole else None
    if checkpoint.steps >= steps:
        raise ConfigError(bad_value("steps", steps, f"more than {checkpoint.steps}", "has been passed already"))
    notify(f"continues from {checkpoint.steps:,} of {steps:,} steps")
    return resolved, checkpoint, None


def _config_at(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the config of the run at a checkpoint.

    Raises:
        RunError: The checkpoint is complete, but its content is not the state of a run.
    """
    replay = checkpoint.replay
    try:
        seconds = checkpoint.state["seconds"]
        numbers = [
            seconds["run"],
            seconds["learning"],
            *((replay["size"], replay["total"]) if replay is not None else ()),
        ]
        if all(isinstance(number, int | float) for number in numbers):
            return resolve_config(renamed(checkpoint.state["config"], notify=False)).values()
        why = "times or sizes are not numbers"
    except (ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
        why = f"{type(error).__name__}: {error}"
    raise RunError(f"{checkpoint.path}: is not the checkpoint of a run: {why}")


def _changed(before: Resolved, changes: Mapping[str, Any], checkpoint: Checkpoint | None) -> Resolved:
    """Return the config with `changes`; a replay buffer with the size of the run's steps grows with the steps."""
    values = before.values()
    try:
        resolved = resolve_config(values, changes)
    except ConfigError:  # e.g. the hyperparameters of the run do not fit another algorithm
        named = [key for key in ("algo", "framework", "strategy", "robot", "task") if key in changes]
        _refuse_changes({key: values[key] for key in named}, {key: changes[key] for key in named})
        raise
    if resolved.config.steps <= before.config.steps or "buffer_size" not in values["algo_params"]:
        return resolved
    without_size = {key: value for key, value in values["algo_params"].items() if key != "buffer_size"}
    overwritten = (
        checkpoint is not None and checkpoint.replay and checkpoint.replay["total"] > checkpoint.replay["size"]
    )
    if overwritten or resolve_config({**values, "algo_params": without_size}).values() != values:
        return resolved
    return resolve_config({**values, "algo_params": without_size}, changes)


def _refuse_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a config with which the training so far would have been different."""
    old, new = dict(flatten(before)), dict(flatten(after))
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        grown = key == "algo_params.buffer_size" and after["steps"] > before["steps"] and (now or 0) > (was or 0)
        if was != now and not grown and key.partition(".")[0] not in (*MAY_CHANGE, *_IRRELEVANT):
            why = "is not the value with which the run was trained so far"
            raise ConfigError(bad_value(key, now, f"{was!r}; of a resumed run {', '.join(MAY_CHANGE)} may change", why))


MIN_MEASURED_STEPS = 50_000
"""Env steps of a run below which their start and the measurement would take longer than the processes save."""

MIN_SPEEDUP = 1.1
"""Factor by which processes must be faster than a single process: each takes memory, and delays the start."""

PATIENCE = 2.5
"""Time limit for the start of the processes, s: a machine that takes longer has no core to spare."""

SAMPLE = 6
"""Largest number of environments of each process in the measurement."""

SECONDS = 0.6
"""Duration of a measurement, s."""


def with_process_count(plan: RunPlan, notify: Callable[[str], None]) -> RunPlan:
    """Return a plan with a number in place of `env_processes: auto`; the results of the run do not depend on it."""
    config = plan.config
    if config.env_processes != "auto":
        return plan
    count, reason = _choice(plan)
    if reason:
        notify(f"env_processes: {count}: {reason}")
    config = config.model_copy(update={"env_processes": count})
    return plan.with_resolved(replace(plan.resolved, config=config))


def _choice(plan: RunPlan) -> tuple[int, str]:
    """Return the number of processes of environments and the reason, empty where no measurement is worth its time."""
    config = plan.config
    available = cores()
    if config.overlap:
        count = min(max(available - config.threads, 0), config.n_envs)
        return count, f"{config.threads} of {available} cores for the gradient steps"
    processes = min(available, config.n_envs)
    if has_batches(config.engine) or config.learners > 1 or processes < 2 or config.steps < MIN_MEASURED_STEPS:
        return 0, ""
    envs = min(SAMPLE, config.n_envs // processes)
    makers = env_factory.env_makers(plan, processes * envs)
    alone = _steps_per_second(DummyVecEnv(list(makers[:envs])))  # raises if an environment cannot be built
    try:
        in_processes = _steps_per_second(process_vec_env(makers, processes, PATIENCE))
    except MygymError as error:
        return 0, f"in this process, because {error}"
    reason = f"{in_processes:,.0f} env steps/s in {processes} processes, {alone:,.0f} in this process"
    return processes if in_processes > MIN_SPEEDUP * alone else 0, reason


def _steps_per_second(envs: Any) -> float:
    """Return env steps per second of random actions; closes the environments."""
    with contextlib.closing(envs):
        envs.action_space.seed(0)
        envs.seed(0)
        envs.reset()
        actions = np.array([envs.action_space.sample() for _ in range(envs.num_envs)])
        envs.step(actions)
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + SECONDS:
            envs.step(actions)
            steps += envs.num_envs
        return steps / (time.perf_counter() - begin)
