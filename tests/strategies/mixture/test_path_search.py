"""Tests of the path search."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import mygym
from benchmarks.kills import differences
from mygym.cli.train import train as main
from mygym.errors import ConfigError
from mygym.planning.plan import plan_from_python
from mygym.strategies.mixture.path_search import forward_microseconds, search_paths
from mygym.training.evaluation import Episode, Evaluation
from mygym.training.policy import save_policy
from tests.strategies.mixture.test_mixture import built
from tests.strategies.mixture.test_samplers import config
from tests.training.test_resuming import stopped

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
        budget = (times[0] * times[1]) ** 0.5  # far from both, on a loaded machine too
        ranked = search_paths(model.policy, lambda: episodes(state.path[0].item()), "random", budget_us=budget)
        assert [tried.path for tried in ranked] == [(0,)]
        state.set_forward_state("single", path=[1])
        assert search_paths(model.policy, lambda: episodes(0.0), "random", budget_us=1.0) == []
        assert state.path.tolist() == [1]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose candidates have different networks."""
    settings = config("ppo", tmp_path_factory.mktemp("searched"), sampler="fair")
    settings["strategy_params"] |= {"candidates": [[5], {"pi": [7, 6], "vf": [9]}], "tries": 2}
    return Path(mygym.train({**settings, "steps": 40, "tensorboard": True}).path)


def hidden_layers(policy: Any) -> tuple[list[int], list[int]]:
    """Return the widths of the hidden layers of actor and critic."""
    networks = (policy.mlp_extractor.policy_net, policy.mlp_extractor.value_net)
    actor, critic = ([layer.out_features for layer in net if hasattr(layer, "out_features")] for net in networks)
    return actor, critic


def test_the_selected_network_is_trained_alone(searched: Path, tmp_path: Path) -> None:
    source = tmp_path / "source" / "reach" / "panda" / "ppo" / "x" / "seed_0"
    shutil.copytree(searched, source)
    (path,) = mygym.load(source).model.policy.forward_state.path.tolist()
    settings = {**mygym.network_of(source), "steps": 160}
    whole = mygym.train({**settings, "logdir": str(tmp_path / "whole")})
    shutil.rmtree(source)
    policy = mygym.load(whole.path).model.policy
    assert hidden_layers(policy) == (([5], [5]), ([7, 6], [9]))[path]
    assert not hasattr(policy, "forward_state")
    assert mygym.evaluate(whole.path, episodes=1).episodes
    run = stopped({**settings, "logdir": str(tmp_path / "stopped")}, step=90)
    assert differences(whole.path, Path(mygym.train(resume=run).path)) == []


def test_the_network_of_a_searched_file_is_the_path_in_the_file(searched: Path) -> None:
    for number, arch in enumerate(([5], {"pi": [7, 6], "vf": [9]})):
        policy = mygym.load(searched)
        policy.model.policy.forward_state.set_forward_state("single", path=[number])
        file = searched / f"path_{number}.safetensors"
        save_policy(file, policy.model, policy.normalizer)
        assert mygym.network_of(file)["algo_params"]["policy_kwargs"]["net_arch"] == arch


def test_explain_names_the_run_of_the_network(searched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--network-of", str(searched), "--steps", "300", "--explain"])
    out = capsys.readouterr().out
    origins = {line.split()[0]: line.rpartition("  ")[2] for line in out.splitlines()}
    architecture = {origin for key, origin in origins.items() if key.startswith("algo_params.policy_kwargs.net_arch")}
    assert architecture == {origins["strategy"]} == {origins["algo"]} == {f"network of {searched}"}
    assert origins["steps"] == "flag"


def test_runs_without_a_selected_network_are_refused(searched: Path, tmp_path: Path) -> None:
    (run := tmp_path / "unfinished").mkdir()
    for name in ("config.yaml", "policy.safetensors"):
        shutil.copy(searched / name, run / name)
    with pytest.raises(ConfigError, match=r"network_of: .*allowed: .*mygym search"):
        mygym.network_of(run)
    by_stage = mygym_config({"algo": "multippo", "task": "AG"})
    standard = mygym_config({"algo": "ppo"})
    for values, why in ((standard, "has no super-networks"), (by_stage, "observations select them")):
        (run / "config.yaml").write_text(json.dumps(values))
        with pytest.raises(ConfigError, match=f"network_of: .*{why}"):
            mygym.network_of(run)


def mygym_config(values: dict[str, Any]) -> dict[str, Any]:
    """Return a complete config."""
    return plan_from_python(values).resolved.values()
