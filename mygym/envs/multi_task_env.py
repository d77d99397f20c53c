"""Environment of several tasks: each episode is played in one of several environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mygym.envs.arguments import check_options
from mygym.envs.env_spec import EnvSpec
from mygym.envs.episode_seeds import EpisodeSeeds, make_generator
from mygym.envs.observation_builder import Observation
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RunError
from mygym.tasks.task import WORLD_INDEPENDENT_PARAMS, Task
from mygym.types import FloatArray


class MultiTaskEnv(gymnasium.Env[Observation, Any]):
    """Several environments with equal spaces, e.g. of several tasks; each episode is played in one of them.

    Seed and number of the episode select the environment: round robin, or drawn with the weights of `set_weights`.
    Environments are built when they are first played; those that differ only in `WORLD_INDEPENDENT_PARAMS` and rewards
    share a world. Other attributes, such as `expert_action`, come from the active environment.

    Args:
        specs: The environments, or arguments of `RobotEnv` for each.
        labels: Label of each environment.
        codes: `(environments, d)` in [0, 1]: appended to the observations of each environment to identify it.

    Raises:
        ConfigError: The spaces of two environments differ.
    """

    metadata = RobotEnv.metadata

    def __init__(
        self,
        specs: Sequence[EnvSpec | Mapping[str, Any]],
        labels: Sequence[str],
        codes: NDArray[np.float32] | None = None,
    ) -> None:
        self._specs = [EnvSpec.of(spec) for spec in specs]
        self._envs: dict[int, RobotEnv] = {}
        self._codes = codes
        self._seeds = EpisodeSeeds()
        self.labels = tuple(labels)
        self.variant = 0
        """Index of the active environment."""
        self._weights: FloatArray | None = None
        first = self.playing
        self.render_mode, self.metadata = first.render_mode, first.metadata
        self.action_space, self.binary_actions = first.action_space, first.binary_actions
        self.observation_space = with_codes(first.observation_space, codes)

    @property
    def playing(self) -> RobotEnv:
        """The active environment."""
        return self._env(self.variant)

    @property
    def episode_seed(self) -> tuple[int, int]:
        """Seed of the environment, and number of the episode since the seed was set; they decide the episode."""
        return self._seeds.seed, self._seeds.number

    @property
    def label(self) -> str:
        """Label of the active environment."""
        return self.labels[self.variant]

    @property
    def components(self) -> dict[str, slice]:
        """Slice of `observation` that holds each component."""
        return with_code_slice(self.playing.components, self._codes)

    def try_all(self) -> None:
        """Build all environments now, and begin an episode in each.

        Raises:
            ConfigError: An environment cannot be built or reset, or the spaces of two differ.
        """
        for index in range(len(self.labels)):
            self._env(index).reset(seed=0)

    def set_weights(self, weights: Sequence[float] | None) -> None:
        """Set the relative frequency of each environment from the next episode on.

        Args:
            weights: One number per environment, not negative, not all 0; None: round robin.

        Raises:
            RunError: Invalid weights.
        """
        self._weights = checked_weights(weights, len(self.labels))

    # Gymnasium's methods ------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start the first episode of `seed`, or the next episode of the previous seed."""
        check_options(options)
        sequence = self._seeds.begin(seed)
        self._np_random = make_generator(sequence)
        self._np_random_seed = self._seeds.seed
        self.variant = self._select()
        observation, info = self.playing.reset(seed=int(sequence.generate_state(1)[0]))
        return self._add_code(observation), {**info, "variant": self.variant}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by one control step."""
        observation, reward, terminated, truncated, info = self.playing.step(action)
        return self._add_code(observation), reward, terminated, truncated, {**info, "variant": self.variant}

    def render(self) -> NDArray[np.uint8] | None:
        """Render the active environment."""
        return self.playing.render()

    def close(self) -> None:
        """Close all environments."""
        for env in self._envs.values():
            env.close()

    # The goal environment's methods -------------------------------------------------------------------------------

    @property
    def compute_reward(self) -> Any:
        """Function `(achieved_goal, desired_goal, info)` → rewards of the environments that the infos name.

        Flat environments do not have it: this is how SB3 recognises goal environments.
        """
        if not self.playing.goal_env:
            raise AttributeError("flat observations have no goals")
        return partial(goal_rewards, self._env)

    # Recordings -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the active environment, and how it was selected."""
        selection = {**self._seeds.state_dict(), "variant": self.variant, "weights": self._weights}
        state = self.playing.state_dict()
        return {**state, "observation": self._add_code(state["observation"]), "selection": selection}

    def load_state_dict(self, state: Mapping[str, Any]) -> Observation:
        """Restore a `state_dict` and return the observation."""
        selection = state["selection"]
        self._seeds.load_state_dict(selection)
        self.variant = int(selection["variant"])
        self.set_weights(selection["weights"])
        return self._add_code(self.playing.load_state_dict(state))

    def restore(self, snapshot: Any) -> Observation:
        """Restore a `snapshot()` of the active environment, see `RobotEnv.restore`."""
        return self._add_code(self.playing.restore(snapshot))

    # ---------------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(vars(self).get('labels', ()))}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.playing, name)

    def _env(self, index: int) -> RobotEnv:
        if index not in self._envs:
            env = self._build(index)
            try:
                if self._envs:
                    check_equal_spaces(env, next(iter(self._envs.values())), self.labels[index])
            except ConfigError:
                if all(env.world is not other.world for other in self._envs.values()):
                    env.close()
                raise
            self._envs[index] = env
        return self._envs[index]

    def _build(self, index: int) -> RobotEnv:
        """Build an environment, in the world of another if possible."""
        spec = self._specs[index]
        for other, env in self._envs.items():
            if _of_world(self._specs[other]) == _of_world(spec):
                return env.in_same_world(spec)
        return RobotEnv.of(spec)

    def _select(self) -> int:
        """Select the environment of the current episode."""
        if self._weights is None:
            return (self._seeds.seed + self._seeds.number) % len(self.labels)
        return int(self.np_random.choice(len(self.labels), p=self._weights))

    def _add_code(self, observation: Observation) -> Observation:
        """Append the active environment's code to an observation."""
        if self._codes is None:
            return observation
        code = self._codes[self.variant]
        if isinstance(observation, dict):
            numbers = [observation["observation"]] if "observation" in observation else []  # else images only
            return {**observation, "observation": np.concatenate([*numbers, code])}
        return np.concatenate([observation, code])


