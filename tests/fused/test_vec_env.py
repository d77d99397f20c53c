"""The fused engine in SB3: vector environment, algorithms, runs, resuming, variance floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecNormalize

import mygym
from mygym.checks.transfer import measure_transfer
from mygym.envs.fused_vec_env import FusedVecEnv
from mygym.envs.robot_env import RobotEnv
from mygym.runs import env_factory
from mygym.runs.evaluation import evaluate_policy
from mygym.runs.planning.plan import make_plan
from mygym.runs.policy import normalizer_of
from mygym.runs.variance_floor import FLOOR, MASKED, FlooredMeanStd
from tests.components import small

SHORT = {
    "engine": "fused",
    "n_envs": 16,
    "steps": 512,
    "eval": {"every": 256, "episodes": 2, "final_episodes": 2},
    "video": {"episodes": 0},
    "stop_at_success": None,
}
FEWER_STEPS = {"n_envs": 2, "steps": 256}
"""For algorithms that update in each step."""


def test_infos_follow_the_contract() -> None:
    env = FusedVecEnv({"task": "reach"}, 5)
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


def test_a_state_continues_to_the_bit() -> None:
    def play(env: FusedVecEnv, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [env.step(rng.uniform(-1, 1, (6, 3)))[:3] for _ in range(40)]

    first = FusedVecEnv({"task": "reach", "reward": "staged"}, 6)
    first.seed(1)
    first.reset()
    play(first, 0)
    state = first.batch_state_dict()
    expected = play(first, 1)
    second = FusedVecEnv({"task": "reach", "reward": "staged"}, 6)
    second.load_batch_state_dict(state)
    for (observations, rewards, ended), (repeated, other_rewards, other_ended) in zip(
        expected, play(second, 1), strict=True
    ):
        for key, value in observations.items():
            np.testing.assert_array_equal(value, repeated[key])
        np.testing.assert_array_equal(rewards, other_rewards)
        np.testing.assert_array_equal(ended, other_ended)


@pytest.mark.parametrize(
    ("algo", "more"),
    [
        ("a2c", {}),
        ("sac", {**FEWER_STEPS, "task_params": {"horizon": 10}}),  # goal dictionaries, hindsight
        ("crossq", FEWER_STEPS),  # flat observations
        ("dqn", {**FEWER_STEPS, "task_params": {"horizon": 10}}),  # discrete actions
        ("bc", {}),  # the scripted expert
    ],
)
def test_kinds_of_algorithms_train(algo: str, more: dict[str, Any], tmp_path: Path) -> None:
    config = {**SHORT, "algo": algo, "algo_params": small(algo), "logdir": str(tmp_path), **more}
    result = mygym.train(config)
    assert result.status == "done"
    assert result.engine == "fused"
    assert result.steps >= config["steps"]


@pytest.mark.parametrize("task", ["reach", "pick_and_place"])
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
    assert transfer.success_fused >= 0.9
    assert transfer.success_pybullet >= 0.9


@pytest.mark.slow  # DAgger takes a quarter of a minute, PPO about a minute
@pytest.mark.parametrize("task", ["push", "pick_and_place"])
@pytest.mark.parametrize("algo", ["ppo", "dagger"])
def test_tasks_with_a_box_are_learned_and_solved_in_bullet(algo: str, task: str, tmp_path: Path) -> None:
    config = {"engine": "fused", "algo": algo, "task": task, "logdir": str(tmp_path), "video": {"episodes": 0}}
    result = mygym.train(config)
    assert result.success_rate is not None
    assert result.success_rate >= 0.9
