"""Build environments and models from a plan, or from a complete config."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import Resolved, RunConfig
from mygym.config.hyperparameters import Schema
from mygym.config.named_components import INNER, NAMED, name_of, shown
from mygym.config.plain import is_plain
from mygym.config.schedulable import schedules
from mygym.config.schedules import Schedule
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value
from mygym.registry import is_environment, user_files
from mygym.registry.signatures import is_noise, parameters
from mygym.runs import devices, requirements
from mygym.runs.engines import env_arguments
from mygym.runs.evaluation import BATCH, TRAINING, episode_seeds
from mygym.runs.plan import Plannable, RunPlan, plan_of
from mygym.runs.variants import Variant
from mygym.runs.worker_vec_env import worker_vec_env
from mygym.sim.rendering.viewer import check_display

_REFUSALS = (
    *(TypeError, ValueError, LookupError, AttributeError, AssertionError),
    *(ArithmeticError, RuntimeError, MemoryError),
)
"""Exceptions that a constructor may raise for invalid arguments."""

MONITORED = ("is_success", "stages_done", "touched", "saturation")
"""Columns of monitor.csv besides return, length and time."""


def make_env(run: Plannable, **rendering: Any) -> AnyEnv:
    """Return an environment for evaluations, with flat observations if the algorithm does not accept dictionaries.

    Its episodes start at the beginning of the task: `task_params.starts` is for training only.

    Args:
        run: A plan, or a complete config.
        **rendering: `render_mode`, `render_width`, `render_height`, `camera` of `RobotEnv`.
    """
    plan = plan_of(run)
    return _make_env(
        [_from_the_beginning(variant) for variant in plan.judged],
        plan.algorithm.dict_observations,
        plan.judged_codes,
        **rendering,
    )


def _make_env(
    variants: Sequence[Variant], goal_env: bool, codes: NDArray[np.float32] | None, **rendering: Any
) -> AnyEnv:
    """Return an environment that plays the variants.

    It needs no plan: a worker process may lack an algorithm or a strategy that a notebook has registered.
    """
    user_files.import_modules(variants[0].config.imports)  # a worker process has not imported them yet
    arguments = [
        {**env_arguments(variant.config, goal_env), "camera": variant.config.video.camera, **rendering}
        for variant in variants
    ]
    if len(arguments) == 1:
        return RobotEnv(**arguments[0])
    return MultiTaskEnv(arguments, [variant.label for variant in variants], codes)


def _from_the_beginning(variant: Variant) -> Variant:
    """Return a variant without `task_params.starts`."""
    task_params = variant.config.task_params.model_copy(update={"starts": None})
    return replace(variant, config=variant.config.model_copy(update={"task_params": task_params}))


def make_eval_envs(run: Plannable, stack: ExitStack, episodes: int | None = None) -> list[AnyEnv]:
    """Return environments for evaluations and videos; a camera costs nothing until it is used.

    Args:
        run: A plan, or a complete config.
        stack: Closes the environments.
        episodes: Number of episodes to play; None: the number of the run's evaluations.
    """
    plan = plan_of(run)
    size = {"render_width": plan.config.video.width, "render_height": plan.config.video.height}
    envs = []
    for _ in range(min(BATCH, plan.config.eval.episodes if episodes is None else episodes)):
        envs.append(make_env(plan, render_mode="rgb_array", **size))
        stack.callback(envs[-1].close)
    return envs


def make_window_env(run: Plannable, stack: ExitStack) -> AnyEnv:
    """Return an environment for evaluations in a window.

    Args:
        run: A plan, or a complete config.
        stack: Closes the environment.

    Raises:
        ConfigError: There is no display, or the run has several tasks.
    """
    plan = plan_of(run)
    _check_window(plan)
    env = make_env(plan, render_mode="human")
    stack.callback(env.close)
    return env


def _check_window(plan: RunPlan) -> None:
    """Refuse a window that cannot be opened.

    Raises:
        ConfigError: There is no display, or the run has several tasks: Bullet opens one window in a process.
    """
    check_display("gui", True, "no window")
    if len(plan.judged) > 1 or len(plan.variants) > 1:
        raise ConfigError(bad_value("gui", True, "a run of one task", "shows one task"))


def _make_watched_env(variants: Sequence[Variant], goal_env: bool, codes: NDArray[np.float32] | None) -> AnyEnv:
    """Return a training environment in a window; its `render_mode` is None, because SB3 requires equal modes."""
    env = _make_env(variants, goal_env, codes)
    env.watch()
    return env


def make_vec_env(
    run: Plannable, stack: ExitStack | None = None, gui: bool = False, *, only_spaces: bool = False
) -> Any:
    """Return the training environments as an SB3 `VecEnv`, monitored, and normalised if asked for.

    Args:
        run: A plan, or a complete config.
        stack: Closes the environments; None: the caller closes them.
        gui: Whether to show the first environment in a window.
        only_spaces: Whether one environment stands for all: enough to build a model, at the cost of one.

    Raises:
        ConfigError: A value is wrong, or a window cannot be opened.
    """
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

    plan = plan_of(run)
    config = plan.config
    if config.engine == "fused":
        return _wrapped(_make_fused_env(plan, gui, only_spaces), plan, stack)
    if len(plan.variants) > 1:  # training builds a variant at its first episode: too late to report a mistake
        with contextlib.closing(_make_env(plan.variants, True, None)) as trial:
            assert isinstance(trial, MultiTaskEnv)
            trial.try_all()
    makers = env_makers(plan, config.n_envs)
    if gui:
        _check_window(plan)
        makers[0] = partial(_make_watched_env, plan.variants, plan.algorithm.dict_observations, plan.codes)
    env: VecEnv
    if only_spaces:
        env = DummyVecEnv(makers[:1])
        env.num_envs, env.envs = config.n_envs, env.envs * config.n_envs
    else:
        workers = _worker_count(config)
        env = worker_vec_env(makers, workers) if workers else DummyVecEnv(makers)
    return _wrapped(env, plan, stack)


def _wrapped(env: Any, plan: RunPlan, stack: ExitStack | None) -> Any:
    """Return training environments in the wrappers of the run."""
    from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

    env = VecMonitor(env, info_keywords=MONITORED)
    if plan.config.normalize:
        env = VecNormalize(env, norm_reward=False)
        if plan.config.engine == "fused":
            from mygym.runs.variance_floor import set_variance_floor

            set_variance_floor(env)
    for strategy in plan.strategies:
        env = strategy.wrap_env(env)
    if stack is not None:
        stack.callback(env.close)
    return env


def _make_fused_env(plan: RunPlan, gui: bool, only_spaces: bool) -> Any:
    """Return the training environments of the fused engine.

    Raises:
        ConfigError: The engine cannot represent a value.
    """
    from mygym.envs.fused_vec_env import FusedVecEnv

    if gui:
        raise ConfigError(
            bad_value("gui", True, "engine: pybullet", "is not available with engine fused, which has no window")
        )
    config = plan.config
    env = FusedVecEnv(env_arguments(config), 1 if only_spaces else config.n_envs)
    env.num_envs = config.n_envs
    return env


def _worker_count(config: RunConfig) -> int:
    """Return the number of worker processes; 0 for `auto`, which a run replaces by a number."""
    if isinstance(config.subprocesses, bool):
        return config.n_envs if config.subprocesses else 0
    return 0 if config.subprocesses == "auto" else config.subprocesses


def env_makers(plan: RunPlan, count: int) -> list[Callable[[], Any]]:
    """Return functions that build training environments."""
    return [partial(_make_env, plan.variants, plan.algorithm.dict_observations, plan.codes)] * count


def report_replacements(env: Any, report: Callable[[str, int], None]) -> None:
    """Set the function that is called when a dead worker process has been replaced.

    Args:
        env: The training environments.
        report: Function of the reason and the number of replacements.
    """
    if hasattr(env.unwrapped, "on_replacement"):
        env.unwrapped.on_replacement = report


def record_episodes(env: Any, path: Path, started: float, note: Callable[[Mapping[str, Any]], None]) -> None:
    """Append each episode's return, length and time to a CSV file.

    Args:
        env: The training environments.
        path: The CSV file.
        started: Time from which times are counted, as `time.time()` returns it.
        note: Also called with each episode.
    """
    from stable_baselines3.common.vec_env import VecMonitor

    from mygym.runs.logs import EpisodesCsv

    while not isinstance(env, VecMonitor):
        env = env.venv
    env.t_start = started
    env.results_writer = EpisodesCsv(path, MONITORED, started, note)  # type: ignore[assignment]


def build_model(run: Plannable, env: Any) -> Any:
    """Return the algorithm, constructed from `implemented_combos[algo][framework]` with `algo_params` on top.

    Args:
        run: A plan, or a complete config.
        env: Its training environments.

    Raises:
        ConfigError: The class refuses its arguments, or the device is missing.
    """
    from stable_baselines3 import HerReplayBuffer

    from mygym.runs import schedule_callback
    from mygym.runs.exploration import gaussian_noise

    plan = plan_of(run)
    config, entry, schema = plan.config, plan.algorithm, plan.schema
    devices.use(config.framework, config.device, config.threads)
    policy, kwargs = schema.arguments(config.algo_params)
    scheduled = schedules_of(plan)
    kwargs |= schedule_callback.arguments(schema.cls, scheduled, config.steps)
    if config.her:
        kwargs["replay_buffer_class"] = schema.component(("replay_buffer_class",))
        if len(plan.variants) > 1 and kwargs["replay_buffer_class"] is HerReplayBuffer:
            from mygym.runs.multi_task_her import MultiTaskHerReplayBuffer

            kwargs["replay_buffer_class"] = MultiTaskHerReplayBuffer
    of_the_run = {"seed": config.seed, "device": config.device, "verbose": 0}
    taken = parameters(schema.cls)
    kwargs |= {key: value for key, value in of_the_run.items() if key in taken}
    noise = kwargs.get("action_noise")
    if isinstance(noise, int | float) and is_noise(taken["action_noise"].annotation):
        kwargs["action_noise"] = gaussian_noise(noise, env.action_space)
    requirements.check(entry, env.observation_space, env.action_space)
    for argument in schema.args:
        if is_environment(argument) and argument != "env":
            requirements.check_same_spaces(argument, env, f"{entry.origin}: {entry.name}")
    policy = _policy_class(schema, policy, plan.strategies, env)
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


def _policy_class(schema: Schema, policy: Any, strategies: Sequence[Any], env: Any) -> Any:
    """Return `policy`, an alias or a class, unless a strategy replaces it."""
    cls = schema.component(("policy",))
    chosen = cls
    for strategy in strategies:
        strategy.training_env = env
        chosen = strategy.policy_class(chosen)
    return policy if chosen is cls else chosen


def loadable(run: Plannable) -> Any:
    """Return the algorithm's class for its `load`: SB3 constructs it without the required constructor arguments."""
    plan = plan_of(run)
    cls, kwargs = plan.schema.cls, plan.schema.arguments(plan.config.algo_params)[1]
    known = plan.schema.known.items()
    required = {name: kwargs[name] for name, parameter in known if parameter.required and name in kwargs}

    def construct(self: Any, *args: Any, **given: Any) -> None:
        cls.__init__(self, *args, **{**required, **given})  # type: ignore[misc]

    return type(cls.__name__, (cls,), {"__init__": construct, "__doc__": cls.__doc__}) if required else cls


