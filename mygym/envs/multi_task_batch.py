"""Environments of several tasks side by side: each episode is played in one of several batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mygym.engines.arrays import Arrays, Rows, uniform
from mygym.engines.engine import FUSED
from mygym.envs.arguments import checked_count, checked_seeds
from mygym.envs.batch_env import BatchEnv, BatchStep, Observations
from mygym.envs.env_spec import EnvSpec
from mygym.envs.fused_worlds import check_room
from mygym.envs.multi_task_env import check_equal_spaces, checked_weights, goal_rewards, with_code_slice, with_codes
from mygym.types import Array

Indices = NDArray[np.int64]

CHOICE = -1
"""Stream of the random number that selects the task of an episode; `mygym.envs.randomization` has the others."""

SELECTION = ("variants", "rows", "seeds", "numbers")
"""Attributes `(N,)` of a `MultiTaskBatch` that say what each environment plays."""

CODE = "variant"
"""Key of the codes in observations; `arranged` appends them."""

SPARE = 4
"""A batch has a row more for each `SPARE` rows that it needs, so that it is rarely built anew."""


@dataclass(frozen=True)
class MultiTaskStep(BatchStep):
    """Outcome of a control step of `N` environments of several tasks."""

    variant: Array
    """`(N,)` int: index of the task that was played."""


class MultiTaskBatch:
    """`N` environments with equal spaces, e.g. of several tasks; each episode is played in one of them.

    As in a `MultiTaskEnv`, seed and number of the episode select the task: round robin, or drawn with the weights of
    `set_weights`. They also select the episode, which is the one that a `BatchEnv` of the task has for them.

    Each task has a `BatchEnv`, which is built when the task is first played. An environment takes a row of it for the
    time of an episode. The other rows play on by themselves; their number follows the need. `reset` comes first.

    Args:
        specs: The environments, or arguments of `RobotEnv` for each; all in the same engine.
        count: `N`.
        codes: `(tasks, d)` in [0, 1]: appended to the observations of each task to identify it.

    Raises:
        ConfigError: A value is invalid, the engine cannot represent it, or the spaces of two tasks differ.
        RegistryError: Unknown name.
    """

    def __init__(
        self, specs: Sequence[EnvSpec | Mapping[str, Any]], count: int, codes: NDArray[np.float32] | None = None
    ) -> None:
        self._specs, self._codes = [EnvSpec.of(spec) for spec in specs], codes
        self.count = count = checked_count(count, "num_envs", None)
        self._batches: dict[int, BatchEnv] = {}
        self._weights: NDArray[np.float64] | None = None
        self.variants: Indices = np.zeros(count, dtype=np.int64)
        """`(N,)`: the task that each environment plays."""
        self.rows: Indices = np.arange(count)
        """`(N,)`: its row in the batch of the task."""
        self.seeds, self.numbers = np.arange(count), np.zeros(count, dtype=np.int64)
        """`(N,)`: seeds of the environments; numbers of their episodes since the seeds were set."""
        self._first = BatchEnv(self._specs[0], 1)
        if self._first.engine == FUSED:
            check_room(count, self._first.arrays)
        self.observation_space: gymnasium.Space[Any] = with_codes(self._first.observation_space, codes)
        self.action_space, self.binary_actions = self._first.action_space, self._first.binary_actions
        self.goal_env = self._first.goal_env
        self.arrays: Arrays = self._first.arrays

    @property
    def components(self) -> dict[str, slice]:
        """Slice of `observation` that holds each component."""
        return with_code_slice(self._first.components, self._codes)

    def set_weights(self, weights: Sequence[float] | None) -> None:
        """Set the relative frequency of each task from the next episodes on, see `MultiTaskEnv.set_weights`.

        Raises:
            RunError: Invalid weights.
        """
        self._weights = checked_weights(weights, len(self._specs))

    def reset(self, seeds: int | Sequence[int] | None = None) -> Observations:
        """Start an episode in every environment; return the observations, see `BatchEnv.reset`.

        Raises:
            ConfigError: Invalid seeds.
        """
        if seeds is None:
            self.numbers = self.numbers + 1
        else:
            self.seeds = np.array(checked_seeds(seeds, self.count), dtype=np.int64)
            self.numbers = np.zeros(self.count, dtype=np.int64)
        everyone = np.arange(self.count)
        self.variants = np.full(self.count, -1)
        return self._begin(everyone, {})

    def step(self, actions: Array) -> MultiTaskStep:
        """Advance all environments by a control step, see `BatchEnv.step`.

        Raises:
            DivergedError: An action is not finite.
            ValueError: The actions have another shape, or a discrete action is not in the space.
        """
        commands, names = self._first.checked(actions, self.count), [field.name for field in fields(BatchStep)]
        played, values = self.variants, dict[str, Any]()
        for task, slots in self._playing():
            batch, rows = self._batches[task], self.rows[slots]
            of_rows = np.zeros((batch.count, commands.shape[1]), dtype=np.float32)
            of_rows[rows] = commands[slots]
            step = batch.play(of_rows)
            for name in names:
                values[name] = _placed(values.get(name), getattr(step, name), rows, slots, self.count)
        values["last"] = values["observations"] = observations = self._coded(values["observations"])
        ended = values["terminated"] | values["truncated"]
        if ended.any():
            self.numbers = self.numbers + ended
            values["observations"] = self._begin(np.flatnonzero(ended), observations)
        return MultiTaskStep(**values, variant=played)

    def stages(self) -> dict[str, Array]:
        """Return `stage` and `stages_done` of the running episodes, as `BatchStep` has them."""
        stages: dict[str, Array] = {}
        for task, slots in self._playing():
            stages = _placed(stages, self._batches[task].stages(), self.rows[slots], slots, self.count)
        return stages

    def arranged(self, observations: Observations) -> Any:
        """Return observations as the observation space has them, see `BatchEnv.arranged`."""
        if self._codes is not None and self.goal_env:
            numbers = np.concatenate([observations["observation"], observations[CODE]], axis=1)
            observations = {**observations, "observation": numbers}
            del observations[CODE]
        return self._first.arranged(observations)

    def expert_action(self) -> Array:
        """Return the actions `(N, A)` of the scripted expert, or the nearest discrete actions."""
        actions: Any = None
        for task, slots in self._playing():
            actions = _placed(actions, self._batches[task].expert_action(), self.rows[slots], slots, self.count)
        return actions

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the rewards of goal vectors `(n, size)` in the tasks that the infos name, see `MultiTaskEnv`."""
        return goal_rewards(self._batch, achieved_goal, desired_goal, info)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether goal vectors `(…, size)` reach their goals, as `RobotEnv.compute_terminated`."""
        return self._first.compute_terminated(achieved_goal, desired_goal, info)

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays, and the observations."""
        batches = {str(task): batch.state_dict() for task, batch in self._batches.items()}
        selection = {name: getattr(self, name).copy() for name in SELECTION}
        observations: Observations = {}
        for task, slots in self._playing():
            found = batches[str(task)]["observations"]
            observations = _placed(observations, found, self.rows[slots], slots, self.count)
        return {
            "batches": {task: {**state, "count": self._batches[int(task)].count} for task, state in batches.items()},
            "selection": {**selection, "weights": self._weights},
            "observations": self._coded(observations),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Observations:
        """Restore a `state_dict`, to the bit; return the observations."""
        selection, observations = dict(state["selection"]), dict[str, Any]()
        self._weights = selection.pop("weights")
        for name, values in selection.items():
            setattr(self, name, values.copy())
        found = {}
        for name, of_batch in state["batches"].items():
            self._batches[int(name)] = batch = self._batch(int(name)).resized(np.zeros(0), of_batch["count"])
            found[int(name)] = batch.load_state_dict(of_batch)
        for task, slots in self._playing():
            observations = _placed(observations, found[task], self.rows[slots], slots, self.count)
        return self._coded(observations)

    # ---------------------------------------------------------------------------------------------------------------

    def _playing(self) -> Iterator[tuple[int, Indices]]:
        """Yield each task that is played, and its environments `(n,)`."""
        for task in np.unique(self.variants).tolist():
            yield task, np.flatnonzero(self.variants == task)

    def _begin(self, slots: Indices, before: Observations) -> Observations:
        """Begin the episodes of the environments `slots` `(n,)`, whose seeds and numbers are set.

        Return the observations of all; `before` has those of the others.
        """
        selected = self._selected(slots)
        moving = slots[selected != self.variants[slots]]
        self.variants = self.variants.copy()
        self.variants[slots] = selected
        observations: Any = {name: values.copy() for name, values in before.items()}
        for task in np.unique(selected).tolist():
            begun = slots[selected == task]
            self._take_rows(task, moving[self.variants[moving] == task])
            batch, rows = self._batches[task], self.rows[begun]
            episodes, is_idle = batch.episodes, np.ones(batch.count, dtype=bool)
            is_idle[self.rows[self.variants == task]] = False
            taken = Rows.of_mask(np.isin(np.arange(batch.count), rows))
            order = np.argsort(rows)  # of the rows of `taken`
            episodes.seeds = taken.replaced(episodes.seeds, self.seeds[begun][order])
            episodes.numbers = taken.replaced(episodes.numbers, self.numbers[begun][order] - 1)
            found = batch.begin(Rows.of_mask(taken.mask | (is_idle & (episodes.elapsed >= batch.task.limit))))
            observations |= _placed(observations, found, rows, begun, self.count)
        return self._coded(observations)

    def _selected(self, slots: Indices) -> Indices:
        """Return the tasks `(n,)` of the episodes of environments."""
        seeds, numbers = self.seeds[slots], self.numbers[slots]
        selected: Indices = (seeds + numbers) % len(self._specs)
        if self._weights is not None:
            ends = np.cumsum(self._weights)
            selected = np.searchsorted(ends / ends[-1], uniform(seeds, numbers, 1, CHOICE)[0], side="right")
        return selected

    def _take_rows(self, task: int, slots: Indices) -> None:
        """Give environments, which are of a task from now on, rows of its batch that are free, or that are new."""
        playing = np.flatnonzero(self.variants == task)
        others, needed = np.setdiff1d(playing, slots), len(playing)
        batch = self._batch(task)
        if not needed <= batch.count <= 2 * needed + SPARE:
            batch = self._batches[task] = batch.resized(self.rows[others], min(needed + needed // SPARE, self.count))
            self.rows[others] = np.arange(len(others))
        free = np.setdiff1d(np.arange(batch.count), self.rows[others])
        self.rows[slots] = free[: len(slots)]

    def _batch(self, task: int) -> BatchEnv:
        """Return the batch of a task."""
        if task not in self._batches:
            self._batches[task] = batch = self._first if task == 0 else BatchEnv(self._specs[task], 1)
            check_equal_spaces(batch, self._first, batch.task.name)
        return self._batches[task]

    def _coded(self, observations: Observations) -> Observations:
        """Return observations with the codes of the tasks that are played."""
        return observations if self._codes is None else {**observations, CODE: self._codes[self.variants]}


def _placed(whole: Any, part: Any, rows: Indices, slots: Indices, count: int) -> Any:
    """Return values of `count` environments in which those of `slots` `(n,)` are `rows` `(n,)` of a batch's, `part`.

    `whole` has the values so far, which are changed, or is None. Values may be dictionaries.
    """
    if isinstance(part, Mapping):
        return {name: _placed((whole or {}).get(name), values, rows, slots, count) for name, values in part.items()}
    if whole is None:
        whole = np.empty((count, *part.shape[1:]), dtype=part.dtype)
    whole[slots] = part[rows]
    return whole


def make_batch(
    specs: Sequence[EnvSpec | Mapping[str, Any]],
    count: int,
    device: str = "cpu",
    codes: NDArray[np.float32] | None = None,
) -> BatchEnv | MultiTaskBatch:
    """Return `count` environments of one task or of several, see `MultiTaskBatch`.

    The device is `cpu`, where the engine is numpy, or, for the engine `fused` and one task, a device of torch.
    """
    if len(specs) > 1:
        return MultiTaskBatch(specs, count, codes)
    return BatchEnv(specs[0], count, "numpy" if device == "cpu" else "torch", device)
