"""Commands and Python code of a document, and their execution: as written, with fewer steps and episodes."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mygym.cli.main import parser_of, run
from mygym.exporting import export
from mygym.sweeps import executors, population, results
from tests.short_checks import shorten
from tests.sweeps.executor import InstantExecutor

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))

ARMS = ("envs/robots/desk_arm.urdf", "envs/robots/desk_arm_on_post.xacro")
COPIED = ("train.py", "evaluate.py", "configs", *ARMS, "benchmarks/leaderboard.json", "benchmarks/tables")
"""Files and folders that commands name; the components of `algos` and `envs` are registered in this process already."""

STEPS = 120
"""Env steps of a training."""

STRATEGY_STEPS = 200
"""Env steps of a training with a strategy: a curriculum needs so many to reach its last level."""

CHECKED_ELSEWHERE = ("algo", "robot", "stage", "task", "workspace")
"""Kinds whose suites take long; tests/checks performs them for registered components, tests/cli/new for scaffolds."""

TIMEOUT = 400
"""s that a command may take."""

FAST = "--set eval.episodes=1 --set eval.final_episodes=1 --set video.episodes=0"
"""Added to commands that train."""

FEWER = {
    "multitask": "--set n_envs=3",  # at least one for each task
    "--strategy ewc": "--set n_envs=1 --set algo_params.n_steps=50 --set algo_params.batch_size=50",
    "--strategy reptile": "--set n_envs=1 --set algo_params.n_steps=20 --set algo_params.batch_size=20",
    "push_ppo": "--set n_envs=2 --set algo_params.batch_size=128",  # the size of a rollout
    "--dry-run": "--set n_envs=2",
    "--algo (?!sac|td3|tqc)": "--set n_envs=2",  # the length of a rollout is that of each environment
    "^(?!.*--algo).*--task ": "--set n_envs=8",  # the default of some tasks is 32
    "": "",
}
"""Pattern of a command that trains → its environments; the first match counts."""

SHORTER = {
    "warm_start=500": "warm_start=20",
    "population=16": "population=8",
    "--seeds 5 --jobs 2": "--seed 0",
    "--trials 12": "--trials 3",
    "--trials 16": "--trials 4",
    "--trials 20": "--trials 5",
    "--trials 40": "--trials 5",
    "--train-on 10": "--train-on 2",
}
"""Values in commands that take long → values that run instead."""

FEW_TRIALS = "--set sweep.trials=4"
"""Added to a sweep whose trials come from its file."""

FEW_GENERATIONS = "--set sweep.population.members=4 --set sweep.population.generations=2"
"""Added to a population."""

SMALL_VIDEO = "--set video.width=96 --set video.height=72"

FAST_PYTHON = (
    f'"steps": {STEPS}, "n_envs": 2, "eval": {{"episodes": 1, "final_episodes": 1}}, "video": {{"episodes": 0}}'
)
"""In place of `"steps": N` in Python that trains."""

WINDOW = re.compile(r"--gui|--policy (keyboard|sliders)|^mygym view (?!.*(--image|--record))")
"""Commands that open a window: tests/test_window.py does; here they end with a message."""

TOOLS = {"codespell": "codespell", "ruff": "ruff", "mypy": "mypy", "lint-imports": "import-linter", "pytest": "pytest"}
"""Commands that CI runs itself → the package that brings them."""


@dataclass(frozen=True)
class Block:
    """Code or command block of a document."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


SWEEP_EXECUTORS = ((executors, "LocalExecutor"), (executors, "RayExecutor"), (executors, "SlurmExecutor"))
"""Modules and classes whose place an executor takes that trains nothing."""


def fenced(document: str) -> list[Block]:
    """The fenced blocks of a document, without directives of Sphinx and without texts that are no code."""
    blocks, inside = [], None
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith("```") and inside is None:
            inside = (number, line.removeprefix("```").strip())
        elif line.startswith("```") and inside is not None:
            start, language = inside
            if language != "text" and not language.startswith("{"):
                blocks.append(Block(document, start, language, "\n".join(lines[start : number - 1]) + "\n"))
            inside = None
    assert inside is None, f"{document}: the block of line {inside} does not end"
    return blocks


def commands(block: Block) -> list[str]:
    """Lines of a bash block without comments."""
    return [line for line in block.text.splitlines() if shlex.split(line, comments=True)]


