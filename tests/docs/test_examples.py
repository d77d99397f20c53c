"""The examples that ship: the algorithm and the task of the user's folders, and the configs."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import mygym
import mygym.errors
from mygym.checks import check
from mygym.cli.describe import complete_config
from mygym.config import load_file, merged
from mygym.config.json_schema import json_schema
from mygym.planning.plan import make_plan
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm, implemented_combos, registry
from mygym.tasks.lookup import find_task
from mygym.training import env_factory, model_factory
from tests.components import slow_except
from tests.docs.documents import ROOT
from tests.short_checks import shorten

CONFIGS = sorted(path for path in (ROOT / "configs").iterdir() if path.is_file())
BUILT_IN = [
    (e.name, framework) for e in registry("algorithm") if e.origin == "mygym.algos" for framework in e.frameworks
]
NAMED = [entry.name for entry in registry("task") if "/envs/" not in entry.origin]
FEW_EPISODES = {"episodes": 1, "test_episodes": 0, "final_episodes": 1}
QUIET: dict[str, Any] = {"video": {"episodes": 0}, "tensorboard": False}


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow  # tests/algos trains it, as all algorithms
def test_the_algorithm_solves_reach(tmp_path: Path) -> None:
    entry = algorithm("myalgo")
    cls, args, kwargs = implemented_combos["myalgo"]["pytorch"]
    assert (cls.__name__, args[0].__name__, kwargs) == ("MyAlgo", "MyPolicy", entry.defaults)
    result = mygym.train(
        {
            "algo": "myalgo",
            "steps": 24_000,
            "stop_at_success": 0.95,
            "algo_params": {"n_epochs": 5},
            "eval": {"every": 2_000, "episodes": 20, "final_episodes": 25},
            "logdir": str(tmp_path),
            **QUIET,
        }
    )
    assert result.evaluations[0]["success_rate"] < 0.2
    assert result.success_rate is not None
    assert result.success_rate >= 0.9
    action, _ = mygym.load(result.path).predict(mygym.make_env(result.path).reset(seed=0)[0])
    assert action.shape == (3,)


def test_the_algorithm_adds_a_hyperparameter() -> None:
    resolved = resolve_config(overrides={"algo": "myalgo"})
    assert resolved.config.algo_params["initial_entropy"] == 0.003
    assert resolved.config.reward == "dense"
    with pytest.raises(mygym.errors.ConfigError, match="did you mean 'initial_entropy'"):
        resolve_config(overrides={"algo": "myalgo", "algo_params": {"inital_entropy": 0.1}})


@pytest.mark.parametrize("robot", ["panda", pytest.param("kuka", marks=pytest.mark.slow)])  # robots share the code
def test_the_expert_solves_the_task(robot: str) -> None:
    assert find_task("nudge").stage_names == ("approach", "push", "withdraw")
    evaluation = mygym.evaluate(policy="oracle", config={"task": "nudge", "robot": robot}, episodes=20)
    assert evaluation.success_rate >= 0.95
    idle = mygym.evaluate(policy="zero", config={"task": "nudge", "robot": robot}, episodes=5)
    assert idle.success_rate == 0.0


@pytest.mark.slow
def test_the_robot_passes_its_suite_and_grasps_with_the_gripper_mounted_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    assert [first.why for first in check("robot", "desk_arm") if first.failed] == []
    evaluation = mygym.evaluate(policy="oracle", config={"task": "pick_and_place", "robot": "desk_arm"}, episodes=20)
    assert evaluation.success_rate >= 0.95


def test_the_workspace_passes_its_suite_and_its_lever_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    assert [first.why for first in check("workspace", "workbench") if first.failed] == []
    with mygym.make_env({"task": "reach", "workspace": "workbench"}) as env:
        world = env.world
        assert world.part_names == ("lever.arm",)
        seen = []
        for share in [0.5] * 25 + [0.0] * 50:  # pulled by half of the force that it says, then let go
            world.push_parts(np.array([share]))
            world.step(np.zeros(world.action_size))
            seen.append(world.state.part_position[0, 0])
    assert seen[24] == pytest.approx(0.45, abs=0.15)  # 0.45 N m against 1 N m/rad; its weight helps
    assert seen[-1] == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("lift", marks=pytest.mark.slow),  # the test below plays it
        ["approach", "grasp", "lift", "move", "drop", "withdraw"],
    ],
)
def test_the_expert_solves_the_task_with_a_user_stage(task: str | list[str]) -> None:
    evaluation = mygym.evaluate(policy="oracle", config={"task": task, "robot": "kuka_gripper"}, episodes=20)
    assert evaluation.success_rate >= 0.95
    assert mygym.evaluate(policy="zero", config={"task": task}, episodes=5).success_rate == 0.0


@pytest.mark.slow
def test_the_stage_lifts_as_high_as_the_goal_and_straight_up(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    assert [first.why for first in check("stage", "lift") if first.failed] == []
    with mygym.make_env({"task": "lift"}) as env:
        for seed in range(5):
            env.reset(seed=seed)
            start, ended = env.world.state.object_position[0, 0].copy(), False
            while not ended:
                _, _, terminated, truncated, info = env.step(env.expert_action())
                ended = terminated or truncated
            at = env.world.state.object_position[0, 0]
            assert info["is_success"]
            assert at[2] == pytest.approx(env.goals[0, 0, 2], abs=0.03)
            assert at[:2] == pytest.approx(start[:2], abs=0.02)


def test_the_configs_are_of_named_tasks() -> None:
    assert {load_file(path)["task"] for path in CONFIGS} <= set(NAMED)
    assert {path.suffix for path in CONFIGS} == {".yaml", ".json"}


def test_a_config_is_valid_and_names_its_command() -> None:
    for path in CONFIGS:
        first, second = path.read_text(encoding="utf-8").splitlines()[:2]
        assert first.lstrip("#/ ") == f"python train.py --config configs/{path.name}"
        assert second.startswith(("#", "//")), "says what the run does"
        content = load_file(path)
        resolved = resolve_config(content).config
        assert (resolved.task, resolved.algo) == (content["task"], content["algo"])


@pytest.mark.parametrize(
    "path",
    slow_except(CONFIGS, lambda path: not path.name.endswith(("_hindsight.yaml", "push.yaml", "place.yaml"))),
    ids=lambda path: path.name,
)
def test_config(path: Path, tmp_path: Path) -> None:
    content = load_file(path)
    settled = resolve_config(content).config
    horizon, n_envs = 10, min(settled.n_envs, 8)
    short = {"steps": (horizon + 4) * n_envs, "n_envs": n_envs, "task_params": {"horizon": horizon}}
    if "learning_starts" in settled.algo_params:  # when hindsight has a whole episode of each environment
        short["algo_params"] = {"learning_starts": (horizon + 1) * n_envs}
    short |= {"eval": {"episodes": 1, "final_episodes": 1}, "logdir": str(tmp_path)}
    if settled.algo == "dagger":
        short["training_params"] = {"gradient_steps": 2}
    result = mygym.train(merged(content, {**QUIET, **short}))
    assert (result.status, result.task, result.algo) == ("done", content["task"], content["algo"])
    assert result.path.is_relative_to(tmp_path)


def test_reach_yaml_is_the_default_run() -> None:
    assert resolve_config(load_file(ROOT / "configs/reach.yaml")).values() == resolve_config().values()


# complete configs: `mygym describe algo NAME --yaml`  ---------------------------------------------------


def complete(algo: str, framework: str, folder: Path) -> dict[str, Any]:
    """Return the printed complete config of an algorithm, read from a file."""
    path = folder / "complete.yaml"
    path.write_text(complete_config(algo, framework), encoding="utf-8")
    return load_file(path)


COMPLETE_QUICKLY = slow_except(BUILT_IN, lambda combo: combo[1] == "pytorch" or combo == ("ppo", "jax"))


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(json.dumps(json_schema())))


@pytest.mark.parametrize(("algo", "framework"), COMPLETE_QUICKLY)
def test_a_complete_config_sets_every_value(algo: str, framework: str, validator: Any, tmp_path: Path) -> None:
    content = complete(algo, framework, tmp_path)
    assert (content["algo"], content["framework"], content["strict"]) == (algo, framework, True)
    assert resolve_config(content).values() == {
        **resolve_config({"algo": algo, "framework": framework}).values(),
        **content,
    }
    assert list(validator.iter_errors(content)) == []


QUICK = [("ppo", "pytorch"), ("sac", "pytorch"), ("recurrent_ppo", "pytorch"), ("cem", "pytorch")]
"""On-policy, off-policy, recurrent, a runner; tests/algos train all of them, with small networks. See also the test
below: large networks of JAX compile for seconds."""


@pytest.mark.parametrize(
    ("algo", "framework"),
    slow_except(BUILT_IN, QUICK.__contains__),
)
def test_a_complete_config_runs(algo: str, framework: str, tmp_path: Path) -> None:
    content = complete(algo, framework, tmp_path)
    params = content["algo_params"]
    warm = params.get("learning_starts", 0) // content["n_envs"] + 4
    short = {"steps": warm * content["n_envs"], "eval": {**content["eval"], **FEW_EPISODES}}
    quick = {**short, "video": {**content["video"], "episodes": 0}, "tensorboard": False, "logdir": str(tmp_path)}
    few = {"n_delta": 2, "n_top": 1, "n_epochs": 1, "population": 4, "elites": 2}
    few |= {"n_steps": 32} if "n_epochs" in params else {}
    fewer = {key: value for key, value in few.items() if key in params}
    result = mygym.train({**content, **quick, "algo_params": {**params, **fewer}})
    assert result.status == "done"
    if framework == "pytorch" and algo in ("ppo", "sac"):  # the config is complete: weights equal those of the defaults
        size = {key: value for key, value in params.items() if key == "buffer_size"}  # depends on the steps
        again = mygym.train({"algo": algo, **quick, "algo_params": {**size, **fewer}})
        assert again.config_hash == result.config_hash
        weights = [(run.path / "policy.safetensors").read_bytes() for run in (result, again)]
        assert weights[0] == weights[1]


def test_a_complete_config_builds_in_jax(tmp_path: Path) -> None:
    plan = make_plan({**complete("ppo", "jax", tmp_path), "n_envs": 1})
    with contextlib.closing(env_factory.make_vec_env(plan)) as env:
        model = model_factory.build_model(plan, env)
        assert type(model) is implemented_combos["ppo"]["jax"][0]
        assert model.n_steps == plan.config.algo_params["n_steps"]


def test_strict_names_what_is_missing(tmp_path: Path) -> None:
    content = complete("ppo", "pytorch", tmp_path)
    del content["algo_params"]["policy_kwargs"]["optimizer_kwargs"]["eps"], content["n_envs"]
    with pytest.raises(mygym.errors.ConfigError, match="missing") as error:
        resolve_config(content)
    assert "algo_params.policy_kwargs.optimizer_kwargs.eps" in str(error.value)
    assert "n_envs" in str(error.value)
