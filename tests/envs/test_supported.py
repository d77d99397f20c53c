"""Warnings about unsupported combinations."""

from __future__ import annotations

from pathlib import Path

import pytest

from mygym.config import RunConfig
from mygym.envs.supported import combinations, support_warning
from tests.components import COVERING


def test_supported_combinations_give_no_warning() -> None:
    for task, robot in COVERING:
        assert support_warning(RunConfig(task=task, robot=robot)) == ""


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (RunConfig(task="slide", robot="kuka"), ["kuka does not do slide well enough", "table"]),
        (RunConfig(task="open_drawer", robot="xarm6", workspace="drawer"), ["xarm6 cannot open"]),
        (RunConfig(task=["approach", "turn"], robot="xarm6", workspace="panel"), ["xarm6 cannot turn"]),
        (RunConfig(task="maze", robot="panda_pair"), ["panda_pair is not at home in workspace maze"]),
    ],
)
def test_unsupported_combinations_give_a_warning_with_supported_robots(config: RunConfig, words: list[str]) -> None:
    warning = support_warning(config)
    for word in words:
        assert word in warning
    recommended = warning.partition("supported robots: ")[2].split(", ")
    if isinstance(config.task, str):
        assert set(recommended) == {combination.robot for combination in combinations((config.task,))}
    assert config.robot not in recommended


def test_a_custom_robot_gives_no_warning() -> None:
    robot = Path(__file__).parents[2] / "mygym" / "assets" / "robots" / "panda.urdf"
    assert support_warning(RunConfig(task="maze", robot=str(robot))) == ""
