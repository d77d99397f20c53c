"""The stages of a thing that is let go in motion: throw, slide; and where it ends: settle, strike."""

from __future__ import annotations

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import at_rest, distance, length, touched
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.handling import move_potential
from mygym.tasks.stages.motions import (
    behind_object,
    horizontal,
    lifted,
    limited,
    over_then_down,
    planar_distance,
    with_height,
)
from mygym.tasks.state import namespace
from mygym.types import Array

TIME_STEP = 0.04
"""s: of control."""

GRAVITY = 9.81
"""m/s²."""

# slide --------------------------------------------------------------------------------------------------------------

BEHIND = 0.076
"""m between the end effector and the object's centre when a push begins."""

FIRST_PUSH, FASTEST_PUSH = 0.3, 0.8
"""m/s of the hand when it meets the object, at most, and ever: what is hit harder than it has to be jumps off, and most
arms are as fast as that in most directions."""

PUSH_LEAD = 0.054
"""s: a hand that is sent ahead by this times `v` in every step moves at `v`; measured with the Panda."""

STEPS_OF_PUSH = 12
"""In which the object comes to its speed, so that it stays at the hand, which steers it."""

KEEP = 0.9
"""Share of what the hand is aside of its place behind the object that it makes good in a step."""

STEER = 1.5
"""rad that the hand goes round the object for each rad that the object goes astray."""

ROLLS = 20.0
"""rad/m: what turns more than this about a horizontal axis rolls, and does not slide."""


def _push_entry(context: StageContext) -> Array:
    return behind_object(context, BEHIND)


def _departure(context: StageContext) -> Array:
    """`(N, 3)` m/s: the velocity with which the object has to be let go to come to rest at the goal.

    Rolling friction slows each horizontal axis by itself: that is how Bullet has it.
    """
    xp = namespace(context.goal)
    way = with_height(context.goal - context.object_position, xp.zeros_like(context.goal[:, 2]))
    twice = 2.0 * context.bound.deceleration
    rolls = length(context.object_spin[:, :2]) > ROLLS * length(context.object_velocity)
    slides = way * (twice / xp.clip(length(way)[:, None], 1e-6, None)) ** 0.5
    return xp.where(rolls[:, None], xp.sign(way) * (twice * abs(way)) ** 0.5, slides)


def _slide_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """Push from behind until the object is fast enough to reach the goal, then stop.

    Where it goes astray, because what pushes it is flat, the hand goes farther round behind it.
    """
    xp = namespace(context.goal)
    there, at, slowing = context.object_position, context.ee_position, context.bound.deceleration
    departure = _departure(context)
    needed = length(departure)
    way = horizontal(departure)
    velocity = with_height(context.object_velocity, xp.zeros_like(needed))
    speed = (velocity * way).sum(-1)
    drift = velocity - speed[:, None] * way
    # In the step that comes the object is pushed still, and slows down only after that.
    last = (needed**2 + (slowing * TIME_STEP) ** 2) ** 0.5 - slowing * TIME_STEP
    gentle = xp.clip(0.4 * needed, None, FIRST_PUSH)
    wanted = xp.clip(speed + needed / STEPS_OF_PUSH, gentle, xp.clip(last, None, FASTEST_PUSH))
    aim = horizontal(way - STEER * drift / xp.clip(needed, 0.05, None)[:, None])
    offset = at - there
    along = (offset * aim).sum(-1)
    aside = with_height(offset - along[:, None] * aim, xp.zeros_like(needed))
    behind = (along < -0.01) & (length(aside) < 0.035) & (offset[:, 2] < 0.02)
    onward = PUSH_LEAD * (wanted[:, None] * way + drift) - KEEP * aside
    push = with_height(at + onward, context.start_object_position[:, 2])
    target = xp.where(behind[:, None], push, over_then_down(context, _push_entry(context)))
    return ArmCommand(xp.where((speed > needed)[:, None], at, target), CLOSED)


# throw --------------------------------------------------------------------------------------------------------------

