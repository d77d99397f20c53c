"""MuJoCo's worlds: experts of all tasks, the same tool as in Bullet, exact rows, snapshots and resets, parameters."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest

from mygym.checks.parity import compare_engines
from mygym.engines.arrays import Rows
from mygym.engines.engine import BULLET, FUSED, MUJOCO, make_world
from mygym.engines.mujoco.bodies import FIELDS
from mygym.engines.mujoco.world import MujocoWorld, MujocoWorlds
from mygym.engines.world import MovingDistractor, WorldSpec
from mygym.envs import batches
from mygym.envs.batch_env import BatchEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.robotics.objects import load_object
from mygym.robotics.robot import find_robot
from mygym.robotics.workspace import load_workspace
from tests.components import TASKS_QUICKLY

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def description(*objects: str, robot: str = "panda", workspace: str = "table", **arguments: Any) -> WorldSpec:
    place = load_workspace(registry("workspace").get(workspace).load())
    return WorldSpec(find_robot(robot), place, [load_object(name) for name in objects], **arguments)


def world_of(*objects: str, **arguments: Any) -> MujocoWorld:
    world = make_world(description(*objects, **arguments), MUJOCO)
    assert isinstance(world, MujocoWorld)
    return world


def poses(*positions: tuple[float, float, float]) -> Any:
    return np.array([[*position, *UPRIGHT] for position in positions])


@pytest.mark.parametrize("task", TASKS_QUICKLY)
def test_expert_solves_batch(task: str) -> None:
    count = 4
    env = BatchEnv({"task": task, "engine": MUJOCO}, count)
    env.reset(range(count))
    running, solved = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    while running.any():
        step = env.step(env.expert_action())
        ended = running & (step.terminated | step.truncated)
        solved |= ended & step.success
        running &= ~ended
    assert solved.sum() >= count - 1


@pytest.mark.parametrize("task", ["reach", "push", "pick_and_place"])
def test_tool_follows_the_same_actions_as_in_bullet(task: str) -> None:
    (expert,) = (kind for kind in compare_engines({"task": task}, 8, 0, MUJOCO) if kind.actions == "expert")
    assert expert.mean < 3.5  # mm
    assert expert.percentile < 7.5


def played(worlds: MujocoWorlds, actions: Any) -> list[Any]:
    """Return the rows of positions of joints and objects after each action."""
    rows = []
    for action in actions:
        worlds.step_all(action)
        rows.append(np.concatenate([worlds.state.joint_position, worlds.state.object_position[:, 0]], axis=1))
    return rows


def start(worlds: MujocoWorlds, rows: Rows, x: float) -> None:
    count = int(rows.mask.sum())
    worlds.reset(rows, np.repeat(poses((x, 0.02, 0.02))[None], count, axis=0), np.zeros((count, 0)))


@pytest.mark.parametrize(("count", "threads"), [(2, 1), (7, 2), (33, 3)])
def test_row_depends_on_neither_count_nor_threads_nor_history(
    count: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    with closing(world_of("cube")) as world:
        actions = rng.uniform(-1.0, 1.0, (25, 1, world.action_size)) + np.array([0.0, 0.0, -0.7, 0.0])
        alone = world.batch(1)
        monkeypatch.setattr(MujocoWorlds, "threads", threads)
        others = world.batch(count)
    start(alone, Rows.all(1, alone.arrays), 0.1)
    expected = played(alone, actions)
    played(others, rng.uniform(-1.0, 1.0, (10, count, others.action_size)))  # a history, of other episodes
    last = Rows.of_mask(np.arange(count) == count - 1)
    start(others, last, 0.1)
    noise = rng.uniform(-1.0, 1.0, (25, count, others.action_size))
    noise[:, -1] = actions[:, 0]
    for row, rows in zip(expected, played(others, noise), strict=True):
        np.testing.assert_array_equal(rows[-1], row[0])


def test_row_is_the_single_world() -> None:
    rng = np.random.default_rng(1)
    with closing(world_of("cube")) as world:
        worlds = world.batch(3)
        start(worlds, Rows.all(3, worlds.arrays), 0.1)
        world.reset(poses((0.1, 0.02, 0.02)))
        for action in rng.uniform(-1.0, 1.0, (20, world.action_size)):
            world.step(action)
            worlds.step_all(np.repeat(action[None], 3, axis=0))
            np.testing.assert_allclose(worlds.state.joint_position[2], world.state.joint_position[0], atol=1e-7)


def test_reset_forgets_earlier_episodes() -> None:
    rng = np.random.default_rng(2)
    actions = rng.uniform(-1.0, 1.0, (30, 4))
    states = []
    with closing(world_of("cube")) as world:
        for earlier in (0, 40):
            for action in rng.uniform(-1.0, 1.0, (earlier, 4)):
                world.step(action)
            world.reset(poses((0.05, 0.0, 0.02)))
            for action in actions:
                world.step(action)
            states.append((world.state.joint_position.copy(), world.state.object_position.copy()))
    for first, second in zip(*states, strict=True):
        np.testing.assert_array_equal(first, second)


def test_snapshot_in_mid_grasp_continues_to_the_bit() -> None:
    with closing(RobotEnv(task="pick_and_place", engine=MUJOCO)) as env:
        env.reset(seed=3)
        actions = []
        while not env.world.state.finger_contact.all():
            env.step(env.expert_action())
        restore = env.world.save()
        for _ in range(12):
            actions.append(env.expert_action().astype(float))
            env.world.step(actions[-1])
        expected = env.world.state.object_position.copy(), env.world.state.finger_contact.copy()
        restore()
        for action in actions:
            env.world.step(action)
        np.testing.assert_array_equal(env.world.state.object_position, expected[0])
        np.testing.assert_array_equal(env.world.state.finger_contact, expected[1])
        assert expected[0][0, 0, 2] > 0.03  # it was lifted


@pytest.mark.parametrize("randomize", [{}, dict.fromkeys(FIELDS, True)])
def test_stored_batch_continues_to_the_bit(randomize: dict[str, bool]) -> None:
    arguments = {"task": "pick_and_place", "engine": MUJOCO, "randomize": randomize}
    env, other = (BatchEnv(arguments, 3) for _ in range(2))
    env.reset([5, 6, 7])
    for _ in range(12):
        env.step(env.expert_action())
    other.reset([1, 2, 3])
    other.load_state_dict(env.state_dict())
    for _ in range(60):  # beyond the end of episodes
        action = env.expert_action()
        first, second = env.step(action), other.step(action)
        np.testing.assert_array_equal(first.observations["observation"], second.observations["observation"])
        np.testing.assert_array_equal(first.reward, second.reward)


# Parameters of episodes ---------------------------------------------------------------------------------------------


def slid(world: MujocoWorld, randomization: EpisodeRandomization) -> float:
    """Return how far a cube slides over the table that begins at 0.5 m/s, m."""
    world.randomize(randomization)
    world.reset(poses((-0.1, 0.2, 0.02)))
    bodies = world.bodies
    bodies._v[0, bodies._velocities[0]] = 0.5, 0.0, 0.0
    for _ in range(20):
        world.step(np.zeros(world.action_size))
    return float(world.state.object_position[0, 0, 0]) + 0.1


def test_friction_shortens_the_way_that_an_object_slides() -> None:
    with closing(world_of("cube")) as world:
        ways = [slid(world, EpisodeRandomization(object_friction=(factor,))) for factor in (0.3, 1.0, 2.0)]
        assert ways[0] > 1.5 * ways[1] > 1.5 * ways[2] > 0
        assert slid(world, EpisodeRandomization()) == ways[1]


def test_a_pressed_button_gives_at_its_limit_as_in_bullet() -> None:
    def pressed(engine: str) -> float:
        with closing(RobotEnv(task="press", engine=engine)) as env:
            env.reset(seed=0)
            for step in range(50):
                above = np.array([0.1, 0.0, 0.075]) - env.world.state.ee_position[0]
                env.step(np.clip(above / 0.1, -1.0, 1.0) if step < 30 else np.array([0.0, 0.0, -0.4]))
            return float(env.world.state.part_position[0, 0])

    assert pressed(BULLET) == pytest.approx(0.016, abs=0.0015)
    assert pressed(MUJOCO) == pytest.approx(0.016, abs=0.0015)


def test_damping_slows_a_fall_and_weight_does_not() -> None:
    def height(randomization: EpisodeRandomization) -> float:
        world.randomize(randomization)
        world.reset(poses((0.1, 0.3, 0.4)))
        for _ in range(5):
            world.step(np.zeros(4))
        return float(world.state.object_position[0, 0, 2])

    with closing(world_of("cube")) as world:
        free = height(EpisodeRandomization())
        assert free == pytest.approx(0.4 - 0.5 * 9.81 * 0.2**2, abs=0.006)
        assert height(EpisodeRandomization(object_mass=(3.0,))) == pytest.approx(free, abs=1e-6)
        assert height(EpisodeRandomization(object_damping=(0.9,))) > free + 0.02


@pytest.mark.parametrize("later", [{}, {"starts": {"in_hand": 1.0}}, {"stages_done": 2}], ids=str)
def test_objects_of_a_batch_have_the_weights_of_their_masses(
    later: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in episodes that go on from the expert's, whose objects have their nominal masses, and in moved ones."""
    monkeypatch.setattr(batches, "POOL_OF_CONTACTS", 3)
    heavy = {"task": "pick_and_place", "engine": MUJOCO, "randomize": {"object_mass": [2.0, 4.0]}, "task_params": later}
    batch = BatchEnv(heavy, 3)
    batch.reset(range(3))
    resized = batch.resized(np.array([2, 0]), 3)
    for bodies in (batch.worlds._bodies, resized.worlds._bodies):
        objects = bodies.model.object_bodies
        masses = bodies._batch.expand("body_mass")[:, objects]
        assert len(np.unique(masses)) > 1
        np.testing.assert_allclose(bodies._forces[:, objects, 2], 9.81 * -masses)
    np.testing.assert_array_equal(resized.worlds._bodies._forces[:2], batch.worlds._bodies._forces[[2, 0]])


