"""The user's own files: found without being executed, executed when used, and the same in every process."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mygym
from mygym.algos.stable_baselines import PPO
from mygym.cli.main import main
from mygym.config import load_file
from mygym.errors import ConfigError, RegistryError
from mygym.registry import (
    ASSETS,
    BUILTIN_FOLDERS,
    algorithm,
    implemented_combos,
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
"""A task of mine."""
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


OBSERVATION = """
from mygym.tasks.observations import register_observation
@register_observation("plugged", 1)
def plugged(situation):
    return situation.state.ee_position
"""
RANDOMIZER = """
from mygym.envs.randomizers import register_randomizer
@register_randomizer("plugged", "m/s²", (0.0, 1.0), (0.0, 2.0))
def plugged(variation, draw):
    return variation
"""


@pytest.mark.parametrize(
    ("kind", "built_in", "text"),
    [("observation", "ee_position", OBSERVATION), ("randomizer", "action_noise", RANDOMIZER)],
)
def test_decorated_functions_belong_to_the_file_that_has_them(
    kind: str, built_in: str, text: str, folder: Path
) -> None:
    path = write(folder / "envs" / "plugged_in.py", text)
    assert registry(kind).get("plugged").load() is not None
    entry = registry(kind).get("plugged")
    assert entry.origin == f"{path}:3"
    assert not entry.built_in
    write(folder / "envs" / "another.py", text.replace('"plugged"', f'"{built_in}"'))
    with pytest.raises(RegistryError, match="registered twice"):
        registry(kind).get(built_in)


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


# --import, installed packages ---------------------------------------------------------------------------------------

SHORT = [
    word
    for setting in ("steps=32", "n_envs=1", "eval={episodes: 1, final_episodes: 1}", "video.episodes=0", "reward=dense")
    for word in ("--set", setting)
]


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.fixture
def module(folder: Path) -> Iterator[str]:
    """A module in the current folder that registers an algorithm and a task."""
    write(folder / "mine" / "things.py", ALGORITHM + "\n" + TASK)
    write(folder / "mine" / "__init__.py", "")
    yield "mine.things"
    for name in ("mine", "mine.things"):
        sys.modules.pop(name, None)


def test_a_module_of_mine_trains_in_workers_and_is_named_in_the_config(
    folder: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--import", module, "--algo", "plugged", "--task", "tap", *SHORT, "--n-envs", "2"]
    assert command("train", *words, "--set", "subprocesses=true") == 0
    run = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("run: "))
    config = load_file(run / "config.yaml")
    assert config["imports"] == [module]
    assert json.loads((run / "result.json").read_text())["config_hash"] == run.parent.name
    assert command("evaluate", str(run), "--episodes", "1", "--import", module) == 0
    assert command("train", "--resume", str(run), "--steps", "64", "--import", module) == 0


def test_a_config_alone_imports_nothing(
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
def test_a_module_that_raises_is_told_of(
    folder: Path, module: str, text: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "mine" / "things.py", text)
    assert command("list", "--import", module) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in ["--import mine.things", *words]), message
    assert "Traceback" not in message


def test_a_module_that_is_not_there_is_told_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list", "--import", "not.there") == 2
    assert "error: --import not.there: ModuleNotFoundError" in capsys.readouterr().err


def install(folder: Path, package: str, text: str) -> None:
    """What pip leaves behind of a package whose module `plugin` is an entry point."""
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


def test_an_installed_package_is_found_without_being_imported(site: Path) -> None:
    install(site, "good_plug", ALGORITHM)
    assert registry("algorithm").get("plugged").help == "A plugged-in algorithm."
    assert "good_plug" not in sys.modules
    cls, _, kwargs = implemented_combos["plugged"]["pytorch"]
    assert cls.__module__ == "good_plug.plugin"
    assert kwargs["n_steps"] == 32


def test_one_plug_in_that_raises_leaves_the_others_alone(site: Path) -> None:
    install(site, "good_plug", ALGORITHM)
    install(site, "bad_plug", ALGORITHM.replace('"plugged"', '"broken"') + "\n1 / 0\n")
    assert {"plugged", "broken", "sac"} <= set(registry("algorithm").names())
    assert algorithm("plugged").defaults["n_steps"] == 32
    with pytest.raises(RegistryError, match=r"plugin\.py:\d+: ZeroDivisionError"):
        algorithm("broken")


def test_an_entry_point_that_leads_nowhere_is_told_of_when_a_name_is_missing(site: Path) -> None:
    install(site, "bad_plug", "")
    (site / "site" / "bad_plug" / "plugin.py").unlink()
    assert "sac" in registry("algorithm")
    with pytest.raises(RegistryError, match=r"bad_plug\.plugin: an installed package names this plug-in"):
        algorithm("plugged")


class Plugged(PPO):
    """A plugged-in algorithm."""


KWARGS = {"n_steps": 32, "batch_size": 16, "n_epochs": 1}

FIVE_WAYS = ["decorator", "dictionary", "file", "package", "import"]


@pytest.mark.parametrize("way", FIVE_WAYS)
def test_every_way_in_gives_the_same_algorithm(way: str, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same help, same validation, same saved files, and the run is judged in another process' stead by its path."""
    text = ALGORITHM.replace('Path(__file__).with_name("executed.txt").write_text(__name__)', "")
    words: list[str] = []
    if way == "decorator":
        register_algorithm("plugged", defaults=KWARGS)(Plugged)
    elif way == "dictionary":
        implemented_combos["plugged"] = {"pytorch": (Plugged, ("MultiInputPolicy", "env"), KWARGS)}
    elif way == "file":
        write(site / "algos" / "plugged_in.py", text)
    elif way == "package":
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
def test_a_yaml_file_is_a_component_under_its_stem(kind: str, folder: Path) -> None:
    path = write(folder / "envs" / BUILTIN_FOLDERS[kind] / "mine.yaml", "# mine, in one line\nkey: 1\n")
    entry = registry(kind).get("mine")
    assert (entry.load(), entry.help, entry.origin) == (path, "mine, in one line", str(path))
    write(folder / "envs" / BUILTIN_FOLDERS[kind] / "_draft.yaml", "")
    write(folder / "envs" / BUILTIN_FOLDERS[kind] / "no name.yaml", "")
    write(folder / "algos" / BUILTIN_FOLDERS[kind] / "other.yaml", "")
    assert [entry.name for entry in registry(kind) if entry.origin.startswith(str(folder))] == ["mine"]


