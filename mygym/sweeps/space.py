"""Ranges in a config, `{grid: […]}`, `{uniform: [a, b]}` …, and the samplers and pruners of Optuna that search them."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.errors import ConfigError, bad_value, nearest

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

LISTS = ("grid", "choice")
RANGES = ("uniform", "loguniform", "int")
RANGE_WORDS = (*LISTS, *RANGES)
"""Words that make a mapping a range."""

FIXED = ("seed", "logdir", "imports", "strict")
"""Top-level keys that no sweep changes: `sweep.seeds` lists the seeds, and the sweep has a folder."""


@dataclass(frozen=True)
class Parameter:
    """A key of the config that a sweep changes, and its range."""

    path: tuple[str, ...]
    kind: str
    """One of `RANGE_WORDS`."""
    values: tuple[Any, ...]
    """All values of a list; lowest and highest value of another range."""

    @property
    def key(self) -> str:
        """Dotted key."""
        return ".".join(self.path)

    @property
    def finite(self) -> Sequence[Any] | None:
        """All values in their order; None if their number is not finite."""
        if self.kind in LISTS:
            return self.values
        return range(self.values[0], self.values[1] + 1) if self.kind == "int" else None

    @property
    def corners(self) -> tuple[Any, ...]:
        """Values that the check of the space builds: all of a list, else both ends and the middle."""
        if self.kind in LISTS:
            return self.values
        low, high = self.values
        middle = math.sqrt(low * high) if self.kind == "loguniform" else (low + high) / 2
        return (low, high, (low + high) // 2 if self.kind == "int" else middle)

    def contains(self, value: Any) -> bool:
        """Return whether a value of a config lies in the range."""
        if self.kind in LISTS:
            return value in self.values
        kinds = int if self.kind == "int" else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and self.values[0] <= value <= self.values[1]

    def stored(self, value: Any) -> Any:
        """Return a value in the form in which Optuna stores it: those of lists as JSON."""
        return json.dumps(value) if self.kind in LISTS else value

    def value(self, stored: Any) -> Any:
        """Return the value of the config that Optuna has stored."""
        return json.loads(stored) if self.kind in LISTS else stored


def find_parameters(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Parameter, ...]]:
    """Return a config without its ranges, and the parameters in their order; refuse a malformed or misplaced range."""
    parameters: list[Parameter] = []
    base = _without_ranges(config, (), parameters)
    return base, tuple(parameters)


def with_values(base: Mapping[str, Any], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return a config with other values at some paths."""
    result = dict(base)
    for path, value in values.items():
        section = result
        for name in path[:-1]:
            inner = section.get(name)
            section[name] = dict(inner) if isinstance(inner, Mapping) else {}
            section = section[name]
        section[path[-1]] = value
    return result


def _without_ranges(config: Mapping[str, Any], path: tuple[str, ...], parameters: list[Parameter]) -> dict[str, Any]:
    base: dict[str, Any] = {}
    for name, value in config.items():
        inner = (*path, name)
        if isinstance(value, Mapping) and not value.keys().isdisjoint(RANGE_WORDS):
            parameters.append(_parameter(inner, value))
        elif (
            isinstance(value, Mapping) and len(value) == 1 and nearest(word := next(iter(value)), RANGE_WORDS, 1, 0.75)
        ):
            raise ConfigError(bad_value(".".join(inner), word, RANGE_WORDS, "is not a range"))
        elif isinstance(value, Mapping):
            rest = _without_ranges(value, inner, parameters)
            base |= {name: rest} if rest or not value else {}  # nothing is left of a mapping of ranges alone
        else:
            _refuse_ranges(value, inner)
            base[name] = value
    return base


def _refuse_ranges(value: Any, path: tuple[str, ...]) -> None:
    """Refuse a range within a list."""
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, Mapping) and len(item) == 1 and not item.keys().isdisjoint(RANGE_WORDS):
            allowed = "{choice: [[64, 64], [128, 128]]}: a choice of whole lists"
            raise ConfigError(bad_value(".".join(path), item, allowed, "is a range within a list"))
        _refuse_ranges(item, path)


def _parameter(path: tuple[str, ...], marker: Mapping[str, Any]) -> Parameter:
    """Return the parameter of a range."""
    kind, content = next(iter(marker.items()))

    def refused(allowed: str, why: str) -> ConfigError:
        return ConfigError(bad_value(".".join(path), dict(marker), allowed, why))

    if path[0] in FIXED:
        raise refused(f"a key other than {', '.join(FIXED)}", "is the same in all trials")
    if len(marker) > 1 or kind not in RANGE_WORDS:
        raise refused(f"a single word of {', '.join(RANGE_WORDS)}", "is not a range")
    if kind in LISTS:
        if not isinstance(content, list | tuple) or not content:
            raise refused(f"{{{kind}: [A, B, …]}}", "is not a list with values")
        texts = [json.dumps(value) for value in content]
        if repeated := next((text for index, text in enumerate(texts) if text in texts[:index]), None):
            raise refused("each value once", f"repeats {repeated}")
        return Parameter(path, kind, tuple(content))
    form, number = f"{{{kind}: [LOWEST, HIGHEST]}}", int if kind == "int" else (int, float)
    if not isinstance(content, list | tuple) or len(content) != 2:
        raise refused(form, "is not a range of two numbers")
    if not all(isinstance(end, number) and not isinstance(end, bool) and math.isfinite(end) for end in content):
        raise refused(f"{form} with two {'whole' if kind == 'int' else 'finite'} numbers", "is not a range")
    low, high = content if kind == "int" else map(float, content)
    if kind == "loguniform" and low <= 0:
        raise refused("a lowest value above 0", "has no logarithm")
    if low >= high:
        raise refused(form, "is empty" if low == high else "is inverted")
    return Parameter(path, kind, (low, high))


