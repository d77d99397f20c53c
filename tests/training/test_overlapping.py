"""`overlap`: gradient steps while other processes step the environments."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

import mygym
from benchmarks.kills import differences
from mygym.errors import ConfigError
from mygym.planning.plan import make_plan, plan_from_python
from mygym.registry import algorithm
from mygym.training import env_factory
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from tests.components import COMBOS_OF_EACH_KIND, small

WAIT = ["step_async", "train", "step_wait"]


def settings(algo: str = "sac", framework: str = "pytorch", **more: Any) -> dict[str, Any]:
    params = {**small(algo, framework), "learning_starts": 51, "train_freq": 1}
    return {"algo": algo, "framework": framework, "algo_params": params, "n_envs": 2, "overlap": True, **more}


def recorded(call: Callable[..., Any], name: str, events: list[str]) -> Callable[..., Any]:
    """Return a function that adds its name to the events when it is called."""

    def record_and_call(*args: Any, **kwargs: Any) -> Any:
        events.append(name)
        return call(*args, **kwargs)

    return record_and_call


@pytest.mark.parametrize(("algo", "framework"), COMBOS_OF_EACH_KIND)
def test_each_off_policy_algorithm_trains_before_it_waits_for_a_step(
    algo: str, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = algorithm(algo, framework).combo()[0]
    if not issubclass(cls, OffPolicyAlgorithm):
        with pytest.raises(ConfigError, match=f"overlap: True .*{algo} of {framework}"):
            make_plan({"algo": algo, "framework": framework, "overlap": True})
        return
    plan = plan_from_python(settings(algo, framework, env_processes=False))
    env = make_vec_env(plan)
    events: list[str] = []
    for owner, name in ((env, "step_async"), (env, "step_wait"), (cls, "train")):
        monkeypatch.setattr(owner, name, recorded(getattr(owner, name), name, events))
    model = build_model(plan, env).learn(100)
    env.close()
    warm_up = events.index("train") - 1
    assert warm_up == 2 * 26  # until learning_starts
    assert events[warm_up:] == WAIT * (50 - 26)
    assert len(model.postponed) == 1  # of the last step


@pytest.mark.parametrize(
    ("values", "overlap"),
    [
        ({}, True),
        ({"engine": "mujoco"}, False),
        ({"algo_params": {"train_freq": [2, "step"]}}, False),
        ({"overlap": False}, False),
        ({"task": "reach"}, False),
    ],
    ids=str,
)
def test_an_algorithm_prefers_it_where_it_is_possible(values: dict[str, Any], overlap: bool) -> None:
    config = make_plan({"algo": "xqc", "task": "press", **values}).config
    assert (config.overlap, config.env_processes) == (overlap, False if "task" in values else "auto")


@pytest.mark.slow  # test_the_same_result_without_worker_processes, and test_api.py, are quick
def test_a_policy_learns_to_reach(tmp_path: Path) -> None:
    result = mygym.train({"overlap": True, "logdir": str(tmp_path), "video": {"episodes": 0}})
    assert result.success_rate is not None
    assert result.success_rate >= 0.95


def test_the_same_result_without_processes(tmp_path: Path) -> None:
    evaluations = {"eval": {"every": 100, "episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
    short = settings(steps=240, env_processes=1, task_params={"horizon": 20}, logdir=str(tmp_path), **evaluations)
    usual, alone = mygym.train(short), mygym.train({**short, "env_processes": False})
    assert differences(usual.path, alone.path) == []
    assert pickle.dumps(mygym.load(usual.path).model)  # acts without processes of environments


@pytest.mark.parametrize(("cores", "steps", "processes"), [(1, 5_000, 0), (2, 5_000, 1), (8, 5_000, 2), (8, 4_999, 0)])
def test_the_learner_of_a_long_run_has_a_core(
    cores: int, steps: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    plan = env_factory.with_process_count(plan_from_python(settings(steps=steps)), pytest.fail)
    assert plan.config.env_processes == processes
