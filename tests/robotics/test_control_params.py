"""Parameters of `control`: of every controller, of its class, of custom controllers; in configs and environments."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

import gymnasium
import numpy as np
import pytest
from pydantic import Field

from mygym.config import Layer, config_hash, resolve
from mygym.config.parameter_checks import controller_parameters
from mygym.envs.batch_env import BatchEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, MygymError
from mygym.planning.plan import plan_from_python
from mygym.planning.resolve import resolve_config
from mygym.registry import registry
from mygym.robotics.controllers import EndEffectorDelta, find_controller, register_controller
from mygym.training.env_factory import make_vec_env
from tests.components import CONTROLS
from tests.worlds import MakeWorld, go

NONE = np.zeros((0, 7))

COMMON = {"action_repeat": 1, "max_force": None, "max_velocity": None, "gripper": "continuous"}
"""Parameters of every controller, with their defaults."""


def solves(env: RobotEnv, seed: int) -> bool:
    """Return whether the expert solves an episode."""
    env.reset(seed=seed)
    while True:
        _, _, terminated, truncated, info = env.step(env.expert_action())
        if terminated or truncated:
            return bool(info["is_success"])


# config ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", CONTROLS)
def test_a_name_and_a_mapping_of_defaults_are_the_same_setting(control: str) -> None:
    kind = registry("controller").get(control).load()
    defaults = {name: parameter.default for name, parameter in controller_parameters(kind).items()}
    plain = resolve_config(overrides={"control": control}).values()
    assert plain["control"] == control
    for mapping in ({"name": control}, {"name": control, "action_repeat": 1, "max_force": None, **defaults}):
        assert resolve_config(overrides={"control": mapping}).values() == plain
    other = resolve_config(overrides={"control": {"name": control, "action_repeat": 2}}).values()
    complete = {"name": control, **COMMON, "action_repeat": 2, **defaults}
    assert other["control"] == complete
    assert config_hash(other) != config_hash(plain)
    assert resolve_config(other).values() == other


def test_parameters_without_a_name_are_those_of_the_named_controller() -> None:
    file, flags = {"control": {"name": "joint_delta", "lag": 0.2}}, {"control": {"step": 0.04}}
    resolved = resolve_config(file, flags)
    assert resolved.values()["control"] == {"name": "joint_delta", "step": 0.04, "lag": 0.2} | COMMON
    origins = {key: resolved.origins[f"control.{key}"] for key in ("name", "lag", "step", "action_repeat")}
    assert origins == {"name": "file", "lag": "file", "step": "flag", "action_repeat": "default"}
    assert resolve_config({"control": "joint_delta"}, flags).values()["control"]["name"] == "joint_delta"
    assert resolve_config({}, flags).values()["control"]["name"] == "ee_delta"
    assert resolve_config(file, {"control": "ee_delta"}).values()["control"] == "ee_delta"
    assert resolve_config(file, {"control": {"name": "joint_torque"}}).values()["control"] == "joint_torque"


MISTAKES: list[tuple[Any, list[str]]] = [
    ({"stp": 1}, ["control.stp", "is not a parameter of ee_delta", "action_repeat", "did you mean 'step'"]),
    ({"step": 0}, ["control.step", "0", "greater than 0"]),
    ({"step": "far"}, ["control.step", "'far'", "a number"]),
    ({"name": "joint_torque", "step": 0.1}, ["control.step", "joint_torque", "max_force"]),
    ({"action_repeat": 0}, ["control.action_repeat", "0", "greater than or equal to 1"]),
    ({"action_repeat": 1.5}, ["control.action_repeat", "1.5", "a whole number"]),
    ({"max_force": -1}, ["control.max_force", "-1", "greater than 0"]),
    ({"name": "ee_dleta"}, ["control", "'ee_dleta'", "did you mean 'ee_delta'"]),
    (7, ["control", "7", "text, or a mapping"]),
]


@pytest.mark.parametrize(("control", "words"), MISTAKES, ids=str)
def test_a_mistake_is_one_message(control: Any, words: list[str]) -> None:
    for refuse in (lambda: resolve_config({"control": control}), lambda: RobotEnv(control=control)):
        with pytest.raises(MygymError) as error:
            refuse()
        assert all(word in str(error.value) for word in words), str(error.value)


# behaviour ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("repeat", "rate"), [(1, 25), (2, 12.5), (5, 5)])
def test_films_are_as_fast_as_the_episodes(repeat: int, rate: float) -> None:
    with RobotEnv("reach", control={"action_repeat": repeat}) as env:
        assert env.metadata["render_fps"] == rate


@pytest.mark.parametrize("control", CONTROLS)
def test_the_expert_reaches_with_repeated_actions(control: str) -> None:
    precise = {"horizon": 60, "tolerance": 0.01}  # an expert that ignores the repetition overshoots
    with RobotEnv("reach", control={"name": control, "action_repeat": 3}, task_params=precise) as env:
        assert [solves(env, seed) for seed in range(3)] == [True] * 3


def test_an_action_is_repeated_until_the_episode_ends() -> None:
    with RobotEnv("push", control={"action_repeat": 4}, task_params={"horizon": 6}) as env, RobotEnv("push") as plain:
        assert env.metadata["render_fps"] == 6.25
        env.reset(seed=0)
        plain.reset(seed=0)
        action = np.array([0.2, 0.1, 0.3], np.float32)
        *_, truncated, info = env.step(action)
        for _ in range(4):
            plain.step(action)
        assert (info["elapsed_steps"], truncated) == (4, False)
        assert np.array_equal(env.world.state.joint_position, plain.world.state.joint_position)
        *_, truncated, info = env.step(action)
        assert (info["elapsed_steps"], truncated) == (6, True)
        state = env.state_dict()
        with RobotEnv("push", control={"action_repeat": 4}, task_params={"horizon": 6}) as other:
            assert np.array_equal(other.load_state_dict(state)["observation"], state["observation"]["observation"])
            assert other.elapsed_steps == 6


def test_the_lead_in_does_not_count_as_steps() -> None:
    with RobotEnv("push", control={"action_repeat": 2}, task_params={"stages_done": 1}) as env:
        assert env.reset(seed=0)[1]["elapsed_steps"] == 0
        assert env.progress.stage[0] == 1


@pytest.mark.parametrize("control", ["ee_delta", "ee_absolute"])
def test_step_and_lag_are_distances(make_world: MakeWorld, control: str) -> None:
    world = make_world(objects=0, control={"name": control, "step": 0.02, "lag": 0.01}, gripper=False)
    world.reset(NONE)
    start = world.state.ee_position[0].copy()
    target = start + np.array([0.1, 0.0, 0.0])
    world.step(world.action_towards(target))
    assert world.controller.ee_command[0] - start[0] == pytest.approx(0.01)  # type: ignore[attr-defined]
    go(world, target, steps=20)
    np.testing.assert_allclose(world.state.ee_position[0], target, atol=2e-3)


def test_no_joint_is_faster_than_max_velocity(make_world: MakeWorld) -> None:
    fastest = []
    for limit in (None, 0.4):
        control = {"name": "joint_velocity", "max_velocity": limit}
        world = make_world(objects=0, control=control, gripper=False)
        world.reset(NONE)
        speeds = []
        for _ in range(4):
            world.step(np.array([1.0, 0, 0, 0, 0, 0, 0]))
            speeds.append(float(np.abs(world.state.joint_velocity).max()))
        fastest.append(max(speeds))
    assert fastest[0] > 1
    assert fastest[1] == pytest.approx(0.4, rel=0.1)


def test_max_force_limits_both_arms(make_world: MakeWorld) -> None:
    for robot in ("panda", "panda_pair"):
        world = make_world(robot, objects=0, control={"name": "joint_torque", "max_force": 5}, gripper=False)
        efforts = [joint.effort for arm in world.robot.arms for joint in arm.joints]
        assert max(efforts) == 5
        assert (world.controllers[-1].limits.effort <= 5).all()


GRIPPER_COMMANDS = ((-0.02, 0.0), (0.02, 1.0), (0.0, 0.0))
"""Actions of a binary gripper, and its commands: 0 is closed, 1 open."""


@pytest.mark.parametrize("engine", ["pybullet", "mujoco"])
@pytest.mark.parametrize("robot", ["panda", "panda_pair"])
def test_a_binary_gripper_is_open_or_closed(robot: str, engine: str) -> None:
    arguments = {"robot": robot, "engine": engine, "control": {"gripper": "binary"}}
    with RobotEnv("pick_and_place", **arguments) as env:
        assert env.binary_actions == {"panda": 1, "panda_pair": 2}[robot]
        env.reset(seed=0)
        for action, command in GRIPPER_COMMANDS:
            env.step(np.full(env.action_space.shape, action))
            assert env.world.state.gripper_command[0] == command


def test_binary_grippers_of_a_batch_are_open_or_closed() -> None:
    envs = BatchEnv({"task": "pick_and_place", "engine": "mujoco", "control": {"gripper": "binary"}}, 2)
    envs.reset(range(2))
    for action, command in GRIPPER_COMMANDS:
        envs.step(np.array([[0.0] * 3 + [action], [0.0] * 3 + [-action]]))
        assert envs.worlds.state.gripper_command.tolist() == [command, float(action < 0)]
    with pytest.raises(ConfigError, match=r"control\.gripper: 'binary'.*continuous"):
        BatchEnv({"task": "pick_and_place", "engine": "fused", "control": {"gripper": "binary"}}, 2)


@pytest.mark.parametrize("control", ["binary", "continuous"])
@pytest.mark.parametrize("engine", ["pybullet", "mujoco"])
@pytest.mark.parametrize("tasks", [1, 2])
def test_training_environments_tell_their_binary_actions(tasks: int, engine: str, control: str) -> None:
    config: dict[str, Any] = {
        "algo": "ppo",
        "task": "pick_and_place",
        "engine": engine,
        "control": {"gripper": control},
    }
    if tasks > 1:
        config |= {"strategy": "multitask", "strategy_params": {"tasks": ["pick_and_place", "stack"]}}
    with ExitStack() as stack:
        envs = make_vec_env(plan_from_python(config), stack, only_spaces=True)
        assert envs.get_attr("binary_actions", indices=[0]) == [int(control == "binary")]


def test_gymnasium_takes_parameters_and_copies_keep_them() -> None:
    import copy

    env = gymnasium.make("mygym/Reach-v0", control={"name": "ee_delta", "step": 0.03, "action_repeat": 2})
    twin = copy.deepcopy(env.unwrapped)
    expected = {"name": "ee_delta", **COMMON, "action_repeat": 2}
    assert env.unwrapped.control == twin.control == expected | {"step": 0.03, "lag": 0.1}  # type: ignore[attr-defined]
    env.close()
    twin.close()  # type: ignore[attr-defined]


# a custom controller --------------------------------------------------------------------------------------------------


def test_a_custom_controller_has_its_parameters() -> None:
    @register_controller("gentle")
    class Gentle(EndEffectorDelta):
        """Like `ee_delta`.

        Args:
            share: Share of each action.
        """

        def __init__(self, *args: Any, share: Annotated[float, Field(gt=0, le=1)] = 1.0, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.share = share
            if share == 0.25:
                raise ValueError("not a quarter")

    assert find_controller({"name": "gentle", "share": 0.5}).params == {"share": 0.5, "step": 0.05, "lag": 0.1}
    with RobotEnv(control={"name": "gentle", "share": 0.5}) as env:
        assert env.world.controller.share == 0.5  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"control\.share: 2 .*allowed: .*1"):
        resolve_config({"control": {"name": "gentle", "share": 2}})
    with pytest.raises(ConfigError, match="control: gentle refuses its parameters:"):
        RobotEnv(control={"name": "gentle", "share": 0.25})
    assert resolve([Layer("file", {"control": {"name": "gentle", "share": 0.5}})]).config.control.params == {
        "share": 0.5
    }
