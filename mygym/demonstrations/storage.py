"""Storage of demonstrations as a Minari dataset with the config of the recording in its metadata."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from filelock import BaseFileLock, FileLock, Timeout
from gymnasium import spaces

from mygym.demonstrations.episodes import Demonstration
from mygym.envs.ids import ANY_TASK
from mygym.errors import ConfigError, RunError, bad_value
from mygym.registry import resolve
from mygym.training import directory, files


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder `.NAME.part` beside `path`; rename it to `path` at the end, or remove it after an error.

    The folder is locked against other processes. Remains of a killed process are removed.

    Args:
        path: Path of the folder, which does not exist.

    Raises:
        ConfigError: Another process is writing the same folder, or `.NAME.part` contains foreign files.
        RunError: The folder cannot be written.
    """
    temporary = path.absolute().with_name(f".{path.name}.part")  # Minari cannot measure files under a relative path
    with _exclusive(temporary) as lock:
        yield temporary
        with writing(path):
            if sys.platform == "win32":  # it removes no open file
                lock.release()
            (temporary / directory.LOCK).unlink(missing_ok=True)
            temporary.rename(path)


@contextlib.contextmanager
def _exclusive(temporary: Path) -> Iterator[BaseFileLock]:
    """Create an empty folder, locked against other processes; remove it when the block ends."""
    with writing(temporary):
        temporary.mkdir(parents=True, exist_ok=True)
        removable = (temporary / directory.LOCK).exists() or not any(temporary.iterdir())
    if not removable:
        why = "exists and was not written by mygym"
        raise ConfigError(bad_value("out", str(temporary), "another folder", why))
    lock = FileLock(temporary / directory.LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        why = "is being written by another process"
        raise ConfigError(bad_value("out", str(temporary), "another folder", why)) from None
    try:
        with writing(temporary):
            for remains in temporary.iterdir():
                if remains.name != directory.LOCK:
                    files.remove(remains)
        yield lock
    finally:
        if sys.platform == "win32":
            lock.release()
        shutil.rmtree(temporary, ignore_errors=True)
        lock.release()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert system errors as `files.writing` does, with messages in one line, because HDF5's have several lines."""
    try:
        with files.writing(path):
            yield
    except RunError as error:
        raise RunError(" ".join(str(error).split())) from error


DATA = "data"
"""Subfolder in which `minari.load_dataset` expects the files of a dataset."""

HDF5 = "main_data.hdf5"
OVERHEAD = 2**17
"""Upper bound of the space, in bytes, that HDF5 needs for an episode besides twice the size of its arrays."""

METADATA_KEY = "mygym"
"""Key of Minari's metadata that holds the config and the other properties of the recording."""

StoreEpisode = Callable[[Demonstration], None]
StoreMetadata = Callable[[Mapping[str, Any]], None]


def require_minari() -> None:
    """Check that the packages of the extra `demos` are installed.

    Raises:
        RegistryError: A package is missing; the message contains the install command.
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
    with new_folder(path) as temporary:
        with writing(path):
            storage = resolve("minari.dataset.minari_storage:MinariStorage").new(
                temporary / DATA,
                observation_space,
                action_space,
                env_spec=spec,
                data_format="hdf5",
                jpeg_encoding=False,
            )
        yield (
            lambda demonstration: _store_episode(path, storage, demonstration),
            lambda about: _store_metadata(path, storage, about),
        )
        with writing(path):
            for file in (temporary / DATA).iterdir():
                with file.open("rb+") as written:
                    os.fsync(written.fileno())


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
    with writing(path):
        _check_space_left(storage.data_path / HDF5, demonstration)
        number = storage.total_episodes
        storage.update_episodes([buffer])
        metadata = {"success": demonstration.success, "noise": demonstration.noise, "task": demonstration.task}
        storage.update_episode_metadata([metadata], [number])


def _check_space_left(file: Path, demonstration: Demonstration) -> None:
    """Write and remove the number of bytes that the episode needs, because HDF5 may crash when the disk becomes full.

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
    with writing(path):
        storage.update_metadata(
            {
                "dataset_id": name if re.search(r"[-_\w]-v\d+$", name) else f"{name}-v0",
                "minari_version": resolve("minari:__version__"),
                "algorithm_name": str(about["policy"]),
                METADATA_KEY: dict(about),
            }
        )
