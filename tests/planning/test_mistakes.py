"""All mistakes of a config at once, and none that only follows from another."""

from __future__ import annotations

from typing import Any

import pytest

from mygym.planning.plan import MOST, plan_or_mistakes


def mistakes(config: dict[str, Any], refused: dict[Any, str] | None = None) -> list[str]:
    """Return the keys of the mistakes."""
    plan, messages = plan_or_mistakes(config, refused or {})
    assert (plan is None) == bool(messages)
    return [message.partition(": ")[0] for message in messages]


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({}, []),
        ({"algo": "ppo", "n_envs": 0, "steps": "many", "robbot": 1}, ["robbot", "n_envs", "steps"]),
        ({"task": "puhs", "robot": "pnda", "reward": "spars"}, ["task", "reward", "robot"]),
        ({"algo": "ppo", "algo_params": {"gama": 1, "n_steps": 0, "gamma": 9}}, ["gama", "n_steps", "gamma"]),
        ({"algo": "ppo", "robbot": 1, "algo_params": {"gama": 1}}, ["robbot", "gama"]),
        ({"strategy": "curriculum", "steps": 0, "strategy_params": {"windw": 1}}, ["steps", "windw"]),
        ({"algoo": "ppo", "algo_params": {"clip_range": 0.1}}, ["algoo"]),  # of ppo, which is not chosen
        ({"algo": "pppo", "learners": 2}, ["algo"]),  # of ppo alone
        ({"engine": "fused", "task": "press"}, ["task"]),
    ],
)
def test_mistakes_and_not_their_consequences(config: dict[str, Any], keys: list[str]) -> None:
    listed = [key.rpartition(".")[2] for key in mistakes(config)]
    assert sorted(listed) == sorted(keys)


def test_a_valid_config_has_its_plan() -> None:
    plan, _ = plan_or_mistakes({"task": "push"}, {})
    assert plan is not None
    assert plan.config.algo == "ppo"
    assert plan.resolved.origins["task"] == "argument"


def test_a_refused_value_is_a_mistake_wherever_it_is() -> None:
    for config, path in (
        ({"robot": "x/y.urdf"}, ("robot",)),
        ({"algo_params": {"a.b": "x/y"}}, ("algo_params", "a.b")),
        ({"task": [{"stages": "x/y"}]}, ("task", 0, "stages")),
    ):
        assert mistakes(config, {path: f"{'.'.join(map(str, path))}: refused"}) == [".".join(map(str, path))]
    unknown = mistakes({"dataset": "x/y"}, {("dataset",): "refused"})
    assert unknown == ["dataset"]


def test_the_list_ends() -> None:
    assert len(mistakes({f"key_{number}": 1 for number in range(1000)})) == MOST
