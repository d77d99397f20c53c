"""The user's files: imported by the look-ups that need them, under the same name in every process."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mygym
from mygym.algos.stable_baselines import PPO
from mygym.cli.main import main, run
from mygym.config import load_file
from mygym.errors import ConfigError, RegistryError
from mygym.planning.resolve import resolve_config
from mygym.registry import (
    ASSETS,
    BUILTIN_FOLDERS,
    algorithm,
    implemented_combos,
    refresh,
    register_algorithm,
    registry,
    user_files,
)
from mygym.tasks.lookup import find_task

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
"""An example task."""
from mygym.tasks.task import register_task

register_task("tap", ["approach", "push"], help="touch and go", horizon=42)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    monkeypatch.setattr(sys, "path", list(sys.path))  # --import adds the current folder
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_class_in_a_file_is_near_to_its_registered_name(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM.replace("class Plugged(", "class Counting("))
    with pytest.raises(RegistryError, match="did you mean 'plugged'"):
        registry("algorithm").get("Counting")


def test_a_file_is_imported_only_by_look_ups_that_need_it(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM)
    assert registry("algorithm").get("sac").built_in
    assert "tap" not in registry("task")
    assert "unknown" not in registry("controller")
    assert not path.with_name("executed.txt").exists()
    entry = registry("algorithm").get("plugged")  # the name is not the stem
    assert (entry.help, entry.origin) == ("A plugged-in algorithm.", f"{path}:9")
    assert "plugged" in registry("algorithm").names()


def test_a_file_that_registers_nothing_is_never_imported(folder: Path) -> None:
    path = write(folder / "algos" / "script.py", 'raise SystemExit("plugged sac")\n')
    assert registry("algorithm").get("sac").built_in
    assert "plugged" not in registry("algorithm")
    assert registry("algorithm").broken() == []
    with pytest.raises(RegistryError, match=rf"{path}.*SystemExit"):
        registry("algorithm").get("script")  # but its stem is a name


def test_a_file_without_the_name_of_its_stem_is_named(folder: Path) -> None:
    path = write(folder / "algos" / "seems.py", ALGORITHM)
    with pytest.raises(RegistryError, match=rf"allowed: .*plugged.*{path} does not register it"):
        algorithm("seems")


def test_a_computed_name_is_found(folder: Path) -> None:
    write(folder / "algos" / "dynamic.py", DICTIONARY_FORM.replace('"plugged"', '"plug" + "ged"'))
    assert algorithm("plugged").defaults["n_steps"] == 8


def test_a_file_is_executed_under_its_stable_name_when_used(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM)
    cls, _, kwargs = implemented_combos["plugged"]["pytorch"]
    assert cls.__module__ == "mygym_user.algos.plugged_in"
    assert path.with_name("executed.txt").read_text() == "mygym_user.algos.plugged_in"
    assert kwargs["n_steps"] == 32
    assert algorithm("plugged").help == "A plugged-in algorithm."


def test_the_dictionary_form_is_recognised(folder: Path) -> None:
    write(folder / "algos" / "dictionary.py", DICTIONARY_FORM)
    assert registry("algorithm").get("plugged").help.startswith("Advantage actor-critic")
    assert implemented_combos["plugged"]["pytorch"][2] == {**implemented_combos["a2c"]["pytorch"][2], "n_steps": 8}


def test_a_task_file_registers_a_task(folder: Path) -> None:
    write(folder / "envs" / "tap.py", TASK)
    assert registry("task").get("tap").help == "touch and go"
    assert find_task("tap").stage_names == ("approach", "push")
    with mygym.make_env({"task": "tap"}) as env:
        assert env.task.horizon == 42


def test_algorithm_and_task_of_files_train_and_load(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    write(folder / "envs" / "tap.py", TASK)
    short = {"steps": 32, "n_envs": 1, "eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
    result = mygym.train({"algo": "plugged", "task": "tap", "logdir": "runs", "reward": "dense", **short})
    assert (result.status, result.task) == ("done", "tap")
    assert mygym.load(result.path).model.__module__ == "mygym_user.algos.plugged_in"


@pytest.mark.skipif(sys.version_info < (3, 14), reason="before, Python evaluates annotations at once")
def test_annotations_may_name_what_only_type_checkers_import(folder: Path) -> None:
    head = "from typing import TYPE_CHECKING\nfrom mygym.tasks.rewards import register_reward\n"
    reward = '@register_reward("lazy")\ndef lazy(context: Array, gamma: float = 1.0): ...\n'
    write(folder / "envs" / "lazy.py", f"{head}if TYPE_CHECKING:\n    from somewhere import Array\n\n\n{reward}")
    assert "gamma" in registry("reward").get("lazy", "reward").load().takes


def test_files_beside_the_script_are_scanned_from_any_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "project" / "algos" / "plugged_in.py", ALGORITHM)
    monkeypatch.setattr(sys, "argv", [str(folder / "project" / "train.py")])
    assert "plugged" in registry("algorithm")


def test_the_current_folder_takes_precedence_over_that_of_the_script(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "project" / "algos" / "same.py", ALGORITHM.replace("plugged", "beside_script"))
    here = write(folder / "algos" / "same.py", ALGORITHM)
    monkeypatch.setattr(sys, "argv", [str(folder / "project" / "train.py")])
    assert registry("algorithm").get("plugged").origin == f"{here}:9"
    assert "beside_script" not in registry("algorithm")


def test_a_run_directory_is_not_scanned(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    write(folder / "result.json", "{}")
    assert "plugged" not in registry("algorithm")


@pytest.mark.parametrize(
    ("file", "module"),
    {
        "algos/plugged_in.py": "algos.plugged_in",
        "algos/deep/er/plugged_in.py": "algos.deep.er.plugged_in",
        "algos/__init__.py": "algos.__init__",
        "strategies/plugged_in.py": "strategies.plugged_in",
    }.items(),
)
def test_packages_and_subfolders_are_scanned(file: str, module: str, folder: Path) -> None:
    write(folder / "algos" / "__init__.py", "")
    write(folder / file, ALGORITHM)
    cls, _, _ = implemented_combos["plugged"]["pytorch"]
    assert cls.__module__ == f"mygym_user.{module}"
    assert pickle.loads(pickle.dumps(cls)) is cls


@pytest.mark.parametrize("hidden", ["algos/_old/plugged_in.py", "algos/.cache/plugged_in.py", "algos/my-files/a.py"])
def test_private_subfolders_are_not_scanned(hidden: str, folder: Path) -> None:
    write(folder / hidden, ALGORITHM)
    assert "plugged" not in registry("algorithm")


def test_files_of_a_package_import_each_other(folder: Path) -> None:
    write(folder / "algos" / "__init__.py", "")
    write(folder / "algos" / "parts" / "numbers.py", "STEPS = 24\n")
    text = ALGORITHM.replace("from pathlib", "from .parts.numbers import STEPS\nfrom pathlib").replace("32", "STEPS")
    write(folder / "algos" / "plugged_in.py", text)
    assert implemented_combos["plugged"]["pytorch"][2]["n_steps"] == 24


def test_mygym_itself_is_not_a_users_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ASSETS.parent)
    monkeypatch.setattr(sys, "argv", ["mygym"])
    assert user_files.user_folders() == []


def test_a_changed_train_py_is_named_by_its_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write(folder / "my_train.py", DICTIONARY_FORM)
    user_files.import_modules(["my_train"])
    short = {"steps": 8, "n_envs": 1, "eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
    result = mygym.train({"algo": "plugged", "logdir": str(folder / "runs"), **short})
    assert json.loads((result.path / "result.json").read_text())["algo_source"] == f"{script}:5"
    registry("algorithm").remove("plugged")
    for command in (["evaluate", str(result.path)], ["train", "--resume", str(result.path), "--steps", "16"]):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert stop.value.code == 2
        message = capsys.readouterr().err
        assert f"'plugged' is not registered; {script}:5 registered it: add --import {script}" in message
    write(folder / "other" / "my_train.py", "")  # another file of this name, which a module of this name would be
    monkeypatch.chdir(folder / "other")
    hint = message.partition("add ")[2].split()
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(result.path.absolute()), "--episodes", "1", *hint])
    assert stop.value.code == 0
    assert "success" in capsys.readouterr().out


COMBO = '{"pytorch": [A2C, ("MultiInputPolicy", "env"), {"n_steps": 8}]}'
WRITES = {
    "literal": f'implemented_combos = {{"plugged": {COMBO}}}',
    "literal with an annotation": f'implemented_combos: dict = {{"plugged": {COMBO}}}',
    "literal with the others": f'implemented_combos = {{**implemented_combos, "plugged": {COMBO}}}',
    "union": f'implemented_combos |= {{"plugged": {COMBO}}}',
    "update": f'implemented_combos.update({{"plugged": {COMBO}}})',
    "setdefault": f'implemented_combos.setdefault("plugged", {COMBO})',
}


@pytest.mark.parametrize("form", WRITES)
def test_every_way_to_write_into_the_dictionary_registers(form: str, folder: Path) -> None:
    text = DICTIONARY_FORM[: DICTIONARY_FORM.index("implemented_combos[")] + WRITES[form] + "\n"
    path = write(folder / "algos" / "dictionary.py", text)
    entry = algorithm("plugged")
    assert (entry.target.__name__, entry.defaults["n_steps"]) == ("A2C", 8)
    assert entry.origin == f"{path}:{text[: text.index(WRITES[form])].count(chr(10)) + 1}"


def test_a_dictionary_of_a_copy_of_train_py_is_registered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DICTIONARY_FORM[: DICTIONARY_FORM.index("implemented_combos[")] + WRITES["literal"] + "\n"
    write(folder / "copied.py", text + "from mygym import train\n\ndef train(*args, **more):\n    return mygym.train\n")
    monkeypatch.syspath_prepend(folder)
    copied = importlib.import_module("copied")
    with pytest.raises(SystemExit) as stop:
        run("train", ["--algo", "plugged", "--explain"], train=copied.train)
    assert stop.value.code == 0
    assert "algorithm plugged" in capsys.readouterr().out
    sys.modules.pop("copied")


def test_env_without_quotes_is_explained(folder: Path) -> None:
    path = write(folder / "algos" / "dictionary.py", DICTIONARY_FORM.replace('"env"', "env"))
    with pytest.raises(RegistryError, match="NameError") as error:
        algorithm("plugged")
    assert f"{path}:5:" in str(error.value)
    assert 'write "env" with quotes' in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"push": "psuh"}, ["task tap: stages: 'psuh'", "'push'"]),
        ({"approach": "push"}, ["'push'", "invalid composition"]),
        ({"horizon=42": "object='cbe'"}, ["task tap: object: 'cbe'", "'cube'"]),
        ({"help=": "hepl="}, ["task tap: 'hepl'", "horizon"]),
    ],
)
def test_a_mistake_in_a_task_names_the_task_and_its_line(
    changes: dict[str, str], words: list[str], folder: Path
) -> None:
    text = TASK
    for old, new in changes.items():
        text = text.replace(old, new)
    path = write(folder / "envs" / "tap.py", text)
    with pytest.raises((ConfigError, RegistryError)) as error:
        find_task("tap")
    assert f"{path}:4" in str(error.value)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("Stage('tap', phras='tap it')", ["allowed: name, letter", "did you mean 'phrase'?"]),
        ("register_stage('tap', stge=3)", ["allowed: name, stage, override", "'stage'?"]),
        ("SubTask('AG', objct='cube')", ["allowed: stages, object", "'object'?"]),
        ("(lambda name: 1)(nme=1)", []),
        ("print(nme=1)", []),
    ],
)
def test_an_unknown_keyword_in_a_file_has_the_nearest(call: str, words: list[str], folder: Path) -> None:
    text = f"from mygym.tasks.stage import Stage, SubTask, register_stage\nregister_stage('tap', {call})\n"
    path = write(folder / "envs" / "tap.py", text)
    with pytest.raises(RegistryError, match=r"unexpected keyword|invalid keyword") as error:
        registry("stage").get("tap")
    assert f"{path}:2:" in str(error.value)
    assert all(word in str(error.value) for word in words)
    assert words or "allowed" not in str(error.value)


BASES = """\
from stable_baselines3.common.callbacks import BaseCallback
from mygym.planning.callbacks import register_callback
from mygym.registry import register_algorithm
from mygym.strategies import Strategy, register_strategy
from mygym.training.runner import Runner


