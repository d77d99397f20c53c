"""Start a run: a new run from a config, or a stopped run from its newest checkpoint."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.config import Resolved, config_hash
from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import ConfigError
from mygym.planning.plan import Config, RunPlan, plan_from_python, plan_of
from mygym.planning.resolve import python_values
from mygym.training import directory, files
from mygym.training.result import Result

if TYPE_CHECKING:
    from mygym.training.checkpoints.checkpoints import Checkpoint


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
            yield Start(_measured(plan, notify), started)
            return
        from mygym.training import resuming  # imports torch

        path = directory.find(resume)
        with directory.lock(path):
            rest = resuming.resume(path, _changes(config or {}), notify)
            plan = plan_of(rest.resolved)
            yield Start(
                plan if rest.complete else _measured(plan, notify), started, path, rest.checkpoint, rest.complete
            )


def _measured(plan: RunPlan, notify: Callable[[str], None]) -> RunPlan:
    """Return a plan without `auto`."""
    from mygym.training.env_processes.worker_count import with_worker_count  # imports torch

    return with_worker_count(plan, notify)


_TRAINING = threading.RLock()
"""Held by the thread that trains: torch, numpy and Python have one random generator for all threads."""


@contextlib.contextmanager
def _only_thread() -> Iterator[None]:
    """Refuse a second run in another thread, because both would draw from the same random generators.

    Raises:
        ConfigError: Another thread is training.
    """
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
            seed=config.seed,
            config_hash=digest,
            algo_source=plan.algorithm.origin,
        )


def _changes(config: Config) -> Mapping[str, Any]:
    """Return the explicit values of a config."""
    if isinstance(config, RunPlan | Resolved):
        config = config.resolved.config if isinstance(config, RunPlan) else config.config
    return python_values(config)
