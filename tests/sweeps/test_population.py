"""Population-based training: exploit, explore, lineage, and deaths at every run."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mygym.config import load_file
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from mygym.reporting.records import SweepFiles
from mygym.sweeps import executors as batch
from mygym.sweeps.population import Member, _changed, _following
from mygym.sweeps.results import read_state
from mygym.sweeps.run import Report, new_sweep, resume_sweep
from mygym.sweeps.settings import PopulationSettings, make_sweep
from mygym.sweeps.space import Parameter
from tests.sweeps.executor import TrainingExecutor

FILE: dict[str, Any] = {
    "algo": "ppo",
    "steps": 64,
    "n_envs": 1,
    "eval": {"every": 64, "episodes": 1, "final_episodes": 2},
    "algo_params": {
        "n_steps": 16,
        "n_epochs": 1,
        "learning_rate": {"loguniform": [1e-4, 1e-2]},
        "ent_coef": {"uniform": [0.0, 0.01]},
    },
    "sweep": {
        "population": {"members": 3, "generations": 2, "replaced": 0.4},
        "objective": {"maximize": "mean_return"},
    },
}


def lineage(folder: Path) -> list[dict[str, str]]:
    with (folder / SweepFiles.LINEAGE).open() as file:
        return list(csv.DictReader(file))


def policies(report: Report) -> list[bytes]:
    folders = sorted(report.folder.glob("members/*/*"))
    return [(next(folder.glob("*/*/*/*/seed_*")) / "policy.safetensors").read_bytes() for folder in folders]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "POLL", 0.0)
        return new_sweep(tmp_path_factory.mktemp("population") / "whole", FILE, {}, TrainingExecutor(), print)


def test_a_bad_member_goes_on_from_a_copy_of_a_good_member(whole: Report) -> None:
    first, second = ([row for row in lineage(whole.folder) if row["generation"] == g] for g in ("1", "2"))
    order = sorted(first, key=lambda row: float(row["score"]))
    worst, best = order[0]["member"], order[-1]["member"]
    (copy,) = [row for row in second if row["parent"] != row["member"]]
    assert (copy["member"], copy["parent"]) == (worst, best)
    rate = "algo_params.learning_rate"
    factor = float(copy[rate]) / float(order[-1][rate])
    assert min(abs(factor - 0.8), abs(factor - 1.2)) < 1e-9
    run = next(whole.folder.glob(f"members/{int(worst):02}/001/*/*/*/*/seed_{best}"))
    config = load_file(run / "config.yaml")
    assert config["algo_params"]["learning_rate"] == float(copy[rate])
    assert (config["steps"], [row["steps"] for row in second]) == (64, ["64"] * 3)
    assert len(list(whole.folder.glob("members/*/*"))) == 4


def test_the_best_config_has_the_values_over_the_steps(whole: Report) -> None:
    best = load_file(whole.best)
    assert resolve_config(best).config.steps == 64
    rate = best["algo_params"]["learning_rate"]
    rows = {(row["generation"], row["member"]): row for row in lineage(whole.folder)}
    last = rows["2", str(whole.rows[0]["member"])]
    before = rows["1", last["parent"]]
    values = [float(row["algo_params.learning_rate"]) for row in (before, last)]
    if values[0] == values[1]:
        assert rate == values[0]
    else:
        assert rate["points"] == [[0, values[0]], [32, values[0]], [33, values[1]], [64, values[1]]]
    assert whole.rows[0]["score"] == max(float(row["score"]) for row in lineage(whole.folder)[3:])
    assert read_state(whole.folder)[0][0] == "2 of 2 generations"
    assert b"<svg" in (whole.folder / SweepFiles.POPULATION).read_bytes()


@pytest.mark.slow
def test_a_population_that_dies_before_any_run_is_the_same(
    whole: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "POLL", 0.0)
    executors = [TrainingExecutor(dies_at) for dies_at in (2, 2, 1, -1)]
    for executor in executors:
        try:
            if (tmp_path / "killed").exists():
                report = resume_sweep(tmp_path / "killed", None, {}, executor, print)
            else:
                report = new_sweep(tmp_path / "killed", FILE, {}, executor, print)
        except KeyboardInterrupt:
            continue
    assert [len(executor.started) for executor in executors] == [2, 2, 1, 1]
    assert report.rows == whole.rows
    assert policies(report) == policies(whole)


def member(number: int, score: float | None) -> Member:
    return Member(number, number, f"members/{number:02}/000", number, {"algo_params.ent_coef": 0.005}, score)


def test_members_without_a_score_are_replaced_and_equal_members_stay() -> None:
    sweep = make_sweep({**FILE, "algo_params": {"ent_coef": {"uniform": [0.0, 0.01]}}})
    settings = PopulationSettings(members=4, replaced=0.25)
    failed = _following(sweep, [member(0, None), member(1, 2.0), member(2, None), member(3, 1.0)], 1, settings)
    assert [each.parent for each in failed] == [1, 1, 1, 1]
    equal = _following(sweep, [member(number, 1.0) for number in range(4)], 1, settings)
    assert [each.parent for each in equal] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "values", "value", "allowed"),
    [
        ("uniform", (0.0, 1.0), 0.5, {0.4, 0.6}),
        ("loguniform", (1e-5, 1e-3), 1e-3, {8e-4, 1e-3}),
        ("int", (1, 9), 1, {1, 2}),
        ("grid", (0.1, 0.2, 0.4), 0.4, {0.2, 0.4}),
    ],
)
def test_values_change_within_their_range(kind: str, values: Any, value: Any, allowed: set[Any]) -> None:
    rng = np.random.default_rng(0)
    parameter = Parameter(("algo_params", "x"), kind, values)
    assert {_changed(parameter, value, rng) for _ in range(50)} == allowed


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"algo_params": {"n_steps": {"choice": [8, 16]}}}, r"algo_params\.n_steps' is fixed during a training"),
        ({"reward": {"choice": ["dense", "sparse"]}}, "'reward' is fixed during a training"),
        ({"sweep": {"sampler": "tpe"}}, r"sweep\.sampler: 'tpe' cannot be combined with sweep\.population"),
        ({"sweep": {"pruner": "median"}}, r"sweep\.pruner: 'median' cannot be combined"),
        ({"sweep": {"seeds": 2}}, r"sweep\.seeds: 2 cannot be combined"),
        ({"sweep": {"population": {"members": 1}}}, r"sweep\.population\.members: 1"),
    ],
)
def test_a_population_that_cannot_be(changes: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=text):
        new_sweep(tmp_path / "new", FILE, changes, TrainingExecutor(), print)
    assert list(tmp_path.iterdir()) == []


def test_another_population_is_refused(whole: Report) -> None:
    file = yaml.safe_load((whole.folder / "sweep.yaml").read_text())
    file["sweep"]["population"]["members"] = 4
    file["sweep"]["trials"] = 4
    with pytest.raises(ConfigError, match=r"sweep\.population\.members: 4 differs from the sweep"):
        resume_sweep(whole.folder, file, {}, TrainingExecutor(), print)
