"""Tests of every registered algorithm: its run directory, logs, result and weights; see also tests/checks."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from safetensors.numpy import load_file as load_tensors
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import mygym
from mygym.config import load_file
from mygym.errors import ConfigError
from mygym.registry import algorithm
from mygym.training.checkpoints.checkpoints import Checkpoints
from mygym.training.evaluation import FINAL, episode_seeds, evaluate_policy
from mygym.training.result import Result
from tests.components import COMBOS, COMBOS_OF_EACH_KIND, KINDS, slow_except, small

SHORT: dict[str, Any] = {
    "steps": 150,
    "n_envs": 2,
    "task_params": {"horizon": 12},
    "eval": {"every": 100, "episodes": 2, "test_episodes": 1, "final_episodes": 3},
    "checkpoint": {"every": 60, "keep": 2},
    "video": {"episodes": 1, "width": 32, "height": 32},
}
BRIEF: dict[str, Any] = {
    "steps": 110,  # some updates after `learning_starts`
    "eval": {"every": 150, "episodes": 2, "final_episodes": 3},
    "checkpoint": {"every": 10_000},
    "video": {"episodes": 0},
    "tensorboard": False,
}
RESULT_KEYS = {
    "schema", "status", "error", "algo", "framework", "robot", "task", "workspace", "engine", "judge", "seed",
    "steps",
    "success_rate", "mean_return", "wall_time_s", "steps_per_second", "evaluations", "last_interval", "stage_reached",
    "success_by_task", "algo_source", "machine",
    "strategy", "time_to_threshold", "versions", "config_hash",
}  # fmt: skip
EVALUATION_KEYS = {
    "steps", "wall_time_s", "success_rate", "mean_return", "mean_length", "mean_distance", "stage_reached",
    "train_success_rate", "train_mean_return", "test_success_rate", "test_mean_return",
}  # fmt: skip


def train(algo: str, framework: str, logdir: Path, **config: Any) -> Result:
    values = {"algo": algo, "framework": framework, "algo_params": small(algo, framework)}
    return mygym.train({**values, "logdir": str(logdir), **SHORT, **config})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that trains an algorithm in a framework once; `complete` is with logs and videos."""
    logdir, runs = tmp_path_factory.mktemp("runs"), {}

    def run(algo: str, framework: str, complete: bool = False) -> Result:
        complete = complete or algo in KINDS
        if (algo, framework, complete) not in runs:
            brief = {} if complete else BRIEF
            runs[algo, framework, complete] = train(algo, framework, logdir, **brief)
        return runs[algo, framework, complete]

    return run


QUICKLY = slow_except(COMBOS, lambda combo: combo[1] == "pytorch")
"""The slow tests train those of JAX, where each compiles for seconds; test_algorithm_state.py trains one."""
each = partial(pytest.mark.parametrize, ("algo", "framework"), QUICKLY)
one_of_each_kind = partial(pytest.mark.parametrize, ("algo", "framework"), COMBOS_OF_EACH_KIND)
"""For files, logs and results: the code is that of all algorithms of a kind."""


@one_of_each_kind()
def test_the_run_directory_is_complete(algo: str, framework: str, trained: Any) -> None:
    path = trained(algo, framework, complete=True).path
    assert re.fullmatch(rf"reach/panda/{algo}/([\w.=-]+-)?[0-9a-f]{{8}}/seed_0", "/".join(path.parts[-5:]))
    names = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
    assert names == {
        "config.yaml",
        "result.json",
        "progress.jsonl",
        "monitor.csv",
        "model.zip",
        "best_model.zip",
        "policy.safetensors",
        "best_policy.safetensors",
        "checkpoints",
        "tensorboard",
        "videos",
        *(("vecnormalize.pkl", "best_vecnormalize.pkl") if load_file(path / "config.yaml")["normalize"] else ()),
    }
    videos = sorted(video.name for video in (path / "videos").iterdir())
    assert videos[-1] == "final.mp4"
    assert all(re.fullmatch(r"failed_in_(approach|done)_seed_\d+\.mp4", video) for video in videos[:-1])
    assert bool(videos[:-1]) == (trained(algo, framework, complete=True).success_rate < 1)
    assert (path / "videos" / "final.mp4").stat().st_size > 1000
    assert list((path / "tensorboard").iterdir())
    assert len(list((path / "checkpoints").glob("step_*"))) <= 2
    newest = Checkpoints(path, keep=1).newest(pytest.fail)
    assert newest is not None
    assert newest.finished
    assert newest.steps == trained(algo, framework, complete=True).steps
    for model in (path / "model.zip", path / "best_model.zip"):
        assert zipfile.ZipFile(model).testzip() is None


