"""Requirements of algorithms on the environment, checked before the model is built."""

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
    "continuous_or_combined_actions": lambda observation, action: isinstance(action, spaces.Box | spaces.Discrete),
}
"""Name in a registration's `requires` → whether an observation and an action space meet it."""


REMEDIES: Mapping[str, str] = {
    "continuous_actions": "actions: {discrete: null}",
    "discrete_actions": "actions: {discrete: 3, combined: true}",
    "continuous_or_combined_actions": "actions: {discrete: 3, combined: true}",
}
"""Requirement → the config that meets it."""


def check(entry: Algorithm, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
    """Refuse an environment that does not meet the requirements of the algorithm.

    Raises:
        ConfigError: A requirement is not met; the message names it and the file of its registration.
    """
    for name in entry.requires:
        if not REQUIREMENTS[name](observation, action):
            raise ConfigError(
                f"algo: {entry.name!r} requires {name.replace('_', ' ')} ({entry.origin}), which this environment does "
                f"not have: its observations are {_in_words(observation)}, its actions {_in_words(action)}"
                + (f"; allowed: {REMEDIES[name]}" if name in REMEDIES else "")
            )


def check_same_spaces(registered: Any, env: Any, where: str) -> None:
    """Refuse an environment in a registration's arguments whose spaces differ from the spaces of the run.

    Args:
        registered: A Gymnasium or SB3 environment that stands for the environment of the run.
        env: The environment of the run.
        where: Place and name of the registration.

    Raises:
        ConfigError: The spaces differ.
    """
    for kind in ("observation_space", "action_space"):
        space, of_the_run = getattr(registered, kind), getattr(env, kind)
        if space != of_the_run:
            raise ConfigError(
                f"{where}: the environment in the arguments replaces the run's environment, which has another {kind}: "
                f"{_in_words(of_the_run)}, not {_in_words(space)}; write 'env' in its place"
            )


def _in_words(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        return f"a dictionary of {', '.join(space.spaces)}"
    if isinstance(space, spaces.Discrete):
        return f"one of {space.n}"
    if isinstance(space, spaces.MultiDiscrete):
        return f"{len(space.nvec)} numbers below {', '.join(map(str, space.nvec))}"
    return f"{space.shape[0]} numbers" if space.shape and len(space.shape) == 1 else str(space)
