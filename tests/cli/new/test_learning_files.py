"""Scaffolded algorithms and policies train, and have their hyperparameters."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.checks import check
from mygym.cli.new.scaffolds import Request, new_files
from mygym.config import load_file, merged
from mygym.errors import ConfigError
from mygym.registry import algorithm, parameters_of, registry
from tests.cli.new.conftest import new
from tests.components import COMBOS, slow_except, small

QUICK: dict[str, Any] = {
    "steps": 60,
    "n_envs": 2,
    "task_params": {"horizon": 10},
    "eval": {"episodes": 1, "final_episodes": 1},
    "video": {"episodes": 0},
    "tensorboard": False,
}

BASES = [combo for combo in COMBOS if combo[0] not in ("myalgo", "cem", "ppo_runner", "two_players")]
"""Algorithms that can be a base: all built-in algorithms except runners, whose base is `runner`."""

QUICK_BASES = slow_except(BASES, lambda combo: combo in [(algo, "pytorch") for algo in ("ppo", "sac", "dqn", "ars")])
"""A base of each kind."""


RUNNERS = [
    ("runner", "pytorch"),
    pytest.param("runner", "jax", marks=pytest.mark.slow),
]  # tests/training/test_jax_runner.py


@pytest.mark.parametrize(("base", "framework"), [*QUICK_BASES, *RUNNERS])
def test_an_algorithm_on_every_base_trains_and_has_its_hyperparameter(base: str, framework: str, folder: Path) -> None:
    new("algo", "custom", base=base, framework=framework)
    config = load_file("configs/custom.yaml")
    params = {**config["algo_params"], **({} if base == "runner" else small(base, framework))}
    result = mygym.train(merged({**QUICK, "logdir": "runs"}, {**config, "algo_params": params}))
    assert (result.status, result.algo, result.framework) == ("done", "custom", framework)
    (name,) = config["algo_params"]
    values = load_file(result.path / "config.yaml")["algo_params"]
    assert values[name] == config["algo_params"][name]
    model = mygym.load(result.path).model
    assert type(model).__name__ == "Custom"
    assert getattr(model, name) == values[name]
    documented = parameters_of(registry("algorithm").get("custom"), framework)[name].help
    assert documented.endswith(".")
    code = [line for line in (folder / "algos" / "custom.py").read_text().splitlines() if line.strip()]
    assert len(lines_of_code(code)) <= (20 if base != "runner" else 26 if framework == "pytorch" else 48)


@pytest.mark.slow
def test_a_runner_in_jax_passes_every_check() -> None:
    new("algo", "custom", base="runner", framework="jax")
    outcomes = check("algorithm", "custom", framework="jax", steps=300, config={"n_envs": 2})
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []


def lines_of_code(lines: list[str]) -> list[int]:
    """Return the numbers of lines with statements, except imports and docstrings."""
    tree = ast.parse("\n".join(lines))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return [number for number in range(1, len(lines) + 1) if number not in skipped]


def test_the_hyperparameter_has_an_effect(folder: Path) -> None:
    new("algo", "custom", base="a2c")
    norms = []
    for decay in (0.0, 0.5):
        result = mygym.train({**QUICK, "algo": "custom", "algo_params": {"n_steps": 4, "weight_decay": decay}})
        policy = mygym.load(result.path).model.policy
        norms.append(sum(float(weight.detach().square().sum()) for weight in policy.parameters()))
    assert norms[1] < 0.01 * norms[0]


def test_the_class_can_have_another_name(folder: Path) -> None:
    new("algo", "custom", class_name="SomethingElse")
    assert algorithm("custom").combo()[0].__name__ == "SomethingElse"


def test_a_scaffolded_algorithm_can_be_a_base(folder: Path) -> None:
    new("algo", "first")
    new("algo", "second", base="first")
    first, second = algorithm("first").combo()[0], algorithm("second").combo()[0]
    assert issubclass(second, first)
    assert second.__module__ == "mygym_user.algos.second"


@pytest.mark.parametrize("base", ["sac", pytest.param("recurrent_ppo", marks=pytest.mark.slow)])
def test_a_policy_on_other_bases(base: str) -> None:
    new("policy", "custom", base=base)
    quick = {"algo_params": {"policy_kwargs": small(base)["policy_kwargs"]}, "task_params": {"horizon": 10}}
    outcomes = list(check("policy", "custom", steps=120, config={"algo": base, "n_envs": 2, **quick}))
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []


def test_unsuitable_bases_are_errors(folder: Path) -> None:
    with pytest.raises(Exception, match="did you mean 'ppo'"):
        new_files("algo", Request("custom", folder, base="pppo"))
    with pytest.raises(ConfigError, match=r"^--base: 'cem'"):
        new_files("algo", Request("custom", folder, base="cem"))
    with pytest.raises(ConfigError, match=r"--framework: 'tensorflow'.*allowed: pytorch, jax"):
        new_files("algo", Request("custom", folder, base="runner", framework="tensorflow"))
    with pytest.raises(ConfigError, match=r"^--base: 'ars'"):
        new_files("policy", Request("custom", folder, base="ars"))
    with pytest.raises(ConfigError, match=r"^--framework: 'jax'"):
        new_files("policy", Request("custom", folder, framework="jax"))
