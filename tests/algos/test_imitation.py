"""Tests of imitation of the scripted expert: acting, labels, success, and the policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import mygym
from mygym.algos.images import KeypointExtractor
from mygym.algos.imitation import BC, DAgger, ImitationPolicy
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.vision.networks import CLIP, MIN_STD, Standardizer
from tests.components import slow_except

N_ENVS, ROLLOUT = 2, 6
SMALL: dict[str, Any] = {"batch_size": 16, "policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": "cpu"}


def trained(cls: type[BC], rollouts: int = 3, **hyperparameters: Any) -> BC:
    """Return a seeded runner after some rollouts on a task with a gripper."""
    env = VecMonitor(DummyVecEnv([lambda: RobotEnv("pick_and_place", task_params={"horizon": 30})] * N_ENVS))
    env.seed(0)
    runner = cls("MultiInputPolicy", env, **SMALL, **hyperparameters)
    runner.training_params = {"rollout_steps": ROLLOUT, "gradient_steps": 3}
    return runner.learn(rollouts * ROLLOUT * N_ENVS)


def expert_acted(runner: BC) -> list[bool]:
    """Return for each step whether the stored observations follow from acting with the labels."""
    envs = DummyVecEnv([lambda: RobotEnv("pick_and_place", task_params={"horizon": 30})] * N_ENVS)
    envs.seed(0)
    observations, acted = envs.reset(), []
    assert runner.replay_buffer is not None
    for step in range(runner.replay_buffer.pos):
        stored = {name: rows[step] for name, rows in runner.replay_buffer.observations.items()}
        acted.append(all(np.array_equal(observations[name], stored[name]) for name in observations))
        observations = envs.step(runner.replay_buffer.actions[step])[0]
    envs.close()
    return acted


def test_in_behaviour_cloning_the_expert_acts() -> None:
    assert all(expert_acted(trained(BC)))


def test_with_beta_0_the_policy_acts_after_the_first_rollout() -> None:
    acted = expert_acted(trained(DAgger, beta=0.0))
    assert all(acted[: ROLLOUT + 1])
    assert not any(acted[ROLLOUT + 1 :])


def test_labels_are_always_the_actions_of_the_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = []
    act = RobotEnv.expert_action
    monkeypatch.setattr(RobotEnv, "expert_action", lambda env: actions.append(act(env)) or actions[-1])
    runner = trained(DAgger, beta=0.5)
    assert runner.replay_buffer is not None
    labels = runner.replay_buffer.actions[: runner.replay_buffer.pos]
    np.testing.assert_allclose(labels.reshape(len(actions), -1), actions, atol=1e-6)


def test_the_share_of_the_expert_decreases() -> None:
    runner = trained(DAgger, rollouts=3, beta=0.5)
    assert runner.expert_share == 0.5**3
    assert trained(BC, rollouts=1).expert_share == 1.0


def test_new_states_replace_the_oldest() -> None:
    runner = trained(DAgger, rollouts=3, buffer_size=10)
    assert runner.replay_buffer is not None
    assert (runner.replay_buffer.full, runner.replay_buffer.pos) == (True, 3 * ROLLOUT % 5)


@pytest.mark.parametrize("cls", [BC, DAgger])
def test_an_environment_without_an_expert_is_refused(cls: type[BC]) -> None:
    with pytest.raises(ConfigError, match=r"^env: 'DummyVecEnv' .*[^\n]*mygym environments$"):
        cls("MlpPolicy", gymnasium.make("Pendulum-v1"))


# Success ----------------------------------------------------------------------------------------------------


def train(logdir: Path, **config: Any) -> Any:
    quiet = {"video": {"episodes": 0}, "tensorboard": False, "logdir": str(logdir), "stop_at_success": None}
    evaluation = {"every": 10**6, "episodes": 1, "final_episodes": config.pop("episodes", 1)}
    return mygym.train({**quiet, "eval": evaluation, **config})


@pytest.mark.slow
def test_dagger_picks_and_places(tmp_path: Path) -> None:
    result = train(tmp_path, algo="dagger", task="pick_and_place", steps=6_000, episodes=40)
    assert result.success_rate >= 0.85, result.stage_reached


@pytest.mark.parametrize("algo", [pytest.param("bc", marks=pytest.mark.slow), "dagger"])
def test_imitation_reaches(algo: str, tmp_path: Path) -> None:
    result = train(tmp_path, algo=algo, task="reach", steps=1_000, episodes=20)
    assert result.success_rate >= 0.9


SHARED: dict[str, Any] = {"spaces": "shared", "task": "push", "reward": "staged"}
SETTINGS: dict[str, dict[str, Any]] = {
    "joints, normalised": {"control": "joint_delta", "normalize": True, "algo_params": {"policy": "MlpPolicy"}},
    "shared spaces, staged": SHARED,
    "two arms": {"robot": "panda_pair", "workspace": "table", "observations": ["ee_position", "goal_from_ee"]},
}


@pytest.mark.parametrize("more", slow_except(SETTINGS.values(), SETTINGS["joints, normalised"].__eq__), ids=SETTINGS)
def test_the_loss_decreases_in_all_settings(more: dict[str, Any], tmp_path: Path) -> None:
    result = train(tmp_path, algo="dagger", steps=500, **{"task": "reach", **more})
    lines = [line for line in (result.path / "progress.jsonl").read_text().splitlines() if "train/loss" in line]
    losses = [json.loads(line)["train/loss"] for line in lines]
    assert losses[-1] < 0.95 * losses[0]


def test_observations_may_be_flat() -> None:
    env = DummyVecEnv([lambda: RobotEnv("push", goal_env=False)] * N_ENVS)
    runner = DAgger("MlpPolicy", env, **SMALL, beta=0.0).learn(300)
    assert runner.replay_buffer is not None
    assert runner.replay_buffer.observations.shape[2:] == env.observation_space.shape
    assert runner.predict(env.reset())[0].shape == (N_ENVS, 3)


# Policy ----------------------------------------------------------------------------------------------------------


def test_standardized_numbers_have_mean_0_and_deviation_1() -> None:
    rng = np.random.default_rng(0)
    values = torch.as_tensor(rng.normal([5.0, -2.0, 7.0, 0.0], [0.1, 30.0, 0.0, 1e-3], (1000, 4)), dtype=torch.float32)
    standardizer = Standardizer((4,))
    for batch in values.split([1, 8, 500, 491]):
        standardizer.update(batch)
    torch.testing.assert_close(standardizer.mean, values.mean(dim=0))
    standardized = standardizer(values)
    torch.testing.assert_close(standardized[:, :2].mean(dim=0), torch.zeros(2), atol=1e-3, rtol=0)
    torch.testing.assert_close(standardized[:, :2].std(dim=0, correction=0), torch.ones(2), atol=1e-3, rtol=0)
    assert standardized[:, 3].std() == pytest.approx(1e-3 / MIN_STD, rel=0.1)  # noise is not amplified
    assert standardizer(values[0] + 1e6).tolist() == [CLIP, CLIP, 0.0, CLIP]  # a constant number has no effect


def test_images_are_standardised_in_shares_of_255() -> None:
    subspaces = {"camera": spaces.Box(0, 255, (3, 36, 36), np.uint8), "joints": spaces.Box(-1, 1, (4,))}
    policy = ImitationPolicy(spaces.Dict(subspaces), spaces.Box(-1, 1, (2,)), lambda _: 1e-3)
    policy.standardize({"camera": torch.full((2, 3, 36, 36), 51, dtype=torch.uint8), "joints": torch.ones(2, 4)})
    camera = policy.standardizers["camera"]
    assert isinstance(camera, Standardizer)
    torch.testing.assert_close(camera.mean, torch.full((3, 36, 36), 0.2))
    assert policy.standardizers["joints"].mean.tolist() == [1.0] * 4
    assert isinstance(policy.features_extractor, KeypointExtractor)


def test_actions_are_within_their_bounds() -> None:
    low, high = np.array([-2.0, 1.0], np.float32), np.array([-1.0, 5.0], np.float32)
    policy = ImitationPolicy(spaces.Box(-1, 1, (3,)), spaces.Box(low, high), lambda _: 1e-3, net_arch=[8])
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(30.0)
    actions, _ = policy.predict(np.random.default_rng(0).uniform(-1, 1, (100, 3)).astype(np.float32))
    assert (actions >= low).all()
    assert (actions <= high).all()
    assert (np.ptp(actions, axis=0) > 0.9 * (high - low)).all()


def test_the_network_has_the_requested_layers() -> None:
    policy = ImitationPolicy(
        spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,)), lambda _: 0.5, net_arch=[8, 4], activation_fn=torch.nn.SiLU
    )
    assert [type(layer).__name__ for layer in policy.network] == ["Linear", "SiLU", "Linear", "SiLU", "Linear", "Tanh"]
    assert policy.optimizer.param_groups[0]["lr"] == 0.5
