"""Runs that are stopped and resumed, and runs that cannot be resumed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.sac.policies import MultiInputPolicy

import mygym
from benchmarks.kills import differences
from mygym.algos.stable_baselines import PPO, SAC
from mygym.cli.main import run as command
from mygym.config import merged
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, InterruptedRunError, RunError
from mygym.registry import register_algorithm
from mygym.training import directory, session
from mygym.training.evaluation import Evaluation
from mygym.training.result import Result
from tests.components import small
from tests.conftest import ROOT

STEPS = 240

VARYING = {
    "task": "push the cube",
    "task_params": {"objects": {"cube": ["cube", "ball"]}, "distractors": [{"object": "can", "count": [0, 2]}]},
    "control": {"action_repeat": 2, "step": 0.03},
    "robot_params": {"home": [0.3, 0.3, 0.0, -2.0, 0.0, 2.3, 0.785]},
}
"""A world that differs between episodes."""


def config(algo: str, logdir: Path, framework: str = "pytorch", **more: Any) -> dict[str, Any]:
    params = small(algo, framework)
    params |= {"n_steps": 16} if "n_epochs" in params or algo in ("a2c", "trpo") else {}
    quick = {
        "algo": algo,
        "framework": framework,
        "algo_params": params,
        "task_params": {"horizon": 20},
        "steps": STEPS,
        "n_envs": 2,
        "stop_at_success": None,
        "eval": {"every": 100, "episodes": 1, "final_episodes": 1},
        "checkpoint": {"every": 70, "keep": 2},
        "video": {"episodes": 0},
        "logdir": str(logdir),
    }
    return merged(quick, more)


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send SIGTERM in the middle of the `step`-th step of the training environments."""
    steps_taken = [0]
    original = RobotEnv.step

    def counted(self: RobotEnv, action: Any) -> Any:
        steps_taken[0] += self.render_mode is None
        if steps_taken[0] == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, action)

    monkeypatch.setattr(RobotEnv, "step", counted)


def stopped(settings: dict[str, Any], step: int) -> Path:
    """Train until SIGTERM in a step; return the path of the interrupted run."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(step, patch)
        with pytest.raises(InterruptedRunError) as error:
            mygym.train(settings)
    assert error.value.run is not None
    assert Result.read(error.value.run).status == "interrupted"
    return error.value.run


@pytest.mark.parametrize(
    ("algo", "framework", "more"),
    [
        pytest.param("ppo", "pytorch", {}, marks=pytest.mark.slow),
        pytest.param("sac", "pytorch", {}, marks=pytest.mark.slow),
        pytest.param(
            "ppo", "pytorch", {"algo_params": {"use_sde": True, "sde_sample_freq": 4}}, marks=pytest.mark.slow
        ),
        pytest.param("ppo", "jax", {"algo_params": {"target_kl": 0.01}}, marks=pytest.mark.slow),  # adapts its rate
        # A buffer that is full, and overwritten:
        (
            "sac",
            "pytorch",
            {"algo_params": {"use_sde": True, "buffer_size": 80, "learning_starts": 41}} | {"normalize": True},
        ),
        pytest.param("sac", "jax", {"algo_params": {"use_sde": True}, "normalize": True}, marks=pytest.mark.slow),
        ("sac", "pytorch", {"algo_params": {"train_freq": [1, "episode"]}, "n_envs": 1, **VARYING}),
        pytest.param(  # overwritten as well
            "dagger", "pytorch", {"algo_params": {"buffer_size": 80}, "steps": 180}, marks=pytest.mark.slow
        ),
        ("td3", "pytorch", {"overlap": True, "env_processes": False}),  # resumed between a rollout and its training
        pytest.param("td3", "jax", {"algo_params": {"param_resets": [100, 200]}}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_resumed_run_equals_an_uninterrupted_run(
    algo: str, framework: str, more: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    """After SIGTERM; for a crash of every algorithm see tests/checks/test_algorithms.py."""
    reference = mygym.train(config(algo, tmp_path / "whole", framework, **more))
    run = stopped(config(algo, tmp_path / "stopped", framework, **more), step=150)
    result = mygym.train(resume=run)
    assert (result.status, result.path, result.steps) == ("done", run, reference.steps)
    assert differences(reference.path, run) == []
    assert "checkpoints do not hold" not in capsys.readouterr().err


class DecidingPolicy(MultiInputPolicy):
    """A policy with features that no config can name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "features_extractor_class": Features})