class WithStep(BaseCallback):
    def _on_step(self): return True


class Training(Runner):
    def training(self, loop): return loop.curves()
"""


@pytest.mark.parametrize(
    ("kind", "base", "method", "hook"),
    [
        ("strategy", "Strategy", "begin_iteratons", "begin_iteration"),
        ("callback", "WithStep", "_on_rollout_strat", "_on_rollout_start"),
        ("algorithm", "Training", "set_up", "setup"),
    ],
)
@pytest.mark.parametrize("is_used", [False, True])
def test_a_method_with_a_misspelt_name_is_refused_unless_the_file_uses_it(
    is_used: bool, kind: str, base: str, method: str, hook: str, folder: Path
) -> None:
    text = f"{BASES}\n\n@register_{kind}('mine')\nclass Mine({base}):\n    def {method}(self): ...\n"
    path = write(folder / "algos" / "mine.py", text + f"    def again(self): return self.{method}()\n" * is_used)
    if is_used:
        assert registry(kind).get("mine").name == "mine"
        return
    with pytest.raises(RegistryError) as error:
        registry(kind).get("mine")
    line = text[: text.index(f"def {method}")].count("\n") + 1
    assert all(word in str(error.value) for word in (f"'{method}'", f"'{hook}'", f"{path}:{line}"))


@pytest.mark.parametrize(
    ("statement", "helper"),
    [
        ("from parts.numbers import STEPS", "parts/numbers.py"),
        ("from algos.parts.numbers import STEPS", "parts/numbers.py"),
        ("from .parts.numbers import STEPS", "parts/numbers.py"),
        ("from parts import STEPS", "parts/__init__.py"),
        ("from .parts import STEPS", "parts/__init__.py"),
        ("from numbers_of_mine import STEPS", "numbers_of_mine.py"),
        ("from ._private import STEPS", "_private.py"),
    ],
)
def test_a_file_imports_the_files_beside_it(
    statement: str, helper: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "algos" / helper, "STEPS = 24\nclass Of: pass\n")
    path = write(folder / "algos" / "plugged_in.py", f"{statement}, Of\n" + ALGORITHM.replace("32", "STEPS"))
    monkeypatch.chdir(folder.parent)  # the run is evaluated in another folder
    monkeypatch.setattr(sys, "argv", ["mygym"])
    user_files.import_modules([str(path)])
    assert implemented_combos["plugged"]["pytorch"][2]["n_steps"] == 24
    cls = sys.modules["mygym_user.algos.plugged_in"].Of
    assert cls.__module__.startswith("mygym_user.algos.")
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_each_file_imports_the_helper_beside_it(folder: Path) -> None:
    for name, steps in (("first", 16), ("second", 24)):
        write(folder / "algos" / name / "parts.py", f"STEPS = {steps}\n")
        text = ALGORITHM.replace("plugged", name).replace("32", "STEPS")
        write(folder / "algos" / name / "plugged_in.py", f"from parts import STEPS\n{text}")
    defaults = [implemented_combos[name]["pytorch"][2]["n_steps"] for name in ("first", "second")]
    assert defaults == [16, 24]


def test_only_files_of_the_user_import_helpers(folder: Path) -> None:
    write(folder / "algos" / "no_such_package.py", 'raise AssertionError("executed")')
    registry("algorithm").names()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_package")


def test_a_run_directory_below_a_folder_of_the_user_is_not_scanned(folder: Path) -> None:
    write(folder / "algos" / "downloaded" / "result.json", "{}")
    write(folder / "algos" / "downloaded" / "plugged_in.py", ALGORITHM)
    assert "plugged" not in registry("algorithm")


@pytest.mark.parametrize("file", ["my.parts.py", "my-parts.py", "envs/a.b/parts.py", "algos/../parts.py"])
def test_a_file_of_any_name_is_imported_by_its_path(file: str, folder: Path) -> None:
    (folder / "algos").mkdir()
    write(folder / file, ALGORITHM)
    assert user_files.import_modules([file]) == [str(Path(file).absolute())]
    assert implemented_combos["plugged"]["pytorch"][2]["n_steps"] == 32


def test_a_config_imports_no_file_that_has_the_name_of_an_imported_one(folder: Path) -> None:
    first, other = (write(folder / name / "parts.py", "") for name in ("first", "other"))
    user_files.import_modules([str(first)])
    resolve_config({"imports": [str(first)]})
    with pytest.raises(ConfigError, match="imports: ") as error:
        resolve_config({"imports": [str(other)]})
    assert str(other) in str(error.value)


def test_no_helper_of_a_run_directory_is_imported(folder: Path) -> None:
    write(folder / "run" / "config.yaml", "")
    helper = write(folder / "algos" / "runs" / "result.json", "{}").parent / "helper.py"
    write(helper, 'raise AssertionError("executed")')
    write(folder / "algos" / "plugged_in.py", "import runs.helper\n" + ALGORITHM)
    with pytest.raises(RegistryError, match="ModuleNotFoundError"):
        algorithm("plugged")


def test_files_with_a_leading_underscore_are_not_scanned(folder: Path) -> None:
    write(folder / "algos" / "_helper.py", ALGORITHM)
    assert "plugged" not in registry("algorithm")


@pytest.mark.parametrize("device", ["pipe", "/dev/zero"])
@pytest.mark.parametrize("file", ["envs/broken.py", "envs/robots/broken.yaml"])
def test_files_that_are_not_regular_are_not_read(file: str, device: str, folder: Path) -> None:
    path = folder / file
    path.parent.mkdir(parents=True)
    os.mkfifo(path) if device == "pipe" else path.symlink_to(device)
    with pytest.raises(RegistryError, match=f"{path}.*is not a regular file"):
        registry("robot").get("broken")


def test_an_error_in_a_file_has_file_and_line(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM + "\n1 / 0\n")
    line = ALGORITHM.count("\n") + 2
    with pytest.raises(RegistryError, match="ZeroDivisionError") as error:
        algorithm("plugged")
    assert f"{path}:{line}:" in str(error.value)


def test_a_file_that_is_mended_within_a_second_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    wrong = ALGORITHM.replace('"n_steps": 32', '"n_steps": 1/0')
    path = write(folder / "algos" / "plugged_in.py", wrong)
    with pytest.raises(RegistryError, match="ZeroDivisionError"):
        algorithm("plugged")
    mended = wrong.replace("1/0", " 32")
    before = path.stat()
    path.write_text(mended)
    os.utime(path, (before.st_atime, int(before.st_mtime)))
    refresh()
    assert algorithm("plugged").defaults["n_steps"] == 32


def test_a_missing_package_in_a_file_is_named_with_file_and_line(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", "import no_such_package\n" + ALGORITHM)
    with pytest.raises(RegistryError, match="no_such_package") as error:
        algorithm("plugged")
    assert f"{path}:1:" in str(error.value)


def test_a_syntax_error_is_shown_when_a_name_is_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "algos" / "plugged.py", "x = (\n" + ALGORITHM)
    assert "sac" in registry("algorithm")
    with pytest.raises(RegistryError) as error:
        algorithm("plugged")
    assert f"{path}:1" in str(error.value)


def test_a_broken_file_is_an_entry_with_its_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = write(folder / "algos" / "broken.py", ALGORITHM.replace("plugged", "half") + "\n1 / 0\n")
    wrong = write(folder / "algos" / "wrong.py", "x = (\n" + ALGORITHM)
    write(folder / "algos" / "good.py", ALGORITHM)
    assert {"plugged", "sac"} <= set(registry("algorithm").names())
    assert "half" not in registry("algorithm").names()  # nothing of it is registered
    assert command("list", "algorithm", "--json") == 0
    helps = {entry["origin"]: entry["help"] for entry in json.loads(capsys.readouterr().out)}
    assert helps[str(broken)] == f"{broken}:{ALGORITHM.count(chr(10)) + 2}: ZeroDivisionError: division by zero"
    assert f"{wrong}:1: SyntaxError" in helps[str(wrong)]
    for name in ("half", "broken"):
        with pytest.raises(RegistryError, match=r"broken\.py:\d+: ZeroDivisionError"):
            algorithm(name)


def test_a_file_that_fails_gives_back_the_components_that_it_has_replaced(folder: Path) -> None:
    text = ALGORITHM.replace('"plugged",', '"sac", override=True,')
    path = write(folder / "algos" / "plugged_in.py", text + "\n1 / 0\n")
    for _ in range(2):  # a run must not train the built-in one in silence
        with pytest.raises(RegistryError, match="ZeroDivisionError"):
            registry("algorithm").get("sac")
    assert implemented_combos["a2c"]["pytorch"]
    assert {entry.name: entry.built_in for entry in registry("algorithm")}["sac"]
    write(path, text)
    assert not registry("algorithm").get("sac").built_in


def test_files_that_import_each_other_register_both(folder: Path) -> None:
    write(folder / "algos" / "base.py", ALGORITHM)
    text = ALGORITHM.replace('"plugged",', '"second",').replace("(PPO)", "(Base)")
    path = write(folder / "algos" / "second.py", f"from base import Plugged as Base\n{text}\n1 / 0\n")
    assert "second" in registry("algorithm")  # its error is raised by `get`
    assert algorithm("plugged").defaults["n_steps"] == 32  # the file that was imported stays registered
    write(path, path.read_text().replace("1 / 0", ""))
    assert algorithm("second").parent == "plugged"


@pytest.mark.parametrize("text", [ALGORITHM, DICTIONARY_FORM])
def test_the_name_of_a_built_in_component_is_refused(folder: Path, text: str) -> None:
    path = write(folder / "algos" / "plugged_in.py", text.replace('"plugged"', '"sac"'))
    with pytest.raises(RegistryError, match="registered twice") as error:
        registry("algorithm").get("sac")
    assert str(path) in str(error.value)
    assert "mygym.algos" in str(error.value)
    assert [entry.name for entry in registry("algorithm").broken()] == ["plugged_in"]


OBSERVATION = """
from mygym.tasks.observations import register_observation
@register_observation("plugged", 1)
def plugged(context):
    return context.state.ee_position
