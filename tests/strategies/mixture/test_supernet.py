"""Tests of super-networks: outputs of each protocol, with whole networks and with blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mygym.errors import ConfigError
from mygym.strategies.mixture.routing import Units, usage_entropy
from mygym.strategies.mixture.supernet import ForwardState, SuperNet

K, ROWS = 3, 7
DEPTHS: dict[Units, int] = {"whole": 1, "blocks": 2}
UNITS: tuple[Units, ...] = tuple(DEPTHS)


def networks(count: int = K) -> list[nn.Sequential]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)) for _ in range(count)]


def make_net(units: Units) -> tuple[SuperNet, list[nn.Sequential], torch.Tensor]:
    candidates = networks()
    net = SuperNet(candidates, units, ForwardState(K, DEPTHS[units]))
    nn.init.normal_(net.gate.weight)
    nn.init.normal_(net.gate.bias)
    return net, candidates, torch.randn(ROWS, 4)


def by_hand(candidates: list[nn.Sequential], units: Units, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the sum of outputs with weights `(n, depth, K)`."""
    if units == "whole":
        return sum(weights[:, 0, k, None] * net(x) for k, net in enumerate(candidates))  # type: ignore[return-value]
    hidden = torch.tanh(sum(weights[:, 0, k, None] * net[0](x) for k, net in enumerate(candidates)))  # type: ignore[arg-type]
    return sum(weights[:, 1, k, None] * net[2](hidden) for k, net in enumerate(candidates))  # type: ignore[return-value]


@pytest.mark.parametrize("units", UNITS)
def test_single_uses_the_candidate_of_the_path(units: Units) -> None:
    net, candidates, x = make_net(units)
    path = [2] if units == "whole" else [2, 1]
    net.state.set_forward_state("single", path=path)
    weights = torch.eye(K)[path].expand(ROWS, -1, -1)
    torch.testing.assert_close(net(x), by_hand(candidates, units, x, weights))


@pytest.mark.parametrize("units", UNITS)
def test_single_routes_each_row(units: Units) -> None:
    net, candidates, x = make_net(units)
    numbers = torch.randint(K, (ROWS, net.depth))
    net.state.route(numbers)
    torch.testing.assert_close(net(x), by_hand(candidates, units, x, torch.eye(K)[numbers]))
    net.state.route(torch.full((ROWS, 1), 1))  # one candidate for all layers
    torch.testing.assert_close(net(x), candidates[1](x))


@pytest.mark.parametrize("units", UNITS)
def test_sum_uses_given_weights(units: Units) -> None:
    net, candidates, x = make_net(units)
    given = torch.tensor([0.2, 0.5, 0.3])
    net.state.set_forward_state("sum", weights=given)
    torch.testing.assert_close(net(x), by_hand(candidates, units, x, given.expand(ROWS, net.depth, -1)))


@pytest.mark.parametrize("units", UNITS)
def test_softmax_uses_the_weights_of_the_gate(units: Units) -> None:
    net, candidates, x = make_net(units)
    net.state.set_forward_state("softmax")
    scores = (x @ net.gate.weight.T + net.gate.bias).view(ROWS, net.depth, K)
    torch.testing.assert_close(net(x), by_hand(candidates, units, x, scores.softmax(-1)))


@pytest.mark.parametrize("units", UNITS)
def test_gumbel_softmax_uses_noise_in_training_and_the_temperature(units: Units) -> None:
    net, candidates, x = make_net(units)
    net.state.set_forward_state("gumbel_softmax", tau=0.5)
    scores = (x @ net.gate.weight.T + net.gate.bias).view(ROWS, net.depth, K)
    net.state.noise = noise = torch.randn(net.depth, K)
    torch.testing.assert_close(net(x), by_hand(candidates, units, x, ((scores + noise) / 0.5).softmax(-1)))
    net.eval()
    torch.testing.assert_close(net(x), by_hand(candidates, units, x, (scores / 0.5).softmax(-1)))
    net.state.batch.noise = rows = torch.randn(ROWS, net.depth, K)  # noise of the batch is used in evaluation mode too
    torch.testing.assert_close(net(x), by_hand(candidates, units, x, ((scores + rows) / 0.5).softmax(-1)))


@pytest.mark.parametrize("units", UNITS)
def test_only_used_candidates_have_gradients(units: Units) -> None:
    net, candidates, x = make_net(units)
    net.state.route(torch.tensor([[0], [2]] * 3 + [[0]]))
    net(x).sum().backward()
    assert all(p.grad is not None for k in (0, 2) for p in candidates[k].parameters())
    assert all(p.grad is None for p in candidates[1].parameters())
    assert net.gate.weight.grad is None


