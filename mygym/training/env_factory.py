"""Build the environments of a plan, or of a complete config."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import RunConfig
from mygym.engines.arrays import cores
from mygym.engines.engine import FUSED, find_engine, judge_of
from mygym.engines.rendering.viewer import check_display
from mygym.envs.env_spec import EnvSpec
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, MygymError, bad_value
from mygym.planning.derived import env_spec, in_batch, training_spec
from mygym.planning.plan import Plannable, RunPlan, plan_of
from mygym.planning.strategies import Variant
from mygym.registry import user_files
from mygym.registry.entries import HAS_BULLET
from mygym.tasks.task import TRAINING_PARAMS
from mygym.training.env_processes import process_vec_env
from mygym.training.evaluation import BATCH

MONITORED = ("is_success", "stages_done", "touched", "saturation")
"""Columns of monitor.csv besides return, length and time."""


def make_env(run: Plannable, **arguments: Any) -> AnyEnv:
    """Return an environment for evaluations, with flat observations if the algorithm does not accept dictionaries.

    Its episodes are those of the task itself: the `TRAINING_PARAMS` are left out. The arguments replace those of
    `RobotEnv`; without `engine`, it is the one that judges the run.
    """
    return build_env(env_description(run), **arguments)


def env_description(run: Plannable) -> dict[str, Any]:
    """Return plain data from which `build_env` builds the environment of `make_env`.

    It needs no plan: another process may lack an algorithm or a strategy that a notebook has registered.
    """
    plan = plan_of(run)
    variants = [_without_training_aids(variant) for variant in plan.evaluated_variants]
    return _description(variants, plan.algorithm.dict_observations, plan.evaluation_codes)


def try_worlds(run: Plannable, tried: set[str] | None = None) -> None:
    """Build and close the environments of all task variants of the training, in the engine that judges the run.

    Raises:
        MygymError: Task, robot and other values do not fit together, or a component of the user is wrong.
    """
    description = _description(plan_of(run).variants, True, None)
    tried = set() if tried is None else tried
    if repr(description) not in tried:
        with contextlib.closing(build_env(description)) as trial:
            if isinstance(trial, MultiTaskEnv):
                trial.try_all()
        tried.add(repr(description))


def try_worlds_of(runs: Mapping[str, Plannable]) -> None:
    """Build and close each different world of several runs once, so that a mistake is found before the first run.

    Args:
        runs: Words for a message, such as `the trial seed=1` → run.

    Raises:
        ConfigError: `try_worlds` refuses a run.
    """
    tried: set[str] = set()
    for words, run in runs.items():
        try:
            try_worlds(run, tried)
        except MygymError as error:
            raise ConfigError(f"{error} (in {words})") from error


def _description(variants: Sequence[Variant], goal_env: bool, codes: NDArray[np.float32] | None) -> dict[str, Any]:
    return {
        "imports": list(variants[0].config.imports),
        "labels": [variant.label for variant in variants],
        "arguments": [
            {**env_spec(variant.config, goal_env).arguments(), "camera": variant.config.video.camera}
            for variant in variants
        ],
        "codes": None if codes is None else codes.tolist(),
    }


def build_env(description: Mapping[str, Any], **arguments: Any) -> AnyEnv:
    """Return the environment of an `env_description`, with some arguments of `RobotEnv` replaced."""
    user_files.import_modules(description["imports"])  # another process has not imported them yet
    specs = [EnvSpec.of({**described, **arguments}) for described in description["arguments"]]
    if len(specs) == 1:
        return RobotEnv.of(specs[0])
    codes = description["codes"]
    return MultiTaskEnv(specs, description["labels"], None if codes is None else np.array(codes, dtype=np.float32))


def _without_training_aids(variant: Variant) -> Variant:
    """Return a variant whose episodes are those of the task itself."""
    task_params = variant.config.task_params.model_copy(update=dict.fromkeys(TRAINING_PARAMS))
    return replace(variant, config=variant.config.model_copy(update={"task_params": task_params}))


def make_eval_envs(
    run: Plannable, stack: ExitStack, episodes: int | None = None, engine: str | None = None
) -> list[AnyEnv]:
    """Return environments for evaluations and videos; a camera costs nothing until it is used.

    Args:
        run: A plan, or a complete config.
        stack: Closes the environments.
        episodes: Number of episodes to play; None: the number of the run's evaluations.
        engine: Name of the engine; None: the one that judges the run.
    """
    plan = plan_of(run)
    arguments: dict[str, Any] = {"render_width": plan.config.video.width, "render_height": plan.config.video.height}
    arguments |= {"engine": engine} if engine else {}
    envs = []
    for _ in range(min(BATCH, plan.config.eval.episodes if episodes is None else episodes)):
        envs.append(make_env(plan, render_mode="rgb_array", **arguments))
        stack.callback(envs[-1].close)
    return envs


def make_window_env(run: Plannable, stack: ExitStack, engine: str | None = None) -> AnyEnv:
    """Return an environment for evaluations in a window, see `make_eval_envs`.

    Raises:
        ConfigError: The machine has no display, or the run has several tasks.
    """
    plan = plan_of(run)
    _check_window(plan)
    env = make_env(plan, render_mode="human", **({"engine": engine} if engine else {}))
    stack.callback(env.close)
    return env


def _check_window(plan: RunPlan) -> None:
    """Refuse a window that cannot be opened."""
    check_display("gui", True, "no window")
    if len(plan.evaluated_variants) > 1 or len(plan.variants) > 1:
        raise ConfigError(bad_value("gui", True, "a run of one task", "shows one task"))


def _make_watched_env(make: Callable[[], Any]) -> Any:
    """Return a training environment in a window; its `render_mode` is None, because SB3 requires equal modes."""
    env = make()
    env.watch()
    return env


def make_vec_env(
    run: Plannable, stack: ExitStack | None = None, gui: bool = False, *, only_spaces: bool = False
) -> Any:
    """Return the training environments as an SB3 `VecEnv`, monitored, and normalised if asked for.

    If the config has several `learners`, these are the environments of a single learner.

    Args:
        run: A plan, or a complete config.
        stack: Closes the environments; None: the caller closes them.
        gui: Whether to show the first environment in a window.
        only_spaces: Whether one environment stands for all: enough to build a model, at the cost of one.

    Raises:
        ConfigError: A value is wrong, the engine is not installed, or a window cannot be opened.
    """
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

    plan = plan_of(run)
    config = plan.config
    count = config.n_envs // config.learners
    if len(plan.variants) > 1:  # training builds a variant at its first episode: too late to report a mistake
        try_worlds(plan)
    if in_batch(variant.config for variant in plan.variants):
        return _wrapped(_make_batch(plan, count, gui, only_spaces), plan, stack)
    if not only_spaces:
        find_engine(config.engine)  # its package may be missing here, where another engine judges
    makers = env_makers(plan, count)
    reward_maker = makers[0] if config.overlap else None  # without a window
    if gui:
        _check_window(plan)
        makers[0] = partial(_make_watched_env, makers[0])
    env: VecEnv
    if only_spaces:
        env = DummyVecEnv(makers[:1])
        env.num_envs, env.envs = count, env.envs * count
    else:
        processes = _process_count(config)
        env = process_vec_env(makers, processes, reward_maker=reward_maker) if processes else DummyVecEnv(makers)
    return _wrapped(env, plan, stack)


def _wrapped(env: Any, plan: RunPlan, stack: ExitStack | None) -> Any:
    """Return training environments in the wrappers of the run."""
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    from mygym.training.buffers import images_of
    from mygym.training.vec_wrappers import EpisodeMonitor, FlooredNormalize, TransposedImages

    env = EpisodeMonitor(env, info_keywords=MONITORED)
    images = list(images_of(env.observation_space))
    numbers = [key for key in getattr(env.observation_space, "spaces", ()) if key not in images]
    if images:
        env = TransposedImages(env)  # SB3 would wrap the normaliser, whose original observations replay stores
    if plan.config.normalize and (numbers or not images):
        keys = numbers if images else None
        if judge_of(plan.config.engine) != plan.config.engine:
            env = FlooredNormalize(env, keys)
        else:
            env = VecNormalize(env, norm_reward=False, norm_obs_keys=keys)
    for strategy in plan.strategies:
        wrapped: object = strategy.wrap_env(env)
        if not isinstance(wrapped, VecEnv):
            why, allowed = f"is returned by {type(strategy).__name__}", "a VecEnv, such as the argument env"
            raise ConfigError(bad_value(f"{strategy.name}.wrap_env", type(wrapped).__name__, allowed, why))
        env = wrapped
    if stack is not None:
        stack.callback(env.close)
    return env


def _make_batch(plan: RunPlan, count: int, gui: bool, only_spaces: bool) -> Any:
    """Return `count` training environments of an engine with batches; refuse values that it cannot represent."""
    from mygym.envs.batch_vec_env import BatchVecEnv

    if gui:
        why = f"is not available with engine {plan.config.engine}, whose batches have no window"
        raise ConfigError(bad_value("gui", True, "engine: pybullet" if HAS_BULLET else "no window", why))
    device = "cpu" if only_spaces else engine_device(plan.config)
    specs = [training_spec(variant.config, plan.algorithm.dict_observations) for variant in plan.variants]
    env = BatchVecEnv(specs, 1 if only_spaces else count, device, plan.codes)
    env.num_envs = count
    return env


def engine_device(config: RunConfig) -> str:
    """Return the device of the environments: for the fused engine that of the networks, if they are torch's."""
    on_gpu = config.engine == FUSED and config.framework == "pytorch" and config.device.startswith("cuda")
    return config.device if on_gpu else "cpu"


