"""`demonstrate(config)` records episodes, and `replay(dataset)` plays them again: what `training` is for learning."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.api import Config, config_of, load
from mygym.config import Layer, RunConfig, resolve
from mygym.demonstrations import Demonstrations, load_demonstrations, storage
from mygym.demonstrations.keyboard import KEYBOARD, Keyboard
from mygym.demonstrations.recording import attempts
from mygym.demonstrations.recording import replay as played_again
from mygym.envs.multi_task_env import AnyEnv
from mygym.errors import ConfigError, RunError, bad_value
from mygym.registry import registry
from mygym.runs import directory, factory, files
from mygym.runs.evaluation import Predicts
from mygym.runs.result import versions
from mygym.runs.stop_request import StopRequest
from mygym.runs.variants import judged
from mygym.runs.video import VideoRecorder

__all__ = ["Replay", "demonstrate", "load_demonstrations", "replay"]


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
) -> Demonstrations:
    """Record episodes as a Minari dataset, on seeds that no training and no evaluation uses.

    Args:
        config: Robot, task and whatever else differs from the defaults; not with the path of a run.
        out: The dataset's folder, which does not exist yet: it is there whole or not at all.
        policy: `oracle` or another built-in policy; `keyboard` for a person, in a window; or the path of a run, whose
            config it then is.
        episodes: How many are kept.
        noise: Standard deviation of normal noise on each number of an action, whose range is [−1, 1], clipped to that;
            of several as many episodes are kept of each.
        partial: The share of its steps, in (0, 1], that is kept of each episode, from a place that its seed decides.
        keep_failures: Keep episodes that do not end in success, too.
        seed: Decides the episodes.
        trust: As of `mygym.load`.

    Raises:
        ConfigError: A value is wrong, or something is at `out` already.
        RegistryError: A name is not known, or the extra `demos` is not installed.
        RunError: The policy cannot be loaded or fails too often, or writing failed; nothing is left.
    """
    path = Path(out).expanduser()
    levels = _levels(noise)
    if not 0 < partial <= 1:
        raise ConfigError(bad_value("partial", partial, "above 0, at most 1"))
    if episodes < 1:
        raise ConfigError(bad_value("episodes", episodes, "at least 1"))
    storage.require_minari()
    files.check_new(path, "out", "a folder")
    of_run = is_run(policy)
    if of_run and config:
        raise ConfigError(bad_value("policy", str(policy), "a config or a run", "is a run, which has a config"))
    settled = config_of(directory.find_policy(policy)[0] if of_run else (config or {}))
    with contextlib.ExitStack() as stack:
        rendering = {"render_mode": "human"} if policy == KEYBOARD else {}
        env = stack.enter_context(contextlib.closing(factory.make_env(settled, **rendering)))
        bar = stack.enter_context(_bar(episodes))
        acting: Predicts
        if of_run:
            acting = load(policy, trust=trust)
        elif policy == KEYBOARD:
            acting = Keyboard(env)
        else:
            acting = registry("policy").get(str(policy)).load()([env], seed)
        alone = factory.env_arguments(settled) if len(judged(settled)) == 1 else None
        with storage.storing(path, env.observation_space, env.action_space, alone) as (store, tell):
            kept, solved, played = 0, 0, 0
            stop = stack.enter_context(StopRequest("after this episode"))  # Ctrl-C may be lost in somebody's callback
            for one in attempts(acting, env, seed, episodes, levels, str(policy), keep_failures):
                played, solved = played + 1, solved + one.success
                if one.success or keep_failures:
                    store(one.segment(partial))
                    kept += 1
                    bar.update()
                if stop.received:
                    raise KeyboardInterrupt
                if kept == episodes:
                    break
            if kept < (1 if policy == KEYBOARD else episodes):  # a person may have had enough
                raise RunError(
                    f"{policy}: {solved} of {played} episodes ended in success, which is too few to keep {episodes}; "
                    f"allowed: less noise, fewer episodes, or failures kept too"
                )
            how = {"noise": levels, "partial": partial, "keep_failures": keep_failures}
            counts = {"attempts": played, "solved": solved}
            of = {"config": settled.model_dump(mode="json"), "policy": str(policy), "seed": seed}
            tell({**of, **how, **counts, "versions": dict(versions())})
    return load_demonstrations(path)


def is_run(policy: str | Path) -> bool:
    """Whether this is the path of a run, and no name of a built-in policy."""
    return str(policy) not in registry("policy").names() and Path(policy).exists()


@dataclass(frozen=True)
class Replay:
    """How an episode went when it was played again."""

    number: int
    """Of the episode in its dataset."""
    steps: int
    differs_at: int | None
    """The first step after which it is not as stored, to the bit; None where all is."""


def replay(
    dataset: str | Path,
    *,
    episode: int | None = None,
    video: str | Path | None = None,
    camera: str | None = None,
    width: int | None = None,
    height: int | None = None,
) -> list[Replay]:
    """Play demonstrations again, from their seeds and actions, and compare what is seen with what is stored.

    Args:
        dataset: Path of a dataset of `demonstrate`.
        episode: Number of the one to play; all without it.
        video: MP4 to film them in; of those that are a part of an episode that part.
        camera: A camera of the workspace; the config's without it.
        width: Pixels, an even number; the config's without it.
        height: Pixels, an even number; the config's without it.

    Raises:
        ConfigError: It is no dataset, or has no such episode; or the workspace no such camera.
        RunError: The dataset is damaged, or the film cannot be written.
    """
    demonstrations = load_demonstrations(dataset)
    if episode is not None and not 0 <= episode < len(demonstrations):
        raise ConfigError(bad_value("episode", episode, f"0 to {len(demonstrations) - 1}"))
    chosen = range(len(demonstrations)) if episode is None else [episode]
    film = None if video is None else VideoRecorder()
    replays = []
    with contextlib.closing(_showing(demonstrations.config, camera=camera, width=width, height=height)) as env:
        if video is not None:
            Path(video).parent.mkdir(parents=True, exist_ok=True)
        for number in chosen:
            one = demonstrations.episodes[number]
            replays.append(Replay(number, len(one), played_again(one, env, film)))
            if film is not None:
                film.pause()
    if film is not None:
        film.save(Path(str(video)))
    return replays


def _showing(config: RunConfig, **said: Any) -> AnyEnv:
    """The environment of a config, to be filmed, with what is said of its `video`."""
    video = {key: value for key, value in said.items() if value is not None}
    shown = resolve([Layer("argument", {"video": {**config.video.model_dump(), **video}})]).config.video
    size = {"render_width": shown.width, "render_height": shown.height}
    return factory.make_env(config, render_mode="rgb_array", camera=shown.camera, **size)


def _levels(noise: float | Sequence[float]) -> list[float]:
    """Noise levels.

    Raises:
        ConfigError: One is no standard deviation.
    """
    given = list(noise) if isinstance(noise, Sequence) and not isinstance(noise, str) else [noise]
    numbers = [one for one in given if isinstance(one, int | float) and not isinstance(one, bool)]
    if not given or len(numbers) < len(given) or not all(math.isfinite(one) and one >= 0 for one in numbers):
        raise ConfigError(bad_value("noise", noise, "a number, at least 0, or a list of such"))
    return [float(one) for one in numbers]


def _bar(episodes: int) -> Any:
    """A progress bar on a terminal."""
    from tqdm import tqdm

    return tqdm(total=episodes, unit="episode", dynamic_ncols=True, disable=not sys.stderr.isatty())
