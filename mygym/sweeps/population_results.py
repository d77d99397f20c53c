"""Results of a population: lineage, config of the best member with its values over the steps, figure."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mygym.errors import ConfigError
from mygym.reporting import sweep_files
from mygym.reporting.panels import check_matplotlib, rendered
from mygym.reporting.tables import as_csv
from mygym.runs import files
from mygym.sweeps import figures, trial_runs
from mygym.sweeps.population import Member, Population, ranked
from mygym.sweeps.space import with_values


def write(population: Population) -> list[dict[str, Any]]:
    """Write the lineage, the best config and, if Matplotlib is installed, the figure; return rows of the last members.

    Raises:
        RunError: A file cannot be written.
    """
    folder, sweep = population.folder, population.sweep
    files.write_text(folder / sweep_files.LINEAGE, as_csv(_rows(population)))
    best = ranked(sweep, population.generations[-1])[0]
    run = trial_runs.find_run(folder / best.folder, best.seed)
    head = f"# member {best.member}: {sweep.objective.name} {best.score:g}; its policy: {run}\n"
    values = {each.path: _over_steps(population, best, each.key) for each in sweep.parameters}
    config = {**with_values(sweep.base, values), "steps": population.steps(population.settings.generations - 1)}
    files.write_text(folder / sweep_files.BEST, head + files.to_yaml(config))
    with contextlib.suppress(ConfigError):  # Matplotlib is an extra
        check_matplotlib()
        figure = figures.draw_population(
            _lines(population), [each.key for each in sweep.parameters], sweep.objective.name
        )
        files.write_bytes(folder / sweep_files.POPULATION, rendered(figure, "svg"))
    ends = [row for row in _rows(population) if row["generation"] == len(population.generations)]
    order = {each.member: rank for rank, each in enumerate(ranked(sweep, population.generations[-1]))}
    return sorted(ends, key=lambda row: order.get(row["member"], len(order)))


def ancestors(population: Population, member: Member) -> list[Member]:
    """Return the members of each generation from which a member of the last descends, and itself."""
    line = [member]
    for members in reversed(population.generations[:-1]):
        line.insert(0, members[line[0].parent])
    return line


def _over_steps(population: Population, member: Member, key: str) -> Any:
    """Return the value of a parameter along the ancestors: a number, or a schedule with a jump at each change."""
    line = [each.values[key] for each in ancestors(population, member)]
    points: list[list[float]] = []
    begin = 0
    for value, generations in groupby(enumerate(line), key=lambda pair: pair[1]):
        *_, (last, _) = generations
        end = population.steps(last)
        points += [[begin, value], [end, value]]
        begin = end + 1
    return line[0] if len(points) == 2 else {"schedule": "piecewise", "points": points}


def _rows(population: Population) -> list[dict[str, Any]]:
    return [
        {
            "generation": number,
            "steps": population.steps(number - 1),
            "member": each.member,
            "parent": each.parent,
            "score": each.score,
            **each.values,
            "status": each.status,
            "error": each.error,
        }
        for number, members in enumerate(population.generations, start=1)
        for each in members
    ]


def _lines(population: Population) -> Sequence[figures.MemberGeneration]:
    """Return a line for each member and generation, from its parent to itself."""
    steps = [0, *map(population.steps, range(len(population.generations)))]
    lines = []
    for number, members in enumerate(population.generations):
        for each in members:
            before = population.generations[number - 1][each.parent] if number else None
            lines.append(
                figures.MemberGeneration(
                    (steps[number], steps[number + 1]),
                    (before.score if before else None, each.score),
                    {key: (before.values[key] if before else value, value) for key, value in each.values.items()},
                    copied=each.parent != each.member,
                )
            )
    return lines
