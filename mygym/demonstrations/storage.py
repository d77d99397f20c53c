"""Demonstrations on disk: a Minari dataset in a folder that the user names, with the config inside."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from filelock import FileLock, Timeout
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.demonstrations.episodes import Demonstration, Demonstrations
from mygym.envs.ids import ANY_TASK
from mygym.errors import ConfigError, RunError, bad_value
from mygym.registry import resolve
from mygym.runs import directory

DATA = "data"
"""Folder in a dataset's that holds its files, where `minari.load_dataset` looks for them."""

METADATA = "metadata.json"
HDF5 = "main_data.hdf5"
OVERHEAD = 2**17
"""Bytes that HDF5 takes for an episode besides twice its numbers, at most."""

OURS = "mygym"
"""Key of Minari's metadata that holds the config and how the episodes were recorded."""

Store = Callable[[Demonstration], None]
Tell = Callable[[Mapping[str, Any]], None]


def require_minari() -> None:
    """Refuse to begin without the packages of the extra `demos`.

    Raises:
        RegistryError: One is missing; says what to install.
    """
    for package in ("minari", "h5py"):
        resolve(f"{package}:__version__", "demonstrations")


@contextlib.contextmanager
def storing(
    path: Path,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    arguments: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Store, Tell]]:
    """Write a dataset: whole at `path` when the block ends, nothing there if it fails.

    Until then it is in `.NAME.part` beside it; what a process that was killed has left there, the next one removes.

    Args:
        path: The dataset's folder, which does not exist.
        observation_space: Of the episodes.
        action_space: Of the episodes.
        arguments: Those of `mygym/Gym-v0` that make the environment, for Minari's `recover_environment`.

    Yields:
        What stores an episode; and what stores how they were recorded, `config` among it.

    Raises:
        ConfigError: Another process is writing the same, or what is in `.NAME.part` is none of ours.
        RunError: Writing failed.
    """
    spec = None
    if arguments is not None:
        spec = copy.deepcopy(gymnasium.spec(ANY_TASK))
        spec.kwargs = dict(arguments)
    part = path.absolute().with_name(f".{path.name}.part")  # Minari measures no files of a relative path
    with _claimed(part):
        with _writing(path):
            storage = resolve("minari.dataset.minari_storage:MinariStorage").new(
                part / DATA, observation_space, action_space, env_spec=spec, data_format="hdf5", jpeg_encoding=False
            )
        yield (
            lambda demonstration: _store(path, storage, demonstration),
            lambda about: _tell(path, storage, about),
        )
        with _writing(path):
            for file in (part / DATA).iterdir():
                with file.open("rb+") as written:
                    os.fsync(written.fileno())
            (part / directory.LOCK).unlink(missing_ok=True)
            part.rename(path)


