"""Several networks in one policy, with every algorithm whose networks can be replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mygym
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.runs import factory
from mygym.runs.policy import Policy, load_policy, save_policy
from mygym.runs.resolve_config import resolve_config
from mygym.runs.routed_vec_env import ROUTE
from mygym.runs.strategy_callback import StrategyCallback
from mygym.strategies.mixture.expert_policies import ExpertPolicy, actor_of, supernets
from mygym.strategies.requirements import prepared
from tests.components import ALGORITHMS, COMBOS
from tests.runs.test_resuming import config

REFUSED = ("ars", "cem", "recurrent_ppo")
POSSIBLE = [algo for algo in ALGORITHMS if algo not in REFUSED]
FAMILIES = ("ppo", "sac", "tqc", "td3", "crossq", "dagger")
"""One for each kind of policy whose networks are replaced in a way of its own."""


@contextmanager
def built(algo: str, params: dict[str, Any], **more: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Config, model and strategy of a small run, as a run builds them."""
    said: dict[str, Any] = {"task": "AG", "strategy": "experts", "strategy_params": params, **more}
    settled = resolve_config(overrides=config(algo, Path(), **said)).config
    with closing(factory.make_vec_env(settled)) as env:
        model = factory.build_model(settled, env)
        yield settled, model, prepared(settled, env, model)[-1]


def observations(model: Any, rows: int = 3) -> Any:
    seen = [model.get_env().reset() for _ in range(rows)]
    if isinstance(seen[0], dict):
        return {key: np.concatenate([one[key] for one in seen]) for key in seen[0] if key != ROUTE}
    return np.concatenate(seen)


@pytest.mark.parametrize(
    ("algo", "units"), [*((algo, "whole") for algo in POSSIBLE), *((algo, "blocks") for algo in FAMILIES)]
)
def test_what_is_saved_acts_as_what_was_trained(algo: str, units: str, tmp_path: Path) -> None:
    with built(algo, {"units": units}) as (settled, model, _):
        model.learn(48)
        assert isinstance(model.policy, ExpertPolicy)
        assert actor_of(model.policy).candidates == 2
        seen = observations(model)
        acts = model.predict(seen, deterministic=True)[0]
        model.save(tmp_path / "model.zip")
        again = factory.loadable(settled).load(tmp_path / "model.zip", env=model.get_env())
        np.testing.assert_array_equal(again.predict(seen, deterministic=True)[0], acts)
        assert again.policy.forward_state.candidates == 2
        save_policy(tmp_path / "policy.safetensors", model, None)
        fresh = factory.build_model(settled, model.get_env())
        policy: Policy = load_policy(tmp_path / "policy.safetensors", fresh)
        np.testing.assert_array_equal(policy.predict(seen)[0], acts)


