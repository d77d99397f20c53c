"""Environments in a module that imports little, because each of their processes imports it."""

from __future__ import annotations

import os
from typing import Any

import gymnasium

from mygym.envs.robot_env import RobotEnv
from mygym.errors import MygymError


class OddError(MygymError):
    """Error that can be pickled but is not restored equal to itself."""

    def __init__(self, key: str) -> None:
        super().__init__(f"odd {key}")


class Watched(gymnasium.Wrapper):
    resets = 0

    def reset(self, **keywords: Any) -> Any:
        self.resets += 1
        observation, info = super().reset(**keywords)
        return observation, {**info, "resets": self.resets}

    def local(self) -> Any:
        return lambda: None  # does not pickle


class Fatal(RobotEnv):
    def step(self, action: Any) -> Any:
        os._exit(3)


def small_env() -> RobotEnv:
    return RobotEnv(render_mode="rgb_array", render_width=32, render_height=24)


def watched_env() -> Watched:
    return Watched(small_env())


def fail(error: Exception) -> RobotEnv:
    raise error


class Scaled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Multiplies the rewards of hindsight by an attribute."""

    scale = 1.0

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return self.scale * self.env.get_wrapper_attr("compute_reward")(achieved, desired, info)


def scaled_env() -> Scaled:
    return Scaled(small_env())
