"""Environments side by side: observations, rewards and ends of `N` episodes as arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from mygym.config.schema import DEFAULT_ENGINE
from mygym.engines.arrays import Rows, find_arrays, to_numpy
from mygym.engines.engine import FUSED
from mygym.envs.arguments import check_shape, checked_count, checked_seeds
from mygym.envs.batches import check_batch, engine_of, episode_maker
from mygym.envs.env_spec import EnvSpec
from mygym.envs.fused_worlds import check_room
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, DivergedError, bad_value
from mygym.tasks import goals
from mygym.tasks.episode import LARGE_BATCH
from mygym.tasks.observations import CRITIC
from mygym.tasks.rewards import find_reward
from mygym.tasks.state import namespace, on_host
from mygym.types import Array

Observations = dict[str, Array]
"""`observation`, `achieved_goal` and `desired_goal`, each `(N, …)` float32."""


@dataclass(frozen=True)
class BatchStep:
    """Outcome of a control step of `N` environments."""

    observations: Observations
    """After the step; where an episode has ended, of the next episode."""
    last: Observations
    """After the step, before any reset."""
    reward: Array
    """`(N,)`."""
    terminated: Array
    """`(N,)` bool: success has held, or the object is lost and the reward has the cost of that."""
    truncated: Array
    """`(N,)` bool: the horizon is reached, or the object is lost, without success."""
    success: Array
    """`(N,)` bool: success has held."""
    failed: Array
    """`(N,)` bool: the object has left the workspace."""
    touched: Array
    """`(N,)` bool: the robot has touched the object in the episode."""
    stage: Array
    """`(N,)` int: active stage after the step."""
    stages_done: Array
    """`(N,)` int: most stages done in the episode."""
    elapsed: Array
    """`(N,)` int: control steps of the episode."""
    saturation: Array
    """`(N,)`: share of the action components at a limit, over the episode."""


class BatchEnv:
    """`N` environments with the task, spaces, rewards and ends of `RobotEnv`; each resets by itself.

    An environment's episodes follow from its seed and their number, as in `RobotEnv`; they are other episodes than
    those of `RobotEnv` with the same seed.

    Args:
        spec: An environment, or arguments of `RobotEnv`; where they name no engine, it is `fused`.
        count: `N`.
        output: `numpy` or `torch`, the library of all arrays, for the engine `fused`. On the CPU torch is the slower
            one; `BatchVectorEnv` returns tensors there and computes in numpy.
        device: Device of torch.

    Raises:
        ConfigError: A value is invalid, the engine cannot represent it, or has no batches.
        RegistryError: Unknown name.
    """

    def __init__(
        self, spec: EnvSpec | Mapping[str, Any], count: int, output: str = "numpy", device: str = "cpu"
    ) -> None:
        spec = EnvSpec.of(spec)
        self.engine, self.count = engine_of(spec), checked_count(count, "num_envs", None)
        """Name of the engine."""
        check_batch(spec, self.engine)
        arrays = find_arrays(output, device)
        if self.engine != FUSED and output != "numpy":
            raise ConfigError(bad_value("output", output, ["numpy"], f"is not available with engine {self.engine}"))
        if self.engine == FUSED:
            check_room(self.count, arrays)
        # A single world decides spaces, areas, home and controller, and checks them; it has the nominal parameters.
        single = {"engine": DEFAULT_ENGINE if self.engine == FUSED else self.engine, "randomize": {}}
        with closing(RobotEnv.of(spec.model_copy(update=single))) as env:
            self._make = episode_maker(env, self.engine, arrays, spec.randomize)
            self.episodes = self._make(self.count)
            self.arrays = self.episodes.worlds.arrays
            self.observation_space: gymnasium.Space[Any] = env.observation_space
            self.action_space, self.binary_actions = env.action_space, env.binary_actions
            self.goal_env, self.gamma = env.goal_env, env.gamma
            self.task, self.components, self.areas = env.task, env.components, env.areas
            self._builder, self._discrete = env.builder, env.discrete
            self._measured = self.arrays.floats(env.builder.measured)
            self._reward = find_reward(env.reward_kind)
        self._step_reward(self.reset(0), self.episodes.failed)  # refuses a result of a wrong shape
        self._step: Callable[[Array], BatchStep] | None = None

    @property
    def worlds(self) -> Any:
        """The engine's worlds."""
        return self.episodes.worlds

    def resized(self, source: Array, count: int) -> BatchEnv:
        """Return another batch of the same environment, of `count` episodes.

        Its first episodes continue the episodes `source` `(n,)`, whole numbers, of this one as they are.
        """
        other = copy.copy(self)
        other.count, other.episodes, other._step = count, self._make(count), None
        other.reset(0)
        if len(source):
            first = self.arrays.integers(range(count)) < len(source)
            other.episodes.move_from(self.episodes, source, Rows.of_mask(first))
        return other

    def reset(self, seeds: int | Sequence[int] | None = None) -> Observations:
        """Start an episode in every environment; return the observations.

        Args:
            seeds: Seed of each environment, whose first episode starts, or the first of consecutive seeds; None: the
                next episode of each starts.

        Raises:
            ConfigError: Invalid seeds.
        """
        if seeds is None:
            self.episodes.begin(Rows.all(self.count, self.arrays))
        else:
            self.episodes.seed(checked_seeds(seeds, self.count))
        self.episodes.memory = self._reward.begin(self.episodes.context)
        return self._observe()

    def step(self, actions: Array) -> BatchStep:
        """Advance all environments by a control step.

        Args:
            actions: `(N, A)` in [-1, 1], or discrete actions of the action space.

        Raises:
            DivergedError: An action is not finite.
            ValueError: The actions have another shape, or a discrete action is not in the space.
        """
        commands = self.checked(actions, self.count)
        if self._step is None:
            self._step = self._captured_step(commands)
        return self._step(commands)

    def checked(self, actions: Array, count: int) -> Array:
        """Return the commands `(N, A)` float32 of actions for `count` environments; errors are those of `step`."""
        arrays, xp = self.arrays, self.arrays.xp
        actions = actions if hasattr(actions, "shape") else np.asarray(actions)
        check_shape(tuple(actions.shape), (count, *(self.action_space.shape or ())))
        if self._discrete is not None:
            actions = self._discrete.commands(to_numpy(actions))
        commands = xp.astype(xp.asarray(actions, device=arrays.device), xp.float32)
        if not bool(xp.isfinite(xp.sum(commands))):
            raise DivergedError("an action is not finite")
        return commands

    def _captured_step(self, commands: Array) -> Callable[[Array], BatchStep]:
        """Return `advance`; on a GPU as a CUDA graph, if it can be captured."""
        if on_host(self.episodes.saturated) or self.count < LARGE_BATCH:
            return self.advance
        from mygym.engines.fused.captured_step import captured

        return captured(self, self.advance, commands)

    def advance(self, commands: Array) -> BatchStep:
        """Advance all environments by a control step, with commands `(N, A)` float32 in [-1, 1].

        On a GPU it starts operations and waits for none, so that `CapturedStep` can capture it.
        """
        step = self.play(commands)
        ended = step.terminated | step.truncated
        if on_host(ended) and not bool(ended.any()):
            return step
        return replace(step, observations=self.begin(Rows.of_mask(ended)))

    def play(self, commands: Array) -> BatchStep:
        """Advance all environments by a control step, as `advance`, without the beginnings of the next episodes."""
        episodes, xp = self.episodes, self.arrays.xp
        episodes.advance(commands)
        observations = self._observe()
        failed, success, touched = episodes.failed, episodes.succeeded(), episodes.touched
        reward = xp.astype(self._step_reward(observations, failed), xp.float32)
        terminated = success | failed if self._reward.includes_failure else success
        truncated = ((episodes.elapsed >= self.task.limit) | failed) & ~terminated
        outcome = terminated, truncated, success, failed, touched
        saturation = episodes.saturated / episodes.elapsed
        return BatchStep(
            observations,
            observations,
            reward,
            *outcome,
            **self.stages(),
            elapsed=episodes.elapsed,
            saturation=saturation,
        )

    def stages(self) -> dict[str, Array]:
        """Return `stage` and `stages_done` of the running episodes, as `BatchStep` has them."""
        return {"stage": self.episodes.progress.stage, "stages_done": self.episodes.stages_done}

    def begin(self, rows: Rows) -> Observations:
        """Begin the next episodes of some environments; return the observations of all."""
        episodes = self.episodes
        episodes.begin(rows)
        if episodes.memory:
            begun, rows = self._reward.begin(episodes.context), Rows(rows.mask, None)
            episodes.memory = {
                name: rows.replaced(episodes.memory[name], value, axis=0) for name, value in begun.items()
            }
        return self._observe()

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        return self.episodes.variables()

    def set_variables(self, arrays: Iterable[Array]) -> None:
        """Replace the arrays of `variables`."""
        self.episodes.set_variables(arrays)

    def arranged(self, observations: Observations) -> Any:
        """Return observations as the observation space has them: without `goal_env` one flat array `(N, …)`.

        The critic's array stands beside the flat array, in a dictionary.
        """
        if self.goal_env:
            return observations
        critic = {key: value for key, value in observations.items() if key == CRITIC}
        arrays = [value for key, value in observations.items() if key != CRITIC]
        flat = namespace(arrays[0]).concat(arrays, axis=-1)
        return {"observation": flat, **critic} if critic else flat

    def commands(self) -> Array | None:
        """Return the commands `(n, A)` of the `n` discrete actions; None: actions are commands, or are not combined."""
        if self._discrete is None or not isinstance(self.action_space, gymnasium.spaces.Discrete):
            return None
        return self.arrays.floats(self._discrete.commands(np.arange(self.action_space.n)))

    def expert_action(self) -> Array:
        """Return the actions `(N, A)` of the scripted expert, or the nearest discrete actions."""
        actions = self.episodes.expert_action()
        if self._discrete is None:
            return actions
        return np.stack([self._discrete.nearest(action) for action in to_numpy(actions)])

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the reward of goal vectors `(…, size)`, as `RobotEnv.compute_reward`."""
        return self._reward.goal_reward(self._builder.goal_space, achieved_goal, desired_goal)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether goal vectors `(…, size)` reach their goals, as `RobotEnv.compute_terminated`."""
        return goals.goal_reached(self._builder.goal_space, achieved_goal, desired_goal)

    def goal_distance(self, observations: Observations) -> Array:
        """Return the distances `(N,)` m between achieved and desired goals."""
        space = self._builder.goal_space
        return goals.goal_distance(space, observations["achieved_goal"], observations["desired_goal"])

    def _observe(self) -> Observations:
        """Return the observations of the current states, with their noise."""
        disturbances = self.episodes.disturbances
        noise = None if disturbances is None else disturbances.noise(self._measured, self.episodes)
        return self._builder.build_batch(self.episodes.context, noise)

    def _step_reward(self, observations: Observations, failed: Array) -> Array:
        achieved, desired, episodes = observations["achieved_goal"], observations["desired_goal"], self.episodes
        reward: Any = None
        if self._reward.uses_goal_reward:
            reward = self.compute_reward(achieved, desired, {})
        if not self._reward.depends_on_goals_only:
            reward, episodes.memory = self._reward.step_reward(
                episodes.context, episodes.memory, sparse=reward, gamma=self.gamma, failed=failed
            )
        return reward

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays, and the observations."""
        observations = {key: to_numpy(value).copy() for key, value in self._observe().items()}
        memory = {name: to_numpy(value).copy() for name, value in self.episodes.memory.items()}
        return {"episodes": self.episodes.state_dict(), "memory": memory, "observations": observations}

    def load_state_dict(self, state: Mapping[str, Any]) -> Observations:
        """Restore a `state_dict`, to the bit; return the observations.

        States of version 0.2 have the figures of the episodes beside them, and no memory of the reward.
        """
        beside = {name: state[name] for name in ("saturated", "touched", "stages_done") if name in state}
        self.episodes.load_state_dict({"failed": np.zeros(self.count, dtype=bool), **beside, **state["episodes"]})
        begun, memory = self._reward.begin(self.episodes.context), state.get("memory", {})
        self.episodes.memory = {name: self.arrays.like(value, memory.get(name, value)) for name, value in begun.items()}
        return self._observe()
