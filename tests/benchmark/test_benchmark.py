"""`mygym benchmark`: real runs of a suite, their table and page, repetition, and runs from elsewhere."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import mygym
from benchmarks.ray_cluster import simulated_cluster
from mygym.benchmark import verification
from mygym.benchmark.execution import Benchmark
from mygym.benchmark.page import draw_task, write_curves, write_page
from mygym.benchmark.stored import read_stored
from mygym.benchmark.suite import load_suite, make_suite
from mygym.benchmark.table import build_table, compare_tables
from mygym.errors import ConfigError, InterruptedRunError
from mygym.reporting import figures
from mygym.reporting.statistics import success_interval
from mygym.sweeps import executors
from mygym.sweeps.executors import Job, LocalExecutor
from mygym.sweeps.space import with_values
from mygym.training import files
from tests.command import Command
from tests.conftest import ROOT
from tests.reporting.runs import make_run
from tests.sweeps import slurm
from tests.sweeps.executor import TrainingExecutor
from tests.sweeps.kills import killed_at_ten_moments, start

SHORT = {
    "steps": 60,
    "n_envs": 1,
    "task_params": {"horizon": 10},
    "eval": {"every": 30, "episodes": 2, "final_episodes": 4},
    "video": {"episodes": 1, "width": 64, "height": 48},
    "tensorboard": False,
}
SMALL = {"algo_params": {"policy_kwargs": {"net_arch": [16]}}}
SUITE: dict[str, Any] = {
    "title": "A <b>short</b> suite",
    "set": SHORT,
    "cells": [
        {"task": "reach", "algo": "sac", "seeds": 2, "set": SMALL},
        {"task": "reach", "algo": "td3", "name": "TD3, shorter", "set": {**SMALL, "steps": 40}},
    ],
}
SAC, TD3 = "reach/panda/pybullet/sac", "reach/panda/pybullet/TD3, shorter"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are trained in this process: PyTorch takes seconds to import."""
    monkeypatch.setattr(executors, "POLL", 0.0)
    monkeypatch.setattr(executors, "LocalExecutor", lambda *arguments: TrainingExecutor())


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished benchmark, which tests copy."""
    folder = tmp_path_factory.mktemp("suites") / "short"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "POLL", 0.0)
        execute(folder, SUITE)
        write(folder)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of the finished benchmark."""
    return shutil.copytree(original, tmp_path / "suites" / "short")


def benchmark(folder: Path, content: Mapping[str, Any] = SUITE) -> Benchmark:
    return Benchmark(make_suite("short", content), folder)


def execute(folder: Path, content: Mapping[str, Any], executor: TrainingExecutor | None = None) -> list[str]:
    """Execute a suite in a folder; return the names of the runs that have ended, in their order."""
    opened, lines = benchmark(folder, content), list[str]()
    with opened.locked():
        opened.execute(executor or TrainingExecutor(), "mygym benchmark", lines.append, lambda: None)
    return [line.partition(":")[0] for line in lines[1:]]


def write(folder: Path) -> None:
    opened = benchmark(folder)
    (folder / "table.json").write_text(json.dumps(build_table(opened).to_json()))


def results(folder: Path) -> dict[str, Any]:
    """What the runs of a benchmark have reached, besides times."""
    figures: dict[str, Any] = {}
    for path in sorted(folder.glob("cells/**/result.json")):
        content = json.loads(path.read_text())
        figures[str(path.relative_to(folder))] = [
            content[key] for key in ("status", "steps", "success_rate", "mean_return", "stage_reached")
        ] + [(path.parent / "policy.safetensors").read_bytes()]
    return figures


def test_first_seeds_come_first_and_short_runs_before_long_ones(original: Path, tmp_path: Path) -> None:
    assert [run.name for run in benchmark(original).runs] == [f"{TD3}, seed 0", f"{SAC}, seed 0", f"{SAC}, seed 1"]


def test_runs_are_those_of_train(original: Path, tmp_path: Path) -> None:
    alone = mygym.train({"task": "reach", "algo": "sac", **SHORT, **SMALL, "seed": 1, "logdir": str(tmp_path)})
    (run,) = original.glob(f"cells/{SAC}/*/*/*/*/seed_1")
    assert (run / "policy.safetensors").read_bytes() == (alone.path / "policy.safetensors").read_bytes()


def test_what_is_there_is_not_repeated_and_what_was_added_is_executed(folder: Path) -> None:
    executor = TrainingExecutor(dies_at=0)
    assert execute(folder, SUITE, executor) == []
    sac, td3 = SUITE["cells"]
    more = {**SUITE, "cells": [{**sac, "seeds": 3}, td3, {"task": "reach", "algo": "ppo", "set": SMALL}]}
    assert execute(folder, more) == ["reach/panda/pybullet/ppo, seed 0", f"{SAC}, seed 2"]


@pytest.mark.parametrize("run", [0, 1, 2])
def test_a_killed_benchmark_goes_on_to_the_same_results(run: int, original: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        execute(tmp_path / "killed", SUITE, TrainingExecutor(dies_at=run))
    assert len(results(tmp_path / "killed")) == run
    execute(tmp_path / "killed", SUITE)
    assert results(tmp_path / "killed") == results(original)


def test_an_interrupted_benchmark_has_a_table(
    tmp_path: Path, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(TrainingExecutor):
        def submit(self, job: Job) -> int:
            if self.started:
                signal.raise_signal(signal.SIGTERM)
                return 0
            return super().submit(job)

        def stop(self, handle: int) -> None:
            pass

    monkeypatch.setattr(executors, "LocalExecutor", lambda *arguments: Interrupted())
    (tmp_path / "short.yaml").write_text(yaml.safe_dump(SUITE))
    assert mygym_command("benchmark", str(tmp_path / "short.yaml"), "--logdir", str(tmp_path / "a")).code == 130
    assert read_stored(tmp_path / "a")[TD3].setting.records[0].steps == 40
    assert "1 of 3 runs" in (tmp_path / "a" / "table.md").read_text()


@pytest.mark.slow
def test_a_benchmark_killed_at_ten_moments_has_the_same_table(tmp_path: Path) -> None:
    sac, td3 = SUITE["cells"]
    long = {
        **SUITE,
        "set": {**SHORT, "steps": 1500, "eval": {"every": 250, "episodes": 2}, "checkpoint": {"every": 250}},
    }
    content = {**long, "cells": [{**sac, "seeds": 5}, {**td3, "set": SMALL, "seeds": 4}]}
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(content))

    def begin(folder: str) -> subprocess.Popen[bytes]:
        return start(tmp_path, "benchmark", "long.yaml", "--logdir", folder, "--jobs", "2")

    assert begin("whole").wait() == 0
    assert killed_at_ten_moments(lambda: begin("killed")) == 0
    assert len(results(tmp_path / "whole")) == 9
    assert results(tmp_path / "killed") == results(tmp_path / "whole")


@pytest.fixture(params=["local", "ray", "slurm"])
def executor(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Flags of an executor, which alone can train: Ray on simulated nodes, Slurm with a stand-in for its commands."""
    monkeypatch.setattr(executors, "POLL", 0.05)
    monkeypatch.setattr(executors, "LocalExecutor", LocalExecutor if request.param == "local" else None)
    if request.param == "ray":
        pytest.importorskip("ray", reason="needs Ray (the extra `cluster`)")
        with simulated_cluster() as (cluster, _):
            yield ["--executor", "ray", "--address", cluster.address]
    elif request.param == "slurm":
        pytest.importorskip("submitit", reason="needs submitit (the extra `cluster`)")
        with slurm.cluster(tmp_path, monkeypatch.setenv):
            yield ["--executor", "slurm", "--resource", "slurm_partition=cpu"]
    else:
        yield ["--jobs", "2"]


@pytest.mark.slow
def test_a_suite_has_the_same_table_on_each_executor(
    executor: list[str],
    original: Path,
    tmp_path: Path,
    mygym_command: Command,
) -> None:
    (tmp_path / "short.yaml").write_text(yaml.safe_dump(SUITE))
    outcome = mygym_command("benchmark", "short.yaml", *executor)
    assert (outcome.code, "3 of 3 runs" in outcome.out) == (0, True), outcome
    assert results(tmp_path / "suites/short") == results(original)
    tables = [build_table(benchmark(folder)) for folder in (tmp_path / "suites/short", original)]
    assert tables[0].by_task() == tables[1].by_task()
    assert tables[0].methods == tables[1].methods


class Nodes(TrainingExecutor):
    """An executor that learns from `limit` how many runs fit."""

    def limit(self, memory: int) -> None:
        self.jobs = 4


@pytest.mark.parametrize(("seeds", "line"), [(3, "2 left, about 10 s"), (13, "12 left, about 30 s")])
def test_the_time_left_is_that_of_the_runs_at_the_same_time(seeds: int, line: str, tmp_path: Path) -> None:
    make_run(tmp_path / "cells/reach/panda/pybullet/sac")  # 10 s
    opened, lines = benchmark(tmp_path, {"cells": [{"task": "reach", "algo": "sac", "seeds": seeds}]}), list[str]()
    with pytest.raises(KeyboardInterrupt):
        opened.execute(Nodes(dies_at=0), "mygym benchmark", lines.append, lambda: None)
    assert lines == [f"1 of {seeds} runs are there; {line}"]


NET, RATE = "algo_params.policy_kwargs.net_arch", "algo_params.learning_rate"


@pytest.mark.parametrize("kept", ["cells", "table.json"])
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("steps", 61, "steps: 61 .*60 as in .*name"),
        (NET, [17], rf"{NET}: \[17\] .*\[16\]"),
        (RATE, {"schedule": "linear", "from": 1e-3, "to": 0.0}, RATE),
        ("control", "ee_absolute", "control: 'ee_absolute'"),
        ("control", {"name": "ee_delta", "step": 0.01}, "control"),
        ("task_params.areas.reach.low", [0.1, 0.2, 0.3], "task_params.areas"),
    ],
)
def test_a_cell_with_other_values_is_refused(key: str, value: Any, message: str, kept: str, folder: Path) -> None:
    """Beside the folders of its runs, and beside a table alone."""
    sac, td3 = SUITE["cells"]
    files.remove(folder / "table.json" if kept == "cells" else folder / "cells")
    before = sorted(folder.rglob("*"))
    values = with_values(SMALL, {tuple(key.split(".")): value})
    with (
        pytest.raises(ConfigError, match=f"sac: {message}"),
        benchmark(folder, {**SUITE, "cells": [{**sac, "set": values}, td3]}).locked(),
    ):
        pass
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("control", "ee_delta"),
        ("control", {"name": "ee_delta"}),
        ("task_params.starts.along_expert", 0.0),
        ("strategy_params", {}),
        ("eval.every", 20),
    ],
)
def test_a_table_alone_goes_on_with_the_same_values_in_another_form(key: str, value: Any, folder: Path) -> None:
    sac, td3 = SUITE["cells"]
    files.remove(folder / "cells")
    values = with_values(SMALL, {tuple(key.split(".")): value})
    opened = benchmark(folder, {**SUITE, "cells": [{**sac, "set": values}, td3]})
    with opened.locked():
        assert all(opened.ended(run) for run in opened.runs)


def test_a_cell_with_a_former_name_of_a_key_goes_on(folder: Path) -> None:
    for file in folder.glob("cells/*/*/*/*/cell.yaml"):
        file.write_text(f"{file.read_text()}subprocesses: false\n")
    opened = benchmark(folder, {**SUITE, "set": {**SHORT, "env_processes": False}})
    with opened.locked():
        assert all(opened.ended(run) for run in opened.runs)


@pytest.mark.parametrize("name", ["core", "algorithms", "learning", "strategies"])
def test_the_shipped_tables_are_those_of_their_suites(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # their configs are in `configs`
    folder = shutil.copytree(ROOT / "benchmarks" / "tables" / name, tmp_path / name)
    opened = Benchmark(load_suite(folder / "suite.yaml"), folder)
    assert opened.stored
    with opened.locked():
        pass


def test_the_table_has_the_results_and_what_is_missing(original: Path) -> None:
    sac, td3 = SUITE["cells"]
    more = {**SUITE, "cells": [{**sac, "seeds": 3}, td3, {"task": "push", "algo": "sac"}]}
    table = build_table(benchmark(original, more))
    rates = [
        json.loads(path.read_text())["success_rate"] for path in sorted(original.glob(f"cells/{SAC}/**/result.json"))
    ]
    first, second, third = table.cells
    assert first.setting.scores[:, 0].tolist() == rates
    assert (first.planned, second.planned, third.planned) == ((0, 1, 2), (0,), (0,))
    ((reach, push),) = table.by_task()
    assert reach["sac"].startswith(f"{100 * sum(rates) / 2:.1f} (")
    assert reach["sac"].endswith("2 of 3 seeds)")
    assert push == {"task": "push", "sac": "–"}, "a method of several tasks"
    assert "3 of 5 runs" in table.to_markdown()
    assert str(original) not in json.dumps(table.to_json())


def test_methods_are_compared_over_their_common_tasks(tmp_path: Path) -> None:
    tasks, algos = ("reach", "push"), {"sac": (0.2, 0.6), "td3": (0.4, 1.0)}
    content = {"cells": [{"task": [*tasks], "algo": [*algos], "seeds": 2}]}
    for algo, rates in algos.items():
        for task, rate in zip(tasks, rates, strict=True):
            for seed in (0, 1):
                make_run(tmp_path / "cells" / task / "panda" / "pybullet" / algo, rate, seed, task=task, algo=algo)
    first, second = build_table(benchmark(tmp_path, content)).methods
    assert (first.success, second.success) == pytest.approx((0.4, 0.7))  # of 0.2, 0.2, 0.6, 0.6: the middle half
    assert (first.improvement, second.improvement) == (None, 1.0)
    assert (first.learned, second.learned) == (0, 1)
    assert first.interval == pytest.approx(
        (0.3532, 0.4487), abs=1e-4
    )  # Wilson's of 160 of 400, wider than between seeds


def test_a_task_whose_mean_is_90_percent_counts_as_learned(tmp_path: Path) -> None:
    """The mean of 0.85, 0.89, 0.91 and 0.95 is a little less in binary fractions."""
    for seed, rate in enumerate((0.82, 0.85, 0.89, 0.91, 0.95, 0.98)):
        make_run(tmp_path / "cells/reach/panda/pybullet/sac", rate, seed)
    (method,) = build_table(benchmark(tmp_path, {"cells": [{"task": "reach", "algo": "sac", "seeds": 6}]})).methods
    assert (method.success < 0.9, method.learned) == (True, 1)


def test_env_steps_are_compared_over_the_tasks_that_both_learn(tmp_path: Path) -> None:
    """A run of `make_run` that ends at 100 % is at 90 % after 9,000 steps; at 40 % it never is."""
    rates = {"reach": (1.0, 1.0), "push": (1.0, 0.4), "poke": (0.4, 1.0)}
    for task, of_both in rates.items():
        for algo, rate in zip(("sac", "td3"), of_both, strict=True):
            for seed in (0, 1):
                make_run(tmp_path / "cells" / task / "panda" / "pybullet" / algo, rate, seed, task=task, algo=algo)
    content = {"cells": [{"task": [*rates], "algo": ["sac", "td3"], "seeds": 2}]}
    first, second = build_table(benchmark(tmp_path, content)).methods
    assert (first.both_learn, first.steps) == (0, None)
    assert (second.both_learn, second.steps, second.steps_interval) == (1, 1.0, (1.0, 1.0))


def test_a_policy_that_has_learned_before_its_first_step_is_fast(tmp_path: Path) -> None:
    """A pretrained one: a step in place of none, because a ratio of 0 has no geometric mean."""
    for algo in ("sac", "td3"):
        run = make_run(tmp_path / "cells/reach/panda/pybullet" / algo, algo=algo)
    content = json.loads((run / "result.json").read_text())
    content["evaluations"] = [{**entry, "success_rate": 1.0} for entry in content["evaluations"]]
    (run / "result.json").write_text(json.dumps(content))
    table = build_table(benchmark(tmp_path, {"cells": [{"task": "reach", "algo": ["sac", "td3"]}]}))
    assert [cell.setting.records[0].steps_to_90 for cell in table.cells] == [9_000, 0]
    assert table.methods[1].steps == pytest.approx(1 / 9_000)


def test_the_interval_of_a_method_knows_the_episodes_of_its_scores(tmp_path: Path) -> None:
    """The scores are those of two seeds of each task, as many as the task with the fewest has."""
    seeds = {"reach": 2, "push": 11}
    for task, number in seeds.items():
        for seed in range(number):
            make_run(tmp_path / "cells" / task / "panda" / "pybullet" / "sac", 0.9, seed, task=task)
    cells = [{"task": task, "algo": "sac", "seeds": number} for task, number in seeds.items()]
    (row,) = build_table(benchmark(tmp_path, {"cells": cells})).methods
    assert (row.runs, row.success) == (2, pytest.approx(0.9))
    assert row.interval == pytest.approx(success_interval(360, 400))


def test_the_interval_of_a_method_contains_its_success(tmp_path: Path) -> None:
    """Equal seeds have no spread, and Wilson's interval of the mean, 75 %, is below that of the middle half."""
    tasks = {"reach": 1.0, "push": 1.0, "poke": 1.0, "press": 0.0}
    for task, rate in tasks.items():
        for seed in (0, 1):
            make_run(tmp_path / "cells" / task / "panda" / "pybullet" / "sac", rate, seed, task=task)
    suites = [{"cells": [{"task": [*tasks], "algo": "sac", "seeds": seeds}]} for seeds in (2, [0])]
    (row,), (alone,) = (build_table(benchmark(tmp_path, content)).methods for content in suites)
    assert row.success == pytest.approx(1.0)
    assert row.interval.low < row.success <= row.interval.high
    assert math.isnan(alone.interval.low), "of one seed each"


def test_the_tables_by_task_have_an_engine_each(tmp_path: Path) -> None:
    grids = [
        {"task": ["reach", "push"], "engine": ["pybullet", "mujoco"], "algo": "sac"},
        {"task": "reach", "algo": "sac", "name": "one of its kind"},
    ]
    bullet, mujoco = build_table(benchmark(tmp_path, {"cells": grids})).by_task()
    assert [row["engine"] for row in bullet + mujoco] == ["pybullet", "pybullet", "mujoco", "mujoco"]
    assert "one of its kind" not in bullet[0]


def test_certificates_rates_of_tasks_and_notes_are_in_the_table(
    tmp_path: Path,
    mygym_command: Command,
) -> None:
    """And stay there, without the runs."""
    made = [make_run(tmp_path / "cells/reach/panda/pybullet/sac", 1.0, seed) for seed in (0, 1)]
    for run, rate in zip(made, (0.93, 0.88), strict=True):
        verdicts = [{"engine": "pybullet", "success_rate": 0.98}, {"engine": "mujoco", "success_rate": rate}]
        (run / "certificate.json").write_text(json.dumps({"verdicts": verdicts}))
    result = json.loads((made[1] / "result.json").read_text())
    (made[1] / "result.json").write_text(json.dumps({**result, "success_by_task": {"reach": 1.0, "push": 0.5}}))
    content = {"cells": [{"task": "reach", "algo": "sac", "seeds": 2, "note": "<Older> than the floor."}]}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(content))
    for _ in range(2):
        assert mygym_command("benchmark", str(tmp_path), "--table").code == 0
        text = (tmp_path / "table.md").read_text()
        assert "| in pybullet 98, 98; in mujoco 93, 88; reach 100; push 50 |" in text
        assert "`reach/panda/pybullet/sac`: <Older> than the floor." in text
        assert "reach/panda/pybullet/sac: &lt;Older&gt; than the floor." in (tmp_path / "index.html").read_text()
        shutil.rmtree(tmp_path / "cells")


def test_a_task_has_a_picture_of_the_learning_curves_of_its_cells(tmp_path: Path) -> None:
    for name, rate in (("sac", 1.0), ("slower", 0.4)):
        make_run(tmp_path / "cells/reach/panda/pybullet" / name, rate)
    grid = {"task": "reach", "algo": "sac"}
    cells = [grid, {**grid, "name": "slower"}, {**grid, "name": "planned"}]
    table = build_table(benchmark(tmp_path, {"cells": cells}))
    (panel,) = draw_task("reach", [cell for cell in table.cells if cell.curves]).axes
    lines = {line.get_label(): line.get_ydata()[-1] for line in panel.lines}
    assert lines == {"sac, 1 seed": pytest.approx(1.0), "slower, 1 seed": pytest.approx(0.4)}
    write_curves(table, tmp_path)
    assert [file.name for file in tmp_path.glob("curves/*")] == ["reach.png"]


def test_the_page_makes_no_request_and_links_films(original: Path) -> None:
    page = write_page(build_table(benchmark(original)), original)
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)
    assert "A &lt;b&gt;short&lt;/b&gt; suite" in page
    links = re.findall(r'<a href="([^"]*mp4)"', page)
    assert links
    assert all((original / link.replace("%2C", ",").replace("%20", " ")).is_file() for link in links)
    assert page.count("<polyline") == 3, "a curve for each run"
    assert len(re.findall('<input type="search"', page)) == 2


