"""The section `sweep` of a sweep file, and `Sweep`, everything that a sweep needs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, field_validator

from mygym.config import Layer, Resolved, RunConfig, merge_configs, resolve
from mygym.config.layers import TEXTS, flatten
from mygym.config.schema import Section, renamed
from mygym.config.validation_errors import explained
from mygym.errors import ConfigError, bad_value
from mygym.nested import at, without
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm
from mygym.reporting.statistics import iqm
from mygym.sweeps.space import RANGE_WORDS, Parameter, find_parameters, size, with_values
from mygym.training.result import Result

NAMES = ("success", "seconds", "steps_to_0.9", "seconds_to_0.9", "{maximize: KEY}", "{minimize: KEY}")
NUMBERS = ("steps", "success_rate", "mean_return", "wall_time_s", "steps_per_second")
NESTED = ("strategy", "success_by_task", "stage_reached")
"""Fields of a result that are numbers, and mappings with numbers."""

COSTS = {"steps": "steps", "seconds": "wall_time_s"}
"""Cost in the name of an objective → its field of an evaluation and of a result."""


@dataclass(frozen=True)
class Objective:
    """Number that a sweep maximizes or minimizes."""

    name: str
    """Name for tables and axes, e.g. `steps_to_0.9`."""
    maximize: bool
    path: tuple[str, ...] = ()
    """Path of a number in result.json; empty for a cost."""
    cost: str = ""
    """`steps` or `wall_time_s` until the threshold; empty for a number in result.json."""
    threshold: float = 0.0
    """Success rate in (0, 1]."""

    @property
    def metric(self) -> str:
        """Figure of the evaluations that a pruner compares: `return` if it is the objective, else `success`."""
        return "return" if self.path == ("mean_return",) else "success"

    def intermediate(self, figure: float) -> float:
        """Return a figure of an evaluation with the sign of the objective: success is good if a cost is minimized."""
        return figure if self.maximize or self.metric == "return" else -figure

    def score(self, result: Result) -> float | None:
        """Return the score of a run that is done or diverged; None if its result has no such number.

        A diverged run has a success rate of 0. A run that never reaches the threshold costs up to twice its whole cost,
        the less the nearer its best evaluation came.
        """
        if self.cost:
            return self._cost(result)
        if result.status == "diverged":
            return 0.0 if self.path == ("success_rate",) else None
        number = at(result.to_json(), self.path)
        known = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        return float(number) if known else None

    def _cost(self, result: Result) -> float:
        reached = result.first_at(self.threshold)
        if reached is not None and result.status != "diverged":
            return float(reached[self.cost])
        rates = [float(evaluation["success_rate"]) for evaluation in result.evaluations]
        nearest = max(rates, default=0.0) if result.status != "diverged" else 0.0
        return float(getattr(result, self.cost)) * (2 - min(1.0, nearest / self.threshold))


NAMED = {
    "success": Objective("success", True, ("success_rate",)),
    "seconds": Objective("seconds", False, ("wall_time_s",)),
}


def parse_objective(setting: str | Mapping[Any, str]) -> Objective:
    """Return the objective of a setting such as `success` or `{"minimize": "wall_time_s"}`; refuse any other form."""
    if isinstance(setting, str):
        if setting in NAMED:
            return NAMED[setting]
        match = re.fullmatch(r"(steps|seconds)_to_(0\.\d+|1|1\.0)", setting)
        if match is None or float(match[2]) == 0:
            raise ConfigError(bad_value("sweep.objective", setting, NAMES))
        return Objective(setting, False, cost=COSTS[match[1]], threshold=float(match[2]))
    (direction, key), *_ = setting.items()
    path = tuple(key.split("."))
    if path[0] not in (*NUMBERS, *NESTED) or (path[0] in NUMBERS) != (len(path) == 1):
        names = [*NUMBERS, *(f"{name}.KEY" for name in NESTED)]
        raise ConfigError(bad_value(f"sweep.objective.{direction}", key, names, "is no number in result.json"))
    return Objective(key, direction == "maximize", path)


def judge(scores: Sequence[Sequence[float]]) -> list[float]:
    """Return a score for each objective: the interquartile mean over the seeds, from scores `(seeds, objectives)`."""
    return [float(iqm(np.array(of_seeds, float).reshape(-1, 1))) for of_seeds in zip(*scores, strict=True)]


SECTION = "sweep"
TRIALS = 30
"""Default number of trials, unless the space is a grid."""

MIN_WILCOXON_SEEDS = 5
"""Fewest seeds with which the pruner `wilcoxon` can save runs: of 4 seeds that are all worse, p is 0.06."""

MAX_TRIALS = 100_000
"""Largest number of trials."""

FAST = {"video": {"episodes": 0}, "tensorboard": False, "env_processes": False}
"""Values of the runs of a sweep that the user has not set."""


def checked_seeds(seeds: int | list[int]) -> int | list[int]:
    """Validator of the key `seeds` of a section: a number of seeds, or a list."""
    if isinstance(seeds, list) and (len(set(seeds)) < len(seeds) or not all(0 <= seed < 2**32 for seed in seeds)):
        raise ValueError("seeds from 0 to 4294967295, each once")
    return seeds


class PopulationSettings(Section):
    """Settings of population-based training: the section `sweep.population`."""

    members: Annotated[int, Field(ge=2, le=1000)] = Field(8, description="number of runs that learn side by side")
    generations: Annotated[int, Field(ge=2, le=1000)] = Field(
        5, description="parts of a run; after each, bad members go on from copies of good members"
    )
    replaced: Annotated[float, Field(gt=0, le=0.5)] = Field(
        0.25, description="share of the members that is replaced after each generation by copies of the best"
    )


ObjectiveSetting = str | Annotated[dict[Literal["maximize", "minimize"], str], Field(min_length=1, max_length=1)]


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

    _valid_seeds = field_validator("seeds")(checked_seeds)


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

    def config(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config of a trial with these values, by key, without those that all runs of sweeps have."""
        return with_values(self.base, {each.path: values[each.key] for each in self.parameters})

    def to_file(self) -> dict[str, Any]:
        """Return the content of a sweep file that `make_sweep` reads again as this sweep."""
        content = with_values(self.base, {each.path: {each.kind: list(each.values)} for each in self.parameters})
        settings = self.settings.model_dump(mode="json")
        chosen = {**settings, "space": None, "sampler": self.sampler, "trials": self.trials, "seeds": list(self.seeds)}
        return {**content, SECTION: {key: value for key, value in chosen.items() if value is not None}}

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
        resolve_config(base)  # a range with a misspelt name is a wrong value
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
    _check_combination(sweep)
    return sweep


