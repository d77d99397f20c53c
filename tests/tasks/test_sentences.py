"""Tasks in plain words: readings, refusals, and the descriptions of all named tasks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from mygym.registry import registry
from mygym.tasks.language import read_sentence
from mygym.tasks.lookup import find_task
from mygym.tasks.stage import readable
from mygym.tasks.task import register_task
from tests.components import TASKS, compositions

OBJECTS = registry("object").names()


def test_the_description_of_a_named_task_reads_back_to_the_task() -> None:
    for task in TASKS:
        assert read_sentence(find_task(task).describe()).named == task
        assert find_task(find_task(task).describe()) == find_task(task)


@settings(max_examples=60, deadline=None)
@given(composition=st.sampled_from([name for name in compositions() if len(name) > 1]), name=st.sampled_from(OBJECTS))
def test_the_description_of_letters_reads_back_to_their_stages(composition: str, name: str) -> None:
    """With any object; the goal is needed only by stages that name it."""
    task = find_task([{"stages": composition, "object": name}])
    again = find_task(task.describe())
    assert again.stage_names == task.stage_names
    assert [again.assets(role) for role in again.roles] == [task.assets(role) for role in task.roles]


READINGS: list[tuple[str, str]] = [
    ("pick up the apple and put it on the plate", "stack = AGMDW, object apple, onto plate"),
    ("Pick the apple up, then put it onto the plate.", "stack = AGMDW, object apple, onto plate"),
    ("put the apple on top of the plate", "stack = AGMDW, object apple, onto plate"),
    ("push the soup can", "push = approach push, object soup can"),
    ("grab the can", "AG, object can"),
    ("go to the goal", "reach = A"),
    ("turn the valve", "turn = approach turn, part valve"),
    ("turn the apple", "AGR, object apple"),
    ("open the drawer", "open_drawer = approach open, part drawer"),
    ("throw the apple at the board", "hit_board = approach grasp throw strike, object apple, at the board"),
    ("guide the ball through the maze", "vertical_maze = approach guide, object ball, through the maze"),
    ("touch the apple and move away", "poke = approach poke withdraw, object apple"),
    (
        "put the apple on the plate; then put the cup on the saucer",
        "AGMDW, object apple, onto plate; then AGMDW, object cup, onto saucer",
    ),
]


@pytest.mark.parametrize(("text", "words"), READINGS)
def test_a_reading_in_words(text: str, words: str) -> None:
    assert read_sentence(text).words == words
    find_task(text)


def test_a_built_in_task_comes_before_a_task_of_the_user() -> None:
    register_task("shove", stages=["approach", "push"], tolerance=0.1)
    assert read_sentence("push the cube to the goal").named == "push"
    register_task("Clean_up", stages=["approach", "push", "withdraw"], object="sponge", words="off the Table")
    assert read_sentence("Push the sponge off the table").named == "Clean_up"


def test_a_named_task_gives_its_numbers_and_the_sentence_its_objects() -> None:
    task, stack = find_task("pick up the apple and put it on the plate"), find_task("stack")
    assert (task.name, task.tolerance, task.horizon) == ("stack", stack.tolerance, stack.horizon)
    assert [task.asset(role) for role in task.roles] == ["apple", "plate"]


REFUSALS: list[tuple[str, list[str]]] = [
    ("juggle the apple", ["'juggle the apple'", "no phrase of a stage", "pick up {object}"]),
    ("graps the apple", ["no phrase of a stage", "did you mean 'grasp'"]),
    ("pick up the aple", ["task: 'aple'", "did you mean 'apple'"]),
    ("put the apple on the plat", ["task: 'plat'", "did you mean 'plate'"]),
    ("put it on the plate", ["'it' before any object"]),
    ("put the apple in the bowl", ["task: 'in the bowl' is no goal", "onto the OBJECT", "into the basket"]),
    ("insert the peg into the socket", ["'peg', which has several meanings", "hex peg or round peg or square peg"]),
    ("guide the die through the maze", ["several meanings", "the marble", "the ball"]),
    ("push the drawer", ["'push the drawer', which no stage can do", "open {object}"]),
    ("pick up the cube and put it on the base, then open the door", ["is not what a named task"]),
    ("move the apple to the goal and put it on the plate", ["two goals", "'to the goal'", "'onto plate'"]),
    ("take the cube, let go of it", ["'AGD' is an invalid composition"]),
]


@pytest.mark.parametrize(("text", "words"), REFUSALS, ids=lambda case: str(case)[:50])
def test_ambiguities_and_unknown_words_are_refused(text: str, words: list[str]) -> None:
    for refuse in (find_task, lambda text: resolve_config({"task": text}), RobotEnv):
        with pytest.raises(ConfigError) as error:
            refuse(text)
        assert all(word in str(error.value) for word in words), str(error.value)


WORDS = "pick up the apple cube it put on onto plate and , ; then push to goal open drawer turn maze through peg ."


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS.split()), st.text(max_size=4)), max_size=9).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        task = find_task(text)
    except ConfigError:
        return
    assert task.stage_names


def test_a_sentence_is_a_task_of_environments_and_configs() -> None:
    with RobotEnv("put the can on the plate") as env:
        env.reset(seed=0)
        assert [spec.name for spec in env.world.objects] == ["can", "plate"]
        info: dict[str, Any] = {}
        while not (info.get("is_success") or env.elapsed_steps > 150):
            *_, info = env.step(env.expert_action())
        assert info["is_success"]
    values = resolve_config({"task": "open the drawer"}).values()
    assert (values["task"], values["workspace"]) == ("open the drawer", "drawer")
    with RobotEnv("put the can on the plate", task_params={"object": "apple"}) as env:
        assert env.world.objects[0].name == "apple", "task_params are above the sentence"


def test_readable_names_of_objects_are_unique() -> None:
    assert len({readable(name) for name in OBJECTS}) == len(OBJECTS)