@contextlib.contextmanager
def _claimed(part: Path) -> Iterator[None]:
    """An empty folder that no other process writes into; gone when the block ends."""
    with _writing(part):
        part.mkdir(parents=True, exist_ok=True)
        ours = (part / directory.LOCK).exists() or not any(part.iterdir())
    if not ours:
        raise ConfigError(bad_value("out", str(part), "another folder", "is in the way, and somebody else's"))
    lock = FileLock(part / directory.LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        why = "is being written by another process"
        raise ConfigError(bad_value("out", str(part), "another folder", why)) from None
    try:
        with _writing(part):
            for left in part.iterdir():
                if left.name != directory.LOCK:
                    directory.remove(left)
        yield
    finally:
        shutil.rmtree(part, ignore_errors=True)
        lock.release()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """As `directory.writing`, in one line: HDF5 has several to say."""
    try:
        with directory.writing(path):
            yield
    except RunError as error:
        raise RunError(" ".join(str(error).split())) from error


def _store(path: Path, storage: Any, one: Demonstration) -> None:
    infos: dict[str, Any] = {"expert_action": one.expert_actions, "stage": one.stages}
    if len(one.lead_in):
        infos["lead_in"] = one.lead_in
    buffer = resolve("minari.data_collector:EpisodeBuffer")(
        seed=one.seed,
        observations=one.observations,
        actions=one.actions,
        rewards=one.rewards,
        terminations=one.terminated,
        truncations=one.truncated,
        infos=infos,
    )
    with _writing(path):
        _make_room(storage.data_path / HDF5, one)
        number = storage.total_episodes
        storage.update_episodes([buffer])
        said = {"success": one.success, "noise": one.noise, "task": one.task}
        storage.update_episode_metadata([said], [number])


def _make_room(file: Path, one: Demonstration) -> None:
    """Fail while nothing is open if an episode finds no room: of a disk that becomes full, HDF5 may crash."""
    arrays = [value for value in vars(one).values() if isinstance(value, np.ndarray)]
    arrays += one.observations.values() if isinstance(one.observations, dict) else []
    with file.open("rb+", buffering=0) as ballast:
        end, wanted = ballast.seek(0, os.SEEK_END), OVERHEAD + 2 * sum(array.nbytes for array in arrays)
        try:
            while wanted:
                wanted -= ballast.write(bytes(wanted))
        finally:
            ballast.truncate(end)


def _tell(path: Path, storage: Any, about: Mapping[str, Any]) -> None:
    name = re.sub(r"[^-\w]", "_", path.name)
    with _writing(path):
        storage.update_metadata(
            {
                "dataset_id": name if re.search(r"[-_\w]-v\d+$", name) else f"{name}-v0",
                "minari_version": resolve("minari:__version__"),
                "algorithm_name": str(about["policy"]),
                OURS: dict(about),
            }
        )


def load_demonstrations(dataset: str | Path, key: str = "dataset") -> Demonstrations:
    """Read a dataset that `mygym demos` has written; none of the code that somebody may have put there is run.

    Args:
        dataset: Its folder.
        key: The setting that named it.

    Raises:
        ConfigError: It is none.
        RegistryError: The extra `demos` is not installed.
        RunError: It is damaged.
    """
    path = Path(dataset)
    metadata = _metadata(path, key)
    require_minari()
    try:
        storage = resolve("minari.dataset.minari_storage:MinariStorage").read(path / DATA)
        numbers = range(storage.total_episodes)
        episodes = tuple(
            _demonstration(number, content, said, storage)
            for number, content, said in zip(
                numbers, storage.get_episodes(numbers), storage.get_episode_metadata(numbers), strict=True
            )
        )
        if not episodes:
            raise ValueError("it holds no episode")
        about = dict(metadata[OURS])
        values = about.pop("config")
        if not isinstance(values, dict) or not isinstance(about.get("policy"), str):
            raise ValueError("it does not say how it was recorded")
    except Exception as error:  # whatever Minari and HDF5 raise
        raise RunError(f"{path}: cannot be read: {type(error).__name__}: {' '.join(str(error).split())}") from error
    return Demonstrations(path, episodes, storage.observation_space, storage.action_space, values, about)


def _metadata(path: Path, key: str) -> dict[str, Any]:
    """Minari's metadata of a dataset of ours.

    Raises:
        ConfigError: There is none.
    """
    why = "is not a dataset of demonstrations"
    try:
        metadata = json.loads((path / DATA / METADATA).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        metadata = None
    if isinstance(metadata, dict) and isinstance(metadata.get(OURS), dict):
        if {"observation_space", "action_space"} <= metadata.keys():
            return metadata
        why = "says no spaces"  # Minari would build the environment that it names, whatever that is
    near: list[str] = []
    with contextlib.suppress(OSError):
        near = sorted(str(found.parent.parent) for found in path.glob(f"*/{DATA}/{METADATA}"))[:5]
    raise ConfigError(bad_value(key, str(path), near or "the path that mygym demos printed last", why))


def _demonstration(number: int, content: Mapping[str, Any], said: Mapping[str, Any], storage: Any) -> Demonstration:
    """One episode.

    Raises:
        ValueError: It is not as it was written.
    """
    infos = content["infos"]
    actions = content["actions"]
    one = Demonstration(
        seed=int(said["seed"]),
        observations=content["observations"],
        actions=actions,
        expert_actions=infos["expert_action"],
        rewards=content["rewards"],
        terminated=content["terminations"],
        truncated=content["truncations"],
        stages=infos["stage"],
        lead_in=infos.get("lead_in", np.empty((0, *actions.shape[1:]), dtype=np.float32)),
        success=bool(said["success"]),
        noise=float(said["noise"]),
        task=str(said["task"]),
    )
    steps, action = len(one), storage.action_space.shape
    shapes: list[tuple[NDArray[Any], tuple[int, ...]]] = [
        *((array, (steps,)) for array in (one.rewards, one.terminated, one.truncated)),
        *((array, (len(array), *action)) for array in (one.actions, one.lead_in)),
        *((one.expert_actions, (steps + 1, *action)), (one.stages, (steps + 1,))),
        *((array, (steps + 1, *shape)) for array, shape in _shaped(one.observations, storage.observation_space)),
    ]
    low, high = storage.action_space.low, storage.action_space.high
    for array in (one.actions, one.expert_actions, one.lead_in):
        if not ((low <= array) & (array <= high)).all():
            raise ValueError(f"episode {number} has an action that is not in the action space")
    if not steps or any(array.shape != shape or not np.isfinite(array).all() for array, shape in shapes):
        raise ValueError(f"episode {number} is not as it was written")
    return one


def _shaped(observations: Any, space: Any) -> Iterator[tuple[NDArray[Any], tuple[int, ...]]]:
    """Arrays of observations, with the shape that each has at a time."""
    if isinstance(space, spaces.Dict):
        yield from ((observations[key], part.shape) for key, part in space.spaces.items() if part.shape is not None)
    else:
        yield observations, space.shape
