"""The search with runs that end at once: samplers, pruners, seeds, failures, and deaths at every write."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.storages.journal import JournalFileBackend

from mygym.config import load_file
from mygym.errors import ConfigError, InterruptedRunError, RunError
from mygym.planning.resolve import resolve_config
from mygym.reporting.records import SweepFiles
from mygym.sweeps import storage
from mygym.sweeps.run import Report, resume_sweep
from tests.sweeps.conftest import SPACE, resume, trials
from tests.sweeps.executor import InstantExecutor

SAMPLERS = ("random", "tpe", "cmaes")


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sweep(sampler: str, sweep: Callable[..., Report], lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.figure")
    executor = InstantExecutor()
    report = sweep(executor=executor, sampler=sampler)
    assert len(executor.started) == len(lines) == len(report.rows) == 12
    assert {row["state"] for row in report.rows} == {"complete"}
    scores = [row["score"] for row in report.rows]
    assert scores == sorted(scores, reverse=True)
    best = load_file(report.best)
    assert best["algo_params"]["learning_rate"] == report.rows[0]["algo_params.learning_rate"]
    assert best["algo_params"]["policy_kwargs"]["net_arch"] in ([64, 64], [128])
    assert resolve_config(best).config.steps == 60
    assert sum(report.importance.values()) == pytest.approx(1)
    assert next(iter(report.importance)) == "algo_params.learning_rate"
    assert b"<svg" in (report.folder / SweepFiles.SLICES).read_bytes()
    assert b"learning_rate" in (report.folder / SweepFiles.PARALLEL).read_bytes()
    assert "12 of 12" in lines[-1]
    assert "left" in lines[0]
    assert len({json.dumps({key: row[key] for key in row if "." in key}) for row in report.rows}) > 6


def test_a_grid_has_each_combination_once(sweep: Callable[..., Report]) -> None:
    params = {
        "learning_rate": {"grid": [1e-4, 1e-3, 1e-2]},
        "batch_size": {"grid": [32, 64]},
        "n_epochs": {"int": [4, 5]},
    }
    report = sweep(space={"algo": "ppo", "algo_params": params}, sampler="grid", trials=None)
    values = {tuple(row[f"algo_params.{key}"] for key in params) for row in report.rows}
    assert len(values) == len(report.rows) == 12


def test_trials_that_add_nothing_are_told(sweep: Callable[..., Report], lines: list[str]) -> None:
    grid = {"algo": "ppo", "algo_params": {"batch_size": {"grid": [32, 64]}}}
    folder = sweep(space=grid, trials=None).folder
    assert not [line for line in lines if "the grid" in line or "is left" in line]
    resume_sweep(folder, None, {"sweep": {"trials": 3}}, InstantExecutor(), lines.append)
    assert lines[-2:] == ["trials: 3, but the grid has 2", "no trial is left: 2 of 2 have ended"]


def test_tpe_finds_a_better_rate_than_random(sweep: Callable[..., Report]) -> None:
    random, tpe = (sweep(sampler, sampler=sampler, trials=25).rows[:10] for sampler in ("random", "tpe"))
    assert sum(row["score"] for row in tpe) > sum(row["score"] for row in random)


def test_every_seed_of_a_trial_is_a_run(sweep: Callable[..., Report]) -> None:
    executor = InstantExecutor(jobs=3)
    report = sweep(executor=executor, seeds=4, trials=3)
    assert len(executor.started) == 12
    assert executor.most == 3
    assert {row["runs"] for row in report.rows} == {"0:done 1:done 2:done 3:done"}
    row = report.rows[0]
    results = [
        json.loads(path.read_text()) for path in report.folder.glob(f"trials/{row['trial']:04}/*/*/*/*/*/result.json")
    ]
    _, *middle, _ = sorted(result["success_rate"] for result in results)
    assert row["score"] == pytest.approx(sum(middle) / 2)


def test_bad_trials_stop_before_their_end(sweep: Callable[..., Report]) -> None:
    executor = InstantExecutor()
    report = sweep(executor=executor, pruner="median", trials=20, seeds=2)
    states = [row["state"] for row in report.rows]
    pruned = [row for row in report.rows if row["state"] == "pruned"]
    assert states.count("pruned") == executor.stopped > 2
    assert len(executor.started) == 2 * states.count("complete") + len(pruned)  # the second seed does not begin
    run = next(report.folder.glob(f"trials/{pruned[0]['trial']:04}/*/*/*/*/seed_0"))
    assert json.loads((run / "result.json").read_text())["status"] == "interrupted"
    assert min(row["trial"] for row in pruned) >= 5
    best = [abs(row["algo_params.learning_rate"] / 1e-3) for row in report.rows[:1]]
    assert 0.1 < best[0] < 10


def test_failed_and_diverged_trials_are_recorded(sweep: Callable[..., Report]) -> None:
    params = {"n_epochs": {"grid": [3, 4]}, "learning_rate": {"grid": [1e-3, 0.06]}}
    report = sweep(space={"algo": "ppo", "algo_params": params}, trials=None)
    by_values = {(row["algo_params.n_epochs"], row["algo_params.learning_rate"]): row for row in report.rows}
    assert by_values[4, 1e-3]["score"] == 1.0
    assert by_values[4, 0.06]["score"] == 0.0
    assert by_values[4, 0.06]["runs"] == "0:diverged"
    assert (by_values[3, 1e-3]["state"], by_values[3, 1e-3]["error"]) == ("fail", "three epochs fail")
    executor = InstantExecutor()
    resume(report.folder, executor)
    assert executor.started == []


def test_no_trial_with_a_score(sweep: Callable[..., Report], tmp_path: Path) -> None:
    params = {"n_epochs": 3, "learning_rate": {"grid": [1e-3, 1e-4]}}
    with pytest.raises(RunError, match=r"no trial has ended with a score.*trials\.csv"):
        sweep(space={"algo": "ppo", "algo_params": params}, trials=None)
    assert {row["error"] for row in trials(tmp_path / "sweep")} == {"three epochs fail"}
    assert not (tmp_path / "sweep" / SweepFiles.BEST).exists()


# Stops and deaths  ----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Death of the process, which nothing handles."""


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Function after which the process dies at the n-th write to the journal, before or after it."""
    append, left = JournalFileBackend.append_logs, [10**9]

    def dying(self: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        append(self, logs)

    monkeypatch.setattr(JournalFileBackend, "append_logs", dying)
    return lambda writes: left.__setitem__(0, writes)


@pytest.mark.parametrize(
    "settings",
    [
        {"sampler": "tpe", "trials": 13, "seeds": 2},
        {"sampler": "cmaes", "trials": 9},
        {"sampler": "random", "pruner": "median", "trials": 9, "seeds": 2},
        {"sampler": "grid", "trials": 5},
        {"sampler": "nsga2", "trials": 23, "objective": ["success", {"minimize": "mean_return"}]},
        {"sampler": "random", "pruner": "wilcoxon", "trials": 5, "seeds": 6},
    ],
    ids=lambda settings: "-".join(str(settings[key]) for key in ("sampler", "pruner") if key in settings),
)
def test_a_sweep_that_dies_at_any_write_has_the_same_trials(
    settings: dict[str, Any], sweep: Callable[..., Report], deaths: Callable[[int], None], tmp_path: Path
) -> None:
    grid = {"algo": "ppo", "algo_params": {"learning_rate": {"grid": [1e-4, 1e-3, 1e-2]}, "n_epochs": {"int": [4, 5]}}}
    space = grid if settings["sampler"] == "grid" else SPACE
    executor = InstantExecutor()
    whole = sweep("whole", executor, space, **settings)
    writes = 3  # a process writes at least 2 before it dies
    folder, begun = tmp_path / "killed", False
    for _ in range(1000):
        deaths(writes)
        writes = writes % 11 + 3
        started = InstantExecutor()
        try:
            report = resume(folder, started) if begun else sweep("killed", started, space, **settings)
            break
        except Killed:
            begun = folder.exists()
    else:
        pytest.fail("the sweep does not end")
    assert report.rows == whole.rows
    assert report.best.read_text() == whole.best.read_text()
    runs = {path.relative_to(folder) for path in folder.glob("trials/*/*/*/*/*/seed_*")}
    assert runs == {path.relative_to(whole.folder) for path in whole.folder.glob("trials/*/*/*/*/*/seed_*")}


def test_a_signal_stops_the_runs_with_checkpoints(sweep: Callable[..., Report], tmp_path: Path) -> None:
    class Interrupting(InstantExecutor):
        def submit(self, job: Any) -> Any:
            if len(self.started) == 4:
                os.kill(os.getpid(), 15)
            return super().submit(job)

    executor = Interrupting(jobs=2)
    with pytest.raises(InterruptedRunError, match="go on with: mygym sweep --resume"):
        sweep(executor=executor)
    assert executor.running == 0
    assert executor.stopped in (1, 2)
    assert (tmp_path / "sweep" / "trials.csv").read_text().count("complete") > 0, "no table of the trials until then"
    again = InstantExecutor()
    report = resume(tmp_path / "sweep", again)
    assert {row["state"] for row in report.rows} == {"complete"}
    assert [words[0] for words in again.started].count("--resume") == executor.stopped
    assert len(executor.started) + len(again.started) == 12 + executor.stopped


def test_a_second_signal_does_not_wait_and_leaves_no_run_executing(sweep: Callable[..., Report]) -> None:
    class Impatient(InstantExecutor):
        def submit(self, job: Any) -> Any:
            if len(self.started) == 1:
                raise KeyboardInterrupt
            return super().submit(job)

    executor = Impatient(jobs=2)
    with pytest.raises(KeyboardInterrupt):
        sweep(executor=executor)
    assert executor.stopped == executor.running == 1


def test_more_trials_continue_a_sweep(sweep: Callable[..., Report], tmp_path: Path) -> None:
    whole = sweep("whole", trials=12)
    sweep("part", trials=5)
    executor = InstantExecutor()
    assert resume(tmp_path / "part", executor, sweep={"trials": 12}).rows == whole.rows
    assert len(executor.started) == 7
    assert load_file(tmp_path / "part" / SweepFiles.SWEEP)["sweep"]["trials"] == 12


def test_a_torn_line_and_a_lock_of_a_killed_process_do_no_harm(sweep: Callable[..., Report], tmp_path: Path) -> None:
    whole = sweep("whole", trials=6)
    sweep("torn", trials=3)
    journal = tmp_path / "torn" / storage.JOURNAL
    with journal.open("a") as file:
        file.write('{"op_code": 4, "tri')
    Path(f"{journal}.lock").symlink_to("nowhere")
    assert resume(tmp_path / "torn", sweep={"trials": 6}).rows == whole.rows


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"algo_params": {"gamma": {"choice": [0.9]}}}, r"algo_params\.gamma\.choice: \[0\.9\] differs from the sweep"),
        ({"sweep": {"seeds": 2}}, r"sweep\.seeds: \[0, 1\] differs"),
        ({"steps": 70}, "steps: 70 differs from the sweep.*allowed: 60, or a new sweep"),
    ],
)
def test_another_space_is_refused(flags: Any, text: str, sweep: Callable[..., Report]) -> None:
    folder = sweep(trials=2).folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=text):
        resume(folder, **flags)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_journal_of_another_space_is_refused(sweep: Callable[..., Report]) -> None:
    folder = sweep(trials=2).folder
    file = folder / SweepFiles.SWEEP
    file.write_text(file.read_text().replace("int: [4, 9]", "int: [4, 8]"))
    with pytest.raises(ConfigError, match=r"algo_params\.n_epochs\.int: \[4, 8\] differs from .*journal\.log"):
        resume(folder)


def test_a_sweep_with_a_former_name_of_a_key_goes_on(sweep: Callable[..., Report]) -> None:
    folder = sweep(trials=2, space={**SPACE, "env_processes": False}).folder
    for file in (folder / SweepFiles.SWEEP, folder / storage.JOURNAL):
        before = file.read_text()
        file.write_text(before.replace("env_processes", "subprocesses"))
        assert file.read_text() != before
    assert len(resume(folder, sweep={"trials": 3}).rows) == 3


def test_a_damaged_journal_is_named(sweep: Callable[..., Report]) -> None:
    folder = sweep(trials=2).folder
    journal = folder / storage.JOURNAL
    journal.write_text(journal.read_text().replace("}\n", "\n", 3))
    with pytest.raises(RunError, match=r"journal\.log: is damaged"):
        resume(folder)


def test_a_sweep_in_use_is_refused(sweep: Callable[..., Report]) -> None:
    folder = sweep(trials=2).folder
    with storage.lock(folder), pytest.raises(ConfigError, match="is being searched by another process"):
        resume(folder)


def test_nothing_is_written_before_the_space_is_checked(sweep: Callable[..., Report], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"algo_params\.gamma: 1\.5"):
        sweep(space={"algo": "ppo", "algo_params": {"gamma": {"uniform": [0.5, 1.5]}}})
    with pytest.raises(ConfigError, match="'kuka' has no gripper"):
        sweep(space={"task": "pick_and_place", "robot": "kuka", "algo": {"grid": ["ppo", "a2c"]}})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "sweep").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        sweep()
    assert list((tmp_path / "sweep").iterdir()) == []
