"""Learning curves: alignment, bands, stages, names of settings, final scores, and the selection of runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mygym.errors import ConfigError
from mygym.reporting.comparison import profile_bands, select_runs, sensitivities, spans_decades, success_bounds
from mygym.reporting.curves import (
    MAX_POINTS,
    Curve,
    SettingCurves,
    align,
    band,
    find_metric,
    metric_names,
    metrics_of,
    read_curve,
    setting_band,
    stage_curves,
    stage_order,
)
from mygym.reporting.records import read_run
from mygym.reporting.settings import Setting, names_of, settings_of
from mygym.training import directory
from mygym.training.result import Result
from tests.reporting.runs import make_run


def curve(steps: list[float], success: list[float], status: str = "done") -> Curve:
    positions, values = np.array(steps), np.array(success)
    series = {"success": (positions, values), "return": (positions, values - 1)}
    return Curve(series, (positions, positions / 100), status=status)


def test_a_run_that_is_done_keeps_its_last_value_and_a_diverged_run_fails() -> None:
    x, values = align([curve([0, 10], [0, 1]), curve([0, 20], [0, 0.5]), curve([0, 10], [0, 1], "diverged")])
    assert x.tolist() == [0, 10, 20]
    assert values.tolist() == [[0, 1, 1], [0, 0.25, 0.5], [0, 1, 0]]


def test_values_end_where_a_run_is_unknown() -> None:
    running, stopped = curve([0, 10], [0, 0.4], "running"), curve([0, 15], [0, 0.4], "stopped")
    assert align([curve([0, 20], [0, 1]), running, stopped])[0].tolist() == [0, 10]
    diverged = curve([0, 10], [0, 1], "diverged")
    assert align([curve([0, 20], [0, 1]), diverged], metric="return")[0].tolist() == [0, 10]


def test_unknown_numbers_are_left_out() -> None:
    x, values = align([curve([0, 10, 20], [0, math.nan, 1])])
    assert (x.tolist(), values.tolist()) == ([0, 20], [[0, 1]])
    assert align([])[1].shape == (0, 0)


def test_many_evaluations_are_thinned() -> None:
    x, values = align([curve(list(range(offset, 1000)), [0.0] * (1000 - offset)) for offset in (0, 1)])
    assert values.shape == (2, MAX_POINTS)
    assert (x[0], x[-1]) == (0, 999)


def test_bands() -> None:
    values = np.array([[0.0, 1.0], [0.2, 1.0], [0.4, 1.0], [0.9, 1.0]])
    centre, low, high = band(values)
    assert centre == pytest.approx([0.3, 1.0])  # the middle half
    assert low[0] < 0.3 < high[0]
    assert (low[1], high[1]) == (1.0, 1.0)
    _, low, _ = band(values, episodes=10)
    assert 0.9 < low[1] < 1.0  # Wilson's bound of 40 of 40 episodes
    assert np.isnan(band(values[:1])[1]).all()


@pytest.mark.parametrize(("statistic", "centre"), [("iqm", 1.0), ("mean", 20 / 22), ("median", 1.0)])
def test_wilsons_interval_is_around_the_line(statistic: str, centre: float) -> None:
    """As that of a comparison is; around the mean it would be below the other lines."""
    values = np.array([[1.0]] * 20 + [[0.0]] * 2)
    line, low, high = (float(bound[0]) for bound in band(values, statistic, episodes=10))
    assert line == pytest.approx(centre)
    if statistic != "mean":
        assert (low, high) == pytest.approx(success_bounds(values, 220))
        assert low > 0.98


def test_the_curve_of_a_running_run_comes_from_its_log(tmp_path: Path) -> None:
    run = make_run(tmp_path, 0.5, status="")
    with (run / directory.PROGRESS).open("a") as file:
        file.write('{"steps": 11000, "train/loss": 1.0}\n{"eval/success_rate": 0.')  # half-written
    logged = read_curve(read_run(run, now=0.0))
    assert logged is not None
    whole = read_curve(read_run(make_run(tmp_path, 0.5, seed=1), now=0.0))
    assert whole is not None
    for axis in ("steps", "seconds"):
        for metric in ("success", "return"):
            for values, other in zip(logged.along(axis, metric), whole.along(axis, metric), strict=True):
                assert len(values) == 11
                np.testing.assert_array_equal(values, other)
    assert (logged.status, whole.status) == ("stopped", "done")


def test_every_recorded_figure_is_a_metric(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path, 1.0, seed, loss=float(seed))
    (curves,) = select_runs([tmp_path]).settings
    assert metrics_of(curves.curves) == ["success", "return", "train_success", "test_loss", "train/loss"]
    for metric, value in (("test_loss", 1.0), ("train/loss", 0.5)):
        line = setting_band(curves, "steps", metric, "mean")
        assert line.value.tolist() == [value] * 11
        assert line.low[0] < value < line.high[0]
    line = setting_band(curves, "steps", "train_success")
    assert (line.value[-1], line.low[-1]) == (0.5, 0.5)
    x, values = curves.curves[1].along("seconds", "train/loss")
    assert x.tolist() == [mark + 0.5 for mark in range(10)]  # between the evaluations; the last is after their end
    assert values.tolist() == [0.5] * 10
    running = read_curve(read_run(make_run(tmp_path, 1.0, 3, status="", loss=3.0), now=0.0))
    assert running is not None
    assert metrics_of([running]) == metrics_of(curves.curves)
    for number, status in enumerate(("", "done", "diverged"), start=4):
        record = read_run(make_run(tmp_path, 1.0, number, status=status, loss=3.0), now=0.0)
        short, whole = read_curve(record, evaluations_only=True), read_curve(record)
        assert short is not None
        assert whole is not None
        assert metrics_of([short]) == [name for name in metrics_of([whole]) if name != "train/loss"]
        np.testing.assert_array_equal(short.along("seconds", "success"), whole.along("seconds", "success"))


def test_the_figures_after_the_last_evaluation_are_in_the_curve(tmp_path: Path) -> None:
    run = make_run(tmp_path, 1.0, loss=2.0)
    (run / directory.PROGRESS).write_text("")
    result = Result.read(run)
    assert result is not None
    result.last_interval = {"steps": 10_400, "train_success_rate": 0.75, "figures": {"test_loss": 4.0}}
    result.write()
    whole = read_curve(read_run(run, now=0.0))
    assert whole is not None
    assert [series[-1] for series in whole.along("steps", "test_loss")] == [10_400, 4.0]
    assert [series[-1] for series in whole.along("steps", "train_success")] == [10_400, 0.75]
    assert [series[-1] for series in whole.along("steps", "success")] == [10_000, 1.0]
    assert len(whole.stages) == 11


def test_a_metric_has_a_short_name_and_its_name_in_the_log() -> None:
    logged = ["eval/success_rate", "figures/loss", "figures/success", "figures/train/loss", "train/loss", "steps"]
    names = metric_names(logged)
    assert [names[key] for key in logged[:-1]] == [
        "success", "loss", "figures/success", "figures/train/loss", "train/loss"
    ]  # fmt: skip
    assert "steps" not in names
    assert [find_metric(name, names.values()) for name in ("loss", "figures/loss", "eval/mean_return")] == [
        "loss", "loss", "return"
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"^--metric: 'train_los' .*figures/success.*did you mean 'train/loss'"):
        find_metric("train_los", names.values())


def test_a_diverged_run_has_no_success_and_unknown_figures_after_its_end() -> None:
    positions = np.array([0.0, 10.0])
    series = {name: (positions, np.ones(2)) for name in ("train_success", "rollout/success_rate", "loss")}
    diverged = Curve(series, (positions, positions), status="diverged")
    longer = np.array([0.0, 20.0])
    whole = Curve({name: (longer, np.ones(2)) for name in series}, (longer, longer))
    for name in ("train_success", "rollout/success_rate"):
        x, values = align([diverged, whole], metric=name)
        assert (x.tolist(), values.tolist()) == ([0, 10, 20], [[1, 1, 0], [1, 1, 1]])
    assert align([diverged, whole], metric="loss")[0].tolist() == [0, 10]


def test_the_index_has_the_last_evaluation_of_a_running_run(tmp_path: Path) -> None:
    run = make_run(tmp_path, 0.5, status="")
    with (run / directory.PROGRESS).open("a") as file:
        file.write('{"steps": 11000, "train/loss": 1.0}\n')
    record = read_run(run, now=0.0)
    assert (record.steps, record.success_rate) == (11_000, 0.5)


def test_a_result_of_another_schema_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    content = (run / directory.RESULT).read_text()
    (run / directory.RESULT).write_text(content.replace('"schema": 1', '"schema": 2'))
    record = read_run(run, now=0.0)
    assert (record.status, record.error) == (
        "damaged", "result.json has schema 2; this version of mygym reads schema 1"
    )  # fmt: skip


def test_stages_in_their_order() -> None:
    assert stage_order([{"approach": 3}, {"approach": 1, "move": 2}, {"grasp": 1, "move": 1, "done": 3}]) in (
        ["approach", "grasp", "move", "done"],
        ["grasp", "approach", "move", "done"],
    )
    assert stage_order([{"a": 1, "b": 1}, {"b": 1, "a": 1, "done": 1}])[-1] == "done"  # of older runs


def test_shares_of_completed_stages() -> None:
    counts = ({"approach": 8, "grasp": 2}, {"approach": 2, "grasp": 4, "done": 4})
    recorded = replace(curve([0, 10], [0, 0]), stages=counts)
    x, shares = stage_curves(SettingCurves(Setting("x", {}, ()), (recorded,)))
    assert x.tolist() == [0, 10]
    assert {stage: values.tolist() for stage, values in shares.items()} == {
        "approach": pytest.approx([0.2, 0.8]),
        "grasp": pytest.approx([0, 0.4]),
    }


def test_stages_of_several_tasks_are_shares_of_their_task() -> None:
    counts = ({"push: approach": 3, "push: done": 1, "reach: approach": 1, "reach: done": 3},)
    recorded = replace(curve([0], [0]), stages=counts)
    _, shares = stage_curves(SettingCurves(Setting("x", {}, ()), (recorded,)))
    assert {stage: float(values[0]) for stage, values in shares.items()} == {
        "push: approach": 0.25,
        "reach: approach": 0.75,
    }


def test_names_are_the_differences_of_the_configs() -> None:
    ppo = {"algo": "ppo", "algo_params.gamma": 0.9, "n_envs": 1}
    sac = {"algo": "sac", "algo_params.tau": 0.1, "n_envs": 1}
    assert names_of([ppo]) == ["ppo"]
    assert names_of([ppo, sac]) == ["ppo", "sac"]
    assert names_of([ppo, {**ppo, "algo_params.gamma": 0.95}]) == ["gamma=0.9", "gamma=0.95"]
    both = [ppo, {**ppo, "algo_params.gamma": 0.95}, sac, {**sac, "n_envs": 2}]
    assert names_of(both) == ["ppo, gamma=0.9, n_envs=1", "ppo, gamma=0.95, n_envs=1", "sac, n_envs=1", "sac, n_envs=2"]
    settings = [{"algo": "ppo", "a.size": 1, "b.size": 1}, {"algo": "ppo", "a.size": 2, "b.size": 2}]
    assert names_of(settings) == ["a.size=1, b.size=1", "a.size=2, b.size=2"]


def test_runs_of_different_tasks_in_a_folder_are_not_averaged(tmp_path: Path) -> None:
    reach, push = make_run(tmp_path, 1.0, seed=0), make_run(tmp_path, 0.0, seed=1, task="push")
    push.rename(reach.parent / push.name)
    with pytest.raises(ConfigError, match=r"task differs: reach .*and push"):
        settings_of(read_run(run, 0.0) for run in sorted(reach.parent.glob("seed_*")))
    (note,) = select_runs([tmp_path]).notes
    assert "task differs" in note


def test_an_extended_seed_differs_in_its_steps_not_in_what_follows_from_them(tmp_path: Path) -> None:
    sizes = [{"steps": steps, "algo_params": {"buffer_size": steps}} for steps in (10_000, 20_000)]
    first, extended = (make_run(tmp_path, 1.0, seed=seed, **values) for seed, values in enumerate(sizes))
    extended.rename(first.parent / extended.name)
    with pytest.raises(ConfigError, match=r"^steps differs: 10000 .*and 20000 .*must differ in their seeds alone"):
        settings_of(read_run(run, 0.0) for run in sorted(first.parent.glob("seed_*")))


def test_notes_on_runs_that_take_no_part(tmp_path: Path) -> None:
    for seed, status in enumerate(("done", "done", "interrupted")):
        make_run(tmp_path, 0.5, seed, status=status)
    make_run(tmp_path, 0.5, algo="ppo")
    damaged = make_run(tmp_path, 0.5, algo="td3")
    (damaged / directory.RESULT).write_text("{")
    empty = make_run(tmp_path, 0.5, seed=3, status="")
    (empty / directory.PROGRESS).write_text("")
    selection = select_runs([tmp_path])
    assert len(selection.records) == 6
    assert sorted(len(each.curves) for each in selection.settings) == [1, 3]
    assert list(selection.notes) == [
        f"{damaged}: result.json is not readable",
        "1 run without an evaluation: left out of the curves",
        "1 run not ended: the curve of a setting ends with its shortest such run",
        "1 setting with one seed: no interval",
    ]


def test_the_band_of_a_setting_knows_the_episodes_of_its_evaluations(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path, 1.0, seed, eval={"episodes": 10})
    (curves,) = select_runs([tmp_path]).settings
    line = setting_band(curves, "steps", "success")
    assert (line.x[-1], line.value[-1]) == (10_000, 1.0)
    assert 0.8 < line.low[-1] < 0.9  # 20 of 20 episodes


def test_sensitivity_groups_settings_that_differ_in_the_key_alone(tmp_path: Path) -> None:
    for algo in ("ppo", "sac"):
        for gamma in (0.9, 0.99, 0.999):
            for seed in range(3):
                status = (
                    "diverged" if (gamma, seed) == (0.999, 0) else "failed" if (gamma, seed) == (0.9, 1) else "done"
                )
                make_run(tmp_path, gamma - 0.1, seed, status=status, algo=algo, algo_params={"gamma": gamma})
    settings = [each.setting for each in select_runs([tmp_path]).settings]
    groups = sensitivities(settings, "algo_params.gamma")["reach"]
    assert sorted(group.name for group in groups) == ["ppo", "sac"]
    for group in groups:
        assert group.values == (0.9, 0.99, 0.999)
        assert (group.failed, group.diverged) == ((1, 0, 0), (0, 0, 1))
        assert group.centre[:2] == pytest.approx([0.8, 0.89])
        assert [len(scores) for scores in group.scores] == [2, 3, 3]
    returns = sensitivities(settings, "algo_params.gamma", "return")["reach"][0]
    assert [len(scores) for scores in returns.scores] == [2, 3, 2]
    with pytest.raises(ConfigError, match=r"did you mean 'algo_params.gamma'"):
        sensitivities(settings, "algo_params.gama")
    with pytest.raises(ConfigError, match=r"^--sensitivity: 'robot'"):
        sensitivities(settings, "robot")


def test_an_axis_is_logarithmic_if_positive_values_span_decades() -> None:
    assert spans_decades([1e-4, 1e-3])
    assert not spans_decades([0.9, 0.99])
    assert not spans_decades([0, 1e-3])


def test_profiles_count_diverged_runs_as_failures(tmp_path: Path) -> None:
    for seed in range(4):
        make_run(tmp_path, 1.0, seed, status="done" if seed else "diverged")
    setting = select_runs([tmp_path]).settings[0].setting
    thresholds, ((value, low, high),) = profile_bands([setting])
    assert (thresholds[0], thresholds[-1]) == (0, 1)
    assert (value[0], value[-1]) == (0.75, 0)
    assert low[0] < 0.75 < high[0]
