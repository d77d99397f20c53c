"""Recording of demonstrations, and `replay`, which compares a dataset with its episodes played again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from mygym.config import Layer, RunConfig, resolve
from mygym.demonstrations.episodes import Demonstration, Observations
from mygym.demonstrations.loading import load_demonstrations
from mygym.envs.multi_task_env import AnyEnv, MultiTaskEnv
from mygym.errors import ConfigError, DivergedError, RunError, bad_value
from mygym.experts import make_expert
from mygym.training import env_factory
from mygym.training.evaluation import (
    DEMONSTRATION,
    EpisodeRestarted,
    EpisodesEnded,
    Predicts,
    episode_seeds,
    stack_observations,
)
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

    Args:
        policy: Policy that receives batches of one observation.
        env: The environment.
        seed: Seed of the episodes.
        episodes: Number of requested demonstrations.
        levels: Noise levels; the next episode gets the level with the fewest kept episodes.
        name: Name of the policy, for messages.
        keep_failures: Whether episodes without success are kept.

    Yields:
        Every episode, kept or not.

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
    """Play and record an episode.

    Args:
        policy: Policy that receives batches of one observation.
        env: The environment.
        seed: Seed of the episode and its noise.
        noise: Standard deviation of the normal noise added to each action; the sum is clipped to the action space.
            Discrete actions get no noise.

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

    Args:
        demonstration: The demonstration.
        env: An environment with the config of the recording.
        recorder: Captures the frames; `env` then has `render_mode="rgb_array"`.

    Returns:
        The first step (0: the first observation) whose observation, expert action, reward or termination differs from
        the recording; None if everything is bit-identical.
    """
    first_difference, expert = None, make_expert(env)
    observation, _ = env.reset(seed=demonstration.seed)
    for action in demonstration.lead_in:
        observation, *_ = env.step(action)
    same = _is_same(observation, demonstration.observations, 0)
    same &= np.array_equal(expert.act(observation), demonstration.expert_actions[0])
    for step in range(len(demonstration) + 1):
        if step:
            observation, reward, terminated, _, _ = env.step(demonstration.actions[step - 1])
            same = _is_same(observation, demonstration.observations, step)
            same &= np.array_equal(expert.act(observation), demonstration.expert_actions[step])
            same &= reward == demonstration.rewards[step - 1] and terminated == demonstration.terminated[step - 1]
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
        ConfigError: The path is not a dataset, or the episode or the camera does not exist.
        RunError: The dataset is damaged, or the video cannot be written.
    """
    demonstrations = load_demonstrations(dataset)
    if episode is not None and not 0 <= episode < len(demonstrations):
        raise ConfigError(bad_value("episode", episode, f"0 to {len(demonstrations) - 1}"))
    chosen = range(len(demonstrations)) if episode is None else [episode]
    recorder = None if video is None else VideoRecorder()
    replays = []
    with contextlib.closing(_recordered_env(demonstrations.config, camera=camera, width=width, height=height)) as env:
        if video is not None:
            check_video(Path(video))
            Path(video).parent.mkdir(parents=True, exist_ok=True)
        for number in chosen:
            stored = demonstrations.episodes[number]
            replays.append(Replay(number, len(stored), replay_episode(stored, env, recorder)))
            if recorder is not None:
                recorder.pause()
    if recorder is not None:
        recorder.save(Path(str(video)))
    return replays


def _recordered_env(config: RunConfig, **overrides: Any) -> AnyEnv:
    """Return the environment of a config, with overrides of its `video` section."""
    video = {key: value for key, value in overrides.items() if value is not None}
    shown = resolve([Layer("argument", {"video": {**config.video.model_dump(), **video}})]).config.video
    size = {"render_width": shown.width, "render_height": shown.height}
    return env_factory.make_env(config, render_mode="rgb_array", camera=shown.camera, **size)
