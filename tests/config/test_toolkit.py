"""Config files of the original toolkit: recognised, mapped, noted, trained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mygym.cli.config_files import convert_file, read_config
from mygym.config import Layer, load_file, resolve
from mygym.config.toolkit import DISTINCT, REPLACED_BY, ROBOTS, Conversion, recognises
from mygym.errors import ConfigError
from tests.command import Command

NEW = """{
    #Environment
    "env_name": "Gym-v0", "workspace": "table_complex", "engine": "mujoco", "render": "opengl", "seed": 7,
    "camera": 0, "gui": 0, "visualize": 0, "visgym": 0,
    #Robot
    "robot": "panda_boxgripper", "robot_action": "joints_gripper", "robot_init": "default",
    "max_velocity": 3, "max_force": 200, "action_repeat": 1,
    // Task
    "task_type": "AGM", "natural_language": 0,
    "task_objects": [{"init": {"obj_name": "apple50", "fixed": 0, "rand_rot": 0,
                               "sampling_area": [0.45, 0.55, -0.15, -0.05, 0.05, 0.05]},
                      "goal": {"obj_name": "tuna_can", "fixed": 1, "rand_rot": 0,
                               "sampling_area": [0.5, 0.6, 0.05, 0.15, 0.1, 0.2]}}],
    "color_dict": {"apple50": ["green"], "target": ["gray"]},
    "used_objects": {"num_range": [0, 2], "obj_list": ["sphere", "tuna_can"]},
    "observation": {"actual_state": "obj_6D", "goal_state": "obj_6D", "additional_obs": ["endeff_xyz"]},
    "distractors": {"list": null, "moveable": 1, "constant_speed": 0, "movement_dims": 3,
                    "movement_endpoints": [-0.3, 0.3, 0.4, 0.7, 0.1, 0.3]},
    "distance_type": "euclidean", "vae_path": null, "yolact_path": null, "yolact_config": null,
    "train_framework": "pytorch", "algo": "ppo", "num_networks": 3,
    "max_episode_steps": 120, "algo_steps": 256, "steps": 9000, "pretrained_model": null, "multiprocessing": null,
    "eval_freq": 5000, "eval_episodes": 5, "record": 0,
}"""

OLD = """{
# kuka, looking along y
"env_name": "Gym-v0", "workspace": "table", "robot": "kuka_push", "robot_action": "step",
"robot_init": [0, 0.42, 0.17], "robot_init": [0.0, 0.4, 0.6], "task_type": "push",
"task_objects": [{"init": {"obj_name": "cube_holes", "sampling_area": [0.1, 0.1, 0.5, 0.5, 0.1, 0.1]},
                  "goal": {"obj_name": "target", "sampling_area": [-0.1, 0.1, 0.65, 0.7, 0.05, 0.05]}}],
"used_objects": {"num_range": [0, 0], "obj_list": []},
"distractors": {"list": ["bus"], "moveable": 1, "constant_speed": 1, "movement_dims": 1,
                "movement_endpoints": [-0.1, 0.1]},
"reward": "distance", "train_framework": "tensorflow", "algo": "ppo2", "num_networks": 1,
"max_episode_steps": 30, "algo_steps": 32, "steps": 64, "eval_freq": 50000, "eval_episodes": 2,
"logdir": "trained_models", "multiprocessing": false, "pretrained_model": null
}"""


def converted(tmp_path: Path, text: str) -> Conversion:
    path = tmp_path / "toolkit.json"
    path.write_text(text)
    _, conversion = convert_file(path)
    assert conversion is not None
    resolve([Layer("file", conversion.config)])  # every key and type is valid
    return conversion


def test_a_key_that_a_file_has_twice_is_refused_unless_it_is_of_the_toolkit(tmp_path: Path) -> None:
    assert "duplicate key 'robot_init' (line 4, 4): the last counts" in converted(tmp_path, OLD).notes
    path = tmp_path / "own.json"
    path.write_text('{"seed": 1, "seed": 2}')
    with pytest.raises(ConfigError, match=r"own\.json: duplicate key 'seed'"):
        read_config(path, {})


def test_a_new_file_is_mapped(tmp_path: Path) -> None:
    config = converted(tmp_path, NEW).config
    assert config == {
        "robot": "panda",
        "task": "AGM",
        "control": {"name": "joint_position", "max_velocity": 3.0, "max_force": 200.0},
        "task_params": {
            "object": "apple",
            # The base is 0.6 m behind the origin here; objects stand on the table.
            "areas": {
                "object": {"low": [-0.15, -0.15, 0.0], "high": [-0.05, -0.05, 0.0]},
                "air": {"low": [-0.1, 0.05, 0.1], "high": [0.0, 0.15, 0.2]},
            },
            "colors": {"cube": [0.0, 0.502, 0.0, 1.0]},
            "distractors": [{"object": ["sphere", "can"], "count": [0, 2]}],
            "horizon": 120,
        },
        "algo": "multippo",
        "framework": "pytorch",
        "algo_params": {"n_steps": 256, "batch_size": 64},
        "engine": "mujoco",
        "steps": 9000,
        "n_envs": 1,
        "seed": 7,
        "eval": {"every": 5000, "episodes": 5},
        "video": {"episodes": 0},
    }


@pytest.mark.parametrize(("task", "colors"), [("throw", {"ball": [0.0, 0.502, 0.0, 1.0]}), ("press", None)])
def test_colors_are_those_of_the_roles_of_the_task(task: str, colors: Any, tmp_path: Path) -> None:
    config = converted(tmp_path, NEW.replace('"AGM"', f'"{task}"')).config
    assert config["task_params"].get("colors") == colors


def test_an_old_file_is_mapped_with_its_frame(tmp_path: Path) -> None:
    config = converted(tmp_path, OLD).config
    assert {key: config[key] for key in ("robot", "task", "control", "reward", "algo", "framework", "logdir")} == {
        "robot": "kuka",
        "task": "push",
        "control": {"name": "ee_delta"},
        "reward": "dense",
        "algo": "ppo",
        "framework": "pytorch",
        "logdir": "trained_models",
    }
    params = config["task_params"]
    # The file's y is forward and its x is to the right: 0.5 m ahead of the base at -0.6, 0.1 m to the right.
    assert params["areas"]["object"] == {"low": [-0.1, -0.1, 0.0], "high": [-0.1, -0.1, 0.0]}
    assert params["areas"]["surface"] == {"low": [0.05, -0.1, 0.0], "high": [0.1, 0.1, 0.0]}
    assert params["distractors"] == [{"object": "car", "axis": [0.0, 1.0, 0.0], "speed": 0.075, "range": 0.1}]


def test_each_key_without_a_meaning_is_noted_once_with_its_replacement(tmp_path: Path) -> None:
    notes = converted(tmp_path, NEW).notes
    for key in (
        "env_name",
        "render",
        "camera",
        "gui",
        "visualize",
        "visgym",
        "observation",
        "distance_type",
        "vae_path",
    ):
        (note,) = [note for note in notes if re.match(rf"{key}\b", note)]
        assert REPLACED_BY[key] in note
    assert any("apple50" in note and "apple is the nearest" in note for note in notes)
    assert not any(note.startswith("engine") for note in notes)
    assert not any("pretrained_model" in note for note in notes)


@pytest.mark.parametrize("robot", ["nico", "pepper", "hsr"])
def test_a_robot_without_a_counterpart_is_refused(tmp_path: Path, robot: str) -> None:
    with pytest.raises(ConfigError, match=f"robot: '{robot}' .*panda1"):
        converted(tmp_path, NEW.replace("panda_boxgripper", robot))


def test_every_mapped_robot_exists(tmp_path: Path) -> None:
    for robot in sorted(ROBOTS):
        assert converted(tmp_path, NEW.replace("panda_boxgripper", robot)).config["task_params"]["areas"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"AGM"', '"juggle"', ["task_type", "juggle", "reach"]),
        ('"joints_gripper"', '"telepathy"', ["robot_action", "telepathy", "joints"]),
        ('"table_complex"', '"moon"', ["workspace", "moon", "table"]),
        ('"ppo"', '"gail"', ["algo", "gail", "ppo"]),
        ("9000", '"many"', ["steps", "many", "whole number"]),
        ("[0.45, 0.55, -0.15, -0.05, 0.05, 0.05]", "[1, 2]", ["sampling_area", "[1, 2]", "six numbers"]),
        ('[{"init"', '["apple", {"init"', ["task_objects.0", "apple", "init"]),
        ('["sphere", "tuna_can"]', "3", ["used_objects.obj_list", "3", "list of names"]),
        ('"num_range": [0, 2]', '"num_range": [2]', ["used_objects.num_range", "[2]", "lowest, highest"]),
        ('"list": null', '"list": "bus"', ["distractors.list", "bus", "list of names"]),
    ],
)
def test_a_value_without_a_counterpart_is_refused(tmp_path: Path, before: str, after: str, words: list[str]) -> None:
    assert before in NEW
    with pytest.raises(ConfigError) as error:
        converted(tmp_path, NEW.replace(before, after, 1))
    assert all(word in str(error.value) for word in words), error.value


def test_only_files_of_the_toolkit_are_recognised() -> None:
    assert recognises({"robot": "kuka", "task_type": "reach"})
    assert recognises(dict.fromkeys(sorted(DISTINCT)[:3]))
    for data in ({}, {"robot": "kuka"}, {"task": "reach", "task_type": "A"}, {"algo": "ppo", "eval_freq": 3}):
        assert not recognises(data)


# commands -----------------------------------------------------------------------------------------------------------


SHORT = ("eval={episodes: 1, final_episodes: 1}", "video.episodes=0", "tensorboard=false", "algo_params.n_epochs=1")


def test_import_writes_a_config_that_trains_as_the_file_does(
    tmp_path: Path,
    mygym_command: Command,
) -> None:
    (tmp_path / "old.json").write_text(OLD)
    outcome = mygym_command("import", "old.json", "-o", "new.yaml")
    assert (outcome.code, outcome.out) == (0, "file: new.yaml\n")
    assert "robot_params.home" in outcome.err
    assert mygym_command("import", "old.json", "-o", "new.yaml").code == 2
    short = [word for item in SHORT for word in ("--set", item)]
    runs = [mygym_command("train", "--config", name, *short) for name in ("old.json", "new.yaml")]
    assert [run.code for run in runs] == [0, 0], runs
    assert runs[0].err.count("env_name") == 1
    assert "env_name" not in runs[1].err
    first, second = (load_file(Path(run.out.rpartition("run: ")[2].strip()) / "config.yaml") for run in runs)
    assert first == second
    assert (first["robot"], first["algo_params"]["n_steps"], first["task_params"]["horizon"]) == ("kuka", 32, 30)


def test_areas_beyond_the_reach_are_shrunk_or_left_out(tmp_path: Path, mygym_command: Command) -> None:
    text = NEW.replace("[0.5, 0.6, 0.05, 0.15, 0.1, 0.2]", "[1.5, 1.6, 0.05, 0.15, 0.1, 0.2]")
    (tmp_path / "new.json").write_text(text.replace("[0, 2]", "[0, 0]"))  # a distractor has no room in a small area
    outcome = mygym_command("import", "new.json", "-o", "new.yaml")
    assert outcome.code == 0
    assert re.search(r"areas.air: left out.*out of panda's reach", outcome.err)
    assert list(load_file(tmp_path / "new.yaml")["task_params"]["areas"]) == ["object"]


def test_import_refuses_other_files_and_prints_without_out(tmp_path: Path, mygym_command: Command) -> None:
    (tmp_path / "run.yaml").write_text("robot: kuka\n")
    (tmp_path / "short.json").write_text(
        '{\n# the toolkit writes comments so\n"robot": "kuka", "task_type": "reach"\n}'
    )
    outcome = mygym_command("import", "run.yaml")
    assert (outcome.code, "run.yaml" in outcome.err) == (2, True)
    outcome = mygym_command("import", "short.json", "--env", "x")
    assert (outcome.code, "--env" in outcome.err) == (2, True)
    outcome = mygym_command("import", "short.json")
    values: dict[str, Any] = load_file(_written(tmp_path, outcome.out))
    assert (outcome.code, values) == (0, {"robot": "kuka", "task": "reach"})


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "printed.yaml"
    path.write_text(text)
    return path


def test_a_refusal_names_the_file(tmp_path: Path, mygym_command: Command) -> None:
    (tmp_path / "nico.json").write_text(NEW.replace("panda_boxgripper", "nico"))
    for words in (["import", "nico.json"], ["train", "--config", "nico.json"]):
        outcome = mygym_command(*words)
        assert outcome.code == 2
        assert re.match(r"error: config: nico.json: robot: 'nico'", outcome.err)