def test_columns_of_figures_are_sorted_by_their_values(tmp_path: Path) -> None:
    rates = {"10x batch": 1.0, "9 critics": 0.095}
    for name, rate in rates.items():
        make_run(tmp_path / "cells" / "reach" / "panda" / "pybullet" / name, rate, 0, task="reach", algo="sac")
    cells = [{"task": "reach", "algo": "sac", "seeds": 10, "name": name} for name in (*rates, "planned")]
    page = write_page(build_table(benchmark(tmp_path, {"cells": cells})), tmp_path)
    by_task, methods, each = re.findall("<table.*?</table>", page)[:3]
    assert re.findall('class="number" data-key="([^"]*)"', by_task) == ["100.0", "9.5", ""]
    for rows in (methods, each):
        assert [name for name in (*rates, "planned") if f'<td data-key="{name}">' in rows] == [*rates, "planned"]
    assert re.findall('data-key="([^"]*)">. of 10', each) == ["1.0", "1.0", "0.0"]


def test_performance_profiles_are_of_the_best_methods_over_several_tasks(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"method {number}" for number in range(figures.MAX_LINES + 1)]
    content = {"cells": [{"task": ["reach", "push"], "algo": "sac", "name": name} for name in names]}
    for number, name in enumerate(names):
        for task in ("reach", "push"):
            rate = 0.9 if number == 2 else number / 100
            make_run(tmp_path / "cells" / task / "panda" / "pybullet" / name, rate, 0, task=task, algo="sac")
    profiles = build_table(benchmark(tmp_path, content))
    page = write_page(profiles, tmp_path)
    assert [name for name in names if f"{name} (2 tasks)" in page] == names[1:]
    assert f"the best {len(names) - 1} of {len(names)}" in page
    assert "Performance profiles" not in write_page(build_table(benchmark(original)), original), "one task each"
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = write_page(profiles, tmp_path)
    assert "mygym[results]" in page
    assert "method 0" in page


