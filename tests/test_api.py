"""Complete runs: they learn, and their files are complete after any kind of end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import load_file as load_tensors
from stable_baselines3.common.callbacks import BaseCallback

import mygym
from mygym.algos.stable_baselines import PPO, SAC
from mygym.errors import ConfigError, DivergedError, MygymError, RunError
from mygym.registry import algorithm, register_algorithm
from mygym.tasks.lookup import find_task
from mygym.training.policy import load_weights, weights
from tests.components import COVERING, HOSTED, slow_except, small
from tests.conftest import ROOT

SHORT: dict[str, Any] = {
    "algo": "sac",
    "steps": 90,
    "n_envs": 1,
    "task_params": {"horizon": 20},
    "eval": {"every": 45, "episodes": 1, "final_episodes": 1},
    "video": {"episodes": 0},
    "tensorboard": False,
    "algo_params": {**small("sac"), "learning_starts": 40},
}


def result_in(logdir: Path) -> tuple[Path, dict[str, Any]]:
    (path,) = logdir.glob("*/*/*/*/*/result.json")
    return path.parent, json.loads(path.read_text())


# learning -----------------------------------------------------------------------------------------------------------


BRIEF = {"video": {"episodes": 0}, "tensorboard": False, "eval": {"episodes": 10, "final_episodes": 20}}


def test_small_networks_learn_to_reach(tmp_path: Path) -> None:
    """A third of the default run below, in which both of two seeds solved 95 %."""
    small_run = {"steps": 2_000, "stop_at_success": None, "algo_params": {"policy_kwargs": {"net_arch": [64, 64]}}}
    evaluations = {"every": 2_000, "episodes": 5, "final_episodes": 20}
    result = mygym.train({**BRIEF, **small_run, "eval": evaluations, "seed": 3, "logdir": str(tmp_path)})
    assert result.evaluations[0]["success_rate"] < 0.5
    assert result.success_rate is not None
    assert result.success_rate >= 0.6
    first, again = (mygym.evaluate(result.path, episodes=5) for _ in range(2))
    assert first == again


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "jax"])
def test_the_default_run_learns_to_reach(framework: str, tmp_path: Path) -> None:
    result = mygym.train({"framework": framework, "logdir": str(tmp_path), **BRIEF, "seed": 3})
    assert result.status == "done"
    assert result.success_rate >= 0.95
    assert result.evaluations[0]["success_rate"] < 0.5
    last = [evaluation["success_rate"] for evaluation in result.evaluations[-2:]]
    assert min(last) >= 0.98 or result.steps >= 20_000
    first, again = (mygym.evaluate(result.path, episodes=10) for _ in range(2))
    assert first.success_rate >= 0.9
    assert first == again


def test_a_second_training_in_another_thread_is_refused(tmp_path: Path) -> None:
    """Both would draw from the same random generators, and neither run could be repeated."""

    class Start(BaseCallback):
        refused = ""

        def _on_step(self) -> bool:
            if not self.refused:
                with ThreadPoolExecutor() as pool:
                    error = pool.submit(mygym.train, {**SHORT, "logdir": str(tmp_path)}).exception()
                self.refused = str(error)
            return True

    callback = Start()
    mygym.train({**SHORT, "logdir": str(tmp_path)}, callbacks=[callback])
    assert callback.refused.startswith("train: another thread of this process is training")


@pytest.mark.parametrize("episodes", [0, -1, 1.5, "x", None, 10**6])
@pytest.mark.parametrize("play", [mygym.evaluate, mygym.demonstrate])
def test_an_invalid_number_of_episodes_is_refused(play: Any, episodes: Any, tmp_path: Path) -> None:
    more = {"out": tmp_path / "out"} if play is mygym.demonstrate else {}
    with pytest.raises(ConfigError, match=f"episodes: {episodes!r} .*allowed: .*from 1"):
        play(policy="zero", episodes=episodes, **more)
    with pytest.raises(ConfigError, match="seed: -1"):
        play(policy="zero", seed=-1, **more)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mygym.train(callback=[]), ["train: 'callback'", "did you mean 'callbacks'"]),
        (lambda: mygym.train(algo="ppo"), ["train: 'algo' is a key of the config", "{'algo': 'ppo'"]),
        (lambda: mygym.evaluate(polcy="oracle"), ["evaluate: 'polcy'", "did you mean 'policy'"]),
        (lambda: mygym.make_env({}, render="rgb_array"), ["make_env: 'render'", "did you mean 'render_mode'"]),
    ],
)
def test_an_unknown_keyword_is_named_with_the_nearest(call: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        call()
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("function", "key", "value", "allowed"),
    [
        *((name, "run", 5, "text or a path") for name in ("load", "export", "network_of", "search")),
        *((name, "dataset", 5, "text or a path") for name in ("replay", "load_demonstrations")),
        *((name, "data", [1], "text or a path") for name in ("train_detector", "train_encoder")),
        ("evaluate", "run", b"run", "text or a path or None"),
        ("evaluate", "trust", [], "True or False"),
        ("make_env", "source", 5, "a mapping such as"),
        ("measure_detector", "detector", None, "text or a path"),
        ("record_images", "cameras", 5, "text or a list of text"),
        ("record_images", "splits", [], "a mapping of text: a number"),
        ("demonstrate", "out", 5, "text or a path"),
        ("demonstrate", "partial", [1], "a number"),
        ("results", "folder", 5, "text or a path"),
        ("train", "resume", 5, "text or a path or None"),
        ("train", "config", 5, "a mapping such as"),
    ],
)
def test_a_wrong_type_is_named_with_the_allowed(function: str, key: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as error:
        getattr(mygym, function)(**{key: value})
    name = "config" if key == "source" else key
    assert str(error.value).startswith(f"{name}: {value!r} is not allowed; allowed: {allowed}"), error.value


def test_a_config_is_not_for_the_evaluation_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config: \{'task': 'push'\}"):
        mygym.evaluate(tmp_path, config={"task": "push"})


WORKSPACES_QUICKLY = list({find_task(task).workspace: (task, robot) for task, robot in COVERING}.values())[1::8]
"""Of `COVERING` a pair for some workspaces: learning does not know the task, and tests/envs plays all tasks."""


@pytest.mark.parametrize(("task", "robot"), slow_except(HOSTED, WORKSPACES_QUICKLY.__contains__))
def test_every_task_trains_with_every_robot_that_can_do_it(task: str, robot: str, tmp_path: Path) -> None:
    config = {**SHORT, "task": task, "robot": robot, "task_params": {"horizon": 30}, "steps": 60}
    result = mygym.train({**config, "logdir": str(tmp_path)})
    assert result.status == "done"
    assert result.path.parts[-5:-2] == (task, robot, "sac")


@pytest.mark.parametrize(
    "config",
    [
        {"task": "AG", "reward": "staged"},
        pytest.param({"task": ["approach", "push"], "reward": "dense"}, marks=pytest.mark.slow),
        pytest.param({"control": "joint_delta", "her": False}, marks=pytest.mark.slow),
        {"normalize": True},
    ],
    ids=str,
)
def test_other_settings_train_and_load(config: dict[str, Any], tmp_path: Path) -> None:
    result = mygym.train({**SHORT, **config, "steps": 60, "logdir": str(tmp_path)})
    assert result.status == "done"
    with mygym.make_env(result.path) as env:
        action, _ = mygym.load(result.path).predict(env.reset(seed=0)[0], deterministic=True)
        assert env.action_space.contains(action)
    name = config.get("task", "reach")
    assert result.task == (name if isinstance(name, str) else "_".join(name))


@pytest.mark.slow
def test_two_good_evaluations_end_the_training_early(tmp_path: Path) -> None:
    easy = {"tolerance": 0.2, "hold": 1, "horizon": 200}
    config = {**SHORT, "task_params": easy, "steps": 100_000, "stop_at_success": 0.5, "algo_params": small("sac")}
    result = mygym.train({**config, "logdir": str(tmp_path)})
    assert result.steps < 100_000
    assert [record["success_rate"] >= 0.5 for record in result.evaluations[-2:]] == [True, True]


def test_goals_that_cannot_be_away_from_the_start_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="larger area"):
        mygym.train({**SHORT, "logdir": str(tmp_path), "task_params": {"tolerance": 0.9}})
    assert list(tmp_path.iterdir()) == []


def test_an_empty_config_is_valid() -> None:
    with mygym.make_env({}) as env:
        assert (env.task.name, env.robot.name, env.reward_kind) == ("reach", "panda", "sparse")


@pytest.mark.parametrize("empty", [[], "", 0], ids=repr)
def test_an_empty_value_that_is_no_mapping_is_no_config(empty: Any) -> None:
    with pytest.raises(ConfigError, match=r"^config: .* allowed: a mapping such as"):
        mygym.train(empty)


def test_an_environment_is_no_config() -> None:
    with mygym.make_env({}) as env, pytest.raises(ConfigError, match=r"<RobotEnv .* allowed: a mapping such as"):
        mygym.make_env(env)  # type: ignore[arg-type]


def test_the_config_of_a_run_repeats_the_run(tmp_path: Path) -> None:
    first = mygym.train({**SHORT, "logdir": str(tmp_path), "seed": 5})
    config = yaml.safe_load((first.path / "config.yaml").read_text())
    second = mygym.train(config)
    assert second.path == first.path.with_name("seed_5_2")
    first_weights, second_weights = (load_tensors(run.path / "policy.safetensors") for run in (first, second))
    for key, value in first_weights.items():
        np.testing.assert_array_equal(value, second_weights[key])
    assert (first.success_rate, first.mean_return) == (second.success_rate, second.mean_return)


PRINT_ACTIONS = """
import sys
import mygym
env, policy = mygym.make_env("."), mygym.load(".")
print([policy.predict(env.reset(seed=seed)[0])[0].tobytes().hex() for seed in range(3)])
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.slow  # tests/test_strangers.py loads such policies in this process
def test_loading_a_third_party_policy_executes_no_code(tmp_path: Path, python: Any) -> None:
    result = mygym.train({**SHORT, "logdir": str(tmp_path / "runs")})
    malicious = "import os, pickle\nclass Malicious:\n    def __reduce__(self): return os.system, ('touch executed',)\n"
    (result.path / "algos").mkdir()
    (result.path / "algos" / "sac2.py").write_text("open('executed', 'w')\n")
    for name in ("model.zip", "best_model.zip"):
        with zipfile.ZipFile(result.path / name, "w") as file:
            file.writestr("data", "{}")
    done = python("-c", f"{malicious}\n{PRINT_ACTIONS}", cwd=result.path)
    with mygym.make_env(result.path) as env:
        policy = mygym.load(result.path)
        actions = [policy.predict(env.reset(seed=seed)[0])[0].tobytes().hex() for seed in range(3)]
    assert done.stdout.splitlines() == [str(actions), "False"], "the compiler takes a second to import" + done.stderr
    assert not list(tmp_path.rglob("executed"))


