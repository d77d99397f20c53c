"""Weights of policies in both frameworks, and JAX trees in checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mygym
from mygym.config import merged
from mygym.errors import RunError
from mygym.planning.resolve import from_python
from mygym.registry import register_algorithm
from mygym.training import env_factory, model_factory
from mygym.training.checkpoints import serialization
from mygym.training.checkpoints.states import algorithm_state, load_algorithm_state
from mygym.training.policy import load_policy, load_weights, parameter_counts, save_policy, weights
from tests.components import COMBOS, slow_except, small
from tests.training.test_resuming import config, differences, stopped


def build(algo: str, framework: str, seed: int = 0) -> Any:
    values = {"algo": algo, "framework": framework, "n_envs": 1, "seed": seed, "algo_params": small(algo, framework)}
    resolved = from_python(values).config
    env = env_factory.make_vec_env(resolved)
    try:
        return model_factory.build_model(resolved, env)
    finally:
        env.close()


def actions(model: Any) -> Any:
    rng = np.random.default_rng(0)
    space = model.observation_space
    draw: Callable[[Any], Any] = lambda subspace: rng.uniform(-1, 1, (5, *subspace.shape)).astype(np.float32)  # noqa: E731
    observations = (
        {key: draw(subspace) for key, subspace in space.spaces.items()} if hasattr(space, "spaces") else draw(space)
    )
    return model.predict(observations, deterministic=True)[0]


@pytest.fixture(scope="module")
def built() -> Callable[[str], Any]:
    """Return a function that builds SAC in a framework once, for tests that leave it as it is."""
    return cache(lambda framework: build("sac", framework))


JAX = [combo for combo in COMBOS if combo[1] == "jax"]


@pytest.mark.parametrize(
    ("algo", "framework"),
    [("sac", "pytorch"), ("ars", "pytorch"), *slow_except(JAX, {("sac", "jax"), ("ppo", "jax")}.__contains__)],
)
def test_weights_determine_the_actions(algo: str, framework: str, tmp_path: Path) -> None:
    model, other = build(algo, framework), build(algo, framework, seed=1)
    assert all(isinstance(tensor, torch.Tensor) for tensor in weights(model).values())
    if algo != "ars":  # its weights start at zero
        assert not np.array_equal(actions(model), actions(other))
        assert sum(parameter_counts(model).values()) > 100
    save_policy(tmp_path / "policy.safetensors", model, None)
    assert load_file(tmp_path / "policy.safetensors").keys() == weights(model).keys()
    np.testing.assert_array_equal(actions(load_policy(tmp_path / "policy.safetensors", other).model), actions(model))


def without(tensors: dict[str, torch.Tensor], key: str) -> None:
    del tensors[key]


WRONG: dict[str, Callable[[dict[str, torch.Tensor], str], object]] = {
    "missing tensor": without,
    "additional tensor": lambda tensors, key: tensors.update(extra=torch.zeros(1)),
    "wrong shape": lambda tensors, key: tensors.update({key: tensors[key][:-1]}),
    "wrong type": lambda tensors, key: tensors.update({key: tensors[key].double()}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_weights_of_other_networks_are_refused(wrong: str, built: Callable[[str], Any]) -> None:
    model = built("jax")
    tensors, before = weights(model), weights(model)
    WRONG[wrong](tensors, "actor_state.params.params.Dense_0.kernel")
    with pytest.raises(ValueError, match=r"extra|actor_state\.params\.params\.Dense_0\.kernel|float64"):
        load_weights(model, tensors)
    assert all(torch.equal(value, before[key]) for key, value in weights(model).items())


def test_policy_of_the_other_framework_is_refused(built: Callable[[str], Any], tmp_path: Path) -> None:
    for saved, loaded in (("pytorch", "jax"), ("jax", "pytorch")):
        save_policy(tmp_path / "policy.safetensors", built(saved), None)
        with pytest.raises(RunError, match=r"policy\.safetensors: cannot be loaded") as error:
            load_policy(tmp_path / "policy.safetensors", built(loaded))
        assert len(str(error.value).splitlines()) == 1


# Trees --------------------------------------------------------------------------------------------------------------

ARRAYS: dict[str, Callable[[Any], Any]] = {
    "float32": lambda jax: jax.numpy.asarray([1.5, np.nan, -0.0], jax.numpy.float32),
    "bfloat16": lambda jax: jax.numpy.asarray([[1.1, -3.3]], jax.numpy.bfloat16),
    "float16": lambda jax: jax.numpy.asarray(7.1, jax.numpy.float16),
    "bool": lambda jax: jax.numpy.asarray([True, False]),
    "empty": lambda jax: jax.numpy.zeros((0, 3), jax.numpy.int8),
    "weak": lambda jax: jax.numpy.asarray(0.1),
    "weak int": lambda jax: jax.numpy.asarray(3),
    "strong": lambda jax: jax.numpy.asarray(0.1, jax.numpy.float32),
    "old key": lambda jax: jax.random.PRNGKey(3),
    "key": lambda jax: jax.random.key(3),
    "keys of another generator": lambda jax: jax.random.split(jax.random.key(3, impl="rbg"), 2),
}
"""Name → array, made with the package; it is imported when a test runs, not when tests are collected."""


@pytest.mark.parametrize("name", ARRAYS)
def test_jax_arrays_are_restored_bit_by_bit(name: str) -> None:
    import jax

    array = ARRAYS[name](jax)
    tree = {"list": [array, None, {"nested": (array,)}]}
    again = serialization.from_files(serialization.to_files(tree))["list"][2]["nested"][0]
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert getattr(again, "weak_type", None) == getattr(array, "weak_type", None)
    assert torch.equal(*(serialization.to_tensor(each).view(-1).view(torch.uint8) for each in (array, again)))
    if "key" in name and name != "old key":
        assert jax.random.key_impl(again) == jax.random.key_impl(array)


def train_state(width: int = 3) -> Any:
    """Return a `TrainState` of flax."""
    import jax.numpy as jnp
    import optax
    from flax.training.train_state import TrainState

    params = {"dense": {"kernel": jnp.ones((2, width)), "bias": jnp.zeros(width)}}
    return TrainState.create(apply_fn=None, params=params, tx=optax.adam(1e-3))


def test_filled_checks_names_shapes_and_types() -> None:
    import jax
    import jax.numpy as jnp

    tree = train_state()
    trained = tree.apply_gradients(grads=jax.tree_util.tree_map(jnp.ones_like, tree.params))
    filled = serialization.filled(tree, serialization.leaves(trained))
    assert filled.tx is tree.tx
    assert serialization.leaves(filled).keys() == serialization.leaves(trained).keys() > {"step", "params.dense.bias"}
    for name, leaf in serialization.leaves(trained).items():
        np.testing.assert_array_equal(serialization.leaves(filled)[name], leaf)
    with pytest.raises(ValueError, match=r"params\.dense\.bias is float32\[4\], not float32\[3\]"):
        serialization.filled(tree, {**serialization.leaves(trained), "params.dense.bias": jnp.zeros(4)})
    keys = {"key": jax.random.key(0), "keys": jax.random.split(jax.random.key(0))}
    assert serialization.filled(keys, dict(keys))["key"] is keys["key"]
    with pytest.raises(ValueError, match=r"keys is key<rbg>\[2\], not key<fry>\[2\]"):
        serialization.filled(keys, {**keys, "keys": ARRAYS["keys of another generator"](jax)})
    with pytest.raises(ValueError, match=r"missing: step; unknown: steps"):
        serialization.filled(
            tree, {("steps" if key == "step" else key): leaf for key, leaf in serialization.leaves(tree).items()}
        )


def test_trees_without_unique_names_are_refused() -> None:
    import jax.numpy as jnp

    cyclic: list[Any] = [jnp.ones(1)]
    cyclic.append(cyclic)
    for value in ({1: jnp.ones(1), "a": jnp.ones(1)}, cyclic, {"a.b": jnp.ones(1), "a": {"b": jnp.ones(1)}}, {}, 3):
        assert not serialization.is_tree(value)


def curious() -> type:
    """Return an algorithm with additional state of every kind that JAX has."""
    import jax
    import jax.numpy as jnp
    from flax.core import FrozenDict

    from mygym.algos import sbx

    class Curious(sbx.SAC):
        """Soft actor-critic with such state."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.extra_key = jax.random.key(1)
            self.curiosity = train_state()
            self.ensemble = [train_state(), train_state()]
            self.frozen = FrozenDict({"mean": jnp.zeros(3)})
            self.history: list[Any] = []

        def train(self, *args: Any, **kwargs: Any) -> None:
            super().train(*args, **kwargs)
            self.extra_key, key = jax.random.split(self.extra_key)
            grads = jax.tree_util.tree_map(lambda x: jax.random.normal(key, x.shape), self.curiosity.params)
            self.curiosity = self.curiosity.apply_gradients(grads=grads)
            self.ensemble[0] = self.ensemble[0].apply_gradients(grads=grads)
            self.frozen = self.frozen.copy({"mean": self.frozen["mean"] + self.ensemble[0].params["dense"]["bias"]})
            self.history.append(self.frozen["mean"].sum())
            self.logger.record_mean("train/curiosity", float(self.history[-1]))

    return Curious


