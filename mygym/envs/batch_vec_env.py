"""A batch as a vector environment of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from mygym.engines.arrays import to_numpy
from mygym.envs.arguments import check_open, check_options
from mygym.envs.batch_env import BatchStep, Observations
from mygym.envs.env_spec import EnvSpec
from mygym.envs.multi_task_batch import MultiTaskBatch, MultiTaskStep, make_batch
from mygym.nested import map_arrays

METHODS = ("compute_reward", "compute_terminated")
"""Methods of `RobotEnv` that algorithms call with goal vectors."""

SHOWN = ("stage", "stages_done", "variant")
"""Numbers in every info: the active stage, and the most stages done; the index of the task, if there are several."""

_MISSING = object()


class BatchVecEnv(VecEnv):
    """`N` environments of an engine with batches; all values are numpy arrays, also those of environments on a GPU.

    The `info` of each environment has `is_success`, `stage` and `stages_done`; at the end of an episode also the other
    entries of `RobotEnv`'s `info`, `terminal_observation` and `TimeLimit.truncated`. Environments of several tasks also
    have `variant`, and `set_weights`, see `MultiTaskBatch`.

    Args:
        spec: An environment, or arguments of `RobotEnv`; where they name no engine, it is `fused`. Several of them are
            several tasks.
        count: `N`.
        device: `cpu`, where the engine is numpy, or, for the engine `fused` and one task, a device of torch, such as
            `cuda`.
        codes: Of several tasks, see `MultiTaskBatch`.

    Raises:
        ConfigError: A value is invalid, the engine cannot represent it, or has no batches.
        RegistryError: Unknown name.
    """

    batch: Any
    """The `BatchEnv`, or `MultiTaskBatch`."""

    def __init__(
        self,
        spec: EnvSpec | Mapping[str, Any] | Sequence[EnvSpec | Mapping[str, Any]],
        count: int,
        device: str = "cpu",
        codes: NDArray[np.float32] | None = None,
    ) -> None:
        self.batch = make_batch([spec] if isinstance(spec, EnvSpec | Mapping) else spec, count, device, codes)
        self._commands: NDArray[Any] = np.zeros(0)
        super().__init__(count, self.batch.observation_space, self.batch.action_space)
        self._seeded = self._closed = False
        self._infos: list[dict[str, Any]] = [{}] * count
        self._shown = np.full((1, count), -1)

    def reset(self) -> Any:
        """Begin the first episodes of the seeds that `seed` has set, or else the next episodes.

        Raises:
            ConfigError: Invalid seeds.
            ClosedEnvironmentError: The environment is closed.
        """
        check_open(self, self._closed, "reset")
        check_options({name: value for options in self._options for name, value in options.items()})
        seeds: list[int] | None = None
        if self._seeds[0] is not None:
            seeds = [int(seed or 0) for seed in self._seeds]
        elif not self._seeded:
            seeds = np.random.SeedSequence().generate_state(self.num_envs).tolist()
        self._seeded = True
        observations = self.batch.reset(seeds)
        self.reset_infos = self._running_infos(
            np.stack([*map(to_numpy, self.batch.stages().values()), *self._variants()])
        )
        self._reset_seeds()
        self._reset_options()
        return self._arranged(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions of the next step.

        Raises:
            ClosedEnvironmentError: The environment is closed.
        """
        check_open(self, self._closed, "step")
        self._commands = actions

    def step_wait(self) -> Any:
        """Advance by a control step; return observations, rewards, ends and infos, as SB3's vector environments do."""
        step = in_numpy(self.batch.step(self._commands))
        ended = step.terminated | step.truncated
        infos = self.infos(step)
        if ended.any():
            last = self._arranged(step.last)
            for index in np.flatnonzero(ended).tolist():
                infos[index]["terminal_observation"] = map_arrays(itemgetter(index), last)
        return self._arranged(step.observations), step.reward, ended, infos

    def infos(self, step: BatchStep) -> list[dict[str, Any]]:
        """Return the infos of a step in numpy, without `terminal_observation`."""
        variant = [step.variant] if isinstance(step, MultiTaskStep) else []
        infos = self._running_infos(np.stack([step.stage, step.stages_done, *variant]))
        indices = np.flatnonzero(step.terminated | step.truncated)
        figures = (step.success, step.failed, step.touched, step.saturation, step.elapsed, step.truncated)
        rows = (figure[indices].tolist() for figure in figures)
        for index, success, failed, touched, saturation, elapsed, truncated in zip(
            indices.tolist(), *rows, strict=True
        ):
            infos[index] = infos[index] | {
                "is_success": success,
                "failed": failed,
                "touched": touched,
                "saturation": round(saturation, 4),
                "elapsed_steps": elapsed,
                "TimeLimit.truncated": truncated,
            }
        return infos

    def _variants(self) -> list[NDArray[Any]]:
        """Return `[(N,)]`: the task that each environment plays; `[]` if there is one."""
        return [self.batch.variants] if isinstance(self.batch, MultiTaskBatch) else []

    def _running_infos(self, shown: NDArray[Any]) -> list[dict[str, Any]]:
        """Return the infos of episodes that go on; each is the object of the last step if nothing has changed.

        Args:
            shown: `(2, N)`, or `(3, N)` for several tasks: values of `SHOWN`.
        """
        changed = np.flatnonzero((shown != self._shown).any(0))
        self._shown = shown
        for index, values in zip(changed.tolist(), shown[:, changed].T.tolist(), strict=True):
            self._infos[index] = {"is_success": False, **dict(zip(SHOWN, values, strict=False))}
        return self._infos.copy()

    def close(self) -> None:
        """Refuse further steps; a batch has no connection."""
        self._closed = True

    def batch_state_dict(self) -> dict[str, Any]:
        """Return the state of all environments."""
        return {"seeded": self._seeded, **self.batch.state_dict()}

    def load_batch_state_dict(self, state: Mapping[str, Any]) -> Observations:
        """Restore a `batch_state_dict`, to the bit; return the observations."""
        self._seeded = bool(state["seeded"])
        return {key: to_numpy(value) for key, value in self.batch.load_state_dict(state).items()}

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute once for each of `indices`; only `variant` differs between environments.

        Raises:
            AttributeError: Environments of this engine do not have it.
        """
        if attr_name == "variant" and (variants := self._variants()):
            return [int(variants[0][index]) for index in self._get_indices(indices)]
        value = None if attr_name == "render_mode" else getattr(self.batch, attr_name, _MISSING)
        if value is _MISSING:
            raise AttributeError(f"environments of a batch have no {attr_name!r}; allowed: engine pybullet")
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse to change a single environment of the batch."""
        raise AttributeError(f"{attr_name}: environments of a batch cannot be changed")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method for each of `indices`: one of `METHODS`, or `expert_action`; `set_weights` is for all.

        Raises:
            AttributeError: Another method.
        """
        if method_name == "expert_action":
            actions = to_numpy(self.batch.expert_action())
            return [actions[index] for index in self._get_indices(indices)]
        if method_name == "set_weights" and isinstance(self.batch, MultiTaskBatch):
            self.batch.set_weights(*method_args, **method_kwargs)
            return [None for _ in self._get_indices(indices)]
        if method_name not in METHODS:
            methods = ", ".join((*METHODS, "expert_action"))
            raise AttributeError(f"{method_name}: environments of a batch have {methods}")
        method = getattr(self.batch, method_name)
        return [method(*method_args, **method_kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        """Return False for each environment."""
        return [False for _ in self._get_indices(indices)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_envs={self.num_envs})"

    def _arranged(self, observations: Observations) -> Any:
        """Return observations as a goal dictionary, or flat, as the algorithm takes them; float32, contiguous."""
        arrays = {key: np.ascontiguousarray(to_numpy(value), dtype=np.float32) for key, value in observations.items()}
        return self.batch.arranged(arrays)


def in_numpy(step: BatchStep) -> BatchStep:
    """Return the outcome of a step in numpy, except the observations."""
    values = {field.name: getattr(step, field.name) for field in fields(step)}
    return type(step)(**{name: value if isinstance(value, dict) else to_numpy(value) for name, value in values.items()})
