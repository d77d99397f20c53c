"""Demonstrations as a Minari dataset, with the config of the recording: storage, loading, and checks against a run."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.config import RunConfig
from mygym.config.schema import renamed
from mygym.demonstrations.episodes import Demonstration, Demonstrations
from mygym.envs.arguments import checked_arguments
from mygym.envs.ids import ANY_TASK
from mygym.errors import ConfigError, RunError, bad_value, error_text
from mygym.planning.plan import Plannable, plan_of
from mygym.registry import resolve
from mygym.registry.user_files import user_modules
from mygym.tasks.lookup import find_task
from mygym.training import directory, env_factory, files


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder `.NAME.part` beside `path`; rename it to `path` at the end, or remove it after an error.

    The folder is locked against other processes. Remains of a killed process are removed.

    Raises:
        ConfigError: Another process is writing the same folder, or `.NAME.part` contains foreign files.
        RunError: The folder cannot be written.
    """
    temporary = path.absolute().with_name(f".{path.name}.part")  # Minari cannot measure files under a relative path
    with writing(temporary):
        temporary.mkdir(parents=True, exist_ok=True)
        removable = (temporary / directory.LOCK).exists() or not any(temporary.iterdir())
    if not removable:
        why = "exists and was not written by mygym"
        raise ConfigError(bad_value("out", str(temporary), "another folder", why))
    with contextlib.ExitStack() as lock:
        why = "is being written by another process"
        lock.enter_context(files.locked(temporary / directory.LOCK, "out", "another folder", why))
        try:
            with writing(temporary):
                for remains in temporary.iterdir():
                    if remains.name != directory.LOCK:
                        files.remove(remains)
            yield temporary
            with writing(path):
                if sys.platform == "win32":  # it removes no open file
                    lock.close()
                (temporary / directory.LOCK).unlink(missing_ok=True)
                temporary.rename(path)
        finally:
            if sys.platform == "win32":
                lock.close()
            shutil.rmtree(temporary, ignore_errors=True)


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

Stores = tuple[Callable[[Demonstration], None], Callable[[Mapping[str, Any]], None]]
"""Functions that store an episode, and the properties of the recording."""


def require_minari() -> None:
    """Refuse to go on without the packages of the extra `demos`; the message has the command that installs them."""
    for package in ("minari", "h5py"):
        resolve(f"{package}:__version__", "demonstrations")


