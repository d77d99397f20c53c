"""Bullet clients are closed with their environment, and whenever a constructor raises.

Bullet has room for about a thousand clients in a process.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pybullet
import pytest

from mygym.engines.bullet.client import connect
from mygym.engines.rendering.scene import Scene
from mygym.envs.env_spec import EnvSpec
from mygym.envs.multi_task_env import MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, MygymError, RegistryError
from mygym.robotics.objects import load_object
from mygym.robotics.robot import load_robot
from mygym.robotics.workspace import load_workspace
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.observations import register_observation
from tests.worlds import bullet_world

FAR = {"low": [2.0, 2.0, 2.0], "high": [2.1, 2.1, 2.1]}
POINT = {"low": [0.0, 0.0, 0.2], "high": [0.0, 0.0, 0.2]}


def clients() -> int:
    """Return the number of open clients in this process."""
    return sum(pybullet.isConnected(client) for client in range(1024))


@pytest.fixture(autouse=True)
def no_client_is_left() -> Iterator[None]:
    """Check that each test closes its clients."""
    gc.collect()  # closes those of environments that other modules have dropped
    before = clients()
    yield
    assert clients() == before


@pytest.fixture
def broken_component() -> str:
    """Register an observation component that raises an error, and return its name."""

    @register_observation("broken", bound=1.0)
    def broken(context: EpisodeContext) -> Any:
        """`(N, 1)`: raises."""
        raise ZeroDivisionError("in the user's code")

    return "broken"


@pytest.mark.parametrize("make", [RobotEnv, lambda **how: gymnasium.make("mygym/Push-v0", **how)])
def test_an_environment_that_is_no_longer_used_closes_its_clients(make: Callable[[], Any]) -> None:
    """It would keep 30 MB. The client of another environment stays open, also if both have had the same number."""
    before = clients()
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    env.render()
    del env
    gc.collect()
    assert clients() == before
    closed = RobotEnv()
    closed.close()
    with RobotEnv() as other:
        del closed
        gc.collect()
        other.reset(seed=0)


def test_closing_twice_is_allowed() -> None:
    env = RobotEnv()
    env.close()
    env.close()


@pytest.mark.parametrize(
    "keywords",
    [{"camera": "nowhere"}, {"task_params": {"areas": {"reach": FAR}}}, {"task_params": {"areas": {"reach": POINT}}}],
)
def test_a_refused_environment_closes_its_client(keywords: dict[str, Any]) -> None:
    with pytest.raises(MygymError):
        RobotEnv(**keywords)


def test_an_error_in_a_users_component_closes_the_client(broken_component: str) -> None:
    with pytest.raises(ZeroDivisionError):
        RobotEnv(observations=["ee_position", broken_component])


def test_an_error_in_a_shared_world_leaves_the_first_environment_open() -> None:
    @register_observation("raises_if_exact", bound=1.0)
    def raises_if_exact(context: EpisodeContext) -> Any:
        """`(N, 1)`: raises when the tolerance is below 1 cm."""
        if context.task.tolerance < 0.01:
            raise ZeroDivisionError("in the user's code")
        return np.zeros((1, 1))

    with RobotEnv(observations=["raises_if_exact"]) as env:
        before = clients()
        strict = EnvSpec.of({**env.env_spec.arguments(), "task_params": {"tolerance": 0.005}})
        with pytest.raises(ZeroDivisionError):
            env.in_same_world(strict)
        assert clients() == before
        env.reset(seed=0)


def test_a_variant_with_different_spaces_closes_its_client() -> None:
    env = MultiTaskEnv([{"task": "reach"}, {"task": "push"}], ("reach", "push"))
    before = clients()
    with pytest.raises(ConfigError, match="another observation space"):
        env.try_all()
    assert clients() == before
    env.close()


def test_a_pickle_that_cannot_be_replayed_closes_its_client() -> None:
    with RobotEnv() as env:
        env.reset(seed=0)
        env._actions.append(np.full(3, np.nan))
        pickled = pickle.dumps(env)
        before = clients()
        with pytest.raises(MygymError, match="not finite"):
            pickle.loads(pickled)
        assert clients() == before


@pytest.mark.parametrize(
    ("keywords", "error"),
    [({"control": "ee_dleta"}, RegistryError), ({"objects": [None]}, TypeError)],
)
def test_a_refused_world_closes_its_client(keywords: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        bullet_world(load_robot("panda"), load_workspace("table"), **keywords)


def test_a_scene_that_cannot_be_drawn_closes_its_client() -> None:
    world = bullet_world(load_robot("panda"), load_workspace("table"), [load_object("cube")])
    world.objects = (None,)
    before = clients()
    with pytest.raises(AttributeError):
        Scene(world, connect())
    assert clients() == before
    world.close()
