"""The JSON schema accepts valid configs, reports mistakes and contains registered components."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mygym.config.json_schema import json_schema
from mygym.planning.resolve import resolve_config
from mygym.registry import registry
from mygym.registry.signatures import parameters
from mygym.strategies.strategy import Strategy, register_strategy

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))  # not those of sweeps, which have ranges
STRATEGIES = registry("strategy").names()


@cache
def validator(strategies: tuple[str, ...]) -> jsonschema.Draft202012Validator:
    """Return the validator of the schema with these registered strategies, after a check of the schema itself."""
    schema = json.loads(json.dumps(json_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def mistakes(config: dict[str, Any]) -> list[str]:
    """Return the JSON paths that the schema reports."""
    errors = validator(tuple(registry("strategy").names())).iter_errors(config)
    return [error.json_path for error in errors]


def test_a_shipped_config_is_valid() -> None:
    for path in CONFIGS:
        assert mistakes(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_a_default_holds_for_every_run() -> None:
    schema = json_schema()
    runs = [
        resolve_config(overrides=config).values()
        for config in ({}, {"task": "press"}, {"task": "hand_over"}, {"algo": "tqc"}, {"engine": "fused"})
    ]
    stated = {key: entry["default"] for key, entry in schema["properties"].items() if "default" in entry}
    assert {"seed", "logdir", "tensorboard"} <= set(stated)
    assert not {"algo", "reward", "n_envs", "steps", "eval"} & set(stated)
    for key in set(stated) - {"task", "workspace", "engine", "her"}:  # null: decided by others
        for values in runs:
            assert values[key] == stated[key]
    (ppo,) = [
        case["then"]["properties"]["algo_params"]["properties"]
        for case in schema["allOf"]
        if case["if"]["properties"].get("algo") == {"const": "ppo"}
        and case["if"]["properties"]["framework"] == {"const": "pytorch"}
    ]
    assert "default" not in ppo["n_steps"]
    assert ppo["vf_coef"]["default"] == 0.5


def test_a_strategy_has_its_parameters() -> None:
    for strategy in STRATEGIES:
        complete = resolve_config(overrides={"strategy": strategy, "algo": "ppo"}).values()
        assert mistakes(complete) == []
        known = parameters(registry("strategy").get(strategy).load())
        assert set(complete["strategy_params"]) <= set(known)
        for name in known:
            assert mistakes({"strategy": strategy, "strategy_params": {f"{name}s": 1}}) == ["$.strategy_params"]
            wrong = {"strategy": f"standard+{strategy}", "strategy_params": {strategy: {f"{name}s": 1}}}
            assert mistakes(wrong) == [f"$.strategy_params.{strategy}"]


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"stps": 100}, "$"),
        ({"steps": "many"}, "$.steps"),
        ({"reward": "generous"}, "$.reward"),
        ({"algo": "sac", "algo_params": {"tua": 0.1}}, "$.algo_params"),
        ({"algo": "sac", "framework": "jax", "algo_params": {"tua": 0.1}}, "$.algo_params"),
        ({"strategy": "curriculum", "strategy_params": {"levels": "sideways"}}, "$.strategy_params.levels"),
        ({"strategy": "mixture", "strategy_params": {"tau": "warm"}}, "$.strategy_params.tau"),
        ({"control": {"stp": 1}}, "$.control"),
        ({"control": {"name": "joint_torque", "step": 1}}, "$.control"),
        ({"control": {"name": "ee_delta_smooth", "gain": 2}}, "$.control.gain"),
    ],
)
def test_the_schema_reports_a_mistake(config: dict[str, Any], where: str) -> None:
    assert mistakes(config) == [where]


@pytest.mark.parametrize("control", ["joints", {"step": 0.03}, {"name": "ee_delta_smooth", "gain": 0.3, "lag": 0.1}])
def test_the_schema_accepts_controllers_with_parameters(control: Any) -> None:
    assert mistakes({"control": control, "pretrained": "runs/x", "task_params": {"distractors": ["can"]}}) == []


def test_the_schema_contains_registered_components() -> None:
    @register_strategy("waiting")
    class Waiting(Strategy):
        """Waits."""

        def __init__(self, *, patience: int = 3) -> None:
            self.patience = patience

    assert mistakes({"strategy": "waiting", "strategy_params": {"patience": 4}}) == []
    assert mistakes({"strategy": "waiting", "strategy_params": {"patience": "long"}}) == ["$.strategy_params.patience"]
