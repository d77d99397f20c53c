"""`algo_params`: every name, type and range is checked against the class before anything is built."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mygym.config import merged
from mygym.config.hyperparameters import Schema
from mygym.config.parameter_checks import INNER, RANGES, range_of, training_parameters
from mygym.errors import ConfigError
from mygym.registry import algorithm
from mygym.training.runner import Runner
from tests.components import ALGORITHMS


def known(name: str) -> list[str]:
    return list(Schema(algorithm(name), {}).known)


def check(name: str, values: dict[str, Any]) -> None:
    Schema(algorithm(name), values).check(values)


def test_the_defaults_that_an_algorithm_ships_with_are_allowed() -> None:
    for name in ALGORITHMS:
        schema = Schema(algorithm(name), {})
        schema.check_registration()
        schema.check(schema.registered())
        schema.check(schema.defaults())


def test_arguments_of_the_run_are_not_hyperparameters() -> None:
    for name in ALGORITHMS:
        assert not set(known(name)) & {"env", "seed", "device", "verbose", "self"}
        assert {"policy", "policy_kwargs"} <= set(known(name))
        with pytest.raises(ConfigError, match=r"algo_params\.seed"):
            check(name, {"seed": 3})


def test_an_unknown_hyperparameter_is_refused_with_the_nearest() -> None:
    for name in ALGORITHMS:
        key = max(known(name), key=len)
        with pytest.raises(ConfigError, match=f"did you mean '{key}'") as error:
            check(name, {f"{key}z": 1})
        assert f"algo_params.{key}z" in str(error.value)


@pytest.mark.parametrize(
    ("name", "key", "value", "allowed"),
    [
        ("ppo", "learning_rate", 0, "above 0"),  # Stable-Baselines3's parameters
        ("ppo", "gamma", 1.1, "at least 0 and at most 1"),
        ("ppo", "n_steps", 0, "at least 1"),
        ("ppo", "clip_range", -0.2, "above 0"),
        ("sac", "tau", -0.1, "at least 0 and at most 1"),
        ("sac", "batch_size", 10_000_001, "at most 1e+07"),
        ("sac", "gradient_steps", -2, "at least -1"),
        ("sac", "ent_coef", "auto_much", "auto_0.1"),
        ("tqc", "top_quantiles_to_drop_per_net", -1, "at least 0"),  # sb3-contrib's
        ("trpo", "line_search_shrinking_factor", 1.5, "at most 1"),
        ("ars", "delta_std", 0, "above 0"),
        ("cem", "population", 1, "at least 2"),  # mygym's
        ("cem", "stats_window_size", 0, "at least 1"),
        ("dagger", "beta", 1.1, "at most 1"),
        ("ddqn", "epsilon", -0.1, "at least 0"),
        ("sac", "random_shift", 1025, "at most 1024"),
        ("multippo", "max_grad_norm", 0, "above 0"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(name: str, key: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as error:
        check(name, {key: value})
    assert str(error.value).startswith(f"algo_params.{key}: {value!r}")
    assert allowed in str(error.value)


def nested(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every parameter in nested keyword arguments."""
    for name in schema.inside(path) or {}:
        yield (*path, name)
        if name in INNER:
            yield from nested(schema, (*path, name))


EVERY = {name: list(nested(Schema(algorithm(name), {}, her))) for name in ALGORITHMS for her in (False, True)}
CNN = {"policy_kwargs": {"features_extractor_class": "nature_cnn"}}
KEYPOINTS = {"policy_kwargs": {"features_extractor_class": "keypoints"}}


def test_every_range_belongs_to_a_parameter_of_an_algorithm() -> None:
    schemas = [Schema(algorithm(name), {}, her) for name in ALGORITHMS for her in (False, True)]
    schemas += [Schema(algorithm("ppo"), kwargs) for kwargs in (CNN, KEYPOINTS)]
    sections = [schema.inside(path[:-1]) or {} for schema in schemas for path in nested(schema)]
    classes = [algorithm(name).combo()[0] for name in ALGORITHMS]
    sections += [training_parameters(cls) for cls in classes if issubclass(cls, Runner)]
    bounded = {name for section in sections for name, parameter in section.items() if range_of(parameter)}
    assert RANGES.keys() == bounded


