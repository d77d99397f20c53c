"""The user's callbacks: from Python, by name and by module; stopping, state in checkpoints, trackers, trainers."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import FloatSchedule

import mygym
from mygym.config import merged
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RegistryError, RunError
from mygym.planning.callbacks import register_callback
from mygym.strategies import Strategy, register_strategy
from mygym.training import session
from mygym.training.evaluation import Evaluation
from mygym.training.monitors import TrackerCallback
from tests.training.runners import config as small
from tests.training.test_resuming import stopped

ON_POLICY = {"n_steps": 20, "batch_size": 20}


class Counter(BaseCallback):
    """Counts steps and rewards; ends the training at a number of calls.

    Args:
        most: Number of calls.
    """

    def __init__(self, *, most: int = 10**9) -> None:
        super().__init__()
        self.most, self.rewards, self.restored = most, 0.0, 0

    def _on_step(self) -> bool:
        self.rewards += float(self.locals["rewards"].sum())
        self.logger.record("counter/rewards", self.rewards)
        return self.n_calls < self.most

    def state_dict(self) -> dict[str, Any]:
        return {"rewards": self.rewards}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.rewards, self.restored = state["rewards"], self.n_calls


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    params = {"ppo": ON_POLICY, "ppo_runner": ON_POLICY, "sac": {"learning_starts": 100}}.get(algo, {})
    return small(algo, logdir, algo_params=params, **more)


@pytest.mark.parametrize(
    "algo", [*(pytest.param(algo, marks=pytest.mark.slow) for algo in ("ppo", "ppo_runner")), "sac"]
)
def test_a_callback_gets_every_step_and_may_end_the_training(
    algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, short = Counter(), Counter(most=30)
    complete = mygym.train(config(algo, tmp_path / "whole"), callbacks=[whole])
    assert whole.n_calls * 2 == complete.steps
    assert whole.rewards < 0
    figures = [json.loads(line) for line in (complete.path / "progress.jsonl").read_text().splitlines()]
    assert any("counter/rewards" in line for line in figures)
    ended = mygym.train(config(algo, tmp_path / "short"), callbacks=[whole, short])
    assert (ended.status, ended.steps) == ("done", 60)
    assert "note: Counter ends the training after 60 steps" in capsys.readouterr().err


class Ended(BaseCallback):
    """Counts the ends of the training; fails at a number of calls."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.fails, self.ends = fails, 0

    def _on_step(self) -> bool:
        if self.n_calls == self.fails:
            raise ValueError("broken")
        return True

    def _on_training_end(self) -> None:
        self.ends += 1


@pytest.mark.parametrize("algo", ["sac", pytest.param("ppo_runner", marks=pytest.mark.slow)])
@pytest.mark.parametrize("cause", ["steps", "callback", "success", "failure"])
def test_a_callback_gets_the_end_of_the_training_once_unless_the_run_fails(
    cause: str, algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = session.evaluate_policy

    def succeed(*args: Any) -> Evaluation:
        return Evaluation(tuple(replace(episode, success=True) for episode in evaluate(*args).episodes))

    monkeypatch.setattr(session, "evaluate_policy", succeed)
    settings = config(algo, tmp_path, eval={"every": 40}, stop_at_success=0.5 if cause == "success" else None)
    ended = Ended(30 if cause == "failure" else 0)
    more = [Counter(most=30)] if cause == "callback" else []
    with pytest.raises(RunError, match="broken") if cause == "failure" else contextlib.nullcontext():
        steps = mygym.train(settings, callbacks=[ended, *more]).steps
        assert steps == {"steps": 240, "callback": 60}.get(cause, steps)
        assert cause != "success" or steps < 100
    assert ended.ends == (cause != "failure")


class Forgetful(BaseCallback):
    def _on_step(self) -> bool:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("callback", "name"),
    [(Forgetful(), "Forgetful._on_step"), (lambda local, others: None, r"<lambda>")],
    ids=["class", "function"],
)
def test_a_callback_that_returns_nothing_is_named(callback: Any, name: str, tmp_path: Path) -> None:
    with pytest.raises(
        RegistryError, match=rf"callback .*{name}: result: 'None' .*test_callbacks.py:.* True, or False"
    ):
        mygym.train(config("sac", tmp_path), callbacks=callback)


