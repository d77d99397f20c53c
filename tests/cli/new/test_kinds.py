"""What `mygym new` writes passes its own test and `mygym check`, trains, and reads as the project's own code does."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import mygym
from mygym.checks import check
from mygym.cli.new.kinds import KINDS, Request, new_files
from mygym.cli.new.writing import write_new
from mygym.config import load_file, merged
from mygym.registry import ASSETS, algorithm, parameters_of, registry
from tests.components import COMBOS, small
from tests.conftest import ROOT

QUICK: dict[str, Any] = {
    "steps": 60,
    "n_envs": 2,
    "eval": {"episodes": 1, "final_episodes": 1},
    "video": {"episodes": 0},
    "tensorboard": False,
}
OWN = [combo for combo in COMBOS if combo[0] not in ("myalgo", "cem", "ppo_runner")]
"""Algorithms that can be the base of one's own: those that ship, but for runners, whose base is `runner`."""

SLOW = pytest.mark.slow
QUICKLY = [one if one[1] == "pytorch" or one[0] == "sac" else pytest.param(*one, marks=SLOW) for one in OWN]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    return tmp_path


def new(kind: str, name: str, **how: Any) -> list[Path]:
    files = new_files(kind, Request(name, Path.cwd(), **how))
    write_new(files)
    return list(files)


# algorithms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "framework"), [*QUICKLY, ("runner", "pytorch")])
def test_an_algorithm_on_every_base_trains_and_has_its_hyperparameter(base: str, framework: str, folder: Path) -> None:
    new("algo", "mine", base=base, framework=framework)
    said = load_file("configs/mine.yaml")
    quick = {} if base == "runner" else small(base, framework)
    result = mygym.train(merged({**QUICK, "logdir": "runs"}, {**said, "algo_params": {**said["algo_params"], **quick}}))
    assert (result.status, result.algo, result.framework) == ("done", "mine", framework)
    (name,) = said["algo_params"]
    values = load_file(result.path / "config.yaml")["algo_params"]
    assert values[name] == said["algo_params"][name]
    model = mygym.load(result.path).model
    assert type(model).__name__ == "Mine"
    assert getattr(model, name) == values[name]
    documented = parameters_of(registry("algorithm").get("mine"), framework)[name].help
    assert documented.endswith(".")
    code = [line for line in (folder / "algos" / "mine.py").read_text().splitlines() if line.strip()]
    assert len(lines_of_code(code)) <= 20 + 6 * (base == "runner")


def lines_of_code(lines: list[str]) -> list[int]:
    """Numbers of lines that statements of a file are on, but for imports and docstrings."""
    tree = ast.parse("\n".join(lines))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        is_doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_doc or isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return [number for number in range(1, len(lines) + 1) if number not in skipped]


def test_the_hyperparameter_does_something(folder: Path) -> None:
    new("algo", "mine", base="a2c")
    norms = []
    for decay in (0.0, 0.5):
        result = mygym.train({**QUICK, "algo": "mine", "algo_params": {"n_steps": 4, "weight_decay": decay}})
        policy = mygym.load(result.path).model.policy
        norms.append(sum(float(weight.detach().square().sum()) for weight in policy.parameters()))
    assert norms[1] < 0.01 * norms[0]


def test_a_class_of_another_name(folder: Path) -> None:
    new("algo", "mine", class_name="SomethingElse")
    assert algorithm("mine").combo()[0].__name__ == "SomethingElse"


def test_an_algorithm_on_one_of_ones_own(folder: Path) -> None:
    new("algo", "first")
    new("algo", "second", base="first")
    first, second = algorithm("first").combo()[0], algorithm("second").combo()[0]
    assert issubclass(second, first)
    assert second.__module__ == "mygym_user.algos.second"


@pytest.mark.parametrize("base", ["sac", "recurrent_ppo"])
def test_a_policy_on_other_bases(base: str) -> None:
    new("policy", "mine", base=base)
    quick = {"algo_params": {"policy_kwargs": small(base)["policy_kwargs"]}, "task_params": {"horizon": 10}}
    done = list(check("policy", "mine", steps=120, config={"algo": base, "n_envs": 2, **quick}))
    assert [one for one in done if one.status != "passed"] == []