def test_a_yaml_file_of_the_name_of_a_built_in_is_refused(folder: Path) -> None:
    path = write(folder / "envs" / "objects" / "cube.yaml", "# mine\n")
    with pytest.raises(RegistryError, match="registered twice") as error:
        registry("object").get("cube")
    assert str(path) in str(error.value)
    assert "override" not in str(error.value)


def test_yaml_files_in_a_run_directory_are_not_looked_at(folder: Path) -> None:
    write(folder / "envs" / "robots" / "mine.yaml", "# mine\n")
    write(folder / "result.json", "{}")
    assert "mine" not in registry("robot")


def test_a_yaml_file_that_is_no_text_is_told_of_when_its_name_is_asked_for(folder: Path) -> None:
    path = write(folder / "envs" / "robots" / "mine.yaml", "")
    path.write_bytes(b"\xff\xfe")
    assert "panda" in registry("robot")
    with pytest.raises(RegistryError, match="UnicodeDecodeError"):
        registry("robot").get("mine")


def test_an_object_of_ones_own_is_pushed(folder: Path) -> None:
    write(folder / "envs" / "objects" / "brick.yaml", (ASSETS / "objects" / "geometric" / "cube.yaml").read_text())
    with mygym.make_env({"task": "push", "task_params": {"object": "brick"}}) as env:
        env.reset(seed=0)
        assert env.world.objects[0].name == "brick"
