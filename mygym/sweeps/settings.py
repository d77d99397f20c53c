"""The section `sweep` of a sweep file, and `Sweep`, everything that a sweep needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from mygym.config import Layer, RunConfig, merge_configs, resolve
from mygym.config.schema import Section
from mygym.config.validation_errors import dotted, first_mistake
from mygym.errors import ConfigError, bad_value
from mygym.nested import merged
from mygym.registry import algorithm
from mygym.runs.planning.resolve_config import resolve_config
from mygym.sweeps.objective import Objective, parse_objective
from mygym.sweeps.space import Parameter, find_parameters, size, with_values

SECTION = "sweep"
TRIALS = 30
"""Default number of trials, unless the space is a grid."""

MIN_WILCOXON_SEEDS = 5
"""Fewest seeds with which the pruner `wilcoxon` can save runs: of 4 seeds that are all worse, p is 0.06."""

MAX_TRIALS = 100_000
"""Largest number of trials."""

FAST = {"video": {"episodes": 0}, "tensorboard": False, "subprocesses": False}
"""Values of the runs of a sweep that the user has not set."""


class PopulationSettings(Section):
    """Settings of population-based training: the section `sweep.population`."""

    members: Annotated[int, Field(ge=2, le=1000)] = Field(8, description="number of runs that learn side by side")
    generations: Annotated[int, Field(ge=2, le=1000)] = Field(
        5, description="parts of a run; after each, bad members go on from copies of good members"
    )
    replaced: Annotated[float, Field(gt=0, le=0.5)] = Field(
        0.25, description="share of the members that is replaced after each generation by copies of the best"
    )


ObjectiveSetting = str | dict[Literal["maximize", "minimize"], str]


class SweepSettings(Section):
    """Settings of a sweep: the section `sweep` of its file."""

    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = Field(
        None, description=f"number of trials (default: {TRIALS}, or the whole grid)"
    )
    sampler: Literal["grid", "random", "tpe", "cmaes", "nsga2"] | None = Field(
        None, description="choice of the values (default: grid if all ranges are grids, else tpe)"
    )
    pruner: Literal["none", "median", "hyperband", "wilcoxon"] = Field(
        "none", description="stops bad trials: by the evaluations of their first seed; wilcoxon: by their seeds so far"
    )
    sampler_seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="seed of the sampler")
    seeds: Annotated[int, Field(ge=1, le=100)] | Annotated[list[int], Field(min_length=1)] = Field(
        1, description="seeds of each trial: a number of seeds, counted from `seed` of the config, or a list"
    )
    objective: ObjectiveSetting | Annotated[list[ObjectiveSetting], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="success (default), seconds, steps_to_0.9, seconds_to_0.9, {maximize: KEY} or {minimize: KEY}, or "
        "two of them (default of nsga2: [success, seconds])",
    )
    population: PopulationSettings | None = Field(
        None, description="population-based training in place of trials: the values change while the members learn"
    )
    space: Literal["default"] | None = Field(
        None, description="default: the search space that the algorithm has registered, below the ranges of the file"
    )

    @field_validator("seeds")
    @classmethod
    def _valid_seeds(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list) and (len(set(seeds)) < len(seeds) or not all(0 <= seed < 2**32 for seed in seeds)):
            raise ValueError("seeds from 0 to 4294967295, each once")
        return seeds


@dataclass(frozen=True)
class Sweep:
    """A sweep: settings, ranges, and the config that all trials share."""

    settings: SweepSettings
    base: Mapping[str, Any]
    """Config without ranges."""
    parameters: tuple[Parameter, ...]
    """Sorted by key, because samplers draw in this order."""
    seeds: tuple[int, ...]
    objectives: tuple[Objective, ...]
    """One objective; two if a sweep searches the trade-off between them."""

    @property
    def objective(self) -> Objective:
        """The first objective, which chooses the best trial."""
        return self.objectives[0]

    @property
    def sampler(self) -> str:
        """Name of the sampler."""
        if self.settings.population is not None:
            return "random"
        only_grids = all(parameter.kind == "grid" for parameter in self.parameters)
        return self.settings.sampler or ("grid" if only_grids else "tpe")

    @property
    def trials(self) -> int:
        """Number of trials: of a grid at most all combinations, of a population its members."""
        if self.settings.population is not None:
            return self.settings.population.members
        whole = size(self.parameters)
        if self.sampler == "grid" and whole is not None:
            return min(self.settings.trials or MAX_TRIALS, whole)
        return self.settings.trials or TRIALS

    def to_file(self) -> dict[str, Any]:
        """Return the content of a sweep file that `make_sweep` reads again as this sweep."""
        ranges: dict[str, Any] = {}
        for parameter in self.parameters:
            marker: Any = {parameter.kind: list(parameter.values)}
            for name in reversed(parameter.path):
                marker = {name: marker}
            ranges = merged(ranges, marker)
        settings = self.settings.model_dump(mode="json")
        chosen = {**settings, "space": None, "sampler": self.sampler, "trials": self.trials, "seeds": list(self.seeds)}
        return {
            **merged(self.base, ranges),
            SECTION: {key: value for key, value in chosen.items() if value is not None},
        }

    def fixed(self) -> dict[str, Any]:
        """Return the content that may not change when the sweep is resumed: all but the number of trials."""
        content = self.to_file()
        return {**content, SECTION: {key: value for key, value in content[SECTION].items() if key != "trials"}}


def make_sweep(file: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Sweep:
    """Return the sweep of a sweep file, overlaid by flags.

    Raises:
        ConfigError: A key is unknown, a range is invalid, or the config has no range.
    """
    content = merge_with_ranges(file, overrides or {})
    settings = _settings(content.pop(SECTION, {}))
    base, parameters = find_parameters(content)
    _check_keys(base, parameters)
    if settings.space is not None:
        base, parameters = _with_default_space(base, parameters)
    if not parameters:
        allowed = "a range such as algo_params.learning_rate={loguniform: [1e-5, 1e-2]}, or default"
        raise ConfigError(bad_value("space", {}, allowed, "has no range"))
    first = base.get("seed", 0)
    seeds = settings.seeds if isinstance(settings.seeds, list) else range(first, first + settings.seeds)
    base = {key: value for key, value in base.items() if key != "seed"}
    parameters = tuple(sorted(parameters, key=lambda parameter: parameter.path))  # a file may list them otherwise
    wanted = settings.objective or (["success", "seconds"] if settings.sampler == "nsga2" else "success")
    settings = settings.model_copy(update={"objective": wanted})
    objectives = tuple(map(parse_objective, wanted if isinstance(wanted, list) else [wanted]))
    sweep = Sweep(settings, base, parameters, tuple(seeds), objectives)
    _check_objectives(sweep)
    endless = next((parameter for parameter in parameters if parameter.finite is None), None)
    if sweep.sampler == "grid" and endless is not None:
        why = f"needs lists or whole numbers, and {endless.key} has the range {endless.kind}"
        raise ConfigError(bad_value("sweep.sampler", "grid", ["random", "tpe", "cmaes", "nsga2"], why))
    return sweep


def _check_objectives(sweep: Sweep) -> None:
    """Refuse samplers and pruners that do not suit the objectives or the seeds.

    Raises:
        ConfigError: They do not.
    """
    settings, several = sweep.settings, len(sweep.objectives) > 1
    if settings.population is not None:
        alone: dict[str, tuple[Any, Any]] = {
            "sampler": (settings.sampler or "random", "random"),
            "pruner": (settings.pruner, "none"),
            "seeds": (len(sweep.seeds), 1),
            "objective": (len(sweep.objectives), 1),
            "trials": (settings.trials or sweep.trials, sweep.trials),
        }
        for key, (value, allowed) in alone.items():
            if value != allowed:
                raise ConfigError(
                    bad_value(f"sweep.{key}", value, str(allowed), "cannot be combined with sweep.population")
                )
    if several and sweep.sampler == "cmaes":
        why = "maximizes or minimizes a single number"
        raise ConfigError(bad_value("sweep.sampler", "cmaes", ["nsga2", "tpe", "random", "grid"], why))
    if several and settings.pruner != "none":
        why = "compares trials by a single number, and the sweep has two objectives"
        raise ConfigError(bad_value("sweep.pruner", settings.pruner, ["none"], why))
    if settings.pruner == "wilcoxon" and len(sweep.seeds) < MIN_WILCOXON_SEEDS:
        why = "stops a trial after 4 seeds at the earliest, so that no run would be saved"
        allowed = f"{MIN_WILCOXON_SEEDS} or more, or another sweep.pruner"
        raise ConfigError(bad_value("sweep.seeds", len(sweep.seeds), allowed, why))


def merge_with_ranges(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `low` overlaid by those of `high`; a range replaces the value or range below it."""
    ranges = find_parameters(high)[1]
    cleared = dict(low)
    for parameter in ranges:
        cleared = _without(cleared, parameter.path)
    return merge_configs(cleared, high)


