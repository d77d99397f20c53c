"""A scripted expert for any task: the expert of whichever stage is active."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value


class Expert(Protocol):
    """Acts on what it sees of its environment; deterministic, so that the episode's seed decides everything."""

    def act(self, observation: Any) -> NDArray[np.float32]:
        """Action `(A,)`, or `(n, A)` for a vector environment."""


class _Single:
    def __init__(self, env: Any) -> None:
        self.env = env.unwrapped

    def act(self, observation: Any) -> NDArray[np.float32]:
        action: NDArray[np.float32] = self.env.expert_action()
        return action


class _Gymnasium:
    def __init__(self, env: Any) -> None:
        self.env = env

    def act(self, observation: Any) -> NDArray[np.float32]:
        return np.stack(self.env.call("expert_action"))


class _StableBaselines:
    def __init__(self, env: Any) -> None:
        self.env = env

    def act(self, observation: Any) -> NDArray[np.float32]:
        return np.stack(self.env.env_method("expert_action"))


def make_expert(env: Any) -> Expert:
    """The expert of an environment of ours, wrapped or not, single or in a Gymnasium or SB3 vector environment.

    The expert reads the environment's state, not the observation: it is a reference for what is possible.

    Raises:
        ConfigError: It is an environment of somebody else's, which has none.
    """
    if not _has_expert(env):
        why = "has no scripted expert to learn from"
        raise ConfigError(bad_value("env", type(env).__name__, "environments of mygym's", why))
    if hasattr(env, "env_method"):
        return _StableBaselines(env)
    return _Gymnasium(env) if hasattr(env, "call") else _Single(env)


def _has_expert(env: Any) -> bool:
    """Whether there is one; a vector environment of Gymnasium's cannot tell before it is asked to act."""
    if hasattr(env, "env_method"):
        return bool(env.has_attr("expert_action"))
    return hasattr(env, "call") or hasattr(env.unwrapped, "expert_action")