def inline_commands(document: str, placeholders: bool = False) -> list[Block]:
    """Commands in the running text: those without placeholders such as `NAME`, or those with placeholders."""
    text = re.sub(
        r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), (ROOT / document).read_text(), flags=re.M | re.S
    )
    blocks = []
    for match in re.finditer(r"`((?:python|mygym|make|pip|tensorboard) [^`]+)`", text):
        command = " ".join(match[1].split())
        if bool(re.search(r"\b[A-Z]{3,}\b", command)) == placeholders:
            blocks.append(Block(document, text.count("\n", 0, match.start()) + 1, "bash", command + "\n"))
    return blocks


def make_copy(folder: Path) -> Path:
    """Copy the files that commands name into a new folder."""
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    return folder


def shell(command: str, folder: Path) -> str:
    """Run a command line in a process; return its standard output.

    Raises:
        AssertionError: The command fails.
    """
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",  # small networks; the tests share the machine
    }
    bash = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(
        bash, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    assert done.returncode == 0, f"{command}\nends with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def trains(command: str) -> bool:
    """Return whether a command line of a document trains."""
    begins = ("python train.py", "mygym train")
    return command.startswith(begins) and not re.search(r"--(explain|dry-run|gui|help|framework jax)", command)


def in_process(command: str, folder: Path, refusal: str = "") -> str:
    """Run `python PROGRAM.py …` or `mygym …` in this process, in `folder`; return the standard output.

    Args:
        command: The command.
        folder: The current folder of the command.
        refusal: Text of the message with which the command must end; empty: it must not fail.

    Raises:
        AssertionError: The command fails, or does not end with the refusal.
    """
    program, *words = shell(f"printf '%s\\0' {command}", folder).split("\0")[:-1]  # bash expands quotes and globs
    verb, *arguments = words
    script = folder / verb if program == "python" else BIN / "mygym"
    output, errors, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default")
        shorten(patch)
        patch.setattr("mygym.cli.train.TIMED_STEPS", 2)
        patch.setattr(executors, "POLL", 0.0)
        patch.setattr(export, "TOGETHER", 2)
        for module, name in SWEEP_EXECUTORS:  # tests/cli/test_sweep.py and tests/sweeps train
            patch.setattr(module, name, lambda *arguments: InstantExecutor())
        patch.setattr(results, "_write_figures", lambda *arguments: None)  # tests/sweeps/test_search.py draws them
        patch.setattr(population, "branch", lambda run, target, values: shutil.copytree(run, target))
        patch.chdir(folder)
        patch.setattr(sys, "argv", [str(script), *(arguments if program == "python" else words)])
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                run(verb.removesuffix(".py"), arguments)
            except SystemExit as end:
                code = int(end.code or 0)
    outcome = f"{command}\nends with {code}:\n{output.getvalue()}\n{errors.getvalue()}"
    assert code == (2 if refusal else 0) or (code == 1 and verb == "doctor"), outcome
    assert refusal in errors.getvalue(), outcome
    return output.getvalue()


def follow(command: str, folder: Path, build_only: bool = False) -> str:
    """Run a command line of a document quickly; return its standard output.

    Set-up commands and the commands of CI are only checked. `python train.py` without arguments trains in a process.

    Args:
        command: The command line.
        folder: The current folder of the command.
        build_only: Whether a command that trains builds its environments, model and strategies only.

    Raises:
        AssertionError: The command fails, names a missing file, or is of an unknown kind.
    """
    for words in _split(command):
        program = words[0]
        if program == "make":
            _check_targets(words[1:])
        elif program == "pip":
            _check_install(words[1:])
        elif words[:3] == ["python3", "-m", "venv"] or program == ".":
            continue
        elif program == "tensorboard":
            assert (BIN / program).exists()
            assert (folder / words[-1]).is_dir()
        elif program == "python" and words[1].startswith("docs/"):
            assert (ROOT / words[1]).exists(), "test_pictures.py and test_notebook.py run these scripts"
        elif program == "python" and words[1].startswith("benchmarks/"):
            assert (ROOT / words[1]).is_file(), "tests/test_benchmarks.py runs it"
        elif program in TOOLS or words[:3] == ["python", "-m", "pytest"]:
            _check_tool(words)
        elif words[:2] == ["mygym", "check"] and words[2] in CHECKED_ELSEWHERE:
            parse(shlex.join(words))
        elif WINDOW.search(command):
            with pytest.MonkeyPatch.context() as patch:
                patch.delenv("DISPLAY", raising=False)
                in_process(command, folder, refusal="a display")
        elif words == ["python", "train.py"] and not build_only:
            return shell(_quick(command, words), folder)
        else:
            return in_process(_quick(command, words, build_only), folder)
    return ""


def parse(command: str) -> None:
    """Parse the flags of a command line that has placeholders.

    Raises:
        ConfigError: The command lacks an argument, or has a flag that does not exist.
    """
    for program, verb, *arguments in _split(command):
        parser_of(verb.removesuffix(".py") if program == "python" else verb).parse(arguments)


def quick_python(text: str) -> str:
    """Python code with fewer env steps and episodes."""
    text = re.sub(r"\btotal_timesteps=1\d\d\b", "total_timesteps=104", text)  # a few after `learning_starts`
    return re.sub(r"\bepisodes=\d+", "episodes=2", re.sub(r'"steps": [\d_]+', FAST_PYTHON, text))


def _quick(command: str, words: list[str], build_only: bool = False) -> str:
    bare = re.sub(r"\s+# .*$", "", command)
    for value, shorter in SHORTER.items():
        bare = bare.replace(value, shorter)
    program = tuple(words[:2])
    if program in {("python", "train.py"), ("mygym", "train")}:
        if {"--explain", "--dry-run"} & set(words):
            return bare
        if "--framework jax" in bare:
            return f"{bare} --dry-run"  # compiles for long; tests/algos trains it
        bare += " --dry-run" if build_only else ""
        envs = next(envs for pattern, envs in FEWER.items() if re.search(pattern, bare))
        envs = envs.replace("n_envs=8", "n_envs=2") if build_only else envs
        demos = "--set strategy_params.warm_start=20" if "--strategy demos" in bare else ""
        steps = STRATEGY_STEPS if "--strategy" in words else STEPS
        return " ".join([bare, f"--steps {steps}", FAST, envs, demos]).strip()
    if program == ("mygym", "benchmark") and len(words) == 3:
        return f"{bare} --dry-run"  # hundreds of runs; tests/benchmark executes suites
    if program == ("mygym", "sweep") and "population" in bare:
        return f"{bare} {FEW_GENERATIONS}"
    if program == ("mygym", "sweep") and "configs/" in bare:
        return f"{bare} {FEW_TRIALS}"
    if program in {("mygym", "card"), ("mygym", "parity"), ("mygym", "run")}:
        return f"{bare} --episodes 1"
    videos = "--failure-videos" in words or {"--policy", "--video"} <= set(words)
    playing = ("certify", "evaluate", "demos", "search", "judge")
    if program in {("python", "evaluate.py"), *(("mygym", word) for word in playing)}:
        return f"{bare} --episodes 2" + (f" {SMALL_VIDEO}" if videos else "")
    if "--record-latency" in words:
        return f"{bare} --seconds 0.2"
    if program == ("mygym", "dataset"):
        trained_on = {"data/views", "data/goals", "data/places"} & set(words)  # 16: an image in each split
        return f"{bare} --images {16 if trained_on else 4}"
    if program in {("mygym", "detector"), ("mygym", "encoder")}:
        return bare.replace("--steps 20", "--steps 2")
    if program == ("mygym", "view") and "camera" in words:
        return bare
    if program == ("mygym", "view"):
        return f"{bare} --width 400" if "objects" in words else f"{bare} --width 96 --height 72"
    reading = (
        "benchmark",
        "sweep",
        "compare",
        "describe",
        "doctor",
        "export",
        "leaderboard",
        "list",
        "plot",
        "report",
        "runs",
        "schema",
    )
    other_verbs = (*reading, "check", "new", "replay")
    assert program in {("mygym", name) for name in other_verbs}, f"tests/docs/documents.py does not know: {command}"
    return bare


def _split(command: str) -> list[list[str]]:
    """The words of each command of a line `a && b`."""
    commands: list[list[str]] = [[]]
    for word in shlex.split(command, comments=True):
        if word == "&&":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _check_targets(targets: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.M), f"the Makefile has no target {target}"


def _check_install(words: list[str]) -> None:
    assert words[0] == "install"
    assert "-c" not in words or (ROOT / words[words.index("-c") + 1]).is_file()
    requirement = words[words.index("-e") + 1]
    extras = re.findall(r"\w+", requirement)
    assert requirement.startswith(".")
    assert set(extras) <= set(_project()["optional-dependencies"])


def _check_tool(words: list[str]) -> None:
    tool = next(word for word in words if word in TOOLS)
    needed = _project()["optional-dependencies"]["dev"]
    assert any(re.match(rf"{TOOLS[tool]}\b", package) for package in needed), f"{tool} is not in the extra dev"
    assert (BIN / tool).exists()
    for word in words:
        assert "/" not in word or (ROOT / word).exists(), f"{word} does not exist"
