"""Tests of path sampling and path search."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from mygym.runs.evaluation import Episode, Evaluation
from mygym.strategies.gradient_bandit import MIN_SHARE, bandit_step, probabilities
from mygym.strategies.mixture.path_sampler import draw_fair, draw_learned, draw_uniform
from mygym.strategies.mixture.path_search import forward_microseconds, search_paths
from tests.strategies.mixture.test_mixture import built

TARGET = (2, 0, 1)


def episodes(score: float) -> Evaluation:
    return Evaluation(
        (Episode(seed=0, success=score >= 3, total_reward=score, length=1, distance=0.0, final_stage="done"),)
    )


def test_fair_draws_each_candidate_once_before_it_repeats() -> None:
    queues: list[list[int]] = [[], []]
    drawn = np.concatenate([draw_fair(queues, count, 4) for count in (3, 2, 5, 2)])
    assert drawn.shape == (12, 2)
    for start in range(0, 12, 4):
        assert all(sorted(drawn[start : start + 4, layer]) == [0, 1, 2, 3] for layer in range(2))


def test_uniform_draws_every_candidate() -> None:
    assert set(Counter(draw_uniform(200, 1, 3)[:, 0].tolist())) == {0, 1, 2}


def test_learned_weights_follow_rewards_and_keep_a_minimum() -> None:
    logits = np.zeros((2, 3))
    np.testing.assert_allclose(probabilities(logits), 1 / 3)
    for _ in range(300):
        drawn = draw_learned(logits, 4)
        logits = bandit_step(logits, drawn, (drawn[:, 0] == 2) - 0.5, rate=0.1)
    assert probabilities(logits)[0].argmax() == 2
    assert probabilities(logits)[0, 2] > 0.8
    assert probabilities(logits).min() >= MIN_SHARE / 3


@pytest.mark.parametrize("method", ["random", "evolutionary"])
def test_the_search_returns_the_best_path(method: Any) -> None:
    params = {"by": "sampler", "candidates": 3, "units": "blocks"}
    with built("ppo", params, algo_params={"policy_kwargs": {"net_arch": [8, 8]}}) as (_, model, _strategy):
        state = model.policy.forward_state

        def judge() -> Evaluation:
            return episodes(sum(a == b for a, b in zip(state.path.tolist(), TARGET, strict=True)))

        exhaustive = search_paths(model.policy, judge, method, tries=27)
        assert (len(exhaustive), exhaustive[0].path) == (27, TARGET)
        assert tuple(state.path.tolist()) == TARGET
        subset = search_paths(model.policy, judge, method, tries=18, seed=1)
        assert len({tried.path for tried in subset}) == 18
        assert subset == sorted(subset, key=lambda tried: -tried.mean_return)
        again = search_paths(model.policy, judge, method, tries=18, seed=1)
        assert [tried.path for tried in subset] == [tried.path for tried in again]


def test_paths_over_the_budget_are_not_evaluated() -> None:
    params = {"by": "sampler", "candidates": [[8], [2048, 2048]]}
    with built("ppo", params) as (_, model, _strategy):
        state = model.policy.forward_state
        times = []
        for candidate in range(2):
            state.set_forward_state("single", path=[candidate])
            times.append(forward_microseconds(model.policy))
        assert times[1] > 1.5 * times[0]
        budget = sum(times) / 2
        ranked = search_paths(model.policy, lambda: episodes(state.path[0].item()), "random", budget_us=budget)
        assert [tried.path for tried in ranked] == [(0,)]
        state.set_forward_state("single", path=[1])
        assert search_paths(model.policy, lambda: episodes(0.0), "random", budget_us=1.0) == []
        assert state.path.tolist() == [1]
