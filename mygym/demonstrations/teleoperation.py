"""Teleoperation: policies whose actions come from the keyboard, or from sliders in the window."""

from __future__ import annotations

import math
import time
from collections.abc import Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.engines.rendering.viewer import SliderRange, Viewer
from mygym.envs.multi_task_env import AnyEnv
from mygym.tasks.context import StageBinding
from mygym.training.evaluation import EpisodeRestarted, EpisodesEnded, Predicts
from mygym.types import FloatArray

KEYBOARD = "keyboard"
"""Name of the keyboard policy on the command line."""

SPEED = 0.01
"""Motion of the target while a key is held, m per step."""

LEAD = 0.04
"""Maximum distance of the target from the end effector, m; a small value lets the arm stop soon after the key."""

TURN = 0.06
"""Rotation of the tool while a key is held, rad per step."""

STEP_DURATION = 0.1
"""Minimum duration of a step, s; real time is too fast for a human operator."""

MOVES = {
    "up": (0.0, 1.0, 0.0),
    "down": (0.0, -1.0, 0.0),
    "left": (-1.0, 0.0, 0.0),
    "right": (1.0, 0.0, 0.0),
    "w": (0.0, 0.0, 1.0),
    "s": (0.0, 0.0, -1.0),
}
"""Key → direction of the end effector's motion in the view: right, away from the viewer, up."""

TURNS = {"a": 1.0, "d": -1.0}
"""Key → direction of the tool's rotation, counter-clockwise seen from above."""

RESTART = "r"
"""Key that restarts the episode."""

INSTRUCTIONS = (
    "arrow keys move the end effector, w and s lift and lower it, a and d turn the tool, space closes and opens the "
    "gripper; an episode begins with the first key; r restarts it; q ends"
)
"""Instructions for the operator."""


def displacement(keys: Set[str], yaw: float) -> FloatArray:
    """Return the motion `(3,)` of the target in the world frame, m per step, while keys are held down.

    `yaw` is that of the camera, degrees: `up` moves away from the viewer.
    """
    right, away, above = (sum(MOVES[key][axis] for key in keys & MOVES.keys()) for axis in range(3))
    cos, sin = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
    return SPEED * np.array([right * cos - away * sin, right * sin + away * cos, above])


class Keyboard:
    """Policy whose actions come from the keyboard; the environment has `render_mode="human"`."""

    def __init__(self, env: AnyEnv) -> None:
        self.env = env
        self.target: FloatArray = np.zeros(3)
        """`(3,)` m, world frame: commanded position of the end effector."""
        self.gripper = 1.0
        """Gripper command: 1 open, −1 closed."""
        self._held: Set[str] = frozenset()
        self._next = 0.0

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[Any], None]:
        """Return actions `(1, A)`; at the start of an episode, wait for a key.

        Raises:
            EpisodeRestarted: `RESTART` was pressed.
            EpisodesEnded: The window was closed, as by its key `CLOSE`.
        """
        world = self.env.world
        position = world.state.ee_position[0]
        keys = self._keys()
        if episode_start is None or episode_start[0]:
            self.target, self.gripper = position.copy(), 1.0
            while not keys - {RESTART}:
                keys = self._keys()
        elif RESTART in keys:
            raise EpisodeRestarted
        if "space" in keys and "space" not in self._held:
            self.gripper = -self.gripper
        self._held = keys
        move = displacement(keys, world.workspace.cameras["main"].yaw)
        self.target = np.clip(self.target + move, position - LEAD, position + LEAD)
        turn = TURN * sum(TURNS[key] for key in keys & TURNS.keys())
        command = world.action_towards(self.target, self.gripper, turn).astype(np.float32)
        return self.env.nearest_action(command)[None], None

    def _keys(self) -> Set[str]:
        """Return the pressed keys after the rest of `STEP_DURATION`; raise `EpisodesEnded` if the window was closed."""
        time.sleep(max(0.0, self._next - time.perf_counter()))
        self._next = time.perf_counter() + STEP_DURATION
        keys: Set[str] | None = self.env.window.keys() if self.env.window else None
        if keys is None:
            raise EpisodesEnded
        return keys


SLIDERS = "sliders"
"""Name of the sliders policy on the command line."""

AXES = {"goal x": 0, "goal y": 1, "goal z": 2}
"""Name of a slider → component of the goal, m in the world frame."""


class Sliders:
    """Policy with sliders in the window, new in each episode and sub-task: the goal follows them.

    Without an acting policy, each component of the action has a slider as well. The environment has
    `render_mode="human"`.
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
