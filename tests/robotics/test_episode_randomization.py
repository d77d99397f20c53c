"""Effects of an episode's randomization on a world: the described effects and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from mygym.engines.bullet.client import bullet
from mygym.engines.bullet.world import BulletWorld
from mygym.engines.rendering.camera import Camera
from mygym.registry import registry
from mygym.robotics.episode_randomization import CameraShift, EpisodeRandomization, Light, scaled
from mygym.robotics.objects import load_object
from mygym.robotics.robot import load_robot
from mygym.robotics.shapes import bounds
from mygym.robotics.workspace import load_workspace
from tests.worlds import bullet_world

PANDA = load_robot(registry("robot").get("panda").load())
TABLE = load_workspace(registry("workspace").get("table").load())
J = 7


def world_of(*names: str, control: str = "ee_delta") -> BulletWorld:
    return bullet_world(PANDA, TABLE, [load_object(registry("object").get(name).load()) for name in names], control)


@pytest.fixture(scope="module")
def world() -> Iterator[BulletWorld]:
    world = world_of("cube", "mug")
    yield world
    world.close()


def poses(world: BulletWorld, height: float = 0.0) -> Any:
    result = np.zeros((len(world.objects), 7))
    for k, spec in enumerate(world.objects):
        result[k] = 0.1, 0.15 - 0.3 * k, height + spec.half_height, 0.0, 0.0, 0.0, 1.0
    return result


def episode(world: BulletWorld, randomization: EpisodeRandomization, steps: int = 25) -> bytes:
    """Return the states of an episode in which the arm moves at random and into the cube, as bytes."""
    world.randomize(randomization)
    world.reset(poses(world))
    rng, states = np.random.default_rng(0), b""
    for step in range(steps):
        action = rng.uniform(-1, 1, world.action_size)
        if step % 2:
            action = world.action_towards(world.state.object_position[0, 0].copy(), -1.0)
        world.step(action)
        state = world.state
        states += b"".join(getattr(state, field.name).tobytes() for field in fields(state))
    return states


PHYSICAL: dict[str, EpisodeRandomization] = {
    "object_size": EpisodeRandomization(object_size=(1.2, 0.9)),
    "object_mass": EpisodeRandomization(object_mass=(2.0, 0.5)),
    "object_friction": EpisodeRandomization(object_friction=(0.5, 1.3)),
    "object_damping": EpisodeRandomization(object_damping=(0.4, 0.1)),
    "joint_friction": EpisodeRandomization(joint_friction=(0.5,) * J),
    "joint_gain": EpisodeRandomization(joint_gain=(0.7, 0.8, 0.9, 1.0, 1.1, 1.0, 0.9)),
}


@pytest.mark.parametrize("name", PHYSICAL)
def test_randomization_is_reproducible_and_leaves_no_trace(name: str, world: BulletWorld) -> None:
    plain = episode(world, EpisodeRandomization())
    varied = episode(world, PHYSICAL[name])
    assert varied != plain
    for other in PHYSICAL.values():
        episode(world, other, steps=7)
        assert episode(world, PHYSICAL[name]) == varied
    assert episode(world, EpisodeRandomization()) == plain


def dynamics(world: BulletWorld, k: int) -> tuple[float, float, tuple[float, ...]]:
    """Return mass, friction and moments of inertia of a body in Bullet."""
    mass, friction, moments, *_ = bullet.getDynamicsInfo(world.object_bodies.ids[k], -1, physicsClientId=world.client)
    return mass, friction, moments


@pytest.mark.parametrize("k", [0, 1])
def test_mass_and_friction_are_scaled_independently(k: int, world: BulletWorld) -> None:
    def after(randomization: EpisodeRandomization) -> tuple[float, float, tuple[float, ...]]:
        world.randomize(randomization)
        world.reset(poses(world))
        return dynamics(world, k)

    mass, friction, moments = after(EpisodeRandomization())
    heavy = after(EpisodeRandomization(object_mass=(3.0, 3.0)))
    assert heavy[:2] == (pytest.approx(3 * mass), friction)
    assert heavy[2] == pytest.approx([3 * moment for moment in moments])
    rough = after(EpisodeRandomization(object_friction=(0.5, 0.5)))
    assert rough == (mass, pytest.approx(0.5 * friction), moments)
    assert after(EpisodeRandomization()) == (mass, friction, moments)


def test_heavier_objects_fall_as_fast(world: BulletWorld) -> None:
    heights = []
    for factor in (0.5, 1.0, 2.0):
        world.randomize(EpisodeRandomization(object_mass=(factor, factor)))
        world.reset(poses(world, height=0.4))
        for _ in range(5):
            world.step(np.zeros(world.action_size))
        heights.append(world.state.object_position[0, :, 2].copy())
    assert np.ptp(heights, axis=0).max() < 1e-9
    assert (heights[0] < 0.3).all()


def test_damping_removes_its_share_of_the_velocity_in_a_second(world: BulletWorld) -> None:
    world.randomize(EpisodeRandomization(object_damping=(0.75, 0.0)))
    world.reset(poses(world, height=20.0))  # they fall for a second
    for body in world.object_bodies.ids:
        bullet.resetBaseVelocity(body, (0.2, 0, 0), physicsClientId=world.client)
    for _ in range(25):
        world.step(np.zeros(world.action_size))
    assert world.state.object_velocity[0, :, 0] == pytest.approx([0.05, 0.2], rel=1e-6)


def test_any_object_can_be_scaled() -> None:
    for entry in registry("object"):
        spec = load_object(entry.load())
        larger = scaled(spec, 1.25)
        assert (np.stack(bounds(larger.geoms)), larger.mass) == (
            pytest.approx(1.25 * np.stack(bounds(spec.geoms)), abs=1e-4),
            spec.mass,
        ), entry.name
        assert larger.half_height == pytest.approx(1.25 * spec.half_height, abs=1e-4)
        assert larger.body.moments == pytest.approx([1.25**2 * moment for moment in spec.body.moments])
        assert scaled(spec, 1.0) is spec


def test_scaled_object_rests_at_its_height() -> None:
    world = world_of("cube", "mug", "can", "apple")
    for factor in (0.7, 1.5):
        world.randomize(EpisodeRandomization(object_size=(factor,) * 4))
        start = poses(world)
        start[:, 0], start[:, 1] = 0.2, np.arange(4) * 0.16 - 0.24
        world.reset(start)
        for _ in range(20):
            world.step(np.zeros(world.action_size))
        assert world.state.object_position[0, :, 2] == pytest.approx([s.half_height for s in world.objects], abs=2e-3)
        assert world.objects[0].size == pytest.approx([factor * 0.04] * 3)
    world.close()


def test_smaller_gain_moves_joints_less() -> None:
    world = world_of(control="joint_delta")
    distances = []
    for gain in (1.0, 0.5):
        world.randomize(EpisodeRandomization(joint_gain=(gain,) * J))
        world.reset(np.zeros((0, 7)))
        before = world.state.joint_position.copy()
        world.step(np.full(world.action_size, 0.02))
        distances.append(np.abs(world.state.joint_position - before).max())
    assert distances[1] / distances[0] == pytest.approx(0.5, abs=0.05)
    world.close()


def test_dry_friction_holds_a_joint_against_smaller_torques() -> None:
    world = world_of(control="joint_torque")

    def distance(share: float, friction: float) -> float:
        world.randomize(EpisodeRandomization(joint_friction=(friction,) * J))
        world.reset(np.zeros((0, 7)))
        before = world.state.joint_position[0, 0]
        for _ in range(5):
            world.step(np.array([share, *[0.0] * (world.action_size - 1)]))
        return abs(float(world.state.joint_position[0, 0] - before))

    assert distance(0.05, 0.1) < 1e-3 < 0.02 < distance(0.05, 0.0)
    assert distance(0.2, 0.1) > 0.02
    world.close()


# pictures -----------------------------------------------------------------------------------------------------------

VISUAL: dict[str, EpisodeRandomization] = {
    "size": EpisodeRandomization(object_size=(1.6, 0.7)),
    "light": EpisodeRandomization(light=Light((0.0, 1.0, 1.0), (1.0, 0.9, 0.7), 0.3, 0.6)),
    "colors": EpisodeRandomization(colors=3),
    "textures": EpisodeRandomization(textures=4),
    "camera": EpisodeRandomization(camera=CameraShift((0.02, 0.03, 0.04), 0.02, 0.01, 0.05)),
}


@pytest.fixture(scope="module")
def picture() -> Iterator[Callable[[EpisodeRandomization], Any]]:
    world = world_of("cube", "mug")
    camera = Camera(world)

    def take(randomization: EpisodeRandomization) -> Any:
        world.randomize(randomization)
        world.reset(poses(world))
        return camera.render(240, 180).astype(int)

    yield take
    camera.close()
    world.close()


@pytest.mark.parametrize("name", VISUAL)
def test_pictures_show_the_current_episode_only(name: str, picture: Callable[[EpisodeRandomization], Any]) -> None:
    plain, varied = picture(EpisodeRandomization()), picture(VISUAL[name])
    assert (plain != varied).any()
    for other in VISUAL.values():
        picture(other)
        assert (picture(VISUAL[name]) == varied).all()
    assert (picture(EpisodeRandomization()) == plain).all()


def test_colours_and_textures_change_by_their_strength(picture: Callable[[EpisodeRandomization], Any]) -> None:
    plain = picture(EpisodeRandomization())
    changes = [np.abs(picture(EpisodeRandomization(colors=3, color_change=c)) - plain).mean() for c in (0.0, 0.3, 1.0)]
    assert changes[0] < 0.1 < 3.0 < changes[1] < 0.5 * changes[2]
    faint, strong = (
        np.abs(picture(EpisodeRandomization(textures=4, texture_contrast=c)) - plain).mean() for c in (0.3, 1.0)
    )
    assert 0.0 < faint < 0.6 * strong
    many = {picture(EpisodeRandomization(colors=seed)).tobytes() for seed in range(6)}
    assert len(many) == 6


def test_colours_do_not_move_shapes(picture: Callable[[EpisodeRandomization], Any]) -> None:
    """Colours of the robot change, and edges in pictures do not."""
    plain, painted = picture(EpisodeRandomization()), picture(EpisodeRandomization(colors=5))
    background, new = plain[2, 2], painted[2, 2]
    assert ((plain == background).all(axis=2) == (painted == new).all(axis=2)).mean() > 0.99


def test_defaults_change_nothing() -> None:
    """Each field's default equals the plain randomization."""
    plain = EpisodeRandomization()
    assert all(replace(plain, **{field.name: field.default}) == plain for field in fields(EpisodeRandomization))
