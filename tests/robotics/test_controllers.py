"""Controllers track targets, respect bounds, do not wind up, and convert targets to actions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.errors import RegistryError
from mygym.registry import registry
from mygym.robotics.controllers import EE_LAG, EndEffectorController, EndEffectorDelta, register_controller
from tests.components import ROBOTS, ROBOTS_AND_CONTROLS_QUICKLY, small
from tests.worlds import MakeWorld, act_first, first_home, go, with_first

NONE = np.zeros((0, 7))
CONTROLLERS = registry("controller").names()


@pytest.mark.parametrize(("robot", "control"), ROBOTS_AND_CONTROLS_QUICKLY)
def test_tracks_a_circle(make_world: MakeWorld, robot: str, control: str) -> None:
    """A circle of 10 cm radius at 0.2 m/s with changing height: at most 2 cm behind, and 9 mm beside the path."""
    world = make_world(robot, objects=0, control=control, gripper=False)
    times = np.arange(0, 80) * world.dt * 2.0
    path = np.stack([0.1 * np.cos(times), 0.1 * np.sin(times), 0.15 + 0.05 * np.sin(2 * times)], axis=1)
    go(world, path[0], steps=25)
    lag, deviation = [], []
    for point in path:
        go(world, point, steps=1)
        lag.append(np.linalg.norm(world.state.ee_position[0] - point))
        deviation.append(np.linalg.norm(path - world.state.ee_position[0], axis=1).min())
    assert max(lag) < 0.02
    assert max(deviation[5:]) < 0.009  # points of the path are up to 1.8 cm apart


@pytest.mark.parametrize(("robot", "control"), ROBOTS_AND_CONTROLS_QUICKLY)
def test_action_towards_arrives(make_world: MakeWorld, robot: str, control: str) -> None:
    world = make_world(robot, objects=0, control=control)
    low, high = np.array(world.workspace.areas["reach"].low), np.array(world.workspace.areas["reach"].high)
    for corner in np.stack(np.meshgrid([0, 1], [0, 1], [0, 1]), -1).reshape(-1, 3)[
        :: (1 if control == "ee_delta" else 3)
    ]:
        target = low + corner * (high - low)
        go(world, target, steps=35)
        assert np.linalg.norm(world.state.ee_position[0] - target) < 0.003
        action = world.action_towards(target)
        assert action.shape == (world.action_size,)
        assert np.abs(action).max() <= 1.0
        down = 2 * (world.state.ee_orientation[0, 0] ** 2 + world.state.ee_orientation[0, 1] ** 2) - 1
        assert down > 0.999, "the tool points down"


@pytest.mark.parametrize("robot", ROBOTS)
def test_step_of_five_centimetres_does_not_overshoot(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot, objects=0, gripper=False)
    for action in np.vstack([np.eye(3), -np.eye(3)]):
        world.reset(NONE)
        start = world.state.ee_position[0].copy()
        errors = []
        for step in range(12):
            act_first(world, action if step == 0 else np.zeros(3))
            errors.append(float((world.state.ee_position[0] - start - 0.05 * action) @ action))
        assert max(errors) < 0.008, "overshoot"
        assert abs(errors[5]) < 0.004
        assert abs(errors[-1]) < 0.001


@pytest.mark.parametrize("robot", ROBOTS)
def test_full_speed_is_a_straight_line(make_world: MakeWorld, robot: str) -> None:
    """Joints that reach their speed limits at different times would bend the path by 12 cm."""
    world = make_world(robot, objects=0, gripper=False)
    ends = np.array([[-0.15, -0.15, 0.2], [0.15, 0.15, 0.2]])
    begin = world.kinematics.inverse(first_home(world), ends[0], world.kinematics.chain.rotation)
    world.reset(NONE, with_first(world, begin))
    along = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    for _ in range(25):
        go(world, ends[1], steps=1)
        offset = world.state.ee_position[0] - ends[0]
        assert np.linalg.norm(offset - (offset @ along) * along) < 0.045
    assert np.linalg.norm(world.state.ee_position[0] - ends[1]) < 0.005


def test_command_does_not_wind_up(make_world: MakeWorld) -> None:
    world = make_world("panda", objects=0, gripper=False)
    world.reset(NONE)
    low, high = np.array(world.workspace.tool_bounds.low), np.array(world.workspace.tool_bounds.high)
    for action in ((0.0, 0.0, -1.0), (1.0, 1.0, 1.0)):
        for _ in range(30):
            world.step(np.array(action))
            command = world.controller.ee_command  # type: ignore[attr-defined]
            assert (command >= low).all()
            assert (command <= high).all()
            assert np.abs(command - world.state.ee_position[0]).max() < EE_LAG + 0.1


def test_commands_of_joints_do_not_wind_up(make_world: MakeWorld) -> None:
    """The command of a joint that is blocked stays within the lag of its measured position."""
    world = make_world("panda", objects=0, control={"name": "joint_delta", "lag": 0.2}, gripper=False)
    world.reset(NONE)
    blocked, ee_position = first_home(world), world.state.ee_position[0]
    for direction in (1.0, -1.0):
        for _ in range(10):
            command = world.controller.command(np.full(len(blocked), direction), blocked, ee_position)
        limits = world.kinematics.chain.lower, world.kinematics.chain.upper
        np.testing.assert_allclose(command, np.clip(blocked + 0.2 * direction, *limits))


def test_joint_position_is_absolute_and_spans_the_limits(make_world: MakeWorld) -> None:
    world = make_world("panda", objects=0, control="joints", gripper=False)
    chain = world.kinematics.chain
    for _ in range(60):
        world.step((world.home + 0.1 - (chain.upper + chain.lower) / 2) / ((chain.upper - chain.lower) / 2))
    np.testing.assert_allclose(world.state.joint_position[0], world.home + 0.1, atol=2e-3)


def test_joint_velocities_end_at_the_position_limits(make_world: MakeWorld) -> None:
    """A step of 0.04 s."""
    world = make_world("panda", objects=0, control="joint_velocity", gripper=False)
    chain, ee_position = world.kinematics.chain, world.state.ee_position[0]
    ones = np.ones(len(chain.upper))
    for direction, limit in ((1.0, chain.upper), (-1.0, chain.lower)):
        command = world.controller.command(direction * ones, limit - 0.001 * direction, ee_position)
        np.testing.assert_allclose(command, direction * ones * 0.001 / 0.04)


def test_gripper_opens_and_closes(make_world: MakeWorld) -> None:
    world = make_world("panda", objects=0)
    for command, width in ((-1.0, 0.0), (1.0, 0.08), (0.0, 0.04)):
        go(world, (0.0, 0.0, 0.2), command, 20)
        assert world.state.gripper_width[0] == pytest.approx(width, abs=5e-4)


def test_action_size_and_names(make_world: MakeWorld) -> None:
    assert make_world("panda", objects=0).control_names == ("ee_x", "ee_y", "ee_z", "gripper")
    assert make_world("panda", objects=0, gripper=False).action_size == 3
    assert make_world("kuka", objects=0, control="joint_delta").action_size == 7
    assert make_world("panda", gripper=False).state.finger_contact.shape == (1, 1, 0)


def test_aliases_and_unknown_names(make_world: MakeWorld) -> None:
    for alias, name in (("step", "ee_delta"), ("absolute", "ee_absolute"), ("joints", "joint_position")):
        assert type(make_world("kuka", objects=0, control=alias).controller) is registry("controller").get(name).load()
    with pytest.raises(RegistryError, match="did you mean 'ee_delta'"):
        make_world("kuka", control="ee_dleta")


# registration ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", CONTROLLERS)
def test_a_controller_that_remembers_its_command_has_an_offset(make_world: MakeWorld, control: str) -> None:
    controller = make_world("panda", objects=0, control=control).controller
    assert controller.remembers_command == (controller.command_offset_size > 0)


def test_a_registered_controller_has_its_name_and_aliases() -> None:
    @register_controller("calm", aliases=("slow",))
    class Calm(EndEffectorDelta):
        """Like `ee_delta`."""

    assert registry("controller").get("slow").load() is Calm
    assert registry("controller").get("calm").help == "Like `ee_delta`."
    with pytest.raises(RegistryError, match="'slow'"):
        register_controller("slower", aliases=("slow",))(EndEffectorDelta)


@pytest.mark.parametrize("method", ["command", "command_offset", "action_towards"])
@pytest.mark.parametrize(
    "wrong", [lambda result: result[:-1], lambda result: result * np.nan, list, lambda result: None]
)
def test_a_result_of_another_form_is_refused_with_its_line(
    method: str, wrong: Callable[[Any], Any], make_world: MakeWorld
) -> None:
    def changed(self: Any, *args: Any) -> Any:
        return wrong(getattr(EndEffectorDelta, method)(self, *args))

    register_controller("odd")(type("Odd", (EndEffectorDelta,), {method: changed}))
    world = make_world("panda", objects=0, control="odd")
    with pytest.raises(RegistryError, match=rf"^Odd\.{method}: result: .*test_controllers\.py:\d+.*\(\d,\)"):
        world.step(world.action_towards(np.array([0.5, 0.1, 0.3])))


@pytest.mark.parametrize("wrong", [EndEffectorController, dict, len])
def test_only_complete_controllers_are_registered(wrong: object) -> None:
    with pytest.raises(RegistryError, match="a subclass of Controller"):
        register_controller("wrong")(wrong)


def test_listing_controllers_imports_neither_torch_nor_pybullet(
    python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    code = """
