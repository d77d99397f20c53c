"""`mygym describe`: descriptions of components as YAML and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from mygym.registry import REGISTRIES, registry
from mygym.tasks.grammar import letters
from tests.command import Command
from tests.components import SEEING, TASKS
from tests.conftest import ROOT


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_every_component_is_described_as_yaml_and_json(kind: str, mygym_command: Command) -> None:
    for name in registry(kind).names():
        data = mygym_command("describe", kind, name, "--json")
        assert data.code == 0, (name, data.err)
        assert json.loads(data.out)[kind] == name
    text = mygym_command("describe", kind, name)
    assert yaml.safe_load(text.out) == json.loads(data.out)


def test_a_task_is_described_with_its_numbers(mygym_command: Command) -> None:
    for name in TASKS:
        task = registry("task").get(name).load()
        text = mygym_command("describe", "task", name).out
        assert f"{task.tolerance} {'rad' if name in ('open_door', 'switch', 'turn') else 'm'}\n" in text
        assert f"{task.hold} steps" in text
        assert f"{task.horizon} steps" in text
        assert "goals from" in text
        assert all(task.asset(role) in text for role in task.roles)


def test_tolerances_of_sub_tasks_are_described_each_in_its_unit(mygym_command: Command) -> None:
    subtasks = "[{stages: AGMDW, tolerance: 0.02}, {stages: [approach, turn], part: panel.valve}]"
    assert "tolerance: 0.02 m, 0.05 m or rad\n" in mygym_command("describe", "task", subtasks).out  # not on the table


def test_a_composition_and_an_algorithm_can_be_described(mygym_command: Command) -> None:
    assert "withdraw" in mygym_command("describe", "task", "AGMDW").out
    assert "learning_rate" in mygym_command("describe", "algo", "sac").out


def test_the_inputs_of_a_reward_are_described(mygym_command: Command) -> None:
    content = json.loads(mygym_command("describe", "reward", "staged", "--json").out)
    assert content["takes"] == ["gamma", "potential", "previous_potential", "sparse"]


def test_a_stage_is_described_without_empty_fields(mygym_command: Command) -> None:
    for name in registry("stage").names():
        content = json.loads(mygym_command("describe", "stage", name, "--json").out)
        assert all(value not in (None, [], {}, "") for value in content.values())
        assert {"requires", "gives", "acts on", "needs"} <= content.keys()
        assert all(meaning.endswith(".") for meaning in content["gives"].values())


def test_an_observation_is_described_by_shape_unit_and_frame(mygym_command: Command) -> None:
    for name in registry("observation").names():
        content = json.loads(mygym_command("describe", "observation", name, "--json").out)
        assert content["shape"].startswith("(N") or name in SEEING
        assert set(re.findall(r"\b[ACHJLNRSWZp]\b", content["shape"])) == content["where"].keys()
        assert content["unit"]
        if content["unit"] == "m" and name not in ("gripper_width", "second_gripper_width", "object_size"):
            assert content["frame"].startswith("world")


@pytest.mark.parametrize(
    ("task", "stages", "areas"),
    [
        ("[approach, push]", ["approach", "push"], ["surface"]),
        ("[{stages: AGMDW, object: apple, area: far_left}, {stages: A}]", [*"AGMDWA"], ["far_left", "reach"]),
        ("[{stages: [approach, open], part: cabinet.drawer}]", ["approach", "open"], []),
    ],
)
def test_a_composition_is_described_like_a_task(
    task: str, stages: list[str], areas: list[str], mygym_command: Command
) -> None:
    content = json.loads(mygym_command("describe", "task", task, "--json").out)
    assert content["stages"] == [letters().get(stage, stage) for stage in stages]
    assert list(content["goals from"]) == areas
    assert all({"low", "high"} == area.keys() for area in content["goals from"].values())


def test_only_an_algorithm_has_a_complete_config(mygym_command: Command) -> None:
    outcome = mygym_command("describe", "robot", "panda", "--yaml")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--yaml: 'robot' has no run config" in outcome.err


ARM = ROOT / "envs" / "robots" / "desk_arm.urdf"


def test_inferred_properties_of_a_urdf_are_printed(mygym_command: Command) -> None:
    outcome = mygym_command("describe", "robot", str(ARM))
    assert outcome.code == 0, outcome.err
    output = outcome.out + outcome.err
    for inferred in ("an arm of 6 joints, joint_1 to joint_6", "no gripper", "[0.0, 0.0, 0.02] m"):
        assert inferred in output


def test_a_new_robot_is_explained_by_a_table_and_a_picture(mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("new", "robot", "custom", "--urdf", str(ARM))
    [row] = [line.split() for line in outcome.out.splitlines() if "an arm of 6 joints" in line]
    lines = (tmp_path / "envs" / "robots" / "custom.yaml").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if text.startswith("joints:"))
    assert row[:4] == ["joints,", "line", str(line), "certain"]
    assert (tmp_path / "envs" / "robots" / "custom.png").read_bytes()[:4] == b"\x89PNG"


def test_runs_with_a_urdf_print_guesses_and_the_command_that_explains(mygym_command: Command, tmp_path: Path) -> None:
    """Guesses of many kinds are few lines."""
    text = re.sub(r' (effort|velocity|lower|upper)="[^"]*"', "", ARM.read_text())
    (tmp_path / "weak.urdf").write_text(re.sub(r"<inertial>.*?</inertial>", "", text, flags=re.DOTALL))
    outcome = mygym_command("evaluate", "--policy", "oracle", "--robot", "weak.urdf", "--episodes", "1")
    assert outcome.code == 0, outcome.err
    notes = [line for line in outcome.err.splitlines() if line.startswith("note: weak: ")]
    assert 3 <= len(notes) <= 5
    assert "estimated" in notes[0]
    assert "more guesses" in notes[-2]
    assert "mygym new robot NAME --urdf" in notes[-1]
    assert "weak.urdf" in notes[-1]
