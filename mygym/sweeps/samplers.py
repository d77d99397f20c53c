"""Samplers and pruners of Optuna, chosen so that a sweep that is resumed asks for the same trials.

A sampler has random numbers in memory, which end with its process. Each value is therefore drawn by a new sampler,
whose seed follows from the number of the trial; everything else that a sampler needs is in the journal.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.errors import ConfigError
from mygym.sweeps.space import LISTS, Parameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

UNPRUNED_TRIALS = 5
"""Number of complete trials from which the pruner `median` stops trials."""

REDUCTION = 3
"""The pruner `hyperband` keeps a third of the trials at each rung."""

GOOD_SHARE = 0.25
"""Share of the trials that TPE takes as good: with Optuna's tenth, sweeps of some tens of trials stay at the first."""

POPULATION = 10
"""Trials of a generation of the sampler `nsga2`."""


def check_optuna(sampler: str) -> None:
    """Check that Optuna, and for `cmaes` the package cmaes, is installed.

    Raises:
        ConfigError: It is missing; the message has the command that installs it.
    """
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
    """Return a pruner.

    Args:
        name: `none`, `median`, `hyperband` or `wilcoxon`.
        evaluations: Number of evaluations of the longest run.
    """
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner, WilcoxonPruner

    if name == "median":
        return MedianPruner(n_startup_trials=UNPRUNED_TRIALS)
    if name == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=max(1, evaluations), reduction_factor=REDUCTION)
    return WilcoxonPruner() if name == "wilcoxon" else NopPruner()


def ask(study: Study, parameters: Sequence[Parameter], sampler: str, seed: int) -> Trial:
    """Return the next trial with the values of all parameters; with one run at a time, the journal alone decides them.

    The values are drawn in a copy of the study in memory: the journal gets a trial with all of its values, or nothing.

    Args:
        study: The study.
        parameters: Parameters in their order.
        sampler: `grid`, `random`, `tpe`, `cmaes` or `nsga2`.
        seed: Seed of the sampler.
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
