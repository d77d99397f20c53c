"""Saved policies: loading, normaliser, damaged and third-party files."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mygym.algos.stable_baselines import PPO, SAC
from mygym.errors import ConfigError, RunError
from mygym.planning.resolve import from_python
from mygym.training import env_factory, model_factory
from mygym.training.checkpoints import serialization
from mygym.training.files import write_yaml
from mygym.training.loading import load
from mygym.training.policy import Policy, load_policy, normalizer_of, open_model, save_policy
from tests.components import small, wrong_observations


def build(algo: str, normalize: bool) -> tuple[Any, Any]:
    """Return a model and its environment after a hundred steps."""
    config = from_python({"algo": algo, "n_envs": 2, "normalize": normalize, "algo_params": small(algo)}).config
    env = env_factory.make_vec_env(config)
    model = model_factory.build_model(config, env)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(100):
        env.step(rng.uniform(-1, 1, (2, 3)).astype(np.float32))
    return model, env


@pytest.mark.parametrize("algo", ["ppo", "ars", "sac"])
@pytest.mark.parametrize("normalize", [True, False])
def test_policy_normalises_as_in_training(algo: str, normalize: bool, tmp_path: Path) -> None:
    model, env = build(algo, normalize)
    with torch.no_grad():  # non-trivial weights
        for parameter in model.policy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    raw = env.env_method("reset", seed=5, indices=0)[0][0]
    observations = env.normalize_obs(raw) if normalize else raw
    expected, _ = model.predict(observations, deterministic=True)
    policy = Policy(model, normalizer_of(env))
    np.testing.assert_array_equal(policy.predict(raw)[0], expected)
    save_policy(tmp_path / "policy.safetensors", model, normalizer_of(env))
    other, other_env = build(algo, False)
    np.testing.assert_array_equal(load_policy(tmp_path / "policy.safetensors", other).predict(raw)[0], expected)
    env.close()
    other_env.close()


@pytest.mark.parametrize("algo", ["ppo", "ars"])
def test_a_wrong_observation_is_refused(algo: str) -> None:
    model, env = build(algo, True)
    policy, space = Policy(model, normalizer_of(env)), env.observation_space
    env.close()
    for wrong, words in wrong_observations(space.sample()):
        with pytest.raises(ConfigError) as error:
            policy.predict(wrong)
        assert all(word in str(error.value) for word in ("observation", "allowed: ", *words)), error.value


@pytest.mark.parametrize(
    ("algo", "framework"),
    [
        *((algo, "pytorch") for algo in ("sac", "ppo", "recurrent_ppo", "cem")),
        *(pytest.param(algo, "jax", marks=pytest.mark.slow) for algo in ("sac", "ppo")),
    ],
)
def test_a_loaded_policy_can_be_pickled(algo: str, framework: str, tmp_path: Path) -> None:
    """For other processes, e.g. of a search."""
    params = small(algo, framework)
    resolved = from_python({"algo": algo, "framework": framework, "n_envs": 1, "algo_params": params})
    with contextlib.closing(env_factory.make_vec_env(resolved.config)) as env:
        save_policy(
            tmp_path / "policy.safetensors", model_factory.build_model(resolved.config, env), normalizer_of(env)
        )
        observations = env.reset()
    write_yaml(tmp_path / "config.yaml", resolved.values())
    policy = load(tmp_path)
    copied = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(copied.predict(observations)[0], policy.predict(observations)[0])


def test_policy_of_another_network_is_refused(tmp_path: Path) -> None:
    (model, env), (other, other_env) = build("sac", False), build("ppo", False)
    save_policy(tmp_path / "policy.safetensors", model, None)
    with pytest.raises(RunError, match=r"policy\.safetensors"):
        load_policy(tmp_path / "policy.safetensors", other)
    env.close()
    other_env.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """Return a model and the folder of its files, as a run writes them."""
    folder = tmp_path_factory.mktemp("run")
    model, env = build("ppo", True)
    save_policy(folder / "policy.safetensors", model, normalizer_of(env))
    model.save(folder / "model.zip")
    serialization.record(folder / "model.zip")
    yield model, folder
    env.close()


Tensors = dict[str, torch.Tensor]


def changed(path: Path, change: Callable[[Tensors], object], metadata: Any = None) -> None:
    tensors = load_file(path)
    counts = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), 5.0)
    change(tensors)
    save_file(tensors, path, {"normalizer": json.dumps(counts if metadata is None else metadata)})


def put(name: str, value: Any) -> Callable[[Tensors], object]:
    """Return a function that sets the first number of a tensor, or the tensor."""

    def change(tensors: Tensors) -> None:
        if isinstance(value, torch.Tensor):
            tensors[name] = value
        else:
            tensors[name].view(-1)[0] = value

    return change


WEIGHT, MEAN, VAR = "action_net.weight", "normalizer.observation.mean", "normalizer.desired_goal.var"
WRONG: dict[str, tuple[Callable[[Tensors], object], Any]] = {
    "not a number": (put(WEIGHT, float("nan")), None),
    "infinite": (put(WEIGHT, float("-inf")), None),
    "mean not a number": (put(MEAN, float("nan")), None),
    "negative variance": (put(VAR, -1.0), None),
    "normaliser of different observations": (put(MEAN, torch.zeros(2, dtype=torch.float64)), None),
    "normaliser of a type that numpy lacks": (put(MEAN, torch.zeros(3, dtype=torch.bfloat16)), None),
    **{
        f"{name} as {dtype}": (
            lambda tensors, name=name, dtype=dtype: tensors.update({name: tensors[name].to(dtype)}),
            None,
        )
        for name in (WEIGHT, MEAN, VAR)
        for dtype in (torch.int8, torch.bool, torch.complex64)
    },
    "weight in half precision": (lambda tensors: tensors.update({WEIGHT: tensors[WEIGHT].half()}), None),
    "missing variance": (lambda tensors: tensors.pop(VAR), None),
    "missing array": (lambda tensors: (tensors.pop(VAR), tensors.pop(VAR.replace("var", "mean"))), {"observation": 1}),
    "empty list of arrays": (lambda tensors: None, {}),
    "invalid list of arrays": (lambda tensors: None, ["observation"]),
    "additional tensor": (put("extra", torch.zeros(2)), None),
    "missing tensor": (lambda tensors: tensors.pop(WEIGHT), None),
    "another shape": (put(WEIGHT, torch.zeros(2)), None),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_policy_file_is_refused(name: str, saved: Any, tmp_path: Path) -> None:
    model, folder = saved
    path = tmp_path / "policy.safetensors"
    path.write_bytes((folder / "policy.safetensors").read_bytes())
    load_policy(path, model)
    changed(path, lambda tensors: None)
    load_policy(path, model)
    changed(path, *WRONG[name])
    with pytest.raises(RunError, match=r"policy\.safetensors: cannot be loaded") as error:
        load_policy(path, model)
    assert len(str(error.value).splitlines()) == 1


def pipe(path: Path) -> None:
    os.mkfifo(path)


def deep(path: Path) -> None:
    save_file({"x": torch.zeros(1)}, path, {"normalizer": "[" * 100_000})


@pytest.mark.parametrize("make", [pipe, Path.mkdir, lambda path: path.symlink_to("nowhere"), deep, lambda path: None])
def test_special_files_are_refused(make: Callable[[Path], object], saved: Any, tmp_path: Path) -> None:
    make(tmp_path / "policy.safetensors")
    with pytest.raises(RunError, match=r"policy\.safetensors: cannot be loaded"):
        load_policy(tmp_path / "policy.safetensors", saved[0])


def test_damage_is_refused_or_gives_finite_weights(saved: Any, tmp_path: Path) -> None:
    model, folder = saved
    whole, rng, path = (folder / "policy.safetensors").read_bytes(), random.Random(0), tmp_path / "policy.safetensors"
    header = 8 + int.from_bytes(whole[:8], "little")
    refused: list[str] = []
    for number in range(150):
        damaged = bytearray(whole)
        damaged[rng.randrange(header if number % 2 else len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged[: rng.randrange(len(whole))] if number % 5 == 0 else damaged)
        try:
            policy = load_policy(path, model)
        except RunError as error:
            refused.append(str(error))
            continue
        assert all(torch.isfinite(value).all() for value in policy.model.policy.state_dict().values())
    assert all(str(path) in message for message in refused)
    assert 75 < len(refused) < 150


def test_sb3_file_is_opened_if_it_has_a_receipt_or_is_trusted(saved: Any, tmp_path: Path) -> None:
    model, folder = saved
    raw = {key: np.full(space.shape, 0.3, np.float32) for key, space in model.observation_space.spaces.items()}
    expected, _ = load_policy(folder / "policy.safetensors", model).predict(raw)
    np.testing.assert_array_equal(open_model(folder / "model.zip", PPO, trust=False).predict(raw)[0], expected)
    for name in ("model.zip", "policy.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(ConfigError, match="--trust"):
        open_model(tmp_path / "model.zip", PPO, trust=False)
    np.testing.assert_array_equal(open_model(tmp_path / "model.zip", PPO, trust=True).predict(raw)[0], expected)
    with pytest.raises(RunError, match=r"model\.zip: cannot be loaded"):
        open_model(tmp_path / "model.zip", SAC, trust=True)
    (tmp_path / "policy.safetensors").unlink()
    with pytest.raises(RunError, match=r"policy\.safetensors: cannot be loaded"):
        open_model(tmp_path / "model.zip", PPO, trust=True)
    (tmp_path / "model.zip").write_bytes(b"no zip")
    with pytest.raises(RunError, match=r"model\.zip: cannot be loaded"):
        open_model(tmp_path / "model.zip", PPO, trust=True)
