"""The scaffolded node of ROS 2 drives an arm in PyBullet as the policy does, and stops when it must."""

from __future__ import annotations

import contextlib
import itertools
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mygym
from mygym.cli.main import main
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.exporting.deployment import DeployedPolicy
from mygym.exporting.export import Export, describe_observation
from mygym.exporting.exported_policy import GOALS
from tests.components import slow_except
from tests.exporting import ros2_stand_in
from tests.exporting.test_export import save_run
from tests.exporting.test_playing import edited


class Robot:
    """An arm in PyBullet that follows trajectories, and publishes its joint states."""

    def __init__(self, env: RobotEnv, node: Any) -> None:
        self.env, self.node = env, node
        self.lower, self.upper = (
            np.array([getattr(joint, key) for joint in env.robot.joints]) for key in ("lower", "upper")
        )

    def publish(self) -> None:
        state = self.env.world.state
        position, velocity = state.joint_position[0].tolist(), state.joint_velocity[0].tolist()
        names = [joint.name for joint in self.env.robot.joints]
        self.node.receive("joint_states", name=["wheel", *names], position=[0.0, *position], velocity=[0.0, *velocity])

    def follow(self, target: Any) -> None:
        self.env.step(np.clip(2 * (target - self.lower) / (self.upper - self.lower) - 1, -1, 1))