# every kind ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kinds",
    [
        ("algo", "robot"),
        pytest.param(("policy", "task", "stage", "workspace", "object", "strategy", "env"), marks=SLOW),
    ],
    ids=str,
)
def test_what_is_written_passes_its_own_tests(kinds: tuple[str, ...], folder: Path, python: Any) -> None:
    """Each checks it as `mygym check` does, and trains its config; the kinds stand side by side."""
    files = [path for kind in kinds for path in new(kind, f"my_{kind}")]
    done = python("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=folder, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(kinds) + ('env' in kinds)} passed" in done.stdout
    assert {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts} == set(files)


@pytest.mark.parametrize("kind", [pytest.param("task", marks=pytest.mark.slow), "stage", "workspace", "object"])
def test_what_is_written_passes_every_check(kind: str) -> None:
    new(kind, "mine")
    assert [one for one in check(kind, "mine") if one.status != "passed"] == []


@pytest.mark.parametrize("after", [[], ["move", "drop", "withdraw"], ["drop"]])
def test_a_new_stage_composes_at_the_end_and_in_the_middle(after: list[str]) -> None:
    new("stage", "hoist")
    said = ["approach", "grasp", "hoist", *after]
    assert mygym.evaluate(policy="oracle", config={"task": said}, episodes=3).success_rate == 1.0


def test_what_is_written_is_in_the_projects_style(folder: Path) -> None:
    places = [folder / str(number) for number in range(len(KINDS) + 3)]
    requests = [(kind, {}) for kind in KINDS]
    requests += [("algo", {"base": "ars"}), ("algo", {"base": "runner"}), ("algo", {"base": "sac", "framework": "jax"})]
    files: list[str] = []
    for place, (kind, how) in zip(places, requests, strict=True):
        made = new_files(kind, Request("mine", place, **how))
        write_new(made)
        files += [str(path) for path in made if path.suffix == ".py"]
        for path in made:
            text = path.read_text()
            assert text.endswith("\n")
            assert not text.endswith("\n\n")
    bin = Path(sys.executable).parent
    rules = ["--config", str(ROOT / "pyproject.toml")]
    ours = [
        "--config",
        'lint.isort.known-first-party=["mygym"]',
        "--config",
        'lint.per-file-ignores={"**/tests/*"=["D"]}',
    ]
    for command in (["ruff", "check", *rules, *ours, *files], ["ruff", "format", "--check", *rules, *files]):
        done = subprocess.run([bin / command[0], *command[1:]], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("base", ["ppo", "sac", "ars", "runner"])
def test_what_is_written_is_typed(base: str, folder: Path) -> None:
    files = [path for path in new("algo", "mine", base=base) if path.suffix == ".py"]
    command = [Path(sys.executable).parent / "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# robots -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ["panda", "kuka"])
def test_a_robot_from_a_urdf_has_its_joints_and_reaches(robot: str, folder: Path) -> None:
    urdf = ASSETS / "robots" / f"{robot}.urdf"
    assert [path.name for path in new("robot", "mine", urdf=urdf)] == ["mine.yaml", "mine.yaml", "test_mine.py"]
    known = yaml.safe_load((ASSETS / "robots" / f"{robot}.yaml").read_text())
    made = yaml.safe_load((folder / "envs" / "robots" / "mine.yaml").read_text())
    assert [joint["name"] for joint in made["joints"]] == [joint["name"] for joint in known["joints"]]
    assert made["urdf"] == str(urdf)
    failed = [one for one in check("robot", "mine") if one.failed]
    assert failed == []


def test_a_urdf_within_the_folder_is_named_by_a_path_that_moves_with_it(folder: Path) -> None:
    (folder / "arms").mkdir()
    (folder / "arms" / "mine.urdf").write_text(
        new_files("robot", Request("mine", folder))[folder / "envs/robots/mine.urdf"]
    )
    new("robot", "mine", urdf=Path("arms/mine.urdf"))
    assert yaml.safe_load((folder / "envs/robots/mine.yaml").read_text())["urdf"] == "../../arms/mine.urdf"


def test_an_object_from_a_urdf(folder: Path) -> None:
    box = '<collision><geometry><box size="0.04 0.04 0.04"/></geometry></collision>'
    inertia = '<mass value="0.05"/><inertia ixx="1.3e-5" iyy="1.3e-5" izz="1.3e-5" ixy="0" ixz="0" iyz="0"/>'
    text = f'<robot name="box"><link name="box"><inertial>{inertia}</inertial>{box}</link></robot>'
    (folder / "box.urdf").write_text(text)
    new("object", "mine", urdf=Path("box.urdf"))
    assert yaml.safe_load((folder / "envs/objects/mine.yaml").read_text())["urdf"] == "../../box.urdf"
    assert [one for one in check("object", "mine") if one.failed] == []


def test_a_urdf_without_an_arm(folder: Path) -> None:
    (folder / "box.urdf").write_text('<robot name="box"><link name="base"/></robot>')
    with pytest.raises(mygym.errors.AssetError, match="a URDF with moving joints"):
        new("robot", "mine", urdf=folder / "box.urdf")
    assert not (folder / "envs").exists()