def _check_combination(sweep: Sweep) -> None:
    """Refuse settings that do not suit each other."""
    settings, several, count = sweep.settings, len(sweep.objectives) > 1, len(sweep.seeds)
    population, pruner = settings.population is not None, settings.pruner
    alone = "cannot be combined with sweep.population"
    endless = next((each for each in sweep.parameters if each.finite is None), None)
    refused: list[tuple[bool, str, Any, Any, str]] = [
        (population and settings.sampler not in (None, "random"), "sampler", settings.sampler, "random", alone),
        (population and pruner != "none", "pruner", pruner, "none", alone),
        (population and count > 1, "seeds", count, "1", alone),
        (population and several, "objective", settings.objective, "a single objective", alone),
        (population and settings.trials not in (None, sweep.trials), "trials", settings.trials, sweep.trials, alone),
        (several and len({each.name for each in sweep.objectives}) < len(sweep.objectives), "objective",
         settings.objective, "two different objectives", "names one twice"),
        (several and sweep.sampler == "cmaes", "sampler", "cmaes", ["nsga2", "tpe", "random", "grid"],
         "maximizes or minimizes a single number"),
        (several and pruner != "none", "pruner", pruner, ["none"],
         "compares trials by a single number, and the sweep has two objectives"),
        (pruner == "wilcoxon" and count < MIN_WILCOXON_SEEDS, "seeds", count,
         f"{MIN_WILCOXON_SEEDS} or more, or another sweep.pruner",
         "stops a trial after 4 seeds at the earliest, so that no run would be saved"),
        (sweep.sampler == "grid" and endless is not None, "sampler", "grid", ["random", "tpe", "cmaes", "nsga2"],
         f"needs lists or whole numbers, and {endless.key if endless else ''} has a range without steps"),
    ]  # fmt: skip
    for wrong, key, value, allowed, why in refused:
        if wrong:
            raise ConfigError(bad_value(f"sweep.{key}", value, allowed, why))


