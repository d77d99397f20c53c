"""Named components, one behind the other, as one bounded vector."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, DivergedError, bad_value
from mygym.registry import registry
from mygym.tasks.context import EpisodeContext
from mygym.tasks.observations import Component, find_component
from mygym.tasks.shared import SLOTS, no_room

Vector = NDArray[np.float32]


class Observer:
    """What an environment observes: components by name.

    Args:
        names: Of the components, in order.
        context: Any of the environment's: widths follow from it.
        shared: Whether each component takes as much room as it may need in any task, see `mygym.tasks.shared`.

    Raises:
        ConfigError: A component that the task cannot have, or one that has no room.
        RegistryError: There is none of a name.
    """

    def __init__(self, names: Sequence[str], context: EpisodeContext, shared: bool) -> None:
        components = [find_component(name) for name in names]
        self._functions = tuple(component.function for component in components)
        widths = [component.function(context).shape[1] for component in components]
        self.widths = dict(zip(names, widths, strict=True))
        """How many numbers each component has; in shared spaces it may have more room."""
        rooms = list(widths)
        for number, (name, component) in enumerate(zip(names, components, strict=True)):
            if shared:
                rooms[number] = _room(name, component, widths[number], context.task.name)
            elif widths[number] == 0:
                possible = [one for one in registry("observation").names() if _is_there(one, context)]
                why = f"tells about {component.of}, and {context.task.name} is without"
                raise ConfigError(bad_value("observations", name, possible, why))
        ends = np.cumsum(rooms).tolist()
        self.slices = {name: slice(end - room, end) for name, room, end in zip(names, rooms, ends, strict=True)}
        """Where in the vector each component is."""
        self.bound = np.repeat([component.bound for component in components], rooms).astype(np.float32)
        """`(d,)`: every number is within ± this."""
        self._places: NDArray[np.intp] | None = None
        if rooms != widths:
            starts = [end - room for room, end in zip(rooms, ends, strict=True)]
            places = [start + np.arange(width) for start, width in zip(starts, widths, strict=True)]
            self._places = np.concatenate(places)

    def __call__(self, context: EpisodeContext, noise: Vector | None = None) -> Vector:
        """`(d,)`, a fresh array, of the first episode, with noise on what is measured, see `widths`.

        Raises:
            DivergedError: A number is not finite.
        """
        parts = [function(context)[0] for function in self._functions]
        observation: Vector = np.concatenate(parts, dtype=np.float32)
        if not math.isfinite(observation.dot(observation)):  # a third of the price of `isfinite().all()`
            raise DivergedError(f"the physics gave an observation that is not finite: {observation.tolist()}")
        if noise is not None:
            observation += noise
        if self._places is not None:
            values, observation = observation, np.zeros(len(self.bound), dtype=np.float32)
            observation[self._places] = values
        np.minimum(np.maximum(observation, -self.bound, out=observation), self.bound, out=observation)
        return observation


def _room(name: str, component: Component, width: int, task: str) -> int:
    """How many numbers a component has in shared spaces.

    Raises:
        ConfigError: More than there is room for.
    """
    if component.of in ("robot", "other arms"):
        return width
    if component.of not in SLOTS:
        why = f"has as many numbers as the task has {component.of}, and spaces are shared"
        raise ConfigError(bad_value("observations", name, "stage_name in its place; or spaces: own", why))
    if width > SLOTS[component.of] * component.size:
        raise ConfigError(no_room(component.of, width // component.size, task))
    return SLOTS[component.of] * component.size


def _is_there(name: str, context: EpisodeContext) -> bool:
    return bool(find_component(name).function(context).shape[1] > 0)