def test_tables_of_two_versions_are_compared(folder: Path, original: Path, mygym_command: Command) -> None:
    stored = json.loads((folder / "table.json").read_text())
    for record in (*stored["cells"][0]["setting"]["records"], *stored["cells"][1]["setting"]["records"]):
        record.update(success_rate=1.0, episodes=100)
    better, worse = folder.parent / "better" / "table.json", folder.parent / "worse" / "table.json"
    for path, rate in ((better, 1.0), (worse, 0.5)):
        for cell in stored["cells"]:
            first = cell["setting"]["records"][0]
            cell["setting"]["records"] = [{**first, "seed": seed, "success_rate": rate} for seed in range(5)]
        path.parent.mkdir()
        path.write_text(json.dumps(stored))
    outcome = mygym_command("compare", str(better), str(worse), "--fail-if-worse", "5%")
    assert outcome.code == 1
    assert f"worse: {SAC}, -50.0" in outcome.err
    assert mygym_command("compare", str(worse), str(better), "--fail-if-worse", "5%").code == 0
    assert "two benchmarks" in mygym_command("compare", str(worse)).err
    assert "'reward'" not in mygym_command("compare", str(original), str(original), "--json").err
    del stored["cells"][1:]
    better.write_text(json.dumps(stored))
    assert f"1 cell in {worse} alone: {TD3}" in mygym_command("compare", str(better), str(worse)).err


