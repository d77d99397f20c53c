"""Sliders of the simulator's window: they move the goal and, as a policy, set the components of the action."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.multi_task_env import AnyEnv
from mygym.runs.evaluation import EpisodesEnded
from mygym.sim.rendering.viewer import Range

SLIDERS = "sliders"
"""Name of the sliders policy on the command line."""

AXES = {"goal x": 0, "goal y": 1, "goal z": 2}
"""Name of a slider → component of the goal, m in the world frame."""


class Sliders:
    """Sliders of a window, new for each episode and sub-task.

    Args:
        env: Environment with `render_mode="human"`.
        actions: Whether there is a slider for each component of the action: a policy.
    """

    def __init__(self, env: AnyEnv, actions: bool) -> None:
        self.env = env
        self.names: tuple[str, ...] = env.world.control_names if actions else ()
        """Components of the action that have a slider."""
        self._subtask = -1
        self._values: dict[str, float] = {}

    def follow(self, index: int, env: AnyEnv) -> None:
        """Let the goal follow its sliders; called after each reset and step of `evaluate_policy`.

        Raises:
            EpisodesEnded: The window was closed.
        """
        window = env.window
        if window is None or not window.is_open():
            raise EpisodesEnded
        bound = env.task.bound_stages[min(int(env.progress.stage[0]), len(env.task.bound_stages) - 1)]
        if env.elapsed_steps == 0 or bound.subtask != self._subtask:
            self._subtask = bound.subtask
            window.set_sliders(self._action_ranges(env) | _goal_ranges(env, bound))
            self._values = window.slider_values()
            return
        before, self._values = self._values, window.slider_values()
        moved = {name for name, value in self._values.items() if value != before[name]} & AXES.keys()
        if moved:
            goal = env.goals[0, bound.goal_slot]
            for name in moved:
                goal[AXES[name]] = self._values[name]
            env.move_goal(goal)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], None]:
        """Return actions `(1, A)`."""
        return np.array([[self._values[name] for name in self.names]], dtype=np.float32), None

    def _action_ranges(self, env: AnyEnv) -> dict[str, Range]:
        """Return the sliders of the action; an episode begins with the action that holds the arm still."""
        still = env.world.action_towards(env.world.state.ee_position[0])
        start = still if env.elapsed_steps == 0 else [self._values[name] for name in self.names]
        return {name: (-1.0, 1.0, float(value)) for name, value in zip(self.names, start, strict=False)}


def _goal_ranges(env: AnyEnv, bound: Any) -> dict[str, Range]:
    """Return the sliders of the goal: each axis of the areas from which the task draws it."""
    boxes = [env.areas[name] for name in env.task.goal_areas(bound.subtask)]
    if not boxes:
        return {}
    lift = env.world.objects[bound.object].half_height if bound.object is not None else 0.0
    shift = np.array([0.0, 0.0, lift])
    low, high = np.min([low for low, _ in boxes], axis=0) + shift, np.max([high for _, high in boxes], axis=0) + shift
    goal = env.goals[0, bound.goal_slot]
    return {name: (low[axis], high[axis], goal[axis]) for name, axis in AXES.items() if low[axis] < high[axis]}
