"""The keyboard policy, driven by a program in place of a human operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pybullet as bullet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.api import demonstrate, evaluate, load_demonstrations, replay
from mygym.demonstrations import teleoperation
from mygym.engines.rendering import viewer
from mygym.errors import ConfigError, RunError
from mygym.planning.resolve import from_python
from mygym.training import env_factory

CODES = {name: code for code, name in viewer.KEYS.items()}

Operator = Callable[[Any], Sequence[str]]


@pytest.fixture
def start_operator(monkeypatch: pytest.MonkeyPatch) -> Callable[[Operator], None]:
    """Return a function that starts an operator at an invisible window."""
    monkeypatch.setattr(viewer, "has_display", lambda: True)
    monkeypatch.setattr(bullet, "GUI", bullet.DIRECT)
    monkeypatch.setattr(bullet, "readUserDebugParameter", lambda number, physicsClientId: 0.0)  # noqa: N803  (Bullet's)
    monkeypatch.setattr(teleoperation, "STEP_DURATION", 0.0)
    monkeypatch.setattr(viewer.Viewer, "update", lambda *arguments: None)  # it also reads the keys
    envs: list[Any] = []
    make_env = env_factory.make_env
    monkeypatch.setattr(
        env_factory, "make_env", lambda *args, **kwargs: envs.append(make_env(*args, **kwargs)) or envs[-1]
    )

    def start(operator: Operator) -> None:
        def events(physicsClientId: int) -> dict[int, int]:  # noqa: N803  (Bullet's)
            return {CODES.get(key) or ord(key): bullet.KEY_IS_DOWN for key in operator(envs[-1])}

        monkeypatch.setattr(bullet, "getKeyboardEvents", events)

    return start


@given(st.sets(st.sampled_from([*teleoperation.MOVES, "x"])), st.floats(-180, 180))
def test_keys_move_along_the_view(keys: set[str], yaw: float) -> None:
    right = np.array([math.cos(math.radians(yaw)), math.sin(math.radians(yaw))])
    away = np.array([-right[1], right[0]])
    move = teleoperation.displacement(keys, yaw)
    pairs = {("right", "left"): move[:2] @ right, ("up", "down"): move[:2] @ away, ("w", "s"): move[2]}
    for (plus, minus), distance in pairs.items():
        assert distance == pytest.approx(teleoperation.SPEED * ((plus in keys) - (minus in keys)), abs=1e-12)


def towards_goal(env: Any) -> list[str]:
    """Return the keys that move the end effector towards the goal."""
    offset = env.goals[0, 0] - env.world.state.ee_position[0]
    yaw = math.radians(env.world.workspace.cameras["main"].yaw)
    right, away = np.array([math.cos(yaw), math.sin(yaw)]), np.array([-math.sin(yaw), math.cos(yaw)])
    axes = zip(
        (offset[:2] @ right, offset[:2] @ away, offset[2]), ("right", "up", "w"), ("left", "down", "s"), strict=True
    )
    return [plus if distance > 0 else minus for distance, plus, minus in axes if abs(distance) > 0.01] or ["x"]


def test_keyboard_episodes_are_recorded_and_replayed(
    start_operator: Callable[[Operator], None], tmp_path: Path
) -> None:
    start_operator(towards_goal)
    recorded = demonstrate({"task": "reach"}, out=tmp_path / "dataset", policy="keyboard", episodes=3)
    assert len(recorded) == 3
    assert all(episode.success for episode in recorded.episodes)
    assert recorded.about["policy"] == "keyboard"
    assert [replayed.differs_at for replayed in replay(tmp_path / "dataset")] == [None] * 3


def test_ending_the_recording_keeps_the_finished_episodes(
    start_operator: Callable[[Operator], None], tmp_path: Path
) -> None:
    episodes: list[int] = []

    def ends_early(env: Any) -> list[str]:
        episodes.append(env.state_dict()["episode"] if env.elapsed_steps else -1)
        return ["q"] if episodes.count(-1) > 2 else towards_goal(env)

    start_operator(ends_early)
    assert len(demonstrate({"task": "reach"}, out=tmp_path / "dataset", policy="keyboard", episodes=5)) == 2
    assert len(load_demonstrations(tmp_path / "dataset")) == 2


def test_restarting_repeats_the_episode(start_operator: Callable[[Operator], None], tmp_path: Path) -> None:
    episodes: list[int] = []

    def restarts_once(env: Any) -> list[str]:
        episodes.append(env.state_dict()["episode"])
        return ["r"] if env.elapsed_steps >= 3 and len(episodes) < 8 else towards_goal(env)

    start_operator(restarts_once)
    recorded = demonstrate({"task": "reach"}, out=tmp_path / "dataset", policy="keyboard", episodes=1)
    assert [episode.success for episode in recorded.episodes] == [True]
    assert [replayed.differs_at for replayed in replay(tmp_path / "dataset")] == [None]
    evaluated = evaluate(policy="keyboard", episodes=2)
    assert evaluated.solved == len(evaluated.episodes) == 2
    episodes.clear()
    restarted = evaluate(policy="keyboard", episodes=2)
    assert restarted == evaluated, "the steps before a restart do not count"


def test_ending_an_evaluation_keeps_the_finished_episodes(start_operator: Callable[[Operator], None]) -> None:
    starts: list[int] = []

    def ends_early(env: Any) -> list[str]:
        starts.extend([0] * (env.elapsed_steps == 0))
        return ["q"] if len(starts) > 1 else towards_goal(env)

    start_operator(ends_early)
    assert len(evaluate(policy="keyboard", episodes=5).episodes) == 1
    with pytest.raises(RunError, match="no episode was played to the end"):
        evaluate(policy="keyboard", episodes=5)


def test_ending_the_recording_immediately_leaves_nothing(
    start_operator: Callable[[Operator], None], tmp_path: Path
) -> None:
    start_operator(lambda env: ["q"])
    with pytest.raises(RunError, match="keyboard: 0 of 0"):
        demonstrate({"task": "reach"}, out=tmp_path / "dataset", policy="keyboard", episodes=5)
    assert list(tmp_path.iterdir()) == []


def test_keyboard_needs_a_display(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ConfigError, match=r"^render_mode: 'human'"):
        demonstrate({"task": "reach"}, out=tmp_path / "dataset", policy="keyboard", episodes=1)
    assert list(tmp_path.iterdir()) == []


def test_keys_control_gripper_and_tool_yaw(start_operator: Callable[[Operator], None]) -> None:
    pressed: list[list[str]] = []
    start_operator(lambda env: pressed.pop(0))
    env = env_factory.make_env(from_python({"task": "AGR"}).config, render_mode="human")
    env.reset(seed=0)
    policy = teleoperation.Keyboard(env)

    def press(*keys: str, first: bool = False) -> Any:
        pressed.append(list(keys))
        action = policy.predict(None, episode_start=np.array([first]))[0][0]
        env.step(action)
        return action

    names = list(env.world.control_names)
    gripper, turn = names.index("gripper"), names.index("tool_yaw")
    pressed.append([])  # the policy waits for the first key
    assert press("a", first=True)[turn] > 0.1
    assert press("d")[turn] < -0.1
    assert abs(press()[turn]) < 0.01
    assert [press(*keys)[gripper] for keys in ((), ("space",), ("space",), (), ("space",))] == [1, -1, -1, -1, 1]
    env.close()
