"""Two objectives, pruning by seeds, past trials, trials that are trained on, and the state of a sweep."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mygym.cli.main import main
from mygym.config import load_file
from mygym.errors import ConfigError, InterruptedRunError
from mygym.reporting.records import SweepFiles
from mygym.sweeps import storage
from mygym.sweeps.results import read_state
from mygym.sweeps.run import Report, train_on
from mygym.sweeps.settings import make_sweep
from tests.sweeps.conftest import SPACE, resume, trials
from tests.sweeps.executor import InstantExecutor

COSTS = {"objective": ["success", {"minimize": "mean_return"}]}
"""Success against minus success: every value is a trade-off; both are numbers without noise."""


def test_nsga2_has_a_front_in_which_no_trial_is_better_in_both(
    sweep: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.figure")
    report = sweep(sampler="nsga2", trials=24, objective=["success", {"minimize": "steps"}])
    front = [row for row in report.rows if row["front"]]
    assert front == report.rows[: len(front)] != report.rows
    assert {row["second_score"] for row in report.rows} == {50}
    assert {row["score"] for row in front} == {max(row["score"] for row in report.rows)}
    by_number = sorted(report.rows, key=lambda row: row["trial"])
    assert sum(row["score"] for row in by_number[14:]) > sum(row["score"] for row in by_number[:10])
    assert report.objective == "success, steps"
    assert b"<svg" in (report.folder / SweepFiles.FRONT).read_bytes()
    assert load_file(report.best)["algo_params"]["learning_rate"] == front[0]["algo_params.learning_rate"]


def test_every_trade_off_is_in_the_front(sweep: Callable[..., Report]) -> None:
    rows = sweep(sampler="nsga2", **COSTS).rows
    assert all(row["front"] for row in rows)
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)


def test_nsga2_searches_success_against_seconds_by_default() -> None:
    names = [each.name for each in make_sweep({**SPACE, "sweep": {"sampler": "nsga2"}}).objectives]
    assert names == ["success", "seconds"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sampler": "cmaes", **COSTS}, r"sweep\.sampler: 'cmaes' maximizes or minimizes a single number"),
        ({"pruner": "median", **COSTS}, r"sweep\.pruner: 'median' compares trials by a single number"),
        ({"pruner": "wilcoxon", "seeds": 4}, r"sweep\.seeds: 4 stops a trial after 4 seeds.*allowed: 5 or more"),
        ({"objective": ["success"]}, r"sweep\.objective"),
        ({"objective": ["success", "sucess"]}, r"sweep\.objective: 'sucess'.*did you mean 'success'"),
    ],
)
def test_settings_that_do_not_suit_each_other_are_refused(settings: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_sweep({**SPACE, "sweep": settings})


def test_wilcoxon_stops_trials_that_are_worse_with_all_seeds_so_far(sweep: Callable[..., Report]) -> None:
    executor = InstantExecutor()
    report = sweep(executor=executor, pruner="wilcoxon", seeds=6, trials=9)
    pruned = [row for row in report.rows if row["state"] == "pruned"]
    complete = [row for row in report.rows if row["state"] == "complete"]
    assert len(pruned) > 2
    assert {len(row["runs"].split()) for row in pruned} == {4}
    assert len(executor.started) == 4 * len(pruned) + 6 * len(complete)
    assert 1e-4 < report.rows[0]["algo_params.learning_rate"] < 1e-2


def test_past_trials_are_the_first_and_a_grid_leaves_them_out(sweep: Callable[..., Report], tmp_path: Path) -> None:
    params = {"learning_rate": {"grid": [1e-4, 1e-3, 1e-2]}, "n_epochs": {"grid": [4, 5]}}
    file = {"algo": "ppo", "algo_params": params}
    past = [
        {"values": {"algo_params.learning_rate": "0.001", "algo_params.n_epochs": str(epochs)}, "scores": [score],
         "figures": [score], "runs": [{"seed": 0, "status": "done", "seconds": 9.0}], "past": "runs/a"}
        for epochs, score in ((5, 2.0), (4, 0.5))
    ]  # fmt: skip
    storage.create(tmp_path / "with_past", make_sweep(file), past)
    executor = InstantExecutor()
    report = resume(tmp_path / "with_past", executor)
    assert len(executor.started) == 4
    assert report.rows[0]["state"] == "past"
    assert (report.rows[0]["score"], report.rows[0]["algo_params.n_epochs"], report.rows[0]["trial"]) == (2.0, 5, 0)
    assert len({(row["algo_params.learning_rate"], row["algo_params.n_epochs"]) for row in report.rows}) == 6
    assert resume(tmp_path / "with_past").rows == report.rows


def test_the_best_trials_are_trained_on(sweep: Callable[..., Report], fast: None) -> None:
    report = sweep(trials=5, seeds=2)
    executor = InstantExecutor()
    longer = train_on(report.folder, 2, 90, executor, lambda line: None)
    best = [row["trial"] for row in report.rows[:2]]
    assert [row["trial"] for row in longer.rows] == best
    assert [words[0] for words in executor.started] == ["--resume"] * 4
    assert longer.rows[0]["score"] == pytest.approx(report.rows[0]["score"] + 0.03)
    assert longer.rows[0]["score_before"] == report.rows[0]["score"]
    assert load_file(longer.best)["steps"] == 90
    assert len((report.folder / SweepFiles.TRAINED_ON).read_text().splitlines()) == 3
    assert trials(report.folder) == trials(resume(report.folder).folder)  # the trials keep their scores
    again = InstantExecutor()
    assert train_on(report.folder, 2, 90, again, lambda line: None).rows == longer.rows
    assert again.started == []
    with pytest.raises(ConfigError, match=r"--steps: 80 is less than the 90 steps of .*allowed: at least 90"):
        train_on(report.folder, 2, 80, again, lambda line: None)


def test_a_signal_stops_what_is_trained_on(sweep: Callable[..., Report], fast: None) -> None:
    class Interrupting(InstantExecutor):
        def submit(self, job: Any) -> Any:
            os.kill(os.getpid(), 15)
            return super().submit(job)

    report, executor = sweep(trials=3), Interrupting()
    with pytest.raises(InterruptedRunError, match="--train-on 2 --steps 90"):
        train_on(report.folder, 2, 90, executor, lambda line: None)
    assert (executor.stopped, executor.running) == (1, 0)
    assert len(train_on(report.folder, 2, 90, InstantExecutor(), lambda line: None).rows) == 2


def test_the_state_of_a_sweep(sweep: Callable[..., Report], tmp_path: Path) -> None:
    class Dying(InstantExecutor):
        def submit(self, job: Any) -> Any:
            if len(self.started) == 3:
                raise KeyboardInterrupt
            return super().submit(job)

    with pytest.raises(KeyboardInterrupt):
        sweep(executor=Dying())
    folder = tmp_path / "sweep"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with storage.lock(folder):
        lines, executing = read_state(folder)
        assert executing
        assert re.fullmatch(r"3 of 12 trials, \d+ s left", lines[0])
        assert lines[1].startswith("best: trial ")
    lines, executing = read_state(folder)
    assert not executing
    assert lines[-1] == f"no process executes this sweep; go on with: mygym sweep --resume {folder}"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    resume(folder)
    assert read_state(folder)[0][0] == "12 of 12 trials"


def test_the_report_of_a_sweep(sweep: Callable[..., Report], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.figure")
    folder = sweep(trials=4).folder
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder), "-o", str(tmp_path / "report.html")])
    assert ended.value.code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/svg+xml") == 2
    for text in (f"Sweep {folder}", "best.yaml", "algo_params.learning_rate"):
        assert text in page