"""
CAMERA = """
from mygym.tasks.observations import register_camera_observation
@register_camera_observation("plugged", size=1)
def plugged(view):
    return view.latent
"""
RANDOMIZER = """
from mygym.envs.randomizers import register_randomizer
@register_randomizer("plugged", "m/s²", (0.0, 1.0), (0.0, 2.0))
def plugged(randomization, draw):
    return randomization
"""


@pytest.mark.parametrize(
    ("kind", "built_in", "text"),
    [
        ("observation", "ee_position", OBSERVATION),
        ("observation", "image", CAMERA),
        ("randomizer", "action_noise", RANDOMIZER),
    ],
)
def test_decorated_functions_have_their_file_as_origin(kind: str, built_in: str, text: str, folder: Path) -> None:
    path = write(folder / "envs" / "plugged_in.py", text)
    assert registry(kind).get("plugged").load() is not None
    entry = registry(kind).get("plugged")
    assert entry.origin == f"{path}:3"
    assert not entry.built_in
    write(folder / "envs" / "another.py", text.replace('"plugged"', f'"{built_in}"'))
    refresh()
    with pytest.raises(RegistryError, match="registered twice"):
        registry(kind).get(built_in)


def test_a_conflict_is_raised_each_time(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM.replace('"plugged"', '"sac"'))
    for _ in range(2):
        with pytest.raises(RegistryError, match="registered twice"):
            registry("algorithm").get("sac")


def test_override_replaces_a_built_in_component(folder: Path) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM.replace('"plugged",', '"sac", override=True,'))
    assert algorithm("sac").defaults["n_steps"] == 32


@pytest.mark.parametrize("names", [("first", "second"), ("a", "a_py"), ("plugged", "second")])
def test_two_files_that_register_the_same_name_are_both_in_the_message(names: tuple[str, str], folder: Path) -> None:
    first, second = (write(folder / "algos" / f"{name}.py", ALGORITHM) for name in names)
    with pytest.raises(RegistryError, match="'plugged' is registered twice") as error:
        algorithm("plugged")
    assert f"{first}:9 and {second}:9" in str(error.value)
    assert registry("algorithm").get("sac").name == "sac"


def test_a_file_that_appears_later_is_registered(folder: Path) -> None:
    assert "plugged" not in registry("algorithm")
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    assert "plugged" in registry("algorithm")


def test_a_file_in_a_new_current_folder_is_registered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "plugged" not in registry("algorithm")
    path = write(
        folder / "elsewhere" / "algos" / "plugged_in.py", ALGORITHM.replace('"plugged",', '"sac", override=True,')
    )
    monkeypatch.chdir(folder / "elsewhere")
    assert registry("algorithm").get("sac").origin == f"{path}:9"


def test_refresh_sees_files_that_were_mended_and_removed(folder: Path) -> None:
    path = write(folder / "algos" / "plugged_in.py", ALGORITHM.replace('"plugged"', '"sac"'))
    with pytest.raises(RegistryError, match="registered twice"):
        registry("algorithm").get("sac")
    write(path, "x = (\n" + ALGORITHM)
    refresh()
    assert registry("algorithm").get("sac").origin == "mygym.algos"
    with pytest.raises(RegistryError, match="SyntaxError"):
        registry("algorithm").get("plugged")
    path.unlink()
    refresh()
    assert "plugged" not in registry("algorithm")
    write(path, ALGORITHM)
    assert registry("algorithm").get("plugged").origin == f"{path}:9"


def test_a_removed_current_folder_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed_folder = folder / "gone"
    removed_folder.mkdir()
    monkeypatch.chdir(removed_folder)
    removed_folder.rmdir()
    assert registry("algorithm").get("sac").name == "sac"


def test_two_files_with_the_same_module_name_are_not_confused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "algos" / "same.py", ALGORITHM)
    assert algorithm("plugged").defaults["n_steps"] == 32
    write(folder / "elsewhere" / "algos" / "same.py", ALGORITHM.replace('"plugged"', '"other"'))
    monkeypatch.chdir(folder / "elsewhere")
    with pytest.raises(RegistryError, match=r"same\.py was imported as mygym_user\.algos\.same already"):
        algorithm("other")


def test_importing_the_package_does_not_look_into_the_users_folders(folder: Path, python) -> None:
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    write(folder / "envs" / "tap.py", TASK)
    code = """