@pytest.mark.slow
def test_custom_jax_algorithm_resumes(tmp_path: Path, capsys: Any) -> None:
    register_algorithm("curious", framework="jax")(curious())
    reference = mygym.train(config("sac", tmp_path / "whole", "jax", steps=160) | {"algo": "curious"})
    run = stopped(config("sac", tmp_path / "stopped", "jax", steps=160) | {"algo": "curious"}, step=130)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []
    assert "checkpoints do not hold" not in capsys.readouterr().err


def test_random_keys_and_counters_of_jax_are_restored() -> None:
    import jax
    import jax.numpy as jnp

    model, other = build("sac", "jax"), build("sac", "jax")
    model.policy.noise_key, model.reset_idx = jax.random.split(model.policy.noise_key)[1], 3
    load_algorithm_state(other, algorithm_state(model))
    assert jnp.array_equal(other.policy.noise_key, model.policy.noise_key)
    assert other.reset_idx == 3


def test_state_of_other_networks_is_refused(built: Callable[[str], Any]) -> None:
    import jax.numpy as jnp

    model, saved = build("sac", "jax"), built("jax").state_dict()
    for content, words in (
        (merged(saved, {"policy": {"actor_state": {"step": jnp.zeros(2)}}}), r"actor_state of .*step is float32\[2\]"),
        (merged(saved, {"policy": {"squash_output": {"": jnp.zeros(2)}}}), "squash_output of .* holds no JAX arrays"),
    ):
        with pytest.raises(ValueError, match=words):
            load_algorithm_state(model, content)


