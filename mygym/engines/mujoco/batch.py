"""Many MuJoCo worlds of one description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mygym.engines.arrays import Arrays, Rows, cores
from mygym.engines.controllers import BatchArmControllers
from mygym.engines.mujoco.bodies import FIELDS, Bodies
from mygym.engines.mujoco.model import Model
from mygym.engines.world import World
from mygym.errors import RunError
from mygym.tasks.context import ArmCommand
from mygym.tasks.state import State
from mygym.types import Array, FloatArray

WORLDS_PER_THREAD = 16
"""Worlds from which a further thread is worth its start in each step."""


class MujocoWorlds:
    """`N` MuJoCo worlds, see `mygym.engines.world.BatchWorlds` for the methods.

    A world's numbers are the same to the bit whatever `N`, the other worlds and the number of threads are.

    Args:
        world: A world of the description.
        model: Its model, in which all objects are present.
        count: `N`.
    """

    randomized_fields = FIELDS
    threads: ClassVar[int | None] = None
    """Number of threads; None: one for each core, if there are enough worlds."""

    def __init__(self, world: World, model: Model, count: int) -> None:
        self.count, self.arrays = count, Arrays(np, None, double=True)
        self.action_size, self.action_repeat = world.action_size, world.action_repeat
        self._home, self._dt = world.home, world.dt
        threads = self.threads or max(1, min(cores(), count // WORLDS_PER_THREAD))
        mode = world.control.kind.mode
        self._bodies = Bodies(model, mode, count, world.dt, world.moving_distractors, threads)
        self._controllers = BatchArmControllers(world.arm_controllers, count, self.arrays)
        self._values: Mapping[str, Array] = {}
        self._is_loaded = False
        """Whether the next `randomize` has the parameters of the episodes that `load_state_dict` has restored."""
        self.state: State = world.empty_state(count)
        """The current states."""
        self.state.object_present[...], self.state.object_size[...] = True, world.state.object_size
        self.state.object_middle[...] = world.state.object_middle
        self._elapsed = np.zeros(count, dtype=np.int64)
        poses = world.objects_in_a_row()[None] + np.zeros((count, 1, 1))
        parts = np.array([part.rest for part in world.parts]) + np.zeros((count, 1))
        self.reset(Rows.all(count, self.arrays), poses, parts)

    def randomize(self, values: Mapping[str, Array]) -> None:
        """Set physical parameters of worlds from their next reset on, see `BatchWorlds.randomize`."""
        self._values = {name: value for name, value in values.items() if name in FIELDS}
        if self._is_loaded:
            self._set_parameters(np.arange(self.count))
            self._is_loaded = False

    def _set_parameters(self, at: NDArray[np.intp]) -> None:
        self._bodies.set_parameters(at, {name: values.T[at] for name, values in self._values.items()})

    def reset(self, rows: Rows, poses: Array, parts: Array) -> None:
        """Put worlds at the start of an episode, see `BatchWorlds.reset`."""
        at, state = _indices(rows), self.state
        self._set_parameters(at)
        self._bodies.load(at, self._home, np.asarray(parts, dtype=float), np.asarray(poses, dtype=float))
        state.object_depth[at] = 0.0
        self._bodies.read(state, at)
        self._elapsed[at] = 0
        state.time[at], state.gripper_command[at] = 0.0, 1.0
        state.hit[at], state.hit_position[at] = False, state.object_position[at]
        self._controllers.read(state)
        self._controllers.reset(rows, state)

    def step_all(self, actions: Array) -> None:
        """Advance all worlds by a control step, with actions `(N, A)` that are clipped to [-1, 1]."""
        state = self.state
        actions = np.minimum(np.maximum(np.asarray(actions, dtype=float), -1.0), 1.0)
        grippers = self._controllers.grippers(actions)
        self._bodies.advance(self._controllers.command(actions, state), grippers, state)
        self._elapsed += 1
        self._bodies.read(state)
        self._controllers.read(state)
        state.time[...] = self._elapsed * self._dt
        if state.hit.shape[1]:
            self._bodies.read_hits(state)
        self._controllers.read_offsets(state)
        if grippers.shape[1]:
            state.gripper_command[...] = 0.5 + 0.5 * grippers[:, 0]

    def actions_towards(self, command: ArmCommand) -> Array:
        """Return the actions `(N, A)` of a command, see `Worlds.actions_towards`."""
        return self._controllers.action_towards(self.state, command)

    def copy_from(self, other: MujocoWorlds, source: Array, rows: Rows) -> None:
        """Put the worlds `rows` into the states of the worlds `source` `(n,)` of others of the same description."""
        at = _indices(rows)
        self._restore(at, other._bodies.saved(source), {name: values[source] for name, values in other._measured()})
        self._elapsed[at] = other._elapsed[source]
        self._controllers.copy_from(other._controllers, source, rows)

    def _measured(self) -> Iterator[tuple[str, FloatArray]]:
        """Yield the arrays of the state by name."""
        return ((field.name, getattr(self.state, field.name)) for field in fields(self.state))

    def _restore(self, at: Any, bodies: Mapping[str, FloatArray], state: Mapping[str, FloatArray]) -> None:
        self._bodies.restore(at, bodies)
        for name, values in state.items():
            getattr(self.state, name)[at] = values

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays."""
        state = {name: values.copy() for name, values in self._measured()}
        return {
            "bodies": self._bodies.saved(),
            "state": state,
            "elapsed": self._elapsed.copy(),
            "controllers": self._controllers.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        self._restore(slice(None), state["bodies"], state["state"])
        self._elapsed[...] = state["elapsed"]
        self._controllers.load_state_dict(state["controllers"])
        self._is_loaded = True

    def variables(self) -> list[Array]:
        """Raise `RunError`: a step is not a computation of arrays, which a GPU could repeat."""
        raise RunError("engine mujoco: its steps are not computed on a GPU")

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Raise `RunError`, as `variables`."""
        self.variables()


def _indices(rows: Rows) -> NDArray[np.intp]:
    """Return the indices `(n,)` of worlds."""
    return np.asarray(rows.index, dtype=np.intp)
