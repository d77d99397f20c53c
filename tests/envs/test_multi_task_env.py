"""Environments of several tasks."""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mygym.envs.multi_task_env import MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RunError
from mygym.training.evaluation import EXTRA, episode_seeds

TASKS = ("reach", "push", "AGM")


def multi_task_env(*tasks: str, identify: bool = False, **settings: Any) -> MultiTaskEnv:
    settings = {"spaces": "shared", **settings}
    codes = np.eye(len(tasks), dtype=np.float32) if identify else None
    return MultiTaskEnv([{"task": task, **settings} for task in tasks], tasks, codes)


@pytest.fixture
def env() -> Iterator[MultiTaskEnv]:
    env = multi_task_env(*TASKS)
    yield env
    env.close()


def play_labels(env: MultiTaskEnv, episodes: int, seed: int = 0) -> list[str]:
    env.reset(seed=seed)
    labels = [env.label]
    for _ in range(episodes - 1):
        env.reset()
        labels.append(env.label)
    return labels


@pytest.mark.parametrize("identify", [False, True])
@pytest.mark.parametrize("goal_env", [False, True])
@pytest.mark.filterwarnings("ignore:.*not within the observation space.*")
def test_gymnasiums_checker_passes(identify: bool, goal_env: bool) -> None:
    env = multi_task_env("reach", "push", identify=identify, goal_env=goal_env)
    check_env(env, skip_render_check=True)
    env.close()


def test_environments_are_selected_round_robin(env: MultiTaskEnv) -> None:
    labels = play_labels(env, 9)
    for first in range(0, 9, 3):
        assert sorted(labels[first : first + 3]) == sorted(TASKS)
    assert play_labels(env, 3, seed=1)[0] != labels[0]  # parallel environments start with different tasks


def test_any_seeds_of_an_evaluation_select_the_tasks_in_turn(env: MultiTaskEnv) -> None:
    seeds = episode_seeds(7, EXTRA, 5, env=env)
    labels = []
    for seed in seeds:
        env.reset(seed=seed)
        labels.append(env.label)
    assert labels == [*TASKS, *TASKS[:2]]
    plain = episode_seeds(7, EXTRA, 5)
    assert all(0 <= new - old < 3 for new, old in zip(seeds, plain, strict=True))
    assert {seed >> 30 for seed in seeds} == {EXTRA}


def test_weights_set_the_frequencies(env: MultiTaskEnv) -> None:
    env.set_weights([0.0, 1.0, 3.0])
    counts = Counter(play_labels(env, 40))
    assert counts["reach"] == 0
    assert 4 <= counts["push"] <= 16
    assert play_labels(env, 10) == play_labels(env, 10)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 1.0, 1.0], [np.nan, 1.0, 1.0]])
def test_invalid_weights_are_refused(env: MultiTaskEnv, weights: list[float]) -> None:
    with pytest.raises(RunError, match="3 weights"):
        env.set_weights(weights)


def test_an_episode_equals_that_of_the_active_environment(env: MultiTaskEnv) -> None:
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=5)
    single_env = RobotEnv(env.label, spaces="shared")
    expected, _ = single_env.reset(seed=int(np.random.SeedSequence([5, 0]).generate_state(1)[0]))
    np.testing.assert_equal(observation, expected)
    for _ in range(5):
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        observation, reward, *_, info = env.step(action)
        expected, expected_reward, *_ = single_env.step(action)
        np.testing.assert_equal(observation, expected)
        assert (reward, info["variant"]) == (expected_reward, TASKS.index(env.label))
    single_env.close()


def test_a_restored_state_continues_with_the_same_episodes(env: MultiTaskEnv) -> None:
    other = multi_task_env(*TASKS)
    env.reset(seed=3)
    env.set_weights([1.0, 2.0, 2.0])
    for _ in range(3):
        env.reset()
    for _ in range(4):
        observation, *_ = env.step(env.expert_action())
    np.testing.assert_equal(other.load_state_dict(env.state_dict()), observation)
    for _ in range(5):
        first, second = env.reset()[0], other.reset()[0]
        np.testing.assert_equal(first, second)
        assert env.label == other.label
    other.close()


LEVELS = [
    {"task": "AGM", "task_params": {"stages_done": 2, "horizon": 20}},
    {"task": "AGM", "task_params": {"stages_done": 1.333, "tolerance": 0.03}, "reward": "dense"},
    {"task": "AGM"},
    {"task": "AGM", "task_params": {"object": "cylinder"}},
]


def test_variants_that_share_a_world_equal_separate_environments() -> None:
    env = MultiTaskEnv(LEVELS, ("end", "later", "whole", "round"))
    env.try_all()
    worlds = [variant.world for variant in env._envs.values()]
    assert worlds[0] is worlds[1] is worlds[2] is not worlds[3]
    played = set()
    for seed in range(8):
        observation, info = env.reset(seed=seed)
        played.add(info["variant"])
        with contextlib.closing(RobotEnv(**LEVELS[info["variant"]])) as single_env:
            expected, _ = single_env.reset(seed=int(np.random.SeedSequence([seed, 0]).generate_state(1)[0]))
            np.testing.assert_equal(observation, expected)
            for _ in range(30):
                action = env.expert_action()
                step, expected = env.step(action), single_env.step(action)
                np.testing.assert_equal(step[0], expected[0])
                assert step[1:4] == expected[1:4]
                if step[2] or step[3]:
                    break
    assert played == set(range(len(LEVELS)))
    copied = copy.deepcopy(env.playing)
    assert copied.world is not env.playing.world
    np.testing.assert_equal(copied.step(action)[0], env.step(action)[0])
    copied.close()
    env.close()


def test_rewards_of_an_unbuilt_variant_do_not_change_the_episode() -> None:
    """A replay buffer that was filled before the run was resumed contains such infos."""
    env, other = (MultiTaskEnv(LEVELS[:3], ("end", "later", "whole")) for _ in range(2))
    for instance in (env, other):
        instance.reset(seed=1)
    goals = np.zeros((3, 3), np.float32)
    assert len(env.compute_reward(goals, goals, [{"variant": variant} for variant in range(3)])) == 3
    for _ in range(3):
        np.testing.assert_equal(env.step(env.expert_action())[0], other.step(other.expert_action())[0])
    env.close()
    other.close()


def test_rewards_follow_the_variant_of_the_info() -> None:
    env = MultiTaskEnv(
        [{"task": "reach", "task_params": {"tolerance": radius}} for radius in (0.2, 0.02)], ("wide", "narrow")
    )
    achieved, desired = np.zeros((4, 3), np.float32), np.full((4, 3), 0.05, np.float32)
    infos = [{"variant": 0}, {"variant": 1}, {"variant": 1}, {"variant": 0}]
    assert env.compute_reward(achieved, desired, infos).tolist() == [0.0, -1.0, -1.0, 0.0]
    assert env.compute_reward(achieved[0], desired[0], infos[1]) == -1.0
    with pytest.raises(RunError, match="copy_info_dict"):
        env.compute_reward(achieved, desired, [{}] * 4)
    env.close()


def test_the_observation_identifies_the_variant() -> None:
    env = multi_task_env("reach", "push", identify=True)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        code = observation["observation"][env.components["variant"]]
        assert code.tolist() == np.eye(2)[info["variant"]].tolist()
    env.close()


def test_different_spaces_are_refused() -> None:
    env = multi_task_env("reach", "push", spaces="own")
    with pytest.raises(ConfigError, match=r"reach.*spaces: shared"):
        play_labels(env, 2)
    env.close()
