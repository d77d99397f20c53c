"""Sliders of the simulator's window: they move the goal and, as a policy, set the components of the action."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.multi_task_env import AnyEnv
from mygym.runs.evaluation import EpisodesEnded, Predicts
from mygym.sim.rendering.viewer import SliderRange, Viewer
from mygym.tasks.context import StageBinding

SLIDERS = "sliders"
"""Name of the sliders policy on the command line."""

AXES = {"goal x": 0, "goal y": 1, "goal z": 2}
"""Name of a slider → component of the goal, m in the world frame."""


class Sliders:
    """Policy with sliders in the window, new in each episode and sub-task: the goal follows them.

    Args:
        env: Environment with `render_mode="human"`.
        acting: Policy that acts; None: each component of the action has a slider as well.
    """

    def __init__(self, env: AnyEnv, acting: Predicts | None) -> None:
        self.env, self.acting = env, acting
        self._subtask = -1
        self._values: dict[str, float] = {}

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], Any]:
        """Return actions `(1, A)`, after the goal has followed its sliders.

        Raises:
            EpisodesEnded: The window was closed.
        """
        window = self.env.window
        if window is None or not window.is_open():
            raise EpisodesEnded
        self._follow(window, is_start=episode_start is None or bool(episode_start[0]))
        if self.acting is not None:
            return self.acting.predict(observation, state, episode_start, deterministic)
        return np.array([[self._values[name] for name in self.env.world.control_names]], dtype=np.float32), None

    def _follow(self, window: Viewer, is_start: bool) -> None:
        """Set new sliders at the start of an episode or sub-task; else move the goal to its sliders."""
        env = self.env
        bound = env.task.stage_bindings[min(int(env.progress.stage[0]), len(env.task.stage_bindings) - 1)]
        if is_start or bound.subtask != self._subtask:
            self._subtask = bound.subtask
            window.set_sliders(self._action_ranges(is_start) | _goal_ranges(env, bound))
            self._values = window.slider_values()
            return
        before, self._values = self._values, window.slider_values() or self._values
        moved = {name for name, value in self._values.items() if value != before[name]} & AXES.keys()
        if moved:
            goal = env.goals[0, bound.goal_slot]
            for name in moved:
                goal[AXES[name]] = self._values[name]
            env.move_goal(goal)

    def _action_ranges(self, is_start: bool) -> dict[str, SliderRange]:
        """Return the sliders of the action; an episode begins with the action that holds the arm still."""
        if self.acting is not None:
            return {}
        world = self.env.world
        still = dict(zip(world.control_names, world.action_towards(world.state.ee_position[0]).tolist(), strict=True))
        return {name: (-1.0, 1.0, value if is_start else self._values[name]) for name, value in still.items()}


def _goal_ranges(env: AnyEnv, bound: StageBinding) -> dict[str, SliderRange]:
    """Return the sliders of the goal: each axis of the areas from which the task draws it."""
    boxes = [env.areas[name] for name in env.task.goal_areas(bound.subtask)]
    if not boxes:
        return {}
    lift = env.world.objects[bound.object].half_height if bound.object is not None else 0.0
    shift = np.array([0.0, 0.0, lift])
    low, high = np.min([low for low, _ in boxes], axis=0) + shift, np.max([high for _, high in boxes], axis=0) + shift
    goal = env.goals[0, bound.goal_slot]
    return {name: (low[axis], high[axis], goal[axis]) for name, axis in AXES.items() if low[axis] < high[axis]}
