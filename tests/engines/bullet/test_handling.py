"""Manipulation in the workspaces: drawers, doors, buttons, levers and valves, peg insertion, handover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mygym.engines.world import World
from tests.worlds import WorldIn, glide, go

HANDS = pytest.mark.parametrize("robot", ["panda", "kuka"])
"""Robots with fingers and with a rod."""


@HANDS
def test_the_drawer_opens_by_its_handle(world_in: WorldIn, robot: str) -> None:
    world = world_in("drawer", robot)
    handle = world.state.part_handle_position[0, 0].copy()
    grip = handle + np.array((0.0, 0.0, 0.0) if world.has_gripper else (0.024, 0.0, -0.012))  # a rod hooks the bow
    go(world, grip + np.array((0.0, 0.0, 0.08)), 1, 25)
    go(world, grip, 1, 15)
    go(world, grip, -1, 8)
    start = world.state.ee_position[0].copy()
    for step in range(32):
        go(world, start - (0.008 * step, 0.0, 0.0), -1, 1)
    opened = world.state.part_position[0, 0]
    assert opened > 0.2
    np.testing.assert_allclose(world.state.part_handle_position[0, 0], handle - (opened, 0, 0), atol=1e-6)


@HANDS
def test_the_door_swings_by_its_handle(world_in: WorldIn, robot: str) -> None:
    world = world_in("fridge", robot)
    handle, pivot = world.state.part_handle_position[0, 0].copy(), np.array([0.13, 0.175, 0.0])
    grip = handle + np.array((0.0, 0.0, 0.0) if world.has_gripper else (0.024, 0.0, -0.02))
    go(world, grip + np.array((0.0, 0.0, 0.1)), 1, 20)
    go(world, grip, 1, 15)
    go(world, grip, -1, 8)
    for angle in np.linspace(0.0, 1.2, 60):
        c, s = np.cos(angle), np.sin(angle)
        go(world, pivot + np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) @ (grip - pivot), -1, 1)
    assert world.state.part_position[0, 0] > 1.0
    opened_handle = world.state.part_handle_position[0, 0]
    assert np.linalg.norm(opened_handle - pivot) == pytest.approx(np.linalg.norm(handle - pivot))
    assert opened_handle[2] == pytest.approx(handle[2])


def part(world: World, name: str) -> int:
    return world.part_names.index(f"panel.{name}")


def position(world: World, name: str) -> float:
    """Return the position of a part, m or rad."""
    return float(world.state.part_position[0, part(world, name)])


def handle(world: World, name: str) -> np.ndarray:
    """Return the handle of a part, `(3,)` m."""
    return world.state.part_handle_position[0, part(world, name)].copy()


def offset(point: np.ndarray, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    return point + np.array((x, y, z))


@HANDS
def test_a_button_is_pressed_and_returns(world_in: WorldIn, robot: str) -> None:
    world = world_in("panel", robot)
    top = handle(world, "button")
    go(world, offset(top, z=0.05), -1, 25)
    glide(world, offset(top, z=-0.01), -1, step=0.003)
    assert position(world, "button") > 0.8 * 0.012
    np.testing.assert_allclose(handle(world, "button"), top - (0.0, 0.0, position(world, "button")), atol=1e-6)
    glide(world, offset(top, z=0.05), -1)
    assert position(world, "button") == pytest.approx(0.0, abs=1e-5)
    assert position(world, "switch") == pytest.approx(-0.61, abs=1e-5), "nothing else was touched"
    assert position(world, "valve") == 0.0


@HANDS
def test_a_switch_is_flipped_and_keeps_its_position(world_in: WorldIn, robot: str) -> None:
    world = world_in("panel", robot)
    ball = handle(world, "switch")
    go(world, offset(ball, x=-0.045, z=0.05), -1, 25)
    glide(world, offset(ball, x=-0.045, z=-0.012), -1)
    assert position(world, "switch") == pytest.approx(-0.61, abs=1e-5)
    glide(world, offset(ball, x=0.055, z=-0.012), -1, step=0.008)
    assert position(world, "switch") > 0.8 * 0.61
    glide(world, offset(ball, z=-0.012), -1)
    glide(world, offset(ball, z=0.08), -1)
    assert 0.8 * 0.61 < position(world, "switch") < 0.62


@HANDS
def test_a_valve_turns_by_its_pin(world_in: WorldIn, robot: str) -> None:
    world = world_in("panel", robot)
    pin, axis = handle(world, "valve"), np.array([0.10, -0.16, 0.0])
    reach = pin - axis

    def pin_at(angle: float, height: float = 0.0) -> np.ndarray:
        """Return the position of the pin at an angle in rad."""
        c, s = np.cos(angle), np.sin(angle)
        return axis + np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) @ reach + (0.0, 0.0, height)

    behind, turn = 0.45, np.radians(120.0)
    go(world, pin_at(-behind, 0.08), -1, 30)
    glide(world, pin_at(-behind, -0.005), -1)
    assert position(world, "valve") == pytest.approx(0.0, abs=1e-5)
    for angle in np.arange(-behind, turn - 0.2, 0.04):
        go(world, pin_at(angle, -0.005), -1, 1)
    turned = position(world, "valve")
    assert turned > turn
    np.testing.assert_allclose(handle(world, "valve"), pin_at(turned), atol=1e-4)
    glide(world, pin_at(turn - 0.2, 0.10), -1)
    assert position(world, "valve") == pytest.approx(turned, abs=0.02)


@HANDS
def test_a_part_forced_beyond_its_stop_returns(world_in: WorldIn, robot: str) -> None:
    """With Bullet's split impulse the part would remain beyond the stop."""
    world = world_in("panel", robot)
    ball = handle(world, "switch")
    go(world, offset(ball, x=-0.045, z=0.05), -1, 25)
    glide(world, offset(ball, x=-0.045, z=-0.012), -1)
    glide(world, offset(ball, x=0.075, z=-0.012), -1, step=0.008)
    forced = position(world, "switch")
    glide(world, offset(ball, x=0.02, z=-0.012), -1)
    assert position(world, "switch") < 0.62 < 0.65 < forced


