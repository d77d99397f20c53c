"""Runners: training loop, misuse, curves, config, directories."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file as load_tensors
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import mygym
from benchmarks.kills import differences
from mygym.cli.describe import main as describe
from mygym.cli.train import main as train_command
from mygym.config import config_hash, load_file, merged
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, InterruptedRunError, RunError
from mygym.registry import register_algorithm
from mygym.runs import directory
from mygym.runs.curves import Curves, EpisodeCounter, Mark, Score
from mygym.runs.evaluation import EVALUATION, TEST, Evaluation, episode_seeds
from mygym.runs.resolve_config import from_python
from mygym.runs.result import Result
from mygym.runs.runner import SEEDS, Loop, Runner
from mygym.runs.worker_vec_env import worker_vec_env
from tests.components import small
from tests.runs.test_resuming import stopped

STEPS = 240


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    quick = {
        "algo": algo,
        "algo_params": {"policy_kwargs": {"net_arch": [8]}},
        "task_params": {"horizon": 20},
        "steps": STEPS,
        "n_envs": 2,
        "stop_at_success": None,
        "eval": {"every": 100, "episodes": 2, "final_episodes": 1, "test_episodes": 3},
        "checkpoint": {"every": 70, "keep": 2},
        "video": {"episodes": 0},
        "tensorboard": False,
        "logdir": str(logdir),
    }
    return merged(quick, more)


class Climber(Runner):
    """Random search that perturbs the weights and keeps improvements; counts its iterations."""

    def __init__(self, policy: Any, env: Any, *, noise: float = 0.1, **kwargs: Any) -> None:
        self.noise = noise
        self.best = -1e9
        self.tries = 0
        self.scores: list[float] = []
        super().__init__(policy, env, **kwargs)

    def training(self, loop: Loop, *, length: int = 20, greedy: bool = True) -> Curves:
        while loop.goes_on():
            before = self.policy.parameters_to_vector()
            self.policy.load_from_vector(before + self.noise * np.random.standard_normal(before.shape))  # noqa: NPY002
            total = 0.0
            for _ in range(length):
                actions, _ = self.policy.predict(loop.observations, deterministic=True)
                _, rewards, _, _ = loop.step(actions)
                total += float(rewards.mean())
            self.tries += 1
            self.scores.append(total)
            if total < self.best and greedy:
                self.policy.load_from_vector(before)
            self.best = max(self.best, total)
            self.logger.record("train/best", self.best)
        return loop.curves()


def registered(cls: type[Runner], name: str = "custom", **options: Any) -> str:
    register_algorithm(name, policy="MultiInputPolicy", **options)(cls)
    return name


def train(cls: type[Runner], logdir: Path, **more: Any) -> Result:
    return mygym.train(config(registered(cls), logdir, **more))


def with_training(training: Callable[[Runner, Loop], Any]) -> type[Runner]:
    """Return a runner class with this training loop."""
    return type("Custom", (Runner,), {"training": training})


# Training ------------------------------------------------------------------------------------------------------------


def test_runner_writes_a_complete_run(tmp_path: Path) -> None:
    result = train(Climber, tmp_path)
    assert (result.status, result.steps) == ("done", STEPS)
    assert [record["steps"] for record in result.evaluations] == [0, 120, 200]
    names = {path.name for path in result.path.iterdir() if not path.name.startswith(".")}
    assert {"model.zip", "best_model.zip", "policy.safetensors", "checkpoints", "progress.jsonl"} <= names
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    logged = [line for line in lines if "train/best" in line]
    assert [line["steps"] for line in logged] == list(range(40, STEPS + 1, 40))
    assert {"rollout/ep_rew_mean", "rollout/success_rate", "time/total_timesteps"} <= set(logged[-1])
    policy = mygym.load(result.path)
    with mygym.make_env(result.path) as env:
        action, _ = policy.predict(env.reset(seed=0)[0])
        model = Climber.load(result.path / "model.zip", env=env, device="cpu")
    assert env.action_space.contains(action)
    assert (model.tries, model.noise, len(model.scores)) == (6, 0.1, 6)


def test_stopped_runner_resumes_from_its_attributes(tmp_path: Path) -> None:
    name = registered(Climber)
    original = {"tensorboard": True, "reward": "dense", "normalize": True}
    reference = mygym.train(config(name, tmp_path / "whole", **original))
    run = stopped(config(name, tmp_path / "stopped", **original), step=150)
    result = mygym.train(resume=run)
    assert (result.status, result.steps) == ("done", reference.steps)
    assert differences(reference.path, run) == []


def test_extended_runner_equals_a_long_run(tmp_path: Path) -> None:
    name = registered(Climber)
    short = mygym.train(config(name, tmp_path / "short", steps=120, tensorboard=True))
    longer = mygym.train({"steps": STEPS}, resume=short.path)
    whole = mygym.train(config(name, tmp_path / "whole", tensorboard=True))
    assert longer.steps == whole.steps > short.steps
    assert set(differences(longer.path, whole.path)) <= {"checkpoint"}


def test_local_variables_are_not_restored(tmp_path: Path) -> None:
    """The reason why the docstring asks for attributes."""
    seen: list[tuple[int, int]] = []

    class Forgetful(Runner):
        def training(self, loop: Loop) -> Curves:
            local = 0
            self.kept = 0
            while loop.goes_on():
                loop.step(np.zeros((2, 3), np.float32))
                local += 1
                self.kept += 1
            seen.append((local, self.kept))
            return loop.curves()

    run = stopped(config(registered(Forgetful), tmp_path), step=150)
    mygym.train(resume=run)
    (left,) = seen
    assert left[1] == STEPS // 2
    assert left[0] < left[1]


def test_runner_trains_outside_a_run() -> None:
    env = DummyVecEnv([lambda: RobotEnv(task_params={"horizon": 10})] * 2)
    runner = Climber("MultiInputPolicy", env, seed=1, device="cpu", policy_kwargs={"net_arch": [8]})
    assert runner.curves is None
    assert runner.learn(90) is runner
    assert runner.num_timesteps == 120
    assert runner.curves == Curves()
    again = Climber("MultiInputPolicy", env, seed=1, device="cpu", policy_kwargs={"net_arch": [8]}).learn(90)
    np.testing.assert_array_equal(runner.policy.parameters_to_vector(), again.policy.parameters_to_vector())
    with pytest.raises(RunError, match=r"Custom\.training: loop\.evaluate\(\) is for runs"):
        with_training(lambda self, loop: loop.goes_on() and loop.evaluate())("MultiInputPolicy", env).learn(10)
    env.close()


def test_callback_ends_the_training_immediately() -> None:
    class Enough(BaseCallback):
        ended = 0

        def _on_step(self) -> bool:
            return self.num_timesteps < 30

        def _on_training_end(self) -> None:
            self.ended += 1

    env = DummyVecEnv([RobotEnv])
    callback = Enough()
    runner = Climber("MultiInputPolicy", env, device="cpu").learn(1000, callback)
    assert (runner.num_timesteps, callback.ended, runner.curves) == (30, 1, Curves())
    env.close()


def test_actions_are_clipped_and_callbacks_receive_the_rewards(tmp_path: Path) -> None:
    taken: list[Any] = []

    class Wild(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.goes_on():
                _, rewards, dones, infos = loop.step(torch.full((loop.envs.num_envs, 3), 5.0))
                callback_locals = loop.callback.callbacks[0].locals
                assert callback_locals["rewards"] is rewards
                assert callback_locals["infos"] is infos
                assert loop.episode_starts is dones
                taken.append(callback_locals["actions"])
            return loop.curves()

    seen: list[Any] = []
    original = RobotEnv.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RobotEnv, "step", lambda self, action: seen.append(np.array(action)) or original(self, action))
        train(Wild, tmp_path, steps=20)
    assert np.max(taken) == 5.0
    assert np.max(seen) == 1.0


def test_actions_of_a_squashing_policy_are_unscaled(tmp_path: Path) -> None:
    from stable_baselines3.common.policies import MultiInputActorCriticPolicy

    class Half(MultiInputActorCriticPolicy):
        def unscale_action(self, scaled_action: Any) -> Any:
            return super().unscale_action(scaled_action) / 2

    class Squashed(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.goes_on():
                loop.step(np.ones((2, 3), np.float32))
            return loop.curves()

    seen: list[Any] = []
    original = RobotEnv.step
    env = DummyVecEnv([RobotEnv] * 2)
    runner = Squashed(Half, env, device="cpu", policy_kwargs={"use_sde": True, "squash_output": True})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RobotEnv, "step", lambda self, action: seen.append(np.array(action)) or original(self, action))
        runner.learn(10)
    assert np.unique(seen) == [0.5]
    env.close()


def test_reset_with_a_seed_starts_the_same_episode_everywhere() -> None:
    seen: list[Any] = []

    class Same(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.goes_on():
                for seed in (7, 7, 8, None):
                    seen.append(loop.reset(seed)["desired_goal"].copy())
                    assert loop.episode_starts.all()
                loop.step(np.zeros((2, 3), np.float32))
            with pytest.raises(RunError, match="without a loop"):
                loop.reset()
            return loop.curves()

    for make in (DummyVecEnv, worker_vec_env):
        seen.clear()
        env = VecMonitor(make([RobotEnv] * 2))
        Same("MultiInputPolicy", env, device="cpu").learn(2)
        env.close()
        first, again, other, unseeded = seen
        np.testing.assert_array_equal(first[0], first[1])
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(other[0], other[1])
        assert (first[0] != other[0]).any()
        assert (unseeded != other).any()


@pytest.mark.parametrize("seed", [-1, SEEDS])
def test_seeds_of_evaluations_are_refused_in_training(seed: int, tmp_path: Path) -> None:
    assert min(episode_seeds(0, EVALUATION, 100)) >= SEEDS
    with pytest.raises(RunError, match=r"loop\.reset\("):
        train(with_training(lambda self, loop: loop.goes_on() and loop.reset(seed)), tmp_path)


def test_extra_evaluations_do_not_change_the_run(tmp_path: Path) -> None:
    extras: list[Evaluation] = []

    class Evaluating(Climber):
        def training(self, loop: Loop) -> Curves:
            while loop.goes_on():
                assert not self.policy.training
                if type(self).enabled:
                    extras.append(loop.evaluate())
                for _ in range(20):
                    loop.step(self.policy.predict(loop.observations)[0])
            return loop.curves()

        enabled = False

    without = train(Evaluating, tmp_path / "without")
    Evaluating.enabled = True
    name = registered(Evaluating, "evaluating")
    result = mygym.train(config(name, tmp_path / "with"))
    for key, value in load_tensors(without.path / "policy.safetensors").items():
        np.testing.assert_array_equal(value, load_tensors(result.path / "policy.safetensors")[key])
    assert [r["success_rate"] for r in result.evaluations] == [r["success_rate"] for r in without.evaluations]
    seeds = [episode.seed for extra in extras for episode in extra.episodes]
    assert len(set(seeds)) == len(seeds) == 12
    assert all(seed >> 30 == EVALUATION for seed in seeds)
    run = stopped(config(name, tmp_path / "stopped"), step=150)
    extras.clear()
    mygym.train(resume=run)
    assert [episode.seed for extra in extras for episode in extra.episodes] == seeds[-len(extras) * 2 :]


# Misuse --------------------------------------------------------------------------------------------------------------


def never_steps(runner: Runner, loop: Loop) -> Curves:
    while loop.goes_on():
        pass
    return loop.curves()


def ends_early(runner: Runner, loop: Loop) -> Curves:
    loop.goes_on()
    loop.step(np.zeros((2, 3), np.float32))
    return loop.curves()


def steps_first(runner: Runner, loop: Loop) -> Curves:
    loop.step(np.zeros((2, 3), np.float32))
    return loop.curves()


def returns_nothing(runner: Runner, loop: Loop) -> Any:
    while loop.goes_on():
        loop.step(np.zeros((2, 3), np.float32))


def steps_after_the_end(runner: Runner, loop: Loop) -> Curves:
    returns_nothing(runner, loop)
    assert not loop.goes_on()
    loop.step(np.zeros((2, 3), np.float32))
    return loop.curves()


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (never_steps, "took no environment step between two calls of loop.goes_on"),
        (ends_early, "ended after 2 of 240 steps"),
        (lambda self, loop: loop.curves(), "ended after 0 of 240 steps"),
        (steps_first, r"loop.step\(\) without a loop.goes_on"),
        (steps_after_the_end, r"loop.step\(\) without a loop.goes_on"),
        (returns_nothing, "returned None instead of loop.curves"),
    ],
)
def test_wrong_loop_is_reported(training: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"Custom\.training.*{words}") as error:
        train(with_training(training), tmp_path)
    assert error.value.exit_code == 1
    result = Result.read(error.value.run)
    assert (result.status, "Custom.training" in result.error) == ("failed", True)


def test_exception_in_the_loop_fails_the_run(tmp_path: Path) -> None:
    def training(runner: Runner, loop: Loop) -> Curves:
        while loop.goes_on():
            loop.step(np.zeros((2, 3), np.float32))
            if loop.num_timesteps > 100:
                raise LookupError("no such thing")
        return loop.curves()

    with pytest.raises(RunError, match="LookupError: no such thing") as error:
        train(with_training(training), tmp_path)
    run = error.value.run
    assert Result.read(run).status == "failed"
    assert "in training" in (run / directory.TRACEBACK).read_text()


def test_non_finite_loss_ends_the_run(tmp_path: Path) -> None:
    class Diverging(Climber):
        def training(self, loop: Loop) -> Curves:
            while loop.goes_on():
                loop.step(np.zeros((2, 3), np.float32))
                self.logger.record("train/loss", math.nan if loop.num_timesteps > 100 else 0.0)
            return loop.curves()

    with pytest.raises(mygym.errors.DivergedError, match=r"train/loss is nan after 102 steps") as error:
        train(Diverging, tmp_path)
    assert Result.read(error.value.run).status == "diverged"


def test_unsavable_attribute_is_reported_once(tmp_path: Path, capsys: Any) -> None:
    class Late(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.goes_on():
                self.tracker = object()
                loop.step(np.zeros((2, 3), np.float32))
            return loop.curves()

    train(Late, tmp_path)
    assert capsys.readouterr().err.count("checkpoints do not hold tracker of Late") == 1


# Curves --------------------------------------------------------------------------------------------------------------


def test_curves_have_training_validation_and_test_figures(tmp_path: Path) -> None:
    kept: list[Any] = []

    class Keeping(Climber):
        def training(self, loop: Loop, **more: Any) -> Curves:
            kept.append((self, super().training(loop)))
            return kept[-1][1]

    result = train(Keeping, tmp_path)
    runner, curves = kept[0]
    assert curves == runner.curves == Curves.of(result.evaluations)
    assert len(curves.marks) == 3
    assert [mark.steps for mark in curves.marks] == [record["steps"] for record in result.evaluations]
    assert curves.marks[0].train is None
    assert result.evaluations[0]["train_success_rate"] is None
    for mark, record in zip(curves.marks[1:], result.evaluations[1:], strict=True):
        assert mark.validation == Score(record["success_rate"], record["mean_return"])
        assert mark.train == Score(record["train_success_rate"], record["train_mean_return"])
        assert mark.test == Score(record["test_success_rate"], record["test_mean_return"])
    content = json.loads((result.path / "result.json").read_text())
    assert Curves.of(content["evaluations"]) == curves


@pytest.mark.parametrize("algo", ["ppo", "sac", "ars", "cem"])
def test_training_figures_match_the_monitor(algo: str, tmp_path: Path) -> None:
    """For every kind of algorithm: each episode in monitor.csv up to the last mark is counted once."""
    params = small(algo) | ({"n_steps": 16} if algo == "ppo" else {})
    settings = config(algo, tmp_path) | {"algo_params": params, "steps": 400, "reward": "dense"}
    result = mygym.train(settings)
    counted = 0
    rows = (result.path / "monitor.csv").read_text().splitlines()[2:]
    episodes = [row.split(",") for row in rows]
    for record in result.evaluations[1:]:
        if record["train_mean_return"] is None:
            continue
        means = {
            end: np.mean([float(row[0]) for row in episodes[counted:end]])
            for end in range(counted + 1, len(episodes) + 1)
        }
        (counted,) = [
            end for end, mean in means.items() if mean == pytest.approx(record["train_mean_return"], rel=1e-6)
        ]
    assert counted > len(episodes) / 2


def test_episode_counter() -> None:
    counter, other = EpisodeCounter(), EpisodeCounter()
    counter.add({"r": -2.0, "is_success": np.True_})
    counter.add({"r": -4.0, "is_success": False})
    other.load_state_dict(json.loads(json.dumps(counter.state_dict())))
    expected = {"train_success_rate": 0.5, "train_mean_return": -3.0}
    assert counter.take() == other.take() == expected
    assert counter.take() == {"train_success_rate": None, "train_mean_return": None}


def test_test_episodes_select_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best model and the early stop do not depend on the test episodes."""
    seen: dict[int, set[int]] = {EVALUATION: set(), TEST: set()}
    original = mygym.runs.session.evaluate_policy

    def all_successful(policy: Any, envs: Any, seeds: Any, *args: Any) -> Any:
        purpose = seeds[0] >> 30
        seen.get(purpose, set()).update(seeds)
        evaluation = original(policy, envs, seeds, *args)
        if purpose != TEST:
            return evaluation
        from dataclasses import replace

        return Evaluation(tuple(replace(episode, success=True, total_reward=0.0) for episode in evaluation.episodes))

    monkeypatch.setattr("mygym.runs.session.evaluate_policy", all_successful)
    tested = train(Climber, tmp_path, stop_at_success=0.9)
    assert (tested.steps, len(seen[TEST]), len(seen[EVALUATION])) == (STEPS, 9, 6)
    assert all(record["test_success_rate"] == 1.0 for record in tested.evaluations)
    untested = train(Climber, tmp_path, stop_at_success=0.9, eval={"test_episodes": 0})
    assert all("test_success_rate" not in record for record in untested.evaluations)
    for name in ("best_policy", "policy"):
        first, second = (load_tensors(run.path / f"{name}.safetensors") for run in (tested, untested))
        for key, value in first.items():
            np.testing.assert_array_equal(value, second[key])
    assert Curves.of(untested.evaluations).marks[0].test is None
    assert isinstance(Curves.of(untested.evaluations).marks[0], Mark)


