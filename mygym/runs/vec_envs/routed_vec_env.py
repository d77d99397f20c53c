"""Vector environment whose observations include a route through the networks of a mixture policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from mygym.types import FloatArray

ROUTE = "route"
"""Key of the route in the observation; observations of evaluations have no such key."""


class RoutedVecEnv(VecEnvWrapper):
    """Wrapper that adds to each observation the route of its environment.

    An algorithm then stores the route with the observation, and its policy receives both.

    Args:
        venv: Environments; if `shown`, with dictionary observations.
        width: Length of a route.
        shown: Whether observations include the route; rewards are always summed.
    """

    def __init__(self, venv: VecEnv, width: int, shown: bool) -> None:
        space = venv.observation_space
        if shown:
            assert isinstance(space, spaces.Dict)
            space = spaces.Dict({**space.spaces, ROUTE: spaces.Box(-np.inf, np.inf, (width,), np.float32)})
        super().__init__(venv, observation_space=space)
        self.shown = shown
        self.routes: NDArray[np.float32] = np.zeros((venv.num_envs, width), dtype=np.float32)
        """`(n_envs, width)`: routes to add; set before a rollout."""
        self.rewards: FloatArray = np.zeros(venv.num_envs)
        """`(n_envs,)`: sums of rewards since a strategy has reset them to 0."""

    def reset(self) -> Any:
        """Reset all environments."""
        return self.routed(self.venv.reset())

    def step_wait(self) -> Any:
        """Return the results of the step, with routes."""
        observations, rewards, dones, infos = self.venv.step_wait()
        self.rewards += rewards
        if self.shown:
            for row, info in enumerate(infos):
                if "terminal_observation" in info:
                    info["terminal_observation"] = {**info["terminal_observation"], ROUTE: self.routes[row].copy()}
        return self.routed(observations), rewards, dones, infos

    def routed(self, observations: Any) -> Any:
        """Return the observations of all environments with the current routes."""
        return {**observations, ROUTE: self.routes.copy()} if self.shown else observations


def without_route(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the observation space without the route."""
    if not isinstance(space, spaces.Dict) or ROUTE not in space.spaces:
        return space
    return spaces.Dict({key: subspace for key, subspace in space.spaces.items() if key != ROUTE})
