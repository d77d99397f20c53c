"""An engine with batches: single Bullet worlds side by side, whose rows are those of `RobotEnv` to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from mygym.engines.arrays import Arrays, Rows
from mygym.engines.bullet.world import BulletWorld
from mygym.engines.world import World, WorldSpec
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.tasks.context import ArmCommand
from mygym.tasks.state import State
from mygym.types import Array, FloatArray


class SideBySide(BulletWorld):
    """A Bullet world, and batches of such worlds."""

    batched = True

    def batch(self, count: int) -> BulletWorlds:
        """Return `count` worlds; an engine may share what this world has, which is therefore nominal."""
        assert self.randomization == EpisodeRandomization()
        return BulletWorlds(self.spec, count)


class BulletWorlds:
    """`N` Bullet worlds; a world is copied by its reset and its actions, which give the same state to the bit."""

    action_repeat = 1
    randomized_fields = ("object_mass", "object_friction", "object_damping", "joint_friction", "joint_gain")
    arrays: Arrays = World.arrays

    def __init__(self, spec: WorldSpec, count: int) -> None:
        self.count, self.worlds = count, [BulletWorld(spec) for _ in range(count)]
        self.action_size = self.worlds[0].action_size
        self._values: Mapping[str, FloatArray] = {}
        first = self.worlds[0]
        start = np.concatenate([first.state.object_position[0], first.state.object_orientation[0]], axis=1)
        rest = start, np.array([part.rest for part in first.parts]), {}
        self._starts: list[Any] = [rest] * count
        self._actions: list[list[FloatArray]] = [[] for _ in range(count)]
        self.state: State
        self._read()

    def reset(self, rows: Rows, poses: Array, parts: Array) -> None:
        assert rows.index is not None
        for row, pose, part in zip(rows.index.tolist(), poses, parts, strict=True):
            drawn = {name: values[:, row] for name, values in self._values.items() if name in self.randomized_fields}
            self._play(row, (pose, part, drawn), [])
        self._read()

    def _play(self, row: int, start: Any, actions: list[FloatArray]) -> None:
        world, (poses, parts, drawn) = self.worlds[row], start
        world.randomize(EpisodeRandomization(**{name: tuple(values.tolist()) for name, values in drawn.items()}))
        world.reset(poses, part_position=parts)
        for action in actions:
            world.step(action.astype(float))
        self._starts[row], self._actions[row] = start, list(actions)

    def randomize(self, values: Mapping[str, Array]) -> None:
        self._values = values

    def step_all(self, actions: Array) -> None:
        for world, action, done in zip(self.worlds, actions, self._actions, strict=True):
            world.step(action.astype(float))
            done.append(action.copy())
        self._read()

    def _read(self) -> None:
        states = [world.state for world in self.worlds]
        names = [field.name for field in fields(State)]
        self.state = State(**{name: np.concatenate([getattr(state, name) for state in states]) for name in names})

    def actions_towards(self, command: ArmCommand) -> Array:
        def of(row: int) -> ArmCommand:
            values = {field.name: getattr(command, field.name) for field in fields(command)}
            return ArmCommand(
                **{
                    name: value[row : row + 1] if isinstance(value, np.ndarray) else value
                    for name, value in values.items()
                }
            )

        return np.concatenate([world.actions_towards(of(row)) for row, world in enumerate(self.worlds)])

    def copy_from(self, other: BulletWorlds, source: Array, rows: Rows) -> None:
        assert rows.index is not None
        for row, origin in zip(rows.index.tolist(), source.tolist(), strict=True):
            self._play(row, other._starts[origin], other._actions[origin])
        self._read()

    def variables(self) -> list[Array]:
        raise NotImplementedError("for CUDA graphs alone")

    def set_variables(self, arrays: Iterator[Array]) -> None:
        raise NotImplementedError("for CUDA graphs alone")

    def state_dict(self) -> dict[str, Any]:
        return {"starts": list(self._starts), "actions": [list(actions) for actions in self._actions]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for row, (start, actions) in enumerate(zip(state["starts"], state["actions"], strict=True)):
            self._play(row, start, actions)
        self._read()
