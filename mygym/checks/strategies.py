"""Conformance suite of strategies: documented parameters, and runs that repeat, resume and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mygym.checks.algorithms import Subject
from mygym.checks.suite import Check, demand
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
    algo = config.get("algo", ALGORITHM)
    subject = Subject(algo, framework, steps, folder, {**config, "strategy": name})
    yield Check("parameters", lambda: _documents_its_parameters(name))
    yield Check("constructs", subject.constructs, needs=("parameters",))
    yield Check("trains", subject.trains, needs=("constructs",))
    yield Check("result and config", subject.records_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_exactly, needs=("trains",))
    yield Check("resumes", subject.resumes, needs=("deterministic",))
    yield Check("survives a bad environment", subject.survives, needs=("trains",))


def _documents_its_parameters(name: str) -> None:
    """Each parameter can be written in a config, and is documented."""
    for parameter in parameters(registry("strategy").get(name).load()).values():
        key, plain = parameter.name, parameter.required or is_plain(parameter.default)
        demand(parameter.keyword_only, f"{key} can be given by position; write * in front of it")
        demand(plain, f"the default of {key} cannot be written in a config")
        demand(parameter.help, f"{key} is not in the docstring's Args")
