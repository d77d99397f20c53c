"""Stages that touch an object without holding it: push, poke."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import distance
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.motions import (
    behind_object,
    closeness,
    horizontal,
    lifted,
    over_then_down,
    planar_distance,
    progress_to_goal,
    with_height,
    with_stand,
)
from mygym.tasks.state import namespace
from mygym.types import Array

BEHIND = 0.06
"""m between the end effector and the object's centre when a push begins."""

CONTACT = 0.035
"""m between the end effector and the object's centre when a tool pushes a small object."""


def _push_start(context: StageContext) -> Array:
    return behind_object(context, BEHIND)


def _push_potential(context: StageContext) -> Array:
    progress = progress_to_goal(context, distance(context.object_position, context.goal))
    return with_stand(context, progress, behind_object(context, CONTACT))


def _push_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    xp = namespace(context.goal)
    position, ee = context.object_position, context.ee_position
    direction = horizontal(context.goal - position)
    offset = ee - position
    along = (offset * direction).sum(-1)
    aside = distance(offset[:, :2], along[:, None] * direction[:, :2])
    is_behind = (along < -0.015) & (aside < 0.015) & (offset[:, 2] < 0.02)
    advance = xp.clip(0.25 * planar_distance(position, context.goal), 0.004, 0.02)[:, None]
    push = with_height(ee + advance * direction - (offset - along[:, None] * direction), position[:, 2])
    return ArmCommand(xp.where(is_behind[:, None], push, over_then_down(context, _push_start(context))), CLOSED)


# poke ---------------------------------------------------------------------------------------------------------------


def _poke_start(context: StageContext) -> Array:
    return lifted(context.object_position, 0.06)


def _poke_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Move above the object, then straight down onto it."""
    down = with_height(context.object_position, context.ee_position[:, 2] - 0.015)
    is_above = planar_distance(context.ee_position, context.object_position) < 0.01
    target = namespace(down).where(is_above[:, None], down, over_then_down(context, _poke_start(context)))
    return ArmCommand(target, CLOSED)


def _poke_potential(context: StageContext) -> Array:
    return closeness(distance(context.ee_position, context.object_position), context.thresholds.near)


PUSH = Stage("push", "", ("free", "near"), ("placed",), "push {object} {goal}", _push_potential, _push_expert,
             ends=("near",), start_pose=_push_start)  # fmt: skip

POKE = Stage("poke", "", ("free", "near"), ("touched",), "poke {object}", _poke_potential, _poke_expert,
             start_pose=_poke_start)  # fmt: skip

for _stage in (PUSH, POKE):
    register_stage(_stage.name, _stage)
