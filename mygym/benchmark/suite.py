"""Suites: YAML files whose grids of tasks, robots, algorithms and engines are cells of a table, each with its seeds."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from mygym.config import Resolved, load_file, merged
from mygym.config.layers import flatten, merge_configs
from mygym.config.schema import DEFAULT_ENGINE, Section
from mygym.config.validation_errors import explained
from mygym.errors import ConfigError, bad_value
from mygym.planning.resolve import resolve_config
from mygym.registry import FRAMEWORKS, registry
from mygym.sweeps.settings import checked_seeds

SHIPPED = files("mygym.benchmark") / "suites"
"""Folder of the suites that come with mygym."""

DEFAULT = "default"
"""Algorithm of a cell that leaves the choice to the task."""

ALL = "all"
"""Algorithms of cells: those that come with mygym, in each framework."""

NAME_IN_WORDS = "letters, digits, spaces and + . , = - _, not only dots"
"""Form of the names of cells, whose parts are folders."""

Names = str | Annotated[list[str], Field(min_length=1)]


def is_name(text: str) -> bool:
    """Return whether a text may be a part of the name of a cell."""
    return re.fullmatch(r"[\w+.,=-][\w +.,=-]*", text) is not None and text.strip(".") != ""


RESERVED = ("task", "robot", "engine", "algo", "framework", "seed", "logdir", "imports")
"""Config keys that `set` may not have."""


def _checked_set(values: dict[str, Any]) -> dict[str, Any]:
    """Validator of a key `set`."""
    if taken := [key for key in values if key in RESERVED]:
        raise ValueError(f"config values other than {taken[0]}, which is a key of the grid or of the command")
    return values


class Grid(Section):
    """Cells: each combination of a task, a robot, an engine and an algorithm."""

    task: Names
    robot: Names | None = Field(None, description="default: the robot of the task")
    engine: Names | None = Field(
        None, description=f"engine of the training, by default that of `config` or {DEFAULT_ENGINE}; not the judge's"
    )
    algo: Names = Field(
        DEFAULT, description="KEYWORD or KEYWORD/FRAMEWORK; default: the task's own; all: the built-in ones"
    )
    seeds: Annotated[int, Field(ge=1, le=1000)] | Annotated[list[int], Field(min_length=1)] = Field(
        1, description="number of seeds, counted from 0, or a list"
    )
    name: str | None = Field(None, description="name of the method in the table; default: the algorithm")
    config: str | None = Field(None, description="config file of these runs, as of `--config`")
    set: dict[str, Any] = Field(default_factory=dict, description="config values of these runs, over those of the file")
    note: str = Field("", description="what a reader of these cells must know, below the table")

    _valid_seeds = field_validator("seeds")(checked_seeds)

    @field_validator("name")
    @classmethod
    def _valid_name(cls, name: str | None) -> str | None:
        if name is not None and not is_name(name):
            raise ValueError(NAME_IN_WORDS)
        return name

    _valid_set = field_validator("set")(_checked_set)


FLAGS = ("config", "task", "robot", "engine", "algo", "framework", "steps", "n_envs", "strategy")
"""Keys with a flag of the same name, for commands."""


class SuiteFile(Section):
    """Content of a suite file."""

    title: str = ""
    imports: list[str] = Field(default_factory=list, description="Python modules that register components")
    set: dict[str, Any] = Field(default_factory=dict, description="config values of all runs")
    cells: Annotated[list[Grid], Field(min_length=1)]

    _valid_set = field_validator("set")(_checked_set)


@dataclass(frozen=True)
class Cell:
    """A cell of the table: a method on a task, a robot and an engine."""

    task: str
    robot: str
    engine: str
    method: str
    """Its name in the table: the algorithm, or the `name` of the grid."""
    values: Mapping[str, Any]
    """Config values of its runs, nested, besides the seed and the log directory."""
    seeds: tuple[int, ...]
    resolved: Resolved
    """The complete config of its first seed."""
    command: str
    """Command that trains the run of a seed; `S` stands for the seed."""
    note: str
    """What a reader of its results must know."""

    @property
    def name(self) -> str:
        """`TASK/ROBOT/ENGINE/METHOD`, which identifies the cell in a suite and is its path in a folder."""
        return "/".join((self.task, self.robot, self.engine, self.method.replace("/", "-")))


@dataclass(frozen=True)
class Suite:
    """Cells of a table, in the order of the file."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    imports: tuple[str, ...]
    content: Mapping[str, Any]
    """Content of the file."""

    def cell(self, name: str) -> Cell:
        """Return a cell by its name; refuse a name that the suite lacks."""
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise ConfigError(bad_value("cell", name, [cell.name for cell in self.cells], f"is not in {self.name}"))