AnyEnv = RobotEnv | MultiTaskEnv
"""Any environment of mygym; a `MultiTaskEnv` has the attributes of its active environment."""


class HasSpaces(Protocol):
    """What `check_equal_spaces` compares."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    task: Task


def check_equal_spaces(env: HasSpaces, other: HasSpaces, label: str) -> None:
    """Check that the environment `label` and another have equal spaces, as a network that plays both requires.

    Raises:
        ConfigError: The spaces differ.
    """
    for kind in ("observation_space", "action_space"):
        if getattr(env, kind) != getattr(other, kind):
            raise ConfigError(
                f"strategy: {label} has another {kind.replace('_', ' ')} than {other.task.name}, so one network cannot "
                f"play both; allowed: tasks with equal spaces, e.g. tasks of the same robot with spaces: shared"
            )


def checked_weights(weights: Sequence[float] | None, count: int) -> FloatArray | None:
    """Return the shares `(count,)` of environments for relative weights; None: round robin.

    Raises:
        RunError: The weights are not `count` numbers, not negative, not all 0.
    """
    if weights is None:
        return None
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (count,) or not np.isfinite(values).all() or values.min() < 0 or not values.any():
        raise RunError(f"set_weights: {weights!r:.200} are not {count} weights, not negative, not all 0")
    shares: FloatArray = values / values.sum()
    return shares


def with_codes(space: Any, codes: NDArray[np.float32] | None) -> Any:
    """Return an observation space with room for codes `(environments, d)` after its numbers; None: there are none."""
    if codes is None:
        return space
    if isinstance(space, gymnasium.spaces.Dict):
        numbers = space.spaces.get("observation", gymnasium.spaces.Box(0, 1, (0,), np.float32))
        return gymnasium.spaces.Dict({**space.spaces, "observation": with_codes(numbers, codes)})
    lower, upper = (np.full(codes.shape[1], bound, np.float32) for bound in (0.0, 1.0))
    low, high = np.concatenate([space.low, lower]), np.concatenate([space.high, upper])
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


def with_code_slice(slices: Mapping[str, slice], codes: NDArray[np.float32] | None) -> dict[str, slice]:
    """Return the slices of an observation with that of the code, `variant`; None: there are no codes."""
    end = max((component.stop for component in slices.values()), default=0)
    return {**slices, **({} if codes is None else {"variant": slice(end, end + codes.shape[1])})}


def goal_rewards(env_of: Callable[[int], Any], achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
    """Return rewards of goal vectors `(size,)` or `(n, size)` in the environments that an info, or `n` infos, name.

    `env_of` returns the environment of an index.

    Raises:
        RunError: An info names no environment.
    """
    if isinstance(info, Mapping):
        return env_of(_variant(info)).compute_reward(achieved_goal, desired_goal, info)
    variants = np.array([_variant(step_info) for step_info in info])
    rewards = np.zeros(len(variants))
    for variant in np.unique(variants):
        rows = variants == variant
        rewards[rows] = env_of(int(variant)).compute_reward(achieved_goal[rows], desired_goal[rows], None)
    return rewards


def _of_world(spec: EnvSpec) -> EnvSpec:
    """Return an environment's description without what does not change its world."""
    unset = dict.fromkeys(WORLD_INDEPENDENT_PARAMS)
    return spec.model_copy(update={"task_params": spec.task_params.model_copy(update=unset), "reward": "sparse"})


def _variant(info: Mapping[str, Any]) -> int:
    if "variant" not in info:
        raise RunError(
            "rewards of several tasks need infos that name the task: set replay_buffer_kwargs.copy_info_dict to true"
        )
    return int(info["variant"])