def test_a_comparison_of_tables_notes_a_task_that_has_changed(folder: Path, original: Path) -> None:
    stored = json.loads((folder / "table.json").read_text())
    stored["cells"][0]["setting"]["config"].update({"task_params.horizon": 20, "steps": 70})
    del stored["cells"][0]["setting"]["config"]["task_params.hold"]  # as in an older table
    (folder / "table.json").write_text(json.dumps(stored))
    assert compare_tables(original, folder)[1] == [f"task_params.horizon differs in 1 cell: {SAC}"]
    assert compare_tables(original, original)[1] == []


def test_a_result_is_verified_to_the_last_digit_without_scipy(
    folder: Path, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ["scipy", *(name for name in sys.modules if name.startswith("scipy."))]:
        monkeypatch.setitem(sys.modules, name, None)  # each of its imports fails
    outcome = mygym_command("benchmark", str(folder), "--verify", TD3)
    assert (outcome.code, f"{TD3}, seed 0: holds: equal to the last digit" in outcome.err) == (0, True), outcome
    assert "verified" in (folder / "table.md").read_text()
    assert build_table(benchmark(folder)).cells[1].verified == (True,)


@pytest.mark.slow  # seconds to an hour: trains one run of the shipped table again, another each day
def test_a_run_of_the_shipped_table_repeats(tmp_path: Path, mygym_command: Command) -> None:
    folder = tmp_path / "core"
    shutil.copytree(ROOT / "benchmarks" / "tables" / "core", folder)
    outcome = mygym_command("benchmark", str(folder), "--verify", "1", "--seed", f"{date.today().toordinal()}")
    assert (outcome.code, ": holds: " in outcome.err) == (0, True), outcome


def test_a_result_that_does_not_repeat_is_found(folder: Path, mygym_command: Command) -> None:
    for path in folder.glob(f"cells/{TD3}/**/result.json"):
        content = json.loads(path.read_text())
        content |= {"success_rate": 1.0, "stage_reached": {"done": 100}}
        path.write_text(json.dumps(content))
    outcome = mygym_command("benchmark", str(folder), "--verify", TD3)
    assert outcome.code == 1
    assert f"{TD3}, seed 0: does not hold" in outcome.err
    assert build_table(benchmark(folder)).cells[1].verified == (False,)
    assert mygym_command("benchmark", str(folder), "--verify", "3").code == 1, "the sample holds all three runs"


@pytest.mark.parametrize("other", ["interrupted", "diverged"])
def test_a_repetition_that_diverges_fails_all_episodes(other: str, tmp_path: Path) -> None:
    """Its directory has no final episodes; it holds where another seed of the cell has diverged as well."""
    cells, repeated = (tmp_path / name / "reach/panda/pybullet/sac" for name in ("cells", verification.FOLDER))
    for seed, status in enumerate(["done", "done", other]):
        make_run(cells, 0.95, seed, status)
    make_run(repeated, 0.95, 0, "diverged")
    opened = benchmark(tmp_path, {"cells": [{"task": "reach", "algo": "sac", "seeds": 3}]})
    runs = verification.chosen(opened, "reach/panda/pybullet/sac", 0)
    (tmp_path / verification.FOLDER / verification.UNFINISHED).write_text(json.dumps({"runs": [runs[0].name]}))
    (verdict,) = verification.verify(opened, runs, TrainingExecutor(dies_at=0), "mygym benchmark", str)
    assert (verdict.success_rate, verdict.again) == (0.95, 0.0)
    assert (verdict.lowest, verdict.holds) == ((0.0, True) if other == "diverged" else (0.95, False)), verdict.reason
    assert verdict.p_value < 1e-6


def test_an_interrupted_verification_continues(
    folder: Path, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[int] = []

    def stop_after(count: int, executor: Any, jobs: Sequence[Job], on_end: Callable[[int], None], again: str) -> None:
        executed.append(len(jobs[:count]))
        executors.execute(executor, jobs[:count], on_end, again)
        if count < len(jobs):
            raise InterruptedRunError(f"interrupted; go on with: {again}")

    words = ["benchmark", str(folder), "--verify", "3"]
    for count, code in ((1, 130), (3, 0)):
        monkeypatch.setattr(verification, "execute", partial(stop_after, count))
        outcome = mygym_command(*words)
        assert (outcome.code, outcome.err.count(": holds: equal to the last digit")) == (code, count), outcome
    assert executed == [1, 2], "the sample has all three runs, of which one had ended"
    assert not (folder / verification.FOLDER / verification.UNFINISHED).exists()


def test_a_table_alone_counts_and_is_verified(folder: Path, original: Path, mygym_command: Command) -> None:
    before = build_table(benchmark(folder))
    shutil.rmtree(folder / "cells")
    assert execute(folder, SUITE, TrainingExecutor(dies_at=0)) == []
    after = build_table(benchmark(folder))
    for first, second in zip(before.cells, after.cells, strict=True):
        assert (first.curves, first.summary) == (second.curves, second.summary)
        assert first.curves
    outcome = mygym_command("benchmark", str(folder), "--verify", SAC)
    assert (outcome.code, "equal to the last digit" in outcome.err) == (0, True), outcome
    shutil.rmtree(folder / "verification")
    assert build_table(benchmark(folder)).cells[0].verified == (True,), "the table remembers it"


def write_archive(path: Path, run: Path, changed: Mapping[str, str | None]) -> None:
    """Write a zip file of a run, with other contents of files; None leaves a file out."""
    content = {name: (run / name).read_bytes() for name in ("config.yaml", "result.json", "policy.safetensors")}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**content, **changed}.items():
            if text is not None:
                archive.writestr(f"a/seed_0/{name}", text)


def test_a_run_from_elsewhere_is_judged_and_none_of_its_code_runs(
    folder: Path,
    original: Path,
    tmp_path: Path,
    mygym_command: Command,
) -> None:
    (run,) = original.glob(f"cells/{SAC}/*/*/*/*/seed_0")
    config = yaml.safe_load((run / "config.yaml").read_text())
    result = json.loads((run / "result.json").read_text())
    evil = tmp_path / "evil.py"
    evil.write_text("raise SystemExit('their code ran')")
    changed = {
        "config.yaml": yaml.safe_dump({**config, "imports": [str(evil)]}),
        "result.json": json.dumps({**result, "success_rate": 1.0, "stage_reached": {"d": 100}}),
        "evil.py": evil.read_text(),
        "../../../../evil.py": evil.read_text(),
    }
    write_archive(tmp_path / "theirs.zip", run, changed)
    added = ["benchmark", str(folder), "--add", str(tmp_path / "theirs.zip"), "--as", "theirs", "--episodes", "4"]
    outcome = mygym_command(*added)
    assert outcome.code == 0, outcome
    assert "its result says 100.0 %" in outcome.err
    cell = build_table(benchmark(folder)).cells[-1]
    (record,) = cell.setting.records
    assert (cell.method, cell.origin, record.episodes) == ("theirs", "theirs.zip", 4)
    assert record.success_rate is not None
    assert record.success_rate < 0.75, "a policy of 60 steps"
    assert not list(folder.rglob("evil*"))
    assert cell.command == "mygym train --config imported/reach/panda/pybullet/theirs/seed_0/config.yaml --seed S"


def test_an_archive_of_runs_is_added(folder: Path, original: Path, tmp_path: Path, mygym_command: Command) -> None:
    (run,) = original.glob(f"cells/{SAC}/*/*/*/*/seed_0")
    shutil.copytree(run, tmp_path / "runs/seed_0")
    assert mygym_command("runs", str(tmp_path / "runs"), "--archive", str(tmp_path / "old.zip"), "--yes").code == 0
    words = ["benchmark", str(folder), "--add", str(tmp_path / "old.zip"), "--as", "old", "--episodes", "1"]
    assert (added := mygym_command(*words)).code == 0, added
    assert build_table(benchmark(folder)).cells[-1].origin == "old.zip"


@pytest.fixture
def added(folder: Path, original: Path) -> Path:
    """A benchmark with two runs from elsewhere, as `--add` leaves them."""
    for seed in (0, 1):
        (run,) = original.glob(f"cells/{SAC}/*/*/*/*/seed_{seed}")
        copy = shutil.copytree(run, folder / "imported/reach/panda/pybullet/theirs" / run.name)
        judged = {"success_rate": 0.75, "success_low": 0.3, "success_high": 0.95, "episodes": 4}
        files.write_json(copy / "judgement.json", {**judged, "origin": f"{seed}.zip"})
    write(folder)
    return folder


@pytest.mark.parametrize("lost", ["imported", "imported/reach/panda/pybullet/theirs/seed_0", "table.json"])
def test_the_table_keeps_added_runs_whose_folders_are_elsewhere(lost: str, added: Path) -> None:
    before = build_table(benchmark(added)).cells[-1].to_json()
    assert before["origin"] == "0.zip, 1.zip"
    files.remove(added / lost)
    after = build_table(benchmark(added)).cells[-1].to_json()
    assert {**after, "setting": 0} == {**before, "setting": 0}
    assert [each["success_rate"] for each in after["setting"]["records"]] == [0.75, 0.75]


def test_an_added_run_does_not_join_a_later_cell_of_the_suite(added: Path) -> None:
    sac, td3 = SUITE["cells"]
    later = {"task": "reach", "algo": "td3", "name": "theirs", "set": SMALL}
    table = build_table(benchmark(added, {**SUITE, "cells": [sac, td3, later]}))
    (row,), methods = table.by_task()[0], {method.method: method for method in table.methods}
    assert (row["theirs"], row["imported theirs"][:4]) == ("–", "75.0")
    assert (methods["theirs"].tasks, methods["imported theirs"].tasks) == (0, 1)


@pytest.mark.parametrize(
    ("runs", "words", "parts"),
    [
        (["a"], [], [f"a/seed_0' is a run of {SAC}", "the suite", "--as NAME"]),
        (["a"], ["--as", "TD3, shorter"], [f"a/seed_0' is a run of {TD3}", "--as NAME"]),
        (["a", "b"], ["--as", "theirs"], ["b/seed_0' has the cell and the seed of", "a/seed_0", "--as NAME"]),
    ],
    ids=["cell of the suite", "named as a cell of the suite", "two of the same cell"],
)
@pytest.mark.parametrize("together", [True, False], ids=["in a folder", "one by one"])
def test_an_added_run_replaces_no_other_result(
    together: bool,
    runs: list[str],
    words: list[str],
    parts: list[str],
    folder: Path,
    original: Path,
    tmp_path: Path,
    mygym_command: Command,
) -> None:
    (run,) = original.glob(f"cells/{SAC}/*/*/*/*/seed_0")
    theirs = [shutil.copytree(run, tmp_path / "theirs" / name / "seed_0") for name in runs]
    before = sorted(folder.rglob("*"))
    sources = [tmp_path / "theirs"] if together else theirs
    flags = [word for source in sources for word in ("--add", str(source))]
    outcome = mygym_command("benchmark", str(folder), *flags, *words, "--episodes", "1")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome
    assert all(part in outcome.err for part in parts), outcome.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("task", ["reach+A", "their_task"])
def test_the_task_of_an_added_run_need_not_be_one_task_of_this_machine(task: str, original: Path) -> None:
    """A run of several tasks is named after all of them."""
    table = build_table(benchmark(original))
    table = replace(table, cells=(*table.cells, replace(table.cells[0], task=task, method="theirs")))
    assert [row.robot for row in table.methods if row.method == "theirs"] == ["of the task"]
    assert f"| {task} " in table.to_markdown()
    assert task in write_page(table, original)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("policy.safetensors", None),
        ("policy.safetensors", "damaged"),
        ("config.yaml", "{"),
        ("result.json", None),
        ("result.json", "task"),
    ],
)
def test_a_message_names_the_archive_and_the_path_in_it(
    file: str,
    content: str | None,
    folder: Path,
    original: Path,
    tmp_path: Path,
    mygym_command: Command,
) -> None:
    (run,) = original.glob(f"cells/{SAC}/*/*/*/*/seed_0")
    if content == "task":
        content = json.dumps({**json.loads((run / "result.json").read_text()), "task": "a/b"})
    write_archive(tmp_path / "theirs.zip", run, {file: content})
    outcome = mygym_command("benchmark", str(folder), "--add", str(tmp_path / "theirs.zip"), "--episodes", "1")
    assert outcome.code in (1, 2)
    assert str(tmp_path / "theirs.zip") in outcome.err
    assert ("theirs.zip/a/seed_0" in outcome.err) or file == "result.json", outcome.err
    assert tempfile.gettempdir() not in outcome.err.replace(str(tmp_path), ""), outcome.err