import sys
touched = []
def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(("CWD/algos", "CWD/envs")):
        touched.append(arguments[0])
sys.addaudithook(watch)
import mygym
print(touched)
from mygym.registry import registry
assert "plugged" in registry("algorithm")
print(touched != [])
import gymnasium
assert "tap" in registry("task")
print("mygym/Tap-v0" in gymnasium.registry)
"""
    done = python("-c", code.replace("CWD", str(folder.resolve())), cwd=folder)
    assert done.stdout.splitlines() == ["[]", "True", "True"], done.stdout + done.stderr


def test_a_scanned_file_can_be_used_from_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook that changes its current folder."""
    write(folder / "algos" / "plugged_in.py", ALGORITHM)
    assert "plugged" in registry("algorithm")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert algorithm("plugged").defaults["n_steps"] == 32


def test_a_users_class_is_unpickled_in_another_process(folder: Path, python) -> None:
    """A class of a file that imports little: PyTorch takes seconds."""
    write(folder / "envs" / "plugged_in.py", TASK + "\n\nclass Light:\n    pass\n")
    registry("task").get("tap").load()
    cls = sys.modules["mygym_user.envs.plugged_in"].Light
    assert pickle.loads(pickle.dumps(cls)) is cls
    (folder / "class.pickle").write_bytes(pickle.dumps(cls))
    code = "import mygym, pickle; print(pickle.load(open('class.pickle', 'rb')).__module__)"
    done = python("-c", code, cwd=folder)
    assert done.stdout.strip().endswith("mygym_user.envs.plugged_in"), done.stderr


