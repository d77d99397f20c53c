"""The index of runs: each status, filters, and the commands that list, delete and archive."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import mygym
from mygym.cli.main import main
from mygym.errors import ConfigError
from mygym.reporting.records import COLUMNS, STATUSES, read_run
from mygym.training import directory
from tests.reporting.runs import make_run


def mygym_runs(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["runs", *words])
    return int(end.value.code or 0)


def damage(run: Path) -> None:
    (run / directory.RESULT).write_text("{")


def test_every_status(tmp_path: Path) -> None:
    runs = {status: make_run(tmp_path, 0.5, status=status, algo=status) for status in ("done", "diverged", "failed")}
    runs["stopped"] = make_run(tmp_path, 0.5, status="", algo="stopped")
    runs["damaged"] = make_run(tmp_path, 0.5, algo="damaged")
    damage(runs["damaged"])
    runs["running"] = make_run(tmp_path, 0.5, status="interrupted", algo="running")
    with FileLock(runs["running"] / directory.LOCK):
        records = {record.path: record for record in mygym.results(tmp_path)}
    assert {path: record.status for path, record in records.items()} == {str(p): status for status, p in runs.items()}
    done, stopped = records[str(runs["done"])], records[str(runs["stopped"])]
    assert (done.success_rate, done.episodes, done.steps, done.steps_to_90) == (0.5, 100, 10_000, None)
    assert done.success_low is not None
    assert 0.4 < done.success_low < 0.5
    assert (stopped.success_rate, stopped.success_low, stopped.steps) == (0.5, None, 10_000)
    assert (stopped.task, stopped.robot, stopped.algo, stopped.seed) == ("reach", "panda", "stopped", 0)
    assert records[str(runs["damaged"])].error == "result.json is not readable"


@pytest.mark.parametrize(
    "values",
    [{"stage_reached": {"done": "x"}}, {"stage_reached": 5}, {"evaluations": [5]}, {"seed": "x"}, {"task": {}}],
)
def test_a_malformed_result_is_damaged(values: dict[str, Any], tmp_path: Path) -> None:
    run = make_run(tmp_path)
    content = json.loads((run / directory.RESULT).read_text())
    (run / directory.RESULT).write_text(json.dumps(content | values))
    assert read_run(run, now=0.0).status == "damaged"


def test_time_to_learn(tmp_path: Path) -> None:
    record = read_run(make_run(tmp_path, 1.0), now=0.0)
    assert (record.steps_to_90, record.seconds_to_90) == (9_000, 9.0)


def test_the_search_stops_at_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    make_run(run / "checkpoints")
    (tmp_path / "link").symlink_to(tmp_path)
    assert [record.path for record in mygym.results(tmp_path)] == [str(run)]
    assert [record.path for record in mygym.results(run)] == [str(run)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("algo=ppo", 2),
        ("algo=ppo,seed=1", 1),
        ("algo_params.gamma=0.9", 1),
        ("status=done,success=1.0", 2),
        ("algo=sac,seed=7", 0),
        ("algo_params.net_arch=[64, 64],algo=sac", 1),
        ("algo_params.noise={std: 0.1, of: [[1, 2], [3]]}, algo_params.net_arch=[64,64]", 1),
        ('algo_params.text="x, y",algo=sac', 1),
    ],
)
def test_where(where: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        make_run(tmp_path, float(seed), seed, algo="ppo")
    params = {"gamma": 0.9, "net_arch": [64, 64], "noise": {"std": 0.1, "of": [[1, 2], [3]]}, "text": "x, y"}
    make_run(tmp_path, 1.0, algo="sac", algo_params=params)
    assert mygym_runs(str(tmp_path), "--where", where, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == expected


def test_a_hash_of_digits_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path)
    result = json.loads((run / directory.RESULT).read_text())
    for digits in ("12345678", "123e4567"):
        (run / directory.RESULT).write_text(json.dumps({**result, "config_hash": digits}))
        assert mygym_runs(str(tmp_path), "--where", f"config_hash={digits}", "--json") == 0
        assert len(json.loads(capsys.readouterr().out)) == 1


def test_an_unknown_status_is_refused_and_no_match_is_no_empty_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, 1.0)
    assert mygym_runs(str(tmp_path), "--where", "status=don") == 2
    assert re.search(r"--where status: 'don' is no status of a run; .* did you mean 'done'", capsys.readouterr().err)
    for status in STATUSES:
        assert mygym_runs(str(tmp_path), "--where", f"status={status}") == 0
    assert capsys.readouterr().err.count(f"no runs in {tmp_path} with status=") == len(STATUSES) - 1


def test_sorting_puts_the_largest_first_and_unknown_values_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, success in enumerate((0.2, 1.0, 0.95)):
        make_run(tmp_path, success, seed)
    assert mygym_runs(str(tmp_path), "--sort", "steps_to_90", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert tuple(rows[0]) == COLUMNS
    assert [row["steps_to_90"] for row in rows] == ["10000", "9000", ""]


@pytest.mark.parametrize("form", ["--markdown", "--latex"])
def test_tables_for_papers(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, 0.5, task="pick_and_place")
    assert mygym_runs(str(tmp_path), form) == 0
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if "place" in line)
    assert row.startswith({"--markdown": "| pick_and_place | panda", "--latex": r"pick\_and\_place & panda"}[form])
    assert ("50%" if form == "--markdown" else r"50\%") in row


def test_deletion_spares_a_run_that_is_being_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idle, running = make_run(tmp_path, status="failed"), make_run(tmp_path, seed=1, status="failed")
    kept = make_run(tmp_path, seed=2)
    with FileLock(running / directory.LOCK):
        assert mygym_runs(str(tmp_path), "--delete") == 2  # nobody can answer
        assert idle.exists()
        assert mygym_runs(str(tmp_path), "--delete", "--yes") == 0
    assert (idle.exists(), running.exists(), kept.exists()) == (False, True, False)
    assert "stays, because a process is writing it" in capsys.readouterr().err


def test_an_archive_holds_the_runs_that_it_removes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    config = (run / directory.CONFIG).read_bytes()
    archive = tmp_path / "old.zip"
    assert mygym_runs(str(tmp_path / "runs"), "--archive", str(archive), "--yes") == 0
    assert not run.exists()
    assert list((tmp_path / "runs").iterdir()) == []
    with zipfile.ZipFile(archive) as packed:
        (member,) = (name for name in packed.namelist() if name.endswith(f"{run.name}/{directory.CONFIG}"))
        assert packed.read(member) == config
        assert not any(name.endswith(directory.LOCK) for name in packed.namelist())


def test_more_runs_than_files_that_a_process_may_open_are_archived_into_a_new_folder(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    runs = [make_run(tmp_path / "runs", seed=seed) for seed in range(40)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = len(list(Path("/proc/self/fd").iterdir())) + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        assert mygym_runs(str(tmp_path / "runs"), "--archive", str(tmp_path / "new" / "old.zip"), "--yes") == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not any(run.exists() for run in runs)
    assert (tmp_path / "new" / "old.zip").is_file()


def test_an_archive_in_a_run_that_it_removes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "runs")
    before = sorted(run.rglob("*"))
    assert mygym_runs(str(tmp_path / "runs"), "--archive", str(run / "old.zip"), "--yes") == 2
    assert "a file outside of the runs" in capsys.readouterr().err
    assert sorted(run.rglob("*")) == before


def test_an_archive_that_cannot_be_written_leaves_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "runs")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "write", full)
    assert mygym_runs(str(tmp_path / "runs"), "--archive", str(tmp_path / "old.zip"), "--yes") == 1
    assert run.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nowhere"], "folder: 'nowhere' is not a folder; allowed: a folder with runs; the first training makes one"),
        (["reahc"], "folder: 'reahc' is not a folder; allowed: reach; did you mean 'reach'?"),
        ([".", "--where", "algos=sac"], "did you mean 'algo'"),
        ([".", "--where", "algo"], "'algo' is not a pair"),
        ([".", "--sort", "sucess"], "did you mean 'success'"),
        ([".", "--csv", "--json"], "exclude each other"),
        ([".", "--delete", "--archive", "a.zip"], "exclude each other"),
        ([".", "--archive", "a.tar.gz", "--yes"], "a new file that ends in .zip"),
    ],
)
def test_bad_input(
    words: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert mygym_runs(*words) == 2
    assert text in capsys.readouterr().err
    assert run.exists()


def test_an_unknown_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^folder: .*nowhere"):
        mygym.results(tmp_path / "nowhere")
