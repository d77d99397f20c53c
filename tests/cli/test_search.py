"""`mygym search`: evaluates paths, prints them and writes the policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.errors import ConfigError
from tests.command import Command
from tests.training.test_resuming import config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with three candidate networks and normalised observations."""
    params = {"by": "sampler", "candidates": 3, "tries": 1}
    overrides = {"strategy": "mixture", "strategy_params": params, "normalize": True, "steps": 64}
    return mygym.train(config("ppo", tmp_path_factory.mktemp("runs"), **overrides)).path


def test_every_path_is_evaluated_and_no_file_is_written(run: Path, mygym_command: Command) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    outcome = mygym_command("search", str(run), "--episodes", "2", "--json")
    assert outcome.code == 0, outcome.err
    rows = json.loads(outcome.out)
    assert sorted(row["path"] for row in rows) == [[0], [1], [2]]
    returns = [row["mean_return"] for row in rows]
    assert returns == sorted(returns, reverse=True)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_the_written_policy_uses_the_best_path(run: Path, mygym_command: Command) -> None:
    out = run / "best.safetensors"
    outcome = mygym_command("search", str(run), "--method", "random", "--episodes", "1", "--out", str(out))
    assert outcome.code == 0, outcome.err
    assert "µs" in outcome.out
    policy: Any = mygym.load(out)
    (best, *_) = mygym.search(run, episodes=1)
    assert tuple(policy.model.policy.forward_state.path.tolist()) == best.path
    assert mygym.evaluate(out, episodes=1).episodes


def test_a_run_without_super_networks_is_an_error(tmp_path: Path) -> None:
    plain = mygym.train(config("ppo", tmp_path, steps=32))
    with pytest.raises(ConfigError, match="has no super-networks; allowed: a run with strategy mixture"):
        mygym.search(plain.path)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--method randm", "did you mean 'random'"),
        ("--budget-us 0", "a number above 0"),
        ("--budget-us 0.5", "is less than the fastest candidate needs on this machine"),
        ("--tries none", "a whole number"),
        ("--out RUN/policy.safetensors", "exists already; allowed: a file that does not exist yet"),
        ("--out RUN/result.json", "allowed: a new file RUN/NAME.safetensors"),
        ("--out RUN", "is not a path from which a policy can be loaded"),
        ("--out elsewhere.safetensors", "is not a path from which a policy can be loaded"),
    ],
)
def test_invalid_flags_end_with_2(flags: str, message: str, run: Path, mygym_command: Command) -> None:
    before = (run / "policy.safetensors").read_bytes()
    outcome = mygym_command("search", str(run), *flags.replace("RUN", str(run)).split())
    assert (outcome.code, message.replace("RUN", str(run)) in outcome.err) == (2, True), outcome.err
    assert (run / "policy.safetensors").read_bytes() == before


def test_no_file_is_written_if_every_path_is_too_slow(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first measurement can be faster than later measurements."""
    monkeypatch.setattr("mygym.strategies.mixture.path_search.check_budget", lambda *_: None)
    with pytest.raises(ConfigError, match=r"budget_us: .*20 paths"):
        mygym.search(run, episodes=1, budget_us=0.01, out=run / "slow.safetensors")
    assert not (run / "slow.safetensors").exists()