@pytest.mark.parametrize("prefix", ["", "best_"])
def test_stable_baselines_loads_a_model_with_its_normaliser(prefix: str, trained: Any) -> None:
    path = trained("ppo", "pytorch").path
    venv = make_vec_env(lambda: gymnasium.make("mygym/Reach-v0"))
    env = VecNormalize.load(str(path / f"{prefix}vecnormalize.pkl"), venv)
    env.training = False
    model, policy = (
        PPO.load(path / f"{prefix}model.zip", device="cpu"),
        mygym.load(path / f"{prefix}policy.safetensors"),
    )
    observations = env.reset()
    for _ in range(5):
        actions, _ = model.predict(observations, deterministic=True)
        np.testing.assert_array_equal(actions, policy.predict(env.get_original_obs())[0])
        observations, *_ = env.step(actions)
    assert np.abs(model.predict(env.get_original_obs(), deterministic=True)[0] - actions).max() > 0.01
    env.close()


@one_of_each_kind()
def test_the_logs_are_complete_and_consistent(algo: str, framework: str, trained: Any) -> None:
    result = trained(algo, framework, complete=True)
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    assert lines
    assert [line["steps"] for line in lines] == sorted(line["steps"] for line in lines)
    evaluated = [(line["steps"], line["time/wall_time_s"]) for line in lines if "eval/success_rate" in line]
    assert evaluated == [(evaluation["steps"], evaluation["wall_time_s"]) for evaluation in result.evaluations]
    first, *rest = (result.path / "monitor.csv").read_text().splitlines()
    assert first.startswith("#")
    episodes = list(csv.DictReader(rest))
    assert episodes
    assert all(0 < int(episode["l"]) <= 12 for episode in episodes)
    assert sum(int(episode["l"]) for episode in episodes) <= result.steps
    assert {"r", "l", "t", "is_success"} <= set(episodes[0])


