"""Wrappers that give environments the interfaces of other libraries: `LeRobot`, so that its policies act here."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, bad_value
from mygym.tasks.observations import CRITIC, camera_of

STATE, ENVIRONMENT_STATE, IMAGES = "observation.state", "observation.environment_state", "observation.images."
ACTION = "action"
"""Names of features in LeRobot's data sets."""

FEATURES = {"observation": STATE, "desired_goal": ENVIRONMENT_STATE, "achieved_goal": None, CRITIC: None}
"""Key of an observation → feature, or None; other keys are those of images."""

OBSERVATION_KEYS = {STATE: "agent_pos", ENVIRONMENT_STATE: "environment_state"}
"""Feature of a data set → key of an observation; images are in `pixels`, by camera."""


def feature_of(key: str) -> str | None:
    """Return the feature of LeRobot for a key of an observation; None: it has none."""
    return FEATURES.get(key, IMAGES + camera_of(key))


def check_images(env: RobotEnv) -> None:
    """Refuse images that LeRobot's videos cannot hold.

    Raises:
        ConfigError: An image is no `image`, or its width or height is odd.
    """
    for key, subspace in _as_mapping(env.observation_space).items():
        if not (feature_of(key) or "").startswith(IMAGES):
            continue
        if key.partition(":")[0] != "image":
            raise ConfigError(bad_value("observations", key, "image, image:CAMERA, numbers", "has no place in LeRobot"))
        height, width, _ = subspace.shape
        for name, pixels in (("height", height), ("width", width)):
            if pixels % 2:
                raise ConfigError(bad_value(f"image_params.{name}", pixels, "an even number, for videos"))


class LeRobot(gymnasium.Wrapper[dict[str, Any], Any, Any, Any]):
    """Environment with observations as LeRobot's policies and its `preprocess_observation` expect them.

    `pixels` has camera → `(H, W, 3)` uint8, `agent_pos` the observation vector `(d,)` float32, and
    `environment_state` the desired goal `(G,)` if the observations have goal vectors. Actions are unchanged.

    Args:
        env: A `RobotEnv`, also in the wrappers of `gymnasium.make`.

    Raises:
        ConfigError: The environment has several tasks, or an image is no `image`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        robot_env = env.unwrapped
        if not isinstance(robot_env, RobotEnv):
            raise ConfigError(bad_value("env", type(robot_env).__name__, "an environment of a single task of mygym"))
        check_images(robot_env)
        self._robot_env = robot_env
        self.observation_space = spaces.Dict(
            {
                key: spaces.Dict(value) if isinstance(value, dict) else value
                for key, value in _renamed(_as_mapping(env.observation_space)).items()
            }
        )

    @property
    def task_description(self) -> str:
        """The task in words, as in the data sets."""
        return self._robot_env.task.describe()

    @property
    def task(self) -> str:
        """The task's name."""
        return self._robot_env.task.name

    @property
    def _max_episode_steps(self) -> int:
        """Steps until truncation, by the name under which LeRobot's rollouts ask for them."""
        return self._robot_env.task.horizon

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
        """Start an episode; see `RobotEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return _renamed(_as_mapping(observation)), info

    def step(self, action: Any) -> tuple[dict[str, Any], Any, bool, bool, dict[str, Any]]:
        """Advance by a control step; see `RobotEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return _renamed(_as_mapping(observation)), reward, terminated, truncated, info


def _as_mapping(observation: Any) -> dict[str, Any]:
    """Return the values of a dictionary observation or space by key; a flat observation has the key `observation`."""
    if isinstance(observation, spaces.Dict):
        return dict(observation.spaces)
    return observation if isinstance(observation, dict) else {"observation": observation}


def _renamed(observation: dict[str, Any]) -> dict[str, Any]:
    """Return values, or spaces, by the keys of LeRobot."""
    renamed: dict[str, Any] = {}
    for key, value in observation.items():
        feature = feature_of(key)
        if feature in OBSERVATION_KEYS:
            renamed[OBSERVATION_KEYS[feature]] = value
        elif feature is not None:
            renamed.setdefault("pixels", {})[feature.removeprefix(IMAGES)] = value
    return renamed
