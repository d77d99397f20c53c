"""Episodes are recorded as they were played, and played again to the bit, whole or in part, on every task."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mygym.demonstrations.recording import play, replay
from mygym.envs.robot_env import RobotEnv
from mygym.experts import OraclePolicy, ZeroPolicy
from mygym.runs import factory
from mygym.runs.resolve_config import from_python
from mygym.runs.video import Film
from tests.components import CONTROLS, TASKS


@pytest.fixture(scope="module")
def env() -> Iterator[RobotEnv]:
    with contextlib.closing(RobotEnv("pick_and_place")) as made:
        yield made


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_played_again_to_the_bit(task: str) -> None:
    """In another environment, with another history, and though asking the expert for labels may move nothing."""
    config = from_python({"task": task, "reward": "staged", "task_params": {"horizon": 60}}).config
    with contextlib.closing(factory.make_env(config)) as first, contextlib.closing(factory.make_env(config)) as other:
        one = play(OraclePolicy([first], 0), first, seed=7, noise=0.1)
        other.reset(seed=3)
        other.step(other.action_space.sample())
        assert replay(one, other) is None
        assert replay(one.stretch(0.5), other) is None


@pytest.mark.parametrize("control", CONTROLS)
def test_every_controller_is_played_again_to_the_bit(control: str) -> None:
    with contextlib.closing(RobotEnv(control=control, task_params={"horizon": 20}, goal_env=False)) as env:
        one = play(OraclePolicy([env], 0), env, seed=1, noise=0.2)
        assert isinstance(one.observations, np.ndarray)
        assert replay(one, env) is None


def test_several_tasks_in_one() -> None:
    said = {"strategy": "multitask", "strategy_params": {"tasks": ["reach", "push"]}}
    with contextlib.closing(factory.make_env(from_python(said).config)) as env:
        played = [play(OraclePolicy([env], 0), env, seed) for seed in (8, 9)]
        assert [one.task for one in played] == ["reach", "push"]
        assert [replay(one, env) for one in played] == [None, None]


def test_what_is_recorded(env: RobotEnv) -> None:
    one = play(OraclePolicy([env], 0), env, seed=4)
    steps = len(one)
    assert isinstance(one.observations, dict)
    for key, values in one.observations.items():
        assert values.shape == (steps + 1, *env.observation_space[key].shape)  # type: ignore[index]
        assert values.dtype == np.float32
    assert one.success
    assert one.terminated.tolist() == [False] * (steps - 1) + [True]
    assert not one.truncated.any()
    assert one.stages[0] == 0
    assert one.stages[-1] == len(env.task.labels)
    np.testing.assert_array_equal(one.actions, one.expert_actions[:-1])
    np.testing.assert_array_equal(one.rewards[-1:], [0.0])
    assert len(one.lead_in) == 0


def test_actions_are_what_was_done_and_the_expert_s_own_are_labels(env: RobotEnv) -> None:
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


def test_labels_are_the_expert_s_whoever_acts() -> None:
    with contextlib.closing(RobotEnv("push", task_params={"horizon": 10})) as env:
        one = play(ZeroPolicy([env], 0), env, seed=2)
        assert not one.actions.any()
        assert not one.success
        assert np.abs(one.expert_actions).max() > 0.5
        assert one.truncated[-1]
        env.reset(seed=2)
        np.testing.assert_array_equal(one.expert_actions[0], env.expert_action())


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99, 1.0])
def test_a_stretch_is_a_part_of_the_episode(share: float, env: RobotEnv) -> None:
    whole = play(OraclePolicy([env], 0), env, seed=11)
    part = whole.stretch(share)
    first, steps = len(part.lead_in), len(part)
    assert steps == max(1, round(share * len(whole)))
    assert isinstance(part.observations, dict)
    assert isinstance(whole.observations, dict)
    for key, values in part.observations.items():
        np.testing.assert_array_equal(values, whole.observations[key][first : first + steps + 1])
    np.testing.assert_array_equal(part.actions, whole.actions[first : first + steps])
    np.testing.assert_array_equal(part.lead_in, whole.actions[:first])
    np.testing.assert_array_equal(part.expert_actions, whole.expert_actions[first : first + steps + 1])
    np.testing.assert_array_equal(part.stages, whole.stages[first : first + steps + 1])
    assert part.terminated[-1] or part.truncated[-1], "every stretch has an end"
    assert not (part.terminated[-1] and part.truncated[-1])
    assert len(whole.stretch(share)) == steps
    assert not whole.truncated.any(), "the whole is as it was"


def test_stretches_begin_anywhere(env: RobotEnv) -> None:
    starts = {len(play(OraclePolicy([env], 0), env, seed).stretch(0.4).lead_in) for seed in range(8)}
    assert len(starts) > 3


def test_a_difference_is_found_where_it_is(env: RobotEnv) -> None:
    one = play(OraclePolicy([env], 0), env, seed=4)
    assert isinstance(one.observations, dict)
    for step in (0, 5, len(one)):
        changed: dict[str, Any] = {key: values.copy() for key, values in one.observations.items()}
        changed["achieved_goal"][step, 0] = np.nextafter(changed["achieved_goal"][step, 0], np.float32(9))
        assert replay(replace(one, observations=changed), env) == step
    rewards = one.rewards.copy()
    rewards[6] += 1e-12
    assert replay(replace(one, rewards=rewards), env) == 7
    assert replay(replace(one, seed=5), env) == 0


def test_a_film_shows_the_stretch_and_changes_nothing() -> None:
    size: dict[str, Any] = {"render_mode": "rgb_array", "render_width": 32, "render_height": 32}
    with contextlib.closing(RobotEnv("push", **size)) as env:
        part = play(OraclePolicy([env], 0), env, seed=3, noise=0.1).stretch(0.5)
        film = Film()
        assert replay(part, env, film) is None
        assert len(film._frames) == (len(part) + 1) * 32 * 32 * 3
