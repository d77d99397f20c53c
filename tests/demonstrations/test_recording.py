"""Episodes and segments of episodes are recorded and replayed bit by bit, for every task and controller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mygym.demonstrations.recording import play, replay_episode
from mygym.envs.robot_env import RobotEnv
from mygym.experts import OraclePolicy, ZeroPolicy
from mygym.planning.resolve import from_python
from mygym.training import env_factory
from mygym.training.video import VideoRecorder
from tests.components import CONTROLS, TASKS_QUICKLY


@pytest.fixture(scope="module")
def env() -> Iterator[RobotEnv]:
    with contextlib.closing(RobotEnv("pick_and_place")) as env:
        yield env


@pytest.mark.parametrize("task", TASKS_QUICKLY)
def test_replay_is_bit_identical_for_every_task(task: str) -> None:
    """The second environment has a different history; the queries for expert actions must change nothing."""
    config = from_python({"task": task, "reward": "staged", "task_params": {"horizon": 60}}).config
    with (
        contextlib.closing(env_factory.make_env(config)) as first,
        contextlib.closing(env_factory.make_env(config)) as other,
    ):
        demonstration = play(OraclePolicy([first], 0), first, seed=7, noise=0.1)
        other.reset(seed=3)
        other.step(other.action_space.sample())
        assert replay_episode(demonstration, other) is None
        assert replay_episode(demonstration.segment(0.5), other) is None


@pytest.mark.parametrize("control", CONTROLS)
def test_replay_is_bit_identical_for_every_controller(control: str) -> None:
    with contextlib.closing(RobotEnv(control=control, task_params={"horizon": 20}, goal_env=False)) as env:
        demonstration = play(OraclePolicy([env], 0), env, seed=1, noise=0.2)
        assert isinstance(demonstration.observations, np.ndarray)
        assert replay_episode(demonstration, env) is None


def test_replay_of_several_tasks() -> None:
    config = {"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push"]}}
    with contextlib.closing(env_factory.make_env(from_python(config).config)) as env:
        demonstrations = [play(OraclePolicy([env], 0), env, seed) for seed in (8, 9)]
        assert [demonstration.task for demonstration in demonstrations] == ["reach", "push"]
        assert [replay_episode(demonstration, env) for demonstration in demonstrations] == [None, None]


def test_recorded_arrays(env: RobotEnv) -> None:
    demonstration = play(OraclePolicy([env], 0), env, seed=4)
    steps = len(demonstration)
    assert isinstance(demonstration.observations, dict)
    for key, values in demonstration.observations.items():
        assert values.shape == (steps + 1, *env.observation_space[key].shape)  # type: ignore[index]
        assert values.dtype == np.float32
    assert demonstration.success
    assert demonstration.terminated.tolist() == [False] * (steps - 1) + [True]
    assert not demonstration.truncated.any()
    assert demonstration.stages[0] == 0
    assert demonstration.stages[-1] == len(env.task.labels)
    np.testing.assert_array_equal(demonstration.actions, demonstration.expert_actions[:-1])
    np.testing.assert_array_equal(demonstration.rewards[-1:], [0.0])
    assert len(demonstration.lead_in) == 0


def test_actions_include_noise_and_expert_actions_do_not(env: RobotEnv) -> None:
    quiet, noisy = (play(OraclePolicy([env], 0), env, seed=4, noise=noise) for noise in (0.0, 0.3))
    differences = noisy.actions - noisy.expert_actions[:-1]
    free = (np.abs(noisy.expert_actions[:-1]) < 0.4) & (np.abs(noisy.actions) < 1)
    assert differences[free].std() == pytest.approx(0.3, rel=0.3)
    assert np.abs(noisy.actions).max() <= 1.0
    np.testing.assert_array_equal(noisy.expert_actions[0], quiet.expert_actions[0])
    again = play(OraclePolicy([env], 0), env, seed=4, noise=0.3)
    np.testing.assert_array_equal(again.actions, noisy.actions)
    other = play(OraclePolicy([env], 0), env, seed=5, noise=0.3)
    assert not np.array_equal(
        (other.actions - other.expert_actions[:-1])[0], (noisy.actions - noisy.expert_actions[:-1])[0]
    )


def test_expert_actions_do_not_depend_on_the_policy() -> None:
    with contextlib.closing(RobotEnv("push", task_params={"horizon": 10})) as env:
        demonstration = play(ZeroPolicy([env], 0), env, seed=2)
        assert not demonstration.actions.any()
        assert not demonstration.success
        assert np.abs(demonstration.expert_actions).max() > 0.5
        assert demonstration.truncated[-1]
        env.reset(seed=2)
        np.testing.assert_array_equal(demonstration.expert_actions[0], env.expert_action())


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99, 1.0])
def test_segment_matches_the_episode(share: float, env: RobotEnv) -> None:
    episode = play(OraclePolicy([env], 0), env, seed=11)
    segment = episode.segment(share)
    first, steps = len(segment.lead_in), len(segment)
    assert steps == max(1, round(share * len(episode)))
    assert isinstance(segment.observations, dict)
    assert isinstance(episode.observations, dict)
    for key, values in segment.observations.items():
        np.testing.assert_array_equal(values, episode.observations[key][first : first + steps + 1])
    np.testing.assert_array_equal(segment.actions, episode.actions[first : first + steps])
    np.testing.assert_array_equal(segment.lead_in, episode.actions[:first])
    np.testing.assert_array_equal(segment.expert_actions, episode.expert_actions[first : first + steps + 1])
    np.testing.assert_array_equal(segment.stages, episode.stages[first : first + steps + 1])
    assert segment.terminated[-1] or segment.truncated[-1], "every segment has an end"
    assert not (segment.terminated[-1] and segment.truncated[-1])
    assert len(episode.segment(share)) == steps
    assert not episode.truncated.any(), "the episode is unchanged"


def test_segments_start_at_random_steps(env: RobotEnv) -> None:
    starts = {len(play(OraclePolicy([env], 0), env, seed).segment(0.4).lead_in) for seed in range(8)}
    assert len(starts) > 3


def test_replay_returns_the_first_difference(env: RobotEnv) -> None:
    demonstration = play(OraclePolicy([env], 0), env, seed=4)
    assert isinstance(demonstration.observations, dict)
    for step in (0, 5, len(demonstration)):
        changed: dict[str, Any] = {key: values.copy() for key, values in demonstration.observations.items()}
        changed["achieved_goal"][step, 0] = np.nextafter(changed["achieved_goal"][step, 0], np.float32(9))
        assert replay_episode(replace(demonstration, observations=changed), env) == step
    rewards = demonstration.rewards.copy()
    rewards[6] += 1e-12
    assert replay_episode(replace(demonstration, rewards=rewards), env) == 7
    assert replay_episode(replace(demonstration, seed=5), env) == 0


def test_video_of_a_segment_does_not_change_the_replay() -> None:
    size: dict[str, Any] = {"render_mode": "rgb_array", "render_width": 32, "render_height": 32}
    with contextlib.closing(RobotEnv("push", **size)) as env:
        segment = play(OraclePolicy([env], 0), env, seed=3, noise=0.1).segment(0.5)
        recorder = VideoRecorder()
        assert replay_episode(segment, env, recorder) is None
        assert len(recorder.frames) == (len(segment) + 1) * 32 * 32 * 3
