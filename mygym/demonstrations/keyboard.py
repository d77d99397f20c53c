"""A person at the keyboard drives the arm, in a window: demonstrations by teleoperation."""

from __future__ import annotations

import math
import time
from collections.abc import Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.envs.multi_task_env import AnyEnv

KEYBOARD = "keyboard"
"""What the command line calls whoever sits there."""

SPEED = 0.01
"""m by which a key that is held down moves the target in a step."""

LEAD = 0.04
"""m by which the target leads the end effector at most: it stops soon after the key is released."""

TURN = 0.06
"""rad by which a key that is held down turns the tool in a step."""

PACE = 0.1
"""s that a step takes at least: slower than life, which is too fast for people."""

MOVES = {
    "up": (0.0, 1.0, 0.0),
    "down": (0.0, -1.0, 0.0),
    "left": (-1.0, 0.0, 0.0),
    "right": (1.0, 0.0, 0.0),
    "w": (0.0, 0.0, 1.0),
    "s": (0.0, 0.0, -1.0),
}
"""Key → where it moves the end effector: to the right, away from and above whoever looks."""

TURNS = {"a": 1.0, "d": -1.0}
"""Key → which way it turns the tool, counter-clockwise seen from above."""

END = "q"
"""Key that ends all."""

HOW = (
    "arrow keys move the end effector, w and s lift and lower it, a and d turn the tool, space closes and opens the "
    "gripper; an episode begins with the first key and is kept if it ends in success; q ends"
)
"""For people, before they begin."""


class GivenUp(Exception):  # noqa: N818  (it is no error)
    """Whoever drives has had enough."""


class Keyboard:
    """A policy whose actions a person decides.

    Args:
        env: One with `render_mode="human"`.
    """

    def __init__(self, env: AnyEnv) -> None:
        self.env = env
        self.target: NDArray[np.float64] = np.zeros(3)
        """`(3,)` m, world frame: where the end effector is sent."""
        self.gripper = 1.0
        self._held: Set[str] = frozenset()
        self._next = 0.0

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], None]:
        """Actions `(1, A)`; at the start of an episode it waits for a key.

        Raises:
            GivenUp: `END` was pressed, or the window closed.
        """
        world = self.env.world
        at = world.state.ee_position[0]
        keys = self._keys()
        if episode_start is None or episode_start[0]:
            self.target, self.gripper = at.copy(), 1.0
            while not keys:
                keys = self._keys()
        if "space" in keys and "space" not in self._held:
            self.gripper = -self.gripper
        self._held = keys
        right, away, above = (sum(MOVES[key][axis] for key in keys & MOVES.keys()) for axis in range(3))
        yaw = math.radians(world.workspace.cameras["main"].yaw)
        move = (right * math.cos(yaw) - away * math.sin(yaw), right * math.sin(yaw) + away * math.cos(yaw), above)
        self.target = np.clip(self.target + SPEED * np.array(move), at - LEAD, at + LEAD)
        turn = TURN * sum(TURNS[key] for key in keys & TURNS.keys())
        return world.action_towards(self.target, self.gripper, turn)[None].astype(np.float32), None

    def _keys(self) -> Set[str]:
        """What is held down, looked at as often as `PACE` allows.

        Raises:
            GivenUp: `END` is among them, or the window was closed.
        """
        time.sleep(max(0.0, self._next - time.perf_counter()))
        self._next = time.perf_counter() + PACE
        keys: Set[str] | None = self.env.pressed_keys()
        if keys is None or END in keys:
            raise GivenUp
        return keys
