"""The commands and the Python of a document, and how they are run: as written, with fewer steps and episodes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .warm import Warm

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/faults.md")

STEPS = 200
"""Env steps of every training."""

FAST = f"--steps {STEPS} --set eval.episodes=1 --set eval.final_episodes=1 --set video.episodes=0"
"""Added to commands that train."""

FAST_PYTHON = f'"steps": {STEPS}, "eval": {{"episodes": 1, "final_episodes": 1}}, "video": {{"episodes": 0}}'
"""In place of `"steps": N` in Python that trains."""

TOOLS = {"ruff": "ruff", "mypy": "mypy", "lint-imports": "import-linter", "pytest": "pytest"}
"""Commands that CI runs itself → the package that brings them."""


@dataclass(frozen=True)
class Block:
    """Something in a document that a reader may run."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def fenced(document: str) -> list[Block]:
    """The fenced blocks of a document."""
    found, inside = [], None
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith("```") and inside is None:
            inside = (number, line.removeprefix("```").strip())
        elif line.startswith("```") and inside is not None:
            start, language = inside
            found.append(Block(document, start, language, "\n".join(lines[start : number - 1]) + "\n"))
            inside = None
    assert inside is None, f"{document}: the block of line {inside} does not end"
    return found


def commands(block: Block) -> list[str]:
    """The lines of a bash block, comments cut off."""
    return [line for line in block.text.splitlines() if shlex.split(line, comments=True)]


def inline_commands(document: str) -> list[Block]:
    """Commands in the running text, but for those with placeholders such as `NAME`."""
    text = re.sub(
        r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), (ROOT / document).read_text(), flags=re.M | re.S
    )
    found = []
    for match in re.finditer(r"`((?:python|mygym|make|pip|tensorboard) [^`]+)`", text):
        said = " ".join(match[1].split())
        if not re.search(r"\b[A-Z]{3,}\b", said):
            found.append(Block(document, text.count("\n", 0, match.start()) + 1, "bash", said + "\n"))
    return found


def make_copy(folder: Path) -> Path:
    """A copy of the project as somebody who cloned it has it, without tests and without anybody's runs."""
    everywhere = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__")
    top = shutil.ignore_patterns("runs", "build", "dist", "tests", "benchmarks")  # `mygym/runs` is a package

    def skipped(place: str, names: list[str]) -> set[str]:
        return everywhere(place, names) | (top(place, names) if Path(place) == ROOT else set())

    return Path(shutil.copytree(ROOT, folder, ignore=skipped))


def environment(folder: Path) -> dict[str, str]:
    """What commands in a copy of the project find, and the programs of it."""
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "OMP_NUM_THREADS": "1",  # small networks; the tests share the machine
    }


def run(command: str, folder: Path, warm: Warm | None = None) -> str:
    """Run a command line, of one program if it is to be warm, in a copy of the project; what it prints.

    Raises:
        AssertionError: It fails.
    """
    bash = partial(subprocess.run, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    if warm is None:
        done = bash(["bash", "-euo", "pipefail", "-c", command], timeout=400)
    else:
        words = bash(["bash", "-euo", "pipefail", "-c", f"printf '%s\\0' {command}"]).stdout.split("\0")[:-1]
        done = warm.run(words, folder)
    assert done.returncode == 0, f"{command}\nends with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def follow(command: str, folder: Path, warm: Warm) -> str:
    """Do what a document says, quickly; what it prints. What sets up machines and what CI runs anyway is only checked.

    `python train.py` alone is run as it stands there; what has further words is warm.

    Raises:
        AssertionError: It fails, or names what does not exist, or is of a kind that nobody has thought of.
    """
    for words in _split(command):
        program = words[0]
        if program == "make":
            _check_targets(words[1:])
        elif program == "pip":
            _check_install(words[1:])
        elif words[:3] == ["python3.11", "-m", "venv"] or program == ".":
            assert ">=3.11" in _project()["requires-python"]
        elif program == "tensorboard":
            assert (BIN / program).exists()
            assert (folder / words[-1]).is_dir()
        elif words == ["python", "docs/pictures.py"]:
            assert (ROOT / words[1]).exists(), "test_pictures.py runs it"
        elif program == "python" and words[1].startswith("benchmarks/"):
            assert (
                ROOT / words[1]
            ).is_file()  # tests/test_benchmarks.py starts each, and holds the numbers to the results
        elif program in TOOLS or words[:3] == ["python", "-m", "pytest"]:
            _check_tool(words)
        else:
            return run(_quick(command, words), folder, None if words == ["python", "train.py"] else warm)
    return ""


def quick_python(text: str) -> str:
    """Python that trains only for a moment."""
    return re.sub(r'"steps": [\d_]+', FAST_PYTHON, text)


def _quick(command: str, words: list[str]) -> str:
    said = re.sub(r"\s+# .*$", "", command)
    program = tuple(words[:2])
    if program in {("python", "train.py"), ("mygym", "train")}:
        return said if {"--explain", "--dry-run"} & set(words) else f"{said} {FAST}"
    if program in {("python", "evaluate.py"), *(("mygym", word) for word in ("evaluate", "card", "demos", "search"))}:
        return f"{said} --episodes 2"
    others = ("check", "describe", "list", "new", "replay", "schema", "view")
    assert program in {("mygym", name) for name in others}, f"tests/docs/documents.py does not know: {command}"
    return said


def _split(command: str) -> list[list[str]]:
    """The words of each command of a line `a && b`."""
    parts: list[list[str]] = [[]]
    for word in shlex.split(command, comments=True):
        if word == "&&":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _check_targets(targets: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.M), f"the Makefile has no target {target}"


def _check_install(words: list[str]) -> None:
    assert words[0] == "install"
    assert (ROOT / words[words.index("-c") + 1]).is_file()
    what = words[words.index("-e") + 1]
    extras = re.findall(r"\w+", what)
    assert what.startswith(".")
    assert set(extras) <= set(_project()["optional-dependencies"])


def _check_tool(words: list[str]) -> None:
    tool = next(word for word in words if word in TOOLS)
    needed = _project()["optional-dependencies"]["dev"]
    assert any(re.match(rf"{TOOLS[tool]}\b", package) for package in needed), f"{tool} is not in the extra dev"
    assert (BIN / tool).exists()
    for word in words:
        assert "/" not in word or (ROOT / word).exists(), f"{word} does not exist"
