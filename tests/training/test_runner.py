"""Runners: training, resume, wrong loops, run names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors.numpy import load_file as load_tensors
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

import mygym
from benchmarks.kills import differences
from mygym.envs.batch_env import BatchEnv
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, InterruptedRunError, RunError
from mygym.training import directory
from mygym.training.env_processes import process_vec_env
from mygym.training.evaluation import EVALUATION, Evaluation, episode_seeds
from mygym.training.result import Curves, Result
from mygym.training.runner import SEEDS, Loop, Runner, Transitions
from tests.training.runners import STEPS, Climber, config, registered, train, with_training
from tests.training.test_resuming import stopped


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
    values: list[tuple[int, int]] = []

    class Forgetful(Runner):
        def training(self, loop: Loop) -> Curves:
            local = 0
            self.kept = 0
            while loop.next_iteration():
                loop.step(np.zeros((2, 3), np.float32))
                local += 1
                self.kept += 1
            values.append((local, self.kept))
            return loop.curves()

    run = stopped(config(registered(Forgetful), tmp_path), step=150)
    mygym.train(resume=run)
    (left,) = values
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
    with pytest.raises(RunError, match=r"Custom\.training: loop\.evaluate\(\)"):
        with_training(lambda self, loop: loop.next_iteration() and loop.evaluate())("MultiInputPolicy", env).learn(10)
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
    policy_actions: list[Any] = []

    class Wild(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.next_iteration():
                _, rewards, dones, infos = loop.step(torch.full((loop.envs.num_envs, 3), 5.0))
                callback_locals = loop.callback.callbacks[0].locals
                assert callback_locals["rewards"] is rewards
                assert callback_locals["infos"] is infos
                assert loop.episode_starts is dones
                policy_actions.append(callback_locals["actions"])
            return loop.curves()

    env_actions: list[Any] = []
    original = RobotEnv.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            RobotEnv, "step", lambda self, action: env_actions.append(np.array(action)) or original(self, action)
        )
        train(Wild, tmp_path, steps=20)
    assert np.max(policy_actions) == 5.0
    assert np.max(env_actions) == 1.0


def test_actions_of_a_squashing_policy_are_unscaled(tmp_path: Path) -> None:
    from stable_baselines3.common.policies import MultiInputActorCriticPolicy

    class Half(MultiInputActorCriticPolicy):
        def unscale_action(self, scaled_action: Any) -> Any:
            return super().unscale_action(scaled_action) / 2

    class Squashed(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.next_iteration():
                loop.step(np.ones((2, 3), np.float32))
            return loop.curves()

    env_actions: list[Any] = []
    original = RobotEnv.step
    env = DummyVecEnv([RobotEnv] * 2)
    runner = Squashed(Half, env, device="cpu", policy_kwargs={"use_sde": True, "squash_output": True})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            RobotEnv, "step", lambda self, action: env_actions.append(np.array(action)) or original(self, action)
        )
        runner.learn(10)
    assert np.unique(env_actions) == [0.5]
    env.close()


def test_reset_with_a_seed_starts_the_same_episode_everywhere() -> None:
    goals: list[Any] = []

    class Same(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.next_iteration():
                for seed in (7, 7, 8, None):
                    goals.append(loop.reset(seed)["desired_goal"].copy())
                    assert loop.episode_starts.all()
                loop.step(np.zeros((2, 3), np.float32))
            with pytest.raises(RunError, match="without a loop"):
                loop.reset()
            return loop.curves()

    for make in (DummyVecEnv, process_vec_env):
        goals.clear()
        env = VecMonitor(make([RobotEnv] * 2))
        Same("MultiInputPolicy", env, device="cpu").learn(2)
        env.close()
        first, again, other, unseeded = goals
        np.testing.assert_array_equal(first[0], first[1])
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(other[0], other[1])
        assert (first[0] != other[0]).any()
        assert (unseeded != other).any()


@pytest.mark.parametrize("seed", [-1, SEEDS])
def test_seeds_of_evaluations_are_refused_in_training(seed: int, tmp_path: Path) -> None:
    assert min(episode_seeds(0, EVALUATION, 100)) >= SEEDS
    with pytest.raises(RunError, match=r"loop\.reset\("):
        train(with_training(lambda self, loop: loop.next_iteration() and loop.reset(seed)), tmp_path)


HORIZON = 4


def collected(envs: Any, rows: int = 9) -> tuple[Transitions, Runner]:
    """Return a rollout of random actions, and its runner."""
    rollouts: list[Transitions] = []
    actions = np.random.default_rng(0).uniform(-1, 1, (rows, envs.num_envs, 3)).astype(np.float32)
    given = map(torch.as_tensor, actions)

    class Rolling(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.next_iteration():
                rollouts.append(loop.rollout(rows, lambda observations: next(given)))
            return loop.curves()

    runner = Rolling("MultiInputPolicy" if isinstance(envs.observation_space, spaces.Dict) else "MlpPolicy", envs)
    envs.seed(5)
    runner.learn(rows * envs.num_envs)
    envs.close()
    (rollout,) = rollouts
    np.testing.assert_array_equal(rollout.actions, actions)
    return rollout, runner


@pytest.mark.parametrize("make", [DummyVecEnv, process_vec_env])
@pytest.mark.parametrize("goal_env", [True, False])
def test_a_rollout_has_the_last_observations_of_episodes(make: Any, goal_env: bool) -> None:
    arguments = {"task_params": {"horizon": HORIZON}, "goal_env": goal_env, "reward": "dense"}
    rollout, runner = collected(VecMonitor(make([partial(RobotEnv, **arguments)] * 2)))
    assert runner.num_timesteps == 18
    assert rollout.rewards.shape == rollout.terminated.shape == rollout.truncated.shape == (9, 2)
    for index in range(2):
        with closing(RobotEnv(**arguments)) as env:
            observation, _ = env.reset(seed=5 + index)
            for step in range(9):
                assert_equal_rows(rollout.observations, (step, index), observation)
                observation, reward, terminated, truncated, _ = env.step(rollout.actions[step, index])
                assert_equal_rows(rollout.next_observations, (step, index), observation)
                ends = (bool(rollout.terminated[step, index]), bool(rollout.truncated[step, index]))
                assert (rollout.rewards[step, index], ends) == (np.float32(reward), (terminated, truncated))
                if terminated or truncated:
                    observation, _ = env.reset()
    assert rollout.truncated.sum() == 4


def test_a_rollout_of_the_fused_engine_has_the_last_observations_of_episodes() -> None:
    arguments = {"task": "reach", "task_params": {"horizon": HORIZON}, "reward": "dense"}
    rollout, _ = collected(VecMonitor(BatchVecEnv(arguments, 4)))
    env = BatchEnv(arguments, 4)
    observations = env.reset(range(5, 9))
    for step in range(9):
        assert_equal_rows(rollout.observations, step, observations)
        outcome = env.step(rollout.actions[step])
        assert_equal_rows(rollout.next_observations, step, outcome.last)
        for name in ("terminated", "truncated"):
            np.testing.assert_array_equal(getattr(rollout, name)[step], getattr(outcome, name))
        observations = outcome.observations
    assert rollout.truncated.sum() == 8
    assert not np.array_equal(rollout.next_observations["observation"][3], rollout.observations["observation"][4])


def assert_equal_rows(values: Any, row: Any, expected: Any) -> None:
    if not isinstance(expected, dict):
        np.testing.assert_array_equal(values[row], expected)
        return
    assert values.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(values[key][row], value)


def test_normalised_rollouts_and_their_rows() -> None:
    args = {"task_params": {"horizon": HORIZON}}
    envs = VecNormalize(DummyVecEnv([partial(RobotEnv, **args)] * 2), norm_reward=False)
    rollout, _ = collected(envs)
    flat = rollout.flat()
    assert flat.rewards.shape == flat.terminated.shape == (18,)
    assert len(flat.infos) == 18
    assert_equal_rows(flat.next_observations, 5, {key: value[2, 1] for key, value in rollout.next_observations.items()})
    for index in np.flatnonzero(flat.truncated):
        assert_equal_rows(flat.next_observations, index, flat.infos[index]["terminal_observation"])
    running = ~(rollout.terminated | rollout.truncated)[:-1]
    for key, value in rollout.next_observations.items():
        np.testing.assert_array_equal(value[:-1][running], rollout.observations[key][1:][running])


def test_extra_evaluations_do_not_change_the_run(tmp_path: Path) -> None:
    extras: list[Evaluation] = []
    steps: dict[bool, list[Any]] = {False: [], True: []}
    """What each training observed, without and with extra evaluations."""

    class Evaluating(Climber):
        def training(self, loop: Loop) -> Curves:
            while loop.next_iteration():
                assert not self.policy.training
                if type(self).enabled:
                    extras.append(loop.evaluate())
                for _ in range(20):
                    steps[type(self).enabled].append(loop.observations)
                    loop.step(self.policy.predict(loop.observations)[0])
            return loop.curves()

        enabled = False

    short = {"task_params": {"horizon": 8}, "eval": {"episodes": 2}}
    without = train(Evaluating, tmp_path / "without", **short)
    Evaluating.enabled = True
    name = registered(Evaluating, "evaluating")
    result = mygym.train(config(name, tmp_path / "with", **short))
    np.testing.assert_equal(steps[True], steps[False])
    for key, value in load_tensors(without.path / "policy.safetensors").items():
        np.testing.assert_array_equal(value, load_tensors(result.path / "policy.safetensors")[key])
    assert [r["success_rate"] for r in result.evaluations] == [r["success_rate"] for r in without.evaluations]
    seeds = [episode.seed for extra in extras for episode in extra.episodes]
    assert len(set(seeds)) == len(seeds) == 12
    assert all(seed >> 30 == EVALUATION for seed in seeds)
    run = stopped(config(name, tmp_path / "stopped", eval={"episodes": 2}), step=150)
    extras.clear()
    mygym.train(resume=run)
    assert [episode.seed for extra in extras for episode in extra.episodes] == seeds[-len(extras) * 2 :]


# Misuse --------------------------------------------------------------------------------------------------------------


def never_steps(runner: Runner, loop: Loop) -> Curves:
    while loop.next_iteration():
        pass
    return loop.curves()


def ends_early(runner: Runner, loop: Loop) -> Curves:
    loop.next_iteration()
    loop.step(np.zeros((2, 3), np.float32))
    return loop.curves()


def steps_first(runner: Runner, loop: Loop) -> Curves:
    loop.step(np.zeros((2, 3), np.float32))
    return loop.curves()


def returns_nothing(runner: Runner, loop: Loop) -> Any:
    while loop.next_iteration():
        loop.step(np.zeros((2, 3), np.float32))


def steps_after_the_end(runner: Runner, loop: Loop) -> Curves:
    returns_nothing(runner, loop)
    assert not loop.next_iteration()
    loop.step(np.zeros((2, 3), np.float32))
    return loop.curves()


def rolls_out(steps: int, act: Any) -> Any:
    return lambda runner, loop: loop.next_iteration() and loop.rollout(steps, act(runner))


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (never_steps, "took no environment step between two calls of loop.next_iteration"),
        (ends_early, "ended after 2 of 240 steps"),
        (lambda self, loop: loop.curves(), "ended after 0 of 240 steps"),
        (steps_first, r"loop.step\(\) without a loop.next_iteration"),
        (steps_after_the_end, r"loop.step\(\) without a loop.next_iteration"),
        (returns_nothing, "returned None instead of loop.curves"),
        (lambda self, loop: loop.rollout(3, self.predict), r"loop.rollout\(\) without a loop.next_iteration"),
        (
            rolls_out(3, lambda runner: lambda observations: runner.predict(observations)[0][:, :1]),
            r"actions of shape \(2, 1\); allowed: \(2, 3\)",
        ),
        (
            rolls_out(3, lambda runner: lambda observations: runner.predict(observations)[0][0]),
            r"actions of shape \(3,\); allowed: \(2, 3\)",
        ),
        (
            rolls_out(3, lambda runner: runner.predict),
            r"`act` returned a tuple; .*array .*predict\(observations\)\[0\]",
        ),
        (
            rolls_out(0, lambda runner: lambda observations: np.zeros((2, 3))),
            r"loop.rollout\(0, …\); allowed: 1 or more",
        ),
    ],
)
def test_wrong_loop_is_reported(training: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"Custom\.training.*{words}.*\({__file__}:\d+\)$") as error:
        train(with_training(training), tmp_path)
    assert error.value.exit_code == 1
    result = Result.read(error.value.run)
    assert (result.status, "Custom.training" in result.error) == ("failed", True)


def test_exception_in_the_loop_fails_the_run(tmp_path: Path) -> None:
    def training(runner: Runner, loop: Loop) -> Curves:
        while loop.next_iteration():
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
            while loop.next_iteration():
                loop.step(np.zeros((2, 3), np.float32))
                self.logger.record("train/loss", math.nan if loop.num_timesteps > 100 else 0.0)
            return loop.curves()

    with pytest.raises(mygym.errors.DivergedError, match=r"train/loss is nan after 102 steps") as error:
        train(Diverging, tmp_path)
    assert Result.read(error.value.run).status == "diverged"


def test_unsavable_attribute_is_reported_once(tmp_path: Path, capsys: Any) -> None:
    class Late(Runner):
        def training(self, loop: Loop) -> Curves:
            while loop.next_iteration():
                self.tracker = object()
                loop.step(np.zeros((2, 3), np.float32))
            return loop.curves()

    train(Late, tmp_path)
    assert capsys.readouterr().err.count("checkpoints do not hold tracker of Late") == 1


# Directory -----------------------------------------------------------------------------------------------------------


def test_the_directory_contains_the_run_name(tmp_path: Path) -> None:
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