# --import, installed packages ---------------------------------------------------------------------------------------

SHORT = [
    word
    for setting in (
        "steps=32",
        "n_envs=1",
        "task_params.horizon=10",
        "eval={episodes: 1, final_episodes: 1}",
        "video.episodes=0",
        "reward=dense",
    )
    for word in ("--set", setting)
]


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.fixture
def module(folder: Path) -> Iterator[str]:
    """Write a module to the current folder that registers an algorithm and a task; yield its name."""
    write(folder / "mine" / "things.py", ALGORITHM + "\n" + TASK)
    write(folder / "mine" / "__init__.py", "")
    yield "mine.things"
    for name in ("mine", "mine.things"):
        sys.modules.pop(name, None)


def test_a_file_is_imported_by_its_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "elsewhere" / "extra.py", DICTIONARY_FORM)
    assert command("train", "--import", "elsewhere/extra.py", "--algo", "plugged", *SHORT) == 0
    run = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("run: "))
    assert load_file(run / "config.yaml")["imports"] == [str(path)]
    assert command("evaluate", str(run), "--episodes", "1", "--import", str(path)) == 0


def test_a_file_in_a_users_folder_has_its_stable_name_by_its_path(folder: Path) -> None:
    path = write(folder / "other" / "algos" / "deep" / "extra.py", DICTIONARY_FORM)
    user_files.import_modules([str(path)])
    assert sys.modules["mygym_user.algos.deep.extra"].__file__ == str(path)
    assert "plugged" in registry("algorithm")


