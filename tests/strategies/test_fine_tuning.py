"""Strategies that train few parameters of a pretrained policy."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

import mygym
from mygym.errors import ConfigError
from mygym.planning.plan import plan_from_python
from mygym.registry import registry
from mygym.strategies.requirements import prepared
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from mygym.training.pretrained import load_pretrained
from mygym.training.result import Result
from tests.components import slow_except
from tests.training.runners import config as small
from tests.training.test_resuming import stopped

EVERY = ["ppo", "a2c", "sac", "td3", "ddpg", "tqc", "crossq", "ppo_runner", "dagger"]


class Adapter(NamedTuple):
    params: dict[str, Any]
    names: tuple[str, ...]
    """Added parameters of a layer."""
    count: Callable[[int, int], int]
    """Number of added values of a layer with `(outputs, inputs)`."""


ADAPTERS = {
    "lora": Adapter({"rank": 2}, ("lora_a", "lora_b"), lambda outputs, inputs: 2 * inputs + 2 * outputs),
    "ia3": Adapter({}, ("ia3",), lambda outputs, inputs: inputs),
    "bottleneck": Adapter(
        {"size": 2},
        ("bottleneck_down", "bottleneck_down_bias", "bottleneck_up", "bottleneck_up_bias"),
        lambda outputs, inputs: 2 * outputs + 2 + 2 * outputs + outputs,
    ),
}
QUICK = (("lora", "sac"), ("ia3", "ppo"), ("bottleneck", "ppo"))


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    if algo in ("ppo", "ppo_runner"):
        params: dict[str, Any] = {"n_steps": 20, "batch_size": 20}
    elif algo == "a2c":
        params = {"n_steps": 20}
    else:
        params = {} if algo == "dagger" else {"learning_starts": 60}
    return small(algo, logdir, **{"algo_params": params, **more})


def tensors(run: Result) -> dict[str, torch.Tensor]:
    """Trained tensors: not those of the normaliser, nor those of target networks, which follow the others."""
    saved = load_file(run.path / "policy.safetensors")
    left_out = ("normalizer.", "actor_target.", "critic_target.")
    return {name: value for name, value in saved.items() if not name.startswith(left_out)}


def changed(first: Result, second: Result) -> set[str]:
    a, b = tensors(first), tensors(second)
    return {name for name in a.keys() & b.keys() if not torch.equal(a[name], b[name])}


def is_running_statistic(name: str) -> bool:
    endings = (".mean", ".var", ".variance", ".steps", ".count", ".ra_mean", ".ra_var")
    return "running_" in name or "num_batches" in name or name.endswith(endings)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Return a function that trains an algorithm for a moment, once."""
    folder = tmp_path_factory.mktemp("sources")
    return cache(lambda algo: mygym.train(config(algo, folder, steps=80)))


@pytest.mark.parametrize("algo", slow_except(EVERY, ("ppo",).__contains__))
def test_bitfit_trains_the_biases_alone(algo: str, sources: Callable[[str], Result], tmp_path: Path) -> None:
    source = sources(algo)
    result = mygym.train(config(algo, tmp_path / "run", strategy="bitfit", pretrained=str(source.path), seed=1))
    different = {name for name in changed(source, result) if not is_running_statistic(name)}
    assert any(name.endswith("bias") for name in different)
    assert all(name.endswith(("bias", "log_std")) for name in different)


@pytest.mark.parametrize(("algo", "freeze"), [("ppo", ["mlp_extractor.*"]), ("recurrent_ppo", []), ("sac", ["*bias"])])
def test_bitfit_trains_each_bias_that_is_not_frozen(algo: str, freeze: list[str], tmp_path: Path) -> None:
    params = {} if algo == "sac" else {"algo_params": {"n_steps": 20, "batch_size": 20}}
    plan = plan_from_python(config(algo, tmp_path, strategy="bitfit", pretrained={"freeze": freeze}, **params))
    with contextlib.closing(make_vec_env(plan)) as env:
        model = build_model(plan, env)
        load_pretrained(plan, model, env)
        parameters = dict(model.policy.named_parameters())
        biases = {name for name in parameters if "bias" in name or name == "log_std"}
        expected = biases.difference(*(fnmatch.filter(parameters, pattern) for pattern in freeze))
        if expected:
            prepared(plan, env, model)
            assert {name for name, parameter in parameters.items() if parameter.requires_grad} == expected
        else:
            with pytest.raises(ConfigError, match=r"pretrained\.freeze: .* leaves strategy bitfit none to train"):
                prepared(plan, env, model)


