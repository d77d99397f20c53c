"""The fused engine in Gymnasium: `gymnasium.make_vec`, numpy and torch, ends of episodes, refusals."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from torch.utils._python_dispatch import TorchDispatchMode

from mygym.engines.arrays import to_numpy
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.errors import ConfigError

ID = "mygym-fused/Reach-v0"


def make(count: int, **keywords: Any) -> Any:
    return gymnasium.make_vec(ID, num_envs=count, **keywords)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_steps_equal_those_of_the_vector_environment_of_sb3(output: str) -> None:
    env, reference = make(6, output=output), BatchVecEnv({"task": "reach"}, 6)
    reference.seed(3)
    expected = reference.reset()
    observations, infos = env.reset(seed=3)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(40):
        for key, value in observations.items():
            assert isinstance(value, torch.Tensor if output == "torch" else np.ndarray)
            assert env.observation_space[key].contains(to_numpy(value))
            np.testing.assert_allclose(to_numpy(value), expected[key], atol=1e-5)
        actions = np.where(
            rng.random((6, 1)) < 0.3, rng.uniform(-1, 1, (6, 3)), to_numpy(env.unwrapped.expert_action())
        )
        observations, rewards, terminated, truncated, infos = env.step(actions)
        expected, expected_rewards, ended, expected_infos = reference.step(actions)
        np.testing.assert_allclose(to_numpy(rewards), expected_rewards, atol=1e-5)
        assert to_numpy(terminated | truncated).tolist() == ended.tolist()
        assert ("final_obs" in infos) == ended.any()
        for index in np.flatnonzero(ended).tolist():
            ends += 1
            assert bool(infos["final_info"]["is_success"][index]) == expected_infos[index]["is_success"]
            assert int(infos["final_info"]["elapsed_steps"][index]) == expected_infos[index]["elapsed_steps"]
            assert int(infos["elapsed_steps"][index]) == 0
            last = expected_infos[index]["terminal_observation"]
            for key, value in infos["final_obs"].items():
                np.testing.assert_allclose(to_numpy(value)[index], last[key], atol=1e-5)
    assert ends > 6


class CountOperations(TorchDispatchMode):
    """Counts the operations of torch within the context."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **kwargs or {})


def test_tensors_on_the_cpu_are_not_computed_by_torch() -> None:
    """Torch has threads for each of hundreds of small operations, which made a step ten times slower."""
    env, reference = make(6, output="torch"), make(6)
    env.reset(seed=3)
    reference.reset(seed=3)
    actions = torch.zeros(6, 3)
    with CountOperations() as operations:
        steps = [env.step(actions) for _ in range(30)]
    assert operations.count < 30 * len(steps)
    for observations, *values, infos in steps:
        expected, *expected_values, expected_infos = reference.step(actions.numpy())
        for key, value in observations.items():
            np.testing.assert_array_equal(value, expected[key])
        for value, other in zip(values, expected_values, strict=True):
            assert isinstance(value, torch.Tensor)
            np.testing.assert_array_equal(value, other)
        assert infos.keys() == expected_infos.keys()


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_the_caller_may_change_observations(output: str) -> None:
    env, reference, actions = make(3, output=output), make(3), np.zeros((3, 3), np.float32)
    reference.reset(seed=3)
    for value in env.reset(seed=3)[0].values():
        value += 1.0
    for value in env.step(actions)[0].values():
        value += 1.0
    reference.step(actions)
    observations, rewards, *_ = env.step(actions)
    expected, expected_rewards, *_ = reference.step(actions)
    for key, value in observations.items():
        np.testing.assert_array_equal(value, expected[key])
    np.testing.assert_array_equal(rewards, expected_rewards)


def test_gymnasium_knows_when_episodes_end() -> None:
    env = RecordEpisodeStatistics(make(4, goal_env=False))
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    for _ in range(30):
        env.step(env.unwrapped.expert_action())
    assert len(env.length_queue) > 4
    assert max(env.length_queue) < 25


def test_seeds_decide_the_episodes() -> None:
    def goals(seed: Any) -> Any:
        return make(3).reset(seed=seed)[0]["desired_goal"]

    np.testing.assert_array_equal(goals(5), goals([5, 6, 7]))
    assert not np.array_equal(goals(5), goals(6))
    assert not np.array_equal(goals(None), goals(None))


@pytest.mark.parametrize(
    ("name", "keywords", "key"),
    [
        ("mygym-fused/Stack-v0", {}, "task"),
        (ID, {"robot": "baxter"}, "robot"),
        (ID, {"output": "jax"}, "output"),
        (ID, {"device": "cuda"}, "device"),
        (ID, {"device": "nonsense", "output": "torch"}, "device"),
    ],
)
def test_the_error_names_the_key(name: str, keywords: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}"):
        gymnasium.make_vec(name, num_envs=2, **keywords)


def test_environments_that_do_not_fit_into_memory_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^num_envs: 1000000000000 needs 3200000\.0 GB .*allowed: at most [\d,]+$"):
        make(10**12)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^device: 'cuda'"):
        make(2, device="cuda", output="torch")