class Features(CombinedExtractor):
    pass


def test_a_resumed_run_has_the_config_of_an_uninterrupted_one(tmp_path: Path) -> None:
    register_algorithm("deciding", policy=DecidingPolicy)(SAC)
    whole, part = ({**config("sac", tmp_path / name), "algo": "deciding"} for name in ("whole run", "stopped run"))
    reference = mygym.train(whole)
    with pytest.MonkeyPatch.context() as patch:
        stop_at(150, patch)
        with pytest.raises(InterruptedRunError) as error:
            mygym.train(part)
    command = shlex.split(str(error.value).partition("python train.py ")[2])
    assert command == ["--resume", str(error.value.run)], "the path has a space"
    mygym.train(resume=command[1])
    expected = {**directory.saved_config(reference.path), "logdir": part["logdir"]}
    assert directory.saved_config(Path(command[1])) == expected


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Return a function that trains an algorithm without a stop, once."""
    folder = tmp_path_factory.mktemp("whole")
    return cache(lambda algo: mygym.train(config(algo, folder)))


@pytest.mark.parametrize("algo", ["sac", *(pytest.param(algo, marks=pytest.mark.slow) for algo in ("td3", "ppo"))])
def test_an_extended_run_equals_a_run_of_the_full_length(
    algo: str, whole: Callable[[str], Result], tmp_path: Path
) -> None:
    short = mygym.train(config(algo, tmp_path / "short", steps=128))
    longer = mygym.train({"steps": STEPS}, resume=short.path)
    reference = whole(algo)
    assert longer.path == short.path
    assert longer.steps == reference.steps > short.steps
    assert [record["steps"] for record in longer.evaluations] == [record["steps"] for record in reference.evaluations]
    assert set(differences(longer.path, reference.path)) <= {"checkpoint"}  # its counters record both calls of `learn`
    assert longer.wall_time_s > short.wall_time_s


def test_a_run_that_was_stopped_before_its_first_checkpoint_starts_again(
    whole: Callable[[str], Result], tmp_path: Path, capsys: Any
) -> None:
    reference = whole("sac")
    run = stopped(config("sac", tmp_path / "stopped"), step=5)
    for checkpoint in (run / "checkpoints").glob("step_*"):
        (checkpoint / "manifest.json").unlink()
    mygym.train(resume=run)
    assert differences(reference.path, run) == []
    assert "is damaged and not used" in capsys.readouterr().err


def test_resuming_a_complete_run_changes_nothing(whole: Callable[[str], Result], capsys: Any) -> None:
    result = whole("sac")
    before = {path: path.stat().st_mtime_ns for path in result.path.rglob("*") if path.name != directory.LOCK}
    again = mygym.train(resume=result.path)
    assert "the run is complete" in capsys.readouterr().err
    assert (again.success_rate, again.evaluations, again.status) == (result.success_rate, result.evaluations, "done")
    assert {path: path.stat().st_mtime_ns for path in result.path.rglob("*") if path.name != directory.LOCK} == before


def test_a_finished_run_is_evaluated_and_recorded_again_without_learning(tmp_path: Path) -> None:
    result = mygym.train(config("td3", tmp_path))
    weights = (result.path / "policy.safetensors").read_bytes()
    again = mygym.train({"video": {"episodes": 1, "width": 64, "height": 48}}, resume=result.path)
    assert (result.path / "videos" / "final.mp4").stat().st_size
    assert (result.path / "policy.safetensors").read_bytes() == weights
    assert (again.steps, again.success_rate) == (result.steps, result.success_rate)
    assert again.evaluations == result.evaluations
    assert again.steps_per_second == pytest.approx(result.steps_per_second)


def test_a_run_that_ended_by_success_can_be_extended(tmp_path: Path) -> None:
    """An untrained policy succeeds here; tests/test_api.py has policies that learn to."""
    evaluate = session.evaluate_policy

    def succeed(*args: Any) -> Evaluation:
        return Evaluation(tuple(replace(episode, success=True) for episode in evaluate(*args).episodes))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "evaluate_policy", succeed)
        short = mygym.train(config("sac", tmp_path, stop_at_success=0.5, eval={"every": 40}))
    assert short.steps < STEPS
    longer = mygym.train({"stop_at_success": None, "steps": short.steps + 100}, resume=short.path)
    assert longer.steps == short.steps + 100


MISTAKES = {
    "seed": ({"seed": 5}, "seed"),
    "learning rate": ({"algo_params": {"learning_rate": 0.5}}, "algo_params.learning_rate"),
    "buffer": ({"algo_params": {"buffer_size": 100_000}}, "algo_params.buffer_size"),
    "robot": ({"robot": "kuka"}, "robot"),
    "misspelt": ({"stepps": 5}, "did you mean 'steps'"),
    "steps that are over": ({"steps": 100}, "has been passed already"),
    "logdir": ({"logdir": "elsewhere"}, "logdir: 'elsewhere' cannot change: a resumed run stays in its directory"),
    "algorithm": ({"algo": "ppo"}, "algo: 'ppo' is not the value with which"),
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that SIGTERM has stopped; tests that change it take a copy."""
    return stopped(config("sac", tmp_path_factory.mktemp("interrupted")), step=150)