def _process_count(config: RunConfig) -> int:
    """Return the number of processes of environments; 0 for `auto`, which a run replaces by a number."""
    if isinstance(config.env_processes, bool):
        return config.n_envs if config.env_processes else 0
    return 0 if config.env_processes == "auto" else config.env_processes


MIN_MEASURED_STEPS = 50_000
"""Env steps of a run below which their start and the measurement would take longer than the processes save."""

MIN_OVERLAPPED_STEPS = 5_000
"""Env steps of a run below which the start of the processes takes longer than `overlap` saves."""

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
        is_long = config.steps >= MIN_OVERLAPPED_STEPS
        return min(max(available - config.threads, 0), config.n_envs) if is_long else 0, ""
    processes = min(available, config.n_envs)
    one_process = config.learners > 1 or in_batch(variant.config for variant in plan.variants)
    if one_process or processes < 2 or config.steps < MIN_MEASURED_STEPS:
        return 0, ""
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = min(SAMPLE, config.n_envs // processes)
    makers = env_makers(plan, processes * envs)
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


def env_makers(plan: RunPlan, count: int) -> list[Callable[[], Any]]:
    """Return functions that build training environments."""
    description = _description(plan.variants, plan.algorithm.dict_observations, plan.codes)
    return [partial(build_env, description, engine=plan.config.engine)] * count


def report_replacements(env: Any, report: Callable[[str, int], None]) -> None:
    """Let `report` be called, with reason and number, when a dead process of environments has been replaced."""
    if hasattr(env.unwrapped, "on_replacement"):
        env.unwrapped.on_replacement = report


def record_episodes(env: Any, path: Path, started: float, note: Callable[[Mapping[str, Any]], None]) -> None:
    """Append each episode's return, length and time since `started` (`time.time()`) to a CSV file; `note` each."""
    from stable_baselines3.common.vec_env import unwrap_vec_wrapper

    from mygym.training.logs import EpisodesCsv
    from mygym.training.vec_wrappers import EpisodeMonitor

    monitor: Any = unwrap_vec_wrapper(env, EpisodeMonitor)
    monitor.t_start = started
    monitor.results_writer = EpisodesCsv(path, MONITORED, started, note)
