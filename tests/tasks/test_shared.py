"""Goal vectors of shared spaces: the same kind of goal has the same numbers in every task."""

from __future__ import annotations

import pytest

from mygym.errors import ConfigError
from mygym.tasks.observations import shared_goal_space
from mygym.tasks.task import Task
from tests.components import TASKS, compositions, several
from tests.tasks.states import LISTED, PREDICATES, the_task


def test_every_goal_number_has_one_meaning() -> None:
    """`struck` and `placed` are both the position of an object, and share numbers."""
    meanings: dict[int, set[str]] = {}
    sizes = set()
    for composition in (*TASKS, *(composition for composition in compositions() if len(composition) < 6), *LISTED):
        space = shared_goal_space(the_task(composition))
        sizes.add(space.size)
        builtin = [section for section in space.sections if section.predicate.name in PREDICATES]
        for section in builtin:
            kind = f"{section.bound.subtask} {section.name.replace('struck', 'object')}"
            for number in range(section.first, section.first + section.size):
                meanings.setdefault(number, set()).add(kind)
    assert len(sizes) == 1
    assert max(meanings) < sizes.pop()
    assert all(len(kinds) == 1 for kinds in meanings.values()), meanings


def test_shared_spaces_have_room_for_three_sub_tasks() -> None:
    def pushes(count: int) -> Task:
        objects = [f"thing {n}" for n in range(count)]
        return the_task(several(*objects, stages=["approach", "push", "withdraw"]))

    assert {section.bound.subtask for section in shared_goal_space(pushes(3)).sections} == {0, 1, 2}
    with pytest.raises(ConfigError, match="no room for 4 sub-tasks"):
        shared_goal_space(pushes(4))
