"""Scripted experts of environments, and policies without training: `oracle`, `random`, `zero`, `hover`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.tasks.context import StageContext
from mygym.tasks.stages.motions import lifted, limited
from mygym.types import FloatArray


class Expert(Protocol):
    """Policy that reads the state of its environment; deterministic, so that episodes follow from their seeds."""

    def act(self, observation: Any) -> NDArray[Any]:
        """Return the action `(A,)`, or `(n, A)` for a vector environment; for discrete actions the nearest action.

        Args:
            observation: The last observation; the built-in expert does not read it.
        """


@dataclass(frozen=True)
class ScriptedExpert:
    """Expert of an environment, or of each environment in a vector environment."""

    actions: Callable[..., Any]
    """Returns the action, or a sequence of actions; SB3's environments take the `indices` of those that are asked."""

    def act(self, observation: Any) -> NDArray[Any]:
        """Return the action `(A,)`, or `(n, A)` for a vector environment, see `Expert`."""
        return np.asarray(self.actions())


def make_expert(env: Any) -> ScriptedExpert:
    """Return the expert of a mygym environment, wrapped or not, single or in a Gymnasium or SB3 vector environment.

    The expert reads the environment's state, not the observation: it is an upper reference for policies.

    Args:
        env: An environment, a wrapped environment, or a vector environment.

    Raises:
        ConfigError: A third-party environment, which has no expert.
    """
    if not _has_expert(env):
        why = "has no scripted expert to learn from"
        raise ConfigError(bad_value("env", type(env).__name__, "mygym environments", why))
    if hasattr(env, "env_method"):
        return ScriptedExpert(partial(env.env_method, "expert_action"))
    if hasattr(env, "call"):
        return ScriptedExpert(partial(env.call, "expert_action"))
    single = env.unwrapped
    return ScriptedExpert(lambda: single.expert_action())  # found at each call: it may be that of the current task


def _has_expert(env: Any) -> bool:
    """Return whether an environment may have an expert; a Gymnasium vector environment is not queried."""
    if hasattr(env, "env_method"):
        return bool(env.has_attr("expert_action"))
    return hasattr(env, "call") or hasattr(env.unwrapped, "expert_action")


Prediction = tuple[NDArray[Any], None]


class OraclePolicy:
    """Policy of the scripted expert of each environment."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.experts = [make_expert(env) for env in envs]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Return actions `(n, A)`."""
        return np.stack([expert.act(None) for expert in self.experts]), None


class RandomPolicy:
    """Policy of uniform random actions; those of an episode follow from its seed and the policy's."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.envs, self.seed = [env.unwrapped for env in envs], seed
        self.space: Any = envs[0].action_space
        self.generators = [np.random.default_rng([seed, number]) for number in range(len(envs))]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Return actions `(n, A)` in [−1, 1], or discrete actions."""
        for number in np.flatnonzero([] if episode_start is None else episode_start):
            self.generators[number] = np.random.default_rng([self.seed, *self.envs[number].episode_seed])
        return np.stack([self._draw(generator) for generator in self.generators]), None

    def _draw(self, generator: np.random.Generator) -> NDArray[Any]:
        if isinstance(self.space, spaces.Box):
            return generator.uniform(-1.0, 1.0, self.space.shape).astype(np.float32)
        counts = self.space.nvec if isinstance(self.space, spaces.MultiDiscrete) else self.space.n
        return np.asarray(generator.integers(counts))


class ZeroPolicy:
    """Policy of zero actions, or of the nearest discrete actions."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        zeros = (np.zeros(env.unwrapped.world.action_size, dtype=np.float32) for env in envs)
        self.actions = np.stack([env.unwrapped.nearest_action(zero) for env, zero in zip(envs, zeros, strict=True)])

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Return actions `(n, A)`."""
        return self.actions.copy(), None


HOVER_HEIGHT = 0.07
"""m above an object or handle: near enough to count as approached, too far to touch it."""

HOVER_DISTANCE = 1.5
"""Distance from a goal without an object, in multiples of the tolerance."""


class HoverPolicy:
    """Policy that moves to the first object of the task and stays near it; no reward should favour it."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.envs = [env.unwrapped for env in envs]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Return actions `(n, A)`."""
        commands = ((env, env.world.action_towards(_hover_position(env)).astype(np.float32)) for env in self.envs)
        return np.stack([env.nearest_action(command) for env, command in commands]), None


def _hover_position(env: Any) -> FloatArray:
    """Return the position at which to hover, `(3,)` m."""
    context = StageContext(env.world.state, env.progress, env.goals, env.task.stage_bindings[0])
    positions = lifted(context.target, HOVER_HEIGHT)
    if not context.has_target:
        distance = HOVER_DISTANCE * context.thresholds.tolerance
        positions = limited(context.target, context.start_ee_position, distance)
    position: FloatArray = positions[0]
    return position


registry("policy").register("oracle", OraclePolicy, "scripted expert of each stage")
registry("policy").register("random", RandomPolicy, "uniform random actions")
registry("policy").register("zero", ZeroPolicy, "zero actions")
registry("policy").register("hover", HoverPolicy, "stays near the first object of the task")