def test_a_missing_file_of_import_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list", "--import", "algos/none.py") == 2
    message = capsys.readouterr().err
    assert all(words in message for words in ("--import: 'algos/none.py'", "is not a file", "allowed: a module"))


def test_an_imported_module_trains_in_processes_and_is_named_in_the_config(
    folder: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--import", module, "--algo", "plugged", "--task", "tap", *SHORT]
    assert command("train", *words, "--set", "env_processes=1") == 0
    run = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("run: "))
    config = load_file(run / "config.yaml")
    assert config["imports"] == [module]
    assert json.loads((run / "result.json").read_text())["config_hash"] == run.parent.name
    assert command("evaluate", str(run), "--episodes", "1", "--import", module) == 0
    here = ("--set", "env_processes=false")  # another process would take two seconds
    assert command("train", "--resume", str(run), "--steps", "64", "--import", module, *here) == 0


def test_a_config_imports_nothing_without_the_flag(
    folder: Path, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(folder)
    write(folder / "run.yaml", f"imports: [{module}]\nalgo: plugged\n")
    assert command("train", "--config", "run.yaml", *SHORT) == 2
    assert f"--import {module}" in capsys.readouterr().err
    assert module not in sys.modules
    assert command("train", "--config", "run.yaml", "--import", module, "--explain") == 0
    with pytest.raises(ConfigError, match="--import not_there"):
        mygym.train({"imports": ["not_there"]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import mygym\n1 / 0\n", ["things.py:2: ZeroDivisionError"]),
        ("x = (\n", ["things.py:1: SyntaxError"]),
        ("import no_such_package\n", ["things.py:1: ModuleNotFoundError", "no_such_package"]),
    ],
)
def test_a_module_that_raises_is_named_with_its_line(
    folder: Path, module: str, text: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "mine" / "things.py", text)
    assert command("list", "--import", module) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in ["--import mine.things", *words]), message
    assert "Traceback" not in message


