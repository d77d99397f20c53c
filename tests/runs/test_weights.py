"""What a policy's networks weigh, in either framework, and JAX's trees in checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax.core import FrozenDict
from flax.training.train_state import TrainState
from safetensors.torch import load_file

import mygym
from mygym.algos import sbx
from mygym.config import merged
from mygym.errors import RunError
from mygym.registry import register_algorithm
from mygym.runs import factory
from mygym.runs.checkpoints import pytrees, serialization
from mygym.runs.checkpoints.algorithm_state import load_algorithm_state
from mygym.runs.policy import load_policy, save_policy
from mygym.runs.resolve_config import from_python
from mygym.runs.weights import load_weights, parameter_counts, weights
from tests.components import COMBOS, small
from tests.runs.test_resuming import config, differences, stopped


def build(algo: str, framework: str, seed: int = 0) -> Any:
    said = {"algo": algo, "framework": framework, "n_envs": 1, "seed": seed, "algo_params": small(algo, framework)}
    settled = from_python(said).config
    env = factory.make_vec_env(settled)
    try:
        return factory.build_model(settled, env)
    finally:
        env.close()


def actions(model: Any) -> Any:
    rng = np.random.default_rng(0)
    space = model.observation_space
    draw: Callable[[Any], Any] = lambda one: rng.uniform(-1, 1, (5, *one.shape)).astype(np.float32)  # noqa: E731
    seen = {key: draw(one) for key, one in space.spaces.items()} if hasattr(space, "spaces") else draw(space)
    return model.predict(seen, deterministic=True)[0]


JAX = [combo for combo in COMBOS if combo[1] == "jax"]


@pytest.mark.parametrize(("algo", "framework"), [("sac", "pytorch"), ("ars", "pytorch"), *JAX])
def test_weights_are_all_that_acting_needs(algo: str, framework: str, tmp_path: Path) -> None:
    model, other = build(algo, framework), build(algo, framework, seed=1)
    assert all(isinstance(tensor, torch.Tensor) for tensor in weights(model).values())
    if algo != "ars":  # it starts from zeros
        assert not np.array_equal(actions(model), actions(other))
        assert sum(parameter_counts(model).values()) > 100
    save_policy(tmp_path / "policy.safetensors", model, None)
    assert load_file(tmp_path / "policy.safetensors").keys() == weights(model).keys()
    np.testing.assert_array_equal(actions(load_policy(tmp_path / "policy.safetensors", other).model), actions(model))


def without(tensors: dict[str, torch.Tensor], key: str) -> None:
    del tensors[key]


WRONG: dict[str, Callable[[dict[str, torch.Tensor], str], object]] = {
    "one too few": without,
    "one too many": lambda tensors, key: tensors.update(extra=torch.zeros(1)),
    "of another shape": lambda tensors, key: tensors.update({key: tensors[key][:-1]}),
    "of another type": lambda tensors, key: tensors.update({key: tensors[key].double()}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_weights_of_other_networks_are_refused(wrong: str) -> None:
    model = build("sac", "jax")
    tensors, before = weights(model), weights(model)
    WRONG[wrong](tensors, "actor_state.params.params.Dense_0.kernel")
    with pytest.raises(ValueError, match=r"extra|actor_state\.params\.params\.Dense_0\.kernel|float64"):
        load_weights(model, tensors)
    assert all(torch.equal(value, before[key]) for key, value in weights(model).items())


def test_a_policy_of_the_other_framework_is_refused(tmp_path: Path) -> None:
    for one, other in (("pytorch", "jax"), ("jax", "pytorch")):
        save_policy(tmp_path / "policy.safetensors", build("sac", one), None)
        with pytest.raises(RunError, match=r"policy\.safetensors: cannot be loaded") as error:
            load_policy(tmp_path / "policy.safetensors", build("sac", other))
        assert len(str(error.value).splitlines()) == 1


# trees --------------------------------------------------------------------------------------------------------------

ARRAYS: dict[str, Callable[[], Any]] = {
    "float32": lambda: jnp.asarray([1.5, np.nan, -0.0], jnp.float32),
    "bfloat16": lambda: jnp.asarray([[1.1, -3.3]], jnp.bfloat16),
    "float16": lambda: jnp.asarray(7.1, jnp.float16),
    "bool": lambda: jnp.asarray([True, False]),
    "empty": lambda: jnp.zeros((0, 3), jnp.int8),
    "weak": lambda: jnp.asarray(0.1),
    "weak int": lambda: jnp.asarray(3),
    "strong": lambda: jnp.asarray(0.1, jnp.float32),
    "old key": lambda: jax.random.PRNGKey(3),
    "key": lambda: jax.random.key(3),
    "keys of another generator": lambda: jax.random.split(jax.random.key(3, impl="rbg"), 2),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_of_jax_comes_back_to_the_bit(name: str) -> None:
    array = ARRAYS[name]()
    tree = {"it": [array, None, {"again": (array,)}]}
    again = serialization.from_files(serialization.to_files(tree))["it"][2]["again"][0]
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert getattr(again, "weak_type", None) == getattr(array, "weak_type", None)
    assert torch.equal(*(pytrees.to_tensor(one).view(-1).view(torch.uint8) for one in (array, again)))
    if "key" in name and name != "old key":
        assert jax.random.key_impl(again) == jax.random.key_impl(array)


def train_state(width: int = 3) -> TrainState:
    params = {"dense": {"kernel": jnp.ones((2, width)), "bias": jnp.zeros(width)}}
    return TrainState.create(apply_fn=None, params=params, tx=optax.adam(1e-3))


def test_a_tree_is_filled_with_what_fits() -> None:
    own = train_state()
    trained = own.apply_gradients(grads=jax.tree_util.tree_map(jnp.ones_like, own.params))
    filled = pytrees.filled(own, pytrees.leaves(trained))
    assert filled.tx is own.tx
    assert pytrees.leaves(filled).keys() == pytrees.leaves(trained).keys() > {"step", "params.dense.bias"}
    for name, leaf in pytrees.leaves(trained).items():
        np.testing.assert_array_equal(pytrees.leaves(filled)[name], leaf)
    with pytest.raises(ValueError, match=r"params\.dense\.bias is float32\[4\], not float32\[3\]"):
        pytrees.filled(own, {**pytrees.leaves(trained), "params.dense.bias": jnp.zeros(4)})
    keys = {"key": jax.random.key(0), "keys": jax.random.split(jax.random.key(0))}
    assert pytrees.filled(keys, dict(keys))["key"] is keys["key"]
    with pytest.raises(ValueError, match=r"keys is key<rbg>\[2\], not key<fry>\[2\]"):
        pytrees.filled(keys, {**keys, "keys": ARRAYS["keys of another generator"]()})
    with pytest.raises(ValueError, match=r"missing: step; unknown: steps"):
        pytrees.filled(own, {("steps" if key == "step" else key): leaf for key, leaf in pytrees.leaves(own).items()})


def test_what_jax_cannot_name_is_no_tree() -> None:
    endless: list[Any] = [jnp.ones(1)]
    endless.append(endless)
    for value in ({1: jnp.ones(1), "a": jnp.ones(1)}, endless, {"a.b": jnp.ones(1), "a": {"b": jnp.ones(1)}}, {}, 3):
        assert not pytrees.is_tree(value)


class Curious(sbx.SAC):
    """Has state of its own of every kind that JAX has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.own_key = jax.random.key(1)
        self.curiosity = train_state()
        self.ensemble = [train_state(), train_state()]
        self.frozen = FrozenDict({"mean": jnp.zeros(3)})
        self.seen: list[Any] = []

    def train(self, *args: Any, **kwargs: Any) -> None:
        super().train(*args, **kwargs)
        self.own_key, key = jax.random.split(self.own_key)
        grads = jax.tree_util.tree_map(lambda x: jax.random.normal(key, x.shape), self.curiosity.params)
        self.curiosity = self.curiosity.apply_gradients(grads=grads)
        self.ensemble[0] = self.ensemble[0].apply_gradients(grads=grads)
        self.frozen = self.frozen.copy({"mean": self.frozen["mean"] + self.ensemble[0].params["dense"]["bias"]})
        self.seen.append(self.frozen["mean"].sum())
        self.logger.record_mean("train/curiosity", float(self.seen[-1]))


