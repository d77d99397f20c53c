"""Tests of the path search."""

from __future__ import annotations

from typing import Any

import pytest

from mygym.runs.evaluation import Episode, Evaluation
from mygym.strategies.mixture.path_search import forward_microseconds, search_paths
from tests.strategies.mixture.test_mixture import built

TARGET = (2, 0, 1)


def episodes(score: float) -> Evaluation:
    return Evaluation(
        (Episode(seed=0, success=score >= 3, total_reward=score, length=1, distance=0.0, final_stage="done"),)
    )


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