def test_a_missing_module_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list", "--import", "not.there") == 2
    assert "error: --import not.there: ModuleNotFoundError" in capsys.readouterr().err


def install(folder: Path, package: str, text: str) -> None:
    """Write the files of an installed package whose module `plugin` is an entry point."""
    write(folder / "site" / package / "__init__.py", "")
    write(folder / "site" / package / "plugin.py", text)
    info = folder / "site" / f"{package}-1.0.dist-info"
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    write(info / "entry_points.txt", f"[mygym]\n{package} = {package}.plugin\n")


@pytest.fixture
def site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(folder / "site")
    user_files.installed_files.cache_clear()
    yield folder
    user_files.installed_files.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] in ("good_plug", "bad_plug")]:
        del sys.modules[name]


def test_an_installed_plug_in_is_imported_when_it_is_needed(site: Path) -> None:
    install(site, "good_plug", ALGORITHM)
    assert registry("algorithm").get("sac").built_in
    assert "good_plug" not in sys.modules
    cls, _, kwargs = implemented_combos["plugged"]["pytorch"]
    assert cls.__module__ == "good_plug.plugin"
    assert kwargs["n_steps"] == 32


def test_a_plug_in_that_raises_does_not_affect_others(site: Path) -> None:
    install(site, "good_plug", ALGORITHM)
    install(site, "bad_plug", ALGORITHM.replace('"plugged"', '"broken"') + "\n1 / 0\n")
    assert {"plugged", "sac"} <= set(registry("algorithm").names())
    assert algorithm("plugged").defaults["n_steps"] == 32
    with pytest.raises(RegistryError, match=r"plugin\.py:\d+: ZeroDivisionError"):
        algorithm("broken")


def test_an_entry_point_without_module_is_named_when_a_name_is_missing(site: Path) -> None:
    install(site, "bad_plug", "")
    (site / "site" / "bad_plug" / "plugin.py").unlink()
    assert "sac" in registry("algorithm")
    with pytest.raises(RegistryError, match=r"bad_plug\.plugin: an installed package declares this plug-in"):
        algorithm("plugged")


class Plugged(PPO):
    """A plugged-in algorithm."""


KWARGS = {"n_steps": 32, "batch_size": 16, "n_epochs": 1}

