"""Domain randomization: parameters of an episode, delay and noise of actions, noise of observations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.engines.arrays import Rows, normal, to_numpy, uniform
from mygym.engines.world import BatchWorlds, World
from mygym.envs.episode_seeds import make_generator, named_stream
from mygym.envs.randomizers import Draw, find_randomizer, ranges
from mygym.errors import ConfigError, bad_value
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.tasks.context import ArmCommand
from mygym.types import Array, FloatArray


class EpisodeCounters(Protocol):
    """What the randomization of episodes follows from; its arrays are those of `Episodes`."""

    count: int
    seeds: Array
    numbers: Array
    elapsed: Array


class DomainRandomizer:
    """The randomizers of a config, and the randomization of the current episode.

    Each randomizer has its own random stream, which follows from the episode's seed and the randomizer's name:
    switching a randomizer on changes nothing else in an episode.

    Raises:
        ConfigError: Unknown randomizer, or an invalid range.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.ranges = ranges(config)
        """Lowest and highest value of each active randomizer."""
        self._randomizers = {name: find_randomizer(name) for name in self.ranges}
        self._randomization = EpisodeRandomization()
        self._delayed: deque[FloatArray] = deque()
        self._is_measured = np.zeros(0)
        self.noise: NDArray[np.float32] | None = None
        """`(d,)` noise of the current observation, see `ObservationBuilder.vector`."""

    @property
    def is_on(self) -> bool:
        """Whether any randomizer is active."""
        return bool(self.ranges)

    def set_observation(self, measured: FloatArray) -> None:
        """Set which values of observations have noise, see `ObservationBuilder.measured`."""
        self._is_measured = measured
        self._draw_noise()

    def begin(self, rng: np.random.Generator, world: World, choice: tuple[int | None, ...] = ()) -> None:
        """Draw the randomization of the episode of `rng` and apply it to the world; `rng` does not advance.

        The objects of the episode are `choice`, see `EpisodeRandomization.object_choice`.
        """
        joints = sum(len(arm.joints) for arm in world.robot.arms)
        randomization = EpisodeRandomization(object_choice=choice)
        for name, randomizer in self._randomizers.items():
            draw = Draw(self.ranges[name], named_stream(rng, name), len(world.objects), joints)
            randomization = randomizer.draw(randomization, draw)
        self._randomization = randomization
        self._action_rng = named_stream(rng, "action_noise in each step")
        self._observation_rng = named_stream(rng, "observation_noise in each step")
        world.randomize(randomization)

    def start(self, world: World) -> None:
        """Fill the delay after the world's reset: until the first action takes effect, the arm holds its position."""
        delay = self._randomization.action_delay
        hold = world.action_towards(world.state.ee_position[0].copy()) if delay else None
        self._delayed = deque([hold] * delay if hold is not None else [])
        self.noise = None
        self._draw_noise()

    def state(self) -> dict[str, Any]:
        """Return the values that change in every step; not copies."""
        names = ("_delayed", "noise", "_action_rng", "_observation_rng")
        return {name: vars(self)[name] for name in names if name in vars(self)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the values of `state`."""
        vars(self).update(state)

    def act(self, actions: Array, episodes: EpisodeCounters) -> Array:
        """Return the action `(1, A)` that takes effect in the step of `actions`; call once per step."""
        self._draw_noise()
        action = actions[0]
        if self._randomization.action_noise:
            action = action + self._randomization.action_noise * self._action_rng.standard_normal(len(action))
        self._delayed.append(action)
        return self._delayed.popleft()[None]

    def _draw_noise(self) -> None:
        """Draw the noise of the next observation."""
        deviation = self._randomization.observation_noise
        if deviation:
            values = self._observation_rng.standard_normal(len(self._is_measured))
            self.noise = (deviation * self._is_measured * values).astype(np.float32)


Table = Mapping[str, FloatArray]
"""Field of `EpisodeRandomization` → `(K,)` values, or `(k, K)` of each object, `(J, K)` of each joint; only those that
vary."""

EPISODE_FIELDS = ("action_delay", "action_noise", "observation_noise")
"""Fields that need nothing of an engine; those of its worlds are their `randomized_fields`."""

ROWS = 1024
"""Draws; their seeds are constant, so that runs can be repeated."""

FIRST_SEED = 1 << 41
"""Seed of the first draw: no environment of a run has it."""


def draw_table(config: Mapping[str, Any], objects: int, joints: int, physical: Sequence[str], engine: str) -> Table:
    """Return draws of the fields that a config's `randomize` sets, for `k` objects and `J` joints.

    Raises:
        ConfigError: Unknown randomizer, an invalid range, or a field that is neither among the `randomized_fields` of
            the engine's worlds, `physical`, nor among `EPISODE_FIELDS`.
    """
    table: dict[str, FloatArray] = {}
    possible = (*physical, *EPISODE_FIELDS)
    for name, limits in ranges(config).items():
        randomizer, drawn = find_randomizer(name), []
        for row in range(ROWS):
            rng = named_stream(make_generator(np.random.SeedSequence(FIRST_SEED + row)), name)
            drawn.append(randomizer.draw(EpisodeRandomization(), Draw(limits, rng, objects, joints)))
        for field, default in vars(EpisodeRandomization()).items():
            if all(getattr(each, field) == default for each in drawn):
                continue
            if field not in possible:
                allowed = "randomizers of " + ", ".join(possible)
                why = f"sets {field}, which engine {engine} does not have in a batch"
                raise ConfigError(bad_value("randomize", name, allowed, why))
            table[field] = np.array([getattr(each, field) for each in drawn], dtype=float).T
    return table


ROW = 0
"""Stream of the random number that selects the row. In a step, actions and observations have the next two."""


class BatchRandomization:
    """Randomization of the episodes of a batch; `begin`, and `start` after the reset, must precede every other use."""

    def __init__(self, table: Table, worlds: BatchWorlds) -> None:
        arrays, self._worlds = worlds.arrays, worlds
        self._arrays, self._table = arrays, {name: arrays.floats(values) for name, values in table.items()}
        self._rows = len(next(iter(table.values())).T)
        self.values = {name: values[..., :1] + arrays.zeros(worlds.count) for name, values in self._table.items()}
        """Field → `(N,)`, or `(k, N)` for values of each object, `(J, N)` of each joint."""
        steps = int(table["action_delay"].max()) if "action_delay" in table else 0
        self.delayed = arrays.zeros(steps, worlds.count, worlds.action_size)
        """`(D, N, A)`: the last actions, the newest first."""

    def begin(self, rows: Rows, episodes: EpisodeCounters) -> None:
        """Draw the parameters of the episodes of `rows`, which begin, and apply them to the worlds."""
        xp = self._arrays.xp
        drawn = uniform(rows.of(episodes.seeds), rows.of(episodes.numbers), 1, ROW)[0]
        row = xp.astype(drawn * self._rows, xp.int64)
        for name, values in self._table.items():
            self.values[name] = rows.replaced(self.values[name], values[..., row])
        self._worlds.randomize(self.values)

    def start(self, rows: Rows) -> None:
        """Fill the delay of episodes whose worlds are where they begin: until the first action, arms and hands hold."""
        if not self.delayed.shape[0]:
            return
        state = self._worlds.state
        second = state.second_ee_position[:, 0] if state.second_ee_position.shape[1] else None
        opening = 2.0 * state.gripper_command - 1.0
        hold = self._worlds.actions_towards(ArmCommand(state.ee_position, opening, second_target=second))
        self.delayed = self._arrays.xp.where(rows.mask[:, None], hold, self.delayed)

    def act(self, actions: Array, episodes: EpisodeCounters) -> Array:
        """Return the actions `(N, A)` that take effect in the step of `actions`."""
        xp, delay = self._arrays.xp, self.values.get("action_delay")
        if (deviation := self.values.get("action_noise")) is not None:
            drawn = normal(episodes.seeds, episodes.numbers, actions.shape[1], 2 * episodes.elapsed + 1)
            actions = actions + (deviation * drawn).T
        if delay is None or not self.delayed.shape[0]:
            return actions
        taken = actions
        for steps in range(1, self.delayed.shape[0] + 1):
            taken = xp.where((delay == steps)[:, None], self.delayed[steps - 1], taken)
        self.delayed = xp.concat([actions[None], self.delayed[:-1]])
        return taken

    def noise(self, measured: Array, episodes: EpisodeCounters) -> Array | None:
        """Return the noise `(N, d)` of the observations, or None; `measured` `(d,)` is 1 for values with noise."""
        deviation = self.values.get("observation_noise")
        if deviation is None:
            return None
        drawn = normal(episodes.seeds, episodes.numbers, measured.shape[0], 2 * episodes.elapsed + 2)
        return (deviation * drawn).T * measured

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        return [*self.values.values(), self.delayed]

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Replace the arrays of `variables` by the next of `arrays`."""
        self.values = {name: next(arrays) for name in self.values}
        self.delayed = next(arrays)
        self._worlds.randomize(self.values)

    def move_from(self, other: BatchRandomization, source: Array, rows: Rows) -> None:
        """Continue the delays of the episodes `source` `(n,)` of another batch; all else follows from the episodes."""
        delayed = [
            rows.replaced(mine, theirs[source], 0) for mine, theirs in zip(self.delayed, other.delayed, strict=True)
        ]
        self.delayed = self._arrays.xp.stack(delayed) if delayed else self.delayed

    def state_dict(self) -> dict[str, Array]:
        """Return all that does not follow from seeds, numbers and steps."""
        return {"delayed": to_numpy(self.delayed).copy()}

    def load_state_dict(self, state: Mapping[str, Array], episodes: EpisodeCounters) -> None:
        """Restore a `state_dict` of episodes that are restored already."""
        self.begin(Rows.all(episodes.count, self._arrays), episodes)
        delayed = state["delayed"]
        if delayed.shape != tuple(self.delayed.shape):  # of version 0.2, `(D, A, N)`
            delayed = delayed.swapaxes(1, 2)
        self.delayed = self._arrays.floats(delayed)
