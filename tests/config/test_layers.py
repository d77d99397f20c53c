"""Layers of a config: precedence, origins, messages and the hash."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.config import Layer, Resolved, RunConfig, config_hash, resolve
from mygym.config.layers import flatten
from mygym.errors import ConfigError

NOT_SHAPING = {"seed", "imports", "logdir", "eval", "checkpoint", "video", "tensorboard", "strict", "env_processes"}
KEYS = [*RunConfig.model_fields, "eval.every", "task_params.areas.reach.low", "steps.x", "str", "int", "list[str]"]


def test_later_layers_win_and_origins_name_the_layer() -> None:
    layers = [
        Layer("first", {"steps": 1, "seed": 1, "eval": {"every": 1, "episodes": 1}}),
        Layer("second", {"seed": 2, "eval": {"every": 2}, "algo_params": {"policy_kwargs": {"net_arch": [8]}}}),
    ]
    resolved = resolve(layers)
    config = resolved.config
    assert (config.steps, config.seed, config.eval.every, config.eval.episodes) == (1, 2, 2, 1)
    origins = {key: resolved.origins[key] for key in ("steps", "seed", "eval.every", "eval.episodes", "robot")}
    assert origins == {
        "steps": "first",
        "seed": "second",
        "eval.every": "second",
        "eval.episodes": "first",
        "robot": "default",
    }
    assert resolved.origins["algo_params.policy_kwargs.net_arch"] == "second"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ({"pretrained": "run"}, {"pretrained": {"freeze": ["a.*"]}}, {"path": "run", "freeze": ["a.*"]}),
        ({"pretrained": {"load": ["policy"]}}, {"pretrained": "run"}, {"path": "run", "load": ["policy"]}),
        ({"pretrained": {"path": "old", "freeze": ["a.*"]}}, {"pretrained": "new"}, {"path": "new", "freeze": ["a.*"]}),
        ({"pretrained": "old"}, {"pretrained": "new"}, {"path": "new"}),
        ({"control": "joint_delta"}, {"control": {"max_force": 9.0}}, {"name": "joint_delta", "max_force": 9.0}),
        ({"control": {"name": "joint_delta", "max_force": 9.0}}, {"control": "ee_delta"}, {"name": "ee_delta"}),
    ],
)
def test_a_section_that_is_text_in_one_layer_and_a_mapping_in_another_keeps_both(
    low: dict[str, Any], high: dict[str, Any], expected: dict[str, Any]
) -> None:
    (section,) = low
    resolved = resolve([Layer("low", low), Layer("high", high)])
    assert getattr(resolved.config, section) == type(getattr(resolved.config, section))(**expected)


def test_text_has_its_origin_and_the_values_beside_it_keep_theirs() -> None:
    resolved = resolve([Layer("file", {"pretrained": {"freeze": ["a.*"]}}), Layer("flag", {"pretrained": "run"})])
    origins = {key: resolved.origins[f"pretrained.{key}"] for key in ("path", "freeze", "load")}
    assert origins == {"path": "flag", "freeze": "file", "load": "default"}


def test_parameters_of_a_replaced_controller_leave_no_origins() -> None:
    low = Layer("file", {"control": {"name": "ee_delta", "action_repeat": 4, "max_force": 9.0}})
    resolved = resolve([low, Layer("flag", {"control": {"name": "joint_delta", "max_force": 8.0}})])
    origins = {key: resolved.origins[f"control.{key}"] for key in ("name", "max_force", "action_repeat")}
    assert origins == {"name": "flag", "max_force": "flag", "action_repeat": "default"}


def test_every_value_has_an_origin() -> None:
    resolved = resolve([Layer("file", {"task_params": {"areas": {"reach": {"low": [0, 0, 0], "high": [1, 1, 1]}}}})])
    assert set(resolved.origins) == {key for key, _ in flatten(resolved.values())}
    assert resolved.origins["task_params.areas.reach.low"] == "file"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"robbot": "panda"}, ["robbot", "did you mean 'robot'", "file"]),
        ({"eval": {"evry": 1}}, ["eval.evry", "did you mean 'every'", "file"]),
        ({"task_params": {"areas": {"reach": {"low": [0, 0, 0], "hihg": [1, 1, 1]}}}}, ["hihg", "did you mean 'high'"]),
        ({"task_params": {"areas": {"die_start": {"low": [0, 0, 0], "hihg": [1, 1, 1]}}}}, ["did you mean 'high'"]),
        ({"task_params": {"rotation": [0.5, 0.1]}}, ["task_params.rotation", "[0.5, 0.1]", "not be below the first"]),
        ({"task_params": {"colors": {"cube": [0, 0, 2, 1]}}}, ["task_params.colors.cube", "2", "less than or equal"]),
        ({"reward": 3}, ["reward", "3", "text"]),
        ({"eval_freq": 5}, ["eval_freq", "not a config key", "use eval.every", "file"]),
        ({"horizon": 5}, ["horizon", "use task_params.horizon"]),
        ({"gamma": 0.9}, ["gamma", "use algo_params.gamma"]),
        ({"lr": 0.9}, ["lr", "use algo_params.learning_rate"]),
        ({"eval": {"steps": 5}}, ["eval.steps", "use steps"]),
        (
            {"task_type": "A", "robot_action": "step", "train_framework": "x", "max_episode_steps": 3, "robbot": 1}
            | {"eval_freq": 5, "eval": {"evry": 3}, "zzzz": 1},
            [
                *("8 keys", "file", "task_type (use task)", "robot_action (use control)"),
                *("train_framework (use framework)", "max_episode_steps (use task_params.horizon)"),
                *(
                    "eval_freq (use eval.every)",
                    "(did you mean 'robot'?)",
                    "eval.evry (did you mean 'eval.every'?)",
                    "zzzz",
                ),
            ],
        ),
        ({"steps": 0}, ["steps", "0", "greater than or equal to 1", "file"]),
        ({"steps": 1.5}, ["steps", "1.5", "whole number"]),
        ({"steps": "many"}, ["steps", "'many'", "whole number"]),
        ({"steps": True}, ["steps", "True", "whole number"]),
        ({"seed": -1}, ["seed", "-1", "greater than or equal to 0"]),
        ({"seed": 2**32}, ["seed", str(2**32), "less than"]),
        ({"robot": 7}, ["robot", "7", "text"]),
        ({"robot": None}, ["robot", "None", "text"]),
        ({"her": "yes"}, ["her", "'yes'", "true or false"]),
        ({"task": 5}, ["task", "5"]),
        ({"task": ["approach", 5]}, ["task.1", "5", "text"]),
        ({"task_params": {"tolerance": 0}}, ["task_params.tolerance", "0", "greater than 0"]),
        ({"task_params": {"tolerance": float("nan")}}, ["task_params.tolerance", "nan"]),
        ({"task_params": {"hold": 0}}, ["task_params.hold", "0"]),
        ({"task_params": 5}, ["task_params", "5"]),
        ({"task_params": {"areas": {"reach": {"low": [0, 0, 1], "high": [1, 1, 0]}}}}, ["high", "not be below low"]),
        ({"task_params": {"areas": {"reach": {"low": [0, 0], "high": [1, 1, 1]}}}}, ["areas.reach.low"]),
        ({"task_params": {"areas": {"reach": {"low": [0, 0, float("inf")], "high": [1, 1, 1]}}}}, ["areas.reach.low"]),
        ({"stop_at_success": 1.5}, ["stop_at_success", "1.5", "less than or equal to 1"]),
        ({"video": {"width": 33}}, ["video.width", "33", "multiple of 2"]),
        ({"algo_params": [1]}, ["algo_params", "[1]", "a mapping"]),
        ({"algo_params": {3: 4}}, ["algo_params", "3", "string"]),
        ({"str": 1}, ["str", "not a config key"]),
        ({"int": 1}, ["int", "not a config key"]),
        ({"eval": {"none": 1}}, ["eval.none", "not a config key"]),
        ({"n_envs": 10**9}, ["n_envs", str(10**9), "less than or equal to 65536"]),
    ],
)
def test_a_message_names_key_value_and_allowed_values(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        resolve([Layer("file", values)])
    for word in words:
        assert word in str(error.value), str(error.value)
    assert "\n" not in str(error.value)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["reach", "sac", "panda"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
)


@given(values=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), VALUES, max_size=4))
def test_any_nested_values_resolve_or_are_refused(values: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        resolved = resolve([Layer("file", values)])
        assert isinstance(resolved, Resolved)
        assert set(resolved.origins) == {key for key, _ in flatten(resolved.values())}


# the hash -----------------------------------------------------------------------------------------------------------

BASE = resolve([]).values()


def test_the_hash_is_the_same_for_the_same_values_in_any_order() -> None:
    assert config_hash(BASE) == config_hash(dict(reversed(BASE.items())))
    assert len(config_hash(BASE)) == 8
    assert set(config_hash(BASE)) <= set("0123456789abcdef")


def test_the_hash_covers_exactly_the_keys_that_shape_the_result() -> None:
    for key in RunConfig.model_fields:
        same = config_hash({**BASE, key: "something else"}) == config_hash(BASE)
        assert same == (key in NOT_SHAPING)


@pytest.mark.parametrize(
    "change", [{"algo_params": {"gamma": 0.9}}, {"task_params": {"tolerance": 0.04}}, {"task": "push"}, {"steps": 3}]
)
def test_the_hash_covers_nested_values(change: dict[str, Any]) -> None:
    assert config_hash(resolve([Layer("flag", change)]).values()) != config_hash(BASE)


@given(first=LEAVES, second=LEAVES)
def test_different_numbers_have_different_hashes(first: Any, second: Any) -> None:
    hashes = [config_hash({**BASE, "algo_params": {"x": value}}) for value in (first, second)]
    assert (repr(first) == repr(second)) == (hashes[0] == hashes[1])
