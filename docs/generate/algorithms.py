"""A page for each algorithm: parameters, defaults, search space, measured rows; and the parameters of strategies."""

from __future__ import annotations

from typing import Any

from docs.generate.markdown import ROOT, as_yaml, built_in, code, page, section, stored_rows, table, toctree
from mygym.config.hyperparameters import hyperparameter_rows, strategy_rows, training_rows
from mygym.config.schedules import may_be_scheduled
from mygym.errors import RegistryError
from mygym.registry import Algorithm, Entry
from mygym.registry.signatures import source_location

TABLE = "tables/algorithms/table.md"


def pages() -> dict[str, str]:
    """Return a page for each built-in algorithm, their list, and the parameters of strategies."""
    entries = built_in("algorithm")
    overview = page(
        "Algorithms and their parameters",
        stored_rows(TABLE, "`mygym train"),
        "Success on `reach` with default settings, from [a table](../../../benchmarks/tables/algorithms/table.md) of "
        "`mygym benchmark algorithms`. [Your own algorithm](../../your_own_algorithm.md) adds a name.",
        toctree(f"{entry.name}.md" for entry in entries),
    )
    each = {f"algorithms/{entry.name}.md": algorithm_page(entry) for entry in entries}
    return {"algorithms/index.md": overview, **each, "strategies.md": strategies()}


def algorithm_page(entry: Entry) -> str:
    """Return the page of an algorithm in all its frameworks."""
    parts = [_framework(framework, algorithm) for framework, algorithm in entry.load().items()]
    return page(entry.name, entry.help, section("Measured", stored_rows(TABLE, f"--algo {entry.name} ")), *parts)


def _framework(framework: str, algorithm: Algorithm) -> str:
    try:
        cls = algorithm.combo()[0]
    except RegistryError as error:  # its package is not installed
        return section(framework, str(error))
    training = training_rows(algorithm)
    return section(
        f"In {framework}",
        f"{code(_source(cls))}; hindsight replay: {'yes' if algorithm.goal_relabelling else 'no'}; "
        f"requires: {', '.join(algorithm.needs) or 'nothing'}.",
        section("Defaults of a run", as_yaml(algorithm.run_defaults) if algorithm.run_defaults else "", level=3),
        section("Hyperparameters: `algo_params`", _parameters(hyperparameter_rows(algorithm)), level=3),
        section("Training parameters: `training_params`", _parameters(training) if training else "", level=3),
        section("May be scheduled", " ".join(code(name) for name in may_be_scheduled(cls)), level=3),
        section("Search space", as_yaml(algorithm.search_space) if algorithm.search_space else "", level=3),
    )


def _source(cls: type) -> str:
    """Return file and line of a class, below the repository or the packages."""
    return source_location(cls).removeprefix(f"{ROOT}/").rpartition("site-packages/")[2]


def _parameters(rows: list[dict[str, Any]]) -> str:
    return table(
        ["name", "type", "default", "in words"],
        [(code(row["name"]), row["type"], code(row["default"]), row["help"]) for row in rows],
    )


def strategies() -> str:
    """Return the page of the parameters of all built-in strategies."""
    parts = [
        section(entry.name, entry.help, _parameters(rows) if (rows := strategy_rows(entry.name)) else "")
        for entry in built_in("strategy")
    ]
    return page(
        "Parameters of strategies",
        "[Strategies](../strategies.md) explains them; the keys of `strategy_params`:",
        *parts,
    )