@pytest.mark.parametrize("algo", slow_except([algo for algo, _ in JAX if algo != "ppo"], ("sac", "td3").__contains__))
def test_every_optimiser_has_an_adjustable_learning_rate(algo: str) -> None:
    model = build(algo, "jax")
    states = {**vars(model.policy), "ent_coef_state": getattr(model, "ent_coef_state", None)}
    trained = {name: state for name, state in states.items() if name.endswith("_state") and state is not None}
    assert trained
    assert all("learning_rate" in state.opt_state.hyperparams for state in trained.values())


@pytest.mark.parametrize("algo", slow_except([algo for algo, _ in JAX], ("sac",).__contains__))
def test_every_learning_rate_follows_its_schedule(algo: str) -> None:
    params = small(algo, "jax") | ({"n_steps": 32} if algo == "ppo" else {"learning_starts": 10})
    values = {"algo": algo, "framework": "jax", "n_envs": 1, "reward": "dense", "normalize": False}
    resolved = from_python(
        {**values, "algo_params": {**params, "qf_learning_rate": None} if algo == "ddpg" else params}
    )
    env = env_factory.make_vec_env(resolved.config)
    model = model_factory.build_model(resolved.config, env)
    rates: list[float] = []
    model.lr_schedule = lambda remaining: rates.append(1e-3 * (1 + remaining)) or rates[-1]
    model.learn(96)
    env.close()
    trained = {**vars(model.policy), "ent_coef_state": getattr(model, "ent_coef_state", None)}
    states = {name: state for name, state in trained.items() if name.endswith("_state") and state is not None}
    assert states
    for name, state in states.items():
        inner = state.opt_state[1] if algo == "ppo" else state.opt_state
        assert float(inner.hyperparams["learning_rate"]) == pytest.approx(rates[-1]), name
    assert rates[-1] < 1.5e-3
