"""Tests of strategy `mixture` with every algorithm whose networks can be replaced."""

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
from mygym.planning.resolve import resolve_config
from mygym.registry import registry
from mygym.strategies.mixture.policies import MixturePolicy, acting_supernet, supernets
from mygym.strategies.requirements import prepared
from mygym.training import env_factory, model_factory
from mygym.training.policy import Policy, load_policy, save_policy
from mygym.training.run_callbacks import StrategyCallback
from mygym.training.vec_wrappers import ROUTE
from tests.components import ALGORITHMS, COMBOS, slow_except
from tests.training.test_resuming import config

REFUSED = ("ars", "cem", "recurrent_ppo", "dqn", "qrdqn", "ddqn", "two_players", "xqc")
POSSIBLE = [algo for algo in ALGORITHMS if algo not in REFUSED]
FAMILIES = ("ppo", "sac", "tqc", "td3", "crossq", "dagger")
"""One algorithm for each kind of policy, see `mygym.strategies.mixture.policies`."""


@contextmanager
def built(algo: str, params: dict[str, Any], **more: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield config, model and strategy of a small run."""
    overrides: dict[str, Any] = {"task": "AG", "strategy": "mixture", "strategy_params": params, **more}
    resolved = resolve_config(overrides=config(algo, Path(), **overrides)).config
    with closing(env_factory.make_vec_env(resolved)) as env:
        model = model_factory.build_model(resolved, env)
        yield resolved, model, prepared(resolved, env, model)[-1]


def observations(model: Any, rows: int = 3) -> Any:
    resets = [model.get_env().reset() for _ in range(rows)]
    if isinstance(resets[0], dict):
        return {key: np.concatenate([reset[key] for reset in resets]) for key in resets[0] if key != ROUTE}
    return np.concatenate(resets)


@pytest.mark.parametrize(
    ("algo", "units"),
    slow_except(
        [*((algo, "whole") for algo in POSSIBLE), *((algo, "blocks") for algo in FAMILIES)],
        lambda case: case[0] in FAMILIES and case[1] == ("blocks" if FAMILIES.index(case[0]) % 2 else "whole"),
    ),
)
def test_saved_models_and_policies_predict_the_same_actions(algo: str, units: str, tmp_path: Path) -> None:
    with built(algo, {"units": units}) as (resolved, model, _):
        model.learn(48)
        assert isinstance(model.policy, MixturePolicy)
        assert acting_supernet(model.policy).candidates == 2
        batch = observations(model)
        actions = model.predict(batch, deterministic=True)[0]
        model.save(tmp_path / "model.zip")
        loaded = model_factory.loadable(resolved, model.get_env()).load(tmp_path / "model.zip", env=model.get_env())
        np.testing.assert_array_equal(loaded.predict(batch, deterministic=True)[0], actions)
        assert loaded.policy.forward_state.candidates == 2
        save_policy(tmp_path / "policy.safetensors", model, None)
        fresh = model_factory.build_model(resolved, model.get_env())
        policy: Policy = load_policy(tmp_path / "policy.safetensors", fresh)
        np.testing.assert_array_equal(policy.predict(batch)[0], actions)


@pytest.mark.parametrize("algo", FAMILIES)
def test_optimisers_have_the_parameters_of_all_candidates_once(algo: str) -> None:
    with built(algo, {}) as (_, model, _strategy):
        optimizers = list(optimizers_of(model).values())
        known = [id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
        assert len(known) == len(set(known))
        trainable = {id(p) for name, p in model.policy.named_parameters() if "_target" not in name}
        assert set(known) == trainable
        for name in ("actor", "critic"):
            if hasattr(model.policy, f"{name}_target"):  # targets start as copies
                network, target = (getattr(model.policy, n).state_dict() for n in (name, f"{name}_target"))
                assert all(torch.equal(network[key], value) for key, value in target.items())


def optimizers_of(model: Any) -> Mapping[str, torch.optim.Optimizer]:
    names = model._get_torch_save_params()[0]
    return {n: value for n in names if n.endswith("optimizer") and (value := attribute(model, n)) is not None}


def attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return None if path.startswith("ent_coef") else owner


@pytest.mark.parametrize(("algo", "framework"), [(a, f) for a, f in COMBOS if a in REFUSED or (a, f) == ("sac", "jax")])
def test_unsupported_policies_are_refused(algo: str, framework: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="strategy: 'mixture'"):
        mygym.train(config(algo, tmp_path, framework, strategy="mixture"))
    assert not list(tmp_path.iterdir())


# On-policy: updates use the routes of the rollout ------------------------------------------------------------------

ROUTED: list[dict[str, Any]] = [
    {"by": "stage"},
    {"by": "sampler", "candidates": 3, "sampler": "uniform"},
    {"by": "sampler", "candidates": 3, "units": "blocks"},
    {"protocol": "gumbel_softmax", "candidates": 3, "units": "blocks", "tau": 2.0},
    {"protocol": "softmax", "candidates": 3},
]


@pytest.mark.parametrize(
    ("algo", "params"),
    slow_except(
        [(algo, params) for algo in ("ppo", "ppo_runner") for params in ROUTED],
        lambda case: case[0] == "ppo" or case[1] == ROUTED[2],
    ),
    ids=str,
)
def test_ratios_are_1_before_the_first_step(algo: str, params: dict[str, Any], monkeypatch: Any) -> None:
    """The first update recomputes the probabilities and values of the rollout in every row."""
    routes: list[torch.Tensor | None] = []

    def check(observed: Any, actions: torch.Tensor, log_probs: torch.Tensor, values: torch.Tensor) -> None:
        model.policy.set_training_mode(True)
        value, log_prob, _ = model.policy.evaluate_actions(observed, actions)
        torch.testing.assert_close((log_prob - log_probs).exp(), torch.ones(64), rtol=0, atol=1e-5)
        torch.testing.assert_close(value.flatten(), values, rtol=1e-4, atol=1e-5)
        routes.append(observed.get(ROUTE))
        if ROUTE in observed:  # with other routes they differ
            shuffled = {**observed, ROUTE: observed[ROUTE].roll(16, 0)}
            assert not torch.allclose(model.policy.evaluate_actions(shuffled, actions)[1], log_probs)

    with built(algo, params, n_envs=4, normalize=True) as (_, model, strategy):
        if algo == "ppo":
            monkeypatch.setattr(model, "train", lambda: [check(*rows) for rows in as_rows(model)])
        else:
            monkeypatch.setattr(model, "_update", lambda r: check(r.observations, r.actions, r.log_probs, r.values))
        model.learn(128, StrategyCallback([strategy], lambda: None))
    assert len(routes) == 2
    assert (routes[0] is not None) == (params.get("by") == "sampler" or params.get("protocol") == "gumbel_softmax")


def as_rows(model: Any) -> list[tuple[Any, ...]]:
    batches = model.rollout_buffer.get(None)
    return [(batch.observations, batch.actions, batch.old_log_prob, batch.old_values) for batch in batches]


def test_routes_change_between_rollouts_only() -> None:
    drawn: list[Any] = []

    class RouteRecorder(StrategyCallback):
        def _on_step(self) -> bool:
            drawn.append(self.locals["new_obs"][ROUTE].copy())
            return True

    with built("ppo", {"by": "sampler", "candidates": 5, "sampler": "uniform"}, n_envs=4) as (_, model, strategy):
        model.learn(128, RouteRecorder([strategy], lambda: None))
    rollouts = np.stack(drawn).reshape(2, 16, 4)
    assert (rollouts == rollouts[:, :1]).all()
    assert (rollouts[0] != rollouts[1]).any()


# Routing by observation ------------------------------------------------------------------------------------

OBSERVED: list[tuple[str, dict[str, Any]]] = [
    ("ppo", {"normalize": False}),
    ("ppo", {"normalize": True}),
    ("sac", {"spaces": "shared"}),
    ("crossq", {}),
    ("dagger", {"spaces": "shared"}),
]


@pytest.mark.parametrize(("algo", "more"), OBSERVED, ids=str)
def test_the_stage_in_the_observation_selects_the_candidate(algo: str, more: dict[str, Any]) -> None:
    with built(algo, {}, **more) as (_, model, _strategy):
        env = model.get_env()
        stages, routes = [], []
        observation = env.reset()
        for _ in range(30):
            actions = [env.env_method("expert_action", indices=[row])[0] for row in range(2)]
            stages.append([int(progress.stage[0]) for progress in env.get_attr("progress")])
            if algo == "dagger":
                model.policy.standardize({key: torch.as_tensor(array) for key, array in observation.items()})
            model.predict(observation)
            routes.append(routed(model, len(stages[-1])))
            observation = env.step(np.stack(actions))[0]
    assert {stage for row in stages for stage in row} >= {0, 1}
    assert routes == [[min(stage, 1) for stage in row] for row in stages]


def routed(model: Any, rows: int) -> list[int]:
    """Return the candidate of each row of the last batch."""
    (route,) = model.policy.forward_state.batch.routes
    if route.number is not None:
        return [route.number] * rows
    candidates = np.repeat(np.arange(len(route.sizes)), route.sizes)
    return candidates[np.argsort(route.order.numpy())].tolist()


def test_a_stage_that_has_not_changed_selects_its_candidate() -> None:
    with built("ppo", {}, engine="fused", spaces="shared", normalize=True, n_envs=8) as (_, model, _strategy):
        env, rng = model.get_env(), np.random.default_rng(0)
        observation, routes, stages = env.reset(), [], set()
        for _ in range(20):
            model.predict(observation)
            routes.append(routed(model, 8))
            observation, _, _, infos = env.step(rng.uniform(-1, 1, (8, *env.action_space.shape)).astype(np.float32))
            stages |= {info["stage"] for info in infos}
    assert stages == {0}
    assert routes == [[0] * 8] * 20


@pytest.mark.parametrize("algo", ["ppo", "crossq"])
def test_the_task_in_the_observation_selects_the_candidate(algo: str) -> None:
    tasks = {"tasks": ["reach", "AG"], "identify": "one_hot"}
    params = {"multitask": tasks, "mixture": {"by": "task"}}
    with built(algo, params, strategy="multitask+mixture") as (_, model, _strategy):
        env = model.get_env()
        for _ in range(3):
            model.predict(env.reset())
            assert routed(model, 2) == env.get_attr("variant")


def test_only_the_active_candidate_has_gradients() -> None:
    with built("sac", {"by": "sampler", "candidates": 3}) as (_, model, strategy):
        model._setup_learn(10)
        strategy.begin_iteration()
        active = strategy.sampler.drawn[0, 0]
        batch = {key: torch.as_tensor(array) for key, array in observations(model).items()}
        model.actor.action_log_prob(batch)[1].sum().backward()
        (net,) = supernets(model.actor)
        for number, candidate in enumerate(net.layers[0].candidates):  # type: ignore[union-attr, arg-type]
            assert all((p.grad is not None) == (number == active) for p in candidate.parameters())


# Runs ------------------------------------------------------------------------------------


def test_a_run_logs_the_usage_entropy(tmp_path: Path) -> None:
    result = mygym.train(
        config("ppo", tmp_path, strategy="mixture", task="AG", strategy_params={"protocol": "softmax"})
    )
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    entropies = [line["strategy/usage_entropy"] for line in lines if "strategy/usage_entropy" in line]
    assert entropies
    assert all(0.0 < entropy <= 1.0 for entropy in entropies)


def test_a_sampled_run_saves_the_best_path_of_its_search(tmp_path: Path, monkeypatch: Any) -> None:
    """The saved files use the candidate with the highest success rate."""
    from mygym.training.session import Session

    judged: list[list[int]] = []
    evaluate = Session.evaluate

    def evaluated(self: Session, number: int, purpose: int = 1) -> Any:
        judged.append(self.model.policy.forward_state.path.tolist())
        evaluation = evaluate(self, number, purpose)
        if judged[-1] == [2]:
            object.__setattr__(evaluation.episodes[0], "success", True)
        return evaluation

    monkeypatch.setattr(Session, "evaluate", evaluated)
    params = {"by": "sampler", "candidates": 3, "tries": 3}
    result = mygym.train(config("ppo", tmp_path, strategy="mixture", strategy_params=params, stop_at_success=None))
    assert judged[-3:] == [[0], [1], [2]]
    for file in ("policy.safetensors", "model.zip"):
        policy: Any = mygym.load(result.path / file)
        assert policy.model.policy.forward_state.path.tolist() == [2]
    assert result.strategy == {"mixture": {"path": [2]}}


def test_multippo_has_a_candidate_for_each_stage() -> None:
    for task, candidates in (("reach", 1), ("AG", 2)):
        resolved = resolve_config(overrides=config("multippo", Path(), task=task)).config
        with closing(env_factory.make_vec_env(resolved)) as env:
            assert model_factory.build_model(resolved, env).policy.forward_state.candidates == candidates


def test_user_values_override_the_strategy_params_of_an_algorithm() -> None:
    assert resolve_config(overrides={"algo": "multippo"}).config.strategy == "mixture"
    assert resolve_config(overrides={"algo": "multippo"}).origins["strategy_params.by"] == "algorithm multippo"
    params = resolve_config(
        file={"strategy_params": {"units": "blocks"}}, overrides={"algo": "multippo"}
    ).config.strategy_params
    assert (params["units"], params["by"]) == ("blocks", "stage")
    both = resolve_config(overrides={"algo": "multippo", "strategy": "curriculum+mixture", "task": "AG"}).config
    assert both.strategy_params["mixture"]["by"] == "stage"
    for without in ("standard", "curriculum"):
        with pytest.raises(
            ConfigError, match=rf"strategy: '{without}' leaves out the strategy of multippo; .*\+{without}"
        ):
            resolve_config(overrides={"algo": "multippo", "strategy": without})


def test_experts_is_an_alias_of_mixture() -> None:
    names = registry("strategy").names()
    assert "mixture" in names
    assert "experts" not in names
    experts = resolve_config(overrides={"strategy": "experts", "strategy_params": {"units": "blocks"}}).config
    assert (experts.strategy, experts.strategy_params["units"]) == ("mixture", "blocks")
    file = {"strategy_params": {"experts": {"units": "blocks"}}}
    both = resolve_config(file, {"strategy": "curriculum+experts", "task": "AG"}).config
    assert (both.strategy, set(both.strategy_params)) == ("curriculum+mixture", {"curriculum", "mixture"})
    assert both.strategy_params["mixture"]["units"] == "blocks"
    multippo = resolve_config(overrides={"algo": "multippo", "strategy": "curriculum+experts", "task": "AG"}).config
    assert multippo.strategy_params["mixture"]["by"] == "stage"
    twice = {"strategy": "curriculum+experts", "strategy_params": {"experts": {}, "mixture": {}}}
    with pytest.raises(ConfigError, match=r"strategy_params\.experts: .*strategy_params\.mixture"):
        resolve_config(overrides=twice)
    with pytest.raises(ConfigError, match=r"^strategy: 'mixture\+mixture'"):
        resolve_config(overrides={"strategy": "experts+mixture"})


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
    ({"candidates": 3}, {}, "strategy_params.candidates: 3 differs from the number of candidates by stage; allowed: 2"),
    ({"candidates": [[8], [16]], "units": "blocks"}, {}, "strategy_params.candidates: .*units whole"),
    ({"protocol": "softmaxx"}, {}, "strategy_params.protocol"),
    ({"balance": 0.1}, {}, "strategy_params.balance: 0.1 is for learned gates"),
    ({}, {"observations": ["ee_position"]}, "strategy_params.by: 'stage' is not in the observation; .*stage, ee_pos"),
    (
        {"mixture": {"by": "task"}},
        {"strategy": "multitask+mixture", "task": "reach"},
        r"strategy_params\.mixture\.by: 'task' is not in the observation; .*identify",
    ),
    ({"by": "sampler", "candidates": 2, "budget_us": 1.0}, {}, "strategy_params.budget_us: 1.0 is less than the fast"),
    ({}, {"algo_params": {"use_sde": True}}, "algo_params.use_sde"),
]


@pytest.mark.parametrize(("params", "more", "message"), WRONG, ids=str)
def test_wrong_parameters_are_refused(params: dict[str, Any], more: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config("ppo", tmp_path, **{"strategy": "mixture", "task": "AG", "strategy_params": params, **more}))
    assert not list(tmp_path.iterdir())


def test_the_strategy_imports_no_torch(python: Any) -> None:
    done = python("-c", "import sys, mygym.strategies.mixture.mixture; assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr
