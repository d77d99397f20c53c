"""Value-based learning: the target of double Q-learning, ε schedules, and two learners in one run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3.common.type_aliases import ReplayBufferSamples

import mygym
from benchmarks.kills import differences
from mygym.algos.ddqn import double_q_targets
from mygym.config import load_file
from mygym.errors import ConfigError
from mygym.registry import algorithm, implemented_combos, with_env
from mygym.training.checkpoints.checkpoints import Checkpoints
from tests.training.test_resuming import config, stopped

TwoPlayers: Any = algorithm("two_players").combo()[0]
example: Any = sys.modules[TwoPlayers.__module__]

DISCRETE: dict[str, Any] = {"actions": {"discrete": 3, "combined": True}}

ONLINE = torch.tensor([[1.0, 3.0, 2.0], [5.0, 4.0, 0.0]])
TARGET = torch.tensor([[9.0, 0.5, 7.0], [1.0, 8.0, 2.0]])


def test_the_online_network_selects_and_the_target_network_evaluates() -> None:
    """Values computed by hand; the maximum of the target network, as in `dqn`, would give 9 and 8."""
    rewards, dones = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [0.0]])
    batch = ReplayBufferSamples(torch.eye(2), torch.zeros(2, 1), torch.eye(2), dones, rewards)
    online, target = (torch.nn.Linear(2, 3, bias=False) for _ in range(2))
    online.weight.data, target.weight.data = ONLINE.T.clone(), TARGET.T.clone()
    assert double_q_targets(online, target, batch, 0.5).tolist() == [[1.25], [2.5]]
    at_end = batch._replace(dones=torch.ones(2, 1))
    assert double_q_targets(online, target, at_end, 0.5).tolist() == [[1.0], [2.0]]
    n_steps = batch._replace(discounts=torch.tensor([[0.25], [1.0]]))
    assert double_q_targets(online, target, n_steps, 0.5).tolist() == [[1.125], [3.0]]


def test_training_uses_these_targets() -> None:
    """An update by ddqn is that of dqn if the target network prefers the same actions, and else another update."""
    updates = []
    with gymnasium.make("mygym/Reach-v0", **DISCRETE) as env:
        for algo in ("dqn", "ddqn"):
            AlgoClass, args, kwargs = implemented_combos[algo]["pytorch"]  # noqa: N806
            small = {"buffer_size": 100, "learning_starts": 0, "seed": 0, "device": "cpu"}
            model: Any = AlgoClass(*with_env(args, env), **{**kwargs, **small})
            model._setup_learn(1_000)
            env.observation_space.seed(0)
            for number in range(27):
                before, after = (
                    {key: array[None] for key, array in env.observation_space.sample().items()} for _ in range(2)
                )
                model.replay_buffer.add(before, after, np.array([number]), np.ones(1), np.zeros(1), [{}])
            model.train(1, 16)
            same = [parameter.clone() for parameter in model.q_net.parameters()]
            for parameter in model.q_net_target.parameters():
                parameter.data.neg_()
            model.train(1, 16)
            updates.append((same, list(model.q_net.parameters())))
    (dqn_same, dqn_other), (ddqn_same, ddqn_other) = updates
    assert all(map(torch.equal, dqn_same, ddqn_same))
    assert not all(map(torch.equal, dqn_other, ddqn_other))


@pytest.mark.parametrize(
    ("schedule", "values"),
    {
        "linear": ({"schedule": "linear", "from": 1.0, "to": 0.0}, {0.25: 0.75, 1.0: 0.0}),
        "points": ({"schedule": "piecewise", "points": [[0, 1.0], [50, 0.2]]}, {0.25: 0.6, 0.75: 0.2}),
        "number": (0.3, {0.25: 0.3, 1.0: 0.3}),
    }.values(),
)
def test_exploration_follows_a_named_schedule(schedule: Any, values: dict[float, float]) -> None:
    AlgoClass, args, kwargs = implemented_combos["ddqn"]["pytorch"]  # noqa: N806
    with gymnasium.make("mygym/Reach-v0", **DISCRETE) as env:
        model: Any = AlgoClass(*with_env(args, env), **{**kwargs, "buffer_size": 100, "epsilon": schedule})
        model._setup_learn(100)
        for progress, expected in values.items():
            assert model.exploration_schedule(1 - progress) == pytest.approx(expected)


def test_the_schedule_is_saved_and_continued(tmp_path: Path) -> None:
    """The parametrised checks resume every algorithm; here the rate at the stop is neither the first nor the last."""
    epsilon = {"schedule": "linear", "from": 1.0, "to": 0.0}
    values = {"algo_params": {"epsilon": epsilon}, "steps": 120}
    reference = mygym.train(config("ddqn", tmp_path / "whole", **values))
    run = stopped(config("ddqn", tmp_path / "stopped", **values), step=90)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []
    assert load_file(run / "config.yaml")["algo_params"]["epsilon"] == epsilon


# Two players ----------------------------------------------------------------------------------------------------------

PLAYERS = {"algo_params": {"batch_size": 4, "memory_size": 60, "gradient_steps": 1}, "task_params": {"horizon": 5}}
PLAYERS |= {"steps": 120}
"""Updates of both players within a few episodes; memories that are full and overwritten."""


def newest_state(run: Path) -> Any:
    checkpoint = Checkpoints(run, keep=1).newest(pytest.fail)
    assert checkpoint is not None
    return checkpoint.state["algorithm"]


def test_both_players_are_saved_and_resumed(tmp_path: Path) -> None:
    """Networks, targets, optimisers and memories of both players are in the checkpoint, and equal after a stop."""
    reference = mygym.train(config("two_players", tmp_path / "whole", **PLAYERS))
    run = stopped(config("two_players", tmp_path / "stopped", **PLAYERS), step=90)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []
    state = newest_state(run)
    assert {"policy", "policy.optimizer", "chooser", "chooser.optimizer"} <= state["parameters"].keys()
    for name in ("policy", "chooser"):
        assert any(key.startswith("q_net_target.") for key in state["parameters"][name])
        assert state["parameters"][f"{name}.optimizer"]["state"]
    assert state["objects"]["memory"]["added"] == reference.steps > 60
    assert 4 < state["objects"]["chooser_memory"]["added"] <= reference.steps // 5
    with mygym.make_env(run) as env:
        model = TwoPlayers.load(run / "model.zip", env=env, device="cpu")
    for name, tensor in state["parameters"]["chooser"].items():
        assert torch.equal(model.chooser.state_dict()[name], torch.as_tensor(tensor))


def test_the_chooser_learns_which_goals_are_missed() -> None:
    """Its values of the cells approach the rewards that it has seen."""
    with gymnasium.make("mygym/Reach-v0", **DISCRETE) as env:
        start = env.reset(seed=0)[0]["observation"][None]
        model = TwoPlayers("MultiInputPolicy", env, device="cpu", seed=0)
    cells = np.arange(27)[:, None]
    misses = (cells % 2).astype(np.float32)
    model.chooser_memory.add({"start": start.repeat(27, 0), "choice": cells, "reward": misses})
    for _ in range(200):
        model._learn(model.chooser, example._of_chooser(model.chooser_memory.sample(64)))
    values = model.chooser.q_net(torch.as_tensor(start)).detach().numpy()[0]
    np.testing.assert_array_equal(values > 0.5, misses[:, 0] > 0.5)


def test_a_memory_keeps_the_newest_rows() -> None:
    memory = example.Memory(5)
    for first in (0, 3, 6):
        memory.add({"number": np.arange(first, first + 3)})
    assert sorted(memory.columns["number"]) == [4, 5, 6, 7, 8]
    other = example.Memory(5)
    other.load_state_dict(memory.state_dict())
    assert (other.added, other.columns["number"].tolist()) == (9, memory.columns["number"].tolist())
    assert set(memory.sample(100)["number"].tolist()) == {4, 5, 6, 7, 8}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"task": "push"}, "move the end effector alone"),
        ({"normalize": True}, "normalize must be false"),
        ({"actions": {"combined": False}}, "requires discrete actions"),
    ],
)
def test_what_the_players_cannot_play_is_refused(values: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        mygym.train(config("two_players", tmp_path, **values))


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["dqn", "qrdqn", "ddqn", "two_players"])
def test_reach_is_solved(algo: str, tmp_path: Path) -> None:
    result = mygym.train({"algo": algo, "logdir": str(tmp_path), "video": {"episodes": 0}, "tensorboard": False})
    assert result.success_rate >= 0.9
