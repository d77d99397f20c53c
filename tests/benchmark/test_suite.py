"""Suites: their grids are cells, the shipped ones are complete, and mistakes are named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from mygym.benchmark.execution import Benchmark
from mygym.benchmark.page import pictures
from mygym.benchmark.suite import load_suite, make_suite, shipped
from mygym.benchmark.table import build_table
from mygym.errors import ConfigError, MygymError
from mygym.registry import registry
from tests.conftest import ROOT


def test_a_grid_is_the_product_of_its_names() -> None:
    grid = {"task": ["reach", "push"], "robot": ["panda", "xarm6_gripper"], "algo": ["default", "sac/jax"], "seeds": 2}
    suite = make_suite("mine", {"set": {"steps": 100}, "cells": [{**grid, "set": {"eval": {"every": 50}}}]})
    assert [cell.name for cell in suite.cells] == [
        "reach/panda/pybullet/default",
        "reach/panda/pybullet/sac-jax",
        "reach/xarm6_gripper/pybullet/default",
        "reach/xarm6_gripper/pybullet/sac-jax",
        "push/panda/pybullet/default",
        "push/panda/pybullet/sac-jax",
        "push/xarm6_gripper/pybullet/default",
        "push/xarm6_gripper/pybullet/sac-jax",
    ]
    config = suite.cells[1].resolved.config
    assert (config.algo, config.framework, config.steps, config.eval.every) == ("sac", "jax", 100, 50)
    assert {cell.seeds for cell in suite.cells} == {(0, 1)}
    assert suite.cells[4].resolved.config.algo == "ppo", "the default of push, which has several stages"


def test_a_grid_may_have_a_config_file(tmp_path: Path) -> None:
    """Its values are below those of the suite; seeds and folders are those of the suite."""
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({"algo": "td3", "steps": 70, "n_envs": 3, "seed": 9, "logdir": "elsewhere"}))
    (cell,) = make_suite("mine", {"set": {"steps": 60}, "cells": [{"task": "reach", "config": str(file)}]}).cells
    config = cell.resolved.config
    assert (config.algo, config.steps, config.n_envs, config.seed, config.logdir) == ("td3", 60, 3, 0, "runs")
    assert cell.command == f"mygym train --config {file} --steps 60 --task reach --engine pybullet --seed S"
    file.write_text(yaml.safe_dump({"imports": ["my.module"]}))
    with pytest.raises(ConfigError, match=r"cells\.0: .*run\.yaml.*imports"):
        make_suite("mine", {"cells": [{"task": "reach", "config": str(file)}]})


def test_the_engine_of_a_config_file_counts_unless_the_grid_has_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("engine: mujoco\n")
    grids = [{"task": "reach", "config": str(tmp_path / "mine.yaml"), **more} for more in ({}, {"engine": "pybullet"})]
    first, second = make_suite("mine", {"cells": grids}).cells
    assert (first.engine, first.resolved.config.engine) == ("mujoco", "mujoco")
    assert second.name == "reach/panda/pybullet/default"


def test_a_grid_may_set_a_parameter_of_the_controller_that_the_suite_or_its_file_names(tmp_path: Path) -> None:
    file, step = tmp_path / "run.yaml", {"control": {"step": 0.02}}
    file.write_text(yaml.safe_dump({"control": "joint_delta"}))
    by_suite = make_suite("mine", {"set": {"control": "joint_delta"}, "cells": [{"task": "reach", "set": step}]})
    by_file = make_suite("mine", {"cells": [{"task": "reach", "config": str(file), "set": step}]})
    for suite in (by_suite, by_file):
        control = suite.cells[0].resolved.config.control
        assert (control.name, control.step) == ("joint_delta", 0.02)


@pytest.mark.parametrize("name", shipped())
def test_shipped_suites_are_complete(name: str) -> None:
    suite = load_suite(name)
    assert suite.title
    assert all(cell.resolved.config.task == cell.task for cell in suite.cells)


def test_the_core_suite_has_all_tasks_and_eight_methods() -> None:
    cells = load_suite("core").cells
    assert {cell.task for cell in cells} == {entry.name for entry in registry("task") if entry.built_in}
    methods = Counter(cell.task for cell in cells)
    assert min(methods.values()) >= 8, methods


@pytest.mark.parametrize(("name", "runs"), [("algorithms", 110), ("core", 150), ("learning", 140), ("strategies", 40)])
def test_a_table_of_this_repository_is_that_of_its_suite(name: str, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # config files of suites are relative to it
    folder = ROOT / "benchmarks" / "tables" / name
    suite = load_suite(folder / "suite.yaml", name)
    if name in shipped():
        assert load_suite(name).content == suite.content
    table = build_table(Benchmark(suite, folder))
    assert sum(len(cell.setting.records) for cell in table.cells) > runs
    shown, written = (
        (folder / "table.md").read_text().splitlines(),
        table.to_markdown(pictures(table, folder)).splitlines(),
    )
    assert [line for line in shown if " runs; mygym " not in line] == [
        line for line in written if " runs; mygym " not in line
    ]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ({"cells": [{"task": "reach", "sead": 2}]}, ["cells.0.sead", "seeds"]),
        ({"cell": []}, ["cell", "cells"]),
        ({"cells": []}, ["cells"]),
        ({"cells": [{"task": "push"}, {"task": "reech"}]}, ["cells.1", "reech", "reach"]),
        ({"cells": [{"task": "reach", "algo": "sacc"}]}, ["cells.0", "sacc", "sac"]),
        ({"cells": [{"task": "reach", "algo": "sac/jaxx"}]}, ["sac/jaxx", "sac/jax"]),
        ({"cells": [{"task": "reach", "seeds": [1, 1]}]}, ["cells.0.seeds", "each once"]),
        ({"cells": [{"task": "reach", "seeds": 0}]}, ["cells.0.seeds", "0"]),
        ({"cells": [{"task": "reach", "set": {"seed": 3}}]}, ["cells.0.set", "seed"]),
        ({"set": {"engine": "mujoco"}, "cells": [{"task": "reach"}]}, ["set", "engine", "grid"]),
        ({"cells": [{"task": "reach", "set": {"stepz": 3}}]}, ["cells.0", "stepz", "steps"]),
        ({"cells": [{"task": "reach", "name": "a/b"}]}, ["cells.0.name", "a/b"]),
        (
            {"cells": [{"task": "reach"}, {"task": ["push", "reach"]}]},
            ["cells.1", "reach/panda/pybullet/default", "name"],
        ),
        ({"imports": ["no_such_module"], "cells": [{"task": "reach"}]}, ["no_such_module"]),
    ],
)
def test_mistakes_are_named(content: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(MygymError) as error:
        make_suite("mine", content)
    assert all(part in str(error.value) for part in parts), error.value


def test_a_missing_file_has_a_nearest_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"cells": [{"task": "reach"}]}))
    (tmp_path / "quick").mkdir()
    assert load_suite("mine.yaml").name == "mine"
    assert load_suite("quick").name == "quick"
    for given, nearest in (("min.yaml", "mine.yaml"), ("quik", "quick")):
        with pytest.raises(ConfigError, match=f"did you mean '{nearest}'"):
            load_suite(given)