@contextlib.contextmanager
def storing(
    path: Path,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    arguments: Mapping[str, Any] | None = None,
) -> Iterator[Stores]:
    """Write a dataset atomically: it appears at `path` when the block ends, and not at all if the block fails.

    Until then it is in `.NAME.part` in the same folder. Remains of a killed process are removed. `arguments` of
    `mygym/Gym-v0` build the environment, for Minari's `recover_environment`.

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


METADATA = "metadata.json"

OTHER_FORMATS = {"meta/info.json": "is a LeRobotDataset", "annotations": "is a data set of images"}
"""File or folder → the data set that has it, which other programs or trainings read."""

ALLOWED = "a folder that mygym demos has written with --format minari, the default"


@checked_arguments
def load_demonstrations(dataset: str | Path, key: str = "dataset") -> Demonstrations:
    """Read a dataset of `mygym demos`, without executing code of a third-party dataset.

    Args:
        dataset: The dataset's folder.
        key: Setting that names the dataset, for the message.

    Returns:
        The episodes, with the config of their recording.

    Raises:
        ConfigError: The folder is not a dataset of demonstrations, or it is damaged.
        RegistryError: The extra `demos` is not installed.
    """
    path = Path(dataset)
    metadata = read_metadata(path, key)
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
        values = renamed(values, notify=False)
    except Exception as error:  # Minari and HDF5 raise many types
        raise ConfigError(bad_value(key, str(path), ALLOWED, f"cannot be read: {error_text(error)}")) from error
    return Demonstrations(path, episodes, storage.observation_space, storage.action_space, values, about)


def recorded_values(dataset: str | Path) -> Mapping[str, Any]:
    """Return the config values of a dataset without reading its episodes; empty if the folder is not a dataset."""
    values: Any = None
    with contextlib.suppress(ConfigError):
        values = read_metadata(Path(dataset), "dataset")[METADATA_KEY].get("config")
    return renamed(values, notify=False) if isinstance(values, dict) else {}


def read_json(file: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file; empty without a readable one."""
    content: Any = None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if file.is_file():  # reading a pipe would block
            content = json.loads(file.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def read_metadata(path: Path, key: str) -> dict[str, Any]:
    """Return Minari's metadata of a dataset of `mygym demos`; refuse any other folder."""
    why, metadata = "is not a dataset of demonstrations", read_json(path / DATA / METADATA)
    if isinstance(metadata.get(METADATA_KEY), dict):
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
    """Return an episode of the dataset; raise ValueError if it is damaged."""
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
    observations: Any = demonstration.observations
    space = storage.observation_space
    if not isinstance(space, spaces.Dict):
        observations, space = {"": observations}, {"": space}
    shapes: list[tuple[NDArray[Any], tuple[int, ...]]] = [
        *((array, (steps,)) for array in (demonstration.rewards, demonstration.terminated, demonstration.truncated)),
        *((array, (len(array), *action)) for array in (demonstration.actions, demonstration.lead_in)),
        *((demonstration.expert_actions, (steps + 1, *action)), (demonstration.stages, (steps + 1,))),
        *((observations[key], (steps + 1, *subspace.shape)) for key, subspace in space.items()),
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


MEANING = ("task", "robot", "workspace", "control", "actions", "image_params")
"""Config keys that determine the meaning of observations and actions, even if the spaces are equal."""


def check_compatible(demonstrations: Demonstrations, run: Plannable, *, rewards: bool = True) -> None:
    """Refuse demonstrations of another task, robot, workspace, controller or space, or with other rewards.

    A multi-task run may use demonstrations of some of its tasks. Task parameters, objects and randomization may differ.

    Args:
        demonstrations: Demonstrations to learn from.
        run: The run's plan, or its complete config.
        rewards: Whether the stored rewards are used.

    Raises:
        ConfigError: A key differs; the message has its value in the run and in the demonstrations, and a remedy.
    """
    keys = (*MEANING, "reward") if rewards else MEANING
    plan = plan_of(run)
    run_configs = [variant.config for variant in (*plan.variants, *plan.evaluated_variants)]
    for recorded in (variant.config for variant in plan_of(demonstrations.config).evaluated_variants):
        differences = [
            [key for key in keys if _value(run_config, key) != _value(recorded, key)] for run_config in run_configs
        ]
        nearest = min(range(len(run_configs)), key=lambda index: len(differences[index]))
        if differences[nearest]:
            key = differences[nearest][0]
            why = f"is not the value of the recording {demonstrations.path}"
            allowed = f"{_value(recorded, key)}, or new demonstrations: mygym demos"
            raise ConfigError(bad_value(key, _value(run_configs[nearest], key), allowed, why))
    with contextlib.closing(env_factory.make_env(plan)) as env:
        for name in ("observation_space", "action_space"):
            _check_space(demonstrations, name, getattr(env, name))


def variant_indices(demonstrations: Demonstrations, run: Plannable) -> list[int]:
    """Return for each demonstration the index of the run's variant with the same config, or with a compatible config.

    The demonstrations pass `check_compatible`.
    """
    run_configs = [variant.config for variant in plan_of(run).variants]
    indices = {}
    for variant in plan_of(demonstrations.config).evaluated_variants:
        recorded = variant.config
        compatible = [
            index
            for index, run_config in enumerate(run_configs)
            if all(_value(recorded, key) == _value(run_config, key) for key in MEANING)
        ]
        equal = [index for index in compatible if run_configs[index] == recorded]
        indices[variant.label] = (equal or compatible)[-1]  # the last variant of a curriculum is the run's config
    first = next(iter(indices))
    return [indices[demonstration.task or first] for demonstration in demonstrations.episodes]


def _check_space(demonstrations: Demonstrations, name: str, space: gymnasium.Space[Any]) -> None:
    recorded = getattr(demonstrations, name)
    if space == recorded:
        return
    why = f"is not the space of {demonstrations.path}, {_shape(recorded)}"
    keys = "observations, spaces and randomize" if name == "observation_space" else "spaces"
    values = {key: demonstrations.values.get(key) for key in ("observations", "spaces")}
    allowed = f"{keys} of the recording ({values}), or new demonstrations: mygym demos"
    raise ConfigError(bad_value(name, _shape(space), allowed, why))


def _value(config: RunConfig, key: str) -> Any:
    return find_task(config.task).name if key == "task" else config.model_dump(include={key})[key]


def _shape(space: gymnasium.Space[Any]) -> Any:
    """Return the shape of a space for a message; for a dictionary, the shape of each subspace."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: subspace.shape for key, subspace in space.spaces.items()}
    return space.shape