def merge_with_ranges(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `low` overlaid by those of `high`; a range replaces the value or range below it."""
    low, high = renamed(low), renamed(high)
    ranges = with_values({}, {parameter.path: None for parameter in find_parameters(high)[1]})
    for section, key in TEXTS.items():
        if section in ranges and isinstance(low.get(section), str):  # a range of `control.step` leaves the controller
            low = {**low, section: {key.rpartition(".")[2]: low[section]}}
    return merge_configs(without(low, ranges), high)


def _settings(section: Any) -> SweepSettings:
    """Return the settings of a sweep."""
    try:
        return SweepSettings.model_validate(section)
    except ValidationError as error:
        raise ConfigError(explained(error, SECTION, of=SweepSettings)) from None


def _check_keys(base: Mapping[str, Any], parameters: Sequence[Parameter]) -> None:
    """Refuse unknown keys; values are checked with the space."""
    for key in (*base, *(parameter.path[0] for parameter in parameters)):
        if key not in RunConfig.model_fields:
            raise ConfigError(bad_value(key, key, [*RunConfig.model_fields, SECTION], "is not a config key"))
    resolve([Layer("file", {"seed": base.get("seed", 0)})])


def _with_default_space(
    base: Mapping[str, Any], parameters: Sequence[Parameter]
) -> tuple[dict[str, Any], tuple[Parameter, ...]]:
    """Add the registered search space of the algorithm, except the hyperparameters that the user has set."""
    for parameter in parameters:
        if parameter.key in ("algo", "framework"):
            why = f"needs a single {parameter.key}"
            raise ConfigError(bad_value("sweep.space", "default", f"no range of {parameter.key}", why))
    config = resolve_config(with_values(base, {each.path: each.corners[0] for each in parameters})).config
    entry = algorithm(config.algo, config.framework)
    if not entry.search_space:
        why = f"is not registered for {entry.name} of {entry.framework}"
        raise ConfigError(bad_value("sweep.space", "default", "ranges in the file, or --space KEY=RANGE", why))
    values, registered = find_parameters({"algo_params": entry.search_space})
    if values:
        why = f"in the search_space of {entry.name} is not a range"
        raise ConfigError(bad_value("algo_params", values["algo_params"], RANGE_WORDS, why))
    chosen = [parameter.key for parameter in parameters] + [key for key, value in flatten(base) if value != {}]
    added = [each for each in registered if not any(_overlap(each.key, key) for key in chosen)]
    return {**base, "algo": config.algo, "framework": config.framework}, (*parameters, *added)


def _overlap(first: str, second: str) -> bool:
    """Return whether a dotted key is the other key, or of a mapping that contains the other."""
    return f"{first}.".startswith(f"{second}.") or f"{second}.".startswith(f"{first}.")


MAX_COMBINATIONS = 64
"""Maximum number of combinations that are all built; of a larger space every corner of each parameter, and a sample."""


def check_space(sweep: Sweep) -> dict[str, Resolved]:
    """Build the configs of a space; return the values of the parameters, in words for a message → config.

    Of lists all values are built, of ranges both ends and the middle. With more than `MAX_COMBINATIONS` combinations of
    them, each value is built at least once, beside values of the other parameters that change with it.

    Raises:
        ConfigError: The schema refuses a config; the message has the values of the parameters.
    """
    trials: dict[str, Resolved] = {}
    for values in _combinations(sweep):
        by_key = {each.key: value for each, value in zip(sweep.parameters, values, strict=True)}
        words = f"the trial {', '.join(f'{key}={value}' for key, value in by_key.items())}"
        try:
            trials[words] = resolve_config(sweep.config(by_key))
        except ConfigError as error:
            raise ConfigError(f"{error} (in {words})") from error
    return trials


def _combinations(sweep: Sweep) -> Iterator[tuple[Any, ...]]:
    corners = [parameter.corners for parameter in sweep.parameters]
    if math.prod(map(len, corners)) <= MAX_COMBINATIONS:
        yield from itertools.product(*corners)
        return
    rng, rounds = np.random.default_rng(0), max(map(len, corners))
    for _ in range(-(-MAX_COMBINATIONS // rounds)):  # all values of all parameters, in another order
        columns = [[values[index % len(values)] for index in rng.permutation(rounds)] for values in corners]
        yield from zip(*columns, strict=True)