def _without(values: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    first, *rest = path
    if not rest or not isinstance(values.get(first), Mapping):
        return {key: value for key, value in values.items() if key != first or rest}
    return {**values, first: _without(values[first], rest)}


def _settings(section: Any) -> SweepSettings:
    """Return the settings of a sweep.

    Raises:
        ConfigError: A key is unknown, or a value is invalid.
    """
    try:
        return SweepSettings.model_validate(section)
    except ValidationError as error:
        path, given, allowed, kind, _ = first_mistake(error)
        key = dotted((SECTION, *path))
        if kind == "unknown":
            raise ConfigError(bad_value(key, given, sorted(SweepSettings.model_fields), "is not a key")) from None
        raise ConfigError(bad_value(key, given, allowed)) from None


def _check_keys(base: Mapping[str, Any], parameters: Sequence[Parameter]) -> None:
    """Refuse unknown keys; values are checked with the space.

    Raises:
        ConfigError: A key is not a key of configs.
    """
    for key in (*base, *(parameter.path[0] for parameter in parameters)):
        if key not in RunConfig.model_fields:
            raise ConfigError(bad_value(key, key, [*RunConfig.model_fields, SECTION], "is not a config key"))
    resolve([Layer("file", {"seed": base.get("seed", 0)})])


def _with_default_space(
    base: Mapping[str, Any], parameters: Sequence[Parameter]
) -> tuple[dict[str, Any], tuple[Parameter, ...]]:
    """Add the registered search space of the algorithm, except the hyperparameters that the user has set.

    Raises:
        ConfigError: The algorithm is a parameter, or has no search space.
    """
    for parameter in parameters:
        if parameter.key in ("algo", "framework"):
            why = f"needs a single {parameter.key}"
            raise ConfigError(bad_value("sweep.space", "default", f"no range of {parameter.key}", why))
    config = resolve_config(with_values(base, {each.path: each.corners[0] for each in parameters})).config
    entry = algorithm(config.algo, config.framework)
    if not entry.search_space:
        why = f"is not registered for {entry.name} of {entry.framework}"
        raise ConfigError(bad_value("sweep.space", "default", "ranges in the file, or --space KEY=RANGE", why))
    registered = find_parameters({"algo_params": entry.search_space})[1]
    chosen = {parameter.path for parameter in parameters} | set(_paths(base))
    added = [each for each in registered if not any(_overlap(each.path, path) for path in chosen)]
    return {**base, "algo": config.algo, "framework": config.framework}, (*parameters, *added)


def _paths(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of all values of a config; an empty mapping has none."""
    paths: list[tuple[str, ...]] = []
    for name, value in values.items():
        paths += _paths(value, (*path, name)) if isinstance(value, Mapping) else [(*path, name)]
    return paths


def _overlap(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Return whether a path is the other path or a part of it."""
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]
