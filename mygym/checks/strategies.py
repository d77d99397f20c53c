"""The conformance suite of strategies: what a run with one must do, whatever it decides."""

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
"""What is trained unless the config says another."""


def strategy_checks(name: str, framework: str, steps: int, folder: Path, config: Mapping[str, Any]) -> Iterator[Check]:
    """The suite of one strategy.

    Args:
        name: Of the strategy.
        framework: Of the algorithm.
        steps: Env steps of each training.
        folder: For the runs.
        config: Further values of the run's config, the algorithm among them.
    """
    algo = config.get("algo", ALGORITHM)
    subject = Subject(algo, framework, steps, folder, {**config, "strategy": name})
    yield Check("parameters", lambda: _tells_its_parameters(name))
    yield Check("constructs", subject.constructs, needs=("parameters",))
    yield Check("trains", subject.trains, needs=("constructs",))
    yield Check("result and config", subject.tells_everything, needs=("trains",))
    yield Check("deterministic", subject.repeats_itself, needs=("trains",))
    yield Check("resumes", subject.resumes, needs=("deterministic",))
    yield Check("survives a bad environment", subject.survives, needs=("trains",))


def _tells_its_parameters(name: str) -> None:
    """Each can be written in a config, and is documented."""
    for one in parameters(registry("strategy").get(name).load()).values():
        demand(one.keyword_only, f"{one.name} can be given by its position; write * in front of it")
        demand(one.required or is_plain(one.default), f"the default of {one.name} cannot be written in a config")
        demand(one.help, f"{one.name} is not in the docstring's Args")
