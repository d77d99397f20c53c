"""Population-based training: members learn side by side; bad members go on from copies of good members.

After each generation, the worst members continue from the checkpoint of one of the best (exploit), with its values
times 0.8 or 1.2 (explore). All decisions follow from the scores and the seed of the sampler, and are in
`population.json` before a run begins, so that a population that was killed goes on as if it had not been.

Source: Jaderberg et al., Population Based Training of Neural Networks, 2017.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.config import Resolved
from mygym.errors import ConfigError, RunError, bad_value
from mygym.nested import merged
from mygym.planning.resolve import resolve_config
from mygym.reporting.comparison import spans_decades
from mygym.reporting.figures import COLOURS, check_matplotlib, make_grid, rendered, styled
from mygym.reporting.records import SweepFiles
from mygym.reporting.tables import as_csv
from mygym.sweeps import executors, storage
from mygym.sweeps.executors import Executor
from mygym.sweeps.settings import FAST, PopulationSettings, Sweep
from mygym.sweeps.space import LISTS, Parameter
from mygym.sweeps.storage import SeedRun
from mygym.training import files
from mygym.training.directory import resume_flag
from mygym.training.run_state import branch, changeable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATE = "population.json"
COLUMNS = 3
"""Panels side by side."""
FACTORS = (0.8, 1.2)
"""Factors of the values of a copy."""


@dataclass(frozen=True)
class Member:
    """A member in a generation."""

    member: int
    parent: int
    """Member of the generation before whose checkpoint it continues."""
    folder: str
    """Folder of its run, below that of the sweep."""
    seed: int
    """Seed of its run: that of the first ancestor."""
    values: Mapping[str, Any]
    """Key → value in this generation."""
    score: float | None = None
    """Score at the end of the generation; None before, or if the run has failed."""
    status: str = ""
    error: str = ""

    def run(self, folder: Path) -> SeedRun:
        """Return its run in the folder of the sweep."""
        return SeedRun(folder / self.folder, self.seed)


@dataclass
class Population:
    """The generations so far, in the file `population.json`."""

    folder: Path
    sweep: Sweep
    generations: list[list[Member]] = field(default_factory=list)

    @property
    def settings(self) -> PopulationSettings:
        """Settings of the population."""
        assert self.sweep.settings.population is not None
        return self.sweep.settings.population

    def steps(self, generation: int) -> int:
        """Return the env steps of a run at the end of a generation."""
        return _first_config(self.sweep).config.steps * (generation + 1) // self.settings.generations

    def write(self) -> None:
        """Write the generations."""
        content = [[asdict(member) for member in members] for members in self.generations]
        files.write_text(self.folder / STATE, json.dumps(content, indent=2) + "\n")


def read(folder: Path, sweep: Sweep) -> Population:
    """Return the population in the folder of a sweep; it has no generation before the sweep has begun."""
    path = folder / STATE
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return Population(folder, sweep, [[Member(**member) for member in members] for members in content])


def _first_config(sweep: Sweep) -> Resolved:
    """Return the config with the first value of each parameter."""
    return resolve_config(sweep.config({each.key: each.corners[0] for each in sweep.parameters}))


def check(sweep: Sweep) -> None:
    """Refuse parameters that are fixed during a training, and lists with values that are not numbers."""
    allowed = [f"algo_params.{name}" for name in changeable(_first_config(sweep).values())]
    for each in sweep.parameters:
        if each.key not in allowed:
            why = "is fixed during a training, so that a population cannot change it"
            raise ConfigError(bad_value("sweep.population", each.key, allowed, why))
        if not all(isinstance(value, int | float) for value in each.values):
            raise ConfigError(bad_value(each.key, list(each.values), "numbers", "has a value that is not a number"))


def search(folder: Path, sweep: Sweep, executor: Executor, memory: int, notify: Callable[[str], None]) -> Population:
    """Train the population, or the rest of a stopped population, in a folder that this process has locked.

    `notify` gets a line for each generation that ends.

    Raises:
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        RunError: All members have failed.
    """
    population = read(folder, sweep)
    if not population.generations:
        population.generations.append([_first(sweep, number) for number in range(population.settings.members)])
        population.write()
    while True:
        _train(population, executor, memory)
        best = ranked(sweep, population.generations[-1])
        if not best:
            errors = (each.error for each in population.generations[-1] if each.error)
            raise RunError(f"all members have failed: {next(errors, 'no reason')}")
        done = len(population.generations)
        last = done == population.settings.generations
        following = [] if last else _following(sweep, population.generations[-1], done, population.settings)
        notify(_summary(population, best[0], following))
        population.generations += [following] if following else []
        population.write()
        if last:
            return population


def ranked(sweep: Sweep, members: Sequence[Member]) -> list[Member]:
    """Return the members with a score, the best first, then by number."""
    sign = -1 if sweep.objective.maximize else 1
    return sorted((each for each in members if each.score is not None), key=lambda each: sign * (each.score or 0.0))


def _first(sweep: Sweep, number: int) -> Member:
    rng = np.random.default_rng([sweep.settings.sampler_seed, number])
    values = {each.key: _drawn(each, rng) for each in sweep.parameters}
    return Member(number, number, f"members/{number:02}/000", sweep.seeds[0] + number, values)


def _drawn(parameter: Parameter, rng: np.random.Generator) -> Any:
    if parameter.kind in LISTS:
        return parameter.values[rng.integers(len(parameter.values))]
    low, high = parameter.values
    if parameter.kind == "int":
        return int(rng.integers(low, high + 1))
    if parameter.kind == "loguniform":
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return float(rng.uniform(low, high))


def _changed(parameter: Parameter, value: Any, rng: np.random.Generator) -> Any:
    """Return a value near another: times a factor, or a neighbour in a list."""
    up = bool(rng.integers(2))
    if parameter.kind in LISTS:
        index = parameter.values.index(value) + (1 if up else -1)
        return parameter.values[min(max(index, 0), len(parameter.values) - 1)]
    low, high = parameter.values
    near = value * FACTORS[up]
    if parameter.kind == "int":
        near = max(round(near), value + 1) if up else min(round(near), value - 1)
    return min(max(near, low), high)


def _following(sweep: Sweep, members: Sequence[Member], generation: int, settings: PopulationSettings) -> list[Member]:
    """Return the members of the next generation."""
    rng = np.random.default_rng([sweep.settings.sampler_seed, generation, 1])
    order = ranked(sweep, members)
    count = max(1, int(settings.members * settings.replaced))
    best, worst = order[:count], {each.member for each in order[max(count, len(order) - count) :]}
    following = []
    for each in members:
        parent = best[rng.integers(len(best))]
        if each.score is None or (each.member in worst and each.score != parent.score):
            values = {key.key: _changed(key, parent.values[key.key], rng) for key in sweep.parameters}
            folder = f"members/{each.member:02}/{generation:03}"
            following.append(Member(each.member, parent.member, folder, parent.seed, values))
        else:
            following.append(Member(each.member, each.member, each.folder, each.seed, each.values))
    return following


def _train(population: Population, executor: Executor, memory: int) -> None:
    """Train the last generation to its end, and record its scores."""
    sweep, folder, members = population.sweep, population.folder, population.generations[-1]
    steps = population.steps(len(population.generations) - 1)
    for each in members:
        _prepare(population, each)  # all copies, before an origin trains on
    imports = sweep.base.get("imports", ())
    left = [run for each in members if not (run := each.run(folder)).has_ended(steps)]
    jobs = [run.job(imports, memory, steps) for run in left]
    executors.execute(executor, jobs, lambda index: None, f"mygym sweep {resume_flag(folder)}")
    for index, each in enumerate(members):
        run = each.run(folder)
        outcome = (run.outcome(sweep.objectives) if run.has_ended(steps) else None) or run.failure()
        score = outcome.scores[0] if outcome.status == "done" and outcome.scores else None
        members[index] = replace(each, score=score, status=outcome.status, error=outcome.error)


def _prepare(population: Population, member: Member) -> None:
    folder = population.folder / member.folder
    storage.write_config(folder, merged(FAST, population.sweep.config(member.values)))
    if member.parent == member.member or member.run(population.folder).path is not None:
        return
    parent = population.generations[-2][member.parent]
    origin = parent.run(population.folder).path
    assert origin is not None  # it has a score
    target = folder / origin.relative_to(population.folder / parent.folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    branch(origin, target, {key.partition(".")[2]: value for key, value in member.values.items()})


def _summary(population: Population, best: Member, following: Sequence[Member]) -> str:
    """Return a line on a generation that has ended."""
    done, name = len(population.generations), population.sweep.objective.name
    head = f"generation {done} of {population.settings.generations}, {population.steps(done - 1):,} steps: "
    copies = [f"{each.member} from {each.parent}" for each in following if each.member != each.parent]
    tail = f"; copies: {', '.join(copies)}" if copies else ""
    return f"{head}best {name} {best.score:.4g} (member {best.member}){tail}"


def write(population: Population) -> list[dict[str, Any]]:
    """Write the lineage, the best config and, if Matplotlib is installed, the figure; return rows of the last members.

    Raises:
        RunError: A file cannot be written.
    """
    folder, sweep = population.folder, population.sweep
    files.write_text(folder / SweepFiles.LINEAGE, as_csv(_rows(population)))
    best = ranked(sweep, population.generations[-1])[0]
    run = best.run(folder).path
    head = f"# member {best.member}: {sweep.objective.name} {best.score:g}; its policy: {run}\n"
    values = {each.key: _over_steps(population, best, each.key) for each in sweep.parameters}
    config = {**sweep.config(values), "steps": population.steps(population.settings.generations - 1)}
    files.write_text(folder / SweepFiles.BEST, head + files.to_yaml(config))
    with contextlib.suppress(ConfigError):  # Matplotlib is an extra
        check_matplotlib()
        files.write_bytes(folder / SweepFiles.POPULATION, rendered(_draw(population), "svg"))
    ends = [row for row in _rows(population) if row["generation"] == len(population.generations)]
    order = {each.member: rank for rank, each in enumerate(ranked(sweep, population.generations[-1]))}
    return sorted(ends, key=lambda row: order.get(row["member"], len(order)))


@styled()
def _draw(population: Population) -> Figure:
    """Draw the score and each value over the env steps; copies are dashed and in another colour."""
    keys = [each.key for each in population.sweep.parameters]
    figure, _, panels = make_grid(len(keys) + 1, COLUMNS)
    steps = [0, *map(population.steps, range(len(population.generations)))]
    for number, members in enumerate(population.generations):
        begin, end = steps[number : number + 2]
        for each in members:
            before = population.generations[number - 1][each.parent] if number else None
            colour, line = (COLOURS[1], "--") if each.parent != each.member else (COLOURS[0], "-")
            scores = [(begin, before.score if before else None), (end, each.score)]
            known = [(x, y) for x, y in scores if y is not None]
            panels[0].plot([x for x, _ in known], [y for _, y in known], marker=".", lw=0.8, color=colour, ls=line)
            for key, panel in zip(keys, panels[1:], strict=True):
                values = [before.values[key] if before else each.values[key], each.values[key], each.values[key]]
                panel.plot([begin, begin, end], values, lw=0.8, color=colour, ls=line)
    for panel, name in zip(panels, [population.sweep.objective.name, *keys], strict=True):
        panel.set(xlabel="env steps", ylabel=name)
    for key, panel in zip(keys, panels[1:], strict=True):
        if spans_decades([each.values[key] for members in population.generations for each in members]):
            panel.set_yscale("log")
    return figure


def _over_steps(population: Population, member: Member, key: str) -> Any:
    """Return the value of a parameter along the ancestors: a number, or a schedule with a jump at each change."""
    line = [member.values[key]]
    for members in reversed(population.generations[:-1]):
        member = members[member.parent]
        line.insert(0, member.values[key])
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