# Config --------------------------------------------------------------------------------------------------------------


def test_training_parameters_come_from_signature_registration_and_user(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    class Recording(Climber):
        def training(self, loop: Loop, *, length: int = 20, greedy: bool = True) -> Curves:
            seen.update(length=length, greedy=greedy)
            return super().training(loop, length=length, greedy=greedy)

    name = registered(Recording, training_defaults={"length": 10})
    resolved = from_python(config(name, tmp_path, training_params={"greedy": False}))
    assert resolved.config.training_params == {"length": 10, "greedy": False}
    assert resolved.origins["training_params.length"] == f"algorithm {name}"
    assert resolved.origins["training_params.greedy"] == "argument"
    assert from_python(config(name, tmp_path)).origins["training_params.greedy"] == "class Recording"
    assert "noise" in resolved.config.algo_params
    assert "length" not in resolved.config.algo_params
    result = mygym.train(resolved)
    assert seen == {"length": 10, "greedy": False}
    assert load_file(result.path / "config.yaml")["training_params"] == {"length": 10, "greedy": False}


def test_training_parameters_shape_the_result() -> None:
    name = registered(Climber)
    hashes = [
        config_hash(from_python({"algo": name, "training_params": params}).values())
        for params in ({}, {"length": 20}, {"length": 21})
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    values = from_python({"algo": "ppo"}).values()
    assert config_hash(values) == config_hash({k: v for k, v in values.items() if k != "training_params"})


class Demanding(Runner):
    def training(self, loop: Loop, *, rounds: int, share: float = 0.5) -> Curves:
        return never_steps(self, loop)


@pytest.mark.parametrize(
    ("cls", "params", "words"),
    [
        (Climber, {"lenght": 5}, r"training_params\.lenght.*Climber\.training.*did you mean 'length'"),
        (Climber, {"length": "long"}, r"training_params\.length: 'long' has the wrong type; allowed: a whole number"),
        (Climber, {"greedy": 1}, r"training_params\.greedy: 1 has the wrong type; allowed: true or false"),
        (Climber, {"noise": 0.5}, r"training_params\.noise.*allowed: greedy, length"),
        (Demanding, {}, r"training_params\.rounds.*Demanding\.training needs.*|training_params\.rounds.*is missing"),
        (None, {"length": 5}, r"training_params\.length.*is not for ppo.*steps, n_envs, eval"),
    ],
)
def test_training_parameters_are_validated_first(
    cls: type[Runner] | None, params: Mapping[str, Any], words: str, tmp_path: Path
) -> None:
    name = registered(cls) if cls is not None else "ppo"
    with pytest.raises(ConfigError, match=words):
        mygym.train(config(name, tmp_path, training_params=params))
    assert list(tmp_path.iterdir()) == []


def test_training_parameters_have_ranges(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training_params\.episodes: 0 is out of range; allowed: at least 1"):
        mygym.train({"algo": "cem", "logdir": str(tmp_path), "training_params": {"episodes": 0}})


def test_strict_requires_training_parameters(tmp_path: Path) -> None:
    values = from_python({"algo": "cem"}).values()
    assert from_python({**values, "strict": True}).config.training_params == values["training_params"]
    del values["training_params"]["episodes"]
    with pytest.raises(ConfigError, match=r"missing: training_params\.episodes"):
        from_python({**values, "strict": True})


def test_the_command_line_shows_and_sets_training_parameters(capsys: Any) -> None:
    train_command(["--algo", "cem", "--set", "training_params.episodes=7", "--explain"])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("training_params."))
    assert line.split() == ["training_params.episodes", "7", "flag"]
    describe(["algorithm", "cem", "--json"])
    about = json.loads(capsys.readouterr().out)["frameworks"]["pytorch"]
    assert set(about["training_params"]) == {"episodes"}
    assert "population" in about["algo_params"]
    describe(["algorithm", "ppo", "--json"])
    assert "training_params" not in json.loads(capsys.readouterr().out)["frameworks"]["pytorch"]


def test_resume_refuses_changed_training_parameters(tmp_path: Path) -> None:
    run = stopped(config(registered(Climber), tmp_path), step=150)
    with pytest.raises(ConfigError, match=r"training_params\.length"):
        mygym.train({"training_params": {"length": 5}}, resume=run)


# Directory -----------------------------------------------------------------------------------------------------------


def test_run_name_is_part_of_the_directory(tmp_path: Path) -> None:
    class Named(Climber):
        @classmethod
        def run_name(cls, hyperparameters: Mapping[str, Any], training_params: Mapping[str, Any]) -> str:
            return f"noise={hyperparameters['noise']}_length={training_params['length']}"

    result = train(Named, tmp_path, algo_params={"noise": 0.5}, steps=40)
    assert result.path.parent.name == f"noise=0.5_length=20-{result.config_hash}"
    assert mygym.train({"steps": 80}, resume=result.path).steps == 80
    assert mygym.load(result.path) is not None
    plain = train(Climber, tmp_path / "plain", steps=40)
    assert plain.path.parent.name == plain.config_hash


@pytest.mark.parametrize("name", ["a/b", "../x", ".hidden", "-x", "a b", "ä", "x" * 81, "a\n", None, 5])
def test_invalid_run_name_is_refused(name: Any, tmp_path: Path) -> None:
    class Named(Climber):
        @classmethod
        def run_name(cls, hyperparameters: Mapping[str, Any], training_params: Mapping[str, Any]) -> str:
            return name

    with pytest.raises(ConfigError, match=r"is the result of Named\.run_name"):
        train(Named, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_exception_in_run_name_is_reported(tmp_path: Path) -> None:
    class Named(Climber):
        @classmethod
        def run_name(cls, hyperparameters: Mapping[str, Any], training_params: Mapping[str, Any]) -> str:
            return str(hyperparameters["nois"])

    with pytest.raises(ConfigError, match=r"Named\.run_name fails: KeyError"):
        train(Named, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_runner_has_curves(tmp_path: Path) -> None:
    kept: list[Runner] = []

    class Kept(Climber):
        def training(self, loop: Loop, **more: Any) -> Curves:
            kept.append(self)
            return super().training(loop)

    stopped(config(registered(Kept), tmp_path), step=150)
    assert kept[0].curves is not None
    assert [mark.steps for mark in kept[0].curves.marks] == [0, 120]
    assert InterruptedRunError.exit_code == 130