def copied(run: Path, folder: Path) -> Path:
    """Return a copy of the run in a log directory; a run may be moved."""
    return Path(shutil.copytree(run, folder / run.name))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_changes_of_settings_that_affect_learning_are_refused(mistake: str, interrupted: Path) -> None:
    before = {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()}
    changes, words = MISTAKES[mistake]
    with pytest.raises(ConfigError, match=words):
        mygym.train(changes, resume=interrupted)
    assert {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()} == before


def test_a_complete_run_is_not_shortened(tmp_path: Path) -> None:
    run = mygym.train(config("ppo", tmp_path)).path
    assert Result.read(run).steps > STEPS + 1
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for steps in (100, STEPS + 1):
        why = f"steps: {steps} is no longer than the run.*allowed: {STEPS}, or more than"
        with pytest.raises(ConfigError, match=why):
            mygym.train({"steps": steps}, resume=run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert mygym.train({"steps": STEPS}, resume=run).steps == Result.read(run).steps


def test_a_config_that_was_edited_since_the_stop_is_refused(interrupted: Path, tmp_path: Path) -> None:
    run = copied(interrupted, tmp_path)
    content = yaml.safe_load((run / "config.yaml").read_text())
    content["algo_params"]["gamma"] = 0.5
    (run / "config.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=r"algo_params\.gamma"):
        mygym.train(resume=run)


def test_a_diverged_run_is_not_resumed(interrupted: Path, tmp_path: Path) -> None:
    run = copied(interrupted, tmp_path)
    content = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**content, "status": "diverged"}))
    with pytest.raises(ConfigError, match="diverged"):
        mygym.train(resume=run)


