"""Engines by name, and what every engine can be asked for; imports no engine until it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.registry import decorator, registry

if TYPE_CHECKING:
    from mygym.engines.inspection import Inspection
    from mygym.engines.world import World, WorldSpec

BULLET = "pybullet"
"""The engine of evaluations, and of every environment that names no other."""

MUJOCO = "mujoco"
"""The second engine of all tasks."""

FUSED = "fused"
"""The engine whose worlds are rows of arrays; it trains, and has no single environments."""

W = TypeVar("W", bound="type[World]")


def register_engine(name: str, *, override: bool = False) -> Callable[[W], W]:
    """Return a decorator that registers a subclass of `World` as an engine, for `engine: NAME`.

    Args:
        name: Name in configs.
        override: Replace an engine of the same name.
    """
    return decorator(
        "engine", name, check=_is_world, allowed="a subclass of mygym.engines.world.World", override=override
    )


def _is_world(component: object) -> bool:
    from mygym.engines.world import World

    return isinstance(component, type) and issubclass(component, World)


_ORIGIN = "mygym.engines"
registry("engine").register(
    BULLET, "mygym.engines.bullet.world:BulletWorld", "Bullet: all tasks; evaluations use it.", _ORIGIN
)
registry("engine").register(
    MUJOCO, "mygym.engines.mujoco.world:MujocoWorld", "MuJoCo: all tasks, many worlds at once.", _ORIGIN
)
registry("engine").register(
    FUSED,
    "mygym.engines.fused.world:BatchWorld",
    "Thousands of worlds as arrays: an arm, a box on a table.",
    _ORIGIN,
)


def find_engine(name: str = BULLET) -> type[World]:
    """Return the class of the worlds of a registered engine.

    Raises:
        RegistryError: Unknown engine.
        ConfigError: The engine has no single worlds.
    """
    entry = registry("engine").get(name, "engine")
    if name == FUSED:
        allowed = [other for other in registry("engine").names() if other != FUSED]
        why = 'simulates many worlds at once: `gymnasium.make_vec("mygym-fused/…", num_envs=…)`'
        raise ConfigError(bad_value("engine", name, allowed, why))
    engine: type[World] = entry.load()
    return engine


def make_world(spec: WorldSpec, engine: str = BULLET) -> World:
    """Return a world of a description; the caller closes it.

    Raises:
        RegistryError: Unknown engine.
        ConfigError: See `World`.
    """
    return find_engine(engine)(spec)


@contextmanager
def inspection_of(world: World) -> Iterator[Inspection]:
    """Yield answers about the shapes of a world in its current state; reset the world before its next step.

    They are those of its engine or, if it has none, of a Bullet world of the same description in the same state.
    """
    if world.inspection is not None:
        yield world.inspection
        return
    state = world.state
    with closing(make_world(world.spec)) as other:
        other.randomize(world.randomization)
        poses = np.concatenate([state.object_position[0], state.object_orientation[0]], axis=1)
        other.reset(poses, state.joint_position[0], state.part_position[0])
        assert other.inspection is not None
        yield other.inspection
