"""Tests of strategy `multitask`."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.errors import ConfigError
from mygym.planning.plan import plan_of
from mygym.planning.resolve import from_python
from mygym.planning.strategies import VARIANT_KEYS
from mygym.registry import registry
from mygym.strategies.multitask import MIN_SHARE, MultiTask
from mygym.tasks.components import STAGE_COLUMNS
from mygym.training import env_factory
from tests.components import slow_except

SAMPLERS = ("fair", "uniform", "adaptive", "differentiable")


def quick(tmp_path: Path, **params: Any) -> dict[str, Any]:
    return {
        "strategy": "multitask",
        "strategy_params": {"tasks": ["reach", "push"], **params},
        "algo": "ppo",
        "algo_params": {"n_steps": 32, "batch_size": 64},
        "n_envs": 2,
        "task_params": {"horizon": 20},
        "steps": 128,
        "eval": {"every": 64, "episodes": 2, "final_episodes": 2},
        "video": {"episodes": 0},
        "logdir": str(tmp_path),
    }


@pytest.mark.parametrize("sampler", slow_except(SAMPLERS, "adaptive".__eq__))
def test_results_have_the_success_of_each_task(sampler: str, tmp_path: Path) -> None:
    identify = {"fair": "one_hot", "adaptive": "stages"}.get(sampler, "none")
    result = mygym.train(quick(tmp_path, sampler=sampler, identify=identify))
    assert result.status == "done"
    assert result.path.relative_to(tmp_path).parts[0] == "reach+push"
    assert set(result.success_by_task) == {"reach", "push"}
    assert all(set(record["success_by_task"]) == {"reach", "push"} for record in result.evaluations)
    assert {stage.partition(":")[0] for stage in result.stage_reached} == {"reach", "push"}
    evaluation = mygym.evaluate(result.path, episodes=2)
    assert [episode.task for episode in evaluation.episodes].count("push") == 1
    # a stage more moves no column of the observations, so that the policy still fits them
    origin = str(Path(mygym.__file__).parent / "new.py")
    registry("stage").register("aim", replace(registry("stage").get("push").load(), name="aim"), origin=origin)
    assert mygym.evaluate(result.path, episodes=2) == evaluation


def test_the_stage_code_has_the_position_of_each_stage() -> None:
    config = from_python(quick(Path("nowhere"), tasks=["AGM", "reach", "AG"], identify="stages")).config
    task_codes = plan_of(config).codes
    assert task_codes is not None
    columns = [*STAGE_COLUMNS, ""]
    by_name = [{columns[column]: float(row[column]) for column in np.flatnonzero(row)} for row in task_codes]
    assert by_name[0] == pytest.approx({"approach": 1.0, "grasp": 2 / 3, "move": 1 / 3})
    assert by_name[1:] == [{"approach": 1.0}, {"approach": 1.0, "grasp": 0.5}]
    env = env_factory.make_env(config)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        assert observation["observation"][env.components["variant"]].tolist() == task_codes[info["variant"]].tolist()  # type: ignore[index]
    env.close()


PARTIAL_CONFIGS = [
    {"task": "push", "task_params": {"tolerance": 0.01}},
    {"task": "push", "robot": "kuka_gripper"},
    {"task": "push", "reward": "dense"},
    {"task": "push", "randomize": {"object_mass": [0.5, 2.0]}},
    {"task": "push"},
]


def test_the_config_of_one_task_does_not_affect_the_others() -> None:
    for partial_configs in list(itertools.permutations(PARTIAL_CONFIGS, 2)):
        config = from_python(
            {"algo": "sac", "strategy": "multitask", "strategy_params": {"tasks": list(partial_configs)}}
        ).config
        for partial_config, variant in zip(partial_configs, plan_of(config).variants, strict=True):
            single = from_python({"algo": "sac", "spaces": "shared", **partial_config}).config
            assert [getattr(variant.config, key) for key in VARIANT_KEYS] == [
                getattr(single, key) for key in VARIANT_KEYS
            ]


def test_the_runs_task_must_be_one_of_the_tasks() -> None:
    params = {"tasks": ["reach", "AGM"]}
    for task in ("reach", "AGM"):
        assert from_python({"strategy": "multitask", "strategy_params": params, "task": task}).config.task == task
    with pytest.raises(ConfigError, match=r"task: 'push' .*allowed: reach, AGM"):
        from_python({"strategy": "multitask", "strategy_params": params, "task": "push"})


def test_robots_with_equal_spaces_share_a_network(tmp_path: Path) -> None:
    tasks = [{"task": "reach"}, {"task": "reach", "robot": "kuka"}]
    result = mygym.train(quick(tmp_path, tasks=tasks) | {"spaces": "own"})
    assert set(result.success_by_task) == {"reach on panda", "reach on kuka"}
    assert result.path.relative_to(tmp_path).parts[0] == "reach_on_panda+reach_on_kuka"


def strategy(sampler: Any, rate: float) -> MultiTask:
    return MultiTask(tasks=["reach", "push", "AGM"], sampler=sampler, rate=rate)


@pytest.mark.parametrize("sampler", ["adaptive", "differentiable"])
@pytest.mark.parametrize("rate", [0.05, 0.1])
def test_the_task_with_progress_is_played_most(sampler: str, rate: float) -> None:
    """Of three tasks drawn by the weights, one is never solved, one improves, and one is always solved."""
    warm_up, learning = round(10 / rate), round(30 / rate)  # episodes
    played: list[list[int]] = []
    weights = []
    for seed in range(5):
        learner, rng = strategy(sampler, rate), np.random.default_rng(seed)
        assert learner.weights() == pytest.approx([1 / 3] * 3)
        played.append([0, 0, 0])
        for number in range(-warm_up, learning):
            task = int(rng.choice(3, p=learner.weights()))
            played[-1][task] += number >= 0
            learner.on_episode(task, bool(rng.random() < (0.0, number / learning, 1.0)[task]), 0.0)
            weights.append(learner.weights())
    assert np.argmax(np.sum(played, axis=0)) == 1
    assert np.mean(played, axis=0)[1] > 0.5 * learning
    assert np.min(weights) >= MIN_SHARE / 3 - 1e-9
    assert np.sum(weights, axis=1) == pytest.approx(np.ones(len(weights)))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tasks": ["reach"]}, "two tasks or more"),
        ({"tasks": ["reach", "puhs"]}, "puhs"),
        ({"tasks": ["reach", "push"], "sampler": "fairly"}, "sampler"),
        ({"tasks": ["reach", "push"], "rate": 0.0}, "rate"),
        ({"tasks": ["reach", {"robot": "kuka"}]}, "another .* space"),
        ({"tasks": ["reach", {"task": "AGM", "robot": "kuka"}]}, "gripper"),
    ],
)
def test_invalid_parameters_are_refused(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train({"strategy": "multitask", "strategy_params": params, "logdir": str(tmp_path)})
    assert not list(tmp_path.iterdir())
