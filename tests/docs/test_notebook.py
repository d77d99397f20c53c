"""Every notebook runs from top to bottom with the expected outputs, and is stored with its outputs."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import nbformat
import pytest
import yaml
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat import NotebookNode

from docs.notebooks import as_shown, joined, without_folders
from mygym.checks import stages
from tests.docs.documents import BIN, ROOT, STEPS, STRATEGY_STEPS, in_process
from tests.docs.documents import shell as run_in_shell

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SHORT = {"steps": STEPS, "eval": {"episodes": 2, "final_episodes": 2}}
WITH_VIDEO = {"n_envs": 4, "video": {"episodes": 1, "width": 96, "height": 72}}
FAST = {
    "01_first_run.ipynb": SHORT | WITH_VIDEO,
    "02_your_own_algorithm.ipynb": SHORT | {"n_envs": 2},
    "03_your_own_world.ipynb": SHORT | {"n_envs": 2},
    "04_strategies.ipynb": SHORT | WITH_VIDEO | {"steps": STRATEGY_STEPS},
    "05_learning.ipynb": {},
    "06_fused.ipynb": SHORT | WITH_VIDEO | {"n_envs": 16, "steps": 512, "algo_params": {"batch_size": 64}},
}
"""Notebook → changes of its config in a further cell."""

MAX_OUTPUT_BYTES = 300_000
"""Largest size of a stored output, bytes of its JSON: a figure, a picture, a short video."""

SHORTER = {
    r'("every": \d\w*)(, "episodes": \d+)?': r'\1, "episodes": 2, "final_episodes": 2',
    r"\bepisodes=\d+": "episodes=3",
    r"--episodes \d+": "--episodes 3",
    r"seconds=1\.0": "seconds=0.02",
    r"size=61": "size=25",
    r"(rows = json\.loads\(.*\))": r"\1[::10]",
    r"--steps \d+": f"--steps {STEPS} --set n_envs=2",
    r"--width \d+ --height \d+": "--width 160 --height 120",
}
"""Pattern in a cell → text that runs instead."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_is_stored_with_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)], "run `python docs/notebooks.py`"
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "display_data"}, "no errors"
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert max(len(str(output)) for output in outputs) <= MAX_OUTPUT_BYTES
    for folder in (str(ROOT), sys.prefix, tempfile.gettempdir(), "file://"):
        assert folder not in text
    assert str(Path.home()) not in text
    assert "\\r" not in text


def test_no_path_of_this_machine_is_stored() -> None:
    text = f"{ROOT}/algos/x.py {sys.prefix}/bin/mygym /tmp/abc/runs/reach /tmp/abc"
    assert without_folders(text, "/tmp/abc") == "algos/x.py bin/mygym runs/reach ."


def test_a_progress_bar_is_its_last_state() -> None:
    assert as_shown("run\r\n 10%\r 20%\r100%\nend\n") == "run\n100%\nend\n"


def test_texts_of_a_stream_are_joined_in_order() -> None:
    texts = [("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")]
    outputs = [NotebookNode(output_type="stream", name=name, text=text) for name, text in texts]
    assert [(output.name, output.text) for output in joined(outputs)] == [
        ("stdout", "ab"),
        ("stderr", "c"),
        ("stdout", "d"),
    ]


def insert_fast(name: str) -> Any:
    """Read a notebook, with fewer steps and episodes in its config."""
    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    assert notebook.cells[first].source.startswith("config = {")
    for cell in notebook.cells:
        for pattern, shorter in SHORTER.items() if cell.cell_type == "code" else ():
            cell.source = re.sub(pattern, shorter, cell.source)
    notebook.cells.insert(first + 1, nbformat.v4.new_code_cell(f"config |= {FAST[name]}"))
    return notebook


def in_kernel(name: str, folder: Path, patch: pytest.MonkeyPatch) -> list[Any]:
    """Execute a notebook as a reader does, in a kernel whose commands are processes."""
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    patch.setenv("PATH", os.pathsep.join([str(BIN), os.environ["PATH"]]))
    patch.setenv("OMP_NUM_THREADS", "1")
    patch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = insert_fast(name)
    NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(folder)}}).execute()
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def in_this_process(name: str, folder: Path, patch: pytest.MonkeyPatch) -> list[Any]:
    """Execute a notebook and its `mygym` commands here: processes that import PyTorch take seconds each."""
    patch.chdir(folder)
    patch.setattr(sys, "argv", [str(folder / "notebook")])
    patch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell puts its module there
    patch.setenv("IPYTHONDIR", str(folder / "ipython"))
    shell = InteractiveShell.instance()
    patch.setattr(shell, "enable_gui", lambda gui=None: None)  # a terminal's and a kernel's shells have event loops
    shell.enable_matplotlib("inline")
    # Enabled once only, in the first shell of a process; without margins, for which each figure is drawn again.
    select_figure_formats(shell, {"png"}, bbox_inches=None)
    patch.setattr(shell, "system", lambda command: run_line(shell.var_expand(command), folder))
    outputs = []
    try:
        for cell in insert_fast(name).cells:
            if cell.cell_type == "code":
                outputs += run_cell(shell, cell.source)
    finally:
        shell.restore_sys_module_state()
        InteractiveShell.clear_instance()
        matplotlib.pyplot.close("all")
    return outputs


