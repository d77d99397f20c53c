"""What an algorithm can require of the environment, checked before it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gymnasium import spaces

from mygym.errors import ConfigError
from mygym.registry import Algorithm

REQUIREMENTS: Mapping[str, Callable[[spaces.Space[Any], spaces.Space[Any]], bool]] = {
    "goal_observations": lambda observation, action: (
        isinstance(observation, spaces.Dict) and {"achieved_goal", "desired_goal"} <= set(observation.spaces)
    ),
    "continuous_actions": lambda observation, action: isinstance(action, spaces.Box),
    "discrete_actions": lambda observation, action: isinstance(action, spaces.Discrete),
}
"""Name in a registration's `requires` → whether an observation and an action space meet it."""


def check(entry: Algorithm, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
    """Refuse an environment that does not have what the algorithm requires.

    Raises:
        ConfigError: Names the requirement, and where it was registered.
    """
    for name in entry.requires:
        if not REQUIREMENTS[name](observation, action):
            raise ConfigError(
                f"algo: {entry.name!r} requires {name.replace('_', ' ')} ({entry.origin}), which this environment does "
                f"not have: its observations are {_in_words(observation)}, its actions {_in_words(action)}"
            )


def check_same_spaces(given: Any, env: Any, where: str) -> None:
    """Refuse an environment in a registration's arguments that is another than the run's.

    Args:
        given: An environment of Gymnasium's or SB3's that stands for the run's.
        env: The run's.
        where: Whose arguments these are.

    Raises:
        ConfigError: Their spaces differ.
    """
    for kind in ("observation_space", "action_space"):
        mine, of_the_run = getattr(given, kind), getattr(env, kind)
        if mine != of_the_run:
            raise ConfigError(
                f"{where}: the environment in the arguments stands for that of the run, which has another {kind}: "
                f"{_in_words(of_the_run)}, not {_in_words(mine)}; write 'env' in its place"
            )


def _in_words(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        return f"a dictionary of {', '.join(space.spaces)}"
    if isinstance(space, spaces.Discrete):
        return f"one of {space.n}"
    return f"{space.shape[0]} numbers" if space.shape and len(space.shape) == 1 else str(space)