@pytest.mark.parametrize(
    ("strategy", "algo"),
    slow_except([(strategy, algo) for strategy in ADAPTERS for algo in EVERY], QUICK.__contains__),
)
def test_adapters_train_the_added_parameters_alone(
    strategy: str, algo: str, sources: Callable[[str], Result], tmp_path: Path
) -> None:
    source, adapter = sources(algo), ADAPTERS[strategy]
    settings = {"strategy": strategy, "strategy_params": adapter.params, "pretrained": str(source.path), "seed": 1}
    result = mygym.train(config(algo, tmp_path / "run", **settings))
    assert {name for name in changed(source, result) if not is_running_statistic(name)} <= {"log_std"}
    added = {name: tensors(result)[name] for name in tensors(result).keys() - tensors(source).keys()}
    assert {name.rpartition(".")[2] for name in added} == set(adapter.names)
    for name in adapter.names:  # each begins with equal numbers, or is drawn
        assert any(value.unique().numel() > 1 for key, value in added.items() if key.endswith(f".{name}")), name
    layers = {name.rpartition(".")[0] for name in added}
    shapes = [tensors(source)[f"{layer}.weight"].shape for layer in layers]
    assert sum(value.numel() for value in added.values()) == sum(adapter.count(*shape) for shape in shapes)


def test_an_adapter_of_another_size_is_refused_by_its_setting(tmp_path: Path) -> None:
    source = mygym.train(config("ppo", tmp_path / "source", steps=40, strategy="lora", strategy_params={"rank": 2}))
    settings = {"strategy": "lora", "strategy_params": {"rank": 3}, "pretrained": str(source.path)}
    with pytest.raises(ConfigError, match=r"has .*lora_a \[2, .*\], and this run \[3, .*\]: other strategy_params"):
        mygym.train(config("ppo", tmp_path / "run", **settings))


@pytest.mark.parametrize("strategy", ADAPTERS)
def test_the_layers_of_adapters(strategy: str) -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    adapted: Any = registry("strategy").get(strategy).load()(**ADAPTERS[strategy].params).adapter()(layer)
    assert torch.equal(adapted(x), layer(x))
    assert {name for name, p in adapted.named_parameters() if p.requires_grad} == set(ADAPTERS[strategy].names)
    with torch.no_grad():
        for name in ADAPTERS[strategy].names:
            getattr(adapted, name).copy_(torch.randn(getattr(adapted, name).shape))
    expected = {
        "lora": lambda a: layer(x) + 2.0 * x @ a.lora_a.T @ a.lora_b.T,
        "ia3": lambda a: (x * a.ia3) @ layer.weight.T + layer.bias,
        "bottleneck": lambda a: (
            layer(x)
            + torch.relu(layer(x) @ a.bottleneck_down.T + a.bottleneck_down_bias) @ a.bottleneck_up.T
            + a.bottleneck_up_bias
        ),
    }
    assert torch.allclose(adapted(x), expected[strategy](adapted), atol=1e-5)


@pytest.mark.parametrize("strategy", slow_except(ADAPTERS, ("lora",).__contains__))
def test_adapters_begin_with_the_pretrained_policy_and_resume(
    strategy: str, sources: Callable[[str], Result], tmp_path: Path
) -> None:
    source = sources("ppo")
    settings = {"strategy": strategy, "pretrained": str(source.path)}
    params = {"learning_rate": 1e-30, "n_steps": 20, "batch_size": 20}
    frozen = config("ppo", tmp_path / "frozen", **settings, steps=40, algo_params=params)
    first = mygym.load(mygym.train(frozen).path).model.policy
    observation, _ = first.obs_to_tensor({k: space.sample() for k, space in first.observation_space.spaces.items()})
    original = mygym.load(source.path).model.policy
    assert torch.equal(first._predict(observation, True), original._predict(observation, True))
    whole = mygym.train(config("ppo", tmp_path / "whole", **settings))
    resumed = mygym.train(resume=stopped(config("ppo", tmp_path / "stopped", **settings), step=130))
    assert changed(whole, resumed) == set()


