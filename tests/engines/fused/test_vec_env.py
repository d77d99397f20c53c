"""The fused engine in SB3: vector environment, algorithms, runs, resuming, variance floor."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

import mygym
from mygym.checks.parity import measure_transfer
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.robot_env import RobotEnv
from mygym.planning.plan import make_plan
from mygym.registry import algorithm, registry
from mygym.training import env_factory
from mygym.training.evaluation import evaluate_policy
from mygym.training.policy import normalizer_of, weights
from mygym.training.result import Result
from mygym.training.vec_wrappers import FLOOR, MASKED, FlooredMeanStd, FlooredNormalize
from tests.components import COMBOS, known, slow_except, small

SHORT = {
    "engine": "fused",
    "n_envs": 16,
    "steps": 512,
    "eval": {"every": 256, "episodes": 2, "final_episodes": 2},
    "video": {"episodes": 0},
    "stop_at_success": None,
}


def test_infos_follow_the_contract() -> None:
    env = BatchVecEnv({"task": "reach"}, 5)
    env.seed(3)
    env.reset()
    ends = 0
    for _ in range(60):
        observations, rewards, ended, infos = env.step(np.stack(env.env_method("expert_action")))
        assert rewards.dtype == np.float32
        for index in range(5):
            assert env.observation_space["observation"].contains(observations["observation"][index])
            assert {"is_success", "stage", "stages_done"} <= infos[index].keys()
            assert ("terminal_observation" in infos[index]) == ended[index]
            if ended[index]:
                ends += 1
                assert infos[index]["is_success"]
                assert infos[index]["elapsed_steps"] < 25
                assert not infos[index]["TimeLimit.truncated"]
                last = infos[index]["terminal_observation"]
                assert np.linalg.norm(last["achieved_goal"] - last["desired_goal"]) < 0.05
    assert ends > 10


def test_algorithms_ask_for_areas_and_ends_as_in_bullet() -> None:
    fused, goals = BatchVecEnv({"task": "reach"}, 2), np.array([[0.5, 0.0, 0.2], [0.5, 0.2, 0.2]])
    with mygym.make_env({"task": "reach"}) as env:
        np.testing.assert_array_equal(fused.get_attr("areas")[0]["reach"], env.unwrapped.areas["reach"])
        ends = env.unwrapped.compute_terminated(goals, goals[[0, 0]], {})
    np.testing.assert_array_equal(
        fused.env_method("compute_terminated", goals, goals[[0, 0]], {}, indices=[0])[0], ends
    )
    assert ends.tolist() == [True, False]
    with pytest.raises(AttributeError, match=r"'camera'.*engine pybullet"):
        fused.get_attr("camera")


def test_a_state_continues_to_the_bit() -> None:
    def play(env: BatchVecEnv, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [env.step(rng.uniform(-1, 1, (6, 3)))[:3] for _ in range(40)]

    first = BatchVecEnv({"task": "reach", "reward": "staged"}, 6)
    first.seed(1)
    first.reset()
    play(first, 0)
    state = first.batch_state_dict()
    expected = play(first, 1)
    second = BatchVecEnv({"task": "reach", "reward": "staged"}, 6)
    second.load_batch_state_dict(state)
    for (observations, rewards, ended), (repeated, other_rewards, other_ended) in zip(
        expected, play(second, 1), strict=True
    ):
        for key, value in observations.items():
            np.testing.assert_array_equal(value, repeated[key])
        np.testing.assert_array_equal(rewards, other_rewards)
        np.testing.assert_array_equal(ended, other_ended)


QUICK = ("a2c", "bc", "crossq", "dqn", "multippo", "sac")
"""Algorithms of the normal suite: goal dictionaries, flat observations, discrete actions, the expert, a strategy."""

FUSED_COMBOS = [combo for combo in COMBOS if combo[0] != "two_players"]
"""Algorithms and frameworks; the example `two_players` sets the goals of environments, which the engine refuses."""


class FirstWeights(BaseCallback):
    """Keeps the weights from before the training."""

    def _on_training_start(self) -> None:
        self.kept = {name: tensor.clone() for name, tensor in weights(self.model).items()}

    def _on_step(self) -> bool:
        return True


def trained(config: dict[str, Any]) -> Result:
    """Train; check that the weights have changed."""
    first = FirstWeights()
    result = mygym.train(config, callbacks=first)
    last = load_file(result.path / "policy.safetensors")
    assert any(not torch.equal(tensor, last[name]) for name, tensor in first.kept.items())
    return result


@pytest.mark.parametrize(
    ("algo", "framework"), slow_except(FUSED_COMBOS, lambda combo: combo[0] in QUICK and combo[1] == "pytorch")
)
def test_every_algorithm_trains(algo: str, framework: str, tmp_path: Path) -> None:
    params = small(algo, framework)
    is_off_policy = "train_freq" in known(algorithm(algo, framework).combo()[0])
    fewer = {"n_envs": 2, "steps": 256, "task_params": {"horizon": 10}} if is_off_policy else {}
    config = {**SHORT, "algo": algo, "framework": framework, "algo_params": params, "logdir": str(tmp_path), **fewer}
    result = trained(config)
    assert (result.status, result.engine) == ("done", "fused")
    assert result.steps >= config["steps"]


STRATEGY_PARAMS: dict[str, Any] = {
    "curriculum": {"levels": [{"task_params": {"horizon": 10}}], "window": 1},
    "reptile": {"inner": 1},
}


@pytest.mark.parametrize(
    "strategy", slow_except(registry("strategy").names(), lambda name: name in ("lora", "reptile"))
)
def test_every_strategy_trains(strategy: str, tmp_path: Path) -> None:
    task = "reach" if strategy in ("ewc", "multitask", "reptile") else "push"
    config = {**SHORT, "task": task, "strategy": strategy, "logdir": str(tmp_path), "task_params": {"horizon": 20}}
    params = {"algo": "ppo", "algo_params": {"n_steps": 8}, "strategy_params": STRATEGY_PARAMS.get(strategy, {})}
    assert trained({**config, **params}).status == "done"


@pytest.mark.parametrize("task", ["reach", pytest.param("pick_and_place", marks=pytest.mark.slow)])
def test_a_resumed_run_ends_with_the_same_weights(task: str, tmp_path: Path) -> None:
    params = {"n_steps": 8, "batch_size": 64, "learning_rate": 1e-3}
    short = {**SHORT, "task": task, "task_params": {"horizon": 20}, "algo_params": params}
    whole = mygym.train({**short, "logdir": str(tmp_path / "whole")})
    half = mygym.train({**short, "steps": 256, "logdir": str(tmp_path / "half")})
    assert whole.algo == "ppo"
    resumed = mygym.train({"steps": 512}, resume=half.path)
    assert resumed.steps == whole.steps
    saved = [(run.path / "policy.safetensors").read_bytes() for run in (whole, resumed)]
    assert saved[0] == saved[1]


@pytest.mark.parametrize("goal_env", [True, False])
def test_observations_are_normalised_as_by_sb3(goal_env: bool, tmp_path: Path) -> None:
    """Also the last observation of each episode, which SB3 normalises separately."""
    arguments = {"task": "reach", "goal_env": goal_env, "task_params": {"horizon": 7}}
    FlooredNormalize(BatchVecEnv(arguments, 32)).save(str(tmp_path / "normalizer.pkl"))
    floored = VecNormalize.load(str(tmp_path / "normalizer.pkl"), BatchVecEnv(arguments, 32))
    assert isinstance(floored, FlooredNormalize)
    usual = VecNormalize(BatchVecEnv(arguments, 32), norm_reward=False)
    usual.obs_rms = copy.deepcopy(floored.obs_rms)
    for env in (floored, usual):
        env.seed(0)
        env.reset()
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(20):
        actions = rng.uniform(-1, 1, (32, 3)).astype(np.float32)
        first, second = floored.step(actions), usual.step(actions)
        for left, right in zip(first[:3], second[:3], strict=True):
            np.testing.assert_equal(left, right)
        for left, right in zip(first[3], second[3], strict=True):
            np.testing.assert_equal(left, right)
            ends += "terminal_observation" in right
    assert ends > 32


def test_inputs_that_never_vary_are_not_scaled_up() -> None:
    observations = ["ee_position", "ee_orientation", "command_offset", "joint_velocity"]
    plan = make_plan({"engine": "fused", "n_envs": 64, "observations": observations})
    env = env_factory.make_vec_env(plan)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(5):
        env.step(rng.uniform(-1, 1, (64, 3)).astype(np.float32))
    assert isinstance(env, VecNormalize)
    figures = normalizer_of(env)
    assert figures is not None
    variance = figures["observation"]["var"]
    tool, upright = variance[:3], variance[3:7]
    assert (tool > FLOOR).all()
    assert (upright == FLOOR).any(), "the controller keeps the orientation but for small errors"
    assert variance.min() == FLOOR


def test_inputs_that_never_vary_are_masked() -> None:
    constant, varying = np.full((64, 1), 0.7), np.random.default_rng(0).normal(size=(64, 1))
    running = FlooredMeanStd((3,))
    running.update(np.hstack([constant, varying, constant]))
    assert running.var.tolist() == [MASKED, pytest.approx(np.var(varying)), MASKED]
    running.update(np.hstack([constant, varying, varying]))
    both = np.concatenate([constant, varying])
    assert running.var.tolist() == [MASKED, pytest.approx(np.var(varying)), pytest.approx(np.var(both))]


def test_ppo_learns_reach_and_solves_it_in_bullet(tmp_path: Path) -> None:
    """Success rates are those of Bullet; 65,536 env steps are four seconds of one processor."""
    result = mygym.train(
        {
            "engine": "fused",
            "steps": 65_536,
            "logdir": str(tmp_path),
            "eval": {"every": 65_536, "episodes": 4, "final_episodes": 30},
            "video": {"episodes": 0},
        }
    )
    assert result.success_rate is not None
    assert result.success_rate >= 0.9
    policy = mygym.load(result.path)
    env = RobotEnv("reach", reward="dense")
    assert evaluate_policy(policy, [env], range(5)).success_rate >= 0.8
    env.close()
    transfer = measure_transfer(result.path, 30, seed=0)
    assert transfer.success_engine >= 0.9
    assert transfer.success_pybullet >= 0.9


@pytest.mark.slow  # DAgger takes a quarter of a minute, PPO about a minute
@pytest.mark.parametrize("task", ["push", "pick_and_place"])
@pytest.mark.parametrize("algo", ["ppo", "dagger"])
def test_tasks_with_a_box_are_learned_and_solved_in_bullet(algo: str, task: str, tmp_path: Path) -> None:
    config = {"engine": "fused", "algo": algo, "task": task, "logdir": str(tmp_path), "video": {"episodes": 0}}
    result = mygym.train(config)
    assert result.success_rate is not None
    assert result.success_rate >= 0.9
