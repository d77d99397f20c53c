"""Engines by name, and what every engine can be asked for; imports no engine until it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mygym.config.schema import DEFAULT_ENGINE
from mygym.errors import ConfigError, MygymError, bad_value
from mygym.registry import decorator, registry
from mygym.registry.entries import HAS_BULLET
from mygym.registry.signatures import checked_registration

if TYPE_CHECKING:
    from mygym.engines.inspection import Inspection
    from mygym.engines.world import World, WorldSpec

BULLET = "pybullet"
"""The engine of evaluations, and of every environment that names no other, where it is installed."""

MUJOCO = "mujoco"
"""The second engine of all tasks."""

FUSED = "fused"
"""The engine whose worlds are rows of arrays; it trains, and has no single environments."""

W = TypeVar("W", bound="type[World]")


@checked_registration
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


_MUJOCO_EXTRA = ("mygym[mujoco]",)
for _name, _world, _help, _requires in (
    (BULLET, "bullet.world:BulletWorld", "Bullet: all tasks; evaluations use it.", () if HAS_BULLET else (BULLET,)),
    (MUJOCO, "mujoco.world:MujocoWorld", "MuJoCo: all tasks, many worlds in one process.", _MUJOCO_EXTRA),
    (
        f"{MUJOCO}_10ms",
        "mujoco.world:CoarseMujocoWorld",
        "MuJoCo with steps of 10 ms in place of 5 ms: for training.",
        _MUJOCO_EXTRA,
    ),
    (FUSED, "fused.world:BatchWorld", "Thousands of worlds as arrays: an arm, a box on a table.", ()),
):
    registry("engine").register(_name, f"mygym.engines.{_world}", _help, "mygym.engines", requires=_requires)


def has_batches(name: str) -> bool:
    """Return whether a registered engine has many worlds as arrays, for `BatchEnv`.

    Raises:
        RegistryError: Unknown engine.
    """
    return name == FUSED or (name != BULLET and find_engine(name).batched)


def engines_with_batches() -> list[str]:
    """Return the names of the engines that have batches, of those that can be imported here."""
    names = []
    for name in registry("engine").names():
        with suppress(MygymError):
            if has_batches(name):
                names.append(name)
    return names


def judge_of(name: str) -> str:
    """Return the engine in which policies trained in an engine are evaluated: a user's own engine judges its own.

    Raises:
        RegistryError: Unknown engine.
    """
    return DEFAULT_ENGINE if registry("engine").get(name, "engine").built_in else name


def find_engine(name: str = DEFAULT_ENGINE) -> type[World]:
    """Return the class of the worlds of a registered engine.

    Raises:
        RegistryError: Unknown engine.
        ConfigError: The engine has no single worlds, or is PyBullet and not installed.
    """
    entry = registry("engine").get(name, "engine")
    why = ""
    if name == BULLET and not HAS_BULLET:
        why = "needs the package pybullet, which is not installed; it exists for Python 3.11 to 3.13"
    elif name == FUSED:
        why = 'simulates many worlds at once: `gymnasium.make_vec(…, num_envs=…, engine="fused")`'
    if why:
        others = [other for other in registry("engine").names() if other != name]
        raise ConfigError(bad_value("engine", name, others, why))
    engine: type[World] = entry.load()
    return engine


def make_world(spec: WorldSpec, engine: str = DEFAULT_ENGINE) -> World:
    """Return a world of a description; the caller closes it.

    Raises:
        RegistryError: Unknown engine.
        ConfigError: See `World`.
    """
    return find_engine(engine)(spec)


@contextmanager
def inspection_of(world: World) -> Iterator[Inspection]:
    """Yield answers about the shapes of a world in its current state; reset the world before its next step.

    They are those of its engine or, if it has none, of a world of the default engine in the same state.
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
