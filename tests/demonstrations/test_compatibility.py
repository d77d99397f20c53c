"""Incompatible demonstrations are refused with the key, the difference and a remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.config import RunConfig
from mygym.demonstrations import Demonstrations, check_compatible
from mygym.errors import ConfigError
from mygym.planning.resolve import from_python

PUSH = {"task": "push", "robot": "panda", "reward": "sparse"}


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Demonstrations:
    return mygym.demonstrate(PUSH, out=tmp_path_factory.mktemp("fitting") / "push", episodes=1)


def config(**changes: Any) -> RunConfig:
    return from_python({**PUSH, **changes}).config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algo": "dagger"},
        {"seed": 5},
        {"task_params": {"tolerance": 0.02, "object": "apple"}},
        {"randomize": {"object_mass": [0.5, 2.0]}},
        {"algo_params": {"gamma": 0.9}},
    ],
    ids=str,
)
def test_compatible_demonstrations_are_accepted(changes: dict[str, Any], demonstrations: Demonstrations) -> None:
    check_compatible(demonstrations, config(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"robot": "kuka"}, "robot: 'kuka' is not the value of the recording PATH; allowed: panda, or new demonstr"),
        ({"task": "poke"}, "task: 'poke' is not the value of the recording PATH; allowed: push, or new demonstrations"),
        ({"workspace": "panel"}, "workspace: 'panel' is not the value of the recording PATH"),
        ({"control": "joint_delta"}, "control: 'joint_delta' is not the value of the recording PATH"),
        ({"control": {"step": 0.03}}, "control: {'name': 'ee_delta', .* is not the value of the recording PATH"),
        ({"reward": "dense"}, "reward: 'dense' is not the value of the recording PATH; allowed: sparse"),
        ({"spaces": "shared"}, "observation_space: .* is not the space of PATH, .*allowed: observations, spaces and"),
        ({"observations": ["ee_position"]}, r"observation_space: .*'observation': \(3,\).* is not the space of PATH"),
        ({"algo": "ars"}, r"observation_space: \(34,\) is not the space of PATH, {'achieved_goal': \(3,\)"),
    ],
    ids=str,
)
def test_incompatible_demonstrations_are_refused(
    changes: dict[str, Any], message: str, demonstrations: Demonstrations
) -> None:
    with pytest.raises(ConfigError) as error:
        check_compatible(demonstrations, config(**changes))
    assert re.match(message.replace("PATH", re.escape(str(demonstrations.path))), str(error.value)), error.value


def test_another_reward_is_accepted_if_rewards_are_not_used(demonstrations: Demonstrations) -> None:
    check_compatible(demonstrations, config(reward="dense"), rewards=False)


def test_a_multi_task_run_accepts_demonstrations_of_some_tasks(tmp_path: Path) -> None:
    several = {"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push"]}}
    single = mygym.demonstrate({**PUSH, "spaces": "shared"}, out=tmp_path / "push", episodes=1)
    check_compatible(single, from_python({**PUSH, **several}).config)
    both = mygym.demonstrate(several, out=tmp_path / "both", episodes=2)
    with pytest.raises(ConfigError, match=r"task: 'push' .*both; allowed: reach"):
        check_compatible(both, config(spaces="shared"))
