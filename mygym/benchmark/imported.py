"""Runs from elsewhere in the table of a benchmark: their policies are judged here, and none of their code runs."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from mygym.benchmark.execution import Benchmark
from mygym.benchmark.stored import CellRow, cell_row
from mygym.benchmark.suite import NAME_IN_WORDS, is_name
from mygym.config import load_file
from mygym.errors import ConfigError, MygymError, bad_value
from mygym.reporting.judgement import find_finished, finished_result, judge
from mygym.reporting.leaderboard import Row
from mygym.reporting.records import RunRecord, read_run
from mygym.reporting.statistics import success_interval
from mygym.training import directory, files
from mygym.training.result import Result

FOLDER = "imported"
"""Folder of these runs, below that of the benchmark: a folder for each cell, and one in it for each seed."""

JUDGEMENT = "judgement.json"

NEEDED = (directory.CONFIG, directory.RESULT, directory.POLICY)
"""Files of a run that are copied; all others stay where they are."""

LARGEST = 1 << 30
"""Bytes of a file in an archive above which it is refused."""


def add(benchmark: Benchmark, sources: Sequence[Path], method: str, episodes: int) -> list[tuple[Path, Row, str]]:
    """Judge runs from elsewhere, and add them to a benchmark, in place of earlier ones of the same cell and seed.

    A source is a run, a folder of runs, or a zip file of one; without a name of the method it is the algorithm.

    Returns:
        For each run its new folder, its judgement, and what differs from its own result; empty if the two agree.

    Raises:
        ConfigError: There is no finished run, the suite itself has its cell, or two have the same cell and seed:
            nothing is added. Or a run needs modules that are not here: those before it are added.
        RunError: A policy cannot be loaded, or a file cannot be written.
    """
    if method and not is_name(method):
        raise ConfigError(bad_value("--as", method, NAME_IN_WORDS))
    added = []
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        copies: dict[Path, tuple[Path, RunRecord, Path]] = {}
        for source in sources:
            finished, _ = find_finished([stack.enter_context(_folder_of(source))])
            for record in finished:
                copy = temporary / str(len(copies)) / Path(record.path).name
                with _named(copy, record.path):
                    _copy(Path(record.path), copy)
                    place = _place(benchmark, finished_result(copy), record.path, method)
                if place in copies:
                    why = f"has the cell and the seed of {copies[place][1].path}"
                    allowed = "one run of a cell and a seed, or --add one by one, each with another --as NAME"
                    raise ConfigError(bad_value("--add", record.path, allowed, why))
                copies[place] = copy, record, source
        for place, (copy, record, source) in copies.items():
            claimed = record.success_rate or 0.0
            with _named(copy, record.path):
                row = judge(copy, episodes)
            low, high = success_interval(claimed * record.episodes, record.episodes)
            agrees = low <= row.interval.high and row.interval.low <= high
            claim = "" if agrees else f"its result says {100 * claimed:.1f} %"
            files.write_json(copy / JUDGEMENT, {**row.to_json(), "origin": source.name, "claimed": claimed})
            with files.writing(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                files.remove(place)
                shutil.move(copy, place)
            added.append((place, row, claim))
    return added


def _place(benchmark: Benchmark, result: Result, run: str, method: str) -> Path:
    """Return the new folder of a run; refuse a cell of the suite, whose results it would hide in the table."""
    parts = result.task, result.robot, result.engine, method or result.algo
    for part in parts:  # of their result.json: the copy must not leave the folder
        if not is_name(part):
            raise ConfigError(bad_value("--add", part, NAME_IN_WORDS, f"is a name in {run}"))
    if (cell := "/".join(parts)) in {each.name for each in benchmark.suite.cells}:
        why = f"is a run of {cell}, of which the suite has its own"
        raise ConfigError(bad_value("--add", run, "--as NAME with the name of another method", why))
    return benchmark.folder.joinpath(FOLDER, *parts, f"seed_{result.seed}")


def imported_cells(benchmark: Benchmark) -> list[CellRow]:
    """Return the rows of the cells of a benchmark whose runs come from elsewhere, or are in its table alone.

    The success of a run is that in the episodes that were played here. The name of a cell begins with the folder, and
    so does that of its method if the suite has a cell of the same values, which it must not join.
    """
    folder, own, cells = benchmark.folder, {cell.name for cell in benchmark.suite.cells}, []
    names = {path.relative_to(folder).as_posix() for path in folder.joinpath(FOLDER).glob("*/*/*/*")}
    for name in sorted(names | {name for name in benchmark.stored if name.startswith(f"{FOLDER}/")}):
        stored = benchmark.stored.get(name)
        known = {record.seed: record for record in stored.setting.records} if stored else {}
        origins = []
        for file in folder.glob(f"{name}/seed_*/{JUDGEMENT}"):
            judged = json.loads(file.read_text(encoding="utf-8"))
            figures = {key: judged[key] for key in ("success_rate", "success_low", "success_high", "episodes")}
            record = replace(read_run(file.parent, time.time()), **figures)
            known[record.seed] = record
            origins.append(judged["origin"])
        records = sorted(known.values(), key=lambda record: record.seed or 0)
        if not records:
            continue
        if stored and not all(record.path for record in records):
            origins += stored.origin.split(", ")
        _, task, robot, engine, method = name.split("/")
        shown = f"{FOLDER} {method}" if name.removeprefix(f"{FOLDER}/") in own else method
        config = f"{name}/seed_{records[0].seed}/{directory.CONFIG}"
        command = f"mygym train --config {shlex.quote(config)} --seed S"
        seeds, origin = tuple(record.seed or 0 for record in records), ", ".join(sorted(set(origins)))
        cells.append(cell_row((task, robot, engine, shown), name, seeds, command, records, stored, origin=origin))
    return cells


def _copy(run: Path, copy: Path) -> None:
    """Copy the needed files of a run; its config without the modules that it imports, which are code."""
    copy.mkdir(parents=True)
    for name in NEEDED:
        if not files.is_file(run / name):
            raise ConfigError(bad_value("--add", str(run), f"a run with {', '.join(NEEDED)}", f"has no {name}"))
        shutil.copyfile(run / name, copy / name)
    config = {key: value for key, value in load_file(str(copy / directory.CONFIG)).items() if key != "imports"}
    files.write_yaml(copy / directory.CONFIG, config)


@contextmanager
def _folder_of(source: Path) -> Iterator[Path]:
    """Yield the folder of runs: the source, or a temporary one with the needed files of an archive.

    Raises:
        ConfigError: The source is neither a folder nor a zip file, or a file in it is too large.
    """
    if source.is_dir():
        yield source
        return
    if not zipfile.is_zipfile(source):
        raise ConfigError(bad_value("--add", str(source), "a run, a folder of runs, or a zip file of one"))
    with tempfile.TemporaryDirectory() as temporary:
        try:
            with zipfile.ZipFile(source) as archive:
                for entry in archive.infolist():
                    if Path(entry.filename).name in NEEDED:
                        if entry.file_size > LARGEST:
                            why = f"has a file of {entry.file_size / 1e9:.1f} GB, {entry.filename}"
                            allowed = f"files below {LARGEST / 1e9:.1f} GB"
                            raise ConfigError(bad_value("--add", str(source), allowed, why))
                        archive.extract(entry, temporary)  # never leaves the folder
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:  # damaged, or encrypted
            allowed, why = "a zip file that can be unpacked", f"cannot be unpacked ({error})".replace(temporary, "")
            raise ConfigError(bad_value("--add", str(source), allowed, why)) from None
        with _named(Path(temporary), source):
            yield Path(temporary)


@contextmanager
def _named(folder: Path, name: Path | str) -> Iterator[None]:
    """Name the source in place of a temporary folder in the message of an error."""
    try:
        yield
    except MygymError as error:
        error.args = (str(error).replace(str(folder), str(name)),)
        raise
