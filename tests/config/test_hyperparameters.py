"""`algo_params`: every name, type and range is checked against the class before anything is built."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.config import hyperparameters
from mygym.config.hyperparameters import RANGES, check, parameters
from mygym.errors import ConfigError
from mygym.registry import algorithm
from mygym.runs.runner import Runner
from tests.components import ALGORITHMS


def class_of(name: str) -> type:
    return algorithm(name).combo()[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_defaults_that_an_algorithm_ships_with_are_allowed(name: str) -> None:
    cls = class_of(name)
    check(cls, algorithm(name).defaults)
    check(cls, hyperparameters.defaults(cls))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_the_run_decides_is_no_hyperparameter(name: str) -> None:
    known = parameters(class_of(name))
    assert not known.keys() & {"policy", "env", "seed", "device", "verbose", "self"}
    assert "policy_kwargs" in known
    with pytest.raises(ConfigError, match=r"algo_params\.seed"):
        check(class_of(name), {"seed": 3})


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_unknown_hyperparameter_is_refused_with_the_nearest(name: str) -> None:
    known = max(parameters(class_of(name)), key=len)
    with pytest.raises(ConfigError, match=f"did you mean '{known}'") as error:
        check(class_of(name), {f"{known}z": 1})
    assert f"algo_params.{known}z" in str(error.value)


OUTSIDE = [
    (name, key, value)
    for name in ALGORITHMS
    for key in parameters(class_of(name))
    if key in RANGES
    for value in (RANGES[key].low - 1, *([0] if RANGES[key].open_low else []), RANGES[key].high + 1)
    if math.isfinite(value)
]


@pytest.mark.parametrize(("name", "key", "value"), OUTSIDE)
def test_a_value_out_of_range_is_refused_with_the_range(name: str, key: str, value: float) -> None:
    with pytest.raises(ConfigError) as error:
        check(class_of(name), {key: value})
    assert str(error.value).startswith(f"algo_params.{key}: {value!r}")
    assert str(RANGES[key]) in str(error.value) or "wrong type" in str(error.value)


@pytest.mark.parametrize("key", RANGES)
def test_every_range_is_of_a_parameter_that_some_algorithm_has(key: str) -> None:
    classes = [class_of(name) for name in ALGORITHMS]
    of_loops = [hyperparameters.training_parameters(cls) for cls in classes if issubclass(cls, Runner)]
    assert any(key in known for known in (*map(parameters, classes), *of_loops))


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
        ("sac", "action_noise", 0.1),
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
        check(class_of(name), {key: value})
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
def test_right_values_are_allowed(name: str, values: dict[str, Any]) -> None:
    check(class_of(name), values)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
)


@pytest.mark.parametrize("name", ALGORITHMS)
@given(data=st.data())
def test_any_value_of_any_hyperparameter_is_allowed_or_refused(name: str, data: Any) -> None:
    key = data.draw(st.sampled_from(sorted(parameters(class_of(name)))))
    with contextlib.suppress(ConfigError):
        check(class_of(name), {key: data.draw(VALUES)})
