"""Several environments in one, of which each episode is played in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mygym.envs.robot_env import NUMBERS, Observation, RobotEnv
from mygym.errors import ConfigError, RunError


class MultiTaskEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """Environments of equal spaces, e.g. of several tasks: each episode is played in one of them.

    Which one follows from the seed and the number of the episode alone: they take turns, or are drawn with `weights`.
    Each is built when it is played for the first time, those that differ in numbers and rewards alone in one world.
    Whatever else is asked of this environment, such as the expert's action, is asked of the one that is being played.

    Args:
        arguments: Of `RobotEnv`, for each environment.
        labels: What to call each of them.
        codes: `(environments, d)` in [0, 1]: what to append to observations of each, which tells them apart.

    Raises:
        ConfigError: The spaces of two differ.
    """

    metadata = RobotEnv.metadata

    def __init__(
        self, arguments: Sequence[Mapping[str, Any]], labels: Sequence[str], codes: NDArray[np.float32] | None = None
    ) -> None:
        self._arguments = list(arguments)
        self._envs: dict[int, RobotEnv] = {}
        self._codes = codes
        self._seed, self._episode, self._seeded = 0, -1, False
        self.labels = tuple(labels)
        self.variant = 0
        """Index of the one that is played."""
        self._weights: NDArray[np.float64] | None = None
        first = self.playing
        self.render_mode = first.render_mode
        self.action_space = first.action_space
        self.observation_space = self._identified_space(first.observation_space)

    @property
    def playing(self) -> RobotEnv:
        """The environment that is played."""
        return self._env(self.variant)

    @property
    def label(self) -> str:
        """What the one that is played is called."""
        return self.labels[self.variant]

    @property
    def components(self) -> dict[str, slice]:
        """Where in `observation` each of its components is."""
        found = self.playing.components
        end = max(one.stop for one in found.values())
        return found | ({} if self._codes is None else {"variant": slice(end, end + self._codes.shape[1])})

    def try_all(self) -> None:
        """Build each now, and begin an episode of each.

        Raises:
            ConfigError: One cannot be built or begun, or the spaces of two differ.
        """
        for index in range(len(self.labels)):
            self._env(index).reset(seed=0)

    def set_weights(self, weights: Sequence[float] | None) -> None:
        """Say how often each is played from the next episode on.

        Args:
            weights: One for each, not below 0, not all 0; None: they take turns.

        Raises:
            RunError: They are no such numbers.
        """
        if weights is None:
            self._weights = None
            return
        values = np.asarray(weights, dtype=np.float64)
        if values.shape != (len(self.labels),) or not np.isfinite(values).all() or values.min() < 0 or not values.any():
            raise RunError(f"set_weights: {weights!r:.200} are not {len(self.labels)} weights, not below 0, not all 0")
        self._weights = values / values.sum()

    # Gymnasium's methods ------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode: the first of `seed`, or the next of the seed given before."""
        if seed is not None or not self._seeded:
            self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
            self._seeded, self._episode = True, -1
        self._episode += 1
        words = np.random.SeedSequence([self._seed, self._episode])
        self._np_random = np.random.Generator(np.random.PCG64(words))
        self._np_random_seed = self._seed
        self.variant = self._drawn()
        observation, info = self.playing.reset(seed=int(words.generate_state(1)[0]))
        return self._identified(observation), {**info, "variant": self.variant}

    def step(self, action: NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by one control step."""
        observation, reward, terminated, truncated, info = self.playing.step(action)
        return self._identified(observation), reward, terminated, truncated, {**info, "variant": self.variant}

    def render(self) -> NDArray[np.uint8] | None:
        """The picture of the one that is played."""
        return self.playing.render()

    def close(self) -> None:
        """Close all that were built."""
        for env in self._envs.values():
            env.close()

    # The goal environment's methods -------------------------------------------------------------------------------

    @property
    def compute_reward(self) -> Any:
        """`(achieved_goal, desired_goal, info)` → reward; only goal environments have it: so SB3 tells them apart."""
        if not self.playing.goal_env:
            raise AttributeError("flat observations have no goals")
        return self._goal_reward

    def _goal_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Each by the one that it was played in, which the infos say.

        Raises:
            RunError: They do not.
        """
        if isinstance(info, Mapping):
            return self._env(_variant(info)).compute_reward(achieved_goal, desired_goal, info)
        played = np.array([_variant(one) for one in info])
        rewards = np.zeros(len(played))
        for variant in np.unique(played):
            rows = played == variant
            rewards[rows] = self._env(int(variant)).compute_reward(achieved_goal[rows], desired_goal[rows], None)
        return rewards

    # Recordings -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the environment is: that of the one that is played, and how it was chosen."""
        own = {"seed": self._seed, "seeded": self._seeded, "episode": self._episode, "variant": self.variant}
        inner = self.playing.state_dict()
        observation = self._identified(inner["observation"])
        return {**inner, "observation": observation, "varied": {**own, "weights": self._weights}}

    def load_state_dict(self, state: Mapping[str, Any]) -> Observation:
        """Go to where `state_dict` was taken; returns the observation there."""
        own = state["varied"]
        self._seed, self._seeded, self._episode = int(own["seed"]), bool(own["seeded"]), int(own["episode"])
        self.variant = int(own["variant"])
        self.set_weights(own["weights"])
        return self._identified(self.playing.load_state_dict(state))

    # ---------------------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.playing, name)

    def _env(self, index: int) -> RobotEnv:
        if index not in self._envs:
            env = self._built(index)
            if self._envs:
                check_equal_spaces(env, next(iter(self._envs.values())), self.labels[index])
            self._envs[index] = env
        return self._envs[index]

    def _built(self, index: int) -> RobotEnv:
        said = self._arguments[index]
        for other, env in self._envs.items():
            if _of_the_world(self._arguments[other]) == _of_the_world(said):
                return env.in_same_world(said.get("task_params") or {}, said.get("reward", "sparse"))
        return RobotEnv(**said)

    def _drawn(self) -> int:
        if self._weights is None:
            return (self._seed + self._episode) % len(self.labels)
        return int(self.np_random.choice(len(self.labels), p=self._weights))

    def _identified(self, observation: Observation) -> Observation:
        if self._codes is None:
            return observation
        which = self._codes[self.variant]
        if isinstance(observation, dict):
            return {**observation, "observation": np.concatenate([observation["observation"], which])}
        return np.concatenate([observation, which])

    def _identified_space(self, space: Any) -> Any:
        if self._codes is None:
            return space
        if isinstance(space, gymnasium.spaces.Dict):
            return gymnasium.spaces.Dict({**space.spaces, "observation": self._identified_space(space["observation"])})
        none, one = (np.full(self._codes.shape[1], bound, np.float32) for bound in (0.0, 1.0))
        low, high = np.concatenate([space.low, none]), np.concatenate([space.high, one])
        return gymnasium.spaces.Box(low, high, dtype=np.float32)


AnyEnv = RobotEnv | MultiTaskEnv
"""What can be judged and filmed: of several in one, the one that is played answers."""


def check_equal_spaces(env: RobotEnv, other: RobotEnv, label: str) -> None:
    """Refuse an environment that one network could not play as well as another.

    Raises:
        ConfigError: Their spaces differ.
    """
    for kind in ("observation_space", "action_space"):
        one, two = getattr(env, kind), getattr(other, kind)
        if one != two:
            raise ConfigError(
                f"strategy: {label} has another {kind.replace('_', ' ')} than {other.task.name}, so one network cannot "
                f"play both; allowed: tasks with equal spaces, as those of one robot with spaces: shared"
            )


def _of_the_world(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Of the arguments of `RobotEnv` what decides its world."""
    params = {key: value for key, value in (arguments.get("task_params") or {}).items() if key not in NUMBERS}
    return {**arguments, "task_params": params, "reward": None}


def _variant(info: Mapping[str, Any]) -> int:
    if "variant" not in info:
        raise RunError(
            "rewards of several tasks are computed from infos that say which was played: "
            "set replay_buffer_kwargs.copy_info_dict to true"
        )
    return int(info["variant"])