def schedules_of(run: Plannable) -> dict[str, Schedule]:
    """Return the schedules of a run by name of the hyperparameter."""
    plan = plan_of(run)
    return schedules(plan.schema.cls, plan.config.algo_params, plan.config.steps)


def for_acting(config: RunConfig) -> RunConfig:
    """Return `config` for a policy that only acts: a single environment, a tiny replay buffer, an available device."""
    params = dict(config.algo_params)
    if "buffer_size" in params:
        params |= {
            key: value for key, value in {"buffer_size": 1, "replay_buffer_kwargs": None}.items() if key in params
        }
    elif "n_steps" in params:
        params["n_steps"] *= config.n_envs  # rollouts of the same size: PPO warns about smaller rollouts
    device = devices.or_cpu(config.framework, config.device, config.threads)
    changes = {"n_envs": 1, "subprocesses": False, "her": False, "algo_params": params, "device": device}
    return config.model_copy(update=changes)


def as_built(resolved: Resolved, model: Any) -> Resolved:
    """Return `resolved` with the values that the constructors have decided, read from the attributes of the objects.

    None stays None in the algorithm itself, where it means that a value follows another value, e.g. a learning rate.
    """
    policy = getattr(model, "policy", None)
    builders = {(): model, ("policy_kwargs",): policy}
    for section in ("optimizer_kwargs", "features_extractor_kwargs"):
        builders["policy_kwargs", section] = getattr(policy, section, None)

    def built(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        builder = builders.get(path)
        result: dict[str, Any] = {}
        hidden: set[str] = set()
        for name, value in values.items():
            decided = builder.get(name, value) if isinstance(builder, Mapping) else getattr(builder, name, value)
            by_class = resolved.origins.get(".".join(("algo_params", *path, name)), "").startswith("class")
            if isinstance(value, Mapping) and value:
                result[name] = built(value, (*path, name))
            elif value is None and not path:
                result[name] = None
            elif by_class and name in NAMED and decided is not None and shown(decided) != value:
                hidden.add(name)  # the constructor replaces the default of its signature
            else:
                result[name] = decided if by_class and decided is not None and is_plain(decided) else value
        for name in hidden:
            chosen = getattr(builder, name)
            sections = [section for section in values if section in INNER and INNER[section].of == name]
            if known := name_of(chosen):
                result[name] = known
                result |= {section: arguments_of(chosen, section, builder) for section in sections}
            else:  # a config cannot name this object: the class decides again
                result = {key: value for key, value in result.items() if key not in sections}
        return result

    def arguments_of(chosen: Any, section: str, builder: Any) -> dict[str, Any]:
        arguments = getattr(builder, section, None) or {}
        known = parameters(chosen, leave_out=INNER[section].taken)
        return {
            name: shown(arguments.get(name, parameter.default))
            for name, parameter in known.items()
            if is_plain(parameter.default)
        }

    return resolved.with_algo_params(built(resolved.config.algo_params, ()))


def explained(run: Plannable) -> Resolved:
    """Return `as_built` of a run that is not started: builds everything and writes nothing."""
    plan = plan_of(run)
    env = make_vec_env(plan, only_spaces=True)
    try:
        return as_built(plan.resolved, build_model(plan, env))
    finally:
        env.close()