import sys
from mygym.registry import registry
assert len([entry.help for entry in registry("controller")]) >= 6
assert not {"torch", "pybullet"} & set(sys.modules)
"""
    result = python("-c", code)
    assert result.returncode == 0, result.stderr


# a custom controller: envs/smooth.py ----------------------------------------------------------------------------------


def test_the_custom_controller_smooths_its_actions(make_world: MakeWorld) -> None:
    world = make_world("panda", objects=0, control="ee_delta_smooth", gripper=False)
    start = world.controller.ee_command.copy()  # type: ignore[attr-defined]
    moved = []
    for action in (1.0, 1.0, 0.0, 0.0):
        world.step(np.array([action, 0.0, 0.0]))
        moved.append(world.controller.ee_command[0] - start[0])  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.diff([0.0, *moved]), [0.025, 0.0375, 0.01875, 0.009375], atol=1e-12)
    np.testing.assert_allclose(world.state.command_offset[0, 3:], [0.009375, 0.0, 0.0], atol=1e-12)


def test_the_custom_controller_trains_and_its_expert_solves_tasks(tmp_path: Path) -> None:
    config = {"task": "push", "control": "ee_delta_smooth"}
    assert mygym.evaluate(policy="oracle", config=config, episodes=4).success_rate == 1
    with mygym.make_env(config) as env:
        assert env.observation_space["observation"].shape == env.reset(seed=0)[0]["observation"].shape
        assert "command_offset" in env.components
    brief: dict[str, Any] = {"video": {"episodes": 0}, "tensorboard": False, "n_envs": 1}
    brief |= {"eval": {"episodes": 1, "final_episodes": 1}, "task_params": {"horizon": 20}}
    networks = small("ppo") | {"n_steps": 32}
    trained = mygym.train(
        {**config, **brief, "algo": "ppo", "steps": 64, "logdir": str(tmp_path), "algo_params": networks}
    )
    assert trained.path.exists()
