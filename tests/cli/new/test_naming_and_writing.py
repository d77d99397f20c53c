"""Names that are refused, and files that are written all or not at all."""

from __future__ import annotations

import keyword
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.cli.new.kinds import KINDS, Request, new_files
from mygym.cli.new.naming import check_identifier, class_name
from mygym.cli.new.writing import write_new
from mygym.errors import ConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    return tmp_path


def contents(folder: Path) -> dict[str, str | None]:
    return {str(path): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,70}", fullmatch=True)))
def test_what_is_a_name_is_an_identifier_and_a_file_name(said: str) -> None:
    try:
        check_identifier("name", said)
    except ConfigError:
        return
    assert said.isidentifier()
    assert said.isascii()
    assert not keyword.iskeyword(said)
    assert not said.startswith("_")  # such files are left alone
    assert len(said) <= 60
    assert class_name(said).isidentifier()


@pytest.mark.parametrize(
    "said", ["", "two words", "9lives", "a/b", "../up", "a.b", "a-b", "für", "class", "None", "_a"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_no_name(kind: str, said: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="name: "):
        new_files(kind, Request(said, folder))


@pytest.mark.parametrize("said", ["9", "my class", "def", "Höhe"])
def test_no_class_name(said: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="--class: "):
        new_files("algo", Request("mine", folder, class_name=said))


@pytest.mark.parametrize(("said", "base"), [("PPO", "ppo"), ("SAC", "sac"), ("Any", "ppo"), ("Runner", "runner")])
def test_a_class_that_the_file_imports_already(said: str, base: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=f"--class: '{said}'"):
        new_files("algo", Request("mine", folder, class_name=said, base=base))


TAKEN = [
    ("algo", "sac"),
    ("policy", "oracle"),
    ("task", "push"),
    ("env", "reach"),
    ("env", "table"),
    ("env", "cube"),
    ("stage", "grasp"),
    ("robot", "panda"),
    ("workspace", "table"),
    ("task", "gym"),  # mygym/Gym-v0
    ("task", "Pick_And_Place"),  # the id of pick_and_place
    ("task", "AGM"),
]


@pytest.mark.parametrize(("kind", "name"), TAKEN)
def test_a_name_that_something_has(kind: str, name: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=f"name: '{name}'"):
        new_files(kind, Request(name, folder))


def test_a_name_that_the_users_own_has(folder: Path) -> None:
    write_new(new_files("algo", Request("mine", folder)))
    (folder / "algos" / "mine.py").rename(folder / "algos" / "other.py")
    with pytest.raises(ConfigError, match=r"is a registered algorithm already \(.*other\.py"):
        new_files("algo", Request("mine", folder))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_overwritten_whatever_is_there(kind: str, folder: Path) -> None:
    files = new_files(kind, Request("mine", folder))
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine, without a newline at the end")
        before = contents(folder)
        with pytest.raises(ConfigError, match=r"exists already, and nothing is overwritten"):
            write_new(files)
        assert contents(folder) == before
        path.unlink()
    path.symlink_to("nowhere")  # a link that leads nowhere is somebody's too
    with pytest.raises(ConfigError, match="exists already"):
        write_new(files)


def test_a_file_that_appears_in_the_meantime_is_left_and_the_others_are_taken_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = new_files("algo", Request("mine", folder))
    usual = os.link

    def link(source: Path, target: Path) -> None:
        if "tests" in str(target):
            target.write_text("somebody else's")
        usual(source, target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(ConfigError, match=r"test_mine\.py.*exists already"):
        write_new(files)
    assert {name for name, text in contents(folder).items() if text is not None} == {
        str(folder / "tests" / "test_mine.py")
    }


def test_a_file_system_without_links(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    files = new_files("task", Request("mine", folder))
    write_new(files)
    assert {path: path.read_text() for path in files} == files
    assert not list(folder.rglob(".new-*"))


def test_a_folder_that_cannot_be_made_leaves_nothing(folder: Path) -> None:
    (folder / "tests").write_text("a file")
    before = contents(folder)
    with pytest.raises(ConfigError, match="tests"):
        write_new(new_files("algo", Request("mine", folder)))
    assert contents(folder) == before


@pytest.mark.parametrize("package", ["algos", "envs"])
def test_folders_in_which_nothing_would_be_found(package: str, folder: Path) -> None:
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    with pytest.raises(ConfigError, match=r"is a package"):
        new_files("algo", Request("mine", folder))
    (folder / package / "__init__.py").unlink()
    (folder / "result.json").write_text("{}")
    with pytest.raises(ConfigError, match="is a run directory"):
        new_files("algo", Request("mine", folder))


def test_bases_that_do_not_do(folder: Path) -> None:
    with pytest.raises(Exception, match="did you mean 'ppo'"):
        new_files("algo", Request("mine", folder, base="pppo"))
    with pytest.raises(ConfigError, match="has no method that a subclass could add to"):
        new_files("algo", Request("mine", folder, base="cem"))
    with pytest.raises(ConfigError, match="has no networks"):
        new_files("policy", Request("mine", folder, base="ars"))
