"""Helper process: all work that needs torch or Bullet, so that the server itself stays small; it ends when idle."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from mygym.config import Resolved
from mygym.config.loading import is_plain
from mygym.errors import MygymError
from mygym.registry.user_files import user_files, user_folders
from mygym.training import directory

Result = TypeVar("Result")

IDLE = 120.0
"""s without work after which the helper process ends."""


def end_with_server() -> None:
    """End this process when the server has ended, also by `kill -9`, which closes no pipe of the pool."""
    server = multiprocessing.parent_process()

    def wait() -> None:
        if server is not None:
            server.join()
            os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


class Helper:
    """Calls functions of this module in a process, which is new after each change of the user's files."""

    def __init__(self) -> None:
        self._pool: Executor | None = None
        self._files: Any = None
        self._used = 0.0
        self._working = 0
        self._lock = threading.Lock()

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return the result of a function, or raise its exception."""
        for last in (False, True):
            pool = self._ready()
            self._working += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)
            except BrokenProcessPool:  # the process was killed, e.g. for memory
                self.close()
                if last:
                    raise
            finally:
                self._working, self._used = self._working - 1, time.monotonic()
        raise AssertionError

    def end_if_idle(self) -> None:
        """End the process if it has had no work for a while."""
        if self._pool and not self._working and time.monotonic() - self._used > IDLE:
            self.close()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._pool:
                self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _ready(self) -> Executor:
        stamps = user_stamps()
        if stamps != self._files:
            self.close()
        with self._lock:
            self._files = stamps
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, context, initializer=end_with_server)
            return self._pool


def user_stamps() -> tuple[Any, ...]:
    """Return a value that changes with the user's files."""
    assets = [path for folder in user_folders() for path in folder.rglob("*.y*ml")]
    return tuple((str(path), path.stat().st_mtime_ns) for path in (*user_files().values(), *assets))


# Functions that the process executes ----------------------------------------------------------------------------------


def examine(config: Mapping[str, Any], refused: Mapping[Any, str]) -> tuple[Resolved | None, list[str]]:
    """Return the values that a run takes, with their origins, and no mistakes; or None and all mistakes of the config.

    The values are those of `mygym train --explain`, which builds environment and model; they also have to meet the
    requirements of the strategies, and `pretrained` is loaded. `refused` has the keys to each value that no check may
    look at, and a message.

    Raises:
        ConfigError: Environment and model cannot be built, or a strategy requires others; `pretrained`, a dataset or a
            teacher does not exist.
    """
    from mygym.planning.plan import RunPlan, plan_or_mistakes
    from mygym.strategies.requirements import checked
    from mygym.training.model_factory import explained
    from mygym.training.pretrained import load_pretrained

    def check(plan: RunPlan, env: Any, model: Any) -> None:
        load_pretrained(plan, model, env)
        checked(plan, env, model)

    plan, mistakes = plan_or_mistakes(config, refused)
    return (None, mistakes) if plan is None else (explained(plan, check), [])


def check_resume(run: Path, steps: int | None) -> None:
    """Check that a run can be resumed, as `mygym train --resume` does.

    Raises:
        ConfigError: The run or the steps do not allow it.
        RunError: The newest checkpoint was not written by a run.
    """
    from mygym.training.session import resume_run

    with directory.lock(run):
        resume_run(run, {} if steps is None else {"steps": steps}, lambda message: None)


def check_policy(run: Path) -> None:
    """Load the policy of a run, as `mygym evaluate` does.

    Raises:
        ConfigError: The config of the run is wrong here.
        RunError: The run has no policy, or a damaged one.
    """
    from mygym.training.loading import load

    load(run)


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of configs."""
    from mygym.config.json_schema import json_schema

    return json_schema()


@cache
def parameters(kind: str, name: str, framework: str | None = None) -> list[dict[str, Any]]:
    """Return a row for each parameter of an algorithm, a strategy or a controller: name, type, default, help."""
    from mygym.config.hyperparameters import controller_rows, hyperparameter_rows, strategy_rows
    from mygym.registry import algorithm

    if kind == "algorithm":
        rows = hyperparameter_rows(algorithm(name, framework))
    else:
        rows = strategy_rows(name) if kind == "strategy" else controller_rows(name)
    return [{**row, "default": row["default"] if is_plain(row["default"]) else str(row["default"])} for row in rows]


def components(kind: str) -> list[dict[str, Any]]:
    """Return a row for each component of a kind, and for each user's file that fails; refuse an unknown kind."""
    from mygym.registry import refresh, registry

    refresh()
    rows = [
        {"name": entry.name, "help": entry.help, "frameworks": list(entry.frameworks), "origin": entry.origin}
        | _parameters(kind, entry.name)
        for entry in registry(kind)
    ]
    broken = registry(kind).broken()
    return rows + [
        {"name": entry.name, "help": "", "frameworks": [], "origin": entry.origin, "error": entry.help}
        for entry in broken
    ]


def helps(kinds: Collection[str]) -> dict[str, dict[str, str]]:
    """Return kind → name of a component → its help."""
    from mygym.registry import refresh, registry

    refresh()
    return {kind: {entry.name: entry.help for entry in registry(kind)} for kind in kinds}


def _parameters(kind: str, name: str) -> dict[str, Any]:
    """Return the parameters of a strategy or a controller, or why they cannot be read."""
    if kind not in ("strategy", "controller"):
        return {}
    try:
        return {"parameters": parameters(kind, name)}
    except MygymError as error:
        return {"error": str(error)}


@cache
def strategy_sections(strategy: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the key of the parameters, and their rows, of each of the strategies that `+` joins."""
    from mygym.planning.strategies import sections

    keys = sections(strategy, {}).items()
    return [(key, parameters("strategy", name)) for name, (key, _) in keys]


def preview(config: Mapping[str, Any]) -> bytes:
    """Return a PNG of the start of an episode: robot, workspace and task of a config."""
    from mygym import api
    from mygym.engines.rendering.thumbnails import as_png

    env: Any = api.make_env(dict(config), render_mode="rgb_array", render_width=480, render_height=320).unwrapped
    with closing(env):
        env.reset(seed=int(config.get("seed", 0)))
        return as_png(env.picture(shadow=True, samples=2))


def about_robot(robot: str) -> tuple[bytes, list[dict[str, str]], dict[str, str]]:
    """Return a PNG that explains a robot, a row for each property that is inferred, and task → why it cannot do it."""
    from dataclasses import asdict

    from mygym.engines.rendering.robot_sheet import robot_sheet
    from mygym.engines.rendering.thumbnails import as_png
    from mygym.envs.supported import supported_tasks
    from mygym.robotics.robot import find_robot, inferred_robot

    inferred = inferred_robot(robot)
    rows = [asdict(finding) for finding in inferred.findings] if inferred else []
    return as_png(robot_sheet(find_robot(robot))), rows, supported_tasks(robot)


def origins(run: str) -> dict[str, str]:
    """Return dotted key → origin of each value of a run's config.

    The config of a run is complete. A value that a run with the same algorithm, framework, strategy, robot, task,
    workspace and engine would have by itself has that origin; the user has set any other value.
    """
    from mygym.config.layers import flatten
    from mygym.planning.plan import make_plan

    keys = ("algo", "framework", "strategy", "robot", "task", "workspace", "engine", "imports")
    values = directory.saved_config(Path(run))
    plain = make_plan({key: values[key] for key in keys if key in values}).resolved
    usual = dict(flatten(plain.values()))
    return {
        key: plain.origins.get(key, "default") if key in usual and usual[key] == value else "set by the user"
        for key, value in flatten(values)
        if key not in keys
    }