@pytest.mark.parametrize("engine", [BULLET, MUJOCO])
@pytest.mark.parametrize("name", ["cube", "mug"])
def test_a_free_object_keeps_its_velocity_without_randomization(engine: str, name: str) -> None:
    """It falls: damping would take 2 % of its speed in a second. Bullet reads the second object from a URDF."""
    with closing(make_world(description(name), engine)) as world:
        world.reset(poses((0.1, 0.3, 5.0)))
        for step in range(25):
            world.step(np.zeros(4))
            if step == 0:
                first = world.state.object_velocity[0, 0, 2]
        assert world.state.object_velocity[0, 0, 2] - first == pytest.approx(-9.81 * 24 * 0.04, rel=1e-6)


def test_mass_of_an_object_bends_the_arm_that_holds_it() -> None:
    def lifted(mass: float) -> float:
        with closing(RobotEnv(task="lift", engine=MUJOCO, randomize={"object_mass": (mass, mass)})) as env:
            env.reset(seed=0)
            for _ in range(16):
                env.step(env.expert_action())
            return float(env.world.state.object_position[0, 0, 2])

    assert lifted(1.0) > 0.05
    assert lifted(60.0) < 0.03  # 4 kg slip out of the fingers


def test_gain_and_friction_of_joints_slow_the_arm() -> None:
    def moved(randomization: EpisodeRandomization) -> float:
        world.randomize(randomization)
        world.reset(np.zeros((0, 7)))
        x = float(world.state.ee_position[0, 0])
        for _ in range(4):
            world.step(np.array([1.0, 0.0, 0.0, 1.0]))
        return float(world.state.ee_position[0, 0]) - x

    joints = 7
    with closing(world_of()) as world:
        full = moved(EpisodeRandomization())
        assert moved(EpisodeRandomization(joint_gain=(0.5,) * joints)) < 0.8 * full
        assert moved(EpisodeRandomization(joint_friction=(0.99,) * joints)) < 0.8 * full
        assert moved(EpisodeRandomization()) == full


