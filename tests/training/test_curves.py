"""Learning curves: training, validation and test figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file as load_tensors

import mygym
from mygym.errors import RunError
from mygym.training import session
from mygym.training.evaluation import EVALUATION, TEST, Evaluation
from mygym.training.result import Curves, EpisodeCounter, Mark, Result, Score
from mygym.training.runner import Loop
from tests.components import slow_except, small
from tests.training.runners import STEPS, Climber, config, train
from tests.training.test_resuming import stopped


def test_curves_have_training_validation_and_test_figures(tmp_path: Path) -> None:
    kept: list[Any] = []

    class Keeping(Climber):
        def training(self, loop: Loop, **more: Any) -> Curves:
            kept.append((self, super().training(loop)))
            return kept[-1][1]

    result = train(Keeping, tmp_path, eval={"test_episodes": 1})
    runner, curves = kept[0]
    assert curves == runner.curves == Curves.of(result.evaluations)
    assert len(curves.marks) == 3
    assert [mark.steps for mark in curves.marks] == [record["steps"] for record in result.evaluations]
    assert curves.marks[0].train is None
    assert result.evaluations[0]["train_success_rate"] is None
    for mark, record in zip(curves.marks[1:], result.evaluations[1:], strict=True):
        assert mark.validation == Score(record["success_rate"], record["mean_return"])
        assert mark.train == Score(record["train_success_rate"], record["train_mean_return"])
        assert mark.test == Score(record["test_success_rate"], record["test_mean_return"])
    content = json.loads((result.path / "result.json").read_text())
    assert Curves.of(content["evaluations"]) == curves


class Recording(Climber):
    """Records a figure in each iteration, and another at each mark."""

    def training(self, loop: Loop, **more: Any) -> Curves:
        while loop.next_iteration():
            for _ in range(10):
                loop.step(np.zeros((2, *self.action_space.shape), np.float32))
            loop.record("iteration", loop.num_timesteps)
            if loop.at_mark:
                loop.record("test_loss", 0.5)
        return loop.curves()


def test_figures_of_a_runner_are_in_every_mark(tmp_path: Path) -> None:
    result = train(Recording, tmp_path / "whole")
    assert [record.get("figures") for record in result.evaluations] == [
        None,
        {"iteration": (20 + 40 + 60 + 80 + 100) / 5, "test_loss": 0.5},
        {"iteration": (120 + 140 + 160 + 180 + 200) / 5, "test_loss": 0.5},
    ]
    assert Curves.of(result.evaluations).marks[2].figures == {"iteration": 160.0, "test_loss": 0.5}
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    assert [line["figures/iteration"] for line in lines if "figures/iteration" in line] == [60.0, 160.0, 230.0]
    resumed = mygym.train(resume=stopped(config("custom", tmp_path / "stopped"), step=75))
    assert [record.get("figures") for record in resumed.evaluations] == [r.get("figures") for r in result.evaluations]


def logged(run: Path, key: str) -> dict[int, float]:
    lines = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    return {line["steps"]: line[key] for line in lines if key in line}


def test_the_figures_of_a_run_shorter_than_its_first_mark_are_kept(tmp_path: Path) -> None:
    """Each episode has 20 steps, so that two end in 40 env steps."""
    result = train(Recording, tmp_path, steps=40, eval={"every": 1000})
    assert [record["steps"] for record in result.evaluations] == [0]
    last = result.last_interval
    assert (last["steps"], last["figures"]) == (40, {"iteration": 30.0})
    assert last["train_mean_return"] == logged(result.path, "train/mean_return")[40]
    assert logged(result.path, "figures/iteration") == {40: 30.0}
    assert json.loads((result.path / "result.json").read_text())["last_interval"] == last


def test_the_last_interval_of_a_stopped_run_is_kept_and_counted_again(tmp_path: Path) -> None:
    whole = train(Recording, tmp_path / "whole")
    assert whole.last_interval["figures"] == {"iteration": (220 + 240) / 2}
    run = stopped(config("custom", tmp_path / "stopped"), step=150)
    ended = Result.read(run)
    assert ended is not None
    kept = ended.last_interval
    assert kept["steps"] in (120, 140, 160, 180)
    steps = range(120, kept["steps"] + 1, 20)
    assert kept["figures"] == {"iteration": sum(steps) / len(steps)}
    assert logged(run, "figures/iteration")[kept["steps"]] == kept["figures"]["iteration"]
    mygym.train(resume=run)
    assert logged(run, "figures/iteration") == logged(whole.path, "figures/iteration")
    assert logged(run, "train/success_rate") == logged(whole.path, "train/success_rate")


def test_a_run_that_ends_with_an_evaluation_has_no_last_interval(tmp_path: Path) -> None:
    result = train(Recording, tmp_path, steps=100)
    assert [record["steps"] for record in result.evaluations] == [0, 100]
    assert result.last_interval == {}
    rates = {record["steps"]: record["train_success_rate"] for record in result.evaluations[1:]}
    assert logged(result.path, "train/success_rate") == rates


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", None])
def test_a_figure_that_is_no_number_ends_the_run(value: Any, tmp_path: Path) -> None:
    class Mistaken(Climber):
        def training(self, loop: Loop, **more: Any) -> Curves:
            loop.next_iteration()
            loop.record("loss", value)
            return loop.curves()

    with pytest.raises(RunError, match=r"loop\.record\('loss', .*\)"):
        train(Mistaken, tmp_path)


@pytest.mark.parametrize("algo", slow_except(["ppo", "sac", "ars", "cem"], {"sac", "cem"}.__contains__))
def test_training_figures_match_the_monitor(algo: str, tmp_path: Path) -> None:
    """For every kind of algorithm: each episode in monitor.csv up to the last mark is counted once."""
    params = small(algo) | ({"n_steps": 16} if algo == "ppo" else {})
    settings = config(algo, tmp_path) | {"algo_params": params, "steps": 300, "reward": "dense"}
    result = mygym.train(settings)
    counted = 0
    rows = (result.path / "monitor.csv").read_text().splitlines()[2:]
    episodes = [row.split(",") for row in rows]
    for record in result.evaluations[1:]:
        if record["train_mean_return"] is None:
            continue
        means = {
            end: np.mean([float(row[0]) for row in episodes[counted:end]])
            for end in range(counted + 1, len(episodes) + 1)
        }
        (counted,) = [
            end for end, mean in means.items() if mean == pytest.approx(record["train_mean_return"], rel=1e-6)
        ]
    assert counted > len(episodes) / 2


def test_episode_counter() -> None:
    counter, other = EpisodeCounter(), EpisodeCounter()
    counter.add({"r": -2.0, "is_success": np.True_})
    counter.add({"r": -4.0, "is_success": False})
    other.load_state_dict(json.loads(json.dumps(counter.state_dict())))
    expected = {"train_success_rate": 0.5, "train_mean_return": -3.0}
    assert counter.means() == other.means() == expected
    counter.clear()
    assert counter.means() == {"train_success_rate": None, "train_mean_return": None}


def test_test_episodes_select_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best model and the early stop do not depend on the test episodes."""
    seeds_of: dict[int, set[int]] = {EVALUATION: set(), TEST: set()}
    original = session.evaluate_policy

    def all_successful(policy: Any, envs: Any, seeds: Any, *args: Any) -> Any:
        purpose = seeds[0] >> 30
        seeds_of.get(purpose, set()).update(seeds)
        evaluation = original(policy, envs, seeds, *args)
        if purpose != TEST:
            return evaluation
        from dataclasses import replace

        return Evaluation(tuple(replace(episode, success=True, total_reward=0.0) for episode in evaluation.episodes))

    monkeypatch.setattr(session, "evaluate_policy", all_successful)
    tested = train(Climber, tmp_path, stop_at_success=0.9, eval={"test_episodes": 3})
    assert (tested.steps, len(seeds_of[TEST]), len(seeds_of[EVALUATION])) == (STEPS, 9, 3)
    assert all(record["test_success_rate"] == 1.0 for record in tested.evaluations)
    untested = train(Climber, tmp_path, stop_at_success=0.9, eval={"test_episodes": 0})
    assert all("test_success_rate" not in record for record in untested.evaluations)
    for name in ("best_policy", "policy"):
        first, second = (load_tensors(run.path / f"{name}.safetensors") for run in (tested, untested))
        for key, value in first.items():
            np.testing.assert_array_equal(value, second[key])
    assert Curves.of(untested.evaluations).marks[0].test is None
    assert isinstance(Curves.of(untested.evaluations).marks[0], Mark)
