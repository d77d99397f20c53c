"""Worlds for tests, closed after each test, and a robot with two arms."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from mygym.engines.world import WorldSpec
from mygym.registry import ASSETS
from mygym.robotics.objects import load_object
from mygym.robotics.robot import load_robot
from mygym.robotics.workspace import load_workspace

if TYPE_CHECKING:
    from mygym.engines.bullet.world import BulletWorld

MakeWorld = Callable[..., "BulletWorld"]
WorldIn = Callable[..., "BulletWorld"]


def bullet_world(*args: Any, solver: Any = None, **kwargs: Any) -> BulletWorld:
    """Return a Bullet world of a `WorldSpec` with these arguments; the caller closes it."""
    from mygym.engines.bullet.world import SOLVER, BulletWorld  # here: other engines are tested without PyBullet

    return BulletWorld(WorldSpec(*args, **kwargs), solver or SOLVER)


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    """Return a function `make_world("panda", objects=1, control="ee_delta", gripper=True)`: a world with cubes."""
    worlds: list[BulletWorld] = []

    def make(robot: str | Path = "panda", objects: int = 1, **kwargs: Any) -> BulletWorld:
        world = bullet_world(load_robot(robot), load_workspace("table"), [load_object("cube")] * objects, **kwargs)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world_in() -> Iterator[WorldIn]:
    """Return a function `world_in("drawer", robot="panda", objects=["cube"])`; also with a workspace file."""
    worlds: list[BulletWorld] = []

    def make(workspace: str | Path, robot: str = "panda", objects: Sequence[str] = (), **kwargs: Any) -> BulletWorld:
        specs = [load_object(name) for name in objects]
        worlds.append(bullet_world(load_robot(robot), load_workspace(workspace), specs, **kwargs))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def cube_at(x: float, y: float, yaw: float = 0.0, z: float = 0.02) -> np.ndarray:
    """Return the pose `(1, 7)` of a cube."""
    return np.array([[x, y, z, 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)]])


def first_home(world: BulletWorld) -> np.ndarray:
    """Return the home `(J,)` rad of the first arm."""
    return world.home[: len(world.kinematics.chain.home)]


def with_first(world: BulletWorld, values: np.ndarray) -> np.ndarray:
    """Return joint positions of all arms: `values` for the first arm, home for a second arm."""
    return np.concatenate([values, world.home[len(values) :]])


def act_first(world: BulletWorld, action: np.ndarray) -> None:
    """Play a step with an action of the first arm and zeros for a second arm."""
    world.step(np.pad(action, (0, world.action_size - len(action))))


def go(world: BulletWorld, target: Any, gripper: float = 1.0, steps: int = 15) -> None:
    """Drive the end effector towards a target for some control steps."""
    for _ in range(steps):
        world.step(world.action_towards(np.asarray(target, dtype=float), gripper))


def two_armed(folder: Path) -> Path:
    """Write the description of two pandas side by side on one base."""
    shipped, sides = ASSETS / "robots", ("left_", "right_")
    urdf = (shipped / "panda.urdf").read_text().replace('filename="meshes', f'filename="{shipped / "meshes"}')
    root = ET.fromstring('<robot name="two"><link name="body"/></robot>')
    for side, y in zip(sides, (0.0, -0.5), strict=True):
        joint = ET.SubElement(root, "joint", name=f"{side}base", type="fixed")
        ET.SubElement(joint, "parent", link="body")
        ET.SubElement(joint, "child", link=f"{side}link0")
        ET.SubElement(joint, "origin", xyz=f"0 {y} 0", rpy="0 0 0")
        root.extend(ET.fromstring(urdf.replace('"panda_', f'"{side}')))
    (folder / "two.urdf").write_text(ET.tostring(root, encoding="unicode"))
    text = (shipped / "panda.yaml").read_text()
    first, second = (yaml.safe_load(text.replace("panda_", side)) for side in sides)
    second = {key: second[key] for key in ("joints", "end_effector", "gripper")}
    path = folder / "two.yaml"
    path.write_text(yaml.safe_dump(first | {"urdf": "two.urdf", "second_arm": second}))
    return path


def glide(world: BulletWorld, target: Any, gripper: float = 1.0, step: float = 0.01) -> None:
    """Drive the end effector to a target in steps of `step` m, and wait."""
    start = world.state.ee_position[0].copy()
    difference = np.asarray(target, dtype=float) - start
    for share in np.linspace(0.0, 1.0, 1 + int(np.ceil(np.linalg.norm(difference) / step)))[1:]:
        go(world, start + share * difference, gripper, 1)
    go(world, target, gripper, 5)
