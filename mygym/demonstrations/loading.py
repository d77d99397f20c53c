"""Loading of demonstrations from a dataset of `mygym demos`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.demonstrations.episodes import Demonstration, Demonstrations
from mygym.demonstrations.storage import DATA, METADATA_KEY, require_minari
from mygym.errors import ConfigError, RunError, bad_value
from mygym.registry import resolve
from mygym.registry.user_files import user_modules

METADATA = "metadata.json"

OTHER_FORMATS = {"meta/info.json": "is a LeRobotDataset", "annotations": "is a data set of images"}
"""File or folder → the data set that has it, which other programs or trainings read."""

ALLOWED = "a folder that mygym demos has written with --format minari, the default"


def load_demonstrations(dataset: str | Path, key: str = "dataset") -> Demonstrations:
    """Read a dataset of `mygym demos`, without executing code of a third-party dataset.

    Args:
        dataset: The dataset's folder.
        key: Setting that names the dataset, for the message.

    Returns:
        The episodes, with the config of their recording.

    Raises:
        ConfigError: The folder is not a dataset of demonstrations.
        RegistryError: The extra `demos` is not installed.
        RunError: The dataset is damaged.
    """
    path = Path(dataset)
    metadata = _metadata(path, key)
    user_modules.exclude(path)
    require_minari()
    try:
        for file in (path / DATA).iterdir():
            if not file.is_file():  # reading a pipe would block
                raise OSError(f"{file.name} is not a regular file")
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


def recorded_values(dataset: str | Path) -> Mapping[str, Any]:
    """Return the config values of a dataset without reading its episodes; empty if the folder is not a dataset."""
    values: Any = None
    with contextlib.suppress(ConfigError):
        values = _metadata(Path(dataset), "dataset")[METADATA_KEY].get("config")
    return values if isinstance(values, dict) else {}


def _metadata(path: Path, key: str) -> dict[str, Any]:
    """Return Minari's metadata of a dataset of `mygym demos`.

    Raises:
        ConfigError: The folder is not such a dataset.
    """
    why = "is not a dataset of demonstrations"
    file = path / DATA / METADATA
    metadata = None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if file.is_file():  # reading a pipe would block
            metadata = json.loads(file.read_text(encoding="utf-8"))
    if isinstance(metadata, dict) and isinstance(metadata.get(METADATA_KEY), dict):
        if {"observation_space", "action_space"} <= metadata.keys():
            return metadata
        why = "has no spaces in its metadata"  # Minari would build the environment in the metadata to get the spaces
    near: list[str] = []
    with contextlib.suppress(OSError):
        if formats := [other for name, other in OTHER_FORMATS.items() if (path / name).exists()]:
            why = f"{formats[0]}, not demonstrations that mygym reads"
        near = sorted(str(file.parent.parent) for file in path.glob(f"*/{DATA}/{METADATA}"))[:5]
    raise ConfigError(bad_value(key, str(path), near or ALLOWED, why))


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
        lead_in=infos.get("lead_in", np.empty((0, *actions.shape[1:]), dtype=actions.dtype)),
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
    low, high = _bounds(storage.action_space)
    for array in (demonstration.actions, demonstration.expert_actions, demonstration.lead_in):
        if not ((low <= array) & (array <= high)).all():
            raise ValueError(f"episode {number} has an action that is not in the action space")
    if not steps or any(array.shape != shape or not np.isfinite(array).all() for array, shape in shapes):
        raise ValueError(f"episode {number} has an array of the wrong shape or a number that is not finite")
    return demonstration


def _bounds(space: Any) -> tuple[Any, Any]:
    """Return the lowest and the highest action of a space."""
    if isinstance(space, spaces.Box):
        return space.low, space.high
    return 0, (space.n if isinstance(space, spaces.Discrete) else space.nvec) - 1


def _with_shapes(observations: Any, space: Any) -> Iterator[tuple[NDArray[Any], tuple[int, ...]]]:
    """Yield the arrays of the observations with the shape of a single observation."""
    if isinstance(space, spaces.Dict):
        yield from (
            (observations[key], subspace.shape) for key, subspace in space.spaces.items() if subspace.shape is not None
        )
    else:
        yield observations, space.shape