def logged(run: Path) -> list[dict[str, Any]]:
    """Lines of `progress.jsonl`."""
    return [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("algo", ["ppo", pytest.param("sac", marks=pytest.mark.slow)])
def test_section_times_add_up(algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow environment, update or evaluation is measured as such; a step of the two environments takes 4 ms."""
    sections = ("environment", "rollout", "update", "evaluation")
    step = RobotEnv.step

    def slow(env: RobotEnv, action: Any) -> Any:
        time.sleep(0.002 if env.render_mode is None else 0.0)
        return step(env, action)

    monkeypatch.setattr(RobotEnv, "step", slow)
    run = mygym.train(config(algo, tmp_path, callbacks=["section_times"]))
    lines = [line for line in logged(run.path) if "time/update_ms" in line]
    assert len(lines) > 1
    for line in lines:
        times = [line[f"time/{section}_ms"] for section in sections]
        assert times[0] > 2.0
        assert min(times) >= 0.0
    total = run.steps * np.mean([sum(line[f"time/{section}_ms"] for section in sections) for line in lines])
    assert 0.3 * run.wall_time_s < 0.001 * total < 2.0 * run.wall_time_s
    assert any(line["time/evaluation_ms"] > 0 for line in lines)


@pytest.mark.parametrize(
    ("algo", "framework"), [("ppo", "pytorch"), pytest.param("sac", "jax", marks=pytest.mark.slow)]
)
def test_layer_statistics(algo: str, framework: str, tmp_path: Path) -> None:
    """In PyTorch, the last log has the figures of the saved policy, because the learning rate becomes 0."""
    layers = [{"name": "layer_statistics", "params": {"every": 1}}]
    settings = config(algo, tmp_path, callbacks=layers, framework=framework)
    if framework == "pytorch":
        rate = {"schedule": "piecewise", "points": [[0, 1e-2], [120, 1e-2], [121, 0.0]]}
        settings = merged(settings, {"algo_params": {"learning_rate": rate}})
    run = mygym.train(settings)
    lines = [line for line in logged(run.path) if any(key.startswith("layers/") for key in line)]
    saved = {key: value for key, value in load_file(run.path / "policy.safetensors").items() if "normalizer" not in key}
    for name, tensor in saved.items():
        if framework == "pytorch":
            assert lines[-1][f"layers/{name}/weight"] == pytest.approx(float(np.sqrt(np.mean(tensor**2))), rel=1e-5)
            assert lines[-1][f"layers/{name}/gradient"] > 0
            assert lines[-1][f"layers/{name}/change"] == 0
        assert any(line.get(f"layers/{name}/change", 0) > 0 for line in lines)


def test_callbacks_have_the_forms_of_sb3(tmp_path: Path) -> None:
    counter, steps = Counter(), []
    mygym.train(config("ppo", tmp_path), callbacks=counter)

    def append(local: dict[str, Any], _: dict[str, Any]) -> bool:
        steps.append(local["self"].num_timesteps)
        return len(steps) < 10

    assert mygym.train(config("ppo", tmp_path), callbacks=append).steps == 20
    assert counter.n_calls > len(steps) == 10
    assert mygym.train(config("ppo", tmp_path), callbacks=[append]).steps == 2


@pytest.mark.parametrize("callback", [Counter, "counter", 3])
def test_other_objects_are_refused_before_the_run_directory_exists(callback: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^callbacks: .*allowed: instances of"):
        mygym.train(config("ppo", tmp_path), callbacks=[callback])
    assert not any(tmp_path.iterdir())


def test_named_callbacks_with_parameters(tmp_path: Path) -> None:
    register_callback("counter")(Counter)
    result = mygym.train(config("ppo", tmp_path, callbacks=[{"name": "counter", "params": {"most": 20}}]))
    assert result.steps == 40
    assert mygym.train(config("ppo", tmp_path, callbacks=["counter"])).steps == 240
    again = mygym.train(resume=result.path, config={"steps": 320})
    assert again.steps >= 40


@pytest.mark.parametrize(
    ("callbacks", "message"),
    {
        "name": (["countr"], r"callbacks\.0\.name: 'countr' .*did you mean 'counter'"),
        "parameter": (
            [{"name": "counter", "params": {"mots": 3}}],
            r"callbacks\.0\.params\.mots: .*did you mean 'most'",
        ),
        "type": ([{"name": "counter", "params": {"most": "many"}}], r"callbacks\.0\.params\.most: 'many'"),
        "key": (
            ["counter", {"name": "counter", "parms": {}}],
            r"callbacks\.1: 'parms' is not a key .*mean 'params'",
        ),
        "no name": ([{"params": {}}], r"callbacks\.0: "),
        "module": (["some.module.Class"], r"callbacks\.0\.name: .*--import some\.module"),
        "no callback": (["collections.OrderedDict"], r"callbacks\.0\.name: .*is not a subclass of BaseCallback"),
    }.values(),
)
def test_a_mistake_is_refused_before_anything_is_written(callbacks: Any, message: str, tmp_path: Path) -> None:
    register_callback("counter")(Counter)
    with pytest.raises((ConfigError, RegistryError), match=message):
        mygym.train(config("ppo", tmp_path / "runs", callbacks=callbacks))
    assert not (tmp_path / "runs").exists()


class WithoutStep(BaseCallback):
    """Lacks the only method that SB3 requires."""


class WithoutConstructor(Counter):
    """Does not call the constructor of its base."""

    def __init__(self) -> None:
        self.most = 3


@pytest.mark.parametrize(
    ("cls", "is_named", "message"),
    [  # Python makes no instance of the first
        (WithoutStep, True, "_on_step"),
        (WithoutConstructor, True, r"super\(\)\.__init__"),
        (WithoutConstructor, False, r"super\(\)\.__init__"),
    ],
)
def test_a_class_that_is_not_complete_is_refused_by_its_line(
    cls: type[BaseCallback], is_named: bool, message: str, tmp_path: Path
) -> None:
    register_callback("incomplete")(cls)
    settings = config("ppo", tmp_path, **({"callbacks": ["incomplete"]} if is_named else {}))
    with pytest.raises(ConfigError, match=rf"callbacks.*{message}.*{__file__}:\d+"):
        mygym.train(settings, callbacks=[] if is_named else [cls()])


def test_a_class_of_an_imported_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("some_tools")
    module.Counter = Counter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "some_tools", module)
    chosen = {"name": "some_tools.Counter", "params": {"most": 20}}
    assert mygym.train(config("ppo", tmp_path, callbacks=[chosen])).steps == 40


def test_only_callbacks_are_registered() -> None:
    with pytest.raises(RegistryError, match=r"allowed: .*stable_baselines3's BaseCallback"):
        register_callback("counter")(dict)


def test_checkpoints_hold_the_state(tmp_path: Path) -> None:
    register_callback("counter")(Counter)
    settings = config("ppo", tmp_path / "a", callbacks=["counter"])
    whole = [json.loads(line) for line in (mygym.train(settings).path / "progress.jsonl").read_text().splitlines()]
    run = stopped(config("ppo", tmp_path / "b", callbacks=["counter"]), step=130)
    mygym.train(resume=run)
    resumed = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    key = "counter/rewards"
    assert [line[key] for line in resumed if key in line] == [line[key] for line in whole if key in line]


def test_callbacks_of_python_are_restored_or_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mygym, "train", lambda settings, train=mygym.train: train(settings, callbacks=[Counter()]))
        run = stopped(config("ppo", tmp_path), step=130)
    second = Counter()
    mygym.train(resume=run, callbacks=[second])
    assert second.restored > 0
    assert second.n_calls == 120
    mygym.train({"steps": 280}, resume=run)
    assert "callback 0 Counter of the checkpoint is missing" in capsys.readouterr().err


class InTwoPhases(Strategy):
    """Learns half of the steps, then the others with a smaller learning rate; counts steps by a callback."""

    def callbacks(self) -> Sequence[BaseCallback]:
        self.counter = Counter()
        return [self.counter]

    def create_trainer(self, callbacks: Sequence[BaseCallback]) -> Callable[[], object]:
        def train() -> None:
            for end, rate in ((self.config.steps // 2, 1e-2), (self.config.steps, 1e-4)):
                if self.num_timesteps < end:
                    self.model.lr_schedule = FloatSchedule(rate)
                    self.model.learn(end - self.num_timesteps, callback=list(callbacks), reset_num_timesteps=False)

        return train

    def outcome(self) -> Mapping[str, Any]:
        return {"calls": self.counter.n_calls} if hasattr(self, "counter") else {}


class InTwoPhasesAgain(InTwoPhases):
    """Also replaces the trainer."""


def test_a_strategy_adds_callbacks_and_replaces_the_trainer(tmp_path: Path) -> None:
    register_strategy("in_two_phases")(InTwoPhases)
    result = mygym.train(config("ppo", tmp_path, strategy="in_two_phases"))
    assert (result.status, result.steps) == ("done", 240)
    assert result.strategy == {"in_two_phases": {"calls": 120}}
    register_strategy("again")(InTwoPhasesAgain)
    with pytest.raises(ConfigError, match="joins 2 strategies that replace the trainer: in_two_phases, again"):
        mygym.train(config("ppo", tmp_path / "refused", strategy="in_two_phases+again"))
    assert not (tmp_path / "refused").exists()


class Tracker(TrackerCallback):
    """Keeps the env steps at which figures are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def open(self, config: Mapping[str, Any]) -> None:
        pass

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self.steps.append(step)


def test_phases_log_and_name_the_directory_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register_strategy("in_two_phases")(InTwoPhases)
    tracker = Tracker()
    result = mygym.train(config("ppo", tmp_path, strategy="in_two_phases"), callbacks=tracker)
    assert tracker.steps == [line["steps"] for line in logged(result.path)]
    assert capsys.readouterr().err.count(f"directory: {result.path}\n") == 1


@pytest.mark.parametrize(
    "step", [pytest.param(60, marks=pytest.mark.slow, id="first phase"), pytest.param(200, id="second phase")]
)
def test_a_trainer_of_two_phases_resumes_in_its_phase(step: int, tmp_path: Path) -> None:
    register_strategy("in_two_phases")(InTwoPhases)
    whole = mygym.train(config("ppo", tmp_path / "whole", strategy="in_two_phases"))
    run = stopped(config("ppo", tmp_path, strategy="in_two_phases"), step)
    mygym.train(resume=run)
    assert (run / "policy.safetensors").read_bytes() == (whole.path / "policy.safetensors").read_bytes()


def test_a_missing_tracker_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(RegistryError, match=r'callback wandb: needs the package .*pip install "mygym\[wandb\]"'):
        mygym.train(config("ppo", tmp_path, callbacks=["wandb"]))


def test_weights_and_biases_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    result = mygym.train(config("ppo", tmp_path, callbacks=["wandb"]))
    files = list((result.path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 1
    assert files[0].stat().st_size > 1_000


@pytest.mark.parametrize("resumed", [False, True], ids=["new run", "resumed run"])
def test_weights_and_biases_follow_the_event_file(resumed: bool, tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb")
    values = config("ppo", tmp_path, tensorboard=True)
    run = stopped(values, step=130) if resumed else None
    with wandb.init(mode="offline", dir=tmp_path, sync_tensorboard=True, settings={"console": "off", "silent": True}):
        _ = mygym.train(resume=run) if run else mygym.train(values)
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    last = time.monotonic() + 60
    while b"eval/success_rate" not in file.read_bytes():  # a process of Weights & Biases still writes it
        assert time.monotonic() < last
        time.sleep(0.1)


def test_mlflow_in_a_local_file(tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("sqlalchemy")
    run = stopped(config("ppo", tmp_path, callbacks=["mlflow"]), step=130)
    mygym.train(resume=run)
    client = tracking.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (record,) = client.search_runs([client.get_experiment_by_name("mygym").experiment_id])
    assert record.info.status == "FINISHED"
    history = client.get_metric_history(record.info.run_id, "eval/success_rate")
    assert [metric.step for metric in history] == sorted({metric.step for metric in history})
    assert len(history) >= 2
