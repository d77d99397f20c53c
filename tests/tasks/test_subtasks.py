"""Tasks of several sub-tasks and tasks on parts of the workspace: predicates, slots, descriptions and messages."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.config.schema import Distractor
from mygym.errors import ConfigError
from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.episode import act, advance
from mygym.tasks.lookup import find_task
from mygym.tasks.stage import CLOSED, SubTask, register_stage
from mygym.tasks.stages.handling import aligned
from mygym.tasks.state import Progress, State
from mygym.tasks.task import change_task, register_task
from tests.components import SHIFT, compositions, is_grammatical, tower
from tests.tasks.states import (
    OPEN,
    PARTS,
    PREDICATES,
    SAME_AGAIN,
    STACK,
    random_goals,
    random_progress,
    random_state,
    the_task,
)
from tests.tasks.test_episode import BOTH, CUBE, placed

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def shift() -> None:
    """Register a stage that moves parts and counts its steps; it takes at least three steps."""
    counts = replace(SHIFT, complete=lambda context: context.count >= 2, count=lambda context: context.count + 1)
    register_stage("shift", counts)


# predicates of sub-tasks --------------------------------------------------------------------------------------------


ENDING = [composition for composition in compositions() if composition.endswith("W")]


@given(composition=st.lists(st.sampled_from(ENDING), max_size=3), last=st.sampled_from(compositions()))
def test_a_sub_task_that_ends_free_and_clear_may_precede_any_sub_task(composition: list[str], last: str) -> None:
    task = find_task([{"stages": stages, "object": f"thing {i}"} for i, stages in enumerate([*composition, last])])
    ends = np.cumsum([len(stages) for stages in composition]).tolist()
    assert task.sequence.firsts == (0, *ends)
    lasting = [item for item in task.sequence.gives if PREDICATES[item[0]].lasts]
    for index, kept in enumerate(task.sequence.kept):
        before = [item for item in lasting if any(item[1] < end <= index for end in ends)]
        assert set(before) <= set(kept)
        begun = max((end for end in ends if end <= index), default=0)
        assert {name for name, giver in kept if giver < begun} <= {
            name for name in PREDICATES if PREDICATES[name].lasts
        }


@pytest.mark.parametrize("before", ["A", "AG", "AGM", "AGMD"])
def test_a_sub_task_after_one_that_does_not_end_free_and_clear_is_refused(before: str) -> None:
    with pytest.raises(ConfigError) as error:
        find_task([{"stages": before}, {"stages": "AGMDW", "object": "die"}])
    for words in ("'AGMDW'", "the sub-task requires", "not given by the previous sub-task", "with drop and withdraw"):
        assert words in str(error.value)


def test_placed_must_hold_until_the_end() -> None:
    task = find_task(STACK)
    assert task.sequence.gives == (("placed", 2), ("placed", 7), ("free", 8), ("clear", 9))
    for index in range(3, 11):
        assert ("placed", 2) in task.sequence.kept[index]


def test_placed_must_hold_until_the_object_is_moved_again() -> None:
    between = {"stages": "AGMDW", "object": "die"}
    task = find_task([SAME_AGAIN[0], between, SAME_AGAIN[1]])
    assert [("placed", 2) in kept for kept in task.sequence.kept] == [3 <= index < 10 for index in range(14)]
    assert task.sequence.gives == (("placed", 7), ("near", 10), ("held", 11), ("placed", 12))


# episodes with known stages -----------------------------------------------------------------------------------------

GOALS = np.array([[[0.1, 0.0, 0.02], [0.1, 0.0, 0.06]]])
BASE, TOP, DIE = GOALS[0, 0], GOALS[0, 1], np.array([-0.3, 0.0, 0.02])
FAR = placed(CUBE + 0.2, CUBE, DIE)
FIRST = [placed(CUBE, CUBE, DIE), placed(CUBE, CUBE, DIE, fingers=BOTH), placed(BASE, BASE, DIE, fingers=BOTH)]
FIRST += [placed(BASE, BASE, DIE), placed(BASE + 0.2, BASE, DIE)]
AT_DIE, GRIP_DIE = placed(DIE, BASE, DIE), placed(DIE, BASE, DIE, fingers=BOTH, on=1)
SECOND = [AT_DIE, GRIP_DIE, placed(TOP, BASE, TOP, fingers=BOTH, on=1), placed(TOP, BASE, TOP)]
SECOND += [placed(TOP + 0.2, BASE, TOP)]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([*FIRST, *SECOND, SECOND[-1]], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]),
        # the cube is knocked away while the die is grasped: back to moving it, then to approaching it
        ([*FIRST, AT_DIE, placed(DIE, CUBE, DIE), placed(DIE, CUBE, DIE), FIRST[0]], [1, 2, 3, 4, 5, 6, 2, 0, 1]),
        # the die is dropped on the way: back to approaching it, not to the cube
        ([*FIRST, AT_DIE, GRIP_DIE, placed(TOP, BASE, DIE)], [1, 2, 3, 4, 5, 6, 7, 5]),
        # the cube is pulled from under the die when all is done
        ([*FIRST, *SECOND, placed(TOP + 0.2, CUBE, TOP)], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2]),
        # gripping the die does not hold the cube
        ([FIRST[0], placed(CUBE, CUBE, DIE, fingers=BOTH, on=1)], [1, 1]),
    ],
)
def test_an_episode_has_the_known_stages(states: list[State], expected: list[int]) -> None:
    task, progress, stages = find_task(STACK), Progress.at_reset(FAR), []
    for state in states:
        progress = advance(task, progress, state, GOALS)
        stages.append(int(progress.stage[0]))
    assert stages == expected


def test_progress_of_an_object_that_is_moved_twice() -> None:
    task, progress = find_task(SAME_AGAIN), Progress.at_reset(FAR)
    second = [placed(BASE, BASE), placed(BASE, BASE, fingers=BOTH), placed(TOP + 0.1, TOP + 0.1, fingers=BOTH)]
    goals = np.array([[BASE, TOP + 0.1]])
    for state in [*(placed(s.ee_position[0], s.object_position[0, 0], fingers=s.finger_contact[0, 0]) for s in FIRST)]:
        progress = advance(task, progress, state, goals)
    assert int(progress.stage[0]) == 5
    for stage, state in enumerate(second, start=6):
        progress = advance(task, progress, state, goals)
        assert int(progress.stage[0]) == stage


# parts of the workspace ---------------------------------------------------------------------------------------------


def drawer(position: float, ee: float) -> State:
    """Return a state with a drawer at `position` m, the end effector `ee` m from its handle, and another part."""
    state = State.zeros(1, 7, 2, 1, len(PARTS))
    state.part_position[0] = position, 9.0
    state.part_handle_position[0, 0] = [-position, 0.0, 0.1]
    state.ee_position[0] = [-position + ee, 0.0, 0.1]
    return state


def test_progress_of_a_drawer_that_opens_and_shuts() -> None:
    task, goals = the_task(OPEN), np.array([[[0.2, 0.0, 0.0], [0.0, 0.0, 0.1]]])
    progress, stages_and_counts = Progress.at_reset(drawer(0.0, 0.3)), []
    at_goal = [drawer(0.2, 0.0)] * 3  # complete after three steps
    for state in [drawer(0.0, 0.3), drawer(0.0, 0.05), drawer(0.1, 0.0), *at_goal, drawer(0.2, 0.3), drawer(0.1, 0.3)]:
        progress = advance(task, progress, state, goals)
        stages_and_counts.append((int(progress.stage[0]), int(progress.count[0])))
    assert stages_and_counts == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (2, 0), (3, 0), (1, 0)]
    assert progress.start_part_position[0].tolist() == [0.1, 9.0]


def test_a_stage_is_bound_to_a_part_or_an_object() -> None:
    task = the_task(OPEN)
    assert [(bound.object, bound.part, bound.goal_slot) for bound in task.stage_bindings] == 3 * [(None, 0, 0)] + 3 * [
        (0, None, 1)
    ]
    assert (task.roles, task.part_slots, task.goal_areas(0)) == (("cube",), (0,), ())
    assert task.labels[:3] == ("approach cabinet.drawer", "shift cabinet.drawer", "withdraw cabinet.drawer")
    assert task.describe().startswith("approach the drawer, shift it to the goal, withdraw; then approach the cube")


# slots, roles, descriptions -----------------------------------------------------------------------------------------


@given(composition=st.lists(st.sampled_from(ENDING), min_size=1, max_size=4), data=st.data())
def test_slots_of_goals_and_objects(composition: list[str], data: Any) -> None:
    objects = data.draw(
        st.lists(st.sampled_from(["cube", "die", "apple"]), min_size=len(composition), max_size=len(composition))
    )
    task = find_task([{"stages": stages, "object": name} for stages, name in zip(composition, objects, strict=True)])
    assert task.roles == tuple(dict.fromkeys(objects))
    turns_goal = ["R" in stages for stages in composition]  # a goal yaw has a slot
    assert [slots.goal for slots in task.goal_slots] == [k + sum(turns_goal[:k]) for k in range(len(composition))]
    assert task.goal_count == len(composition) + sum(turns_goal)
    for bound, name in zip(task.stage_bindings, task.stage_names, strict=True):
        assert bound.goal_slot == task.goal_slots[bound.subtask].goal
        assert task.roles[bound.object or 0] == objects[bound.subtask]
        assert bound.label == (name + f" {objects[bound.subtask]}" * (len(composition) > 1))


def test_slots_of_paths_precede_the_goal_and_those_of_yaw_follow() -> None:
    plain = find_task(STACK)
    along_path = SubTask("AGMDW", "cube", path="rim")
    register_stage(
        "twist", replace(plain.sequence.stages[2], name="twist", letter="", gives=("turned",), needs_tool_yaw=True)
    )
    turn = SubTask(("approach", "grasp", "twist"), "die")
    task = replace(plain, subtasks=(along_path, turn), path_points={"rim": 3})
    assert [(slots.path, slots.goal, slots.yaw) for slots in task.goal_slots] == [((0, 1, 2), 3, None), ((), 4, 5)]
    assert task.goal_count == 6
    assert task.needs_tool_yaw
    assert task.stage_bindings[2].path_slots == (0, 1, 2)
    assert task.stage_bindings[-1].yaw_slot == 5


def test_an_object_that_carries_a_goal_has_a_slot() -> None:
    task = find_task([{"stages": "AGMDW", "object": "die", "onto": "block"}])
    assert task.roles == ("die", "block")
    assert task.goal_areas(0) == ()
    assert find_task(tower("a", "b", "c")).roles == ("a", "b", "c")


def test_a_sub_task_without_an_object_is_bound_to_none() -> None:
    task = find_task([{"stages": "AGMDW"}, {"stages": "A"}])
    assert (task.stage_bindings[-1].object, task.goal_areas(1), task.labels[-1]) == (None, ("reach",), "approach")
    assert task.describe().endswith("withdraw; then approach the goal")


@pytest.mark.parametrize(
    ("composition", "words"),
    [
        ("AGM", "approach the cube, grasp it, move it to the goal"),
        ("A", "approach the goal"),
        (tower("apple", "soup_can"), "withdraw; then approach the soup can, grasp it, move it onto the apple,"),
        ([{"stages": "AGM", "words": "into the basket"}], "move it into the basket"),
        ([{"stages": "AGM", "object": "things/my_urn.urdf"}], "approach the my urn, grasp it"),
    ],
)
def test_a_task_is_described_in_words(composition: Any, words: str) -> None:
    assert words in find_task(composition).describe()


def test_goal_areas_follow_from_the_last_stage_by_default() -> None:
    composition = [
        {"stages": "AGMDW"},
        {"stages": "AGMDW", "area": ["left", "right"]},
        {"stages": "AGM", "object": "die"},
    ]
    task = find_task(composition)
    assert [task.goal_areas(number) for number in range(3)] == [("surface",), ("left", "right"), ("air",)]


def test_a_task_of_several_sub_tasks_can_be_registered() -> None:
    subtasks = (SubTask("AGMDW", "base"), SubTask("AGMDW", "top", onto="base"))
    task = register_task("pile", subtasks, objects={"base": "block", "top": "die"}, tolerance=0.02)
    assert find_task("pile") == task
    assert [task.asset(role) for role in task.roles] == ["block", "die"]
    put = register_task("put", "AGMDW", object="die", onto="base", objects={"base": "block"})
    assert (put.subtasks, put.roles) == ((SubTask("AGMDW", "die", onto="base"),), ("die", "base"))
    assert find_task("AGMDW").subtasks[0].onto == ""  # letters do not take the objects of a registered task


def test_every_sub_task_has_its_thresholds() -> None:
    task = replace(find_task([STACK[0] | {"tolerance": 0.01}, STACK[1]]), tolerance=0.03)
    assert {bound.thresholds.tolerance for bound in task.stage_bindings[:5]} == {0.01}
    assert {bound.thresholds.tolerance for bound in task.stage_bindings[5:]} == {0.03}


@pytest.mark.parametrize(
    ("composition", "numbers", "words"),
    [
        ("turn", {}, "approach the valve, turn it"),
        ("push", {"object": "apple"}, "push it to the goal"),
        ("push", {"object": "apple"}, "approach the apple"),
        ("push", {"object": "path/to/garden_gnome.urdf"}, "approach the garden gnome"),
        ("stack", {}, "approach the cube, grasp it, move it onto the base"),
        ("stack", {"object": "apple"}, "approach the apple, grasp it, move it onto the cube"),
        ("stack", {"objects": {"base": "plate"}}, "move it onto the plate"),
        ("stack", {"object": "die", "objects": {"base": "die"}}, "approach the die, grasp it, move it onto the base"),
        ("build_tower", {}, "approach the middle, grasp it, move it onto the base"),
    ],
)
def test_descriptions_name_the_object(composition: str, numbers: dict[str, Any], words: str) -> None:
    assert words in change_task(find_task(composition), numbers).describe()


def test_labels_and_phrases_name_the_object() -> None:
    task = change_task(find_task([{"stages": "AGMDW"}, {"stages": "A", "object": "ball"}]), {"object": "apple"})
    assert task.labels[0] == "approach apple"
    assert task.phrases[1] == "grasp the apple"


# refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("composition", "words"),
    [
        ([{"stages": "AGM", "objct": "die"}], ["task.0", "'objct'", "did you mean 'object'"]),
        ([{"stages": "AGMDW"}, {"object": "die"}], ["task.1.stages", "is missing"]),
        ([{"stages": "AGMDW"}, "A"], ["task.1", "'A'", "a mapping"]),
        (["A", {"stages": "A"}], ["task.0", "'A'", "a mapping"]),
        ([["A"]], ["task.0", "['A']", "the name of a stage"]),
        (["approach", None], ["task.1", "None", "the name of a stage"]),
        ([{"stages": "AXG"}], ["task.0: 'AXG'", "'X'"]),
        ([{"stages": "AGMDW"}, {"stages": "AXG"}], ["task.1: 'AXG'"]),
        ([{"stages": "AGMDW"}, {"stages": "M"}], ["task.1: 'M'", "move requires 'held'"]),
        ([{"stages": "AG"}, {"stages": "A"}], ["task.1: 'A'", "drop and withdraw"]),
        ([{"stages": "AGMDW"}, {"stages": ["approach", "pusch"]}], ["task.1: 'pusch'", "did you mean 'push'"]),
        ([{"stages": ""}], ["task.0", "is empty"]),
        ([{"stages": "AGM", "target": "left"}], ["task.0: 'target'", "to where: area, onto, path, to"]),
        ([{"stages": "AGM", "to": "surface"}], ["task.0.to: 'surface'", "for an area use `area`"]),
        ([{"stages": "AGM", "grip": 5}], ["task.0.grip: 5", "allowed: a list"]),
        ([{"stages": "AGM", "grip": [0.0]}], ["task.0.grip: [0.0]", "a list of 3"]),
        ([{"stages": "AGM", "object": 5}], ["task.0.object: 5", "allowed: text"]),
        ([{"stages": "AGM", "area": 5}], ["task.0.area: 5", "text or a list"]),
        ([{"stages": "AGM", "area": ["left", 5]}], ["task.0.area.1: 5", "allowed: text"]),
        ([{"stages": 5}], ["task.0.stages", "5"]),
        ([{"stages": "AGM", "tolerance": 0}], ["task.0.tolerance", "greater than 0"]),
        ([{"stages": "AGM", "tolerance": float("nan")}], ["task.0.tolerance", "nan"]),
        ([{"stages": "AGM", "to": [1.0]}], ["task.0.to"]),
        ([{"stages": "AGM", "to": [1.0, float("inf")]}], ["task.0.to", "inf"]),
        ([{"stages": "AGM", "to": [1.0, 0.5]}], ["task.0.to", "lowest first"]),
        ([{"stages": "AGM", "onto": "cube"}], ["task.0.onto", "'cube'", "another object"]),
        ([{"stages": "AGM", "onto": "die", "area": "air"}], ["area", "onto", "one of them"]),
    ],
)
def test_messages_have_key_value_and_allowed(composition: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        find_task(composition)
    for word in words:
        assert word in str(error.value)


VALUES = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=4), st.lists(st.floats(), max_size=3))
KEYS = st.sampled_from([*(field.name for field in fields(SubTask)), "stage"])


@given(composition=st.lists(st.dictionaries(KEYS, VALUES | st.sampled_from(["AGMDW", "A"]), max_size=4), max_size=3))
def test_any_mappings_are_a_task_or_a_config_error(composition: list[dict[str, Any]]) -> None:
    try:
        task = find_task(composition)
    except ConfigError:
        return
    assert all(is_grammatical(subtask["stages"]) for subtask in composition)
    assert task.describe()
    assert len(task.labels) == len(task.stage_bindings) == len(task.sequence.stages)
    assert find_task(composition) == task


# other parameters ---------------------------------------------------------------------------------------------------


def test_objects_by_role_override_the_first_object() -> None:
    task = change_task(
        find_task(STACK), {"objects": {"die": "apple"}, "distractors": ("ball",), "rotation": (0.0, 1.0)}
    )
    assert ([task.asset(role) for role in task.roles], task.distractors) == (
        ["cube", "apple"],
        (Distractor(object="ball"),),
    )
    assert task.needs_tool_yaw
    assert task.labels[4:6] == ("withdraw cube", "approach apple")
    assert change_task(task, {"object": "block"}).object == "block"
    assert change_task(task, {"object": "block", "objects": {"cube": "pen"}}).object == "pen"


@pytest.mark.parametrize("numbers", [{"objects": {"dye": "apple"}}, {"colors": {"dye": (1.0, 0.0, 0.0, 1.0)}}])
def test_an_unknown_role_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="did you mean 'die'"):
        change_task(find_task(STACK), numbers)


# commands -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_armed() -> list[str]:
    """Return approach, grasp and move, where a second arm takes part in grasping and the tool turns in moving."""

    def grasp(context: StageContext, start_pose: StartPose) -> ArmCommand:
        return ArmCommand(context.goal, CLOSED, second_target=context.goal + 0.3, second_gripper=0.5)

    def move(context: StageContext, start_pose: StartPose) -> ArmCommand:
        return ArmCommand(context.goal, context.state.time, yaw_change=0.2 + context.state.time)

    for stage, expert in zip(find_task("AGM").sequence.stages[1:], (grasp, move), strict=True):
        name = f"{stage.name}_with_both"
        register_stage(name, replace(stage, name=name, letter="", expert=expert))
    return ["approach", "grasp_with_both", "move_with_both"]


@given(seed=SEEDS, n=st.sampled_from([2, 7, 9]))
def test_every_episode_gets_the_command_of_its_stage(seed: int, n: int, two_armed: list[str]) -> None:
    rng = np.random.default_rng(seed)
    state, goals = random_state(rng, n), random_goals(rng, n)
    state.second_ee_position = rng.normal(size=(n, 1, 3))
    progress = random_progress(rng, state, 3)
    progress.stage[:2] = 1, 3
    stage = progress.stage
    assert act(find_task("AGM"), progress, state, goals).second_target is None  # no stage moves the second arm
    motion = act(find_task(two_armed), progress, state, goals)
    rest = np.full(3, np.nan)  # its position at the reset, whatever the other episodes do
    np.testing.assert_array_equal(motion.second_target, np.where(stage[:, None] == 1, goals[:, 0] + 0.3, rest))
    np.testing.assert_array_equal(motion.second_gripper, np.where(stage == 1, 0.5, 1.0))
    context = StageContext(state, progress, goals, find_task("AG").stage_bindings[0])
    expected_yaw = np.where(stage == 0, aligned(context), 0.0)  # approaching aligns the hand with the object
    np.testing.assert_array_equal(motion.yaw_change, np.where(stage >= 2, 0.2 + state.time, expected_yaw))
    np.testing.assert_array_equal(motion.gripper, np.select([stage == 0, stage == 1], [1.0, CLOSED], state.time))
    np.testing.assert_array_equal(motion.target[stage > 0], goals[stage > 0, 0])
