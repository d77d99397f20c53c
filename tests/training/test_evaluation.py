"""Evaluation: disjoint seeds, results independent of the number of environments, failures."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.envs.robot_env import RobotEnv
from mygym.planning.resolve import from_python
from mygym.registry import registry
from mygym.training import env_factory, model_factory
from mygym.training.evaluation import (
    DEMONSTRATION,
    EVALUATION,
    EXTRA,
    FINAL,
    NOT_HELD,
    TEST,
    TRAINING,
    Evaluation,
    episode_seeds,
    evaluate_policy,
)
from mygym.training.policy import Policy, normalizer_of

PURPOSES = (TRAINING, EVALUATION, FINAL, EXTRA, DEMONSTRATION, TEST)
SEEDS = st.integers(0, 2**32 - 1)


@given(first=SEEDS, second=SEEDS, number=st.integers(0, 1000))
def test_seeds_of_different_purposes_are_disjoint(first: int, second: int, number: int) -> None:
    """Also for different seeds of the runs."""
    seeds_by_use = [
        {value for seed in (first, second) for value in episode_seeds(seed, purpose, 100, number)}
        for purpose in PURPOSES
    ]
    marks = [{value >> 30 for value in values} for values in seeds_by_use]
    assert sorted(mark for values in marks for mark in values) == [0, 1, 2, 3, 5, 6]  # the bits that encode the purpose
    assert all(0 <= value < 2**33 for values in seeds_by_use for value in values)


@given(seed=SEEDS)
def test_training_never_plays_an_episode_of_another_purpose(seed: int) -> None:
    """Environments in training go on to the second, third … episode of their seed."""
    same = [np.random.SeedSequence(words).generate_state(2).tolist() for words in ([2**32 + 5, 0], [5, 1])]
    assert same[0] == same[1]  # so the lowest 32 bits must not be those of a seed of training
    for purpose in PURPOSES[1:]:
        assert episode_seeds(seed, purpose, 1)[0] % 2**32 >> 30 != TRAINING


@given(seed=SEEDS, purpose=st.sampled_from(PURPOSES))
def test_every_evaluation_has_separate_repeatable_seeds(seed: int, purpose: int) -> None:
    seeds_by_use = [episode_seeds(seed, purpose, 50, number) for number in range(4)]
    assert len({value for values in seeds_by_use for value in values}) == 200
    assert seeds_by_use[2] == episode_seeds(seed, purpose, 50, 2)
    assert episode_seeds(seed, purpose, 10, 2) == seeds_by_use[2][:10]


def evaluate(name: str, slots: int, seeds: list[int], **keywords: Any) -> Evaluation:
    envs = [RobotEnv(**keywords) for _ in range(slots)]
    try:
        return evaluate_policy(registry("policy").get(name).load()(envs, 0), envs, seeds)
    finally:
        for env in envs:
            env.close()


@pytest.mark.parametrize("name", ["oracle", "zero", "random"])
@pytest.mark.parametrize(
    "keywords",
    [{"task": "push", "reward": "dense", "task_params": {"horizon": 40}}, {"goal_env": False}],
    ids=["push", "flat"],
)
def test_episodes_do_not_depend_on_the_number_of_environments(name: str, keywords: dict[str, Any]) -> None:
    seeds = episode_seeds(0, EXTRA, 5)
    reference = evaluate(name, 1, seeds, **keywords)
    assert [episode.seed for episode in reference.episodes] == seeds
    for slots in (3, 7):
        assert evaluate(name, slots, seeds, **keywords) == reference


@pytest.mark.parametrize(
    ("algo", "framework", "layer"),
    [
        ("sac", "pytorch", "actor.mu"),
        ("recurrent_ppo", "pytorch", "action_net"),
        pytest.param("sac", "jax", None, marks=pytest.mark.slow),
    ],
)
def test_episodes_of_a_network_do_not_depend_on_the_number_of_environments(
    algo: str, framework: str, layer: str | None
) -> None:
    """A seed is an episode, to the bit; so a video shows the episode that was judged.

    On some processors rows of different products are equal; so a layer depends on the number of rows.
    """
    values = {"algo": algo, "framework": framework, "reward": "dense", "her": False, "n_envs": 1}
    config = from_python(values | {"algo_params": {"policy_kwargs": {"net_arch": [64, 64]}}}).config
    with contextlib.closing(env_factory.make_vec_env(config)) as env:
        policy = Policy(model_factory.build_model(config, env), normalizer_of(env))
    if layer is not None:
        policy.model.policy.get_submodule(layer).register_forward_hook(lambda _, __, out: out + 0.1 * (len(out) - 1))
    seeds = episode_seeds(0, EXTRA, 6)
    with contextlib.ExitStack() as stack:
        envs = env_factory.make_eval_envs(config, stack, 4)
        reference = evaluate_policy(policy, envs, seeds)
        for slots in (1, 3):
            assert evaluate_policy(policy, envs[:slots], seeds) == reference


def test_figures_are_computed_from_the_episodes() -> None:
    evaluation = evaluate("oracle", 2, [1, 2, 3], task="push")
    episodes = evaluation.episodes
    assert evaluation.success_rate == np.mean([episode.success for episode in episodes])
    assert evaluation.mean_return == np.mean([episode.total_reward for episode in episodes])
    assert evaluation.mean_length == np.mean([episode.length for episode in episodes])
    assert evaluation.stage_reached == {"done": 3}
    assert set(evaluation.summary()) == {"success_rate", "mean_return", "mean_length", "mean_distance", "stage_reached"}
    idle = evaluate("zero", 2, [1, 2, 3], task="push")
    assert (idle.success_rate, idle.stage_reached) == (0.0, {"approach": 3})
    assert idle.mean_length == 100
    assert idle.mean_distance > evaluation.mean_distance


def test_failures_are_the_first_of_each_stage() -> None:
    """Although the episodes end in any order."""
    seeds = list(range(12))
    evaluation = evaluate("random", 4, seeds, task="push")
    failed = {failure.stage: failure for failure in evaluation.failures}
    assert list(failed) == ["approach", "push"]
    assert [failure.phrase for failure in evaluation.failures] == ["approach the cube", "push the cube to the goal"]
    for stage, failure in failed.items():
        episodes = [episode for episode in evaluation.episodes if episode.final_stage == stage]
        assert evaluation.failed_in(stage) == len(episodes)
        assert (failure.seed, len(failure.actions)) == (episodes[0].seed, episodes[0].length)
    assert evaluate("oracle", 4, seeds, task="push").failures == ()


def test_completed_stages_that_are_not_held_are_a_failure() -> None:
    (failure,) = evaluate("oracle", 2, [1, 2], task="reach", task_params={"hold": 24}).failures
    assert (failure.stage, failure.phrase) == ("done", NOT_HELD)


def test_on_step_is_called_after_every_reset_and_step() -> None:
    envs, calls = [RobotEnv()], []
    policy = registry("policy").get("oracle").load()(envs, 0)
    evaluation = evaluate_policy(policy, envs, [4, 5], lambda index, env: calls.append((index, env.elapsed_steps)))
    lengths = [episode.length for episode in evaluation.episodes]
    assert calls == [(index, step) for index, length in enumerate(lengths) for step in range(length + 1)]
    envs[0].close()
