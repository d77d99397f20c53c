"""Samplers and pruners of Optuna, chosen so that a sweep that is resumed asks for the same trials.

A sampler has random numbers in memory, which end with its process. Each value is therefore drawn by a new sampler,
whose seed follows from the number of the trial; everything else that a sampler needs is in the journal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.errors import ConfigError
from mygym.sweeps.space import Parameter

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial

PRUNED_FROM = 5
"""Number of complete trials from which the pruner `median` stops trials."""

REDUCTION = 3
"""The pruner `hyperband` keeps a third of the trials at each rung."""


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
    """Silence Optuna's notes on experimental arguments and its log."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="optuna")
        yield


def make_pruner(name: str, evaluations: int) -> BasePruner:
    """Return a pruner.

    Args:
        name: `none`, `median` or `hyperband`.
        evaluations: Number of evaluations of the longest run.
    """
    from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner

    if name == "median":
        return MedianPruner(n_startup_trials=PRUNED_FROM)
    if name == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=max(1, evaluations), reduction_factor=REDUCTION)
    return NopPruner()


def ask(study: Study, parameters: Sequence[Parameter], sampler: str, seed: int) -> Trial:
    """Return the next trial with the values of all parameters; with one worker, the journal alone decides them.

    Args:
        study: The study.
        parameters: Parameters in their order.
        sampler: `grid`, `random`, `tpe` or `cmaes`.
        seed: Seed of the sampler.
    """
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    waiting = [trial.number for trial in trials if trial.state == TrialState.WAITING]  # its process was killed here
    number = waiting[0] if waiting else len(trials)
    study.sampler = _sampler(sampler, seed, number)
    if sampler == "grid" and not waiting:
        combination = grid_values(parameters, number)
        study.enqueue_trial({each.key: each.stored(value) for each, value in zip(parameters, combination, strict=True)})
    return suggest(study.ask(), parameters, sampler, seed)


def suggest(trial: Trial, parameters: Sequence[Parameter], sampler: str, seed: int) -> Trial:
    """Draw the values that a trial does not have yet: all of a new trial, the rest if a process was killed."""
    trial.study.sampler = _sampler(sampler, seed, trial.number)
    if any(each.key not in trial.params for each in parameters):
        _ = trial.relative_params  # drawn together, before any other value
    for index, each in enumerate(parameters, start=1):
        trial.study.sampler = _sampler(sampler, seed, trial.number, index)
        _suggest(trial, each)
    return trial


def grid_values(parameters: Sequence[Parameter], number: int) -> list[Any]:
    """Return a combination of a grid; the values of the last parameter change first."""
    values: list[Any] = []
    for each in reversed(parameters):
        choices = each.finite or ()
        number, index = divmod(number, len(choices))
        values.insert(0, choices[index])
    return values


def _suggest(trial: Trial, parameter: Parameter) -> None:
    if parameter.kind in ("grid", "choice"):
        trial.suggest_categorical(parameter.key, [parameter.stored(value) for value in parameter.values])
    elif parameter.kind == "int":
        trial.suggest_int(parameter.key, *parameter.values)
    else:
        trial.suggest_float(parameter.key, *parameter.values, log=parameter.kind == "loguniform")


def _sampler(name: str, *numbers: int) -> BaseSampler:
    from optuna.samplers import CmaEsSampler, RandomSampler, TPESampler

    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    if name == "tpe":
        return TPESampler(seed=seed)
    if name == "cmaes":  # lists, which have no order, are drawn at random
        return CmaEsSampler(seed=seed, warn_independent_sampling=False, independent_sampler=RandomSampler(seed=seed))
    return RandomSampler(seed=seed)