SECTIONS = [
    (name, path)
    for name in ALGORITHMS
    for path in EVERY[name]
    if path[-1] in INNER and any(other[:-1] == path for other in EVERY[name])
]


def at(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    return {path[0]: at(path[1:], value)} if path else value


def test_a_misspelt_nested_argument_is_refused_with_the_nearest() -> None:
    for name, path in SECTIONS:
        schema = Schema(algorithm(name), {}, her="replay_buffer_kwargs" in path)
        key = max(schema.inside(path) or {}, key=len)
        with pytest.raises(ConfigError, match=f"did you mean '{key}'") as error:
            schema.check(at((*path, f"{key}z"), 1))
        assert str(error.value).startswith(f"{'.'.join(('algo_params', *path))}.{key}z")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"activation_fn": "tahn"}, ["activation_fn: 'tahn'", "did you mean 'tanh'"]),
        ({"activation_fn": 3}, ["activation_fn: 3"]),
        ({"activation_fn": "__import__('os')"}, ["is no activation for pytorch"]),
        ({"optimizer_class": "adan"}, ["did you mean 'adam'"]),
        ({"optimizer_class": "rmsprop", "optimizer_kwargs": {"betas": [0.9, 0.99]}}, ["of RMSprop", "alpha"]),
        ({"optimizer_kwargs": {"weight_decay": -1}}, ["optimizer_kwargs.weight_decay: -1", "at least 0"]),
        ({"optimizer_kwargs": {"betas": [0.9, 2]}}, ["optimizer_kwargs.betas", "at most 1"]),
        ({"optimizer_kwargs": {"lr": 1}}, ["optimizer_kwargs.lr", "is not a parameter of Adam"]),
        ({"features_extractor_class": "flat"}, ["did you mean 'flatten'"]),
        ({"features_extractor_kwargs": {"cnn_output_dimm": 3}}, ["did you mean 'cnn_output_dim'"]),
        ({"net_arch": [0]}, ["net_arch: [0]", "at least 1"]),
        ({"net_arch": [64, "64"]}, ["net_arch"]),
        ({"net_arch": {"vff": [64]}}, ["net_arch.vff", "did you mean 'vf'"]),
        ({"net_arch": {"pi": 64}}, ["net_arch"]),
        ({"ortho_init": "no"}, ["ortho_init: 'no'", "true or false"]),
        ({"log_std_init": "low"}, ["log_std_init: 'low'", "a number"]),
    ],
)
def test_a_wrong_value_in_policy_kwargs_is_refused(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        check("ppo", {"policy_kwargs": values})
    assert str(error.value).startswith("algo_params.policy_kwargs.")
    assert all(word in str(error.value) for word in words), error.value


def test_a_policy_is_chosen_by_name() -> None:
    check("cem", {"policy": "MlpPolicy"})
    with pytest.raises(ConfigError, match="did you mean 'MlpPolicy'"):
        check("cem", {"policy": "MlpPolice"})
    with pytest.raises(ConfigError, match=r"algo_params\.policy: 'oracle'"):
        check("ppo", {"policy": "oracle"})  # acts without training


def arguments(name: str, values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    schema = Schema(algorithm(name), values)
    return schema.arguments(merged(schema.defaults(), merged(schema.registered(), values)))


def test_unset_hyperparameters_are_left_to_the_class() -> None:
    for name in ALGORITHMS:
        _, args, kwargs = algorithm(name).combo()
        assert arguments(name, {}) == (args[0], kwargs)


def test_names_are_replaced_by_their_objects() -> None:
    values = {
        "policy_kwargs": {"activation_fn": "elu", "optimizer_class": "sgd", "optimizer_kwargs": {"momentum": 0.9}}
    }
    policy, kwargs = arguments("ppo", values | {"clip_range_vf": 0.1})
    assert policy == "MultiInputPolicy"
    assert kwargs["policy_kwargs"]["activation_fn"] is torch.nn.ELU
    assert kwargs["policy_kwargs"]["optimizer_class"] is torch.optim.SGD
    assert kwargs["policy_kwargs"]["optimizer_kwargs"] == {"momentum": 0.9}
    assert kwargs["clip_range_vf"] == 0.1
    assert "vf_coef" not in kwargs


def test_another_optimiser_does_not_get_the_arguments_of_the_registered_optimiser() -> None:
    """`fused` is a parameter of Adam; SB3's RMSProp would raise."""
    _, kwargs = arguments("sac", {"policy_kwargs": {"optimizer_class": "rmsprop_tf"}})
    assert kwargs["policy_kwargs"]["optimizer_class"].__name__ == "RMSpropTFLike"
    assert "optimizer_kwargs" not in kwargs["policy_kwargs"] or not kwargs["policy_kwargs"]["optimizer_kwargs"]


def test_a_list_becomes_a_tuple_for_a_tuple_annotation() -> None:
    _, kwargs = arguments("sac", {"train_freq": [2, "step"], "policy_kwargs": {"net_arch": [8]}})
    assert kwargs["train_freq"] == (2, "step")
    assert kwargs["policy_kwargs"]["net_arch"] == [8]


def test_a_boolean_can_be_turned_off() -> None:
    assert algorithm("sac").defaults["policy_kwargs"]["optimizer_kwargs"]["fused"] is True
    _, kwargs = arguments("sac", {"policy_kwargs": {"optimizer_kwargs": {"fused": False}}})
    assert kwargs["policy_kwargs"]["optimizer_kwargs"]["fused"] is False
    _, kwargs = arguments("ppo", {"normalize_advantage": False})
    assert kwargs["normalize_advantage"] is False


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("sac", "learning_rate", "3e-4x"),
        ("sac", "learning_rate", True),
        ("sac", "learning_rate", None),
        ("sac", "learning_rate", [1e-3]),
        ("sac", "learning_rate", math.nan),
        ("sac", "learning_rate", math.inf),
        ("sac", "batch_size", 2.5),
        ("sac", "batch_size", "256"),
        ("sac", "batch_size", True),
        ("sac", "use_sde", 1),
        ("sac", "policy_kwargs", [64]),
        ("td3", "action_noise", "loud"),
        ("td3", "action_noise", True),
        ("td3", "action_noise", -0.1),
        ("sac", "train_freq", 0),
        ("sac", "train_freq", -1),
        ("ppo", "clip_range", "wide"),
        ("ppo", "normalize_advantage", "no"),
        ("ars", "n_delta", 1.5),
    ],
)
def test_a_wrong_value_is_refused_with_key_and_value(name: str, key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        check(name, {key: value})
    assert str(error.value).startswith(f"algo_params.{key}: {value!r}")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sac", {"learning_rate": 1, "ent_coef": "auto", "target_entropy": -3.0, "train_freq": [1, "episode"]}),
        ("sac", {"gradient_steps": -1, "train_freq": 4, "policy_kwargs": {"net_arch": []}, "gamma": 1}),
        ("td3", {"action_noise": 0.1}),
        ("td3", {"action_noise": None}),
        ("ppo", {"clip_range_vf": None, "target_kl": 0.01}),
    ],
)
def test_valid_values_are_allowed(name: str, values: dict[str, Any]) -> None:
    check(name, values)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
)


@pytest.mark.parametrize("name", ALGORITHMS)
@given(data=st.data())
def test_any_value_of_any_hyperparameter_is_allowed_or_refused(name: str, data: Any) -> None:
    key = data.draw(st.sampled_from(sorted(known(name))))
    with contextlib.suppress(ConfigError):
        check(name, {key: data.draw(VALUES)})
