"""A person at the keyboard: played by a program that sees what a person sees and presses keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pybullet as bullet
import pytest

from mygym.api import demonstrate, load_demonstrations, replay
from mygym.demonstrations import keyboard
from mygym.errors import ConfigError, RunError
from mygym.runs import factory
from mygym.runs.resolve_config import from_python
from mygym.sim.rendering import camera

CODES = {name: code for code, name in camera._KEYS.items()}

Person = Callable[[Any], Sequence[str]]


@pytest.fixture
def sits_down(monkeypatch: pytest.MonkeyPatch) -> Callable[[Person], None]:
    """Somebody sits down at a window that nobody sees."""
    monkeypatch.setattr(camera, "has_display", lambda: True)
    monkeypatch.setattr(bullet, "GUI", bullet.DIRECT)
    monkeypatch.setattr(keyboard, "PACE", 0.0)
    monkeypatch.setattr(camera.time, "sleep", lambda seconds: None)
    made: list[Any] = []
    make_env = factory.make_env
    monkeypatch.setattr(factory, "make_env", lambda *args, **kwargs: made.append(make_env(*args, **kwargs)) or made[-1])

    def sit(person: Person) -> None:
        def events(physicsClientId: int) -> dict[int, int]:  # noqa: N803  (Bullet's)
            return {CODES.get(key) or ord(key): bullet.KEY_IS_DOWN for key in person(made[-1])}

        monkeypatch.setattr(bullet, "getKeyboardEvents", events)

    return sit


def to_the_goal(env: Any) -> list[str]:
    """Whoever sees that the goal is to the right presses the right arrow."""
    way = env.goals[0, 0] - env.world.state.ee_position[0]
    yaw = math.radians(env.world.workspace.cameras["main"].yaw)
    right, away = np.array([math.cos(yaw), math.sin(yaw)]), np.array([-math.sin(yaw), math.cos(yaw)])
    wanted = zip((way[:2] @ right, way[:2] @ away, way[2]), ("right", "up", "w"), ("left", "down", "s"), strict=True)
    return [more if far > 0 else less for far, more, less in wanted if abs(far) > 0.01] or ["x"]


def test_episodes_are_recorded_as_they_were_driven(sits_down: Callable[[Person], None], tmp_path: Path) -> None:
    sits_down(to_the_goal)
    made = demonstrate({"task": "reach"}, out=tmp_path / "mine", policy="keyboard", episodes=3)
    assert len(made) == 3
    assert all(one.success for one in made.episodes)
    assert made.about["policy"] == "keyboard"
    assert [one.differs_at for one in replay(tmp_path / "mine")] == [None] * 3


def test_whoever_gives_up_keeps_what_there_is(sits_down: Callable[[Person], None], tmp_path: Path) -> None:
    episodes: list[int] = []

    def tired(env: Any) -> list[str]:
        episodes.append(env.state_dict()["episode"] if len(env._actions) else -1)
        return ["q"] if episodes.count(-1) > 2 else to_the_goal(env)

    sits_down(tired)
    assert len(demonstrate({"task": "reach"}, out=tmp_path / "mine", policy="keyboard", episodes=5)) == 2
    assert len(load_demonstrations(tmp_path / "mine")) == 2


def test_whoever_gives_up_at_once_leaves_nothing(sits_down: Callable[[Person], None], tmp_path: Path) -> None:
    sits_down(lambda env: ["q"])
    with pytest.raises(RunError, match="keyboard: 0 of 0 episodes ended in success"):
        demonstrate({"task": "reach"}, out=tmp_path / "mine", policy="keyboard", episodes=5)
    assert list(tmp_path.iterdir()) == []


def test_without_a_display(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ConfigError, match="a machine with a display"):
        demonstrate({"task": "reach"}, out=tmp_path / "mine", policy="keyboard", episodes=1)
    assert list(tmp_path.iterdir()) == []


def test_fingers_and_tool(sits_down: Callable[[Person], None]) -> None:
    pressed: list[list[str]] = []
    sits_down(lambda env: pressed.pop(0))
    env = factory.make_env(from_python({"task": "AGR"}).config, render_mode="human")
    env.reset(seed=0)
    person = keyboard.Keyboard(env)

    def acts(*keys: str, first: bool = False) -> Any:
        pressed.append(list(keys))
        action = person.predict(None, episode_start=np.array([first]))[0][0]
        env.step(action)
        return action

    names = list(env.world.control_names)
    gripper, turn = names.index("gripper"), names.index("tool_yaw")
    pressed.append([])  # nothing happens before the first key
    assert acts("a", first=True)[turn] > 0.1
    assert acts("d")[turn] < -0.1
    assert abs(acts()[turn]) < 0.01
    assert [acts(*keys)[gripper] for keys in ((), ("space",), ("space",), (), ("space",))] == [1, -1, -1, -1, 1]
    env.close()