def shipped() -> list[str]:
    """Return the names of the suites that come with mygym."""
    return sorted(path.name.removesuffix(".yaml") for path in SHIPPED.iterdir() if path.name.endswith(".yaml"))


def load_suite(source: str | Path, name: str = "") -> Suite:
    """Return the suite of a file, or of a name of `shipped`; `name` replaces the name of the file.

    Raises:
        ConfigError: There is no such suite, or a value in it is wrong.
    """
    path = Path(source)
    if str(source) in shipped() and not path.is_file():
        return make_suite(str(source), load_file(str(SHIPPED / f"{source}.yaml")))
    if not path.is_file():
        near = [*shipped(), *sorted(str(each) for each in path.parent.glob("*.yaml"))]
        raise ConfigError(bad_value("suite", str(source), near, "is no file, and no suite that comes with mygym"))
    return make_suite(name or path.stem, load_file(str(path)))


def make_suite(name: str, content: Mapping[str, Any]) -> Suite:
    """Return the suite of a file's content.

    Raises:
        ConfigError: A value is wrong, a config cannot be resolved, or two cells have the same name.
    """
    from mygym.registry import user_files

    try:
        file = SuiteFile.model_validate(dict(content))
    except ValidationError as error:
        raise ConfigError(f"suite {name}: {explained(error, of=SuiteFile)}") from None
    imports = user_files.import_modules(file.imports)
    cells: dict[str, Cell] = {}
    for number, grid in enumerate(file.cells):
        for cell in _cells(grid, f"suite {name}: cells.{number}", file.set):
            if cell.name in cells:
                why = "is there twice; give one of the grids a `name`"
                raise ConfigError(f"suite {name}: {bad_value(f'cells.{number}', cell.name, 'a cell once', why)}")
            cells[cell.name] = cell
    return Suite(name, file.title, tuple(cells.values()), tuple(imports), content)


def _cells(grid: Grid, where: str, common: Mapping[str, Any]) -> Iterator[Cell]:
    """Yield the cells of a grid, whose configs are complete; refuse a wrong config."""
    seeds = tuple(range(grid.seeds)) if isinstance(grid.seeds, int) else tuple(grid.seeds)
    robots: Sequence[str | None] = [None] if grid.robot is None else _listed(grid.robot)
    file = {} if grid.config is None else load_file(grid.config)
    if "imports" in file:
        raise ConfigError(f"{where}: {bad_value('config', grid.config, 'imports beside `cells`', 'has imports')}")
    file = {key: value for key, value in file.items() if key not in ("seed", "logdir")}
    engines = _listed(grid.engine or file.get("engine", DEFAULT_ENGINE))
    for task, robot, engine, algo in itertools.product(
        _listed(grid.task), robots, engines, _built_in() if grid.algo == ALL else _listed(grid.algo)
    ):
        own = merged(merge_configs(common, grid.set), {"task": task, "engine": engine, **_algorithm(algo)})
        if robot is not None:
            own["robot"] = robot
        values = merge_configs(file, own)
        try:
            resolved = resolve_config(overrides={**values, "seed": seeds[0]})
        except ConfigError as error:
            raise ConfigError(f"{where}, {task}, {algo}: {error}") from None
        config = resolved.config
        names = str(config.task), str(config.robot), config.engine, grid.name or algo
        command = command_of(own if grid.config is None else {"config": grid.config, **own})
        yield Cell(*names, values, seeds, resolved, command, grid.note)


def command_of(values: Mapping[str, Any]) -> str:
    """Return the command that trains a run of nested config values; `S` stands for the seed."""
    words = ["mygym", "train"]
    for key, value in flatten(values):
        text = value if isinstance(value, str) else json.dumps(value)
        words += [f"--{key}", text] if key in FLAGS and isinstance(value, str | int) else ["--set", f"{key}={text}"]
    return f"{shlex.join(words)} --seed S"


def _built_in() -> list[str]:
    """Return the algorithms that come with mygym: `KEYWORD`, and `KEYWORD/FRAMEWORK` for its other frameworks."""
    entries = [entry for entry in registry("algorithm") if entry.built_in]
    pairs = [(entry, framework) for entry in entries for framework in entry.frameworks]
    return [entry.name + (f"/{each}" if each != entry.framework else "") for entry, each in pairs]


def _algorithm(name: str) -> dict[str, str]:
    """Return the config values of `KEYWORD`, `KEYWORD/FRAMEWORK` or `default`."""
    keyword, slash, framework = name.partition("/")
    if slash and framework not in FRAMEWORKS:
        raise ConfigError(
            bad_value("algo", name, [f"{keyword}/{each}" for each in FRAMEWORKS], "has no such framework")
        )
    if name == DEFAULT:
        return {}
    return {"algo": keyword, **({"framework": framework} if slash else {})}


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names
