"""Environments that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mygym.envs.robot_env import RobotEnv


@pytest.fixture(scope="module")
def cached_env() -> Iterator[Any]:
    """Return environments by keywords; each is built once, while not too many others are in use: 20 MB each."""
    envs: dict[str, RobotEnv] = {}

    def make(**keywords: Any) -> RobotEnv:
        key = repr(sorted(keywords.items()))
        if key not in envs:
            envs[key] = RobotEnv(**keywords)
        while len(envs) > 50:
            envs.pop(next(iter(envs))).close()
        return envs[key]

    yield make
    for env in envs.values():
        env.close()