def test_state_of_a_users_own_algorithm_in_jax_goes_on(tmp_path: Path, capsys: Any) -> None:
    register_algorithm("curious", framework="jax")(Curious)
    reference = mygym.train(config("sac", tmp_path / "whole", "jax") | {"algo": "curious"})
    run = stopped(config("sac", tmp_path / "stopped", "jax") | {"algo": "curious"}, step=150)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []
    assert "checkpoints do not hold" not in capsys.readouterr().err


def test_a_state_of_other_networks_is_refused() -> None:
    model, saved = build("td3", "jax"), build("td3", "jax").state_dict()
    for content, words in (
        (merged(saved, {"policy": {"actor_state": {"step": jnp.zeros(2)}}}), r"actor_state of .*step is float32\[2\]"),
        (merged(saved, {"policy": {"squash_output": {"": jnp.zeros(2)}}}), "squash_output of .* holds no arrays"),
    ):
        with pytest.raises(ValueError, match=words):
            load_algorithm_state(model, content)


@pytest.mark.parametrize("algo", [algo for algo, _ in JAX])
def test_every_learning_rate_follows_its_schedule(algo: str) -> None:
    params = small(algo, "jax") | ({"n_steps": 32} if algo == "ppo" else {"learning_starts": 10})
    said = {"algo": algo, "framework": "jax", "n_envs": 1, "reward": "dense", "normalize": False}
    settled = from_python({**said, "algo_params": {**params, "qf_learning_rate": None} if algo == "ddpg" else params})
    env = factory.make_vec_env(settled.config)
    model = factory.build_model(settled.config, env)
    rates: list[float] = []
    model.lr_schedule = lambda remaining: rates.append(1e-3 * (1 + remaining)) or rates[-1]
    model.learn(96)
    env.close()
    trained = {**vars(model.policy), "ent_coef_state": getattr(model, "ent_coef_state", None)}
    states = {name: one for name, one in trained.items() if name.endswith("_state") and one is not None}
    assert states
    for name, one in states.items():
        inner = one.opt_state[1] if algo == "ppo" else one.opt_state
        assert float(inner.hyperparams["learning_rate"]) == pytest.approx(rates[-1]), name
    assert rates[-1] < 1.5e-3
