"""Saved states of a world in Bullet's memory: quick, and not exact."""

from __future__ import annotations

import copy
import weakref
from dataclasses import fields
from typing import Any

import numpy as np

from mygym.errors import RunError
from mygym.sim.bullet import bullet
from mygym.sim.world import World


class SavedWorld:
    """State of a world, which can be restored until the next reset.

    Positions, velocities and contacts are restored, but not the caches of Bullet's solver: the same actions give nearly
    the same states, not the same to the bit.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self._world, self._simulation = world, world.simulation
        self._id = int(bullet.saveState(physicsClientId=world.client))
        world.saved_states.add(self._id)
        weakref.finalize(self, _free, world, self._simulation, self._id).atexit = False
        self._steps = world.elapsed_steps
        self._state = {field.name: getattr(world.state, field.name).copy() for field in fields(world.state)}
        self._controllers = [_plain_attributes(controller) for controller in world.controllers]

    def restore(self) -> None:
        """Restore the state.

        Raises:
            RunError: The world was reset or closed since.
        """
        world = self._world
        if world.closed or world.simulation != self._simulation:
            raise RunError("snapshot: its episode is over, because the environment was reset or closed since")
        bullet.restoreState(stateId=self._id, physicsClientId=world.client)
        world.elapsed_steps = self._steps
        for name, values in self._state.items():
            getattr(world.state, name)[...] = values
        for controller, attributes in zip(world.controllers, self._controllers, strict=True):
            vars(controller).update(copy.deepcopy(attributes))


def _plain_attributes(controller: Any) -> dict[str, Any]:
    """Return copies of the attributes that may change in a step: numbers, arrays and containers."""
    plain = (type(None), bool, int, float, np.ndarray, list, tuple, dict)
    return {name: copy.deepcopy(value) for name, value in vars(controller).items() if isinstance(value, plain)}


def _free(world: World, simulation: int, state: int) -> None:
    if not world.closed and world.simulation == simulation:
        world.saved_states.discard(state)
        bullet.removeState(state, physicsClientId=world.client)
