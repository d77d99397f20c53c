"""Names and folders that `mygym new` refuses."""

from __future__ import annotations

import keyword
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.cli.new import write_new
from mygym.cli.new.scaffolds import SCAFFOLDS, Request, camel_case, check_identifier, new_files
from mygym.errors import ConfigError


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,70}", fullmatch=True)))
def test_an_accepted_name_is_an_identifier_and_a_file_name(name: str) -> None:
    try:
        check_identifier("name", name)
    except ConfigError:
        return
    assert name.isidentifier()
    assert name.isascii()
    assert not keyword.iskeyword(name)
    assert not name.startswith("_")  # the registry ignores such files
    assert len(name) <= 60
    assert camel_case(name).isidentifier()


INVALID = ["", "two words", "9lives", "a/b", "../up", "a.b", "a-b", "für", "class", "None", "_a"]


def test_an_invalid_name_is_an_error(folder: Path) -> None:
    for kind, name in [*(("algo", name) for name in INVALID), *((kind, "a/b") for kind in SCAFFOLDS)]:
        with pytest.raises(ConfigError, match="name: "):
            new_files(kind, Request(name, folder))


@pytest.mark.parametrize("name", ["9", "my class", "def", "Höhe"])
def test_an_invalid_class_name_is_an_error(name: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="--class: "):
        new_files("algo", Request("custom", folder, class_name=name))


@pytest.mark.parametrize(("name", "base"), [("PPO", "ppo"), ("SAC", "sac"), ("Any", "ppo"), ("Runner", "runner")])
def test_an_imported_class_name_is_an_error(name: str, base: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=f"--class: '{name}'"):
        new_files("algo", Request("custom", folder, class_name=name, base=base))


TAKEN = [
    ("algo", "sac"),
    ("policy", "oracle"),
    ("task", "push"),
    ("env", "reach"),
    ("env", "table"),
    ("env", "cube"),
    ("stage", "grasp"),
    ("predicate", "held"),
    ("predicate", "grasp"),  # the stage of the predicate
    ("reward", "sparse"),
    ("observation", "ee_position"),
    ("controller", "ee_delta"),
    ("robot", "panda"),
    ("workspace", "table"),
    ("task", "gym"),  # mygym/Gym-v0
    ("task", "Pick_And_Place"),  # the id of pick_and_place
    ("task", "AGM"),
]


def test_a_registered_name_is_an_error(folder: Path) -> None:
    for kind, name in TAKEN:
        with pytest.raises(ConfigError, match=f"name: '{name}'"):
            new_files(kind, Request(name, folder))


def test_a_name_registered_by_a_user_file_is_an_error(folder: Path) -> None:
    write_new(new_files("algo", Request("custom", folder)))
    (folder / "algos" / "custom.py").rename(folder / "algos" / "other.py")
    with pytest.raises(ConfigError, match=r"is a registered algorithm already \(.*other\.py"):
        new_files("algo", Request("custom", folder))


@pytest.mark.parametrize("package", ["algos", "envs"])
def test_a_run_directory_is_an_error(package: str, folder: Path) -> None:
    (folder / package).mkdir()
    (folder / "result.json").write_text("{}")
    with pytest.raises(ConfigError, match="is a run directory"):
        new_files("algo", Request("custom", folder))
