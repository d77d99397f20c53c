"""The environments of a run or of a data set for LeRobot's EnvHub: an `env.py`, which a hub repository carries."""

from __future__ import annotations

import pprint
import runpy
from collections.abc import Iterator
from pathlib import Path

from mygym.config.layers import flatten
from mygym.demonstrations import lerobot
from mygym.demonstrations.storage import recorded_values
from mygym.errors import ConfigError, bad_value
from mygym.planning.derived import short_env_arguments
from mygym.planning.plan import RunPlan, make_plan
from mygym.registry import registry
from mygym.tasks.task import TRAINING_PARAMS
from mygym.training import directory
from mygym.training.files import write
from mygym.training.loading import plan_of_run

NAME = "env.py"
"""File that LeRobot looks for in a repository."""

TEMPLATE = '''"""Environments of mygym for LeRobot's EnvHub. They need an installed mygym.

    from lerobot.envs.factory import make_env

    environments = make_env("USER/REPOSITORY", n_envs=2, trust_remote_code=True)["mygym"]
"""

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import mygym  # noqa: F401  (registers the ids)
from mygym.wrappers import LeRobot

TASKS = __TASKS__
"""Arguments of `mygym/Gym-v0` for each task."""


def make_env(n_envs=1, use_async_envs=False, cfg=None):
    """Return the suite `mygym`: number of a task -> vector environment.

    Args:
        n_envs: Environments in each vector environment.
        use_async_envs: Whether each environment has a process.
        cfg: LeRobot's config of the environment, which changes nothing: `TASKS` has all values.
    """

    def vector_env(arguments):
        def make():
            return LeRobot(gymnasium.make("mygym/Gym-v0", render_mode="rgb_array", **arguments))

        kind = AsyncVectorEnv if use_async_envs else SyncVectorEnv
        return kind([make] * n_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    return {"mygym": {number: vector_env(arguments) for number, arguments in enumerate(TASKS)}}
'''

COMPONENTS = ("robot", "workspace", "reward", "task")
"""Arguments that name a component."""


def plan_of_source(source: str | Path) -> RunPlan:
    """Return the plan of a run, or of the recording of a data set of `mygym demos`, in any format.

    Raises:
        ConfigError: The path is neither.
    """
    path = Path(source)
    values = {} if directory.is_run(path) else recorded_values(path) or lerobot.recorded_values(path)
    return make_plan(values) if values else plan_of_run(directory.find_policy(path)[0])


def env_file(plan: RunPlan) -> str:
    """Return the content of an `env.py` with the environments of the plan's evaluations.

    Its episodes are those of the tasks themselves: starts for training are left out.

    Raises:
        ConfigError: The actions are discrete, or a value is a path of this computer.
    """
    if plan.config.actions.discrete is not None:
        allowed = "continuous actions, those of LeRobot's policies"
        raise ConfigError(bad_value("actions.discrete", plan.config.actions.discrete, allowed))
    tasks = []
    for variant in plan.evaluated_variants:
        video = variant.config.video
        arguments = short_env_arguments(variant.config)
        for key in TRAINING_PARAMS:
            arguments.get("task_params", {}).pop(key, None)
        arguments.pop("critic_observations", None)
        for key, value in flatten(arguments):
            if isinstance(value, str) and Path(value).is_absolute():
                raise ConfigError(bad_value(key, value, "a name", "is a file of this computer, which others lack"))
        size = {"render_width": video.width, "render_height": video.height, "camera": video.camera}
        tasks.append(arguments | size)
    return TEMPLATE.replace("__TASKS__", pprint.pformat(tasks, width=100, sort_dicts=False))


def write_env(plan: RunPlan, path: Path) -> list[str]:
    """Write an `env.py` with the environments of a plan, and build each of them.

    Return a line for each component that is not part of mygym, which the users of the file need.

    Raises:
        ConfigError: LeRobot cannot use the environments; nothing is written.
    """
    text = env_file(plan)

    def save(temporary: Path) -> None:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        for env in runpy.run_path(str(temporary))["make_env"]()["mygym"].values():
            env.close()

    write(path, save)
    return list(_of_users(plan))


def _of_users(plan: RunPlan) -> Iterator[str]:
    names = {(kind, getattr(variant.config, kind)) for variant in plan.evaluated_variants for kind in COMPONENTS}
    for kind, name in sorted(names, key=str):
        if isinstance(name, str) and name in registry(kind) and not (entry := registry(kind).get(name)).built_in:
            yield f"{kind} {name} is of {entry.origin}: whoever loads the file needs it"
