"""Installation: versions of Python, packages of each environment, `make` without `.venv`, content of the wheel."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from mygym import python_version
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPENDENCIES = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = [Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines]
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()]

FEW = "--steps 120 --set eval.episodes=1 --set eval.final_episodes=1 --set video.episodes=0"
"""Flags of a short training."""

MACHINES = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64"), ("win32", "ARM64"))
ENVIRONMENTS = [
    {
        "python_version": version,
        "python_full_version": f"{version}.1",
        "sys_platform": system,
        "platform_machine": machine,
    }
    for version, (system, machine) in itertools.product(("3.11", "3.12", "3.13", "3.14"), MACHINES)
]


def name(environment: Mapping[str, str]) -> str:
    return "-".join(environment[key] for key in ("python_version", "sys_platform", "platform_machine"))


def installed(requirements: list[Requirement], environment: Mapping[str, str]) -> list[Requirement]:
    """Return the requirements that pip installs in an environment."""
    return [each for each in requirements if each.marker is None or each.marker.evaluate(dict(environment))]


# Versions of Python ---------------------------------------------------------------------------------------------------


def test_all_files_name_the_same_versions() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    versions = [f"3.{minor}" for minor in range(5, 20) if f"3.{minor}" in allowed]
    assert tuple(versions) == python_version.SUPPORTED
    assert {each["python_version"] for each in ENVIRONMENTS} == set(versions)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"python(3\.\d+)", makefile))) == versions
    for document in ("README.md", "docs/install.md"):
        assert "3.11, 3.12, 3.13 or 3.14" in (ROOT / document).read_text(encoding="utf-8"), document


@pytest.mark.parametrize("version", [(3, 7), (3, 10), (3, 15)])
def test_another_version_ends_a_program_with_a_message(
    version: tuple[int, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    monkeypatch.setattr(sys, "argv", ["somewhere/train.py"])
    with pytest.raises(SystemExit) as end:
        python_version.check_python()
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    for text in ("Python", f"'{version[0]}.{version[1]}'", "3.11, 3.12, 3.13, 3.14"):
        assert text in line
    monkeypatch.setattr(sys, "argv", ["somebody.py"])  # imports mygym
    with pytest.raises(ImportError, match=r"3\.11, 3\.12, 3\.13, 3\.14"):
        python_version.check_python()


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_supported_versions_pass(minor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, minor, 0, "final", 0))
    python_version.check_python()


@pytest.mark.parametrize("file", ["train.py", "evaluate.py", "mygym/__init__.py", "mygym/python_version.py"])
def test_older_versions_can_read_the_files_before_the_message(file: str) -> None:
    ast.parse((ROOT / file).read_text(encoding="utf-8"), feature_version=(3, 7))


def test_the_check_comes_before_other_modules_of_mygym() -> None:
    tree = ast.parse((ROOT / "mygym/__init__.py").read_text(encoding="utf-8"))
    modules = [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    assert [module for module in modules if module.startswith("mygym")][:2] == [
        "mygym.python_version",
        "mygym.cli.start",
    ]
    assert "check_python()" in [ast.unparse(node) for node in tree.body][: len(modules) + 3]


# make -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path: Path) -> Path:
    """A checkout without `.venv`, and a folder `bin` that has all programs."""
    (tmp_path / "mygym").mkdir()
    for file in ("Makefile", "pyproject.toml", "constraints.txt", "mygym/python_version.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "bin").mkdir()
    for program in ("make", "sh"):
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"no {program}")
        (tmp_path / "bin" / program).symlink_to(path)
    return tmp_path


def add_python(folder: Path, name: str, supported: bool) -> None:
    """Add a Python: that of the tests, or a program that ends as an unsupported version does."""
    if supported:
        (folder / "bin" / name).symlink_to(sys.executable)
    else:
        (folder / "bin" / name).write_text("#!/bin/sh\necho \"error: Python: '3.15' is not supported\" >&2\nexit 2\n")
        (folder / "bin" / name).chmod(0o755)


def run_make(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(folder / "bin"), "HOME": str(folder), **variables}
    return subprocess.run(["make", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"python3": True}, "python3"),
        ({"python3": True, "python3.13": True}, "python3"),
        ({"python3": False, "python3.12": True}, "python3.12"),
        ({"python3.13": True}, "python3.13"),
        ({"python3": False, "python3.11": False, "python3.13": True}, "python3.13"),
        ({"python3.14": True}, "python3.14"),
    ],
)
def test_make_takes_a_python_that_is_supported(make: Path, pythons: Mapping[str, bool], chosen: str) -> None:
    for name, supported in pythons.items():
        add_python(make, name, supported)
    done = run_make(make, "--dry-run", ".venv/bin/pip")
    assert f"\n{chosen} -m venv .venv\n" in done.stdout


@pytest.mark.parametrize("python", [False, None])
def test_make_without_a_supported_python_names_those_it_needs(make: Path, python: bool | None) -> None:
    if python is not None:
        add_python(make, "python3", python)
    done = run_make(make, "train")
    assert done.returncode == 2
    assert "3.11, 3.12, 3.13 or 3.14" in done.stderr
    assert not (make / ".venv").exists()


def test_make_keeps_what_python_compiles(make: Path) -> None:
    add_python(make, "python3", supported=True)
    (make / "small.py").touch()
    (make / "import.mk").write_text("import:\n\t@python3 -c 'import small'\n", encoding="utf-8")
    done = run_make(make, "-f", "Makefile", "-f", "import.mk", "import", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0
    assert list((make / "__pycache__").glob("small.*.pyc"))


# Packages -------------------------------------------------------------------------------------------------------------


def test_an_environment_has_one_pybullet_or_mujoco() -> None:
    """Both packages contain the module `pybullet`; panda-gym needs the package `pybullet` by name."""
    for environment in ENVIRONMENTS:
        engines = ("pybullet", "pybullet-arm64", "mujoco-core")
        names = [each.name for each in installed(DEPENDENCIES, environment) if each.name in engines]
        first = (environment["python_version"], environment["sys_platform"], environment["platform_machine"])
        with_wheel = first == ("3.11", "linux", "x86_64")
        others = "mujoco-core" if environment["python_version"] == "3.14" else "pybullet-arm64"
        assert names == ["pybullet" if with_wheel else others]
        extras = {each.name for each in installed(EXTRAS, environment)}
        assert ("panda-gym" in extras) == with_wheel


def test_constraints_pin_every_package_once_within_its_range() -> None:
    for environment in ENVIRONMENTS:
        pins: dict[str, str] = {}
        for pin in installed(PINS, environment):
            assert canonicalize_name(pin.name) not in pins, pin
            pins[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
        for requirement in installed(DEPENDENCIES + EXTRAS, environment):
            if requirement.name != "mygym":
                assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


# The wheel ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the checkout; setuptools prints a warning for each folder that it would leave out."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("mygym", "configs", "envs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    code = "import setuptools.build_meta as build; print(build.build_wheel('dist'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert "would be ignored" not in done.stdout + done.stderr
    return folder / "dist" / done.stdout.splitlines()[-1]


def test_the_wheel_has_every_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        content = {name for name in packed.namelist() if ".dist-info/" not in name}
    packaged = {"mygym": "mygym", "configs": "mygym/configs", "envs": "mygym/examples"}
    files = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, package in packaged.items()
        for path in (ROOT / folder).rglob("*.*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert content == files


@pytest.mark.slow
def test_an_installed_wheel_works_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """The other packages are those of this environment; mygym is that of the wheel."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    (packages,) = (tmp_path / "venv").rglob("site-packages")
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    python, folder = str(tmp_path / "venv" / "bin" / "python"), tmp_path / "empty"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True)
    folder.mkdir()

    def mygym(*words: str) -> str:
        command = [str(tmp_path / "venv" / "bin" / "mygym"), *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    where = subprocess.run([python, "-c", "import mygym; print(mygym.__file__)"], cwd=folder, capture_output=True)
    assert str(packages) in where.stdout.decode()
    mygym("train", *FEW.split())
    mygym("new", "algo", "myown")
    assert "myown" in mygym("list", "algo")
    mygym("train", "--algo", "myown", *FEW.split())
    mygym("check", "algo", "myown")
    mygym("new", "robot", "arm")
    assert "arm.urdf" in mygym("describe", "robot", "arm")
    command = [str(tmp_path / "venv" / "bin" / "mygym"), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            lines = {key: value for key, _, value in (server.stderr.readline().partition(": ") for _ in range(2))}
            address = lines["dashboard"].partition("?")[0]
            request = urllib.request.Request(f"{address}api/runs")
            request.add_header("Authorization", f"Bearer {lines['token'].strip()}")
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert {run["algo"] for run in json.load(answer)} == {"sac", "myown"}
        finally:
            server.terminate()
