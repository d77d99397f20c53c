"""Tests of strategy `ewc`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

import mygym
from mygym.errors import ConfigError
from mygym.planning.plan import plan_from_python
from mygym.strategies.ewc import EWC
from tests.training.test_resuming import config


class Linear(nn.Linear):
    """Policy of two parameters, with an optimiser."""

    def __init__(self) -> None:
        super().__init__(2, 1, bias=False)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def update(self, *gradient: float) -> None:
        self.weight.grad = torch.tensor([gradient])
        self.optimizer.step()


def test_the_penalty_draws_important_parameters_back() -> None:
    strategy, policy = EWC(weight=3.0), Linear()
    strategy.model = SimpleNamespace(policy=policy, device="cpu")  # type: ignore[assignment]
    strategy.prepare_model()
    start = policy.weight.detach().clone()
    policy.update(1.0, 3.0)
    policy.update(-1.0, 1.0)
    assert torch.allclose(policy.weight, start - 0.1 * torch.tensor([[0.0, 4.0]]))  # no penalty in the first task
    strategy._consolidate()
    assert strategy.importance.tolist() == pytest.approx([2 / 6, 10 / 6])  # squares of 2 and 10, divided by their mean
    anchors = policy.weight.detach().clone()
    with torch.no_grad():
        policy.weight += torch.tensor([[1.0, -2.0]])
    assert strategy.penalty() == pytest.approx(3 / 2 * (2 / 6 * 1 + 10 / 6 * 4))
    policy.update(0.0, 0.0)
    drawn = torch.tensor([[1.0 - 0.1 * 3 * 2 / 6, -2.0 + 0.1 * 3 * 10 / 6 * 2]])
    assert torch.allclose(policy.weight - anchors, drawn)
    assert torch.allclose(policy.weight, (strategy.anchors + drawn).view(1, 2))
    assert strategy.squares.tolist() == [0.0, 0.0]  # without the penalty
    strategy.squares, strategy.updates = torch.tensor([3.0, 1.0]), 1
    strategy._consolidate()
    assert strategy.importance.tolist() == pytest.approx([2 / 6 + 3 / 2, 10 / 6 + 1 / 2]), "for both tasks"


class Variants(BaseCallback):
    """Records the task of every env step."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[int] = []

    def _on_step(self) -> bool:
        self.tasks += [info["variant"] for info in self.locals["infos"]]
        return True


@pytest.mark.parametrize("algo", ["ppo", pytest.param("sac", marks=pytest.mark.slow)])
def test_tasks_are_trained_in_order_and_all_are_evaluated(algo: str, tmp_path: Path) -> None:
    changes = {}
    for weight in (0.0, 300.0):
        params = {"tasks": ["push", "reach"], "weight": weight}
        settings = config(algo, tmp_path / f"{weight}", strategy="ewc", strategy_params=params, steps=300)
        settings["eval"]["episodes"] = 2
        if algo == "sac":
            settings |= {"her": False, "algo_params": {"learning_starts": 20}}
        variants, plan = Variants(), plan_from_python(settings)
        result = mygym.train(plan, callbacks=[variants])
        tasks = variants.tasks
        assert set(tasks[:150]) == {0}
        assert set(tasks[-100:]) == {1}
        assert all(set(record["success_by_task"]) == {"push", "reach"} for record in result.evaluations)
        assert result.evaluations[0]["strategy"]["ewc"] == {"task": "push"}
        assert result.evaluations[-1]["strategy"]["ewc"] == {"task": "reach"}
        (strategy,) = plan.strategies
        changes[weight] = float((strategy.importance * (strategy._values() - strategy.anchors) ** 2).sum())
    assert 0.0 < changes[300.0] < 0.5 * changes[0.0]


def test_a_run_that_is_extended_goes_on_with_its_task(tmp_path: Path) -> None:
    variants, longer = Variants(), Variants()
    params = {"tasks": ["reach", {"task": "reach", "reward": "dense"}]}  # both with episodes of 20 steps
    settings = config("ppo", tmp_path, strategy="ewc", strategy_params=params, steps=96)
    run = mygym.train(settings, callbacks=[variants])
    assert set(variants.tasks) == {0, 1}
    mygym.train({"steps": 352}, resume=run.path, callbacks=[longer])  # half of them, 176, for each task
    assert (len(longer.tasks), set(longer.tasks)) == (256, {1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy_params": {"weight": -1.0}}, r"strategy_params\.weight: -1\.0 .*out of range.* 0"),
        ({"strategy_params": {"tasks": ["reach"]}}, "two tasks or more"),
        ({"strategy_params": {"sampler": "fair"}}, r"strategy_params\.sampler"),
        ({"algo": "trpo"}, "requires gradient steps of the actor; allowed: .*such as ppo or sac"),
        ({"algo": "ars"}, "requires actor optimizer"),
        ({"steps": 32}, r"steps: 32 is too few for 2 tasks with rollouts of 32 steps; allowed: 64 or more"),
    ],
)
def test_runs_that_cannot_be_protected_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config(settings.pop("algo", "ppo"), tmp_path, strategy="ewc", **settings))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_arm_is_remembered_while_another_is_learned(tmp_path: Path) -> None:
    """The second arm moves the same joints; without the penalty, the network forgets the first."""
    success = {}
    for weight in (0.0, 1.0):
        settings = {
            "algo": "ppo",
            "control": "joint_delta",
            "spaces": "own",
            "steps": 80_000,
            "stop_at_success": None,
            "strategy": "ewc",
            "strategy_params": {"tasks": [{"task": "reach"}, {"task": "reach", "robot": "kuka"}], "weight": weight},
            "eval": {"every": 40_000, "final_episodes": 60},
            "video": {"episodes": 0},
            "logdir": str(tmp_path / f"{weight}"),
        }
        success[weight] = mygym.train(settings).success_by_task
    assert success[0.0]["reach on kuka"] > 0.8
    assert min(success[1.0].values()) > max(0.8, success[0.0]["reach on panda"] + 0.15)
