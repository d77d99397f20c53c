"""Storage of demonstrations as a LeRobotDataset v3.0: Parquet files, a video of each camera, statistics."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.demonstrations.episodes import Demonstration
from mygym.demonstrations.storage import Stores, new_folder, read_json, writing
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value
from mygym.registry import resolve
from mygym.tasks.state import CONTROL_HZ
from mygym.training.files import write_json
from mygym.training.video import run_ffmpeg
from mygym.wrappers import ACTION, IMAGES, STATE, check_images, feature_of

CHUNK = "chunk-000/file-000"
"""Path of the only file of each kind: readers find episodes by their rows in it, and by their times in a video."""

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
ABOUT = "meta/mygym.json"
"""File with the config and the other properties of the recording."""

SIZES = {"chunks_size": 1000, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200}
"""Limits at which LeRobot begins a new file when it adds episodes."""

RAW = "frames.rgb"
"""File of a camera's frames until they are encoded."""

OPTIONS = ("-codec:v", "libx264", "-crf", "18", "-g", "2", "-pix_fmt", "yuv420p")
"""Options of ffmpeg; every second frame is a key frame, so that readers reach each frame quickly."""

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}

COUNTERS = ("frame_index", "episode_index", "index", "task_index")


def require_pyarrow() -> None:
    """Refuse to go on without the package of the extra `lerobot`; the message has the command that installs it."""
    resolve("pyarrow:__version__", "format lerobot")


@contextlib.contextmanager
def storing(path: Path, env: RobotEnv) -> Iterator[Stores]:
    """Write a data set atomically: it appears at `path` when the block ends, and not at all if the block fails.

    Raises:
        ConfigError: LeRobot's format has no field for an observation or an action.
        RunError: Writing failed.
    """
    check_images(env)
    if not isinstance(env.action_space, spaces.Box):
        raise ConfigError(bad_value("actions.discrete", env.action_space, "continuous actions, with format lerobot"))
    if not float(rate := env.metadata["render_fps"]).is_integer():
        repeat, why = env.world.control.config.action_repeat, f"gives {rate:g} actions per second"
        allowed = f"a divisor of {CONTROL_HZ:g}, because format lerobot has a whole number of frames per second"
        raise ConfigError(bad_value("control.action_repeat", repeat, allowed, why))
    with new_folder(path) as folder:
        writer = _Writer(folder, env)
        with contextlib.closing(writer):

            def store(demonstration: Demonstration) -> None:
                with writing(path):
                    writer.add(demonstration)

            yield store, lambda about: write_json(folder / ABOUT, about)
            with writing(path):
                writer.finish()


def recorded_values(path: Path) -> Mapping[str, Any]:
    """Return the config values of a data set; empty if the folder is not a data set of `mygym demos`."""
    values = read_json(path / ABOUT).get("config")
    return values if isinstance(values, dict) else {}


