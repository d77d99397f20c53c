"""The fused engine: the arm against Bullet and against the kinematics of a single arm; numpy against torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from mygym.checks.parity import compare_engines
from mygym.engines.arrays import Rows, to_numpy, uniform
from mygym.engines.fused.arm import BatchArm, BatchMotors, MotorModel, finger_shapes, fitted_accelerations
from mygym.engines.kinematics import BatchKinematics, quaternions, solve_positive
from mygym.envs import starts
from mygym.envs.batch_env import BatchEnv
from mygym.envs.fused_worlds import arm_model
from mygym.envs.placement import START_MARGIN
from mygym.envs.robot_env import RobotEnv
from mygym.robotics.controllers.end_effector import IK_ITERATIONS, IK_TOLERANCE
from mygym.robotics.kinematics import Kinematics
from mygym.robotics.transforms import matrix_to_quaternion
from tests.components import REWARDS, slow_except
from tests.engines.fused import LIBRARIES, arrays_of

BOUNDS = {"panda": 11.0, "kuka": 3.0, "kuka_gripper": 4.0, "xarm6": 9.0, "xarm6_gripper": 11.0}
"""mm: bound of the mean tool error over random actions at full scale."""


@pytest.fixture(scope="module")
def panda() -> Iterator[RobotEnv]:
    env = RobotEnv("reach")
    yield env
    env.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_kinematics_are_those_of_a_single_arm(panda: RobotEnv, library: str) -> None:
    arrays, chain = arrays_of(library), panda.world.kinematics.chain
    q = chain.home[:, None] + np.random.default_rng(0).uniform(-0.4, 0.4, (7, 20))
    kinematics = BatchKinematics(chain, arrays)
    frames = kinematics.forward(arrays.floats(q))
    turns = to_numpy(quaternions(frames.rotation, chain.rotation))
    jacobian = np.stack([to_numpy(row) for row in kinematics.jacobian(frames)])
    for number in range(20):
        single = Kinematics(chain)
        pose = single.pose(q[:, number])
        np.testing.assert_allclose(to_numpy(frames.position)[:, number], pose[:3, 3], atol=2e-6)
        np.testing.assert_allclose(to_numpy(frames.rotation)[:, :, number].T, pose[:3, :3], atol=2e-6)
        np.testing.assert_allclose(jacobian[:, :, number], single._jacobian(pose), atol=2e-6)
        assert abs(turns[:, number] @ matrix_to_quaternion(pose[:3, :3])) > 1 - 1e-5


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_controller_is_that_of_a_single_arm(panda: RobotEnv, library: str) -> None:
    arrays, controller = arrays_of(library), panda.world.controller
    arm = BatchArm(arm_model(panda, np.full(7, 60.0)), 30, arrays)
    chain, rng = controller.chain, np.random.default_rng(1)
    q = panda.world.home[:, None] + rng.uniform(-0.05, 0.05, (7, 30))
    targets = arm.home_position[:, None] + rng.uniform(-0.06, 0.06, (3, 30)) * rng.integers(0, 2, 30)
    joints = to_numpy(arm.controller.joints(arrays.floats(q), arrays.floats(targets)))
    for number in range(30):
        expected = Kinematics(chain).inverse(
            q[:, number], targets[:, number], chain.rotation, IK_ITERATIONS, IK_TOLERANCE
        )
        np.testing.assert_allclose(joints[:, number], expected, atol=2e-4)


def test_linear_systems_are_solved() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 6, 6))
    matrix, right = root @ root.transpose(0, 2, 1) + np.eye(6), rng.normal(size=(8, 6))
    system = np.concatenate([matrix, right[:, :, None]], axis=2).transpose(1, 2, 0)
    solved = solve_positive([system[i, i:].copy() for i in range(6)])
    np.testing.assert_allclose(np.stack(solved, axis=1), np.linalg.solve(matrix, right[:, :, None])[:, :, 0], atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_motors_sum_over_the_physics_steps(library: str) -> None:
    arrays, rng = arrays_of(library), np.random.default_rng(0)
    acceleration = np.array([20.0, 60.0, 500.0])
    motors = BatchMotors(MotorModel(np.full(3, 2.0), acceleration, 60.0), 0.04, arrays)
    q, velocity, target = rng.uniform(-2, 2, (3, 3, 50))
    position, speed = (to_numpy(each) for each in motors.drive(*map(arrays.floats, (q, velocity, target))))
    for _ in range(8):
        velocity = velocity + np.clip(target - velocity, *(sign * acceleration[:, None] * 0.005 for sign in (-1, 1)))
        q = q + velocity * 0.005
    np.testing.assert_allclose(position, q, atol=1e-5)
    np.testing.assert_allclose(speed, velocity, atol=1e-5)


@pytest.mark.parametrize("robot", sorted(fitted_accelerations()))
def test_the_tool_moves_as_in_bullet(robot: str) -> None:
    random, expert = compare_engines(
        {"robot": robot}, 6, seed=0
    )  # with seed 5 one episode of the Panda parts: benchmarks/results/fused.md
    assert random.steps == 300
    assert random.mean < BOUNDS[robot]
    assert expert.mean < BOUNDS[robot]
    assert expert.success_pybullet == expert.success_engine == 1.0


@pytest.mark.parametrize("robot", slow_except(finger_shapes(), "panda".__eq__))
def test_tools_that_turn_and_fingers_that_close_on_nothing_move_as_in_bullet(robot: str) -> None:
    arguments, count = {"task": "reach", "robot": robot, "spaces": "shared"}, 3
    worlds, rng = BatchEnv(arguments, count).worlds, np.random.default_rng(0)
    actions = np.repeat(rng.uniform(-1, 1, (8, count, 5)), 5, axis=0) * [0.3, 0.3, 0.3, 1.0, 1.0]
    names = ("ee_position", "ee_orientation", "tool_yaw", "tool_yaw_offset", "gripper_width", "gripper_command")
    values: dict[str, list[Any]] = {name: [] for name in names}
    for action in actions.astype(np.float32):
        worlds.step_all(action)
        for name in names:
            values[name].append(getattr(worlds.state, name).copy())
    with closing(RobotEnv(**arguments)) as env:
        for number in range(count):
            env.reset(seed=number)
            for step, action in enumerate(actions[:, number]):
                env.world.step(action)
                for name in names:
                    value, expected = values[name][step][number], getattr(env.world.state, name)[0]
                    if name == "ee_orientation":  # of a quaternion, both signs are the same orientation
                        expected = expected * np.sign(value @ expected)
                    np.testing.assert_allclose(value, expected, atol=0.01, err_msg=name)
    assert np.abs(values["tool_yaw"]).max() > 0.4
    assert np.ptp(values["gripper_width"]) > 0.03


@pytest.mark.parametrize("library", LIBRARIES)
def test_random_numbers_are_uniform_and_the_same_in_all_libraries(library: str) -> None:
    seeds, episodes = np.arange(4000) * 7919, np.arange(4000) % 5
    drawn, expected = (
        to_numpy(uniform(arrays.integers(seeds), arrays.integers(episodes), 6))
        for arrays in (arrays_of(library), arrays_of("numpy"))
    )
    np.testing.assert_array_equal(drawn, expected)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert np.abs(counts - 1200).max() < 200
    assert np.abs(np.corrcoef(drawn) - np.eye(6)).max() < 0.06


@pytest.mark.parametrize("library", LIBRARIES)
def test_episodes_follow_from_their_seeds_and_numbers(
    panda: RobotEnv, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "ROWS", 4096)  # as many as runs have
    arguments = {"task": "reach"}
    output = ("torch", "cuda") if library == "cuda" else (library,)
    first, second, many = (BatchEnv(arguments, count, *output) for count in (4, 4, 2000))
    first.reset([5, 6, 7, 8])
    second.reset([8, 6, 5, 7])
    goals = [to_numpy(envs.episodes.goals).copy() for envs in (first, second)]
    np.testing.assert_array_equal(goals[0], goals[1][[2, 1, 3, 0]])
    first.episodes.begin(Rows.of_mask(first.episodes.seeds == 6))
    after = to_numpy(first.episodes.goals)
    assert (after[1] != goals[0][1]).all()
    np.testing.assert_array_equal(np.delete(after, 1, 0), np.delete(goals[0], 1, 0))
    low, high = panda.areas["reach"]
    points = to_numpy(many.episodes.goals)[:, 0]
    assert (points >= low - 1e-6).all()
    assert (points <= high + 1e-6).all()
    distance = panda.task.stage_bindings[0].thresholds.tolerance + START_MARGIN
    assert np.linalg.norm(points - many.worlds.arm.home_position, axis=1).min() >= distance - 1e-4
    assert np.ptp(points, axis=0).min() > 0.95 * (high - low).min()
    assert len(np.unique(points, axis=0)) > 1500


def test_an_ended_episode_resets_alone() -> None:
    fused = BatchEnv({"task": "reach", "task_params": {"horizon": 5}}, 3)
    fused.reset([1, 2, 3])
    fused.episodes.elapsed = fused.episodes.elapsed + np.array([0, 4, 0])
    step = fused.step(np.full((3, 3), 1.0))
    assert step.truncated.tolist() == [False, True, False]
    assert step.elapsed.tolist() == [1, 5, 1]
    assert fused.episodes.elapsed.tolist() == [1, 0, 1]
    moved = np.linalg.norm(fused.worlds.arm.ee_position.T - fused.worlds.arm.home_position, axis=1)
    assert moved[1] < 1e-6
    assert moved[[0, 2]].min() > 0.01
    assert (step.last["desired_goal"][1] != step.observations["desired_goal"][1]).any()
    np.testing.assert_array_equal(step.last["observation"][0], step.observations["observation"][0])


@pytest.mark.parametrize("reward", REWARDS)
def test_rewards_and_observations_are_those_of_bullet(reward: str) -> None:
    """The arms differ by millimetres, so the goal is placed and the first step is compared."""
    fused = BatchEnv({"task": "reach", "reward": reward}, 8)
    first = fused.reset(range(8))
    env = RobotEnv("reach", reward=reward)
    for number in range(8):
        env.reset(seed=number)
        env.move_goal(fused.episodes.goals[number, 0].astype(float))
        env._episodes.memory = env._reward.begin(env._episodes.context)
        observation = env.observe_as(env.observation_spec)
        assert isinstance(observation, dict)
        for key, value in observation.items():
            np.testing.assert_allclose(first[key][number], value, atol=1e-5)
        _, expected, *_ = env.step(np.zeros(3))
        if number == 0:
            step = fused.step(np.zeros((8, 3)))
        assert step.reward[number] == pytest.approx(expected, abs=2e-3)
    env.close()
