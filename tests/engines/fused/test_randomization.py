"""Domain randomization in the fused engine, against Bullet and against its definition."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mygym.checks.parity import compare_engines
from mygym.engines.arrays import Rows, find_arrays, normal, to_numpy
from mygym.engines.bullet.client import bullet
from mygym.engines.fused.world import BatchWorld
from mygym.envs import randomization
from mygym.envs.batch_env import BatchEnv
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.fused_worlds import SLIPPERY
from mygym.envs.randomization import BatchRandomization, draw_table
from mygym.envs.randomizers import register_randomizer
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.types import FloatArray

ALL: dict[str, Any] = {
    "object_friction": True,
    "object_damping": True,
    "joint_gain": [0.8, 1.0],
    "action_delay": [0, 3],
    "action_noise": 0.1,
    "observation_noise": 0.002,
}


def start(arguments: dict[str, Any], count: int = 4, output: str = "numpy") -> BatchEnv:
    fused = BatchEnv(arguments, count, output)
    fused.reset(range(count))
    return fused


@pytest.mark.parametrize("gain", [0.5, 0.9])
def test_the_tool_moves_as_in_bullet_with_weaker_joints(gain: float) -> None:
    random, expert = compare_engines({"robot": "panda", "randomize": {"joint_gain": gain}}, 6, seed=0)
    assert max(random.mean, expert.mean) < 9.0
    exact = start({"robot": "panda"})
    weak = start({"robot": "panda", "randomize": {"joint_gain": gain}})
    for fused in (exact, weak):
        fused.step(np.full((4, 3), 0.5))
    ways = [np.linalg.norm(fused.worlds.arm.ee_velocity, axis=0) for fused in (exact, weak)]
    assert (ways[1] < 0.95 * ways[0]).all()


def test_an_action_takes_effect_as_late_as_in_bullet() -> None:
    arguments = {"task": "reach", "randomize": {"action_delay": 3}, "task_params": {"horizon": 99}}
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (12, 3))
    fused = start(arguments, 1)
    prompt = start({**arguments, "randomize": {}}, 1)
    paths: list[list[FloatArray]] = [[], [], []]
    with closing(RobotEnv(**arguments)) as env:
        env.reset(seed=0)
        for action in actions:
            env.step(action)
            fused.step(action[None])
            prompt.step(action[None])
            paths[0].append(env.world.state.ee_position[0].copy())
            paths[1].append(fused.worlds.arm.ee_position[:, 0].copy())
            paths[2].append(prompt.worlds.arm.ee_position[:, 0].copy())
    bullet_path, late, early = map(np.array, paths)
    np.testing.assert_allclose(late[3:], early[:-3], atol=1e-6)
    assert np.linalg.norm(late[:3] - fused.worlds.arm.home_position, axis=1).max() < 1e-4
    assert np.linalg.norm(late - bullet_path, axis=1).max() < 0.006


@pytest.mark.parametrize(
    "randomize",
    [{"object_friction": 0.5}, {"object_friction": 2.0}, {"object_friction": 0.0, "object_damping": 0.5}],
    ids=str,
)
def test_a_sliding_box_slows_as_in_bullet(randomize: dict[str, float]) -> None:
    steps = 6
    fused = start({"task": "push", "randomize": randomize}, 1)
    arrays, box = fused.arrays, fused.worlds.box
    assert box is not None
    box.position = arrays.floats([[1.0], [0.0], [box.rest_height]])
    box.velocity = arrays.floats([[0.0], [0.5], [0.0]])
    for _ in range(steps):
        fused.worlds.step(arrays.zeros(3, 1))
    with closing(RobotEnv("push", randomize=randomize)) as env:
        env.reset(seed=0)
        world = env.world
        bullet.resetBaseVelocity(
            world.object_bodies.ids[0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0], physicsClientId=world.client
        )
        first = env.world.state.object_position[0, 0, 1]
        for _ in range(steps):
            env.world.step(np.zeros(3))
        way = env.world.state.object_position[0, 0, 1] - first
    assert way > 0.005
    assert float(box.position[1, 0]) == pytest.approx(way, rel=0.12)


@pytest.mark.parametrize("factor", [SLIPPERY, pytest.param(1.3, marks=pytest.mark.slow)])
def test_grasps_agree_with_bullet(factor: float) -> None:
    arguments = {"task": "pick_and_place", "randomize": {"object_friction": factor}}
    *_, expert, noisy = compare_engines(arguments, 20, seed=0)
    assert expert.success_pybullet == expert.success_engine == 1.0
    assert noisy.gate is not None
    assert noisy.gate > 0.85  # 95 % of 1,081 grasps without randomization: benchmarks/results/fused.md


def test_noise_of_observations_is_that_of_its_definition() -> None:
    arguments = {"task": "push", "randomize": {"observation_noise": 0.002}}
    noisy, exact = start(arguments, 3000), start({"task": "push"}, 3000)
    for _ in range(2):
        actions = np.full((3000, 3), 0.2)
        seen, true = (fused.step(actions).observations for fused in (noisy, exact))
    for key in ("achieved_goal", "desired_goal"):
        np.testing.assert_array_equal(seen[key], true[key])
    difference = seen["observation"] - true["observation"]
    with closing(RobotEnv("push")) as env:
        measured = env.builder.measured
    assert 0 < measured.sum() < len(measured)
    space = noisy.observation_space["observation"]  # type: ignore[index]
    clipped = (np.abs(true["observation"]) > space.high - 0.01).any(axis=0)  # such as the last number of a quaternion
    np.testing.assert_allclose(difference.std(axis=0)[~clipped], 0.002 * measured[~clipped], atol=2e-4)
    assert np.abs(difference.mean(axis=0)[~clipped]).max() < 2e-4
    assert space.contains(seen["observation"][0])
    inside = difference[:, (measured > 0) & ~clipped]
    assert np.abs(np.corrcoef(inside.T) - np.eye(inside.shape[1])).max() < 0.1


def test_normal_numbers_are_normal_and_independent() -> None:
    arrays = find_arrays("numpy")
    seeds, zeros = arrays.integers(range(20000)), arrays.integers([0] * 20000)
    drawn = np.concatenate([normal(seeds, zeros, 3, zeros + stream) for stream in (1, 2)])
    assert np.abs(drawn.mean(axis=1)).max() < 0.03
    assert np.abs(np.corrcoef(drawn) - np.eye(6)).max() < 0.03
    within = [(np.abs(drawn) < limit).mean() for limit in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(within, [0.6827, 0.9545, 0.9973], atol=0.005)


def test_noise_of_actions_has_its_deviation() -> None:
    episodes = start({"task": "pick_and_place", "randomize": {"action_noise": 0.1}}, 5000).episodes
    assert isinstance(episodes.disturbances, BatchRandomization)
    actions, drawn = episodes.worlds.arrays.zeros(5000, 4) + 0.5, []
    for _ in range(2):
        drawn.append(episodes.disturbances.act(actions, episodes) - actions)
        episodes.elapsed = episodes.elapsed + 1
    first, second = drawn
    np.testing.assert_allclose(first.std(axis=0), 0.1, atol=0.005)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.03


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_an_episode_follows_from_its_seed_alone(output: str) -> None:
    """Other environments, their number and the array library change nothing."""
    arguments = {"task": "pick_and_place", "randomize": ALL}
    many, few = start(arguments, 6, output), BatchEnv(arguments, 2)
    few.reset([4, 1])
    actions = np.random.default_rng(0).uniform(-1, 1, (8, 6, 4)).astype(np.float32)
    for action in actions:
        wide = many.step(many.arrays.floats(action)).observations["observation"]
        narrow = few.step(action[[4, 1]]).observations["observation"]
        np.testing.assert_allclose(to_numpy(wide)[[4, 1]], narrow, atol=1e-4)
    values = many.episodes.disturbances
    assert values is not None
    for name in ("object_friction", "joint_gain", "action_delay"):
        assert np.ptp(to_numpy(values.values[name]), axis=-1).min() > 0, name


def test_parameters_change_with_the_episode_and_cover_their_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomization, "ROWS", 1024)  # as many as runs have
    fused = start({"task": "push", "randomize": {"object_friction": [0.6, 1.4], "joint_gain": True}}, 2000)
    box, arm = fused.worlds.box, fused.worlds.arm
    assert box is not None
    assert box.friction is not None
    assert arm.gain is not None
    before, gains = box.friction.copy(), arm.gain.copy()
    assert before.min() == pytest.approx(0.6, abs=0.01)
    assert before.max() == pytest.approx(1.4, abs=0.01)
    assert gains.shape == (7, 2000)
    assert np.abs(np.corrcoef(gains) - np.eye(7)).max() < 0.1
    fused.episodes.begin(Rows.of_mask(fused.episodes.seeds == 3))
    changed = np.flatnonzero(before != box.friction)
    assert changed.tolist() == [3]
    assert (arm.gain[:, 3] != gains[:, 3]).all()


def test_a_state_continues_to_the_bit() -> None:
    def play(env: BatchVecEnv, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [env.step(rng.uniform(-1, 1, (5, 4)))[0] for _ in range(15)]

    arguments = {"task": "pick_and_place", "randomize": ALL, "task_params": {"horizon": 20}}
    first = BatchVecEnv(arguments, 5)
    first.seed(1)
    first.reset()
    play(first, 0)
    state = first.batch_state_dict()
    expected = play(first, 1)
    second = BatchVecEnv(arguments, 5)
    second.load_batch_state_dict(state)
    for observations, repeated in zip(expected, play(second, 1), strict=True):
        for key, value in observations.items():
            np.testing.assert_array_equal(value, repeated[key])


def test_a_registered_randomizer_works_if_the_engine_has_its_field() -> None:
    @register_randomizer("slow_robot", "factor", default=(0.5, 0.6), allowed=(0.1, 1.0))
    def slow_robot(randomization: EpisodeRandomization, draw: Any) -> EpisodeRandomization:
        """All joints alike."""
        return replace(randomization, joint_gain=(draw.value(),) * draw.joints)

    gain = start({"task": "reach", "randomize": {"slow_robot": True}}).worlds.arm.gain
    assert gain is not None
    assert (gain == gain[0]).all()
    assert 0.5 <= gain.min() <= gain.max() <= 0.6


@pytest.mark.parametrize(
    ("randomize", "words"),
    [
        ({"object_mass": True}, ["object_mass", "engine fused", "action_delay"]),
        ({"object_size": True}, ["object_size", "engine fused"]),
        ({"joint_friction": True}, ["joint_friction", "engine fused"]),
        ({"light": True}, ["light", "engine fused"]),
        ({"object_friction": [0.1, 1.0]}, ["object_friction", "0.1", "0.5"]),
        ({"joint_gian": True}, ["joint_gian", "joint_gain"]),
        ({"action_delay": [0, 99]}, ["randomize.action_delay", "25"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_unsupported_randomizer_is_refused(randomize: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        BatchEnv({"task": "pick_and_place", "randomize": randomize}, 2)
    for word in words:
        assert word in str(caught.value)


def test_a_field_that_nothing_changes_is_not_stored() -> None:
    fields = BatchWorld.randomized_fields
    assert draw_table({"object_friction": [0.5, 2.0]}, 0, 7, fields, "fused") == {}
    assert draw_table({"action_noise": 0.0, "joint_gain": 1.0}, 1, 2, fields, "fused").keys() == {"joint_gain"}


def test_a_state_of_version_0_2_continues() -> None:
    """It has the figures of the episodes beside them, and delayed actions as `(D, A, N)`."""
    arguments = {"task": "pick_and_place", "reward": "shaped", "randomize": {"action_delay": [2, 2]}}
    first, second = (start(arguments, 5) for _ in range(2))
    for _ in range(6):
        first.step(first.expert_action())
    state = first.state_dict()
    episodes = {name: values for name, values in state["episodes"].items() if name != "failed"}
    beside = {name: episodes.pop(name) for name in ("saturated", "touched", "stages_done")}
    episodes["randomization"] = {"delayed": state["episodes"]["randomization"]["delayed"].swapaxes(1, 2)}
    second.load_state_dict({"episodes": episodes, **beside, "observations": state["observations"]})
    for _ in range(4):
        action = first.expert_action()
        steps = [envs.step(action) for envs in (first, second)]
        for field in ("reward", "saturation", "touched", "stages_done"):
            np.testing.assert_array_equal(*(getattr(step, field) for step in steps))
        np.testing.assert_array_equal(*(step.observations["observation"] for step in steps))
