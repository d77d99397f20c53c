"""Wrappers of vector environments: routes of a mixture, episode statistics, images, normalisation with a floor."""

from __future__ import annotations

import time
from operator import itemgetter
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecNormalize, VecTransposeImage
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from mygym.nested import map_arrays
from mygym.training.evaluation import stack_observations
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


FLOOR = 1e-4
"""Least variance of an input that varies: that of a standard deviation of 1 cm, 1 cm/s or 0.01 rad."""

NEGLIGIBLE = 1e-8
"""Variance below which an input does not vary."""

MASKED = 1e12
"""Variance that stands for an input which does not vary: divided by its square root, the input is nearly 0."""


BELOW_ONE = 1 - 1e-6
"""Greatest mean of an input that selects a network, so that its value of 1 is above 0 when it does not vary."""


class FlooredMeanStd(RunningMeanStd):
    """Running mean and variance; the variance is `MASKED`, or at least `FLOOR`."""

    selecting = slice(0)
    """Inputs of 0 and 1 that select a network of a mixture; by default none."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(epsilon=0.0, shape=shape)  # no count of a first value, which would add variance
        self.var = np.full(shape, MASKED)

    def update_from_moments(self, batch_mean: FloatArray, batch_var: FloatArray, batch_count: float) -> None:
        """Take the moments of a batch into account."""
        self.var = np.where(self.var == MASKED, 0.0, self.var)
        super().update_from_moments(batch_mean, batch_var, batch_count)
        self.var = np.where(self.var < NEGLIGIBLE, MASKED, np.maximum(self.var, FLOOR))
        self.mean[self.selecting] = np.minimum(self.mean[self.selecting], BELOW_ONE)


class FlooredNormalize(VecNormalize):
    """`VecNormalize` of observations with a floor of the variance; normalises all last observations of a step at once.

    Some numbers never vary in an engine, and vary in the engine that judges the run, e.g. the tilt of a box while it is
    pushed. Divided by a standard deviation of nearly zero, they would reach the network as large numbers that it was
    never trained on.

    `VecNormalize` normalises them episode by episode; with it, `ppo` makes 0.92 times as many env steps per second
    (`reach`, 2,048 environments).
    """

    def __init__(self, env: VecEnv, norm_obs_keys: list[str] | None = None) -> None:
        super().__init__(LastObservations(env), norm_reward=False, norm_obs_keys=norm_obs_keys)
        running = self.obs_rms
        if isinstance(running, dict):
            self.obs_rms = {key: FlooredMeanStd(shape=each.mean.shape) for key, each in running.items()}
        else:
            self.obs_rms = FlooredMeanStd(shape=running.mean.shape)

    def set_venv(self, venv: VecEnv) -> None:
        """Set the environments of a normaliser that `VecNormalize.load` has read."""
        super().set_venv(LastObservations(venv))

    def step_wait(self) -> VecEnvStepReturn:
        """Step, and normalise, as `VecNormalize` does."""
        observations, rewards, dones, infos = super().step_wait()
        assert isinstance(self.venv, LastObservations)
        if last := self.venv.last:
            rows = self.normalize_obs(stack_observations(list(last.values())))
            for row, index in enumerate(last):
                infos[index]["terminal_observation"] = map_arrays(itemgetter(row), rows)
        return observations, rewards, dones, infos


def observation_normalizer(env: VecEnv | None) -> VecNormalize | None:
    """Return the outermost normaliser of observations around environments; one of rewards alone has no statistics."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, VecNormalize) and env.norm_obs:
            return env
        env = env.venv
    return None


def running_statistics(normalizer: VecNormalize) -> dict[str, RunningMeanStd]:
    """Return key → running statistics of the observations; an empty key for flat observations."""
    running = normalizer.obs_rms
    return running if isinstance(running, dict) else {"": running}


class LastObservations(VecEnvWrapper):
    """Takes the last observations of episodes out of the infos."""

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.last: dict[int, Any] = {}
        """Index of the environment → last observation of its episode, if it has ended in this step."""

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Step; the infos have no `terminal_observation`."""
        observations, rewards, dones, infos = self.venv.step_wait()
        ended = [index for index in np.flatnonzero(dones).tolist() if "terminal_observation" in infos[index]]
        self.last = {index: infos[index].pop("terminal_observation") for index in ended}
        return observations, rewards, dones, infos
