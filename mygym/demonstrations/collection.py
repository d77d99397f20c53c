"""`demonstrate`: record episodes of a policy into a new dataset."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mygym.demonstrations import lerobot, storage
from mygym.demonstrations.episodes import Demonstration, Demonstrations, Observations
from mygym.demonstrations.loading import load_demonstrations
from mygym.demonstrations.recording import attempts
from mygym.demonstrations.teleoperation import KEYBOARD, Keyboard
from mygym.envs.arguments import checked_count, checked_seed
from mygym.envs.multi_task_env import AnyEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RunError, bad_value
from mygym.planning.derived import env_spec
from mygym.planning.plan import Config, RunPlan
from mygym.registry import registry
from mygym.training import directory, env_factory, files
from mygym.training.evaluation import Predicts
from mygym.training.loading import find_plan, is_run, load
from mygym.training.result import versions
from mygym.training.stop_request import StopRequest

MINARI, LEROBOT = FORMATS = ("minari", "lerobot")
"""Formats of data sets."""

Storing = AbstractContextManager[tuple[Callable[[Demonstration], None], Callable[[Mapping[str, Any]], None]]]
"""Writes a data set: functions that store an episode and the properties of the recording."""


def demonstrate(
    config: Config | None = None,
    *,
    out: str | Path,
    policy: str | Path = "oracle",
    episodes: int = 100,
    noise: float | Sequence[float] = 0.0,
    partial: float = 1.0,
    keep_failures: bool = False,
    seed: int = 0,
    trust: bool = False,
    format: str = MINARI,
) -> Demonstrations:
    """Record episodes as a data set; training and evaluations never use their seeds.

    Args:
        config: Robot, task and other values that differ from the defaults; None if `policy` is the path of a run.
        out: The dataset's folder, which must not exist; it is written completely or not at all.
        policy: `oracle` or another built-in policy; `keyboard`: a person, in a window; or the path of a run, whose
            config is used.
        episodes: Number of episodes to keep.
        noise: Standard deviation of normal noise on each component of an action; the sum is clipped to [−1, 1]. With
            several levels, the same number of episodes is kept for each level.
        partial: Share of each episode's steps to keep, in (0, 1]; the seed decides the start of this segment.
        keep_failures: Also keep episodes that do not end in success.
        seed: Seed of the episodes.
        trust: See `mygym.load`.
        format: `minari`; or `lerobot`, LeRobotDataset v3.0: `observation.state` is the observation vector,
            `observation.environment_state` the desired goal, and `observation.images.CAMERA` the images of
            `observations`.

    Returns:
        The recorded episodes: as `load_demonstrations` returns them, or with format `lerobot` without images.

    Raises:
        ConfigError: A value is wrong, or `out` exists.
        RegistryError: A name is unknown, or the extra `demos` is not installed.
        RunError: The policy cannot be loaded or fails too often, or writing failed; nothing remains.
        KeyboardInterrupt: A signal stops the recording; nothing remains.
    """
    path = Path(out).expanduser()
    levels = _levels(noise)
    if not 0 < partial <= 1:
        raise ConfigError(bad_value("partial", partial, "above 0, at most 1"))
    episodes, seed = checked_count(episodes, "episodes"), checked_seed(seed)
    if format not in FORMATS:
        raise ConfigError(bad_value("format", format, FORMATS))
    (storage.require_minari if format == MINARI else lerobot.require_pyarrow)()
    files.check_new(path, "out", "a folder")
    from_run = is_run(policy)
    if from_run and config:
        raise ConfigError(bad_value("policy", str(policy), "a config or a run", "is a run, which has a config"))
    plan = find_plan(directory.find_policy(policy)[0] if from_run else (config or {}))
    if plan.config.actions.discrete is not None and any(levels):
        raise ConfigError(bad_value("noise", noise, "0, or continuous actions", "cannot be added to discrete actions"))
    with contextlib.ExitStack() as stack:
        rendering = {"render_mode": "human"} if policy == KEYBOARD else {}
        env = stack.enter_context(contextlib.closing(env_factory.make_env(plan, **rendering)))
        bar = stack.enter_context(progress_bar(episodes, "episode"))
        recorded: Predicts
        if from_run:
            recorded = load(policy, trust=trust)
        elif policy == KEYBOARD:
            recorded = Keyboard(env)
        else:
            recorded = registry("policy").get(str(policy)).load()([env], seed)
        solved, played, kept = 0, 0, []
        with _storing(format, path, env, plan) as (store, describe):
            stop = stack.enter_context(StopRequest("after this episode"))  # libraries may swallow KeyboardInterrupt
            for episode in attempts(recorded, env, seed, episodes, levels, str(policy), keep_failures):
                played, solved = played + 1, solved + episode.success
                if episode.success or keep_failures:
                    segment = episode.segment(partial)
                    store(segment)
                    kept.append(replace(segment, observations=_numbers(segment.observations)))
                    bar.update()
                if stop.received:
                    raise KeyboardInterrupt
                if len(kept) == episodes:
                    break
            if len(kept) < (1 if policy == KEYBOARD else episodes):  # a person may stop early
                raise RunError(
                    f"{policy}: {solved} of {played} episodes ended in success, which is too few to keep {episodes}; "
                    f"allowed: less noise, fewer episodes, or --keep-failures"
                )
            about = {
                "policy": str(policy),
                "seed": seed,
                "noise": levels,
                "partial": partial,
                "keep_failures": keep_failures,
                "attempts": played,
                "solved": solved,
                "versions": dict(versions()),
            }
            values = plan.config.model_dump(mode="json")
            describe({"config": values, **about})
        if format == MINARI:
            return load_demonstrations(path)
        return Demonstrations(path, tuple(kept), env.observation_space, env.action_space, values, about)


def _storing(format: str, path: Path, env: AnyEnv, plan: RunPlan) -> Storing:
    """Return the context manager that writes a data set in a format.

    Raises:
        ConfigError: The format is `lerobot`, and the run has several tasks.
    """
    arguments = env_spec(plan.config).arguments() if len(plan.evaluated_variants) == 1 else None
    if format == MINARI:
        return storage.storing(path, env.observation_space, env.action_space, arguments)
    if not isinstance(env, RobotEnv):
        raise ConfigError(
            bad_value("format", format, "minari; or a single task", "holds the episodes of a single task")
        )
    return lerobot.storing(path, env)


def _numbers(observations: Observations) -> Observations:
    """Return observations without images, which would fill the memory."""
    if not isinstance(observations, dict):
        return observations
    return {key: values for key, values in observations.items() if values.dtype != np.uint8}


def _levels(noise: float | Sequence[float]) -> list[float]:
    """Return the noise levels.

    Raises:
        ConfigError: A level is not a standard deviation.
    """
    levels = list(noise) if isinstance(noise, Sequence) and not isinstance(noise, str) else [noise]
    numbers = [level for level in levels if isinstance(level, int | float) and not isinstance(level, bool)]
    if not levels or len(numbers) < len(levels) or not all(math.isfinite(level) and level >= 0 for level in numbers):
        raise ConfigError(bad_value("noise", noise, "a number, at least 0, or a list of such numbers"))
    return [float(level) for level in numbers]


def progress_bar(total: int, unit: str) -> Any:
    """Return a progress bar of `total` units, hidden if stderr is not a terminal."""
    from tqdm import tqdm

    return tqdm(total=total, unit=unit, dynamic_ncols=True, disable=not sys.stderr.isatty())
