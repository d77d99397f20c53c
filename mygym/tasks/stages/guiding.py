"""The stage that guides an object along a path of the workspace, pushing it from point to point: guide."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import distance, length
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.motions import horizontal, with_height
from mygym.tasks.state import namespace
from mygym.types import Array

PASSED = 0.035
"""m along each axis within which a point counts as passed: also by what lies in a corner of the passage round it."""

BESIDE = 0.02
"""m beside the leg between two points at which the object may stay."""

BEHIND = 0.065
"""m between the end effector and the object's centre when a push begins: half of the object and of the tool fit."""

ENTRANCE = 0.012
"""m beside that place at which the tool goes in; more, the deeper in it is, so that it does not waver."""

HOVER, CLEAR = 0.055, 0.04
"""m in front of the object's centre at which the tool goes round it, and from which on it is clear of it."""

LEVEL = 0.05
"""m of height between the points of a path that lies; one with more stands upright, facing the robot."""


# how far along -------------------------------------------------------------------------------------------------------


def _point(context: StageContext, number: Array) -> Array:
    """`(N, 3)`: of each path the point of this number `(N,)`; before the first where the object was, then the goal."""
    xp = namespace(context.goal)
    points = xp.concat([context.start_object_position[:, None], context.path], axis=1)
    chosen = xp.arange(points.shape[1]) == xp.clip(number + 1, None, points.shape[1] - 1)[:, None]
    return xp.where(chosen[:, :, None], points, xp.zeros_like(points)).sum(1)


def _waypoint(context: StageContext) -> Array:
    """`(N, 3)`: the first point that has not been passed; the goal when all have."""
    return _point(context, context.count)


def _points_passed(context: StageContext) -> Array:
    """One more at the next point; what has gone back to an earlier one has to pass anew those behind it."""
    xp = namespace(context.goal)
    numbers = xp.arange(context.path.shape[1])
    at = (abs(context.object_position[:, None] - context.path) < PASSED).all(-1) & (numbers <= context.count[:, None])
    passed = xp.max(xp.where(at, numbers + 1, 0 * numbers), axis=1)
    return xp.where(passed > 0, passed, context.count)


def _all_passed(context: StageContext) -> Array:
    return context.count >= context.path.shape[1]


def _potential(context: StageContext) -> Array:
    """Share of the way that is done, of those points that have been passed and towards the next one."""
    xp = namespace(context.goal)
    path = context.path
    legs = distance(path[:, 1:], path[:, :-1])
    ahead = xp.arange(1, path.shape[1]) > context.count[:, None]
    left = distance(context.object_position, _waypoint(context)) + xp.where(ahead, legs, xp.zeros_like(legs)).sum(1)
    return 1.0 - xp.clip(left / (distance(context.start_object_position, path[:, 0]) + legs.sum(1)), 0.0, 1.0)


# the expert ----------------------------------------------------------------------------------------------------------


def _front(context: StageContext) -> Array:
    """`(N, 3)` unit vector to where the tool comes from: up, or back to the robot where the path is upright."""
    xp = namespace(context.goal)
    heights = context.path[:, :, 2]
    lies = xp.max(heights, axis=1) - xp.min(heights, axis=1) < LEVEL
    up, back = xp.asarray([0.0, 0.0, 1.0]), xp.asarray([-1.0, 0.0, 0.0])
    return xp.astype(xp.where(lies[:, None], up, back), context.goal.dtype)


def _way(context: StageContext) -> Array:
    """`(N, 3)` unit vector of the push: along the leg, and back to it if that is far; gravity takes care of heights."""
    xp = namespace(context.goal)
    leg = horizontal(_waypoint(context) - _point(context, context.count - 1))
    towards = _waypoint(context) - context.object_position
    along = (towards * leg).sum(-1)[:, None] * leg
    aside = with_height(towards - along, xp.zeros_like(towards[:, 2]))
    off = length(aside)[:, None]
    return horizontal(along + aside * (1.0 - xp.clip(BESIDE / xp.clip(off, 1e-6, None), None, 1.0)))


def _entry(context: StageContext) -> Array:
    return context.object_position - BEHIND * _way(context)


def _expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """Push from behind; if the tool is not there, go round the object in front of it, and in behind it.

    What is at the goal is left alone.
    """
    xp = namespace(context.goal)
    there, at, front, way = context.object_position, context.ee_position, _front(context), _way(context)
    offset = at - there
    along, height = (offset * way).sum(-1)[:, None], (offset * front).sum(-1)[:, None]
    arrived = (abs(there - context.goal) < PASSED).all(-1)[:, None]
    line = along * way + height * front
    behind = (along[:, 0] < -0.01) & (distance(offset, line) < 0.015) & (height[:, 0] < 0.5 * CLEAR)
    step = xp.clip(0.1 * distance(there, _waypoint(context)), 0.006, 0.01)[:, None]
    begin = _entry(context)
    beside = distance(at - height * front, begin)[:, None]
    outside = beside > ENTRANCE + 0.5 * xp.clip(HOVER - height, 0.0, HOVER)
    out = xp.where(arrived | (height < CLEAR), at - height * front, begin) + HOVER * front
    inwards = xp.where(behind[:, None], there + (along + step) * way, begin)
    return ArmCommand(xp.where(arrived | (outside & ~behind[:, None]), out, inwards), CLOSED)


GUIDE = Stage("guide", "", ("free", "near"), ("traced", "placed"), "guide {object} {goal}", _potential, _expert,
              ends=("near",), entry=_entry, complete=_all_passed, count=_points_passed, waypoint=_waypoint)  # fmt: skip

register_stage(GUIDE.name, GUIDE)