@pytest.mark.slow
def test_a_training_does_not_import_the_compiler(tmp_path: Path, python: Any) -> None:
    config = {**SHORT, "logdir": str(tmp_path)}
    code = f"import sys, mygym\nmygym.train({config!r})\nprint('torch._dynamo' in sys.modules)"
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr


@pytest.mark.parametrize("damage", [b"", b"\xff" * 64, None])
def test_a_damaged_policy_is_reported(tmp_path: Path, damage: bytes | None) -> None:
    result = mygym.train({**SHORT, "steps": 60, "logdir": str(tmp_path)})
    file = result.path / "policy.safetensors"
    file.unlink() if damage is None else file.write_bytes(damage)
    with pytest.raises(MygymError, match=r"policy\.safetensors"):
        mygym.load(result.path)


# failed runs --------------------------------------------------------------------------------------------------------


def spoiled(name: str, spoil: Any, base: type = SAC, framework: str = "pytorch") -> str:
    """Register an algorithm that calls `spoil` from its 20th update on (PPO: from its second), and return its name."""

    class Spoiled(base):  # type: ignore[misc,valid-type]
        updates = 0

        def train(self, *args: Any, **kwargs: Any) -> None:
            super().train(*args, **kwargs)
            type(self).updates += 1
            if type(self).updates >= (2 if base is PPO else 20):
                spoil(self)

    defaults = small("ppo") if base is PPO else {**small("sac", framework), "learning_starts": 30}
    register_algorithm(name, framework, policy="MultiInputPolicy", defaults=defaults)(Spoiled)
    return name