class _Writer:
    """Files of a data set."""

    def __init__(self, folder: Path, env: RobotEnv) -> None:
        import pyarrow
        from pyarrow import parquet

        self._arrow, self._parquet = pyarrow, parquet
        self._folder, self._fps, self._robot = folder, int(env.metadata["render_fps"]), env.robot.name
        self._task = env.task.describe()
        self._features = _features(env, self._fps)
        self._columns = [name for name, feature in self._features.items() if feature["dtype"] != "video"]
        self._episodes: list[dict[str, Any]] = []
        self._frames = 0
        self._samples: dict[str, list[NDArray[Any]]] = {name: [] for name in self._features}
        for kind in ("data/chunk-000", "meta/episodes/chunk-000"):
            (folder / kind).mkdir(parents=True)
        self._raw: dict[str, Any] = {}
        for name in (name for name in self._features if name not in self._columns):
            file = folder / f"videos/{name}/{CHUNK}"
            file.parent.mkdir(parents=True)
            self._raw[name] = file.with_name(RAW).open("wb")
        fields = [(name, self._type(self._features[name])) for name in self._columns]
        self._schema = pyarrow.schema(fields)
        self._rows = parquet.ParquetWriter(folder / f"data/{CHUNK}.parquet", self._schema)

    def _type(self, feature: Mapping[str, Any]) -> Any:
        kind = {"float32": self._arrow.float32(), "int64": self._arrow.int64(), "bool": self._arrow.bool_()}
        value, (size,) = kind[feature["dtype"]], feature["shape"]
        return value if size == 1 else self._arrow.list_(value, size)

    def add(self, demonstration: Demonstration) -> None:
        """Add the rows and the frames of an episode."""
        steps, number = len(demonstration), len(self._episodes)
        values = _observed(demonstration)
        values[ACTION] = demonstration.actions.astype(np.float32)
        values["next.reward"] = demonstration.rewards.astype(np.float32)
        values["next.done"] = demonstration.terminated | demonstration.truncated
        values["next.success"] = values["next.done"] & demonstration.success
        values["timestamp"] = (np.arange(steps) / self._fps).astype(np.float32)
        values["frame_index"] = np.arange(steps)
        values["episode_index"] = np.full(steps, number)
        values["index"] = self._frames + np.arange(steps)
        values["task_index"] = np.zeros(steps, dtype=np.int64)
        for name, file in self._raw.items():
            file.write(np.ascontiguousarray(values[name]).tobytes())
        arrays = [
            self._arrow.array(list(values[name].reshape(steps, -1)), type=self._schema.field(name).type)
            if self._features[name]["shape"] != [1]
            else self._arrow.array(values[name].ravel(), type=self._schema.field(name).type)
            for name in self._columns
        ]
        self._rows.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        episode = {"episode_index": number, "tasks": [self._task], "length": steps}
        episode |= {"data/chunk_index": 0, "data/file_index": 0}
        episode |= {"dataset_from_index": self._frames, "dataset_to_index": self._frames + steps}
        for name in self._raw:
            start, end = self._frames / self._fps, (self._frames + steps) / self._fps
            location = {"chunk_index": 0, "file_index": 0, "from_timestamp": start, "to_timestamp": end}
            episode |= {f"videos/{name}/{key}": value for key, value in location.items()}
        for name, array in values.items():
            sample = array if name in self._columns else array[:: max(1, steps // 4)]  # frames of a video look alike
            self._samples[name].append(sample)
            for key, value in _statistics(sample, is_video=name in self._raw).items():
                episode[f"stats/{name}/{key}"] = value
        self._episodes.append(episode | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        self._frames += steps

    def finish(self) -> None:
        """Encode the videos, and write the files in `meta`."""
        self.close()
        for name, file in self._raw.items():
            raw = Path(file.name)
            height, width, _ = self._features[name]["shape"]
            run_ffmpeg(raw.with_name("file-000.mp4"), f"file:{raw}", None, (width, height), self._fps, OPTIONS)
            raw.unlink()
        meta = self._folder / "meta"
        episodes = self._arrow.Table.from_pylist(self._episodes)
        self._parquet.write_table(episodes, meta / f"episodes/{CHUNK}.parquet")
        self._parquet.write_table(_task_table(self._arrow, self._task), meta / "tasks.parquet")
        statistics = {
            name: _statistics(np.concatenate(samples), is_video=name in self._raw)
            for name, samples in self._samples.items()
        }
        write_json(meta / "stats.json", statistics)
        write_json(
            meta / "info.json",
            {
                "codebase_version": "v3.0",
                "robot_type": self._robot,
                "total_episodes": len(self._episodes),
                "total_frames": self._frames,
                "total_tasks": 1,
                **SIZES,
                "fps": self._fps,
                "splits": {"train": f"0:{len(self._episodes)}"},
                "data_path": DATA_PATH,
                "video_path": VIDEO_PATH if self._raw else None,
                "features": self._features,
            },
        )

    def close(self) -> None:
        """Close the files; may be called repeatedly."""
        self._rows.close()
        for file in self._raw.values():
            file.close()


def _features(env: RobotEnv, fps: int) -> dict[str, dict[str, Any]]:
    """Return name → type, shape and names of each feature."""
    space = env.observation_space
    observed = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
    features: dict[str, dict[str, Any]] = {}
    for key, subspace in observed.items():
        name = feature_of(key)
        if name is None:
            continue
        assert subspace.shape is not None
        if name.startswith(IMAGES):
            features[name] = _video(subspace.shape, fps)
        else:
            names = _names(env) if name == STATE else None
            features[name] = {"dtype": "float32", "shape": list(subspace.shape), "names": names}
    names = list(env.world.control_names)
    features[ACTION] = {"dtype": "float32", "shape": [len(names)], "names": names}
    types = {"next.reward": "float32", "next.done": "bool", "next.success": "bool", "timestamp": "float32"}
    types |= dict.fromkeys(COUNTERS, "int64")
    return features | {name: {"dtype": kind, "shape": [1], "names": None} for name, kind in types.items()}


def _video(shape: tuple[int, ...], fps: int) -> dict[str, Any]:
    height, width, channels = shape
    info = {"video.height": height, "video.width": width, "video.codec": "h264", "video.pix_fmt": "yuv420p"}
    info |= {"video.is_depth_map": False, "video.fps": fps, "video.channels": channels, "has_audio": False}
    return {"dtype": "video", "shape": list(shape), "names": ["height", "width", "channels"], "info": info}


def _names(env: RobotEnv) -> list[str]:
    """Return a name for each number of the observation vector."""
    names = [""] * max(part.stop for part in env.components.values())
    for component, part in env.components.items():
        names[part] = [f"{component}.{index}" for index in range(part.stop - part.start)]
    return names


def _observed(demonstration: Demonstration) -> dict[str, NDArray[Any]]:
    """Return feature → values of the observations before each action."""
    observations = demonstration.observations
    given = observations if isinstance(observations, dict) else {"observation": observations}
    named = {feature_of(key): values[:-1] for key, values in given.items()}
    return {name: values for name, values in named.items() if name is not None}


def _statistics(values: NDArray[Any], is_video: bool) -> dict[str, Any]:
    """Return the statistics of values `(n, …)`, as nested lists; those of images are of channels in [0, 1]."""
    count = len(values)
    rows = values.reshape(-1, 3) / 255.0 if is_video else values.reshape(count, -1).astype(float)
    shape = (3, 1, 1) if is_video else (rows.shape[1],)
    numbers = {"min": rows.min(0), "max": rows.max(0), "mean": rows.mean(0), "std": rows.std(0)}
    numbers |= {name: np.quantile(rows, share, axis=0) for name, share in QUANTILES.items()}
    return {**{name: number.reshape(shape).tolist() for name, number in numbers.items()}, "count": [count]}


def _task_table(arrow: Any, task: str) -> Any:
    """Return the table of tasks; its index in pandas is the task in words."""
    index = "__index_level_0__"
    column = {"name": None, "field_name": index, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    number = {"pandas_type": "int64", "numpy_type": "int64", "metadata": None}
    about = {
        "index_columns": [index],
        "column_indexes": [],
        "columns": [{"name": "task_index", "field_name": "task_index", **number}, column],
    }
    table = arrow.table({"task_index": [0], index: [task]})
    return table.replace_schema_metadata({"pandas": json.dumps(about)})
