"""`env_processes: auto`: a measured number of processes, stored in the run's config."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.config import load_file
from mygym.errors import ConfigError, RunError
from mygym.planning.plan import RunPlan, make_plan
from mygym.training import env_factory


def measured(monkeypatch: pytest.MonkeyPatch, **rates: float) -> tuple[Any, str]:
    """Return the choice for a large run, and the message, if processes and a single process have these rates."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(env_factory, "process_vec_env", lambda makers, processes, patience: "processes")
    monkeypatch.setattr("stable_baselines3.common.vec_env.DummyVecEnv", lambda makers: "alone")

    def rate(envs: str) -> float:
        if envs not in rates:
            raise RunError("the process died")
        return rates[envs]

    monkeypatch.setattr(env_factory, "_steps_per_second", rate)
    return chosen(large())


def large(**values: Any) -> RunPlan:
    return make_plan({"algo": "ppo", "n_envs": 8, "steps": 400_000, "env_processes": "auto", **values})


def chosen(plan: RunPlan) -> tuple[Any, str]:
    notes: list[str] = []
    plan = env_factory.with_process_count(plan, notes.append)
    return plan.config.env_processes, *(notes or [""])


def test_processes_are_chosen_if_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "5,800 env steps/s in 2 processes, 3,100 in this process"
    assert measured(monkeypatch, processes=5_800, alone=3_100) == (2, f"env_processes: 2: {reason}")
    assert measured(monkeypatch, processes=3_300, alone=3_100)[0] == 0
    assert measured(monkeypatch, alone=3_100) == (0, "env_processes: 0: in this process, because the process died")


def test_small_runs_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(env_factory, "_steps_per_second", pytest.fail)
    assert chosen(large(steps=20_000)) == (0, "")
    assert chosen(large(n_envs=1)) == (0, "")
    assert env_factory.with_process_count(large(env_processes=3), pytest.fail).config.env_processes == 3


def test_measurement_of_real_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(env_factory, "PATIENCE", 60)
    monkeypatch.setattr(env_factory, "SECONDS", 0.1)
    count, note = chosen(large(n_envs=2))
    assert count in (0, 2)
    assert "env steps/s in 2 processes" in note


@pytest.mark.parametrize("value", ["fast", -1, 2.5])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(
        ConfigError, match=rf"^env_processes: '?{value}'? is not allowed .* true or false or .* or 'auto'"
    ):
        make_plan({"env_processes": value})


def test_the_number_is_stored(tmp_path: Path) -> None:
    config = {"task": "push", "algo": "ppo", "n_envs": 2, "steps": 40, "video": {"episodes": 0}}
    evaluations = {"every": 40, "episodes": 1, "final_episodes": 1}
    small = {"algo_params": {"n_steps": 20, "batch_size": 20}, "eval": evaluations}
    result = mygym.train({**config, **small, "logdir": str(tmp_path)})
    assert load_file(result.path / "config.yaml")["env_processes"] == 0  # auto is the default for several stages