def nan_weights(model: Any) -> None:
    tensors = {key: tensor.clone() for key, tensor in weights(model).items()}
    next(iter(tensors.values())).fill_(torch.nan)
    load_weights(model, tensors)


def nan_loss(model: Any) -> None:
    model.logger.record("train/loss", float("nan"))


def infinite_loss(model: Any) -> None:
    model.logger.record("train/loss", np.float32("inf"))


@pytest.mark.parametrize(
    ("base", "framework", "spoil"),
    slow_except(
        [
            *((base, "pytorch", spoil) for base in ("sac", "ppo") for spoil in (nan_weights, nan_loss, infinite_loss)),
            ("sac", "jax", nan_weights),
        ],
        lambda case: case[::2] in {("sac", infinite_loss), ("ppo", nan_loss)},
    ),
)
def test_divergence_is_recorded_and_the_last_good_model_kept(
    base: str, framework: str, spoil: Any, tmp_path: Path
) -> None:
    parent = algorithm(base, framework).combo()[0]
    algo = spoiled("spoiled", spoil, parent, framework)
    config = {**SHORT, "algo": algo, "algo_params": {}, "steps": 2000, "logdir": str(tmp_path), "reward": "dense"}
    config["framework"] = framework
    if base == "ppo":
        config["algo_params"] = {"n_steps": 64}
    with pytest.raises(DivergedError) as error:
        mygym.train(config)
    assert error.value.exit_code == 1
    path, content = result_in(tmp_path)
    assert error.value.run == path
    assert content["status"] == "diverged"
    assert content["error"]
    assert 0 < content["steps"] < 2000
    assert content["evaluations"]
    for tensors in (load_tensors(path / "policy.safetensors"), weights(parent.load(path / "model.zip"))):
        assert tensors
        assert all(np.isfinite(np.asarray(value)).all() for value in tensors.values())
    assert_whole(path)


