"""Several tasks in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.errors import ConfigError
from mygym.runs import building
from mygym.runs.settings import from_python
from mygym.runs.variants import codes, variants
from mygym.strategies.multitask import LEAST, MultiTask
from mygym.tasks.components import stage_columns

SAMPLERS = ("fair", "uniform", "adaptive", "differentiable")


def quick(tmp_path: Path, **params: Any) -> dict[str, Any]:
    return {
        "strategy": "multitask",
        "strategy_params": {"tasks": ["reach", "push"], **params},
        "algo": "ppo",
        "algo_params": {"n_steps": 32, "batch_size": 64},
        "n_envs": 2,
        "steps": 256,
        "eval": {"every": 128, "episodes": 4, "final_episodes": 6},
        "video": {"episodes": 0},
        "logdir": str(tmp_path),
    }


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_results_say_how_each_task_is_done(sampler: str, tmp_path: Path) -> None:
    result = mygym.train(quick(tmp_path, sampler=sampler, identify="one_hot" if sampler == "fair" else "none"))
    assert result.status == "done"
    assert result.path.relative_to(tmp_path).parts[0] == "reach+push"
    assert set(result.success_by_task) == {"reach", "push"}
    assert all(set(record["success_by_task"]) == {"reach", "push"} for record in result.evaluations)
    assert {stage.partition(":")[0] for stage in result.stage_reached} == {"reach", "push"}
    evaluation = mygym.evaluate(result.path, episodes=4)
    assert [episode.task for episode in evaluation.episodes].count("push") == 2


def test_an_embedding_has_the_place_of_each_stage() -> None:
    config = from_python(quick(Path("nowhere"), tasks=["AGM", "reach", "AG"], identify="stages")).config
    told = codes(config, variants(config))
    assert told is not None
    columns = [*stage_columns(), ""]
    found = [{columns[place]: float(row[place]) for place in np.flatnonzero(row)} for row in told]
    assert found[0] == pytest.approx({"approach": 1.0, "grasp": 2 / 3, "move": 1 / 3})
    assert found[1:] == [{"approach": 1.0}, {"approach": 1.0, "grasp": 0.5}]
    env = building.make_env(config)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        assert observation["observation"][env.components["variant"]].tolist() == told[info["variant"]].tolist()  # type: ignore[index]
    env.close()


def test_robots_with_equal_spaces_share_a_network(tmp_path: Path) -> None:
    tasks = [{"task": "reach"}, {"task": "reach", "robot": "kuka"}]
    result = mygym.train(quick(tmp_path, tasks=tasks) | {"spaces": "own"})
    assert set(result.success_by_task) == {"reach on panda", "reach on kuka"}


def strategy(sampler: Any) -> MultiTask:
    return MultiTask(tasks=["reach", "push", "AGM"], sampler=sampler)


@pytest.mark.parametrize("sampler", ["adaptive", "differentiable"])
def test_what_is_being_learned_is_played_most_and_nothing_never(sampler: str) -> None:
    learner, rng = strategy(sampler), np.random.default_rng(0)
    assert learner.weights() == pytest.approx([1 / 3] * 3)
    for number in range(90):
        learner.on_episode(0, False, 0.0)  # never
        learner.on_episode(1, bool(rng.random() < number / 90), 0.0)  # better and better
        learner.on_episode(2, False, 0.0)
    weights = learner.weights()
    assert weights.argmax() == 1
    assert weights[1] > 0.5
    assert weights.min() >= LEAST / 3
    assert weights.sum() == pytest.approx(1.0)


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
def test_what_makes_no_sense_is_refused(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train({"strategy": "multitask", "strategy_params": params, "logdir": str(tmp_path)})
    assert not list(tmp_path.iterdir())
