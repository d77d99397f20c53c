"""Memory that a run takes, estimated before it starts."""

from __future__ import annotations

from mygym.config import Resolved
from mygym.runs.env_factory import make_vec_env
from mygym.runs.model_factory import build_model
from mygym.runs.planning.buffer_memory import buffer_bytes
from mygym.runs.planning.plan import plan_of

PROCESS = {"pytorch": 450_000_000, "jax": 900_000_000}
"""Framework → bytes of a process with the libraries, a small network and its optimiser."""

CLIENT = 30_000_000
"""Bytes of an environment with a physics client for itself."""


def run_memory(resolved: Resolved) -> int:
    """Return the bytes of memory that a run needs: libraries, environments and the full replay buffer.

    Raises:
        ConfigError: The model cannot be built, or its buffer does not fit into the free memory.
    """
    config = resolved.config
    clients = config.n_envs + 1 if config.engine == "pybullet" else 1
    buffer = 0
    if "buffer_size" in config.algo_params:
        plan = plan_of(resolved)
        env = make_vec_env(plan, only_spaces=True)
        try:
            buffer, _ = buffer_bytes(build_model(plan, env))
        finally:
            env.close()
    return PROCESS.get(config.framework, PROCESS["pytorch"]) * config.workers + CLIENT * clients + buffer