FORMS = ["decorator", "dictionary", "file", "package", "import"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_registers_the_same_algorithm(form: str, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same help, validation and saved files; the run is evaluated by its path."""
    text = ALGORITHM.replace('Path(__file__).with_name("executed.txt").write_text(__name__)', "")
    words: list[str] = []
    if form == "decorator":
        register_algorithm("plugged", defaults=KWARGS)(Plugged)
    elif form == "dictionary":
        implemented_combos["plugged"] = {"pytorch": (Plugged, ("MultiInputPolicy", "env"), KWARGS)}
    elif form == "file":
        write(site / "algos" / "plugged_in.py", text)
    elif form == "package":
        install(site, "good_plug", text)
    else:
        write(site / "good_plug.py", text)
        words = ["--import", "good_plug"]
    assert command("train", "--algo", "plugged", "--help", *words) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("n_steps", "32", "policy_kwargs.optimizer_kwargs.eps"))
    assert registry("algorithm").get("plugged").help == "A plugged-in algorithm."
    assert command("train", "--algo", "plugged", "--set", "algo_params.n_stepz=3", *words) == 2
    assert "did you mean 'n_steps'" in capsys.readouterr().err
    assert command("train", "--algo", "plugged", *SHORT, *words) == 0
    run = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("run: "))
    assert {"model.zip", "policy.safetensors", "result.json"} <= {file.name for file in run.iterdir()}
    assert command("evaluate", str(run), "--episodes", "1", *words) == 0
    assert command("evaluate", str(run / "model.zip"), "--episodes", "1", *words) == 0


# YAML files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BUILTIN_FOLDERS)
def test_a_yaml_file_is_a_component_named_by_its_stem(kind: str, folder: Path) -> None:
    path = write(folder / "envs" / BUILTIN_FOLDERS[kind] / "mine.yaml", "# mine, in one line\nkey: 1\n")
    entry = registry(kind).get("mine")
    assert (entry.load(), entry.help, entry.origin) == (path, "mine, in one line", str(path))
    write(folder / "envs" / BUILTIN_FOLDERS[kind] / "_draft.yaml", "")
    write(folder / "envs" / BUILTIN_FOLDERS[kind] / "no name.yaml", "")
    write(folder / "algos" / BUILTIN_FOLDERS[kind] / "other.yaml", "")
    assert [entry.name for entry in registry(kind) if entry.origin.startswith(str(folder))] == ["mine"]


def test_a_yaml_file_with_the_name_of_a_built_in_component_is_refused(folder: Path) -> None:
    path = write(folder / "envs" / "objects" / "cube.yaml", "# mine\n")
    with pytest.raises(RegistryError, match="registered twice") as error:
        registry("object").get("cube")
    assert str(path) in str(error.value)
    assert "override" not in str(error.value)


@pytest.mark.parametrize("kind", BUILTIN_FOLDERS)
def test_a_taken_name_is_a_row_with_its_error_and_concerns_no_other_name(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = registry(kind).names()[0]
    path = write(folder / "envs" / BUILTIN_FOLDERS[kind] / f"{taken}.yaml", "# mine\n")
    refresh()
    assert command("list", kind, "--json") == command("list", kind) == 0
    rows, _ = json.JSONDecoder().raw_decode(capsys.readouterr().out)
    helps = {row["origin"]: row["help"] for row in rows if row["name"] == taken}
    assert len(helps) == 2
    assert "registered twice" in helps[str(path)]
    with pytest.raises(RegistryError) as error:
        registry(kind).get("unheard_of")
    assert "twice" not in str(error.value)


def test_a_broken_stage_is_a_row_with_its_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder / "envs" / "hoist.py", "from mygym.tasks.stage import register_stage\n1 / 0\n")
    assert command("list", "stage", "--json") == command("list", "stage") == 0
    rows, _ = json.JSONDecoder().raw_decode(capsys.readouterr().out)
    assert rows[-1]["help"] == f"{path}:2: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("kind", BUILTIN_FOLDERS)
def test_the_suffix_yml_counts_as_well_but_not_beside_yaml(kind: str, folder: Path) -> None:
    path = write(folder / "envs" / BUILTIN_FOLDERS[kind] / "mine.yml", "# mine\n")
    assert registry(kind).get("mine").load() == path
    write(path.with_suffix(".yaml"), "# also mine\n")
    refresh()
    with pytest.raises(RegistryError, match="registered twice"):
        registry(kind).get("mine")


def test_yaml_files_in_a_run_directory_are_not_scanned(folder: Path) -> None:
    write(folder / "envs" / "robots" / "mine.yaml", "# mine\n")
    write(folder / "result.json", "{}")
    assert "mine" not in registry("robot")


def test_a_yaml_file_that_is_not_text_is_named_when_a_name_is_missing(folder: Path) -> None:
    path = write(folder / "envs" / "robots" / "mine.yaml", "")
    path.write_bytes(b"\xff\xfe")
    assert "panda" in registry("robot")
    with pytest.raises(RegistryError, match="UnicodeDecodeError"):
        registry("robot").get("mine")


def test_a_users_object_is_pushed(folder: Path) -> None:
    write(folder / "envs" / "objects" / "brick.yaml", (ASSETS / "objects" / "geometric" / "cube.yaml").read_text())
    with mygym.make_env({"task": "push", "task_params": {"object": "brick"}}) as env:
        env.reset(seed=0)
        assert env.world.objects[0].name == "brick"
