"""What is said of combinations that are not supported: nothing of those that are."""

from __future__ import annotations

from pathlib import Path

import pytest

from mygym.config import RunConfig
from mygym.envs.supported import combinations, support_warning
from tests.components import COVERING


@pytest.mark.parametrize(("task", "robot"), COVERING)
def test_nothing_is_said_of_what_is_supported(task: str, robot: str) -> None:
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
def test_what_is_not_supported_is_told_with_who_is(config: RunConfig, words: list[str]) -> None:
    said = support_warning(config)
    for word in words:
        assert word in said
    recommended = said.partition("supported robots: ")[2].split(", ")
    if isinstance(config.task, str):
        assert set(recommended) == {one.robot for one in combinations((config.task,))}
    assert config.robot not in recommended


def test_nothing_is_known_of_a_users_own_robot() -> None:
    robot = Path(__file__).parents[2] / "mygym" / "assets" / "robots" / "panda.urdf"
    assert support_warning(RunConfig(task="maze", robot=str(robot))) == ""
