"""Conformance suites of strategies, samplers and callbacks: documented parameters; runs that repeat and resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mygym.checks.algorithms import Subject
from mygym.checks.suite import Check, demand
from mygym.config import merged
from mygym.config.plain import is_plain
from mygym.registry import registry
from mygym.registry.signatures import parameters

ALGORITHM = "ppo"
"""Default algorithm of the runs."""


def strategy_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of a strategy.

    Args:
        name: Name of the strategy.
        framework: Framework of the algorithm.
        steps: Env steps of each training.
        folder: Folder for the runs.
        config: Further config values of the runs, e.g. the algorithm.
    """
    run = {**config, "strategy": name}
    yield from checks_in_runs("strategy", name, Subject(config.get("algo", ALGORITHM), framework, steps, folder, run))


def sampler_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of a sampler, in runs of a super-network; arguments as those of `strategy_checks`."""
    run = merged({"strategy": "mixture", "strategy_params": {"candidates": 2, "tries": 1, "sampler": name}}, config)
    yield from checks_in_runs("sampler", name, Subject(config.get("algo", ALGORITHM), framework, steps, folder, run))


def callback_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of a callback; arguments as those of `strategy_checks`."""
    run = {**config, "callbacks": [name]}
    yield from checks_in_runs("callback", name, Subject(config.get("algo", ALGORITHM), framework, steps, folder, run))


def checks_in_runs(kind: str, name: str, subject: Subject) -> Iterator[Check]:
    """Yield the checks of a component that takes part in the runs of `subject`."""
    yield Check("parameters", lambda: _documents_its_parameters(kind, name))
    yield Check("constructs", subject.constructs, needs=("parameters",))
    yield Check("trains", subject.trains, needs=("constructs",))
    yield Check("result and config", subject.records_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_exactly, needs=("trains",))
    yield Check("resumes", subject.resumes, needs=("deterministic",))
    yield Check("survives a bad environment", subject.survives, needs=("trains",))


def _documents_its_parameters(kind: str, name: str) -> None:
    """Each constructor parameter is keyword-only, can be written in a config, and is documented."""
    known = parameters(registry(kind).get(name).load(), leave_out=("verbose",))  # of SB3's callbacks
    for parameter in known.values():
        key, plain = parameter.name, parameter.required or is_plain(parameter.default)
        demand(parameter.keyword_only, f"{key} can be given by position; write * in front of it")
        demand(plain, f"the default of {key} cannot be written in a config")
        demand(parameter.help, f"{key} is not in the docstring's Args")
