"""Goal vectors of shared spaces: the same kind of goal at the same place, whatever the task."""

from __future__ import annotations

import pytest

from mygym.errors import ConfigError
from mygym.tasks.shared import shared_goal_space
from mygym.tasks.task import Task
from tests.components import TASKS, compositions, several
from tests.tasks.states import LISTED, the_task


def test_every_kind_of_goal_has_a_place_of_its_own() -> None:
    """Those of what was struck and of what was placed are both an object's position, and share theirs."""
    places: dict[int, set[str]] = {}
    sizes = set()
    for said in (*TASKS, *(said for said in compositions() if len(said) < 6), *LISTED):
        space = shared_goal_space(the_task(said))
        sizes.add(space.size)
        for part in space.parts:
            kind = f"{part.bound.subtask} {part.name.replace('struck', 'object')}"
            for number in range(part.first, part.first + part.size):
                places.setdefault(number, set()).add(kind)
    assert len(sizes) == 1
    assert max(places) < sizes.pop()
    assert all(len(kinds) == 1 for kinds in places.values()), places


def test_there_is_room_for_three_sub_tasks() -> None:
    def pushes(count: int) -> Task:
        things = [f"thing {n}" for n in range(count)]
        return the_task(several(*things, stages=["approach", "push", "withdraw"]))

    assert {part.bound.subtask for part in shared_goal_space(pushes(3)).parts} == {0, 1, 2}
    with pytest.raises(ConfigError, match="no room for 4 sub-tasks"):
        shared_goal_space(pushes(4))
