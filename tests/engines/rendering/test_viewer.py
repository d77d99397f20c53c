"""The window: display, caption, sliders; tests/test_window.py shows it."""

from __future__ import annotations

from typing import Any

import pybullet as bullet
import pytest

from mygym.engines.rendering.viewer import Viewer, has_display
from mygym.errors import ConfigError
from tests.worlds import MakeWorld


@pytest.mark.parametrize("display", [None, "", ":97", "nonsense"])
def test_a_window_without_display_is_a_config_error(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, display: str
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ConfigError, match="display"):
        Viewer(make_world("kuka", objects=0))


def test_other_systems_have_a_display() -> None:
    assert has_display({}, "darwin")
    assert not has_display({}, "linux")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Calls of Bullet's functions of a window, of which this process has none."""
    made: list[tuple[str, Any]] = []

    def record(name: str, result: Any) -> None:
        def call(*arguments: Any, **options: Any) -> Any:
            made.append((name, arguments))
            return result

        monkeypatch.setattr(bullet, name, call)

    monkeypatch.setattr("mygym.engines.rendering.viewer.has_display", lambda: True)
    monkeypatch.setattr(bullet, "GUI", bullet.DIRECT)
    record("addUserDebugText", 7)
    record("addUserDebugParameter", 3)
    record("readUserDebugParameter", 0.25)
    record("removeAllUserParameters", None)
    return made


def texts(calls: list[tuple[str, Any]]) -> list[str]:
    return [arguments[0] for name, arguments in calls if name == "addUserDebugText"]


def test_only_a_changed_caption_is_written(make_world: MakeWorld, calls: list[tuple[str, Any]]) -> None:
    viewer = Viewer(make_world("kuka", objects=0))
    for caption in ("", "approach", "approach", "push"):
        viewer.update(caption=caption)
    assert texts(calls) == ["approach", "push"]
    viewer.close()
    viewer.update(caption="closed")
    assert texts(calls) == ["approach", "push"]
    assert (viewer.slider_values(), viewer.keys()) == ({}, None)


def test_a_key_closes_the_window(
    make_world: MakeWorld, calls: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer, other = Viewer(make_world("kuka", objects=0)), make_world("kuka", objects=0)
    viewer.set_sliders({"x": (0.0, 1.0, 0.5)})
    assert (viewer.is_open(), viewer.keys()) == (True, frozenset())
    events = {ord("q"): bullet.KEY_WAS_TRIGGERED}
    monkeypatch.setattr(bullet, "getKeyboardEvents", lambda physicsClientId: events)  # noqa: N803  (Bullet's)
    viewer.update(caption="approach")
    assert (viewer.is_open(), viewer.keys(), viewer.slider_values(), texts(calls)) == (False, None, {}, [])
    monkeypatch.setattr(bullet, "isConnected", lambda physicsClientId: True)  # noqa: N803  its number is used again
    assert not viewer.is_open()
    other.close()


def test_a_second_window_is_a_config_error(
    make_world: MakeWorld, calls: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world("kuka", objects=0)

    def connect(*arguments: Any, **options: Any) -> int:
        raise bullet.error("Only one local in-process GUI/GUI_SERVER connection allowed.")

    monkeypatch.setattr(bullet, "connect", connect)
    with pytest.raises(ConfigError, match=r"^render_mode: 'human'"):
        Viewer(world)


def test_sliders_are_replaced(make_world: MakeWorld, calls: list[tuple[str, Any]]) -> None:
    viewer = Viewer(make_world("kuka", objects=0))
    viewer.set_sliders({"x": (0.0, 1.0, 0.5), "y": (-1.0, 1.0, 0.0)})
    viewer.set_sliders({"z": (0.0, 1.0, 0.5)})
    assert viewer.slider_values() == {"z": 0.25}
    added = [arguments for name, arguments in calls if name in ("addUserDebugParameter", "removeAllUserParameters")]
    assert added == [(), ("x", 0.0, 1.0, 0.5), ("y", -1.0, 1.0, 0.0), (), ("z", 0.0, 1.0, 0.5)]
    viewer.close()


def test_a_window_of_a_training_skips_updates(make_world: MakeWorld, calls: list[tuple[str, Any]]) -> None:
    viewer = Viewer(make_world("kuka", objects=0), realtime=False)
    for step in range(50):
        viewer.update(caption=str(step))
    assert texts(calls)[0] == "0"
    assert len(texts(calls)) < 10
    viewer.close()