def test_only_used_candidates_are_computed() -> None:
    net, candidates, x = make_net("whole")
    calls: list[int] = []
    for number, candidate in enumerate(candidates):
        candidate.register_forward_hook(lambda *_, number=number: calls.append(number))
    net.state.set_forward_state("single", path=[1])
    net(x)
    assert calls == [1]


def test_batch_statistics_use_all_rows() -> None:
    from sb3_contrib.common.torch_layers import BatchRenorm1d

    torch.manual_seed(0)
    candidates = [nn.Sequential(BatchRenorm1d(4), nn.Linear(4, 2)) for _ in range(2)]
    net, x = SuperNet(candidates, "whole", ForwardState(2, 1)), torch.randn(ROWS, 4)
    net.state.route(torch.tensor([[0]] * (ROWS - 1) + [[1]]))
    out = net(x)
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out[-1], candidates[1](x)[-1])


def test_a_saved_forward_state_is_loaded() -> None:
    net, _, x = make_net("blocks")
    net.state.set_forward_state("single", path=[1, 2], tau=0.3)
    other, *_ = make_net("blocks")
    other.load_state_dict(net.state_dict())
    other.state.load_state_dict(net.state.state_dict())
    torch.testing.assert_close(other(x), net(x))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"protocol": "doubel"}, "protocol: 'doubel'"),
    ({"protocol": "sum", "weights": [0.5, 0.4, 0.0]}, "weights: .*do not sum to 1"),
    ({"protocol": "sum", "weights": [1.5, -0.5, 0.0]}, "weights: .*0 or more"),
    ({"protocol": "sum", "weights": [1.0]}, "weights: .*3 numbers"),
    ({"protocol": "gumbel_softmax", "tau": 0.0}, "tau: 0.0"),
    ({"protocol": "gumbel_softmax", "tau": float("nan")}, "tau: nan"),
    ({"protocol": "single", "path": [3]}, "path: .*0 to 2"),
]


@pytest.mark.parametrize(("values", "message"), WRONG, ids=str)
def test_invalid_forward_states_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_net("whole")[0].state.set_forward_state(**values)


def test_invalid_candidates_are_refused() -> None:
    with pytest.raises(ConfigError, match="candidates: 0"):
        SuperNet([], "whole", ForwardState(K, 1))
    larger = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 2))
    state = ForwardState(2, 1)
    assert SuperNet([*networks(1), larger], "whole", state).depth == 1
    with pytest.raises(ConfigError, match="units: 'blocks'"):
        SuperNet([*networks(1), larger], "blocks", state)


def test_entropy_of_usage_is_between_0_and_1() -> None:
    assert usage_entropy(np.full((2, 4), 0.25)) == pytest.approx(1.0)
    assert usage_entropy(np.eye(4)[:2]) == 0.0
    assert usage_entropy(np.array([[0.5, 0.5, 0.0, 0.0]])) == pytest.approx(0.5)


def test_the_importance_loss_rebalances_a_collapsed_gate() -> None:
    net, _, x = make_net("whole")
    nn.init.zeros_(net.gate.weight)
    net.gate.bias.data = torch.tensor([4.0, 0.0, 0.0])
    net.state.set_forward_state("softmax")
    net(x)
    weights = torch.tensor([4.0, 0.0, 0.0]).softmax(0)
    loss = net.balance_loss()
    assert loss is not None
    assert loss.item() == pytest.approx(float(weights.var(correction=0) / weights.mean() ** 2), rel=1e-5)
    optimizer = torch.optim.Adam(net.gate.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        net.balance_loss().backward()  # type: ignore[union-attr]
        optimizer.step()
    assert usage_entropy(net.usage().numpy()) > 0.95  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "value"), [("number", 9), ("number", -1), ("path", 3), ("path", -1), ("tau", 0.0)])
def test_invalid_saved_states_are_not_loaded(name: str, value: float) -> None:
    policy = nn.ModuleDict({"forward_state": ForwardState(K, 1)})
    saved = policy.state_dict()
    saved[f"forward_state.{name}"] = torch.full_like(saved[f"forward_state.{name}"], value)
    with pytest.raises(RuntimeError, match="forward_state is not a valid state of 3 candidates"):
        policy.load_state_dict(saved)