@pytest.mark.parametrize("fault", ["damaged", "encrypted", "file as folder"])
def test_an_archive_that_cannot_be_unpacked_is_refused(
    fault: str, folder: Path, tmp_path: Path, mygym_command: Command
) -> None:
    theirs = tmp_path / "theirs.zip"
    with zipfile.ZipFile(theirs, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.yaml", "steps: 1\n" * 100)
        if fault == "file as folder":
            archive.writestr("config.yaml/result.json", "{}")
    content = bytearray(theirs.read_bytes())
    if fault == "damaged":
        content[43:45] = b"\xff\xff"  # of the compressed file
    elif fault == "encrypted":
        content[6] |= 1
        content[content.find(b"PK\x01\x02") + 8] |= 1
    theirs.write_bytes(content)
    outcome = mygym_command("benchmark", str(folder), "--add", str(theirs), "--episodes", "1")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome
    assert f"--add: '{theirs}' cannot be unpacked (" in outcome.err


@pytest.mark.parametrize("key", ["task", "robot", "engine", "algo"])
def test_a_run_from_elsewhere_stays_in_the_folder(
    key: str,
    folder: Path,
    original: Path,
    tmp_path: Path,
    mygym_command: Command,
) -> None:
    (run,) = original.glob(f"cells/{SAC}/*/*/*/*/seed_0")
    theirs = shutil.copytree(run, tmp_path / "theirs" / "seed_0")
    result = json.loads((theirs / "result.json").read_text())
    (theirs / "result.json").write_text(json.dumps({**result, key: "../../../../../outside"}))
    before = sorted(tmp_path.rglob("*"))
    outcome = mygym_command("benchmark", str(folder), "--add", str(theirs), "--episodes", "1")
    assert (outcome.code, "outside" in outcome.err) == (2, True), outcome
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--verify", "reach/panda/pybullet/sacc"], ["sacc", f"did you mean '{SAC}'"]),
        (["--verify", "0"], ["--verify", "0"]),
        (["--add", "nothing.zip"], ["--add", "nothing.zip"]),
        (["--as", "me"], ["--as", "--add"]),
        (["--table", "--dry-run"], ["--dry-run", "--table"]),
        (["--logdir", "elsewhere"], ["suite", "is no file"]),
        (["--executor", "slurmm"], ["slurmm", "slurm"]),
        (["--jobs", "0"], ["--jobs", "0"]),
    ],
)
def test_bad_flags_are_refused(
    words: list[str],
    parts: list[str],
    folder: Path,
    mygym_command: Command,
) -> None:
    outcome = mygym_command("benchmark", str(folder), *words)
    assert outcome.code == 2
    assert all(part in outcome.err for part in parts), outcome.err
    assert "Traceback" not in outcome.err


