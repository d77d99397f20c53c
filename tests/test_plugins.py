"""The user's own files: found without being executed, executed when used, and the same in every process."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

import mygym
from mygym.cli.main import main
from mygym.errors import RegistryError
from mygym.registry import algorithm, implemented_combos, registry
from mygym.tasks.task import find_task

ALGORITHM = '''\
"""Counts its lines."""
from pathlib import Path
from mygym.algos.stable_baselines import PPO
from mygym.registry import register_algorithm

Path(__file__).with_name("executed.txt").write_text(__name__)


@register_algorithm("plugged", defaults={"n_steps": 32, "batch_size": 16, "n_epochs": 1})
class Plugged(PPO):
    """A plugged-in algorithm."""
'''
DICTIONARY_FORM = '''\
"""The dictionary form."""
from mygym.algos.stable_baselines import A2C
from mygym.registry import implemented_combos

implemented_combos["plugged"] = {"pytorch": [A2C, ("MultiInputPolicy", "env"), {"n_steps": 8}]}
'''
TASK = '''\
"""A task of mine."""
from mygym.tasks.task import register_task

register_task("tap", ["approach", "push"], help="touch and go", horizon=42)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_found_without_being_executed(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM)
    entry = registry("algorithm").get("plugged")
    assert "plugged" in registry("algorithm").names()
    assert (entry.help, entry.origin) == ("A plugged-in algorithm.", str(path))
    assert not path.with_name("executed.txt").exists()


def test_a_file_is_executed_when_it_is_used_under_its_stable_name(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM)
    cls, _, kwargs = implemented_combos["plugged"]["pytorch"]
    assert cls.__module__ == "mygym_user.algos.plugged_in"
    assert path.with_name("executed.txt").read_text() == "mygym_user.algos.plugged_in"
    assert kwargs["n_steps"] == 32
    assert algorithm("plugged").help == "A plugged-in algorithm."


def test_the_dictionary_form_is_found_too(folder: Path) -> None:
    write(folder / "algos" / "dictionary.py", DICTIONARY_FORM)
    assert registry("algorithm").get("plugged").help == "The dictionary form."
    assert implemented_combos["plugged"]["pytorch"][2] == {"n_steps": 8}


def test_a_task_file_becomes_a_task(folder: Path) -> None:
    write(folder / "envs" / "tap.py", TASK)
    assert registry("task").get("tap").help == "touch and go"
    assert find_task("tap").stage_names == ("approach", "push")
    with mygym.make_env({"task": "tap"}) as env:
        assert env.task.horizon == 42


def test_what_is_plugged_in_trains_and_loads(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    write(folder / "envs" / "tap.py", TASK)
    short = {"steps": 32, "n_envs": 1, "eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
    result = mygym.train({"algo": "plugged", "task": "tap", "logdir": "runs", "reward": "dense", **short})
    assert (result.status, result.task) == ("done", "tap")
    assert mygym.load(result.path).model.__module__ == "mygym_user.algos.plugged_in"


def test_files_beside_the_script_are_found_from_anywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "project" / "algos" / "plugged_in.py", ALGORITHM)
    monkeypatch.setattr(sys, "argv", [str(folder / "project" / "train.py")])
    assert "plugged" in registry("algorithm")


def test_the_current_folder_comes_before_the_scripts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "project" / "algos" / "same.py", ALGORITHM.replace("plugged", "beside_script"))
    here = write(folder / "algos" / "same.py", ALGORITHM)
    monkeypatch.setattr(sys, "argv", [str(folder / "project" / "train.py")])
    assert registry("algorithm").get("plugged").origin == str(here)
    assert "beside_script" not in registry("algorithm")


def test_a_run_directory_is_not_looked_into(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    write(folder / "result.json", "{}")
    assert "plugged" not in registry("algorithm")


def test_a_package_that_is_called_algos_is_not_the_users_folder(folder: Path) -> None:
    write(folder / "algos" / "__init__.py", "")
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    assert "plugged" not in registry("algorithm")


def test_files_with_an_underscore_are_left_alone(folder: Path) -> None:
    write(folder / "algos" / "_helper.py", ALGORITHM)
    assert "plugged" not in registry("algorithm")


def test_an_error_in_a_file_names_file_and_line(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM + "\n1 / 0\n")
    line = ALGORITHM.count("\n") + 2
    with pytest.raises(RegistryError, match="ZeroDivisionError") as error:
        algorithm("plugged")
    assert f"{path}:{line}:" in str(error.value)


def test_a_missing_package_in_a_file_is_named_with_file_and_line(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", "import no_such_package\n" + ALGORITHM)
    with pytest.raises(RegistryError, match="no_such_package") as error:
        algorithm("plugged")
    assert f"{path}:1:" in str(error.value)


def test_a_syntax_error_is_shown_when_its_name_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "algos" / "plugged.py", "x = (\n" + ALGORITHM)
    assert "sac" in registry("algorithm")
    with pytest.raises(RegistryError) as error:
        algorithm("plugged")
    assert f"{path}:1" in str(error.value)


def test_a_file_that_only_seems_to_register_is_told_of(folder: Path) -> None:
    path = write(folder / "algos" / "seems.py", "if False:\n    register_algorithm('plugged')\n")
    with pytest.raises(RegistryError, match="does not register it") as error:
        algorithm("plugged")
    assert str(path) in str(error.value)


@pytest.mark.parametrize("text", [ALGORITHM, DICTIONARY_FORM])
def test_the_name_of_a_built_in_is_refused(folder: Path, text: str) -> None:
    path = write(folder / "algos" / "plugged_in.py", text.replace('"plugged"', '"sac"'))
    with pytest.raises(RegistryError, match="registered twice") as error:
        list(registry("algorithm"))
    assert str(path) in str(error.value)
    assert "mygym.algos" in str(error.value)


def test_a_refused_file_stays_refused(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM.replace('"plugged"', '"sac"'))
    for _ in range(2):
        with pytest.raises(RegistryError, match="registered twice"):
            list(registry("algorithm"))


def test_a_built_in_can_be_replaced_on_purpose(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM.replace('"plugged",', '"sac", override=True,'))
    assert algorithm("sac").defaults["n_steps"] == 32


def test_two_files_that_take_one_name_are_both_named(folder: Path) -> None:
    first, second = (write(folder / "algos" / f"{name}.py", ALGORITHM) for name in ("first", "second"))
    with pytest.raises(RegistryError, match="registered twice") as error:
        list(registry("algorithm"))
    assert str(first) in str(error.value)
    assert str(second) in str(error.value)


def test_other_folders_with_the_files_name_as_a_beginning_are_no_exception(folder: Path) -> None:
    write(folder / "algos" / "a.py", ALGORITHM)
    write(folder / "algos" / "a_py.py", ALGORITHM)
    with pytest.raises(RegistryError, match="registered twice"):
        list(registry("algorithm"))


def test_a_file_that_appears_later_is_found(folder: Path) -> None:
    assert "plugged" not in registry("algorithm")
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    assert "plugged" in registry("algorithm")


def test_a_file_that_was_found_can_be_used_from_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook that changes its folder."""
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    assert "plugged" in registry("algorithm")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert algorithm("plugged").defaults["n_steps"] == 32


def test_objects_of_a_users_class_survive_the_way_to_another_process(folder: Path, python) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    cls = implemented_combos["plugged"]["pytorch"][0]
    assert pickle.loads(pickle.dumps(cls)) is cls
    (folder / "class.pickle").write_bytes(pickle.dumps(cls))
    code = "import mygym, pickle; print(pickle.load(open('class.pickle', 'rb')).__module__)"
    done = python("-c", code, cwd=folder)
    assert done.stdout.strip().endswith("mygym_user.algos.plugged_in"), done.stderr


def test_listing_executes_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM)
    with pytest.raises(SystemExit, match="0"):
        main(["list", "algorithm"])
    assert "A plugged-in algorithm." in capsys.readouterr().out
    assert not path.with_name("executed.txt").exists()