@pytest.mark.parametrize("strategy", ["bitfit", pytest.param("ia3", marks=pytest.mark.slow)])
def test_random_weights_are_noted(
    strategy: str, sources: Callable[[str], Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pretrained in (None, str(sources("ppo").path)):
        capsys.readouterr()
        mygym.train(config("ppo", tmp_path, strategy=strategy, pretrained={"path": pretrained}, steps=20))
        assert (f"strategy {strategy} without pretrained" in capsys.readouterr().err) == (pretrained is None)


@pytest.mark.parametrize(
    ("algo", "network"),
    [("sac", "critic"), ("td3", "actor"), ("dqn", "q_net"), ("ddqn", "q_net"), ("qrdqn", "quantile_net")],
)
def test_target_networks_begin_with_the_same_adapters(algo: str, network: str, tmp_path: Path) -> None:
    discrete = {"her": False, "actions": {"discrete": 3, "combined": True}} if network[0] == "q" else {}
    plan = plan_from_python(config(algo, tmp_path, strategy="lora", **discrete))
    with contextlib.closing(make_vec_env(plan)) as env:
        policy: Any = build_model(plan, env).policy
    target = getattr(policy, f"{network}_target").state_dict()
    assert any(name.endswith("lora_a") for name in target)
    assert all(torch.equal(value, target[name]) for name, value in getattr(policy, network).state_dict().items())


@pytest.mark.parametrize("strategy", slow_except(ADAPTERS, ("lora",).__contains__))
def test_what_an_adapter_learned_is_kept_or_refused(
    strategy: str, sources: Callable[[str], Result], tmp_path: Path
) -> None:
    adapted = {"strategy": strategy, "pretrained": str(sources("ppo").path)}
    first = mygym.train(config("ppo", tmp_path / "first", steps=40, **adapted))
    params = {"learning_rate": 1e-30, "n_steps": 20, "batch_size": 20}
    again = config("ppo", tmp_path / "again", steps=40, seed=1, pretrained=str(first.path), algo_params=params)
    added = {name for name in tensors(first) if name.rpartition(".")[2] in ADAPTERS[strategy].names}
    second = tensors(mygym.train({**again, "strategy": strategy}))
    assert added
    assert all(torch.allclose(tensors(first)[name], second[name]) for name in added)
    for other in ("standard", "bitfit"):
        with pytest.raises(ConfigError, match=rf"pretrained\.path: .* has action_net\..* with strategy: {strategy}$"):
            mygym.train({**again, "strategy": other})


@pytest.mark.parametrize("units", ["whole", "blocks"])
def test_the_adapters_of_a_mixture_act(units: str, tmp_path: Path) -> None:
    params = {"mixture": {"sampler": "fair", "units": units, "candidates": 2}}
    plan = plan_from_python(config("ppo", tmp_path, strategy="mixture+ia3", strategy_params=params))
    with contextlib.closing(make_vec_env(plan)) as env:
        policy: Any = build_model(plan, env).policy
        observation, _ = policy.obs_to_tensor({key: value for key, value in env.reset().items() if key != "route"})
    state = policy.forward_state
    for candidate in range(2):
        state.set_forward_state("single", path=[candidate] * state.layers)
        policy.get_distribution(observation).mode().sum().backward()
    trained = [p for name, p in policy.action_net.named_parameters() if name.endswith(".ia3") and "gate" not in name]
    assert len(trained) == 4
    assert all(p.grad is not None and p.grad.any() for p in trained)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "lora", "strategy_params": {"rank": 0}}, r"strategy_params\.rank: 0 "),
        ({"strategy": "bottleneck", "strategy_params": {"size": 0}}, r"strategy_params\.size: 0 "),
        ({"strategy": "lora", "algo": "sac", "framework": "jax"}, r"strategy: 'lora' cannot change the layers of"),
        ({"strategy": "bitfit", "algo": "ars"}, r"strategy: 'bitfit' requires actor optimizer"),
        ({"strategy": "bitfit", "algo": "trpo"}, r"strategy: 'bitfit' requires first order"),
        ({"strategy": "lora", "algo": "trpo"}, r"strategy: 'lora' requires first order"),
        ({"strategy": "ia3", "algo": "trpo"}, r"strategy: 'ia3' requires first order"),
        (
            {"strategy": "lora+ia3"},
            r"strategy: 'lora\+ia3' joins 2 strategies of fine-tuning: lora, ia3; .*one of them",
        ),
        ({"strategy": "bitfit+demos+lora", "algo": "sac"}, r"strategy: .* joins 2 strategies of .*: bitfit, lora"),
        ({"strategy": "lora+bitfit"}, r"strategy: 'lora\+bitfit' joins 2 strategies of .*: lora, bitfit"),
        (
            {"strategy": "lora+mixture+demos", "algo": "sac"},
            r"that mixture would replace; allowed: mixture\+demos\+lora",
        ),
    ],
)
def test_what_cannot_be_fine_tuned_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train({"steps": 40, "logdir": str(tmp_path), **settings})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["bitfit", *ADAPTERS])
def test_another_robot_is_learned(strategy: str, tmp_path: Path) -> None:
    """A policy of one arm is adapted to another arm."""
    source = mygym.train({"algo": "ppo", "video": {"episodes": 0}, "logdir": str(tmp_path / "source")})
    moved = {"algo": "ppo", "robot": "kuka", "video": {"episodes": 0}, "steps": 60_000}
    moved |= {"pretrained": str(source.path), "strategy": strategy, "logdir": str(tmp_path / "run")}
    assert mygym.train(moved).success_rate >= 0.9