def test_a_folder_that_executes_is_locked(folder: Path, mygym_command: Command) -> None:
    with benchmark(folder).locked():
        outcome = mygym_command("benchmark", str(folder))
    assert (outcome.code, "another process" in outcome.err) == (2, True)


def test_dry_run_and_wrong_flags_write_nothing(tmp_path: Path, mygym_command: Command) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SUITE))
    outcome = mygym_command("benchmark", "mine.yaml", "--dry-run")
    assert outcome.code == 0
    assert "0 of 3 runs are there; 3 left" in outcome.out
    assert mygym_command("benchmark", "mine.yaml", "--executor", "slurmm").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


@pytest.mark.parametrize("flags", [["--dry-run"], []], ids=["dry run", "start"])
@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (
            {"task": "pick_and_place", "robot": "kuka", "algo": "ppo"},
            "robot: 'kuka' has no gripper",
        ),
        (
            {"task": "reach", "algo": "ppo", "set": {"task_params": {"areas": {"reach": {"low": [5, 0, 0]}}}}},
            "task_params.areas.reach",
        ),
    ],
)
def test_a_cell_whose_world_cannot_be_is_refused_before_anything_is_written(
    cell: dict[str, Any], text: str, flags: list[str], tmp_path: Path, mygym_command: Command
) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**SUITE, "cells": [*SUITE["cells"], cell]}))
    outcome = mygym_command("benchmark", "mine.yaml", *flags)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert text in outcome.err
    assert f"(in the cell {cell['task']}/{cell.get('robot', 'panda')}/pybullet/ppo)" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_commands_of_cells_have_the_values_of_the_suite() -> None:
    cell = make_suite("short", SUITE).cells[1]
    command = cell.command
    assert command.startswith("mygym train ")
    assert "--algo td3" in command
    assert "--steps 40" in command
    assert "--set 'algo_params.policy_kwargs.net_arch=[16]'" in command
    assert command.endswith("--seed S")