BACK, HEIGHT = 0.10, 0.47
"""m behind the middle of the work area, and above the table, from where the hand swings towards the goal."""

SWING = 0.10
"""m by which the hand is sent ahead in each step of the swing: as fast as it can."""

DELAY = 0.02
"""s to the middle of the step in which fingers that are told to open let go, by measurement: they do so at once."""

SHORT = 0.25
"""Of the tolerance: what is thrown rolls on, or meets a wall before the goal."""


def _swing_start(context: StageContext) -> Array:
    """`(N, 3)`: on the far side of the middle of the work area, which is the origin, seen from the goal."""
    xp = namespace(context.goal)
    return with_height(-BACK * horizontal(context.goal), HEIGHT + xp.zeros_like(context.goal[:, 2]))


def _steps_of_swing(context: StageContext) -> Array:
    """Steps since the hand was where it swings from; 0 before that."""
    ready = distance(context.object_position, _swing_start(context)) < 0.02
    return context.count + (ready | (context.count > 0))


def _height_at_goal(context: StageContext) -> Array:
    """`(N,)` m: how far above the goal the object would pass if it was let go now."""
    xp = namespace(context.goal)
    velocity = context.object_velocity
    way = horizontal(context.goal - context.object_position)
    speed = xp.clip((velocity * way).sum(-1), 0.05, None)
    there = context.object_position + DELAY * velocity
    time = (planar_distance(context.goal, there) - SHORT * context.thresholds.tolerance) / speed
    return there[:, 2] - context.goal[:, 2] + velocity[:, 2] * time - 0.5 * GRAVITY * time**2


def _throw_expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """Swing from behind the middle towards the goal, and open when the object would fly there."""
    xp = namespace(context.goal)
    swings = context.count > 0
    at, start = context.ee_position, _swing_start(context)
    back = limited(at, start + at - context.object_position, 0.04)
    ahead = with_height(at + SWING * horizontal(context.goal - context.object_position), start[:, 2])
    opens = swings & (_height_at_goal(context) > 0.0)
    return ArmCommand(xp.where(swings[:, None], ahead, back), xp.where(opens, OPEN, CLOSED))


# settle, strike -----------------------------------------------------------------------------------------------------


def _lies_untouched(context: StageContext) -> Array:
    return at_rest(context) & ~touched(context)


FALLS, WITHIN = 0.2, 0.12
"""m/s downwards, and m from the hand, of what is on its way out of the fingers."""


def _follow_through(context: StageContext, entry: StartPose) -> ArmCommand:
    """Along with what falls out of the fingers until it is clear of them, else away from it."""
    xp = namespace(context.goal)
    leaves = (context.object_velocity[:, 2] < -FALLS) & (
        distance(context.ee_position, context.object_position) < WITHIN
    )
    along = context.ee_position + PUSH_LEAD * with_height(context.object_velocity, xp.zeros_like(context.goal[:, 2]))
    return ArmCommand(xp.where(leaves[:, None], along, lifted(context.start_ee_position, 0.05)), OPEN)


SLIDE = Stage("slide", "", ("free", "near"), ("launched",), "push {object} so that it glides {goal}", move_potential,
              _slide_expert, ends=("near", "placed"), entry=_push_entry)  # fmt: skip
THROW = Stage("throw", "", ("held",), ("launched", "free"), "throw {object} {goal}", move_potential, _throw_expert,
              ends=("near", "placed"), count=_steps_of_swing, needs_gripper=True)  # fmt: skip
SETTLE = Stage("settle", "", ("launched",), ("placed",), "let {object} come to rest there", move_potential,
               _follow_through, complete=_lies_untouched)  # fmt: skip
STRIKE = Stage("strike", "", ("launched",), ("struck",), "let {object} hit it", move_potential, _follow_through,
               ends=("launched",))  # fmt: skip

for _stage in (SLIDE, THROW, SETTLE, STRIKE):
    register_stage(_stage.name, _stage)