def test_objects_differ_between_episodes() -> None:
    def top(choice: int | None, size: float) -> float:
        world.randomize(EpisodeRandomization(object_choice=(choice,), object_size=(size,)))
        world.reset(poses((0.1, 0.25, 0.2)))
        for _ in range(25):
            world.step(np.zeros(4))
        return float(world.state.object_position[0, 0, 2])

    spec = description()
    objects = [[load_object("cube"), load_object("ball")]]
    spec = WorldSpec(spec.robot, spec.workspace, objects)
    with closing(make_world(spec, MUJOCO)) as world:
        assert top(0, 1.0) == pytest.approx(0.02, abs=1e-3)
        assert top(0, 1.5) == pytest.approx(0.03, abs=1e-3)
        assert top(1, 1.0) == pytest.approx(load_object("ball").half_height, abs=1e-3)
        assert top(None, 1.0) == 0.0
        assert not world.state.object_present[0, 0]


def test_distractor_moves_to_and_fro() -> None:
    moving = {0: MovingDistractor(axis=(0.0, 1.0, 0.0), speed=0.1, range=0.05)}
    with closing(world_of("cube", moving_distractors=moving)) as world:
        world.reset(poses((0.1, 0.2, 0.3)))
        ys = []
        for _ in range(50):  # a period of 2 s
            world.step(np.zeros(4))
            ys.append(float(world.state.object_position[0, 0, 1]) - 0.2)
        assert max(ys) == pytest.approx(0.05, abs=4e-3)
        assert min(ys) == pytest.approx(-0.05, abs=4e-3)
        assert world.state.object_position[0, 0, 2] == pytest.approx(0.3, abs=1e-3)  # weightless


