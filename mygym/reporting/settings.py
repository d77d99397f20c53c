"""Settings: runs that differ in their seeds alone; their names, from the differences of the configs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mygym.config.layers import flatten
from mygym.config.schema import NOT_SHAPING
from mygym.errors import ConfigError, bad_value
from mygym.nested import at
from mygym.reporting.records import RunRecord, find_runs
from mygym.training import directory
from mygym.types import FloatArray

ENDED = ("done", "diverged")
"""Statuses that count: a run that diverged has a success rate of 0."""

MAX_CHARACTERS = 40
"""Maximum number of characters of a value in a name."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seeds alone."""

    path: str
    config: dict[str, Any]
    """Dotted key → value of all that shapes a result."""
    records: tuple[RunRecord, ...]
    """One run for each seed, sorted by seed."""
    eval_episodes: int = 0
    """Episodes of each evaluation; 0: unknown."""
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Metric → seed → last value, of a setting that `store` wrote; those of other settings are in their runs."""

    @property
    def scores(self) -> FloatArray:
        """Success rates `(runs, 1)`; those of diverged runs are 0."""
        return np.array([[record.success_rate if record.status == "done" else 0.0] for record in self.records], float)

    @property
    def ended(self) -> Setting:
        """The setting without the runs that have not ended."""
        return replace(self, records=tuple(record for record in self.records if record.status in ENDED))


def find_settings(sources: Iterable[str | Path]) -> list[Setting]:
    """Return the settings below folders, and those of files that `store` wrote, in this order.

    They have the runs that have ended.

    Raises:
        ConfigError: A folder or file does not exist, or has no run that has ended.
    """
    settings: dict[str, Setting] = {}
    for source in sources:
        more = _stored(Path(source)) if str(source).endswith(".json") else _in_folder(source)
        settings |= {setting.path: setting for setting in more if setting.path not in settings}
    return list(settings.values())


def settings_of(records: Iterable[RunRecord]) -> list[Setting]:
    """Return the settings of runs, in the order of the runs; of repeated runs of a seed, the newest that has ended.

    Raises:
        ConfigError: A config cannot be read, or runs in the same folder have different configs.
    """
    return [setting_of(runs) for runs in by_folder(records)]


def by_folder(records: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """Return the runs of each folder of a setting, in the order of the runs."""
    folders: dict[str, list[RunRecord]] = {}
    for record in records:
        folders.setdefault(record.setting, []).append(record)
    return list(folders.values())


def different_keys(*configs: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values differ between flat configs, sorted."""
    keys = sorted(set().union(*configs))
    return [key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs[1:])]


def names_of(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each flat config: the algorithm, and the values that differ between the configs.

    Parameters of algorithms are in the names if they differ between configs of the same algorithm.
    """
    keys = [key for key in different_keys(*configs) if key != "algo"] if configs else []
    algos = {str(config.get("algo")) for config in configs}
    shown: dict[str, list[str]] = {}
    for algo in algos:
        same = [config for config in configs if str(config.get("algo")) == algo]
        among = different_keys(*same)
        shown[algo] = [key for key in keys if key in among or not key.startswith(("algo_", "framework", "training_"))]
    short = _short_names({key for names in shown.values() for key in names})
    return [
        ", ".join(
            [
                *([str(config.get("algo"))] if len(algos) > 1 or not keys else []),
                *(f"{short[key]}={_text(config.get(key))}" for key in shown[str(config.get("algo"))]),
            ]
        )
        for config in configs
    ]


def setting_names(settings: Sequence[Setting]) -> list[str]:
    """Return a name for each setting, see `names_of`; those with equal configs, e.g. of two versions, have the path."""
    names = names_of([setting.config for setting in settings])
    return [
        f"{name}, {setting.path}" if names.count(name) > 1 else name
        for name, setting in zip(names, settings, strict=True)
    ]


def _in_folder(folder: str | Path) -> list[Setting]:
    records = find_runs(folder)
    settings = settings_of(record for record in records if record.status in ENDED)
    if not settings:
        statuses = ", ".join(sorted({record.status for record in records})) or "no runs"
        raise ConfigError(bad_value("settings", str(folder), "a folder with runs that have ended", f"has {statuses}"))
    return settings


def setting_of(records: Sequence[RunRecord]) -> Setting:
    """Return the setting of the runs in a folder, see `settings_of`."""
    first, *more = {record.config_hash: record for record in records}.values()
    config = directory.saved_config(Path(first.path))
    shaping = shaping_values(config)
    for other in more:  # runs that a user has moved here
        second = shaping_values(directory.saved_config(Path(other.path)))
        if different := different_keys(shaping, second):
            key = "steps" if "steps" in different else different[0]  # others follow, e.g. the size of a replay buffer
            both = f"{shaping.get(key)} ({first.path}) and {second.get(key)} ({other.path})"
            raise ConfigError(f"{key} differs: {both}; the runs in a folder must differ in their seeds alone")
    episodes = at(config, ("eval", "episodes"))
    return Setting(
        records[0].setting, shaping, tuple(_unique_seeds(records)), episodes if isinstance(episodes, int) else 0
    )


def _unique_seeds(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return one record for each seed, sorted by seed; of repeated runs the newest that has ended."""
    newest = {
        record.seed: record for record in sorted(records, key=lambda record: (record.status in ENDED, -record.age_s))
    }
    return sorted(newest.values(), key=lambda record: record.seed or 0)


def _stored(file: Path) -> list[Setting]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [
            Setting(
                f"{file}: {setting['path']}",
                dict(setting["config"]),
                tuple(map(RunRecord.of_json, setting["records"])),
                figures=setting.get("figures", {}),
            )
            for setting in content["settings"]
        ]
    except (OSError, ValueError, LookupError, TypeError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise ConfigError(bad_value("settings", str(file), "a file of `mygym compare --save`", why)) from None


def shaping_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted key → value of all of a nested config that shapes a result."""
    return dict(flatten({key: value for key, value in config.items() if key not in NOT_SHAPING}))


def _short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return key → its last name, or the whole key if two keys end in the same way."""
    last = {key: key.rpartition(".")[2] for key in keys}
    return {key: name if list(last.values()).count(name) == 1 else key for key, name in last.items()}


def _text(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
