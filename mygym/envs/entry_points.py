"""Entry points of the Gymnasium ids: one environment, and several in a vector."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mygym.config.schema import DEFAULT_ENGINE
from mygym.engines.engine import has_batches
from mygym.envs.arguments import checked_count
from mygym.envs.batch_vector_env import BatchVectorEnv
from mygym.envs.batches import is_batch
from mygym.envs.env_spec import EnvSpec
from mygym.envs.ids import ANY_TASK, env_id
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value


def make_env(**arguments: Any) -> RobotEnv:
    """Return an environment whose horizon is the `max_episode_steps` of `gymnasium.make`, or else that of its task.

    Gymnasium passes `max_episode_steps` to no entry point: it truncates at that step itself, too late if the horizon
    comes before. A wrapper in the spec could ask for it, but Gymnasium accepts no vector environment beside such
    wrappers. So the function looks at the arguments of its caller.

    Args:
        **arguments: Arguments of `RobotEnv`.

    Raises:
        ConfigError: A value is invalid.
        RegistryError: Unknown name.
    """
    env, caller = RobotEnv(**arguments), sys._getframe(1)
    if caller.f_code is gymnasium.make.__code__:
        asked, of = (caller.f_locals[name] for name in ("max_episode_steps", "id"))
        steps = getattr(of, "max_episode_steps", None) if asked is None else asked
        if steps not in (None, -1):  # -1: no limit of Gymnasium's
            try:
                env.set_horizon(steps)
            except ConfigError:
                env.close()
                raise
    return env


NOT_OF_ENV = ("max_episode_steps", "disable_env_checker", "output", "device")
"""Arguments of Gymnasium and of `BatchVectorEnv` that `RobotEnv` does not have."""

vars(make_env)["metadata"] = RobotEnv.metadata  # Gymnasium reads the render modes before it calls


def make_vector_env(num_envs: int = 1, **arguments: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Return a `BatchVectorEnv` of what the engine has as a batch, and otherwise a `SyncVectorEnv`.

    Environments that no batch of their engine can represent, e.g. with images, have worlds of their own; they reset in
    the step that ends an episode, as batches do. Those of engines without batches reset as `gymnasium.make_vec` lets
    them: in the next step.

    Args:
        num_envs: `N`.
        **arguments: Arguments of `BatchVectorEnv`, or of `gymnasium.make` and `RobotEnv`; with `max_episode_steps`.

    Raises:
        ConfigError: A value is invalid.
        RegistryError: Unknown name.
    """
    batches = has_batches(arguments.get("engine") or DEFAULT_ENGINE)
    spec = EnvSpec.of({key: value for key, value in arguments.items() if key not in NOT_OF_ENV}) if batches else None
    if spec is not None and (spec.render_mode is not None or is_batch(spec)):  # a batch refuses to draw
        steps = arguments.pop("max_episode_steps", None)
        arguments.pop("disable_env_checker", None)
        if steps not in (None, -1):
            arguments["task_params"] = {**(arguments.get("task_params") or {}), "horizon": steps}
        return BatchVectorEnv(num_envs, **arguments)
    for key, only in (("output", "numpy"), ("device", "cpu")):
        if (value := arguments.pop(key, only)) != only:
            why = "is for batches, and each of these environments has a world of its own"
            raise ConfigError(bad_value(key, value, [only], why))
    name, task = ANY_TASK, arguments.get("task")
    if isinstance(task, str) and env_id(task) in gymnasium.registry:
        name = env_id(task)
        del arguments["task"]
    count = checked_count(num_envs, "num_envs", None)
    autoreset = AutoresetMode.SAME_STEP if batches else AutoresetMode.NEXT_STEP
    return SyncVectorEnv([partial(gymnasium.make, name, **arguments) for _ in range(count)], autoreset_mode=autoreset)