def run_line(command: str, folder: Path) -> None:
    """Run a line after `!`, and print its output."""
    print(in_process(command, folder) if command.startswith("mygym ") else run_in_shell(command, folder), end="")


def run_cell(shell: InteractiveShell, source: str) -> list[Any]:
    """Run a cell; return its outputs in the form of a notebook's.

    Raises:
        BaseException: The cell raises it.
    """
    with capture_output() as captured:
        result = shell.run_cell(source)
    result.raise_error()
    shown = [NotebookNode(output_type="display_data", data=NotebookNode(output.data)) for output in captured.outputs]
    return [NotebookNode(output_type="stream", name="stdout", text=captured.stdout), *shown]


@pytest.fixture(params=[in_this_process, pytest.param(in_kernel, marks=pytest.mark.slow)], ids=lambda way: way.__name__)
def execute(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[Any]]:
    """Executes a notebook in an empty folder, with fewer steps and episodes; its outputs."""
    return lambda name: request.param(name, tmp_path, monkeypatch)


def printed(outputs: list[Any]) -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def test_first_run(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("01_first_run.ipynb")
    assert f"done after {STEPS} env steps" in printed(outputs)
    assert "scripted expert: 1.0" in printed(outputs)
    assert "'is_success': " in printed(outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2, "the curve, and the frames"
    (run,) = (tmp_path / "runs").glob("*/*/*/*/*")
    assert (run / "videos" / "final.mp4").stat().st_size > 1000


def test_custom_algorithm(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("02_your_own_algorithm.ipynb")
    text = printed(outputs)
    assert "of fresh episodes after 256 steps" in text
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


def test_custom_world(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("03_your_own_world.ipynb")
    text = printed(outputs)
    assert "in words: approach the eraser, sweep it as far as the goal" in text
    assert "no flaw so far" in text, "the card meets what is demanded, as far as three episodes tell"
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
    assert f"of fresh episodes after {STRATEGY_STEPS} steps" in text
    assert "expert: 100% of fresh episodes" in text
    assert "distilled, then better: " in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1, "the curves"
    videos = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(videos) == 2
    assert all("data:video/mp4;base64," in video for video in videos)
    config = yaml.safe_load(next((tmp_path / "runs").glob("*/*/sac/*/*/config.yaml")).read_text(encoding="utf-8"))
    assert Path(config["strategy_params"]["teacher"]) == next((tmp_path / "runs").glob("*/*/dagger/*/*"))


@pytest.mark.slow
def test_learning(execute: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "EPISODES", 2)
    outputs = execute("05_learning.ipynb")
    text = printed(outputs)
    assert re.search(r"sparse +changes in +0\.0% of", text)
    assert re.search(r"shaped +changes in +(9\d\.\d|100\.0)% of", text)
    highest_cube, lowest_goal = map(float, re.findall(r"(?:highest cube|lowest goal): ([\d.]+) m", text))
    assert highest_cube < lowest_goal, "random actions lift no cube"
    assert "a higher cube earns more at 100% of the points below the goal" in text
    flat = {stage: float(share) for stage, share in re.findall(r"(push\w*): ([\d.]+)% of random steps", text)}
    assert flat["push_progress"] > 5 * (flat["push"] + 1), "refused, and the built-in stage is not"
    gains = re.findall(r"half of the lift gains ([\d.]+)", text)
    assert float(gains[0]) > 1.5 * float(gains[1]), "the weight of a stage that carries"
    assert "passed   teaches" in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 9


def test_fused(execute: Callable[[str], list[Any]], tmp_path: Path) -> None:
    outputs = execute("06_fused.ipynb")
    text = printed(outputs)
    assert "512 env steps in " in text
    assert "RobotEnv of PyBullet: {'is_success': " in text
    assert "of 256 episodes are solved in the array, within 25 steps" in text, "an episode ends at the horizon"
    error = re.search(r"random +3 +([\d.]+)", text)
    assert error
    assert float(error[1]) < 15, "mm, mean"
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    assert list((tmp_path / "runs").glob("*/*/ppo/*/*/videos/final.mp4"))
