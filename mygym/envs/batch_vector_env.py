"""A batch as a vector environment of Gymnasium, in arrays of numpy or torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from mygym.engines.arrays import find_arrays, to_numpy
from mygym.envs.arguments import check_open, check_options
from mygym.envs.batch_env import BatchEnv
from mygym.nested import map_arrays
from mygym.types import Array


class BatchVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """`N` environments of an engine with batches, see `gymnasium.make_vec(…, engine="fused")`.

    An episode that ends is followed by the next in the same step (`AutoresetMode.SAME_STEP`): observations are of the
    new episode, and `final_obs` and `final_info` in the infos are of the step before the reset. They are batches, like
    all values, and `_final_obs` and `_final_info` `(N,)` are True where an episode has ended.

    On the CPU the engine computes in numpy, also for tensors of torch, which share the memory of its results: torch's
    threads make its many small operations slower, and their number is a setting of the whole process.

    Args:
        num_envs: `N`.
        output: `numpy` or `torch`, the library of all values that are returned.
        device: Device of torch: `cpu`, or, for the engine `fused`, one such as `cuda`.
        **arguments: Arguments of `RobotEnv`; without `engine`, it is `fused`.

    Raises:
        ConfigError: A value is invalid, the engine cannot represent it, or has no batches.
        RegistryError: Unknown name.
    """

    _spec: Any = None

    def __init__(self, num_envs: int = 1, output: str = "numpy", device: str = "cpu", **arguments: Any) -> None:
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self._shares_memory = output == "torch" and find_arrays(output, device).device.type == "cpu"
        engine = ("numpy", "cpu") if self._shares_memory else (output, device)
        self.batch = BatchEnv(arguments, num_envs, *engine)
        self.num_envs = self.batch.count
        self.single_observation_space = self.batch.observation_space
        self.single_action_space = self.batch.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._begun = False

    @property
    def spec(self) -> Any:
        """Gymnasium's description, whose `max_episode_steps` is the horizon; None for environments without an id."""
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = None if spec is None else replace(spec, max_episode_steps=self.batch.task.horizon)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every environment; return observations and infos.

        Args:
            seed: Seed of each environment, or the first of consecutive seeds; None: the next episodes begin.
            options: Not used.

        Raises:
            ConfigError: Invalid seeds.
            ClosedEnvironmentError: The environment is closed.
        """
        check_open(self, self.closed, "reset")
        check_options(options)
        if seed is None and not self._begun:
            seed = np.random.SeedSequence().generate_state(self.num_envs).tolist()
        observations = self.batch.reset(seed)
        self._begun = True
        return self._returned(self.batch.arranged(observations)), self._returned(self._info())

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Advance all environments by a control step.

        Args:
            actions: `(N, A)` in [-1, 1], or discrete actions of the action space.

        Raises:
            DivergedError: An action is not finite.
            ValueError: The actions have another shape, or a discrete action is not in the space.
            ClosedEnvironmentError: The environment is closed.
        """
        check_open(self, self.closed, "step")
        if self._shares_memory and hasattr(actions, "detach"):
            actions = to_numpy(actions.detach())
        step = self.batch.step(actions)
        infos = self._info()
        ended = step.terminated | step.truncated
        if bool(ended.any()):
            infos["final_obs"], infos["_final_obs"] = self.batch.arranged(step.last), ended
            infos["final_info"] = {
                "is_success": step.success,
                "failed": step.failed,
                "touched": step.touched,
                "stage": step.stage,
                "stages_done": step.stages_done,
                "saturation": step.saturation,
                "elapsed_steps": step.elapsed,
            }
            infos["_final_info"] = ended
        values = (self.batch.arranged(step.observations), step.reward, step.terminated, step.truncated, infos)
        observations, reward, terminated, truncated, infos = map(self._returned, values)
        return observations, reward, terminated, truncated, infos

    def _info(self) -> dict[str, Any]:
        """Return the infos of the running episodes, each `(N,)`."""
        episodes, copied = self.batch.episodes, self.batch.arrays.xp.asarray
        return {
            "is_success": episodes.succeeded(),
            "stage": copied(episodes.progress.stage, copy=True),  # a CUDA graph refills it
            "elapsed_steps": copied(episodes.elapsed, copy=True),
        }

    def expert_action(self) -> Array:
        """Return the actions `(N, A)` of the scripted expert, or the nearest discrete actions."""
        return self._returned(self.batch.expert_action())

    def _returned(self, values: Any) -> Any:
        """Return an array, or a dictionary of arrays, in the library of the output."""
        if not self._shares_memory:
            return values
        import torch

        return map_arrays(torch.as_tensor, values)
