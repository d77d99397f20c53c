"""A saved policy acts as the trained one did, normaliser included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mygym.errors import RunError
from mygym.runs import building
from mygym.runs.policy import Policy, load_policy, normalizer_of, save_policy
from mygym.runs.settings import from_python
from tests.components import small


def build(algo: str, normalize: bool) -> tuple[Any, Any]:
    """A model and its environment, which have seen a hundred steps."""
    config = from_python({"algo": algo, "n_envs": 2, "normalize": normalize, "algo_params": small(algo)}).config
    env = building.make_vec_env(config)
    model = building.build_model(config, env)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(100):
        env.step(rng.uniform(-1, 1, (2, 3)).astype(np.float32))
    return model, env


@pytest.mark.parametrize("algo", ["ppo", "ars", "sac"])
@pytest.mark.parametrize("normalize", [True, False])
def test_a_policy_sees_what_the_model_saw_in_training(algo: str, normalize: bool, tmp_path: Path) -> None:
    model, env = build(algo, normalize)
    with torch.no_grad():  # weights that matter
        for parameter in model.policy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    raw = env.env_method("reset", seed=5, indices=0)[0][0]
    seen = env.normalize_obs(raw) if normalize else raw
    expected, _ = model.predict(seen, deterministic=True)
    policy = Policy(model, normalizer_of(env))
    np.testing.assert_array_equal(policy.predict(raw)[0], expected)
    save_policy(tmp_path / "policy.safetensors", model, normalizer_of(env))
    other, other_env = build(algo, False)
    np.testing.assert_array_equal(load_policy(tmp_path / "policy.safetensors", other).predict(raw)[0], expected)
    env.close()
    other_env.close()


def test_a_policy_of_another_network_is_refused(tmp_path: Path) -> None:
    (model, env), (other, other_env) = build("sac", False), build("ppo", False)
    save_policy(tmp_path / "policy.safetensors", model, None)
    with pytest.raises(RunError, match=r"policy\.safetensors"):
        load_policy(tmp_path / "policy.safetensors", other)
    env.close()
    other_env.close()
