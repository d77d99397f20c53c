"""Repeated evaluation of a loss, and optimiser settings for parameter groups."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib import TQC, CrossQ, RecurrentPPO
from stable_baselines3 import A2C, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.training.optimization import GROUPS, loss_closure, parameter_groups


class Noisy(nn.Module):
    """Network with dropout that draws from all three global generators."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(len(inputs), 1) + random.random() + np.random.rand()  # noqa: NPY002
        outputs: torch.Tensor = self.layers(inputs) + 0.1 * noise
        return outputs


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    inputs = torch.randn(32, 4)
    return inputs, inputs.sum(dim=1, keepdim=True)


def global_draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), torch.rand(()).item()  # noqa: NPY002


def test_every_evaluation_draws_the_same_numbers(batch: Any) -> None:
    network = Noisy()
    closure = loss_closure(lambda: (network(batch[0]) - batch[1]).square().mean())
    values = [closure(backward=False).item() for _ in range(3)]
    global_draws()  # draws in between change nothing
    values.append(closure(backward=True).item())
    assert len(set(values)) == 1
    assert closure(backward=False).requires_grad is False
    other = loss_closure(lambda: (network(batch[0]) - batch[1]).square().mean())
    assert other(backward=False).item() != values[0]  # a new closure draws new numbers


@pytest.mark.parametrize("times", [1, 2, 5])
def test_generators_end_in_the_state_after_a_single_evaluation(times: int, batch: Any) -> None:
    network = Noisy()
    results = []
    for count in (1, times):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
        closure = loss_closure(lambda: network(batch[0]).mean())
        draws = []
        for _ in range(count):
            closure(backward=False)
        draws.append(global_draws())
        for _ in range(count - 1):  # after draws in between: the generators keep their state
            closure(backward=False)
        results.append([*draws, global_draws()])
    assert results[0] == results[1]


def test_gradients_are_cleared_and_clipped_with_an_optimizer(batch: Any) -> None:
    network = Noisy()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def loss() -> torch.Tensor:
        return 100 * (network(batch[0]) - batch[1]).square().mean()

    closure = loss_closure(loss, optimizer)
    closure()
    once = [parameter.grad.clone() for parameter in network.parameters()]
    closure()
    for gradient, parameter in zip(once, network.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=0, atol=0)
    closure(backward=False)  # keeps the gradients
    assert all((gradient == p.grad).all() for gradient, p in zip(once, network.parameters(), strict=True))
    norm = torch.stack([gradient.norm() for gradient in once]).norm().item()
    assert norm > 1
    loss_closure(loss, optimizer, max_grad_norm=1.0)()
    scaled = torch.stack([parameter.grad.norm() for parameter in network.parameters()]).norm().item()
    assert scaled == pytest.approx(1.0, rel=1e-4)
    bare = loss_closure(loss)
    bare()
    first = network.layers[0].weight.grad.clone()
    bare()
    assert not torch.equal(network.layers[0].weight.grad, first)  # gradients add up without an optimiser
    with pytest.raises(ValueError, match="needs an optimizer"):
        loss_closure(loss, max_grad_norm=1.0)


def test_closure_works_with_lbfgs(batch: Any) -> None:
    """Its line search needs a fixed function: with new dropout in each evaluation it would not descend."""
    network = Noisy()
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=20, line_search_fn="strong_wolfe")
    closure = loss_closure(lambda: (network(batch[0]) - batch[1]).square().mean(), optimizer)
    before = closure(backward=False).item()
    optimizer.step(closure)
    after = closure(backward=False).item()
    assert after < 0.1 * before


def test_closure_works_with_sharpness_aware_minimization(batch: Any) -> None:
    """Sharpness-aware minimisation (Foret et al., 2021): the gradient where the loss is worst nearby."""
    network = Noisy()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        closure = loss_closure(lambda: (network(batch[0]) - batch[1]).square().mean(), optimizer)
        losses.append(closure().item())
        with torch.no_grad():
            moves = [0.01 * parameter.grad.sign() for parameter in network.parameters()]
            for parameter, move in zip(network.parameters(), moves, strict=True):
                parameter += move
        assert closure().item() > losses[-1]  # uphill, by the same dropout
        with torch.no_grad():
            for parameter, move in zip(network.parameters(), moves, strict=True):
                parameter -= move
        optimizer.step()
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])


# Parameter groups ----------------------------------------------------------------------------------------------------


class Extractor(nn.Module):
    """Features extractor with a trainable layer."""

    features_dim = 7

    def __init__(self, observation_space: Any, size: int = 7) -> None:
        super().__init__()
        self.layer = nn.Linear(sum(subspace.shape[0] for subspace in observation_space.spaces.values()), size)

    def forward(self, observations: Any) -> torch.Tensor:
        features: torch.Tensor = self.layer(torch.cat(list(observations.values()), dim=1))
        return features


