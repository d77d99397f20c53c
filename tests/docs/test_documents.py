"""Every command and every Python block of the documents runs."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

import pytest

from tests.docs.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    commands,
    fenced,
    follow,
    inline_commands,
    parse,
    quick_python,
    shell,
    trains,
)
from tests.engines.fused import needs_gpu

FENCED = [block for document in DOCUMENTS for block in fenced(document)]
COPY = [block for block in FENCED if "copied_ppo" in block.text]
"""The copy of a shipped runner: blocks that need each other."""
BASH = [block for block in FENCED if block.language == "bash" and block not in COPY]
PYTHON = [block for block in FENCED if block.language == "python" and block not in COPY]
SHOWN = {command.strip() for block in BASH for command in commands(block)}
INLINE = [block for document in DOCUMENTS for block in inline_commands(document) if block.text.strip() not in SHOWN]
BLOCKS = [*BASH, *{block.text: block for block in INLINE}.values()]
FORMS = inline_commands("docs/coming_from.md", placeholders=True)
"""Commands with placeholders such as `RUN`, in tables whose cells are complete; other texts shorten such commands."""
TRAINING = [command for block in BLOCKS for command in commands(block) if trains(command)]
USES_A_RUN = re.compile(r"--(resume|logdir)|algo_params\.gamma=")
FILE_BLOCK = re.compile(r"# ((?:algos|envs)/\w+\.py)\n")


def test_every_block_has_a_language_that_is_run() -> None:
    assert {block.language for block in FENCED} == {"bash", "python"}
    assert len(BASH) >= 8
    assert len(PYTHON) >= 6


def builds_only(command: str) -> bool:
    """Return whether the normal suite only builds the run of a command.

    It trains the first run, and those that further commands use; tests/strategies trains each strategy.
    """
    return trains(command) and not USES_A_RUN.search(command) and command != TRAINING[0]


def marks(block: Block) -> list[pytest.MarkDecorator]:
    """Return the marks of the test of a block: commands with `device=cuda` need a GPU."""
    return [needs_gpu] if "device=cuda" in block.text else []


@pytest.mark.parametrize(
    ("block", "all_train"),
    [
        *(pytest.param(block, False, id=str(block), marks=marks(block)) for block in BLOCKS),
        *(
            pytest.param(block, True, id=f"{block}, all train", marks=[pytest.mark.slow, *marks(block)])
            for block in BLOCKS
            if any(builds_only(command) for command in commands(block))
        ),
    ],
)
def test_commands(block: Block, all_train: bool, request: pytest.FixtureRequest) -> None:
    project = request.getfixturevalue("used_project" if "runs" in block.text else "project")
    for command in commands(block):
        follow(command, project, build_only=builds_only(command) and not all_train)


def test_commands_with_placeholders_have_the_flags_and_arguments_of_their_command() -> None:
    for block in FORMS:
        parse(block.text)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    file_block = FILE_BLOCK.match(block.text)
    if file_block:
        content = (ROOT / file_block[1]).read_text(encoding="utf-8")
        assert content.endswith("\n\n" + block.text[file_block.end() :]), f"{block} differs from {file_block[1]}"
        return
    monkeypatch.chdir(tmp_path)
    if "reach.onnx" in block.text:
        shutil.copy(request.getfixturevalue("exported"), "reach.onnx")
    Path("reader.py").write_text(quick_python(block.text), encoding="utf-8")
    runpy.run_path("reader.py", run_name="reader")


def test_a_copy_of_a_shipped_runner_trains_as_the_original(project: Path) -> None:
    copy, registration, training = (block.text for block in COPY)
    shell(copy, project)
    with (project / "algos" / "copied_ppo.py").open("a", encoding="utf-8") as file:
        file.write(registration)
    evaluations = []
    for command in (training.strip(), "python train.py --algo ppo_runner"):
        run = follow(command, project).splitlines()[-1].removeprefix("run: ")
        result = json.loads((project / run / "result.json").read_text(encoding="utf-8"))
        evaluations.append([record["mean_return"] for record in result["evaluations"]])
    assert evaluations[0] == evaluations[1] != []


def test_links_resolve() -> None:
    for document in [*DOCUMENTS, "CHANGELOG.md"]:
        text = (ROOT / document).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            if not target.startswith("generated/"):  # pages that the build of the site writes, and checks: test_site.py
                assert (ROOT / document).parent.joinpath(target).exists(), f"{document} links to {target}"


def test_the_run_directory_has_what_its_page_lists(runs: Path) -> None:
    text = (ROOT / "docs" / "run_directory.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.+?) \|", text, re.M)
    listed = {name.strip("/") for cell in cells for name in re.findall(r"[\w.]+\w/?", cell)}
    (left,) = runs.glob("*/*/*/*/*")
    assert {path.name for path in left.iterdir()} == listed


def test_contributing_names_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    layout = text.partition("    train.py")[2].partition("Built-in components live")[0].split()
    for path in (ROOT / "mygym").iterdir():
        if not path.name.startswith("__"):
            assert (f"{path.name}/" if path.is_dir() else path.name) in layout, f"the layout lacks {path.name}"
