"""Execute the notebooks from top to bottom and store them with their outputs: `python docs/notebooks.py [NAME …]`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "notebooks"
TIMEOUT = 3600
"""s that a cell may take."""


def execute(path: Path) -> Any:
    """Return a notebook with the outputs of a fresh kernel in an empty folder.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raises an error.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    language = dict(notebook.metadata.language_info)  # the client adds the version of Python
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=TIMEOUT, record_timing=False, resources=resources).execute()
        notebook.metadata.language_info = language
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = joined(cell.outputs)
                for output in cell.outputs:
                    if output.output_type == "stream":
                        output.text = without_folders(as_shown(output.text), folder)
    return notebook


def joined(outputs: list[Any]) -> list[Any]:
    """Return the outputs of a cell, with consecutive texts of the same stream as one output."""
    result: list[Any] = []
    for output in outputs:
        if output.output_type == "stream" and result and result[-1].get("name") == output.name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def as_shown(text: str) -> str:
    """Return a text as a terminal shows it: a carriage return begins its line again, as progress bars do."""
    return "\n".join(line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n"))


def without_folders(text: str, folder: str) -> str:
    """Return a text in which no path names a folder of this machine."""
    folders = {os.path.realpath(folder), folder, str(ROOT), sys.prefix, str(Path.home())}
    for path in sorted(folders, key=len, reverse=True):  # a folder may contain another
        text = text.replace(f"{path}/", "").replace(path, ".")
    return text


def main(names: list[str]) -> None:
    """Execute and overwrite the notebooks whose names contain one of `names`; without names, all."""
    os.environ |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # for `!mygym …`
        "TERM": "dumb",  # no colours
        "COLUMNS": "120",
    }
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or any(name in path.name for name in names):
            print(path.relative_to(ROOT), flush=True)  # noqa: T201
            nbformat.write(execute(path), path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(sys.argv[1:])
