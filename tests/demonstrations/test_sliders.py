"""Sliders move the goal and set actions; a program takes the place of the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from mygym import api
from mygym.engines.rendering.viewer import SliderRange
from mygym.envs.camera_views import EnvWindow
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RunError
from mygym.training import env_factory
from mygym.training.evaluation import Evaluation


class Window:
    """A window whose sliders a program moves."""

    def __init__(self) -> None:
        self.ranges: Mapping[str, SliderRange] = {}
        self.values: dict[str, float] = {}
        self.open = True

    def is_open(self) -> bool:
        return self.open

    def set_sliders(self, ranges: Mapping[str, SliderRange]) -> None:
        self.ranges = ranges
        self.values = {name: start for name, (_, _, start) in ranges.items()}

    def slider_values(self) -> dict[str, float]:
        return dict(self.values)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Evaluation]:
    """Evaluate in a window; `operator` gets window and environment after each reset and step."""
    window, take_step, begin = Window(), RobotEnv.step, RobotEnv.reset
    monkeypatch.setattr(env_factory, "check_display", lambda *arguments: None)
    monkeypatch.setattr(RobotEnv, "window", window)

    def evaluate(operator: Callable[[Window, Any], None], **arguments: Any) -> Evaluation:
        def step(env: RobotEnv, action: Any) -> Any:
            outcome = take_step(env, action)
            operator(window, env)
            return outcome

        def reset(env: RobotEnv, **options: Any) -> Any:
            outcome = begin(env, **options)
            operator(window, env)
            return outcome

        monkeypatch.setattr(EnvWindow, "update", lambda env_window: None)
        monkeypatch.setattr(RobotEnv, "step", step)
        monkeypatch.setattr(RobotEnv, "reset", reset)
        return api.evaluate(gui=True, episodes=1, **arguments)

    return evaluate


def test_the_goal_follows_its_sliders(play: Callable[..., Evaluation]) -> None:
    goals: list[Any] = []

    def moves(window: Window, env: Any) -> None:
        goals.append(env.goals[0, 0])
        if env.elapsed_steps == 4:
            assert set(window.values) == {"goal x", "goal y", "goal z"}
            low, high, start = window.ranges["goal y"]
            assert low <= start <= high
            window.values["goal y"] = low if start > (low + high) / 2 else high

    evaluation = play(moves, policy="oracle", config={"task": "reach"})
    assert evaluation.success_rate == 1.0, "the policy observes the goal that was moved"
    shift = goals[-1] - goals[0]
    assert abs(shift[1]) > 0.1
    np.testing.assert_array_equal(shift[[0, 2]], 0.0)
    still = play(lambda window, env: None, policy="oracle", config={"task": "reach"})
    assert evaluation.episodes[0].length > still.episodes[0].length + 3


def test_the_sliders_policy_sets_each_component_of_the_action(play: Callable[..., Evaluation]) -> None:
    positions: list[Any] = []

    def moves(window: Window, env: Any) -> None:
        positions.append(env.world.state.joint_position[0].copy())
        if env.elapsed_steps == 10:
            window.values["joint_1"] += 0.2

    config = {"task": "reach", "control": "joint_position", "task_params": {"horizon": 40}}
    play(moves, policy="sliders", config=config)
    np.testing.assert_allclose(positions[9], positions[0], atol=0.02)
    first = RobotEnv(control="joint_position").robot.arms[0].joints[0]
    moved = positions[-1] - positions[9]
    assert moved[0] == pytest.approx(0.1 * (first.upper - first.lower), abs=0.02)
    np.testing.assert_allclose(moved[1:], 0.0, atol=0.02)


def test_a_later_subtask_has_other_sliders(play: Callable[..., Evaluation]) -> None:
    seen: list[Any] = []
    play(
        lambda window, env: seen.append((int(env.progress.stage[0]), dict(window.ranges))),
        policy="oracle",
        config={"task": [{"stages": "AGMDW", "object": "cube"}, {"stages": "AGMDW", "object": "apple"}]},
    )
    assert seen[1][1] != seen[-1][1]


def test_closing_the_window_ends_the_evaluation(play: Callable[..., Evaluation]) -> None:
    def closes(window: Window, env: Any) -> None:
        window.open = env.elapsed_steps < 3

    with pytest.raises(RunError, match="no episode was played to the end"):
        play(closes, policy="zero")


def test_windows_that_cannot_be_opened_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ConfigError, match="gui: True"):
        api.evaluate(policy="sliders", episodes=1)
    with pytest.raises(ConfigError, match="gui: True"):
        api.train({"steps": 10, "logdir": str(tmp_path)}, gui=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"^gui: True"):
        api.evaluate(policy="oracle", episodes=1, gui=True, video=tmp_path / "film.mp4")
    monkeypatch.setattr(env_factory, "check_display", lambda *arguments: None)
    several = {"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push"]}}
    with pytest.raises(ConfigError, match="shows one task"):
        api.evaluate(policy="oracle", config=several, episodes=1, gui=True)
