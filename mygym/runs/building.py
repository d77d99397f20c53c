"""Environments and models from a complete config."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mygym.config import Resolved, RunConfig
from mygym.config.hyperparameters import defaults, parameters
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.registry import algorithm
from mygym.runs import devices
from mygym.runs.evaluation import TRAINING, episode_seeds
from mygym.runs.workers import worker_vec_env

HINDSIGHT = {"n_sampled_goal": 4, "goal_selection_strategy": "future"}
"""HER's settings of Andrychowicz et al. (2017)."""

_REFUSALS = (
    *(TypeError, ValueError, LookupError, AttributeError, AssertionError),
    *(ArithmeticError, RuntimeError, MemoryError),
)
"""What a constructor may raise when its arguments make no sense."""

MONITORED = ("is_success", "stages_done")
"""What monitor.csv says of each episode besides return, length and time."""


def make_env(config: RunConfig, **rendering: Any) -> RobotEnv:
    """One environment as `config` describes it; flat observations where the algorithm cannot take dictionaries.

    Args:
        config: A complete config.
        **rendering: `render_mode`, `render_width`, `render_height`, `camera` of `RobotEnv`.
    """
    return RobotEnv(
        task=config.task,
        robot=config.robot,
        workspace=config.workspace,
        control=config.control,
        reward=config.reward,
        goal_env=algorithm(config.algo, config.framework).dict_observations,
        task_params=config.task_params.model_dump(exclude_none=True),
        gamma=float(config.algo_params.get("gamma", 0.99)),
        **{"camera": config.video.camera, **rendering},
    )


def make_vec_env(config: RunConfig) -> Any:
    """The training environments as an SB3 `VecEnv`, monitored, and normalised if asked for."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor, VecNormalize

    makers: list[Callable[[], Any]] = [partial(make_env, config)] * config.n_envs
    env: VecEnv = worker_vec_env(makers) if config.subprocesses else DummyVecEnv(makers)
    env = VecMonitor(env, info_keywords=MONITORED)
    if config.normalize:
        env = VecNormalize(env, norm_reward=False)
    return env


def record_episodes(env: Any, path: Path, started: float) -> None:
    """Let the vector environment append each episode's return, length and time since `started` to the CSV `path`."""
    from stable_baselines3.common.vec_env import VecMonitor

    from mygym.runs.logs import EpisodesCsv

    while not isinstance(env, VecMonitor):
        env = env.venv
    env.t_start = started
    env.results_writer = EpisodesCsv(path, MONITORED, started)  # type: ignore[assignment]


def build_model(config: RunConfig, env: Any) -> Any:
    """The algorithm, constructed exactly from `implemented_combos[algo][framework]`, with `algo_params` on top.

    Raises:
        ConfigError: The class refuses its arguments, or the device is not there.
    """
    entry = algorithm(config.algo, config.framework)
    cls, args, kwargs = entry.combo()
    devices.use(config.framework, config.device, config.threads)
    own = defaults(cls)  # not handed over: a subclass may decide otherwise in its constructor
    for key, value in copy.deepcopy(config.algo_params).items():  # SB3 writes into some of them
        if key in kwargs or key not in own or value != own[key]:
            kwargs[key] = _as_sb3_wants(value)
    if config.her:
        kwargs |= _hindsight(kwargs)
    of_the_run = {"seed": config.seed, "device": config.device, "verbose": 0}
    taken = parameters(cls, include_ours=True)
    kwargs |= {key: value for key, value in of_the_run.items() if key in taken}
    try:
        model = cls(*(env if argument == "env" else argument for argument in args), **kwargs)
    except _REFUSALS as error:
        raise ConfigError(f"algo_params: {cls.__name__} refuses its arguments: {error}") from error
    env.seed(episode_seeds(config.seed, TRAINING, 1)[0])
    return model


def for_acting(config: RunConfig) -> RunConfig:
    """`config` with one environment, no memory for replay, and a device that is there: for a policy that only acts."""
    params = dict(config.algo_params)
    if "buffer_size" in params:
        params |= {"buffer_size": 1, "replay_buffer_kwargs": None}
    elif "n_steps" in params:
        params["n_steps"] = max(params["n_steps"], 2)  # PPO takes no single transition, which several environments gave
    device = devices.or_cpu(config.framework, config.device, config.threads)
    changes = {"n_envs": 1, "subprocesses": False, "her": False, "algo_params": params, "device": device}
    return config.model_copy(update=changes)


def as_built(resolved: Resolved, model: Any) -> Resolved:
    """`resolved` with what the class decided in its constructor, as far as the model's attributes tell.

    None stays: it lets a value follow another, such as the critics' learning rate that of the actor.
    """
    params = dict(resolved.config.algo_params)
    for key, value in params.items():
        built = None if value is None else getattr(model, key, value)
        if resolved.origins.get(f"algo_params.{key}", "").startswith("class") and isinstance(built, bool | int | float):
            params[key] = built
    return Resolved(resolved.config.model_copy(update={"algo_params": params}), resolved.origins)


def _hindsight(kwargs: dict[str, Any]) -> dict[str, Any]:
    from stable_baselines3 import HerReplayBuffer

    return {
        "replay_buffer_class": HerReplayBuffer,
        "replay_buffer_kwargs": {**HINDSIGHT, **(kwargs.get("replay_buffer_kwargs") or {})},
    }


def _as_sb3_wants(value: Any) -> Any:
    """A list such as `[1, "step"]` is a tuple in SB3's arguments; everything else stays."""
    return tuple(value) if isinstance(value, list) else value
