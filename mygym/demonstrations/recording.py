"""Recording of demonstrations: `demonstrate`, and `replay`, which compares a dataset with its episodes played again."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from tqdm import tqdm

from mygym.config import Layer, resolve
from mygym.demonstrations import lerobot, storage
from mygym.demonstrations.episodes import Demonstration, Demonstrations, Observations
from mygym.demonstrations.storage import load_demonstrations
from mygym.demonstrations.teleoperation import KEYBOARD, Keyboard
from mygym.engines.engine import judge_of
from mygym.envs.arguments import checked_arguments, checked_count, checked_seed
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, DivergedError, RunError, bad_value
from mygym.experts import make_expert
from mygym.planning.derived import env_spec
from mygym.planning.plan import Config, RunPlan
from mygym.registry import registry
from mygym.training import directory, env_factory, files
from mygym.training.evaluation import (
    DEMONSTRATION,
    EpisodeRestarted,
    EpisodesEnded,
    Predicts,
    episode_seeds,
    stack_observations,
)
from mygym.training.loading import find_plan, is_saved_policy, load
from mygym.training.result import versions
from mygym.training.stop_request import StopRequest
from mygym.training.video import VideoRecorder, check_video

ATTEMPTS = 10
"""Maximum number of episodes to play for each requested demonstration."""


def attempts(
    policy: Predicts,
    env: AnyEnv,
    seed: int,
    episodes: int,
    levels: Sequence[float] = (0.0,),
    name: str = "oracle",
    keep_failures: bool = False,
) -> Iterator[Demonstration]:
    """Play and yield up to `ATTEMPTS` episodes per requested demonstration, or until the operator ends the recording.

    It yields every episode, kept or not. The next episode gets the noise level with the fewest kept episodes. `name` is
    the policy's, for messages.

    Raises:
        RunError: The policy's actions are not finite.
    """
    seeds = episode_seeds(seed, DEMONSTRATION, ATTEMPTS * episodes, env=env)
    kept = [0] * len(levels)
    for episode_seed in seeds:
        level = kept.index(min(kept))
        try:
            demonstration = _play_to_the_end(policy, env, episode_seed, levels[level])
        except EpisodesEnded:
            return
        except (DivergedError, ValueError) as error:  # torch's distributions raise ValueError
            raise RunError(f"{name}: cannot be recorded: {' '.join(str(error).split())}") from error
        kept[level] += demonstration.success or keep_failures
        yield demonstration


def _play_to_the_end(policy: Predicts, env: AnyEnv, seed: int, noise: float) -> Demonstration:
    """Play an episode, from the beginning again whenever the operator restarts it."""
    while True:
        with contextlib.suppress(EpisodeRestarted):
            return play(policy, env, seed, noise)


def play(policy: Predicts, env: AnyEnv, seed: int, noise: float = 0.0) -> Demonstration:
    """Play and record an episode; the seed decides the episode and its noise.

    Normal noise with the standard deviation `noise` is added to each action, and the sum is clipped to the action
    space; discrete actions get no noise.

    Raises:
        DivergedError: An action is not finite.
    """
    expert, rng = make_expert(env), np.random.default_rng([DEMONSTRATION, 0, seed])
    space: Any = env.action_space
    observation, info = env.reset(seed=seed)
    observations, infos, labels = [observation], [info], [expert.act(observation)]
    actions, rewards, ends = [], [], []
    memory, starts, done = None, np.ones(1, dtype=bool), False
    while not done:
        predicted, memory = policy.predict(stack_observations([observation]), memory, starts, deterministic=True)
        starts = np.zeros(1, dtype=bool)
        action = predicted[0]
        if isinstance(space, spaces.Box):
            unclipped = action + rng.normal(0.0, noise, space.shape) if noise else action
            if not np.isfinite(unclipped).all():
                raise DivergedError(f"action {np.asarray(unclipped).tolist()} is not finite")  # clipping would hide inf
            action = np.clip(unclipped, space.low, space.high).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        observations.append(observation)
        infos.append(info)
        labels.append(expert.act(observation))
        actions.append(action)
        rewards.append(reward)
        ends.append((terminated, truncated))
        done = terminated or truncated
    return Demonstration(
        seed=seed,
        observations=stack_observations(observations),
        actions=np.array(actions, dtype=space.dtype),
        expert_actions=np.array(labels, dtype=space.dtype),
        rewards=np.array(rewards, dtype=np.float64),
        terminated=np.array([end[0] for end in ends]),
        truncated=np.array([end[1] for end in ends]),
        stages=np.array([step_info["stage"] for step_info in infos], dtype=np.int64),
        lead_in=np.empty((0, *space.shape), dtype=space.dtype),
        success=bool(info["is_success"]),
        noise=noise,
        task=env.label if isinstance(env, MultiTaskEnv) else "",
    )


def replay_episode(demonstration: Demonstration, env: AnyEnv, recorder: VideoRecorder | None = None) -> int | None:
    """Replay a demonstration: an exact reset, then the same actions.

    The environment has the config of the recording; with a recorder, which captures the frames, it also has
    `render_mode="rgb_array"`.

    Returns:
        The first step (0: the first observation) whose observation, expert action, reward or termination differs from
        the recording; None if everything is bit-identical.
    """
    first_difference, expert = None, make_expert(env)
    observation, _ = env.reset(seed=demonstration.seed)
    for action in demonstration.lead_in:
        observation, *_ = env.step(action)
    for step in range(len(demonstration) + 1):
        same = True
        if step:
            observation, reward, terminated, _, _ = env.step(demonstration.actions[step - 1])
            same = reward == demonstration.rewards[step - 1] and terminated == demonstration.terminated[step - 1]
        same &= _is_same(observation, demonstration.observations, step)
        same &= np.array_equal(expert.act(observation), demonstration.expert_actions[step])
        if not same and first_difference is None:
            first_difference = step
        if recorder is not None:
            recorder.capture(env)
    return first_difference


def _is_same(observation: Any, stored: Observations, step: int) -> bool:
    if isinstance(stored, dict):
        return all(np.array_equal(observation[key], values[step]) for key, values in stored.items())
    return np.array_equal(observation, stored[step])


@dataclass(frozen=True)
class Replay:
    """Comparison of a replayed episode with the stored episode."""

    number: int
    """Number of the episode in its dataset."""
    steps: int
    differs_at: int | None
    """The first step whose result differs from the stored result; None: all results are bit-identical."""


@checked_arguments
def replay(
    dataset: str | Path,
    *,
    episode: int | None = None,
    video: str | Path | None = None,
    camera: str | None = None,
    width: int | None = None,
    height: int | None = None,
) -> list[Replay]:
    """Play demonstrations again from their seeds and actions, and compare with the stored observations.

    Args:
        dataset: Path of a dataset of `demonstrate`.
        episode: Number of the episode to play; None: all.
        video: MP4 or GIF for a video; for a partial episode it shows only the stored segment.
        camera: A camera of the workspace; None: the config's.
        width: Pixels, an even number; None: the config's.
        height: Pixels, an even number; None: the config's.

    Returns:
        For each episode, its number, seed and whether it is equal to the stored episode.

    Raises:
        ConfigError: The path is not a dataset or it is damaged, or the episode or the camera does not exist.
        RunError: The video cannot be written.
    """
    demonstrations = load_demonstrations(dataset)
    if episode is not None and not 0 <= episode < len(demonstrations):
        raise ConfigError(bad_value("episode", episode, f"0 to {len(demonstrations) - 1}"))
    chosen = range(len(demonstrations)) if episode is None else [episode]
    recorder = None if video is None else VideoRecorder()
    replays = []
    config, given = demonstrations.config, {"camera": camera, "width": width, "height": height}
    changes = {key: value for key, value in given.items() if value is not None}
    shown = resolve([Layer("argument", {"video": config.video.model_dump() | changes})]).config.video
    size = {"render_width": shown.width, "render_height": shown.height}
    env = env_factory.make_env(config, render_mode="rgb_array", camera=shown.camera, **size)
    with contextlib.closing(env):
        if video is not None:
            check_video(Path(video))
            files.make_folder_for(Path(video))
        for number in chosen:
            stored = demonstrations.episodes[number]
            replays.append(Replay(number, len(stored), replay_episode(stored, env, recorder)))
            if recorder is not None:
                recorder.pause()
    if recorder is not None:
        recorder.save(Path(str(video)))
    return replays


MINARI, LEROBOT = FORMATS = ("minari", "lerobot")
"""Formats of data sets."""


@checked_arguments
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
    from_run = is_saved_policy(policy)
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
            recorded = registry("policy").get(str(policy), more=(KEYBOARD, "the path of a run")).load()([env], seed)
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
            values = {**plan.config.model_dump(mode="json"), "engine": judge_of(plan.config.engine)}
            describe({"config": values, **about})
        if format == MINARI:
            return load_demonstrations(path)
        return Demonstrations(path, tuple(kept), env.observation_space, env.action_space, values, about)


def _storing(format: str, path: Path, env: AnyEnv, plan: RunPlan) -> AbstractContextManager[storage.Stores]:
    """Return the context manager that writes a data set in a format; refuse several tasks in the format `lerobot`."""
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
    """Return the noise levels; refuse a level that is no standard deviation."""
    levels = list(noise) if isinstance(noise, Sequence) and not isinstance(noise, str) else [noise]
    numbers = [level for level in levels if isinstance(level, int | float) and not isinstance(level, bool)]
    if not levels or len(numbers) < len(levels) or not all(math.isfinite(level) and level >= 0 for level in numbers):
        raise ConfigError(bad_value("noise", noise, "a number, at least 0, or a list of such numbers"))
    return [float(level) for level in numbers]


def progress_bar(total: int, unit: str) -> Any:
    """Return a progress bar of `total` units, hidden if stderr is not a terminal."""
    return tqdm(total=total, unit=unit, dynamic_ncols=True, disable=not sys.stderr.isatty())
