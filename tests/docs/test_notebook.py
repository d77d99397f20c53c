"""The notebook runs from top to bottom, shows what it says, and is kept without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from .documents import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FAST = 'config |= {"steps": 1_000, "eval": {"episodes": 5, "final_episodes": 5}}'


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_is_kept_without_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.cell_type == "markdown" or (not cell.outputs and cell.execution_count is None)
    assert str(Path.home()) not in text
    assert "file://" not in text


def test_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "notebooks" / "01_first_run.ipynb", as_version=4)
    first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    assert notebook.cells[first].source.startswith("config = {")
    notebook.cells.insert(first + 1, nbformat.v4.new_code_cell(FAST))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert "done after 1000 env steps" in printed
    assert "scripted expert: 1.0" in printed
    assert "'is_success': " in printed
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2, "the curve, and the frames"
    (run,) = (tmp_path / "runs").glob("*/*/*/*/*")
    assert (run / "videos" / "final.mp4").stat().st_size > 1000
