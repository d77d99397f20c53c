"""Observations that only critics see: content, networks, exports, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch

import mygym
from mygym.config import config_hash
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RegistryError
from mygym.exporting.export import export
from mygym.exporting.exported_policy import ExportedPolicy
from mygym.planning.plan import plan_from_python
from mygym.planning.resolve import resolve_config
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from tests.exporting.test_export import save_run

SMALL: dict[str, Any] = {
    "task": "push",
    "observations": ["image", "ee_position"],
    "critic_observations": ["object_position", "joint_position"],
    "image_params": {"width": 20, "height": 16},
    "algo_params": {"policy_kwargs": {"net_arch": [16], "features_extractor_class": "keypoints"}},
    "n_envs": 1,
    "steps": 1000,
}


def test_a_critic_observes_the_exact_state_and_the_goal_that_an_image_shows() -> None:
    noise = {"observation_noise": [0.05, 0.05]}
    names = {"observations": ["image", "object_position"], "critic_observations": ["object_position"]}
    env = RobotEnv("push", **names, randomize=noise, image_params={"width": 16, "height": 16})
    env.reset(seed=1)
    for _ in range(3):
        observation = env.step(np.full(env.action_space.shape, 0.5))[0]
        assert observation in env.observation_space
        assert isinstance(observation, dict)
        state = env.world.state.object_position[0, 0]
        np.testing.assert_allclose(observation["critic"], [*state, *state, *env.goals[0, 0]], atol=1e-6)
        assert np.abs(observation["observation"] - state).max() > 1e-3
    env.close()


@pytest.mark.parametrize(
    ("arguments", "keys", "size"),
    [
        ({}, {"observation", "achieved_goal", "desired_goal", "critic"}, 3),
        ({"goal_env": False}, {"observation", "critic"}, 3),
        ({"observations": ["image"]}, {"image", "critic"}, 9),
        (
            {"observations": ["image"], "image_params": {"goal": "vector"}},
            {"image", "achieved_goal", "desired_goal", "critic"},
            3,
        ),
    ],
)
def test_a_critic_observes_goals_only_if_nothing_else_has_them(
    arguments: dict[str, Any], keys: set[str], size: int
) -> None:
    env = RobotEnv("push", critic_observations=["object_position"], **arguments)
    observation, _ = env.reset(seed=0)
    assert isinstance(observation, dict)
    assert set(observation) == keys
    assert observation["critic"].shape == (size,)
    assert observation in env.observation_space
    env.close()


@pytest.mark.parametrize("algo", ["ddpg", "sac", "td3", "tqc"])
def test_an_actor_sees_images_and_a_critic_the_state(algo: str) -> None:
    env = make_vec_env(plan := plan_from_python({**SMALL, "algo": algo}))
    policy = build_model(plan, env).policy
    seen, _ = policy.obs_to_tensor(env.reset())

    def output(changes: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            given = {**seen, **changes}
            values = policy.critic(given, torch.zeros(1, policy.action_space.shape[0]))
            return policy._predict(given, deterministic=True), torch.cat(list(values))

    action, value = output({})
    for key in seen:
        other_action, other_value = output({key: 255 - seen[key] if key == "image" else seen[key] + 0.3})
        assert torch.equal(other_action, action) == (key == "critic")
        assert torch.equal(other_value, value) == (key == "image")
    policy.load_state_dict(policy.state_dict())
    env.close()


def test_without_a_critics_vector_the_networks_are_those_of_stable_baselines3() -> None:
    env = make_vec_env(plan := plan_from_python({"algo": "sac", "task": "reach", "n_envs": 1}))
    model = build_model(plan, env)
    reference = sb3.SAC("MultiInputPolicy", env, policy_kwargs=model.policy_kwargs)
    assert {name: tensor.shape for name, tensor in model.policy.state_dict().items()} == {
        name: tensor.shape for name, tensor in reference.policy.state_dict().items()
    }
    env.close()


def test_an_exported_policy_does_not_take_the_critics_vector(tmp_path: Path) -> None:
    run = save_run(tmp_path, {**SMALL, "algo": "sac", "normalize": True, "task_params": {"horizon": 5}})
    exported = ExportedPolicy(export(run).path)
    assert set(exported.description["observation"]) == {"image", "observation"}
    with mygym.make_env(run) as env:
        exported.check_observations(env.observation_space)
        observation, _ = env.reset(seed=0)
        action, _ = exported.predict(observation)
        again, _ = exported.predict({key: values for key, values in observation.items() if key != "critic"})
    np.testing.assert_array_equal(action, again)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algo": "ppo"}, ["critic_observations: ['object_position'", "ppo of pytorch", "ddpg, sac, td3, tqc"]),
        ({"algo": "dagger"}, ["critic_observations", "dagger of pytorch"]),
        ({"framework": "jax", "observations": None}, ["critic_observations", "sac of jax"]),
        ({"strategy": "mixture"}, ["critic_observations", "strategy mixture"]),
        (
            {"algo_params": {"policy_kwargs": {"share_features_extractor": True}}},
            ["algo_params.policy_kwargs.share_features_extractor: True", "false"],
        ),
        ({"critic_observations": ["boxes"]}, ["critic_observations: 'boxes'", "components without a camera"]),
        ({"critic_observations": ["object_positon"]}, ["critic_observations", "did you mean 'object_position'"]),
        ({"critic_observations": ["stage", "stage"]}, ["critic_observations", "each name once"]),
        (
            {"critic_observations": ["goal_from_object"], "observations": None, "her": True},
            ["her: True", "cannot relabel goal_from_object"],
        ),
    ],
)
def test_mistakes(changes: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    settings = {**SMALL, "algo": "sac", "logdir": str(tmp_path / "runs"), "image_params": {}, "algo_params": {}}
    with pytest.raises((ConfigError, RegistryError)) as error:
        mygym.train({**settings, **changes})
    for word in words:
        assert word in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_the_hash_of_a_config_without_critic_observations_is_as_before() -> None:
    values = resolve_config({}).values()
    before = {key: value for key, value in values.items() if key != "critic_observations"}
    assert config_hash(before) == config_hash(values)
    assert config_hash({**values, "critic_observations": ["stage"]}) != config_hash(values)
