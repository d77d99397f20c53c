"""Comparison of settings: real differences, chance, baselines, and settings that cannot be compared."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mygym.cli.main import main
from mygym.reporting.comparison import compare, final_scores, summarize
from mygym.reporting.settings import find_settings
from tests.reporting.runs import make_run

BAD, GOOD = (0.1, 0.2, 0.3, 0.15, 0.25), (0.9, 1.0, 0.95, 0.8, 0.9)


def setting(logdir: Path, rates: Sequence[float], **config: Any) -> str:
    """Write a setting; return its folder."""
    *_, last = (make_run(logdir, rate, seed, **config) for seed, rate in enumerate(rates))
    return str(last.parent)


def mygym_compare(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["compare", *words])
    return int(end.value.code or 0)


def test_a_real_difference(tmp_path: Path) -> None:
    first, second = setting(tmp_path, BAD, algo="ppo"), setting(tmp_path, GOOD, algo="ppo", n_envs=2)
    reference, better = compare(find_settings([first, second]))
    assert (reference.name, better.name) == ("ppo", "n_envs=2")
    assert better.difference == pytest.approx(0.71)
    assert better.difference_interval is not None
    assert better.difference_interval.low > 0.5
    assert better.improvement == 1
    assert (reference.steps_to_90, better.steps_to_90) == (None, 10_000)
    (_, worse) = compare(find_settings([second, first]))
    assert worse.is_worse_by(0.05)
    assert not better.is_worse_by(0.05)
    assert not worse.is_worse_by(0.75)


def test_recorded_figures_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(5):
        first = make_run(tmp_path / "a", 0.5, seed, loss=1.0 + seed).parent
        second = make_run(tmp_path / "b", 0.5, seed, n_envs=2, loss=3.0 + seed).parent
    make_run(tmp_path / "a", 0.5, 5, status="diverged", loss=1e9)
    reference, other = compare(find_settings([first, second]), ["test_loss", "figures/test_loss", "success"])
    assert list(reference.figures) == ["test_loss"]
    assert (reference.figures["test_loss"].value, other.figures["test_loss"].value) == (3.0, 5.0)
    assert reference.figures["test_loss"].difference is None
    assert other.figures["test_loss"].difference == 2.0
    assert other.figures["test_loss"].difference_interval == (2.0, 2.0)  # of equal seeds
    baseline = tmp_path / "baseline.json"
    assert mygym_compare(str(first), "--save", str(baseline)) == 0
    shutil.rmtree(first)
    capsys.readouterr()
    words = [str(baseline), str(second), "--metric", "test_loss,train/loss", "--json"]
    assert mygym_compare(*words) == 0
    (_, stored) = json.loads(capsys.readouterr().out)
    assert [stored["figures"][name]["difference"] for name in ("test_loss", "train/loss")] == [2.0, 1.0]
    assert mygym_compare(*words[:-1], "--csv") == 0
    assert re.search(r"5 \(3\.\d+ to 6\.\d+\); \+2 \(\+2 to \+2\)", capsys.readouterr().out)
    assert mygym_compare(*words[:2], "--metric", "test_los") == 2
    assert re.search(r"--metric: 'test_los' .*train/loss.*did you mean 'test_loss'", capsys.readouterr().err)


def test_the_interval_of_seeds_that_all_succeed_knows_the_episodes(tmp_path: Path) -> None:
    perfect = setting(tmp_path, [1.0] * 5)
    comparison, _ = compare(find_settings([perfect, setting(tmp_path, GOOD, algo="ppo")]))
    assert comparison.success.high == 1
    assert 0.99 < comparison.success.low < 1  # 500 episodes


def test_runs_that_never_learn_count_in_the_time_to_learn(tmp_path: Path) -> None:
    settings = [
        setting(tmp_path, [1.0] * learned + [0.1] * (5 - learned), algo=algo)
        for learned, algo in ((3, "ppo"), (2, "sac"))
    ]
    assert [comparison.steps_to_90 for comparison in compare(find_settings(settings))] == [9_000, None]


def test_seeds_are_paired(tmp_path: Path) -> None:
    """Seeds differ far more than settings: only pairs show the difference."""
    rates = (0.1, 0.3, 0.5, 0.7, 0.9)
    first = setting(tmp_path, rates, algo="ppo")
    second = setting(tmp_path, [rate + 0.05 for rate in rates], algo="sac")
    (_, paired) = compare(find_settings([first, second]))
    assert paired.difference_interval == pytest.approx((0.05, 0.05))


@pytest.mark.parametrize(
    ("seeds", "is_paired"),
    [(range(3, 8), False), (range(4, 9), False), (range(3, 5), True), (range(1, 6), True)],
    ids=["two of five in both", "one of five", "all of two", "four of five"],
)
def test_pairs_that_cannot_differ_do_not_decide(seeds: range, is_paired: bool, tmp_path: Path) -> None:
    """Of five, two seeds of both are worse; the others are better, which pairs of these two would leave out."""
    first = setting(tmp_path, [0.95] * 5, algo="ppo")
    for seed in seeds:
        second = make_run(tmp_path, 0.85 if seed < 5 else 1.0, seed, algo="sac").parent
    (_, other) = compare(find_settings([first, second]))
    rates = [0.85 if seed < 5 else 1.0 for seed in seeds if seed < 5 or not is_paired]
    assert other.difference == pytest.approx(sum(rates) / len(rates) - 0.95)
    assert other.is_worse_by(0.05) == (seeds == range(1, 6))


@pytest.mark.parametrize(("before", "after"), [(0.85, 0.80), (0.95, 0.90), (1.0, 0.95), (0.7, 0.65)])
def test_a_loss_of_just_so_many_points_counts(before: float, after: float, tmp_path: Path) -> None:
    """Most differences of decimal fractions are a little more or less."""
    settings = [setting(tmp_path, [rate] * 4, algo=algo) for algo, rate in (("ppo", before), ("sac", after))]
    (_, other) = compare(find_settings(settings))
    assert other.is_worse_by(0.05)
    assert not other.is_worse_by(0.0501)


def test_three_seeds_cannot_show_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = setting(tmp_path, GOOD[:3], algo="ppo"), setting(tmp_path, BAD[:3], algo="sac")
    assert mygym_compare(first, second, "--fail-if-worse", "5%") == 0
    assert "3 seeds cannot show a difference: 4 of each setting are needed" in capsys.readouterr().err


def test_json_of_single_seeds_has_null_for_intervals_and_no_nan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [str(make_run(tmp_path, algo=algo).parent) for algo in ("ppo", "sac")]
    folder = tmp_path / "new"
    assert mygym_compare(*settings, "--json", "--save", str(folder / "baseline.json")) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert len(rows) == 2
    assert "null" in json.dumps(rows)
    assert (folder / "baseline.json").is_file()


def test_diverged_runs_count_as_failures_and_unfinished_runs_do_not_count(tmp_path: Path) -> None:
    first = setting(tmp_path, [1.0] * 4)
    make_run(tmp_path, None, 4, status="diverged")
    make_run(tmp_path, 0.0, 5, status="interrupted")
    (each,) = find_settings([first])
    assert each.scores.ravel().tolist() == [1.0] * 4 + [0.0]
    assert each.records[-1].mean_return == -10.0, "of its last evaluation"
    assert summarize(each).mean_return == pytest.approx(np.mean(final_scores(each, "return"))) == 0.0


def test_a_baseline_gates_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline = str(tmp_path / "baseline.json")
    assert mygym_compare(setting(tmp_path / "old", GOOD), "--save", baseline) == 0
    now = setting(tmp_path / "new", BAD)
    assert mygym_compare(baseline, now, "--fail-if-worse", "5%") == 1
    assert "worse: the same config" in capsys.readouterr().err
    assert mygym_compare(baseline, setting(tmp_path / "equal", GOOD), "--fail-if-worse", "0") == 0
    capsys.readouterr()
    assert mygym_compare(baseline, now, "--json") == 0
    assert [row["runs"] for row in json.loads(capsys.readouterr().out)] == [5, 5]
    assert mygym_compare(setting(tmp_path / "old", GOOD), "--save", baseline) == 2  # exists


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["ppo", "push"], "task differs: reach"),
        (["ppo", "short"], "task_params.horizon differs"),
        (["ppo"], "two settings or more"),
        (["ppo", "stopped"], "has stopped"),
        (["ppo", "sac", "--fail-if-worse", "much"], "a number of percent points"),
        (["ppo", "sac", "--save", "x.yaml"], "a file ending in .json"),
        (["ppo", "broken.json"], "a file of `mygym compare --save`"),
    ],
)
def test_bad_input(words: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = {
        "ppo": setting(tmp_path, [1.0], algo="ppo"),
        "sac": setting(tmp_path, [1.0], algo="sac"),
        "push": setting(tmp_path, [1.0], task="push"),
        "short": setting(tmp_path, [1.0], algo="ppo", task_params={"horizon": 5}),
        "stopped": str(make_run(tmp_path, status="", algo="td3").parent),
        "broken.json": str(tmp_path / "broken.json"),
    }
    (tmp_path / "broken.json").write_text('{"settings": [{}]}')
    assert mygym_compare(*(folders.get(word, word) for word in words)) == 2
    assert text in capsys.readouterr().err


def test_returns_of_different_rewards_are_left_out(tmp_path: Path) -> None:
    settings = [setting(tmp_path, GOOD, reward=reward) for reward in ("sparse", "dense")]
    assert [comparison.mean_return for comparison in compare(find_settings(settings))] == [None, None]