@pytest.mark.parametrize("control", sorted(registry("controller").names()))
def test_every_controller_reaches(control: str) -> None:
    env = BatchEnv({"task": "reach", "engine": MUJOCO, "control": control, "task_params": {"horizon": 120}}, 3)
    env.reset(range(3))
    solved = np.zeros(3, dtype=bool)
    for _ in range(120):
        solved |= env.step(env.expert_action()).success
        if solved.all():
            break
    assert solved.all()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"goal_env": False},
        {"output": "torch"},
        {"goal_env": False, "output": "torch"},
        {"critic_observations": ["ee_velocity"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("engine", [MUJOCO, FUSED])
def test_vector_environments_return_elements_of_their_spaces(engine: str, arguments: dict[str, Any]) -> None:
    """MuJoCo's worlds are of doubles, also the noise of observations."""
    noisy = {"engine": engine, "randomize": {"observation_noise": 0.01}}
    with closing(gymnasium.make_vec("mygym/Push-v0", num_envs=2, **noisy, **arguments)) as env:
        observations = [env.reset(seed=0)[0], env.step(env.action_space.sample())[0]]
        for observation in observations:
            values = {"": observation} if not isinstance(observation, dict) else observation
            values = {key: np.asarray(value) for key, value in values.items()}
            assert {str(value.dtype) for value in values.values()} == {"float32"}
            assert env.observation_space.contains(values if isinstance(observation, dict) else values[""])


def test_batch_refuses_objects_that_differ_between_episodes() -> None:
    with pytest.raises(ConfigError, match="object_size"):
        BatchEnv({"task": "push", "engine": MUJOCO, "randomize": {"object_size": (0.9, 1.1)}}, 2)
