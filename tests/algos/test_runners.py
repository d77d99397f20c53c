"""Tests of the shipped runners: PPO is bit-identical to SB3's, the cross-entropy method follows its equations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors.numpy import load_file as load_tensors
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import mygym
from benchmarks.kills import SMALL, Case, Trainer, differences, killed, uninterrupted
from mygym.algos.cem import CEM
from mygym.algos.ppo_runner import PPORunner
from mygym.algos.stable_baselines import PPO
from mygym.config import merged
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.registry.signatures import parameters
from mygym.training.runner import Loop
from tests.components import slow_except
from tests.training.test_resuming import stopped


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    quick = {
        "algo": algo,
        "steps": 300,
        "n_envs": 2,
        "reward": "dense",
        "task_params": {"horizon": 12},
        "stop_at_success": None,
        "eval": {"every": 100, "episodes": 1, "test_episodes": 0, "final_episodes": 1},
        "video": {"episodes": 0},
        "tensorboard": False,
        "logdir": str(logdir),
    }
    return merged(quick, more)


PARAMS: dict[str, dict[str, Any]] = {
    "plain": {"n_steps": 32, "batch_size": 16},
    "entropy": {"n_steps": 32, "batch_size": 16, "ent_coef": 0.01, "vf_coef": 0.2, "max_grad_norm": 0.1},
    "clipped values, raw advantages": {"n_steps": 32, "batch_size": 32, "clip_range_vf": 0.1, "clip_range": 0.05}
    | {"normalize_advantage": False, "gae_lambda": 0.8},
    "early": {"n_steps": 32, "batch_size": 16, "ent_coef": 0.01, "vf_coef": 0.2, "max_grad_norm": 0.1}
    | {"target_kl": 0.002, "n_epochs": 20, "learning_rate": 0.01},
    "clipped values": {"n_steps": 16, "batch_size": 16, "clip_range_vf": 0.1, "clip_range": 0.05},
}


@pytest.mark.parametrize("name", slow_except(PARAMS, ("clipped values, raw advantages", "early").__contains__))
def test_ppo_is_bit_identical_to_sb3(name: str, tmp_path: Path) -> None:
    quick = {"algo_params": PARAMS[name], "normalize": True, "steps": 150, "eval": {"every": 64}}
    runner, sb3 = (mygym.train(config(algo, tmp_path, **quick)) for algo in ("ppo_runner", "ppo"))
    weights, expected = (load_tensors(result.path / "policy.safetensors") for result in (runner, sb3))
    assert weights.keys() == expected.keys()
    for key, value in weights.items():
        np.testing.assert_array_equal(value, expected[key])
    for record, expected_record in zip(runner.evaluations, sb3.evaluations, strict=True):
        assert {**record, "wall_time_s": 0} == {**expected_record, "wall_time_s": 0}


def test_ppo_has_the_hyperparameters_of_sb3() -> None:
    runner, sb3 = parameters(PPORunner), parameters(PPO)
    unsupported = {"use_sde", "sde_sample_freq", "rollout_buffer_class", "rollout_buffer_kwargs"}
    assert runner.keys() == sb3.keys() - unsupported | {"groups"}
    shared = runner.keys() & sb3.keys()
    assert {name: runner[name].default for name in shared} == {name: sb3[name].default for name in shared}


def test_groups_set_learning_rates_of_parameter_groups(tmp_path: Path) -> None:
    params = {"n_steps": 16, "batch_size": 16, "policy_kwargs": {"net_arch": [8]}}
    groups = {"critic": {"lr": 0.05}, "log_std": {"lr": 1e-12}}
    quick = {"steps": 160, "checkpoint": {"every": 50}}
    settings = config("ppo_runner", tmp_path, algo_params={**params, "groups": groups}, **quick)
    result = mygym.train(settings)
    default_run = mygym.train(config("ppo_runner", tmp_path, algo_params=params, **quick))
    grouped, ungrouped = (load_tensors(run.path / "policy.safetensors") for run in (result, default_run))
    assert np.abs(grouped["log_std"]).max() < 1e-9 < np.abs(ungrouped["log_std"]).max()
    assert np.abs(grouped["value_net.bias"]).max() > 3 * np.abs(ungrouped["value_net.bias"]).max()
    run = stopped(merged(settings, {"logdir": str(tmp_path / "stopped"), "tensorboard": True}), step=110)
    resumed = load_tensors(mygym.train(resume=run).path / "policy.safetensors")
    for key, value in grouped.items():
        np.testing.assert_array_equal(value, resumed[key])


@pytest.mark.parametrize(
    ("algo", "params", "message"),
    [
        ("ppo_runner", {"groups": {"critc": {"lr": 1e-3}}}, r"algo_params\.groups\.critc.*did you mean 'critic'"),
        ("ppo_runner", {"groups": {"critic": {"rate": 1e-3}}}, r"algo_params\.groups\.critic\.rate"),
        ("ppo_runner", {"groups": 3}, r"algo_params\.groups: 3 has the wrong type"),
        ("ppo_runner", {"n_steps": 1, "batch_size": 1}, r"algo_params.*at least 2"),
        ("cem", {"population": 4, "elites": 5}, r"algo_params.*elites: 5 is more than the population of 4"),
        ("dagger", {"beta": 1.5}, r"algo_params\.beta: 1\.5 is out of range"),
        ("cem", {"population": 1}, r"algo_params\.population: 1 is out of range"),
        ("cem", {"smoothing": 0}, r"algo_params\.smoothing: 0 is out of range"),
    ],
)
def test_invalid_hyperparameters_are_refused(algo: str, params: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config(algo, tmp_path, algo_params=params, n_envs=1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("default:the last minibatch")
def test_a_partial_minibatch_warns() -> None:
    env = DummyVecEnv([RobotEnv])
    with pytest.warns(UserWarning, match="the last minibatch has 4 of 8 rows"):
        PPORunner("MultiInputPolicy", env, n_steps=20, batch_size=8, device="cpu")
    env.close()


@pytest.mark.slow  # see tests/test_kills.py, and for a runner that SIGTERM stops tests/training/test_runner.py
@pytest.mark.parametrize(
    ("algo", "params"),
    [
        ("ppo_runner", {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "policy_kwargs": {"net_arch": [16]}}),
        ("cem", {"population": 2, "elites": 1}),
        ("dagger", {"batch_size": 32, "policy_kwargs": {"net_arch": [16]}}),
    ],
)
def test_a_killed_run_equals_an_uninterrupted_run(
    algo: str, params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SMALL, algo, params)  # type: ignore[arg-type]
    case, trainer = Case(algo, "3"), Trainer()
    folders = [tmp_path / name for name in ("whole", "killed")]
    for folder in folders:
        folder.mkdir()
    run, seconds = uninterrupted(trainer, case, folders[0])
    other, reached = killed(trainer, case, folders[1], [0.7 * seconds, 0.5 * seconds])
    assert reached
    assert differences(run, other) == [], reached


# Cross-entropy method ------------------------------------------------------------------------------------------------


EASY = {"horizon": 15, "tolerance": 0.12, "hold": 1}
"""Task parameters with which some episodes end earlier than others."""


def cem(n_envs: int, **params: Any) -> CEM:
    env = VecMonitor(DummyVecEnv([lambda: RobotEnv(goal_env=False, task_params=EASY, reward="dense")] * n_envs))
    return CEM("LinearPolicy", env, seed=0, device="cpu", **params)


def test_the_gaussian_is_fitted_to_the_elites() -> None:
    runner = cem(1, initial_std=2.0, extra_std=0.6, extra_generations=4, smoothing=0.5)
    assert runner.mean is not None
    assert runner.std is not None
    size = len(runner.mean)
    runner.mean, runner.generation = torch.zeros(size), 1
    elites = torch.randn(5, size)
    runner._fit(elites)
    expected = np.sqrt(elites.numpy().var(axis=0) + (0.6 * 3 / 4) ** 2)
    np.testing.assert_allclose(runner.mean, 0.5 * elites.numpy().mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(runner.std, 0.5 * 2.0 + 0.5 * expected, rtol=1e-5)
    runner.generation = 4  # without extra noise equal elites collapse the deviation
    runner._fit(elites[:1].expand(5, -1))
    np.testing.assert_allclose(runner.std, 0.5 * (0.5 * 2.0 + 0.5 * expected), rtol=1e-5)
    runner.env.close()


@pytest.mark.parametrize("n_envs", [1, 2, 3])
def test_candidates_are_evaluated_on_the_same_episodes(n_envs: int) -> None:
    """Returns equal those of a policy with the candidate's weights, for any number of environments."""
    runner, results = cem(n_envs, population=4, elites=2), []
    torch.manual_seed(1)
    candidates = torch.randn(4, len(runner.mean))
    steady = torch.cat([torch.zeros(3, 9), -10 * torch.eye(3), 10 * torch.eye(3)], dim=1)  # from achieved to desired
    candidates[1] = steady.flatten()  # it reaches the goal before the others

    class ReturnsRecorder(CEM):
        def training(self, loop: Loop, *, episodes: int = 2) -> Any:
            with torch.no_grad():
                while loop.next_iteration():
                    np.random.seed(5)  # noqa: NPY002
                    results.append(self._returns(loop, candidates, episodes))
            return loop.curves()

    runner.__class__ = ReturnsRecorder
    runner.learn(1)
    np.random.seed(5)  # noqa: NPY002
    seeds = np.random.randint(2**30, size=2)  # noqa: NPY002
    solved: list[bool] = []
    with RobotEnv(goal_env=False, task_params=EASY, reward="dense") as env:
        for candidate, total in zip(candidates, results[0], strict=True):
            runner.policy.load_from_vector(candidate.numpy())
            returns = []
            for seed in seeds:
                observation, _ = env.reset(seed=int(seed))
                ended, rewards = False, 0.0
                while not ended:
                    observation, reward, terminated, truncated, _ = env.step(runner.policy.predict(observation)[0])
                    rewards, ended = rewards + float(reward), terminated or truncated
                returns.append(rewards)
                solved.append(terminated)
            assert total.item() == pytest.approx(np.mean(returns), rel=1e-4)
    assert 0 < sum(solved) < len(solved)
    runner.env.close()