@pytest.mark.parametrize("algo", FAMILIES)
def test_every_candidate_is_optimised_and_none_is_left_over(algo: str) -> None:
    with built(algo, {}) as (_, model, _strategy):
        optimizers = list(optimizers_of(model).values())
        known = [id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
        assert len(known) == len(set(known))
        own = {id(p) for name, p in model.policy.named_parameters() if "_target" not in name}
        assert set(known) == own
        for name in ("actor", "critic"):
            if hasattr(model.policy, f"{name}_target"):  # a target begins as what it follows
                network, target = (getattr(model.policy, one).state_dict() for one in (name, f"{name}_target"))
                assert all(torch.equal(network[key], value) for key, value in target.items())


def optimizers_of(model: Any) -> Mapping[str, torch.optim.Optimizer]:
    names = model._get_torch_save_params()[0]
    return {name: one for name in names if name.endswith("optimizer") and (one := attribute(model, name)) is not None}


def attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return None if path.startswith("ent_coef") else owner


@pytest.mark.parametrize(("algo", "framework"), [(a, f) for a, f in COMBOS if a in REFUSED or (a, f) == ("sac", "jax")])
def test_networks_that_it_does_not_know_are_refused(algo: str, framework: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"strategy: 'experts' replaces networks, .*allowed: an algorithm of framework"
    ):
        mygym.train(config(algo, tmp_path, framework, strategy="experts"))
    assert not list(tmp_path.iterdir())


# On-policy: the route is the rollout's --------------------------------------------------------------------------------

ROUTED: list[dict[str, Any]] = [
    {"by": "stage"},
    {"by": "sampler", "candidates": 3, "sampler": "uniform"},
    {"by": "sampler", "candidates": 3, "units": "blocks"},
    {"protocol": "gumbel_softmax", "candidates": 3, "units": "blocks", "tau": 2.0},
    {"protocol": "softmax", "candidates": 3},
]


@pytest.mark.parametrize("params", ROUTED, ids=str)
@pytest.mark.parametrize("algo", ["ppo", "ppo_runner"])
def test_ratios_are_1_before_the_first_step(algo: str, params: dict[str, Any], monkeypatch: Any) -> None:
    """What the update recomputes of a rollout is what the rollout was made with, in every row."""
    shown: list[torch.Tensor | None] = []

    def check(observed: Any, actions: torch.Tensor, log_probs: torch.Tensor, values: torch.Tensor) -> None:
        model.policy.set_training_mode(True)
        value, log_prob, _ = model.policy.evaluate_actions(observed, actions)
        torch.testing.assert_close((log_prob - log_probs).exp(), torch.ones(64), rtol=0, atol=1e-5)
        torch.testing.assert_close(value.flatten(), values, rtol=1e-4, atol=1e-5)
        shown.append(observed.get(ROUTE))
        if ROUTE in observed:  # it is the route that makes them equal
            shuffled = {**observed, ROUTE: observed[ROUTE].roll(16, 0)}
            assert not torch.allclose(model.policy.evaluate_actions(shuffled, actions)[1], log_probs)

    with built(algo, params, n_envs=4, normalize=True) as (_, model, strategy):
        if algo == "ppo":
            monkeypatch.setattr(model, "train", lambda: [check(*rows) for rows in as_rows(model)])
        else:
            monkeypatch.setattr(model, "_update", lambda r: check(r.observations, r.actions, r.log_probs, r.values))
        model.learn(128, StrategyCallback([strategy], lambda: None))
    assert len(shown) == 2
    assert (shown[0] is not None) == (params.get("by") == "sampler" or params.get("protocol") == "gumbel_softmax")


def as_rows(model: Any) -> list[tuple[Any, ...]]:
    batches = model.rollout_buffer.get(None)
    return [(one.observations, one.actions, one.old_log_prob, one.old_values) for one in batches]


def test_a_route_lasts_for_a_rollout() -> None:
    drawn: list[Any] = []

    class Noting(StrategyCallback):
        def _on_step(self) -> bool:
            drawn.append(self.locals["new_obs"][ROUTE].copy())
            return True

    with built("ppo", {"by": "sampler", "candidates": 5, "sampler": "uniform"}, n_envs=4) as (_, model, strategy):
        model.learn(128, Noting([strategy], lambda: None))
    rollouts = np.stack(drawn).reshape(2, 16, 4)
    assert (rollouts == rollouts[:, :1]).all()
    assert (rollouts[0] != rollouts[1]).any()


# Who is passed ------------------------------------------------------------------------------------

SEEN: list[tuple[str, dict[str, Any]]] = [
    ("ppo", {"normalize": False}),
    ("ppo", {"normalize": True}),
    ("sac", {"spaces": "shared"}),
    ("crossq", {}),
    ("dagger", {"spaces": "shared"}),
]


@pytest.mark.parametrize(("algo", "more"), SEEN, ids=str)
def test_the_stage_in_the_observation_decides(algo: str, more: dict[str, Any]) -> None:
    with built(algo, {}, **more) as (_, model, _strategy):
        env = model.get_env()
        stages, routes = [], []
        seen = env.reset()
        for _ in range(30):
            acts = [env.env_method("expert_action", indices=[row])[0] for row in range(2)]
            stages.append([one["stage"] for one in env.env_method("_info")])
            if algo == "dagger":
                model.policy.standardize({key: torch.as_tensor(part) for key, part in seen.items()})
            model.predict(seen)
            routes.append(routed(model, len(stages[-1])))
            seen = env.step(np.stack(acts))[0]
    assert {stage for row in stages for stage in row} >= {0, 1}
    assert routes == [[min(stage, 1) for stage in row] for row in stages]


def routed(model: Any, rows: int) -> list[int]:
    """Which expert each row of the last batch has passed."""
    (route,) = model.policy.forward_state.batch.routes
    if route.number is not None:
        return [route.number] * rows
    experts = np.repeat(np.arange(len(route.sizes)), route.sizes)
    return experts[np.argsort(route.order.numpy())].tolist()


@pytest.mark.parametrize("algo", ["ppo", "crossq"])
def test_the_task_in_the_observation_decides(algo: str) -> None:
    tasks = {"tasks": ["reach", "AG"], "identify": "one_hot"}
    params = {"multitask": tasks, "experts": {"by": "task"}}
    with built(algo, params, strategy="multitask+experts") as (_, model, _strategy):
        env = model.get_env()
        for _ in range(3):
            model.predict(env.reset())
            assert routed(model, 2) == env.get_attr("variant")


def test_gradients_reach_the_active_expert_alone() -> None:
    with built("sac", {"by": "sampler", "candidates": 3}) as (_, model, strategy):
        model._setup_learn(10)
        strategy.step()
        active = strategy.drawn[0, 0]
        seen = {key: torch.as_tensor(part) for key, part in observations(model).items()}
        model.actor.action_log_prob(seen)[1].sum().backward()
        (net,) = supernets(model.actor)
        for number, candidate in enumerate(net.layers[0].candidates):  # type: ignore[union-attr, arg-type]
            assert all((p.grad is not None) == (number == active) for p in candidate.parameters())


# Runs ------------------------------------------------------------------------------------


def test_a_run_says_how_much_each_expert_is_used(tmp_path: Path) -> None:
    result = mygym.train(
        config("ppo", tmp_path, strategy="experts", task="AG", strategy_params={"protocol": "softmax"})
    )
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    entropies = [line["strategy/usage_entropy"] for line in lines if "strategy/usage_entropy" in line]
    assert entropies
    assert all(0.0 < entropy <= 1.0 for entropy in entropies)


def test_a_sampled_run_acts_by_the_path_that_its_search_has_found(tmp_path: Path, monkeypatch: Any) -> None:
    """Of two networks the run acts by the one with which it has had more success."""
    from mygym.runs.session import Session

    asked: list[list[int]] = []
    usual = Session._evaluate

    def evaluated(self: Session, number: int, purpose: int = 1) -> Any:
        asked.append(self.model.policy.forward_state.path.tolist())
        evaluation = usual(self, number, purpose)
        if asked[-1] == [2]:
            object.__setattr__(evaluation.episodes[0], "success", True)
        return evaluation

    monkeypatch.setattr(Session, "_evaluate", evaluated)
    params = {"by": "sampler", "candidates": 3, "tries": 3}
    result = mygym.train(config("ppo", tmp_path, strategy="experts", strategy_params=params, stop_at_success=None))
    assert asked[-3:] == [[0], [1], [2]]
    for file in ("policy.safetensors", "model.zip"):
        acting: Any = mygym.load(result.path / file)
        assert acting.model.policy.forward_state.path.tolist() == [2]
    assert result.strategy == {"experts": {"path": [2]}}


def test_multippo_has_an_expert_for_each_stage() -> None:
    for task, experts in (("reach", 1), ("AG", 2)):
        settled = resolve_config(overrides=config("multippo", Path(), task=task)).config
        with closing(factory.make_vec_env(settled)) as env:
            assert factory.build_model(settled, env).policy.forward_state.candidates == experts


def test_what_an_algorithm_says_of_the_strategy_is_below_what_the_user_says() -> None:
    assert resolve_config(overrides={"algo": "multippo"}).config.strategy == "experts"
    assert resolve_config(overrides={"algo": "multippo"}).origins["strategy_params.by"] == "algorithm multippo"
    said = resolve_config(
        file={"strategy_params": {"units": "blocks"}}, said={"algo": "multippo"}
    ).config.strategy_params
    assert (said["units"], said["by"]) == ("blocks", "stage")
    both = resolve_config(overrides={"algo": "multippo", "strategy": "curriculum+experts", "task": "AG"}).config
    assert both.strategy_params["experts"]["by"] == "stage"
    for without in ("standard", "curriculum"):
        with pytest.raises(ConfigError, match=rf"strategy: '{without}' leaves out the strategy of multippo; .*\+{without}"):
            resolve_config(overrides={"algo": "multippo", "strategy": without})


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"protocol": "sum", "weights": [0.5, 0.6]}, {}, "strategy_params.weights: .*sum"),
    ({"protocol": "sum", "weights": [0.5, 0.5], "candidates": 3}, {}, "strategy_params.weights: .*3 numbers"),
    ({"weights": [1.0]}, {}, "strategy_params.weights: .*protocol sum"),
    ({"protocol": "gumbel_softmax", "tau": 0.0}, {}, "strategy_params.tau: 0.0"),
    ({"protocol": "gumbel_softmax", "tau_end": -1.0}, {}, "strategy_params.tau_end: -1.0"),
    ({"by": "tsak"}, {}, "strategy_params.by: 'tsak' .*did you mean 'task'"),
    ({"candidates": 0}, {}, "strategy_params.candidates: 0"),
    ({"candidates": []}, {}, r"strategy_params.candidates: \[\]"),
    ({"candidates": [["a"]]}, {}, r"strategy_params.candidates.0: \['a'\] .*sizes of its hidden layers"),
    ({"candidates": [[8], [0]]}, {}, r"strategy_params.candidates.1: \[0\]"),
    ({"candidates": ["a"]}, {}, "strategy_params.candidates.0: 'a'"),
    ({"candidates": 3}, {}, "strategy_params.candidates: 3 is not one for each stage; allowed: 2"),
    ({"candidates": [[8], [16]], "units": "blocks"}, {}, "strategy_params.candidates: .*units whole"),
    ({"protocol": "softmaxx"}, {}, "strategy_params.protocol"),
    ({"balance": 0.1}, {}, "strategy_params.balance: 0.1 is for learned gates"),
    ({}, {"observations": ["ee_position"]}, "strategy_params.by: 'stage' is not in the observation; .*stage, ee_pos"),
    (
        {"experts": {"by": "task"}},
        {"strategy": "multitask+experts", "task": "reach"},
        r"strategy_params\.experts\.by: 'task' is not in the observation; .*identify",
    ),
    ({"by": "sampler", "candidates": 2, "budget_us": 1.0}, {}, "strategy_params.budget_us: 1.0 is less than the fast"),
    ({}, {"algo_params": {"use_sde": True}}, "algo_params.use_sde"),
]


@pytest.mark.parametrize(("params", "more", "message"), WRONG, ids=str)
def test_wrong_parameters_are_refused(params: dict[str, Any], more: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config("ppo", tmp_path, **{"strategy": "experts", "task": "AG", "strategy_params": params, **more}))
    assert not list(tmp_path.iterdir())


def test_help_of_the_strategy_needs_no_torch(python: Any) -> None:
    done = python("-c", "import sys, mygym.strategies.mixture.mixture; assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr
    assert "experts" in registry("strategy").names()
