"""Environments and models from a complete config."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import Resolved, RunConfig
from mygym.config.hyperparameters import INNER, NAMED, Schema, name_of, schedules, shown
from mygym.config.plain import is_plain
from mygym.config.schedules import Schedule
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.registry import algorithm, is_environment, user_files
from mygym.registry.signatures import parameters
from mygym.runs import devices, requirements
from mygym.runs.evaluation import TRAINING, episode_seeds
from mygym.runs.strategies import strategies_of
from mygym.runs.variants import Variant, codes, judged, variants
from mygym.runs.worker_vec_env import worker_vec_env

_REFUSALS = (
    *(TypeError, ValueError, LookupError, AttributeError, AssertionError),
    *(ArithmeticError, RuntimeError, MemoryError),
)
"""What a constructor may raise when its arguments make no sense."""

MONITORED = ("is_success", "stages_done")
"""What monitor.csv says of each episode besides return, length and time."""


def make_env(config: RunConfig, **rendering: Any) -> AnyEnv:
    """One environment to judge in, as `config` describes it; flat observations for algorithms without dictionaries.

    Args:
        config: A complete config.
        **rendering: `render_mode`, `render_width`, `render_height`, `camera` of `RobotEnv`.
    """
    played = judged(config)
    return _make_played(played, _takes_dictionaries(config), codes(config, played), **rendering)


def _takes_dictionaries(config: RunConfig) -> bool:
    return algorithm(config.algo, config.framework).dict_observations


def _make_played(
    variants: Sequence[Variant], goal_env: bool, codes: NDArray[np.float32] | None, **rendering: Any
) -> AnyEnv:
    """In any process: a worker may not know algorithm and strategy, which a notebook may have registered."""
    user_files.import_modules(variants[0].config.imports)  # done already in the main process, by whoever said --import
    said = [
        {**_env_arguments(one.config, goal_env), "camera": one.config.video.camera, **rendering} for one in variants
    ]
    return MultiTaskEnv(said, [one.label for one in variants], codes) if len(said) > 1 else RobotEnv(**said[0])


def env_arguments(config: RunConfig) -> dict[str, Any]:
    """Arguments of `RobotEnv` that make the environment of a config which plays a single one."""
    return _env_arguments(config, _takes_dictionaries(config))


def _env_arguments(config: RunConfig, goal_env: bool) -> dict[str, Any]:
    return {
        "task": config.task,
        "robot": config.robot,
        "workspace": config.workspace,
        "control": config.control,
        "reward": config.reward,
        "goal_env": goal_env,
        "observations": config.observations,
        "spaces": config.spaces,
        "task_params": config.task_params.model_dump(exclude_none=True),
        "randomize": config.randomize,
        "gamma": float(config.algo_params.get("gamma", 0.99)),
    }


def make_vec_env(config: RunConfig) -> Any:
    """The training environments as an SB3 `VecEnv`, monitored, and normalised if asked for."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor, VecNormalize

    played = variants(config)
    if len(played) > 1:  # training builds them when they are first played, which is late to find one wrong
        with contextlib.closing(_make_played(played, True, None)) as tried:
            assert isinstance(tried, MultiTaskEnv)
            tried.try_all()
    make = partial(_make_played, played, _takes_dictionaries(config), codes(config, played))
    makers: list[Callable[[], Any]] = [make] * config.n_envs
    env: VecEnv = worker_vec_env(makers) if config.subprocesses else DummyVecEnv(makers)
    env = VecMonitor(env, info_keywords=MONITORED)
    if config.normalize:
        env = VecNormalize(env, norm_reward=False)
    for strategy in strategies_of(config):
        env = strategy.wrap_env(env)
    return env


def record_episodes(env: Any, path: Path, started: float, note: Callable[[Mapping[str, Any]], None]) -> None:
    """Let the vector environment append each episode's return, length and time since `started` to the CSV `path`.

    `note` is called with each episode as well.
    """
    from stable_baselines3.common.vec_env import VecMonitor

    from mygym.runs.logs import EpisodesCsv

    while not isinstance(env, VecMonitor):
        env = env.venv
    env.t_start = started
    env.results_writer = EpisodesCsv(path, MONITORED, started, note)  # type: ignore[assignment]


def build_model(config: RunConfig, env: Any) -> Any:
    """The algorithm, constructed exactly from `implemented_combos[algo][framework]`, with `algo_params` on top.

    Raises:
        ConfigError: The class refuses its arguments, or the device is not there.
    """
    from mygym.runs import schedule_callback

    entry = algorithm(config.algo, config.framework)
    devices.use(config.framework, config.device, config.threads)
    schema = Schema(entry, config.algo_params, bool(config.her))
    policy, kwargs = schema.arguments(config.algo_params)
    scheduled = schedules_of(config)
    kwargs |= schedule_callback.arguments(schema.cls, scheduled, config.steps)
    if config.her:
        kwargs["replay_buffer_class"] = schema.component(("replay_buffer_class",))
        if len(variants(config)) > 1:
            from mygym.runs.multi_task_her import MultiTaskHerReplayBuffer

            kwargs["replay_buffer_class"] = MultiTaskHerReplayBuffer
    of_the_run = {"seed": config.seed, "device": config.device, "verbose": 0}
    taken = parameters(schema.cls)
    kwargs |= {key: value for key, value in of_the_run.items() if key in taken}
    requirements.check(entry, env.observation_space, env.action_space)
    for argument in schema.args:
        if is_environment(argument) and argument != "env":
            requirements.check_same_spaces(argument, env, f"{entry.origin}: {entry.name}")
    policy = _policy_class(schema, policy, config, env)
    args = [env if is_environment(argument) else policy for argument in schema.args]
    try:
        model = schema.cls(*args, **kwargs)
    except _REFUSALS as error:
        raise ConfigError(f"algo_params: {schema.cls.__name__} refuses its arguments: {error}") from error
    schedule_callback.check_held(model, scheduled, config.steps)
    if config.training_params:
        model.training_params = copy.deepcopy(config.training_params)
    env.seed(episode_seeds(config.seed, TRAINING, 1)[0])
    return model