def size(parameters: Sequence[Parameter]) -> int | None:
    """Return the number of combinations; None if it is not finite."""
    counts = [parameter.finite for parameter in parameters]
    return None if None in counts else math.prod(len(values or ()) for values in counts)


UNPRUNED_TRIALS = 5
"""Number of complete trials from which the pruner `median` stops trials."""

REDUCTION = 3
"""The pruner `hyperband` keeps a third of the trials at each rung."""

GOOD_SHARE = 0.25
"""Share of the trials that TPE takes as good: with Optuna's tenth, sweeps of some tens of trials stay at the first."""

POPULATION = 10
"""Trials of a generation of the sampler `nsga2`."""


def check_optuna(sampler: str) -> None:
    """Refuse to go on without Optuna, or for `cmaes` without cmaes; the message has the command that installs them."""
    try:
        import optuna  # noqa: F401

        if sampler == "cmaes":
            import cmaes  # noqa: F401
    except ImportError as error:
        message = f'sweeps need the package {error.name!r}: pip install "mygym[sweep]"'
        raise ConfigError(message) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Optuna's log and its notes on arguments that are experimental, or deprecated until Optuna 6."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="optuna")
        for category in (optuna.exceptions.ExperimentalWarning, FutureWarning):  # from Python 3.12 on in our name
            warnings.filterwarnings("ignore", category=category)
        yield


def make_pruner(name: str, evaluations: int) -> BasePruner:
    """Return the pruner `none`, `median`, `hyperband` or `wilcoxon`; the longest run has so many evaluations."""
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner, WilcoxonPruner

    if name == "median":
        return MedianPruner(n_startup_trials=UNPRUNED_TRIALS)
    if name == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=max(1, evaluations), reduction_factor=REDUCTION)
    return WilcoxonPruner() if name == "wilcoxon" else NopPruner()


def ask(study: Study, parameters: Sequence[Parameter], sampler: str, seed: int) -> Trial:
    """Return the next trial with the values of all parameters; with one run at a time, the journal alone decides them.

    The values are drawn in a copy of the study in memory: the journal gets a trial with all of its values, or nothing.
    """
    import optuna

    trials = study.get_trials(deepcopy=False)
    number = len(trials)
    draft = optuna.create_study(
        study_name=study.study_name,  # with the number, it decides the bracket of `hyperband`
        directions=study.directions,
        sampler=_sampler(sampler, seed, number),
        pruner=study.pruner,
    )
    draft.add_trials(trials)
    if sampler == "grid":
        draft.enqueue_trial(_next_of_grid(parameters, trials))
    trial = draft.ask()
    _ = trial.relative_params  # drawn together, before any other value
    for index, (key, distribution) in enumerate(distributions(parameters).items(), start=1):
        draft.sampler = _sampler(sampler, seed, number, index)
        trial._suggest(key, distribution)  # as suggest_float and its like do
    study.add_trial(draft.get_trials(deepcopy=False)[number])
    return reopened(study, study.get_trials(deepcopy=False)[number])


def reopened(study: Study, trial: FrozenTrial) -> Trial:
    """Return a trial of the journal that has not ended; its values stay."""
    import optuna

    return optuna.trial.Trial(study, trial._trial_id)


def _next_of_grid(parameters: Sequence[Parameter], trials: Sequence[FrozenTrial]) -> dict[str, Any]:
    """Return the first combination of a grid that no trial has; past trials may have any.

    Optuna's sampler of grids would build all combinations in memory, and not know the past trials.
    """

    def combination(index: int) -> dict[str, Any]:
        pairs = zip(parameters, grid_values(parameters, index), strict=True)
        return {each.key: each.stored(value) for each, value in pairs}

    known = [trial.params for trial in trials if "past" in trial.user_attrs]
    new = (index for index in itertools.count() if not known or combination(index) not in known)
    return combination(next(itertools.islice(new, len(trials) - len(known), None)))


def grid_values(parameters: Sequence[Parameter], number: int) -> list[Any]:
    """Return a combination of a grid; the values of the last parameter change first."""
    values: list[Any] = []
    for each in reversed(parameters):
        choices = each.finite or ()
        number, index = divmod(number, len(choices))
        values.insert(0, choices[index])
    return values


def distributions(parameters: Sequence[Parameter]) -> dict[str, BaseDistribution]:
    """Return key → range of each parameter as Optuna has it."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    ranges: dict[str, BaseDistribution] = {}
    for each in parameters:
        if each.kind in LISTS:
            ranges[each.key] = CategoricalDistribution([each.stored(value) for value in each.values])
        elif each.kind == "int":
            ranges[each.key] = IntDistribution(*each.values)
        else:
            low, high = each.values
            ranges[each.key] = FloatDistribution(low, high, log=each.kind == "loguniform")
    return ranges


def _sampler(name: str, *numbers: int) -> BaseSampler:
    from optuna.samplers import CmaEsSampler, NSGAIISampler, RandomSampler, TPESampler

    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    if name == "tpe":
        return TPESampler(seed=seed, multivariate=False, gamma=lambda trials: math.ceil(GOOD_SHARE * trials))
    if name == "cmaes":  # lists, which have no order, are drawn at random
        return CmaEsSampler(seed=seed, warn_independent_sampling=False, independent_sampler=RandomSampler(seed=seed))
    return NSGAIISampler(population_size=POPULATION, seed=seed) if name == "nsga2" else RandomSampler(seed=seed)
