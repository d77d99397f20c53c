"""Tests of strategy `reptile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import mygym
from mygym.errors import ConfigError
from mygym.strategies import register_strategy
from mygym.strategies.reptile import Reptile
from tests.training.test_resuming import config

TASKS = [{"task_params": {"tolerance": tolerance}} for tolerance in (0.05, 0.1, 0.2)]


class Watched(Reptile):
    """Records the weights before and after each iteration begins.

    Args:
        tasks: Tasks.
        inner: Rollouts of a task.
        step: Share of the way.
    """

    seen: list[tuple[int, torch.Tensor, torch.Tensor]]
    ends: list[torch.Tensor]

    def __init__(self, *, tasks: list[Any] | None = None, inner: int = 4, step: float = 0.5) -> None:
        super().__init__(tasks=tasks, inner=inner, step=step)
        type(self).seen, type(self).ends = [], []

    def begin_iteration(self) -> None:
        before = torch.cat([p.detach().flatten() for p in self.model.policy.parameters()]).clone()
        super().begin_iteration()
        after = torch.cat([p.detach().flatten() for p in self.model.policy.parameters()]).clone()
        self.seen.append((self.index, before, after))

    def finish(self, judge: Any) -> None:
        self.ends.append(torch.cat([p.detach().flatten() for p in self.model.policy.parameters()]).clone())
        super().finish(judge)


def test_the_weights_move_part_of_the_way_after_each_task(tmp_path: Path) -> None:
    register_strategy("watched")(Watched)
    params = {"tasks": TASKS, "inner": 2, "step": 0.25}
    result = mygym.train(config("ppo", tmp_path, strategy="watched", strategy_params=params, steps=32 * 7))
    assert [index for index, _, _ in Watched.seen] == [0, 0, 1, 1, 2, 2, 0]
    start = Watched.seen[0][1]
    for number, (_, before, after) in enumerate(Watched.seen):
        if number in (2, 4, 6):
            assert not torch.equal(before, start)
            start = start + 0.25 * (before - start)
            assert torch.allclose(after, start, atol=1e-7)
        else:
            assert torch.equal(after, before)
    # the last task has a single rollout; the saved policy is part of the way towards it
    (end,) = Watched.ends
    assert not torch.allclose(end, start, atol=1e-4)
    saved = torch.cat([p.detach().flatten() for p in mygym.load(result.path).model.policy.parameters()])
    assert torch.allclose(saved, start + 0.25 * (end - start), atol=1e-7)


@pytest.mark.slow
def test_the_next_episodes_are_of_the_task_alone(tmp_path: Path) -> None:
    played: list[tuple[int, int]] = []

    class Counted(Watched):
        """Records the task of each episode."""

        def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
            played.append((self.index, variant))

    register_strategy("counted")(Counted)
    params = {"tasks": TASKS[:2], "inner": 4}
    settings = config("ppo", tmp_path, strategy="counted", strategy_params=params, steps=32 * 8)
    mygym.train({**settings, "task_params": {"horizon": 8}})
    assert {index for index, _ in played} == {0, 1}
    late = [pair for pair in played if pair[0] != pair[1]]
    assert len(late) <= settings["n_envs"]  # episodes that had begun when the task changed
    assert len(played) > 4 * len(late)


@pytest.mark.parametrize(
    ("algo", "values", "message"),
    [
        ("sac", {}, r"strategy: 'reptile' requires updates from the latest rollout alone; allowed: an on-policy"),
        ("ppo", {"strategy_params": {"inner": 0}}, r"strategy_params\.inner: 0 "),
        ("ppo", {"strategy_params": {"step": 1.5}}, r"strategy_params\.step: 1\.5 .*out of range.* 1"),
        ("ppo", {"strategy_params": {"inner": 9}}, r"steps: 96 is too few for 9 rollouts .*576 or more"),
    ],
)
def test_runs_that_cannot_be_trained_are_refused(
    algo: str, values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config(algo, tmp_path, strategy="reptile", steps=96, **values))
    assert not list(tmp_path.iterdir())