@one_of_each_kind()
def test_the_result_is_complete_and_consistent(algo: str, framework: str, trained: Any) -> None:
    result = trained(algo, framework, complete=True)
    content = json.loads((result.path / "result.json").read_text())
    assert set(content) == RESULT_KEYS
    expected = {"schema": 1, "status": "done", "error": None, "algo": algo, "framework": framework, "robot": "panda"}
    expected |= {"task": "reach", "workspace": "table", "engine": "pybullet", "judge": "pybullet", "seed": 0}
    assert expected.items() <= content.items()
    assert content["config_hash"] == result.path.parent.name.rpartition("-")[2]
    assert content["steps"] >= 150
    assert 0 <= content["success_rate"] <= 1
    assert content["wall_time_s"] > 0
    assert content["steps"] / content["steps_per_second"] < content["wall_time_s"]
    assert sum(content["stage_reached"].values()) == SHORT["eval"]["final_episodes"]
    assert set(content["stage_reached"]) <= {"approach", "done"}
    evaluations = content["evaluations"]
    assert all(set(evaluation) - {"figures"} == EVALUATION_KEYS for evaluation in evaluations)
    assert evaluations[0]["steps"] == 0
    hundreds = [evaluation["steps"] // 100 for evaluation in evaluations]  # a rollout may skip some
    assert hundreds == sorted(set(hundreds))
    times = [evaluation["wall_time_s"] for evaluation in evaluations]
    assert times == sorted(times)
    assert times[-1] < content["wall_time_s"]
    assert all(0 <= evaluation["success_rate"] <= 1 for evaluation in evaluations)
    for threshold, first in content["time_to_threshold"].items():
        reached = [evaluation for evaluation in evaluations if evaluation["success_rate"] >= float(threshold)]
        assert (first["steps"] if first else None) == (reached[0]["steps"] if reached else None)
    assert "0.95" in content["time_to_threshold"]
    assert {"python", "mygym", "torch", "stable-baselines3", "gymnasium"} <= content["versions"].keys()
    assert len({"pybullet", "pybullet-arm64"} & content["versions"].keys()) == 1


@each()
def test_the_result_is_that_of_the_saved_model(algo: str, framework: str, trained: Any) -> None:
    """result.json has the evaluation of model.zip, and policy.safetensors acts the same."""
    result = trained(algo, framework)
    envs = [mygym.make_env(result.path) for _ in range(SHORT["eval"]["episodes"])]  # batches of the same size
    evaluation = evaluate_policy(mygym.load(result.path), envs, episode_seeds(0, FINAL, 3))
    assert (evaluation.success_rate, evaluation.mean_return) == (result.success_rate, result.mean_return)
    for env in envs:
        env.close()


PRINT_ACTIONS = """
import sys, numpy, mygym
env, policy = mygym.make_env(sys.argv[1]), mygym.load(sys.argv[1])
print([policy.predict(env.reset(seed=seed)[0])[0].tobytes().hex() for seed in range(3)])
"""


@pytest.mark.slow  # see also tests/test_api.py, which loads a third party's policy in another process
@pytest.mark.parametrize(("algo", "framework"), [("sac", "pytorch"), ("sac", "jax")])
def test_a_policy_acts_the_same_in_another_process(algo: str, framework: str, trained: Any, python: Any) -> None:
    path = trained(algo, framework).path
    with mygym.make_env(path) as env:
        policy = mygym.load(path)
        actions = [policy.predict(env.reset(seed=seed)[0])[0].tobytes().hex() for seed in range(3)]
    process = python("-c", PRINT_ACTIONS, str(path))
    assert process.stdout.strip() == str(actions), process.stderr


@pytest.mark.parametrize(("algo", "framework"), [("crossq", "pytorch"), ("sac", "pytorch")])
def test_a_run_reports_flattened_observations(
    algo: str, framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(algo, framework, tmp_path, steps=20, video={"episodes": 0})
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note:")]
    flat = f"note: {algo} of {framework} takes no dictionary observations: it gets flat vectors"
    assert notes == ([] if algorithm(algo, framework).dict_observations else [flat])


@pytest.mark.parametrize(
    ("algo", "framework"),
    slow_except(
        [("ppo", "pytorch"), ("sac", "pytorch"), ("cem", "pytorch"), ("dagger", "pytorch"), ("sac", "jax")],
        {("ppo", "pytorch"), ("sac", "pytorch")}.__contains__,
    ),
)
def test_the_same_seed_gives_the_same_weights(algo: str, framework: str, trained: Any) -> None:
    """Bit-identical also with other evaluations and logs; the second run is saved beside the first.

    Equal weights of an identical second run, for every algorithm: see tests/checks/test_algorithms.py.
    """
    first = trained(algo, framework)
    monitoring = {
        "eval": {"every": 40, "episodes": 3, "final_episodes": 1},
        "video": {"episodes": 0},
        "tensorboard": False,
    }
    second = train(algo, framework, first.path.parents[4], **monitoring)
    assert second.path == first.path.with_name("seed_0_2")
    weights, second_weights = (load_tensors(run.path / "policy.safetensors") for run in (first, second))
    assert weights.keys() == second_weights.keys()
    for key, value in weights.items():
        np.testing.assert_array_equal(value, second_weights[key])
    third = train(algo, framework, first.path.parents[4], **monitoring, seed=1)
    assert third.path == first.path.with_name("seed_1")
    third_weights = load_tensors(third.path / "policy.safetensors")
    assert any(not np.array_equal(value, third_weights[key]) for key, value in weights.items())


@each()
def test_hyperparameters_reach_the_algorithm(algo: str, framework: str, trained: Any) -> None:
    config = load_file(trained(algo, framework).path / "config.yaml")
    model = mygym.load(trained(algo, framework).path).model
    for name, value in config["algo_params"].items():
        if isinstance(value, int | float) and not callable(getattr(model, name, None)):
            actual = getattr(model, name, value)
            if isinstance(actual, int | float) and name not in (
                "buffer_size",
                "learning_starts",
                "n_steps",
            ):  # these are smaller in a loaded policy
                assert actual == value, name


@one_of_each_kind()
def test_an_unknown_hyperparameter_leaves_no_files(algo: str, framework: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"algo_params\.polcy_kwargs.*did you mean 'policy_kwargs'"):
        train(algo, framework, tmp_path, algo_params={"polcy_kwargs": {}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("algo", "params"),
    [
        ("sac", {"policy_kwargs": {"net_arch": "big"}}),
        ("sac", {"policy_kwargs": {"net_arch": {"pi": [8]}}}),
        ("sac", {"policy_kwargs": {"net_arch": [-3]}}),
        ("sac", {"policy_kwargs": {"net_arc": [8]}}),
        ("sac", {"policy_kwargs": {"activation_fn": "rleu"}}),
        ("sac", {"policy_kwargs": {"optimizer_class": 3}}),
        ("sac", {"replay_buffer_kwargs": {"goal_selection_strategy": "futur"}}),
        ("sac", {"replay_buffer_kwargs": {"n_sampled_goals": 4}}),
        ("sac", {"replay_buffer_kwargs": {"n_sampled_goal": "four"}}),
        ("sac", {"train_freq": [1, "day"]}),
        ("sac", {"ent_coef": "warm"}),
        ("sac", {"buffer_size": 10**13}),
        ("ppo", {"n_steps": 1, "batch_size": 1}),
        ("ppo", {"policy_kwargs": {"net_arch": {"pi": 3}}}),
    ],
)
def test_values_that_the_class_refuses_are_config_errors(algo: str, params: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="algo_params"):
        mygym.train({"algo": algo, "logdir": str(tmp_path), **SHORT, "n_envs": 1, "algo_params": params})
    assert list(tmp_path.iterdir()) == []


def figures(run: Result) -> list[Any]:
    """Return the logged values of a run, without times."""
    lines = [json.loads(line) for line in (run.path / "progress.jsonl").read_text().splitlines()]
    episodes = list(csv.DictReader((run.path / "monitor.csv").read_text().splitlines()[1:]))
    timed = [{key: value for key, value in line.items() if "time" not in key} for line in lines]
    return [*timed, *({key: value for key, value in episode.items() if key != "t"} for episode in episodes)]


@pytest.mark.parametrize(
    ("algo", "framework", "processes"),
    [
        ("ppo", "pytorch", 2),
        pytest.param("sac", "pytorch", True, marks=pytest.mark.slow),
        pytest.param("ppo", "pytorch", 1, marks=pytest.mark.slow),
        pytest.param("dagger", "pytorch", True, marks=pytest.mark.slow),
        pytest.param("dqn", "pytorch", True, marks=pytest.mark.slow),
        pytest.param("sac", "jax", True, marks=pytest.mark.slow),
    ],
)
def test_processes_give_the_same_weights_and_figures(
    algo: str, framework: str, processes: int, trained: Any, tmp_path: Path
) -> None:
    usual, result = trained(algo, framework), train(algo, framework, tmp_path, env_processes=processes)
    assert result.config_hash == usual.config_hash
    assert figures(result) == figures(usual)
    first, second = (load_tensors(run.path / "policy.safetensors") for run in (usual, result))
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])
