"""All new files are written or none, and existing files are never overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mygym.cli.new import write_new
from mygym.cli.new.scaffolds import SCAFFOLDS, Request, new_files
from mygym.errors import ConfigError


def contents(folder: Path) -> dict[str, str | None]:
    return {str(path): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", SCAFFOLDS)
def test_no_file_is_overwritten(kind: str, folder: Path) -> None:
    files = new_files(kind, Request("custom", folder))
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("user text, without a newline at the end")
        before = contents(folder)
        with pytest.raises(ConfigError, match=r"exists already, and nothing is overwritten"):
            write_new(files)
        assert contents(folder) == before
        path.unlink()
    path.symlink_to("nowhere")  # a broken link is a file of the user too
    with pytest.raises(ConfigError, match="exists already"):
        write_new(files)


def test_a_file_that_appears_during_writing_is_kept_and_the_others_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = new_files("algo", Request("custom", folder))
    original = Path.open

    def opened(path: Path, *arguments: Any, **keywords: Any) -> Any:
        if "tests" in str(path):
            with original(path, "w") as file:
                file.write("text of another program")
        return original(path, *arguments, **keywords)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(ConfigError, match=r"test_custom\.py.*exists already"):
        write_new(files)
    assert {name for name, text in contents(folder).items() if text is not None} == {
        str(folder / "tests" / "test_custom.py")
    }


def test_a_folder_that_cannot_be_made_leaves_no_file(folder: Path) -> None:
    (folder / "tests").write_text("a file")
    before = contents(folder)
    with pytest.raises(ConfigError, match="tests"):
        write_new(new_files("algo", Request("custom", folder)))
    assert contents(folder) == before
