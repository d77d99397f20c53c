"""Wrappers of vector environments: routes of a mixture, episode statistics, and images with channels first."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecTransposeImage
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

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


class EpisodeMonitor(VecMonitor):
    """`VecMonitor` that writes the rows of a step together: of thousands of environments, many end in each."""

    results_writer: Any
    """The `EpisodesCsv` to which the rows are written; None: they are not written."""

    def step_wait(self) -> VecEnvStepReturn:
        """Step; the info of an episode that ends has `episode`: return `r`, length `l`, time `t` in s, and keywords."""
        observations, rewards, dones, infos = self.venv.step_wait()
        return observations, rewards, dones, self.record(rewards, dones, infos)

    def record(
        self, rewards: NDArray[Any], dones: NDArray[np.bool_], infos: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Count a step of all environments; return the infos, with `episode` for episodes that end."""
        self.episode_returns += rewards
        self.episode_lengths += 1
        ended = np.flatnonzero(dones).tolist()
        if not ended:
            return infos
        infos, now = list(infos), round(time.time() - self.t_start, 6)
        rows: list[dict[str, Any]] = []
        for index, total, length in zip(ended, self.episode_returns[ended], self.episode_lengths[ended], strict=True):
            info = infos[index]
            rows.append({"r": total, "l": length, "t": now, **{key: info[key] for key in self.info_keywords}})
            infos[index] = {**info, "episode": rows[-1]}
        self.episode_count += len(ended)
        self.episode_returns[ended] = 0
        self.episode_lengths[ended] = 0
        if self.results_writer:
            self.results_writer.write_rows(rows)
        return infos


class TransposedImages(VecTransposeImage):
    """`VecTransposeImage` whose images are copies in C order.

    The images of a checkpoint are in this order, too: in another order, convolutions give other bits.
    """

    @staticmethod
    def transpose_image(image: NDArray[Any]) -> NDArray[Any]:
        """Return an image, or a batch of images, with the channels first."""
        return np.ascontiguousarray(VecTransposeImage.transpose_image(image))
