"""Every notebook runs from top to bottom with the expected outputs, and is stored without outputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

from tests.docs.documents import BIN, ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FAST = 'config |= {"steps": 400, "eval": {"episodes": 5, "final_episodes": 5}, "video": {"width": 96, "height": 72}}'


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_is_kept_without_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.cell_type == "markdown" or (not cell.outputs and cell.execution_count is None)
    assert str(Path.home()) not in text
    assert "file://" not in text


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """Executes a notebook in an empty folder, with fewer steps and episodes; its outputs."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PATH", os.pathsep.join([str(BIN), os.environ["PATH"]]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run(name: str) -> list[Any]:
        notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
        first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        assert notebook.cells[first].source.startswith("config = {")
        notebook.cells.insert(first + 1, nbformat.v4.new_code_cell(FAST))
        NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]

    return run


def printed(outputs: list[Any]) -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def test_first_run(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("01_first_run.ipynb")
    assert "done after 400 env steps" in printed(outputs)
    assert "scripted expert: 1.0" in printed(outputs)
    assert "'is_success': " in printed(outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2, "the curve, and the frames"
    (run,) = (tmp_path / "runs").glob("*/*/*/*/*")
    assert (run / "videos" / "final.mp4").stat().st_size > 1000


def test_your_own_algorithm(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("02_your_own_algorithm.ipynb")
    text = printed(outputs)
    assert "of fresh episodes after 1024 steps" in text
    assert "{'gain': 10.0}" in text
    assert "refused: algo_params.inital_entropy" in text
    assert "did you mean 'initial_entropy'" in text
    assert "refused: algo_params.policy_kwargs.features_extractor_kwargs.gain: 'much' has the wrong type" in text
    assert "AdamW Sequential" in text
    assert "GELU" in text
    assert "the climber is at" in text
    assert "run: runs/reach/panda/my_idea/" in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    trained = {run.parts[-3] for run in (tmp_path / "runs").glob("*/*/*/*/*")}
    assert trained == {"way_ppo", "ppo", "climber", "my_idea"}


def test_your_own_world(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("03_your_own_world.ipynb")
    text = printed(outputs)
    assert "in words: approach the eraser, sweep it as far as the goal" in text
    assert "no flaw so far" in text, "the card meets what is demanded, as far as ten episodes tell"
    assert "done: sweep with arm" in text
    assert "expert: 100%" in text
    assert "a can, and withdrawing: 100%" in text
    assert "refused: task: " in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2, "the robot, and the task"
    (run,) = (tmp_path / "runs").glob("*/*/*/*/*")
    assert run.parts[-5:-2] == ("sweep", "arm", "ppo")


def test_strategies(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("04_strategies.ipynb")
    text = printed(outputs)
    assert "curriculum" in text
    assert "DAgger: " in text
    assert "of fresh episodes after 400 steps" in text
    assert "expert: 100% of fresh episodes" in text
    assert "distilled, then better: " in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1, "the curves"
    films = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(films) == 2
    assert all("data:video/mp4;base64," in film for film in films)
    config = yaml.safe_load(next((tmp_path / "runs").glob("*/*/sac/*/*/config.yaml")).read_text(encoding="utf-8"))
    assert Path(config["strategy_params"]["teacher"]) == next((tmp_path / "runs").glob("*/*/dagger/*/*"))