@pytest.fixture(scope="module")
def env() -> Iterator[DummyVecEnv]:
    env = DummyVecEnv([RobotEnv])
    yield env
    env.close()


def policy_of(cls: Any, env: Any, share: bool, **kwargs: Any) -> Any:
    name = "MultiInputLstmPolicy" if cls is RecurrentPPO else "MultiInputPolicy"
    networks = {"net_arch": [8], "features_extractor_class": Extractor, "share_features_extractor": share, **kwargs}
    sizes = {"buffer_size": 10} if cls in (SAC, TD3, TQC) else {"n_steps": 4}
    sizes |= {"batch_size": 4} if cls in (PPO, RecurrentPPO) else {}
    return cls(name, env, policy_kwargs=networks, device="cpu", **sizes).policy


def names_of(policy: nn.Module, groups: list[dict[str, Any]]) -> dict[str, list[str]]:
    names = {id(parameter): name for name, parameter in policy.named_parameters()}
    return {group["name"]: [names[id(parameter)] for parameter in group["params"]] for group in groups}


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("cls", [PPO, A2C, RecurrentPPO, SAC, TD3, TQC])
def test_every_parameter_is_in_exactly_one_group(cls: Any, share: bool, env: Any) -> None:
    policy = policy_of(cls, env, share)
    groups = names_of(policy, parameter_groups(policy, {}))
    grouped = [name for names in groups.values() for name in names]
    assert len(grouped) == len(set(grouped))
    left = {name for name, _ in policy.named_parameters()} - set(grouped)
    assert all("_target" in name for name in left)
    assert bool(left) == (cls in (SAC, TD3, TQC))
    extractors = [name for name in grouped if "features_extractor" in name]
    assert groups["encoder"] == extractors
    assert len(extractors) == (2 if share else 4)
    assert set(groups) == set(GROUPS if cls is not TD3 else GROUPS[:3])
    assert all("critic" in name or "value" in name for name in groups["critic"])
    assert not any("critic" in name or "value" in name for name in groups["actor"])
    assert all("log_std" in name for name in groups.get("log_std", []))


def test_parameter_groups_of_off_policy_modules(env: Any) -> None:
    policy = policy_of(SAC, env, share=False)
    actor, critic = (names_of(module, parameter_groups(module, {})) for module in (policy.actor, policy.critic))
    assert set(actor) == {"encoder", "actor", "log_std"}
    assert set(critic) == {"encoder", "critic"}
    assert sum(map(len, critic.values())) == len(list(policy.critic.parameters()))
    flat = CrossQ("MlpPolicy", DummyVecEnv([lambda: RobotEnv(goal_env=False)]), buffer_size=10, device="cpu").policy
    assert set(names_of(flat.critic, parameter_groups(flat.critic, {}))) == {"critic"}


def test_groups_have_separate_settings(env: Any) -> None:
    policy = policy_of(PPO, env, share=True)
    groups = parameter_groups(policy, {"critic": {"lr": 0.5, "weight_decay": 0.1}, "log_std": {"lr": 0.25}})
    optimizer = torch.optim.Adam(groups, lr=0.125)
    rates = {group["name"]: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups}
    assert rates == {"encoder": (0.125, 0), "actor": (0.125, 0), "critic": (0.5, 0.1), "log_std": (0.25, 0)}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"critc": {"lr": 1e-3}}, r"groups\.critc.*not a parameter group of a policy.*did you mean 'critic'"),
        ({"critic": {"learning_rate": 1e-3}}, r"groups\.critic\.learning_rate.*not a parameter of Adam"),
        ({"critic": {"lr": 0}}, r"groups\.critic\.lr: 0"),
        ({"critic": {"lr": "fast"}}, r"groups\.critic\.lr: 'fast'"),
        ({"critic": {"lr": True}}, r"groups\.critic\.lr: True"),
        ({"critic": {"lr": float("nan")}}, r"groups\.critic\.lr: nan"),
        ({"actor": {"weight_decay": -1}}, r"groups\.actor\.weight_decay: -1"),
        ({"actor": 0.5}, r"groups\.actor: 0.5 is not a mapping"),
    ],
)
def test_invalid_settings_are_refused(settings: Any, words: str, env: Any) -> None:
    with pytest.raises(ConfigError, match=words):
        parameter_groups(policy_of(PPO, env, share=True), settings)


def test_group_without_parameters_is_refused(env: Any) -> None:
    policy = PPO("MultiInputPolicy", env, n_steps=4, batch_size=4, device="cpu").policy  # its extractor only flattens
    with pytest.raises(ConfigError, match=r"groups\.encoder.*allowed: actor, critic"):
        parameter_groups(policy, {"encoder": {"lr": 1e-3}})
