"""The scripted expert of any task, and the policies that need no training: `oracle`, `random`, `zero`, `hover`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.stages.motions import lifted, limited


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


Prediction = tuple[NDArray[np.float32], None]


class OraclePolicy:
    """The scripted expert of each environment."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.experts = [make_expert(env) for env in envs]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Actions `(n, A)`."""
        return np.stack([expert.act(None) for expert in self.experts]), None


class RandomPolicy:
    """Uniform actions, seeded."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.shape = (len(envs), *envs[0].action_space.shape)
        self.rng = np.random.default_rng(seed)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Actions `(n, A)` in [−1, 1]."""
        return self.rng.uniform(-1.0, 1.0, self.shape).astype(np.float32), None


class ZeroPolicy:
    """Does nothing."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.shape = (len(envs), *envs[0].action_space.shape)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Zeros `(n, A)`."""
        return np.zeros(self.shape, dtype=np.float32), None


ABOVE = 0.07
"""m over an object or a handle, which is near enough to have approached it, and too far to touch it."""

BESIDE = 1.5
"""Times the tolerance: how far from a goal without an object it stays."""


class HoverPolicy:
    """Flies to what is to be acted on first and stays there: a reward that pays it is a mistake."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.envs = [env.unwrapped for env in envs]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Actions `(n, A)`."""
        return np.stack([env.world.action_towards(_beside(env)) for env in self.envs]).astype(np.float32), None


def _beside(env: Any) -> NDArray[np.float64]:
    """`(3,)` m: where to hover."""
    context = StageContext(env.world.state, env.progress, env.goals, env.task.bound_stages[0])
    there = lifted(context.target, ABOVE)
    if not context.has_target:
        there = limited(context.target, context.start_ee_position, BESIDE * context.thresholds.tolerance)
    beside: NDArray[np.float64] = there[0]
    return beside


registry("policy").register("oracle", OraclePolicy, "the scripted expert of every stage, joined")
registry("policy").register("random", RandomPolicy, "uniform random actions")
registry("policy").register("zero", ZeroPolicy, "does nothing")
registry("policy").register("hover", HoverPolicy, "stays near what is to be acted on")