@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_the_policy_is_the_mean(policy: str, tmp_path: Path) -> None:
    kwargs = {"policy_kwargs": {"net_arch": [4]}} if policy == "MlpPolicy" else {}
    env = VecMonitor(DummyVecEnv([lambda: RobotEnv(goal_env=False, task_params={"horizon": 5})] * 2))
    runner = CEM(policy, env, population=4, elites=2, seed=0, device="cpu", **kwargs).learn(50)
    np.testing.assert_array_equal(runner.policy.parameters_to_vector(), runner.mean.numpy())
    runner.save(tmp_path / "model.zip")
    loaded = CEM.load(tmp_path / "model.zip", env=env, device="cpu")
    assert loaded.generation == runner.generation > 0
    np.testing.assert_array_equal(loaded.mean, runner.mean)
    np.testing.assert_array_equal(loaded.std, runner.std)
    env.close()


class Plane(gymnasium.Env[Any, Any]):
    """A point that walks to a goal, without a simulation."""

    observation_space = spaces.Box(-2, 2, (4,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.position, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        self.steps = 0
        return self.observed(), {}

    def observed(self) -> Any:
        return np.concatenate([self.position, self.goal]).astype(np.float32)

    def step(self, action: Any) -> Any:
        self.position = self.position + 0.3 * action
        self.steps += 1
        return self.observed(), -float(np.linalg.norm(self.goal - self.position)), False, self.steps == 5, {}


def mean_distance(policy: Any) -> float:
    """Return the distance after an episode, the mean of 30 episodes."""
    env, distances = Plane(), []
    for seed in range(30):
        observation, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            observation, reward, _, ended, _ = env.step(policy.predict(observation, deterministic=True)[0])
        distances.append(-reward)
    return float(np.mean(distances))


def test_cem_learns_to_reach_in_a_plane() -> None:
    """With its defaults; see below for a robot."""
    runner = CEM("LinearPolicy", VecMonitor(DummyVecEnv([Plane] * 8)), seed=1, device="cpu")
    before = mean_distance(runner.policy)
    runner.learn(4_000)
    assert mean_distance(runner.policy) < 0.5 * before


@pytest.mark.slow
def test_cem_reduces_the_distance(tmp_path: Path) -> None:
    """A few generations reduce the distance; for solving reach see benchmarks/results/runners.md."""
    result = mygym.train(config("cem", tmp_path, steps=16_000, n_envs=8, eval={"every": 16_000, "episodes": 20}))
    assert result.evaluations[-1]["mean_distance"] < 0.75 * result.evaluations[0]["mean_distance"]
