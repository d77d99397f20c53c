"""Environments of the fused engine: observations, rewards and ends of `N` episodes as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from mygym.engines.fused.arm import fitted_accelerations
from mygym.engines.fused.arrays import Rows, find_arrays, to_numpy
from mygym.engines.fused.episodes import BatchEpisodes, make_pools
from mygym.envs.episode import LIMIT
from mygym.envs.fused_support import batch_task, check_memory, check_supported, randomization_table, world_model
from mygym.envs.robot_env import RobotEnv
from mygym.errors import DivergedError
from mygym.registry import registry
from mygym.tasks import goals
from mygym.tasks.episode import LARGE_BATCH
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


class FusedEnvs:
    """`N` environments with the task, spaces, rewards and ends of `RobotEnv`; each resets by itself.

    An environment's episodes follow from its seed and their number, as in `RobotEnv`; they are other episodes than
    those of `RobotEnv` with the same seed.

    Args:
        arguments: Arguments of `RobotEnv`.
        count: `N`.
        output: `numpy` or `torch`, the library of all arrays. On the CPU torch is the slower one;
            `FusedVectorEnv` returns tensors there and computes in numpy.
        device: Device of torch.

    Raises:
        ConfigError: A value is invalid, or the engine cannot represent it.
        RegistryError: Unknown name.
    """

    def __init__(self, arguments: Mapping[str, Any], count: int, output: str = "numpy", device: str = "cpu") -> None:
        check_supported(arguments)
        self.arrays, self.count = find_arrays(output, device), count
        check_memory(count, self.arrays)
        with closing(RobotEnv(**arguments)) as env:  # decides spaces, areas, home and controller, and checks them
            robot = registry("robot").get(arguments.get("robot") or env.task.robot).name
            accelerations = np.array(fitted_accelerations()[robot])
            model = world_model(env, accelerations, robot)
            task = batch_task(env)
            pools = make_pools(model, task, self.arrays)
            table = randomization_table(arguments.get("randomize") or {}, env.task, robot)
            self.episodes = BatchEpisodes(model, task, count, self.arrays, pools, table)
            self.observation_space: gymnasium.Space[Any] = env.observation_space
            self.action_space = env.action_space
            self.goal_env, self.gamma = env.goal_env, env.gamma
            self.task, self.components, self.areas = env.task, env.components, env.areas
            self._builder, self._discrete = env.builder, env.discrete
            self._measured = self.arrays.floats(env.builder.measured)
            self._reward = find_reward(env.reward_kind)
        self._saturated = self.arrays.zeros(count)
        self._touched = self.arrays.zeros(count, dtype=self.arrays.xp.bool)
        self._stages_done = self.episodes.progress.stage
        self._memory = self._reward.begin(self.episodes.context)
        self._step: Callable[[Array], BatchStep] | None = None

    def reset(self, seeds: Sequence[int] | None = None) -> Observations:
        """Start an episode in every environment; return the observations.

        Args:
            seeds: Seed of each environment, whose first episode starts; None: the next episode of each starts.
        """
        if seeds is None:
            self.episodes.begin(self.episodes.elapsed >= 0)
        else:
            self.episodes.seed(seeds)
        self._begin(self.episodes.elapsed >= 0)
        return self._observe()

    def step(self, actions: Array) -> BatchStep:
        """Advance all environments by a control step.

        Args:
            actions: `(N, A)` in [-1, 1], or discrete actions of the action space.

        Raises:
            DivergedError: An action is not finite.
        """
        arrays, xp = self.arrays, self.arrays.xp
        if self._discrete is not None:
            actions = self._discrete.commands(to_numpy(actions))
        commands = xp.astype(xp.asarray(actions, device=arrays.device), xp.float32)
        if not bool(xp.isfinite(xp.sum(commands))):
            raise DivergedError("an action is not finite")
        if self._step is None:
            self._step = self._captured_step(commands)
        return self._step(commands)

    def _captured_step(self, commands: Array) -> Callable[[Array], BatchStep]:
        """Return `advance`; on a GPU as a CUDA graph, if it can be captured."""
        if on_host(self._saturated) or self.count < LARGE_BATCH:
            return self.advance
        from mygym.engines.fused.captured_step import captured

        return captured(self, self.advance, commands)

    def advance(self, commands: Array) -> BatchStep:
        """Advance all environments by a control step.

        On a GPU it starts operations and waits for none, so that `CapturedStep` can capture it.

        Args:
            commands: `(N, A)` float32 in [-1, 1].
        """
        episodes, xp = self.episodes, self.arrays.xp
        self._saturated = self._saturated + xp.mean(xp.astype(abs(commands) >= LIMIT, xp.float32), axis=1)
        episodes.step(commands.T)
        observations = self._observe()
        failed, success = episodes.failed(), episodes.succeeded()
        reward = self._step_reward(observations, failed)
        terminated = success | failed if self._reward.includes_failure else success
        truncated = ((episodes.elapsed >= self.task.horizon) | failed) & ~terminated
        if episodes.world.box is not None:
            self._touched = self._touched | xp.any(episodes.state.touch, axis=1)
        touched = self._touched
        stage, elapsed = episodes.progress.stage, episodes.elapsed
        self._stages_done = stages_done = xp.maximum(self._stages_done, stage)
        saturation = self._saturated / elapsed
        last, ended = observations, terminated | truncated
        if not on_host(ended) or bool(ended.any()):
            episodes.begin(ended)
            self._begin(ended)
            observations = self._observe()
        outcome = terminated, truncated, success, failed, touched
        return BatchStep(observations, last, reward, *outcome, stage, stages_done, elapsed, saturation)

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        figures = self._saturated, self._touched, self._stages_done
        return [*self.episodes.variables(), *figures, *self._memory.values()]

    def set_variables(self, arrays: Iterable[Array]) -> None:
        """Replace the arrays of `variables`."""
        rest = iter(arrays)
        self.episodes.set_variables(rest)
        self._saturated, self._touched, self._stages_done = (next(rest) for _ in range(3))
        self._memory = dict(zip(self._memory, rest, strict=True))

    def arranged(self, observations: Observations) -> Any:
        """Return observations as a goal dictionary or, without `goal_env`, as one flat array `(N, …)`."""
        if self.goal_env:
            return observations
        arrays = list(observations.values())
        return namespace(arrays[0]).concat(arrays, axis=-1)

    def commands(self) -> Array | None:
        """Return the commands `(n, A)` of the `n` discrete actions; None: actions are commands, or are not combined."""
        if self._discrete is None or not isinstance(self.action_space, gymnasium.spaces.Discrete):
            return None
        return self.arrays.floats(self._discrete.commands(np.arange(self.action_space.n)))

    def expert_action(self) -> Array:
        """Return the actions `(N, A)` of the scripted expert, or the nearest discrete actions."""
        actions = self.episodes.expert_action().T
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
        return self._builder.build_batch(self.episodes.context, self.episodes.noise(self._measured))

    def _step_reward(self, observations: Observations, failed: Array) -> Array:
        achieved, desired, xp = observations["achieved_goal"], observations["desired_goal"], self.arrays.xp
        reward: Any = None
        if self._reward.uses_goal_reward:
            reward = self.compute_reward(achieved, desired, {})
        if not self._reward.depends_on_goals_only:
            reward, self._memory = self._reward.step_reward(
                self.episodes.context, self._memory, sparse=reward, gamma=self.gamma, failed=failed
            )
        return xp.astype(reward, xp.float32)

    def _begin(self, mask: Array) -> None:
        """Reset the figures of the episodes of `mask`."""
        self._saturated, self._touched = self._saturated * ~mask, self._touched & ~mask
        self._stages_done = self._stages_done * ~mask
        if self._memory:
            rows, begun = Rows(mask, None), self._reward.begin(self.episodes.context)
            self._memory = {name: rows.replaced(self._memory[name], begun[name], axis=0) for name in begun}

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays, and the observations."""
        observations = self._observe()
        return {
            "episodes": self.episodes.state_dict(),
            "saturated": to_numpy(self._saturated).copy(),
            "touched": to_numpy(self._touched).copy(),
            "stages_done": to_numpy(self._stages_done).copy(),
            "memory": {name: to_numpy(value).copy() for name, value in self._memory.items()},
            "observations": {key: to_numpy(value).copy() for key, value in observations.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Observations:
        """Restore a `state_dict`, to the bit; return the observations."""
        self.episodes.load_state_dict(state["episodes"])
        self._saturated = self.arrays.floats(state["saturated"])
        self._touched = self.arrays.flags(state["touched"])
        self._stages_done = self.arrays.integers(state["stages_done"])
        begun, saved = self._reward.begin(self.episodes.context), state.get("memory", {})
        self._memory = {  # states that were saved by 0.2 or before have no memory
            name: self.arrays.xp.asarray(saved.get(name, value), dtype=value.dtype, device=self.arrays.device)
            for name, value in begun.items()
        }
        return self._observe()