@pytest.fixture
def node(exported: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node of the scaffolded file, enabled, with a goal."""
    return new_node(exported.path, tmp_path, monkeypatch)


def new_node(policy: Path, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    """Scaffold a package in a folder, and return its node."""
    patch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main(["new", "ros2-node", "reach_arm", "--policy", str(policy)])
    assert not end.value.code
    ros2_stand_in.install(patch)
    module = runpy.run_path("ros2/reach_arm/reach_arm/node.py")
    made = module["PolicyNode"]()
    made.receive("~/enable", data=True)
    made.receive("~/desired_goal", data=[0.1, 0.1, 0.3])
    return made


@pytest.fixture(scope="module")
def arm() -> Iterator[RobotEnv]:
    with RobotEnv("reach", control="joint_position") as env:
        env.reset(seed=3)
        yield env


def targets(node: Any) -> list[Any]:
    """Return the joint positions of all published trajectories."""
    return [np.array(message.points[0].positions) for message in node.published["joint_trajectory"]]


def test_the_package_has_all_files_that_ros2_needs(node: Any) -> None:
    files = {str(path.relative_to("ros2/reach_arm")) for path in Path("ros2").rglob("*") if path.is_file()}
    assert files == {
        "package.xml",
        "setup.cfg",
        "setup.py",
        "resource/reach_arm",
        "reach_arm/__init__.py",
        "reach_arm/node.py",
    }
    assert "desired_goal: 3 numbers" in Path("ros2/reach_arm/reach_arm/node.py").read_text()
    assert "script_dir=$base/lib/reach_arm" in Path("ros2/reach_arm/setup.cfg").read_text()
    assert node.timers[0][0] == pytest.approx(0.04)


def test_it_brings_the_arm_to_the_goal_within_the_limits(node: Any, arm: RobotEnv) -> None:
    robot = Robot(arm, node)
    node.speed_scale = 1.0
    goal = arm.world.state.ee_position[0] + [0.1, 0.1, -0.1]
    node.receive("~/desired_goal", data=goal.tolist())
    distances = []
    for _ in range(20):
        robot.publish()
        node.spin_once()
        robot.follow(targets(node)[-1])
        distances.append(float(np.linalg.norm(arm.world.state.ee_position[0] - goal)))
    assert distances[0] > 0.12
    assert min(distances) < 0.5 * distances[0]
    assert len(targets(node)) == 20
    message = node.published["joint_trajectory"][0]
    assert (message.points[0].time_from_start.sec, message.points[0].time_from_start.nanosec) == (0, 40_000_000)
    assert message.joint_names == [joint.name for joint in arm.robot.joints]


def test_its_speed_is_limited(node: Any, arm: RobotEnv) -> None:
    Robot(arm, node).publish()
    for _ in range(2):
        node.spin_once()
    largest = 0.2 * node.policy.velocity * node.policy.period
    assert (np.abs(targets(node)[-1] - node.position) <= largest + 1e-9).all()


def test_it_holds_the_arm_when_a_measurement_is_stale(node: Any, arm: RobotEnv) -> None:
    node.spin_once()
    assert targets(node) == []  # no joint states so far
    node.stale_after = 0.13  # s
    Robot(arm, node).publish()
    for _ in range(6):
        node.spin_once()
    assert node.warnings == ["stopped: no recent joint_states"]
    *acting, held = targets(node)
    assert len(acting) == 3
    np.testing.assert_allclose(held, arm.world.state.joint_position[0])
    Robot(arm, node).publish()
    node.spin_once()
    assert len(targets(node)) == 5


def test_it_acts_only_while_enabled(node: Any, arm: RobotEnv) -> None:
    Robot(arm, node).publish()
    node.spin_once()
    node.receive("~/enable", data=False)
    for _ in range(2):
        node.spin_once()
    assert len(targets(node)) == 2  # an action, then the arm holds
    assert node.warnings == ["stopped: not enabled"]


def test_it_stops_at_a_number_that_is_not_finite(node: Any, arm: RobotEnv) -> None:
    robot = Robot(arm, node)
    robot.publish()
    node.spin_once()
    node.receive("~/desired_goal", data=[float("nan"), 0.0, 0.0])
    node.spin_once()
    assert node.warnings == ["stopped: desired_goal is not finite"]
    node.receive("~/desired_goal", data=[0.0])
    robot.publish()
    node.spin_once()
    assert len(targets(node)) == 2


def test_a_refused_measurement_stops_the_arm_and_not_the_node(
    node: Any, arm: RobotEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    Robot(arm, node).publish()
    node.spin_once()

    def refuse(*arguments: Any) -> None:
        raise ConfigError("observation: has the shape (4,)")

    monkeypatch.setattr(node.policy.policy, "predict", refuse)
    node.spin_once()
    assert node.warnings == ["stopped: observation: has the shape (4,)"]
    np.testing.assert_allclose(targets(node)[-1], arm.world.state.joint_position[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"joint_position": np.zeros(1)}, r"joint_position has the shape \(1,\), needs \(7,\)"),
        ({"joint_velocity": np.zeros(1)}, r"joint_velocity has the shape \(1,\), needs \(7,\)"),
        ({"joint_position": np.full(7, -95.0)}, "panda_joint.* rad beyond its limit; are these degrees"),
        ({"arrays": {"goal": np.zeros(3)}}, "desired_goal: missing; needed are desired_goal"),
        ({"arrays": {"desired_goal": np.zeros(2)}}, r"desired_goal has the shape \(2,\), needs \(3,\)"),
    ],
)
def test_measurements_of_a_wrong_form_are_refused(change: dict[str, Any], words: str, exported: Export) -> None:
    policy = DeployedPolicy(exported.path)
    measured: dict[str, Any] = {"joint_position": policy.home, "joint_velocity": np.zeros(7)}
    measured["arrays"] = {"desired_goal": np.zeros(3)}
    policy.act(**measured)
    with pytest.raises(ValueError, match=words):
        policy.act(**{**measured, **change})


def test_observations_and_commands_are_those_of_the_environment(exported: Export) -> None:
    policy = DeployedPolicy(exported.path)
    assert policy.needs == {"desired_goal": 3}
    with RobotEnv("reach") as env:
        for seed in range(3):
            observation, _ = env.reset(seed=seed)
            state, over = env.world.state, False
            policy.reset(state.joint_position[0])
            while not over:
                arrays = {"desired_goal": observation["desired_goal"].astype(float)}
                seen = policy._observation(state.joint_position[0], state.joint_velocity[0], arrays)
                for name, values in observation.items():
                    np.testing.assert_allclose(seen[name], values, atol=1e-5)
                command = policy.act(state.joint_position[0].copy(), state.joint_velocity[0].copy(), arrays)
                observation, _, terminated, truncated, _ = env.step(policy.policy.predict(observation)[0])
                over = terminated or truncated
                np.testing.assert_allclose(command.values, env.world.controller.joint_command, atol=1e-3)


CONTROLLERS = ("ee_delta", "ee_absolute", "joint_delta", "joint_position", "joint_velocity")


@pytest.mark.parametrize(
    ("control", "repeat"),
    slow_except(
        itertools.product(CONTROLLERS, (1, 3)),
        {("ee_delta", 3), ("joint_delta", 1), ("joint_velocity", 3)}.__contains__,
    ),
)
def test_commands_of_all_control_steps_are_those_of_the_world(
    control: str, repeat: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"algo": "ppo", "control": {"name": control, "action_repeat": repeat}}
    large_actions = {"algo_params": {"policy_kwargs": {"ortho_init": False}}}
    file = mygym.export(save_run(tmp_path, config | large_actions)).path
    policy, steps = DeployedPolicy(file), 0
    with contextlib.closing(mygym.make_env(config)) as env:
        state, advance = env.world.state, env.world._advance

        def compare(command: Any, grippers: Any) -> None:
            nonlocal steps
            steps += 1
            arrays = {"desired_goal": observation["desired_goal"].astype(float)}
            deployed = policy.act(state.joint_position[0].copy(), state.joint_velocity[0].copy(), arrays)
            np.testing.assert_allclose(deployed.values, command, atol=1e-3)
            advance(command, grippers)

        observation, _ = env.reset(seed=0)
        policy.reset(state.joint_position[0])
        monkeypatch.setattr(env.world, "_advance", compare)
        for _ in range(5):
            observation, *_ = env.step(policy.policy.predict(observation)[0])
        assert steps == 5 * repeat
        assert policy.period == pytest.approx(env.world.dt)
    goals = [{"desired_goal": np.array(goal)} for goal in ([0.3, 0.3, 0.3], [-0.3, 0.1, 0.1])]
    commands = []
    for goal in goals:  # a reset ends an action
        policy.reset(policy.home)
        commands.append(policy.act(policy.home, np.zeros_like(policy.home), goal).values)
    assert not np.allclose(*commands, atol=1e-4)


def test_shared_spaces_have_the_numbers_of_goals_in_their_places(tmp_path: Path) -> None:
    config = {"algo": "ppo", "task": "push", "spaces": "shared"}
    policy = DeployedPolicy(mygym.export(save_run(tmp_path, config)).path)
    assert (policy.needs["achieved_goal"], policy.needs["desired_goal"]) == (3, 3)
    with contextlib.closing(mygym.make_env(config)) as env:
        observation, _ = env.reset(seed=0)
        position, velocity = env.world.state.joint_position[0], env.world.state.joint_velocity[0]
        policy.reset(position)
        arrays = {name: observation["observation"][columns] for name, columns in env.components.items()}
        (section,) = env.builder.goal_space.sections
        for name in GOALS:
            arrays[name] = observation[name][section.first : section.first + section.size]
        needed = {name: arrays[name].astype(float) for name in policy.needs}
        seen = policy._observation(position, velocity, needed)
        for name, values in observation.items():
            np.testing.assert_allclose(seen[name], values, atol=1e-5)
        assert np.isfinite(policy.act(position.copy(), velocity.copy(), needed).values).all()


def observed(**settings: Any) -> Any:
    """Return a change of a description: the observations of an environment with other settings."""

    def change(described: Any) -> None:
        with RobotEnv("reach", **settings) as env:
            described["observation"] = describe_observation(env, env)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda described: described["robot"]["arms"].append({}), "has several arms"),
        (lambda described: described["control"].update(mode="torque"), "commands torque"),
        (lambda described: described["action"].update(values=[3, 3, 3]), "has discrete actions"),
        (observed(observations=["image"]), "has images"),
        (observed(observations=["image", "ee_position"], image_params={"goal": "vector"}), "has images"),
        (observed(goal_env=False), "has flat observations with goals"),
        (
            lambda described: described["observation"]["observation"]["components"].append(
                {"name": "variant", "slice": [9, 11]}
            ),
            "has the code of a task",
        ),
    ],
)
def test_policies_that_a_node_cannot_run_are_refused(change: Any, why: str, exported: Export, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"policy: .* {why}; allowed: a policy of a single arm"):
        DeployedPolicy(edited(exported, change, tmp_path / "a.onnx"))


def test_a_binary_gripper_is_open_or_closed(tmp_path: Path) -> None:
    config = {"algo": "ppo", "task": "pick_and_place", "control": {"gripper": "binary"}}
    policy, rng = DeployedPolicy(mygym.export(save_run(tmp_path, config)).path), np.random.default_rng(0)
    for _ in range(5):
        arrays = {name: rng.normal(size=size) for name, size in policy.needs.items()}
        assert policy.act(policy.home, np.zeros_like(policy.home), arrays).gripper in (0.0, policy.width)


@pytest.mark.slow
def test_it_commands_velocities_with_a_controller_of_velocities(
    arm: RobotEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = mygym.export(save_run(tmp_path, {"algo": "ppo", "control": "joint_velocity"})).path
    node = new_node(file, tmp_path, monkeypatch)
    Robot(arm, node).publish()
    node.spin_once()
    node.receive("~/enable", data=False)
    node.spin_once()
    assert targets(node) == []
    acting, stopped = (np.array(message.data) for message in node.published["velocity_commands"])
    assert np.abs(acting).max() > 0
    assert (np.abs(acting) <= 0.2 * node.policy.velocity + 1e-9).all()
    assert not stopped.any()