@pytest.mark.parametrize("peg", ["square_peg", "round_peg"])
@pytest.mark.parametrize("robot", ["panda", "kuka_gripper"])
def test_a_peg_goes_into_the_socket(world_in: WorldIn, robot: str, peg: str) -> None:
    world = world_in("panel", robot, objects=[peg])
    centre = (0.0, 0.0, world.objects[0].half_height)
    inserted = np.add(world.workspace.areas["socket"].low, centre)
    for x, y in ((-0.12, -0.05), (-0.19, 0.15), (-0.07, -0.15)):
        start = np.add((x, y, 0.0), centre)
        world.reset(np.array([[*start, 0.0, 0.0, 0.0, 1.0]]))
        grip = offset(start, x=0.002, y=0.001, z=0.015)
        go(world, offset(grip, z=0.08), 1, 20)
        glide(world, grip, 1)
        go(world, grip, -1, 8)
        glide(world, offset(grip, z=0.12), -1)
        held = world.state.ee_position[0] - world.state.object_position[0, 0]
        glide(world, offset(inserted + held, z=0.07), -1)
        glide(world, inserted + held, -1, step=0.003)
        go(world, inserted + held, 1, 8)
        glide(world, offset(inserted + held, z=0.1), 1)
        missing = world.state.object_position[0, 0] - inserted
        assert abs(missing[2]) < 0.002, "the peg is on the floor of the hole"
        assert np.abs(missing[:2]).max() < 0.003


def act(world: World, ends: np.ndarray, grippers: Sequence[float]) -> None:
    """Play one step of two arms towards targets `(2, 3)` m."""
    world.step(world.action_towards(ends[0], grippers[0], second_target=ends[1], second_gripper=grippers[1]))


def ends_of(world: World) -> np.ndarray:
    """Return the positions of both end effectors, `(2, 3)` m."""
    return np.stack([world.state.ee_position[0], world.state.second_ee_position[0, 0]])


def glide_both(world: World, ends: np.ndarray, grippers: Sequence[float], step: float = 0.01) -> None:
    start = ends_of(world)
    difference = ends - start
    for share in np.linspace(0.0, 1.0, 1 + int(np.ceil(np.abs(difference).max() / step)))[1:]:
        act(world, start + share * difference, grippers)
    for _ in range(8):
        act(world, ends, grippers)


@pytest.mark.parametrize(("name", "grip"), [("baton", 0.08), ("stick", 0.05)])
def test_one_arm_hands_over_to_the_other(world_in: WorldIn, name: str, grip: float) -> None:
    """Each arm holds an end, `grip` m from the middle."""
    world = world_in("collabtable", "panda_pair", objects=[name])
    half, areas = world.objects[0].half_height, world.workspace.areas
    for start, goal in (
        (areas["object"].low, areas["other_side"].high),
        (areas["object"].high, areas["other_side"].low),
    ):
        start, goal = np.add(start, (0.0, 0.0, half)), np.add(goal, (0.0, 0.0, half))
        world.reset(np.array([[*start, 0.0, 0.0, 0.0, 1.0]]))
        ends = ends_of(world)

        def move(arm: int, position: np.ndarray, *grippers: float, ends: np.ndarray = ends) -> None:
            ends[arm] = position
            glide_both(world, ends, grippers)

        def lies_at(position: np.ndarray) -> bool:
            return bool(np.abs(world.state.object_position[0, 0] - position).max() < 0.02)

        first, second = offset(start, x=-grip), offset(goal, x=grip)
        move(0, offset(first, z=0.1), 1, 1)
        move(0, first, 1, 1)
        move(0, first, -1, 1)
        move(0, offset(first, z=0.2), -1, 1)
        above_middle = np.array((-grip, 0.0, 0.23))
        move(0, above_middle, -1, 1)
        middle = world.state.object_position[0, 0].copy()
        assert lies_at(np.array((0.0, 0.0, 0.23)))
        other_end = 2 * middle - above_middle
        move(1, offset(other_end, z=0.1), -1, 1)
        move(1, other_end, -1, 1)
        move(1, other_end, -1, -1)
        move(0, above_middle, 1, -1)
        move(0, offset(above_middle, z=0.1), 1, -1)
        move(0, offset(above_middle, x=-0.2, z=0.1), 1, -1)
        assert lies_at(middle), "only the second arm holds it"
        move(1, offset(second, z=0.2), 1, -1)
        move(1, offset(second, z=0.002), 1, -1)
        move(1, second, 1, 1)
        move(1, offset(second, z=0.1), 1, 1)
        assert lies_at(goal)