def test_a_failure_is_recorded(tmp_path: Path) -> None:
    def fail(model: Any) -> None:
        raise ValueError("an error in the user's code")

    with pytest.raises(RunError, match="an error in the user's code") as error:
        mygym.train({**SHORT, "algo": spoiled("spoiled", fail), "algo_params": {}, "logdir": str(tmp_path)})
    path, content = result_in(tmp_path)
    assert (content["status"], content["success_rate"]) == ("failed", None)
    assert "an error in the user's code" in content["error"]
    assert error.value.run == path
    assert_whole(path)


def test_an_interruption_in_the_middle_of_an_update_saves_the_policy(tmp_path: Path) -> None:
    def interrupt(model: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(MygymError) as error:
        mygym.train({**SHORT, "algo": spoiled("spoiled", interrupt), "algo_params": {}, "logdir": str(tmp_path)})
    assert error.value.exit_code == 130
    path, content = result_in(tmp_path)
    assert content["status"] == "interrupted"
    assert content["steps"] > 0
    assert mygym.load(path) is not None
    assert_whole(path)


def assert_whole(run: Path) -> None:
    """Check that every file of the run is complete, and that no partial file is left."""
    for path in run.rglob("*"):
        assert ".part" not in path.name, path
        if path.suffix == ".zip":
            assert zipfile.ZipFile(path).testzip() is None
        elif path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".jsonl":
            assert all(isinstance(json.loads(line), dict) for line in path.read_text().splitlines())
        elif path.suffix == ".yaml":
            assert yaml.safe_load(path.read_text())
        elif path.suffix == ".safetensors":
            assert load_tensors(path)
        elif path.suffix == ".csv":
            assert path.read_bytes().endswith(b"\n")


@pytest.mark.slow
def test_ctrl_c_ends_train_py_with_130_and_a_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "train.py"), "--logdir", str(tmp_path), "--steps", "1000000"]
    command += ["--set", "stop_at_success=null", "--set", "eval={every: 100, episodes: 1}"]
    command += ["--set", "task_params.horizon=10"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job inherits it as ignored
    )
    for line in process.stderr:
        if "steps" in line and not line.strip().startswith("0 steps"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    path, content = result_in(tmp_path)
    assert out.splitlines()[-1] == f"run: {path}"
    assert "Traceback" not in err
    assert content["status"] == "interrupted"
    assert list((path / "checkpoints").glob("step_*/manifest.json"))
    assert_whole(path)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
sys.argv = ["train.py", *sys.argv[1:]]
from mygym.cli.main import run
run("train", sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("limit", "every"),
    [
        pytest.param(300, 100, marks=pytest.mark.slow),  # not even a robot's description fits
        pytest.param(10_000, 100, marks=pytest.mark.slow),  # no model fits; see also tests/test_faults.py
        pytest.param(
            140_000, 10_000, marks=pytest.mark.slow
        ),  # the first model fits, the trained model with its optimisers does not
    ],
)
def test_a_full_disk_ends_with_a_clear_error_and_complete_files_only(
    limit: int, every: int, tmp_path: Path, python: Any
) -> None:
    logdir = tmp_path / "runs"
    words = ["--logdir", str(logdir), "--steps", "400", "--n-envs", "1", "--set", f"checkpoint.every={every}"]
    words += [
        "--set",
        "video.episodes=0",
        "--set",
        "tensorboard=false",
        "--set",
        f"eval={{every: {every}, episodes: 1}}",
    ]
    done = python("-c", LIMITED.format(limit=limit), *words)
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "cannot be written" in errors[0]
    assert "Traceback" not in done.stderr
    for run in logdir.glob("*/*/*/*/*"):
        assert_whole(run)
        if (run / "result.json").exists():
            assert json.loads((run / "result.json").read_text())["status"] == "failed"


def test_a_refused_config_leaves_no_files(tmp_path: Path) -> None:
    for wrong in ({"robot": "pandaa"}, {"task": "pick_and_place", "robot": "kuka"}, {"video": {"camera": "nowhere"}}):
        with pytest.raises(MygymError) as error:
            mygym.train({**SHORT, **wrong, "logdir": str(tmp_path / "runs")})
        assert error.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_run_writes_only_to_its_logdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = mygym.train({**SHORT, "steps": 60, "logdir": "here"})
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert (tmp_path / result.path).is_dir()


def test_a_run_with_custom_hindsight_settings_loads(tmp_path: Path) -> None:
    params = {**SHORT.get("algo_params", {}), "replay_buffer_kwargs": {"n_sampled_goal": 8}}
    result = mygym.train({**SHORT, "algo": "sac", "reward": "sparse", "algo_params": params, "logdir": str(tmp_path)})
    env = mygym.make_env(result.path)
    action, _ = mygym.load(result.path).predict(env.reset(seed=0)[0], deterministic=True)
    assert env.action_space.contains(action)
    env.close()


def test_evaluation_needs_a_run_or_a_policy() -> None:
    with pytest.raises(ConfigError, match="evaluate"):
        mygym.evaluate()