LOCK = """
import sys
from pathlib import Path
from mygym.training import directory
with directory.lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_write_one_run(interrupted: Path, tmp_path: Path) -> None:
    run = copied(interrupted, tmp_path)
    with subprocess.Popen([sys.executable, "-c", LOCK, run], stdin=PIPE, stdout=PIPE, cwd=ROOT, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(ConfigError, match="is being written by another process"):
            mygym.train(resume=run)
        other.stdin.close()
    assert mygym.train(resume=run).status == "done"


def test_a_run_that_is_training_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []
    original = mygym.training.session.evaluate_policy

    def resume_while_training(*args: Any, **kwargs: Any) -> Any:
        (run,) = (path.parent for path in tmp_path.glob("*/*/*/*/*/config.yaml"))
        try:
            mygym.train(resume=run)
        except ConfigError as error:
            refused.append(str(error))
        return original(*args, **kwargs)

    monkeypatch.setattr("mygym.training.session.evaluate_policy", resume_while_training)
    mygym.train(config("sac", tmp_path))
    assert refused
    assert all("another process" in message for message in refused)


class Curious(PPO):
    """Has additional state of every kind that checkpoints store, also under names that other classes leave out."""

    updates = 0
    postponed: Any = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rng = np.random.default_rng(1)
        self.generator = torch.Generator().manual_seed(1)
        self.curiosity = torch.nn.Linear(3, 1)
        self.curiosity_optimizer = torch.optim.Adam(self.curiosity.parameters(), lr=0.01)
        self.running = {"mean": np.zeros(3), "seen": []}
        self.teacher = torch.nn.Linear(3, 1)

    def train(self) -> None:
        noise = torch.randn(4, 3, generator=self.generator) + self.rng.random()
        loss = self.curiosity(noise).square().mean()
        self.curiosity_optimizer.zero_grad()
        loss.backward()
        self.curiosity_optimizer.step()
        self.running["mean"] += self.rng.random(3)
        self.running["seen"].append(loss.item())
        self.updates += 1  # only now an attribute of the object
        self.postponed = self.postponed + self.rng.random(3)  # not that of `overlap`
        with torch.no_grad():
            self.teacher.weight.lerp_(self.curiosity.weight, 0.1)
            self.ent_coef = float(loss + self.teacher.weight.sum()) + 0.01 / self.updates + float(self.postponed[0])
        self.logger.record_mean("train/curiosity", loss.item())
        super().train()


def test_state_of_a_custom_algorithm_is_restored(tmp_path: Path) -> None:
    register_algorithm("curious", policy="MultiInputPolicy")(Curious)
    settings = {"algo_params": {"n_steps": 16, "batch_size": 16}, "reward": "dense"}
    reference = mygym.train(merged(config("ppo", tmp_path / "whole"), {**settings, "algo": "curious"}))
    run = stopped(merged(config("ppo", tmp_path / "stopped"), {**settings, "algo": "curious"}), step=150)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []


def test_attributes_that_a_checkpoint_cannot_hold_are_reported(tmp_path: Path, capsys: Any) -> None:
    class Tracker:
        pass

    class Tracking(PPO):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.tracker = Tracker()

    register_algorithm("tracking", policy="MultiInputPolicy")(Tracking)
    mygym.train(merged(config("ppo", tmp_path), {"algo": "tracking"}))
    assert "checkpoints do not hold tracker of Tracking" in capsys.readouterr().err


def test_an_algorithm_that_begins_no_rollouts_is_not_silently_trained_from_the_start(tmp_path: Path) -> None:
    class Silent(SAC):
        silent = False

        def collect_rollouts(self, env: Any, callback: Any, *args: Any, **kwargs: Any) -> Any:
            if type(self).silent:
                callback.on_rollout_start = lambda: None
            return super().collect_rollouts(env, callback, *args, **kwargs)

    register_algorithm("silent", policy="MultiInputPolicy")(Silent)
    run = stopped(config("sac", tmp_path) | {"algo": "silent"}, step=150)
    Silent.silent = True
    with pytest.raises(RunError, match="cannot be resumed"):
        mygym.train(resume=run)


def test_the_command_line_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = mygym.train(config("sac", tmp_path, steps=120))
    for wrong, words in (
        (["--resume", "nowhere"], "is not a run directory"),
        (["--resume", str(short.path), "--explain"], "--config RUN/config.yaml"),
        (["--resume", str(short.path), "--robot", "kuka"], "robot: 'kuka'"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            command("train", wrong)
        err = capsys.readouterr().err
        assert (ended.value.code, "Traceback" in err) == (2, False), err
        assert words in err
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        command("train", ["--resume", str(short.path), "--steps", str(STEPS)])
    done = capsys.readouterr()
    assert not ended.value.code, done.err
    assert done.out.splitlines()[-1] == f"run: {short.path}"
    assert "learning continues from 120 to 240 steps" in done.err
    assert Result.read(short.path).steps == STEPS
    assert yaml.safe_load((short.path / "config.yaml").read_text())["steps"] == STEPS
