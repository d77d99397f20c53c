"""Demonstrations on disk: a Minari dataset with the config of the recording in its metadata."""

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
from mygym.runs import directory, files

DATA = "data"
"""Subfolder of a dataset with its files, where `minari.load_dataset` expects them."""

METADATA = "metadata.json"
HDF5 = "main_data.hdf5"
OVERHEAD = 2**17
"""Upper bound of the space that HDF5 needs for an episode in addition to twice its arrays, bytes."""

METADATA_KEY = "mygym"
"""Key of Minari's metadata that holds the config and the other properties of the recording."""

StoreEpisode = Callable[[Demonstration], None]
StoreMetadata = Callable[[Mapping[str, Any]], None]


def require_minari() -> None:
    """Check that the packages of the extra `demos` are installed.

    Raises:
        RegistryError: A package is missing; the message has the install command.
    """
    for package in ("minari", "h5py"):
        resolve(f"{package}:__version__", "demonstrations")


@contextlib.contextmanager
def storing(
    path: Path,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    arguments: Mapping[str, Any] | None = None,
) -> Iterator[tuple[StoreEpisode, StoreMetadata]]:
    """Write a dataset atomically: it appears at `path` when the block ends, and not at all if the block fails.

    Until then it is in `.NAME.part` in the same folder. Remains of a killed process are removed.

    Args:
        path: The dataset's folder, which does not exist.
        observation_space: Space of the observations.
        action_space: Space of the actions.
        arguments: Arguments of `mygym/Gym-v0` that build the environment, for Minari's `recover_environment`.

    Yields:
        A function that stores an episode, and a function that stores the properties of the recording with its `config`.

    Raises:
        ConfigError: Another process is writing the same dataset, or `.NAME.part` contains foreign files.
        RunError: Writing failed.
    """
    spec = None
    if arguments is not None:
        spec = copy.deepcopy(gymnasium.spec(ANY_TASK))
        spec.kwargs = dict(arguments)
    part = path.absolute().with_name(f".{path.name}.part")  # Minari cannot measure files under a relative path
    with _exclusive_folder(part):
        with _writing(path):
            storage = resolve("minari.dataset.minari_storage:MinariStorage").new(
                part / DATA, observation_space, action_space, env_spec=spec, data_format="hdf5", jpeg_encoding=False
            )
        yield (
            lambda demonstration: _store_episode(path, storage, demonstration),
            lambda about: _store_metadata(path, storage, about),
        )
        with _writing(path):
            for file in (part / DATA).iterdir():
                with file.open("rb+") as written:
                    os.fsync(written.fileno())
            (part / directory.LOCK).unlink(missing_ok=True)
            part.rename(path)


