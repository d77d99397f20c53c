"""The stages that move an object without holding it: push, poke."""

from __future__ import annotations

from mygym.tasks.facts import distance
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.handling import move_potential
from mygym.tasks.stages.motions import behind_object, horizontal, lifted, over_then_down, planar_distance, with_height
from mygym.tasks.state import Array, namespace
from mygym.tasks.view import EntryPoint, Motion, View

BEHIND = 0.06
"""m between the end effector and the object's centre when a push begins."""


def _push_entry(view: View) -> Array:
    return behind_object(view, BEHIND)


def _push_expert(view: View, entry: EntryPoint) -> Motion:
    xp = namespace(view.goal)
    there, at = view.object_position, view.ee_position
    way = horizontal(view.goal - there)
    offset = at - there
    along = (offset * way).sum(-1)
    aside = distance(offset[:, :2], along[:, None] * way[:, :2])
    behind = (along < -0.015) & (aside < 0.015) & (offset[:, 2] < 0.02)
    step = xp.clip(0.25 * planar_distance(there, view.goal), 0.004, 0.02)[:, None]
    push = with_height(at + step * way - (offset - along[:, None] * way), there[:, 2])
    return Motion(xp.where(behind[:, None], push, over_then_down(view, _push_entry(view))), CLOSED)


# poke ---------------------------------------------------------------------------------------------------------------


def _poke_entry(view: View) -> Array:
    return lifted(view.object_position, 0.06)


def _poke_expert(view: View, entry: EntryPoint) -> Motion:
    """Straight down onto the object."""
    onto = with_height(view.object_position, view.ee_position[:, 2] - 0.015)
    above = planar_distance(view.ee_position, view.object_position) < 0.01
    namespaced = namespace(onto)
    return Motion(namespaced.where(above[:, None], onto, over_then_down(view, _poke_entry(view))), CLOSED)


def _poke_potential(view: View) -> Array:
    xp = namespace(view.ee_position)
    return 1.0 - xp.clip(distance(view.ee_position, view.object_position) / (2 * view.thresholds.near), 0.0, 1.0)


PUSH = Stage("push", "", ("free", "near"), ("placed",), "push {object} {goal}", move_potential, _push_expert,
             ends=("near",), entry=_push_entry)  # fmt: skip

POKE = Stage("poke", "", ("free", "near"), ("touched",), "poke {object}", _poke_potential, _poke_expert,
             entry=_poke_entry)  # fmt: skip

for _stage in (PUSH, POKE):
    register_stage(_stage.name, _stage)
