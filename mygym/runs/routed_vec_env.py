"""What training environments show besides what there is to see: which way the policy's networks are passed."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

ROUTE = "route"
"""The part of the observation that holds it; evaluations have no such part."""


class RoutedVecEnv(VecEnvWrapper):
    """Adds to each observation the route that its environment has been given.

    So whatever an algorithm stores of an observation, and passes to its policy again, has the route with it.

    Args:
        venv: Environments; with dictionary observations, if `shown`.
        width: Numbers of a route.
        shown: Whether observations have it; rewards are counted either way.
    """

    def __init__(self, venv: VecEnv, width: int, shown: bool) -> None:
        space = venv.observation_space
        if shown:
            assert isinstance(space, spaces.Dict)
            space = spaces.Dict({**space.spaces, ROUTE: spaces.Box(-np.inf, np.inf, (width,), np.float32)})
        super().__init__(venv, observation_space=space)
        self.shown = shown
        self.routes: NDArray[np.float32] = np.zeros((venv.num_envs, width), dtype=np.float32)
        """`(n_envs, width)`: what is added; set before a rollout."""
        self.rewards: NDArray[np.float64] = np.zeros(venv.num_envs)
        """`(n_envs,)`: sum of the rewards since somebody set it to 0."""

    def reset(self) -> Any:
        """Begin episodes."""
        return self.routed(self.venv.reset())

    def step_wait(self) -> Any:
        """The environments' answer."""
        observations, rewards, dones, infos = self.venv.step_wait()
        self.rewards += rewards
        if self.shown:
            for row, info in enumerate(infos):
                if "terminal_observation" in info:
                    info["terminal_observation"] = {**info["terminal_observation"], ROUTE: self.routes[row].copy()}
        return self.routed(observations), rewards, dones, infos

    def routed(self, observations: Any) -> Any:
        """`observations` of all environments with the routes as they are now."""
        return {**observations, ROUTE: self.routes.copy()} if self.shown else observations


def seen(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The observation space without the route."""
    if not isinstance(space, spaces.Dict) or ROUTE not in space.spaces:
        return space
    return spaces.Dict({key: part for key, part in space.spaces.items() if key != ROUTE})