@contextlib.contextmanager
def _exclusive_folder(part: Path) -> Iterator[None]:
    """Create an empty folder, locked against other processes; remove it when the block ends.

    Raises:
        ConfigError: Another process holds the lock, or the folder contains foreign files.
        RunError: The folder cannot be written.
    """
    with _writing(part):
        part.mkdir(parents=True, exist_ok=True)
        removable = (part / directory.LOCK).exists() or not any(part.iterdir())
    if not removable:
        why = "exists and was not written by mygym demos"
        raise ConfigError(bad_value("out", str(part), "another folder", why))
    lock = FileLock(part / directory.LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        why = "is being written by another process"
        raise ConfigError(bad_value("out", str(part), "another folder", why)) from None
    try:
        with _writing(part):
            for remains in part.iterdir():
                if remains.name != directory.LOCK:
                    files.remove(remains)
        yield
    finally:
        shutil.rmtree(part, ignore_errors=True)
        lock.release()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Convert system errors as `files.writing`, with one-line messages: those of HDF5 have several lines."""
    try:
        with files.writing(path):
            yield
    except RunError as error:
        raise RunError(" ".join(str(error).split())) from error


def _store_episode(path: Path, storage: Any, demonstration: Demonstration) -> None:
    infos: dict[str, Any] = {"expert_action": demonstration.expert_actions, "stage": demonstration.stages}
    if len(demonstration.lead_in):
        infos["lead_in"] = demonstration.lead_in
    buffer = resolve("minari.data_collector:EpisodeBuffer")(
        seed=demonstration.seed,
        observations=demonstration.observations,
        actions=demonstration.actions,
        rewards=demonstration.rewards,
        terminations=demonstration.terminated,
        truncations=demonstration.truncated,
        infos=infos,
    )
    with _writing(path):
        _check_space_left(storage.data_path / HDF5, demonstration)
        number = storage.total_episodes
        storage.update_episodes([buffer])
        metadata = {"success": demonstration.success, "noise": demonstration.noise, "task": demonstration.task}
        storage.update_episode_metadata([metadata], [number])


def _check_space_left(file: Path, demonstration: Demonstration) -> None:
    """Write and remove as many bytes as the episode needs, because HDF5 may crash when the disk becomes full.

    Raises:
        OSError: The disk is full.
    """
    arrays = [value for value in vars(demonstration).values() if isinstance(value, np.ndarray)]
    arrays += demonstration.observations.values() if isinstance(demonstration.observations, dict) else []
    with file.open("rb+", buffering=0) as ballast:
        end, remaining = ballast.seek(0, os.SEEK_END), OVERHEAD + 2 * sum(array.nbytes for array in arrays)
        try:
            while remaining:
                remaining -= ballast.write(bytes(remaining))
        finally:
            ballast.truncate(end)


def _store_metadata(path: Path, storage: Any, about: Mapping[str, Any]) -> None:
    name = re.sub(r"[^-\w]", "_", path.name)
    with _writing(path):
        storage.update_metadata(
            {
                "dataset_id": name if re.search(r"[-_\w]-v\d+$", name) else f"{name}-v0",
                "minari_version": resolve("minari:__version__"),
                "algorithm_name": str(about["policy"]),
                METADATA_KEY: dict(about),
            }
        )


def load_demonstrations(dataset: str | Path, key: str = "dataset") -> Demonstrations:
    """Read a dataset of `mygym demos`, without executing code of a third-party dataset.

    Args:
        dataset: The dataset's folder.
        key: Setting that names the dataset, for the message.

    Raises:
        ConfigError: The folder is not a dataset of demonstrations.
        RegistryError: The extra `demos` is not installed.
        RunError: The dataset is damaged.
    """
    path = Path(dataset)
    metadata = _metadata(path, key)
    require_minari()
    try:
        storage = resolve("minari.dataset.minari_storage:MinariStorage").read(path / DATA)
        numbers = range(storage.total_episodes)
        episodes = tuple(
            _demonstration(number, content, episode_metadata, storage)
            for number, content, episode_metadata in zip(
                numbers, storage.get_episodes(numbers), storage.get_episode_metadata(numbers), strict=True
            )
        )
        if not episodes:
            raise ValueError("it holds no episode")
        about = dict(metadata[METADATA_KEY])
        values = about.pop("config")
        if not isinstance(values, dict) or not isinstance(about.get("policy"), str):
            raise ValueError("its metadata has no config or no policy")
    except Exception as error:  # Minari and HDF5 raise many types
        raise RunError(f"{path}: cannot be read: {type(error).__name__}: {' '.join(str(error).split())}") from error
    return Demonstrations(path, episodes, storage.observation_space, storage.action_space, values, about)


def _metadata(path: Path, key: str) -> dict[str, Any]:
    """Return Minari's metadata of a dataset of `mygym demos`.

    Raises:
        ConfigError: The folder is not such a dataset.
    """
    why = "is not a dataset of demonstrations"
    try:
        metadata = json.loads((path / DATA / METADATA).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        metadata = None
    if isinstance(metadata, dict) and isinstance(metadata.get(METADATA_KEY), dict):
        if {"observation_space", "action_space"} <= metadata.keys():
            return metadata
        why = "has no spaces in its metadata"  # Minari would build the environment in the metadata to get the spaces
    near: list[str] = []
    with contextlib.suppress(OSError):
        near = sorted(str(file.parent.parent) for file in path.glob(f"*/{DATA}/{METADATA}"))[:5]
    raise ConfigError(bad_value(key, str(path), near or "the path that mygym demos printed last", why))


def _demonstration(number: int, content: Mapping[str, Any], metadata: Mapping[str, Any], storage: Any) -> Demonstration:
    """Return a verified episode of the dataset.

    Args:
        number: Number of the episode.
        content: Minari's arrays of the episode.
        metadata: Minari's metadata of the episode.
        storage: Minari's storage, with the spaces.

    Raises:
        ValueError: The episode is damaged.
    """
    infos = content["infos"]
    actions = content["actions"]
    demonstration = Demonstration(
        seed=int(metadata["seed"]),
        observations=content["observations"],
        actions=actions,
        expert_actions=infos["expert_action"],
        rewards=content["rewards"],
        terminated=content["terminations"],
        truncated=content["truncations"],
        stages=infos["stage"],
        lead_in=infos.get("lead_in", np.empty((0, *actions.shape[1:]), dtype=np.float32)),
        success=bool(metadata["success"]),
        noise=float(metadata["noise"]),
        task=str(metadata["task"]),
    )
    steps, action = len(demonstration), storage.action_space.shape
    observations = _with_shapes(demonstration.observations, storage.observation_space)
    shapes: list[tuple[NDArray[Any], tuple[int, ...]]] = [
        *((array, (steps,)) for array in (demonstration.rewards, demonstration.terminated, demonstration.truncated)),
        *((array, (len(array), *action)) for array in (demonstration.actions, demonstration.lead_in)),
        *((demonstration.expert_actions, (steps + 1, *action)), (demonstration.stages, (steps + 1,))),
        *((array, (steps + 1, *shape)) for array, shape in observations),
    ]
    low, high = storage.action_space.low, storage.action_space.high
    for array in (demonstration.actions, demonstration.expert_actions, demonstration.lead_in):
        if not ((low <= array) & (array <= high)).all():
            raise ValueError(f"episode {number} has an action that is not in the action space")
    if not steps or any(array.shape != shape or not np.isfinite(array).all() for array, shape in shapes):
        raise ValueError(f"episode {number} has an array of the wrong shape or a number that is not finite")
    return demonstration


def _with_shapes(observations: Any, space: Any) -> Iterator[tuple[NDArray[Any], tuple[int, ...]]]:
    """Yield the arrays of the observations with the shape of a single observation."""
    if isinstance(space, spaces.Dict):
        yield from ((observations[key], part.shape) for key, part in space.spaces.items() if part.shape is not None)
    else:
        yield observations, space.shape