def _policy_class(schema: Schema, policy: Any, config: RunConfig, env: Any) -> Any:
    """`policy`, an alias or a class, unless the strategy has another in its place."""
    cls = schema.component(("policy",))
    chosen = cls
    for strategy in strategies_of(config):
        strategy.training_env = env
        chosen = strategy.policy_class(chosen)
    return policy if chosen is cls else chosen


def loadable(config: RunConfig) -> Any:
    """The algorithm's class for its `load`, by which SB3 constructs it without what its constructor requires."""
    schema = Schema(algorithm(config.algo, config.framework), config.algo_params, bool(config.her))
    cls, kwargs = schema.cls, schema.arguments(config.algo_params)[1]
    required = {name: kwargs[name] for name, one in schema.known.items() if one.required and name in kwargs}

    def construct(self: Any, *args: Any, **given: Any) -> None:
        cls.__init__(self, *args, **{**required, **given})  # type: ignore[misc]

    return type(cls.__name__, (cls,), {"__init__": construct, "__doc__": cls.__doc__}) if required else cls


def schedules_of(config: RunConfig) -> dict[str, Schedule]:
    """What changes while the algorithm trains, by name of the hyperparameter."""
    cls = algorithm(config.algo, config.framework).combo()[0]
    return schedules(cls, config.algo_params, config.steps)


def for_acting(config: RunConfig) -> RunConfig:
    """`config` with one environment, no memory for replay, and a device that is there: for a policy that only acts."""
    params = dict(config.algo_params)
    if "buffer_size" in params:
        params |= {
            key: value for key, value in {"buffer_size": 1, "replay_buffer_kwargs": None}.items() if key in params
        }
    elif "n_steps" in params:
        params["n_steps"] *= config.n_envs  # rollouts of the same size: PPO has something to say of smaller ones
    device = devices.or_cpu(config.framework, config.device, config.threads)
    changes = {"n_envs": 1, "subprocesses": False, "her": False, "algo_params": params, "device": device}
    return config.model_copy(update=changes)


def as_built(resolved: Resolved, model: Any) -> Resolved:
    """`resolved` with what the classes decided in their constructors, as far as attributes tell.

    An algorithm's None stays: it lets a value follow another, such as the critics' learning rate that of the actor.
    """
    policy = getattr(model, "policy", None)
    builders = {(): model, ("policy_kwargs",): policy}
    for section in ("optimizer_kwargs", "features_extractor_kwargs"):
        builders["policy_kwargs", section] = getattr(policy, section, None)

    def built(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        builder = builders.get(path)
        found: dict[str, Any] = {}
        hidden: set[str] = set()
        for name, value in values.items():
            decided = builder.get(name, value) if isinstance(builder, Mapping) else getattr(builder, name, value)
            by_class = resolved.origins.get(".".join(("algo_params", *path, name)), "").startswith("class")
            if isinstance(value, Mapping) and value:
                found[name] = built(value, (*path, name))
            elif value is None and not path:
                found[name] = None
            elif by_class and name in NAMED and decided is not None and shown(decided) != value:
                hidden.add(name)  # a constructor has chosen it in spite of its signature
            else:
                found[name] = decided if by_class and decided is not None and is_plain(decided) else value
        for name in hidden:
            chosen = getattr(builder, name)
            sections = [section for section in values if section in INNER and INNER[section].of == name]
            if known := name_of(chosen):
                found[name] = known
                found |= {section: given(chosen, section, builder) for section in sections}
            else:  # no config could name it: it is left to the class
                found = {key: value for key, value in found.items() if key not in sections}
        return found

    def given(chosen: Any, section: str, builder: Any) -> dict[str, Any]:
        arguments = getattr(builder, section, None) or {}
        known = parameters(chosen, leave_out=INNER[section].taken).values()
        return {one.name: shown(arguments.get(one.name, one.default)) for one in known if is_plain(one.default)}

    return resolved.with_algo_params(built(resolved.config.algo_params, ()))


def explained(resolved: Resolved) -> Resolved:
    """`as_built` of a run that shall not begin: everything is built, and nothing written."""
    config = resolved.config.model_copy(update={"subprocesses": False})
    env = make_vec_env(config)
    try:
        return as_built(resolved, build_model(config, env))
    finally:
        env.close()
