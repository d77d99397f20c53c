"""Scaffolded components pass their tests and `mygym check`, train, and are formatted and typed."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.checks import check
from mygym.cli.new import write_new
from mygym.cli.new.scaffolds import SCAFFOLDS, Request, new_files
from mygym.tasks.lookup import find_task
from tests.cli.new.conftest import new
from tests.conftest import ROOT
from tests.short_checks import shorten

QUICK_KINDS = ("algo", "reward")
"""A kind whose test performs the suite of `mygym check`, and a kind whose test checks an environment with it."""

SHORTER = {
    '{"steps": 300,': '{"steps": 40, "n_envs": 2, "tensorboard": False,',
    'steps=300, config={"n_envs": 2}': 'steps=40, config={"n_envs": 2, "task_params": {"horizon": 10}}',
    '@register_algorithm("my_algo")': '@register_algorithm("my_algo", defaults={"n_steps": 16, "batch_size": 16})',
}
"""Text in scaffolded files → text of the normal suite instead: shorter runs."""


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


@pytest.mark.slow
def test_scaffolded_components_pass_their_tests(folder: Path, python: Any) -> None:
    """All kinds are in the same folder; each is checked and its config is trained."""
    files = [path for kind in SCAFFOLDS for path in new(kind, f"my_{kind}")]
    done = python("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=folder, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(SCAFFOLDS) + ('env' in SCAFFOLDS)} passed" in done.stdout
    assert files_in(folder) == set(files)


def test_scaffolded_components_pass_their_shortened_tests(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In this process: one that imports pytest and PyTorch takes seconds."""
    files = [path for kind in QUICK_KINDS for path in new(kind, f"my_{kind}")]
    for text, replacement in SHORTER.items():
        with_text = [path for path in files if text in path.read_text()]
        assert with_text, f"no scaffolded file has {text}"
        for path in with_text:
            path.write_text(path.read_text().replace(text, replacement))
    performed = 0
    for path in sorted((folder / "tests").iterdir()):
        tests = {name: value for name, value in runpy.run_path(str(path)).items() if name.startswith("test_")}
        for test in tests.values():
            with pytest.MonkeyPatch.context() as patch:
                fixtures = {"monkeypatch": patch, "tmp_path": tmp_path_factory.mktemp("scaffolded")}
                test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
            performed += 1
    assert performed == 2 * len(QUICK_KINDS)
    assert files_in(folder) == set(files)


@pytest.mark.parametrize(
    ("kind", "short"),
    [
        *((kind, True) for kind in ("workspace", "object")),
        *(pytest.param(kind, False, marks=pytest.mark.slow) for kind in ("task", "stage", "workspace", "object")),
    ],
)
def test_scaffolded_components_pass_every_check(kind: str, short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if short:
        shorten(monkeypatch)
    new(kind, "custom")
    assert [outcome for outcome in check(kind, "custom") if outcome.status != "passed"] == []


def test_copies_of_examples_have_the_new_names_alone() -> None:
    copies = {"robot": "arm", "reward": "bonus", "task": "tidy", "env": "nudge_nudge", "predicate": "raised"}
    for kind, name in {**copies, "controller": "fine", "workspace": "desk"}.items():
        text = "".join(path.read_text() for path in new(kind, name))
        names = r'desk_arm|quadratic|\bnudge\b|\bNudge-v0|"lift(ed)?"|smooth\b|Smooth|workbench'
        assert not re.search(names, text), kind
    assert find_task("tidy").workspace == "table"
    task = find_task("nudge_nudge")
    assert (task.workspace, task.asset(task.roles[0])) == ("nudge_nudge", "nudge_nudge")
    assert task.help == "push an object to a point and withdraw from it"


@pytest.mark.parametrize("after", [[], ["move", "drop", "withdraw"], ["drop"]])
def test_a_scaffolded_stage_composes_at_the_end_and_in_the_middle(after: list[str]) -> None:
    new("stage", "hoist")
    task = ["approach", "grasp", "hoist", *after]
    assert mygym.evaluate(policy="oracle", config={"task": task}, episodes=3).success_rate == 1.0


def test_scaffolded_files_are_linted_and_formatted(folder: Path) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [(kind, {}) for kind in SCAFFOLDS]
    requests += [("algo", {"base": "ars"}), ("algo", {"base": "sac", "framework": "jax"})]
    requests += [("algo", {"base": "runner", "framework": framework}) for framework in ("pytorch", "jax")]
    modules: list[str] = []
    for number, (kind, options) in enumerate(requests):
        files = new_files(kind, Request("custom", folder / str(number), **options))
        write_new(files)
        modules += [str(path) for path in files if path.suffix == ".py"]
        for path in files:
            text = path.read_text()
            assert text.endswith("\n")
            assert not text.endswith("\n\n")
    scripts = Path(sys.executable).parent
    rules = ["--config", str(ROOT / "pyproject.toml")]
    check_rules = [
        *rules,
        "--config",
        'lint.isort.known-first-party=["mygym"]',
        "--config",
        'lint.per-file-ignores={"**/tests/*"=["D"]}',
    ]
    for command in (["ruff", "check", *check_rules, *modules], ["ruff", "format", "--check", *rules, *modules]):
        done = subprocess.run(
            [scripts / command[0], *command[1:]], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *(("algo", {"base": base}) for base in ("ppo", "sac", "ars", "runner")),
        ("algo", {"base": "runner", "framework": "jax"}),
        *((kind, {}) for kind in SCAFFOLDS if kind != "algo"),
    ],
    ids=str,
)
def test_scaffolded_files_are_typed(kind: str, options: dict[str, Any], folder: Path) -> None:
    files = [path for path in new(kind, "custom", **options) if path.suffix == ".py"]
    command = [Path(sys.executable).parent / "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
