"""Stages that touch or launch an object: push, poke, slide, throw, toss, and what follows a launch: settle, strike."""

from __future__ import annotations

from dataclasses import replace

from array_api_compat import device

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.predicates import at_rest, distance, length, touched
from mygym.tasks.stage import CLOSED, OPEN, Stage, register_stage
from mygym.tasks.stages.handling import CARRYING
from mygym.tasks.stages.motions import (
    behind_object,
    closeness,
    flat,
    horizontal,
    lifted,
    limited,
    over_then_down,
    planar_distance,
    progress_to_goal,
    travel_progress,
    with_height,
    with_stand,
)
from mygym.tasks.state import TIME_STEP, namespace
from mygym.types import Array

BEHIND = 0.06
"""m between the end effector and the object's centre when a push begins."""

STUCK = 0.03
"""m/s along the table below which an object does not move with the tool that touches it."""

ON_TOP, LOW, RETREAT = 0.012, 0.06, 0.045
"""m above the object's centre between which a tool that touches it is on top of it; m by which it then moves back."""

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
    # A tool that is wider than others comes down on the object: it moves back until it is clear, then straight down.
    is_low = (along < -0.015) & (aside < 0.02) & (offset[:, 2] >= ON_TOP) & (offset[:, 2] < LOW)
    stays = length(context.object_velocity[:, :2]) < STUCK
    is_clear = is_low & (along < -BEHIND)
    # Another link may go on touching the object: the tool moves no farther back than this.
    on_top = is_low & touched(context) & stays & (along > -BEHIND - RETREAT)
    target = over_then_down(context, _push_start(context))
    target = xp.where(is_clear[:, None], with_height(ee, position[:, 2]), target)
    target = xp.where(on_top[:, None], ee - RETREAT * direction, target)
    return ArmCommand(xp.where((is_behind & ~on_top)[:, None], push, target), CLOSED)


PUSH = Stage("push", "", ("free", "near"), ("placed",), "push {object} {goal}", _push_potential, _push_expert,
             ends=("near",), start_pose=_push_start)  # fmt: skip


def _poke_start(context: StageContext) -> Array:
    return lifted(context.object_position, 0.06)


def _poke_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Move above the object, then straight down onto it."""
    down = with_height(context.object_position, context.ee_position[:, 2] - 0.015)
    is_above = planar_distance(context.ee_position, context.object_position) < 0.01
    target = namespace(down).where(is_above[:, None], down, over_then_down(context, _poke_start(context)))
    return ArmCommand(target, CLOSED)


POKE = Stage("poke", "", ("free", "near"), ("touched",), "poke {object}",
             lambda context: closeness(distance(context.ee_position, context.object_position), context.thresholds.near),
             _poke_expert, start_pose=_poke_start)  # fmt: skip


GRAVITY = 9.81
"""m/s²."""

BEHIND_AT_LAUNCH = 0.076
"""m between the end effector and the object's centre when a push begins."""

FIRST_PUSH, FASTEST_PUSH = 0.3, 0.8
"""m/s: highest speeds of the hand when it meets the object, and later. An object that is hit harder jumps off, and most
arms reach these speeds in most directions."""

PUSH_LEAD = 0.054
"""s: a hand whose target leads by this times `v` in every control step moves at `v`; measured with the Panda."""

STEPS_OF_PUSH = 12
"""Control steps in which the object is accelerated, so that it stays at the hand, which steers it."""

KEEP = 0.9
"""Share of the hand's sideways error behind the object that is corrected in a control step."""

STEER = 1.5
"""rad by which the hand moves around an object for each rad of its wrong direction; the other way for one that rolls,
which the flat hand drags along sideways."""

ROLLS = 20.0
"""rad/m: an object that spins more than this about a horizontal axis rolls; others slide."""


def _launch_start(context: StageContext) -> Array:
    return behind_object(context, BEHIND_AT_LAUNCH)


def _rolls(context: StageContext) -> Array:
    """Return whether the object rolls, `(N,)` bool."""
    return length(context.object_spin[:, :2]) > ROLLS * length(context.object_velocity)


def _departure(context: StageContext) -> Array:
    """`(N, 3)` m/s: velocity at the release with which the object comes to rest at the goal."""
    xp = namespace(context.goal)
    offset = flat(context.goal - context.object_position)
    twice = 2.0 * context.bound.deceleration
    slides = offset * (twice / xp.maximum(length(offset)[:, None], 1e-6)) ** 0.5
    if not context.bound.rolls_by_axis:
        return slides
    return xp.where(_rolls(context)[:, None], xp.sign(offset) * (twice * abs(offset)) ** 0.5, slides)


def _slide_potential(context: StageContext) -> Array:
    """`(N,)`: progress to the goal of the point where the object comes to rest, and a tool behind the object."""
    velocity = flat(context.object_velocity)
    stop = context.object_position + velocity * length(velocity)[:, None] / (2.0 * context.bound.deceleration)
    return with_stand(context, progress_to_goal(context, distance(stop, context.goal)), _launch_start(context))


def _slide_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Push from behind until the object is fast enough to reach the goal, then stop.

    If the object drifts, because the hand is flat, the hand moves farther around it.
    """
    xp = namespace(context.goal)
    position, ee, slowing = context.object_position, context.ee_position, context.bound.deceleration
    departure = _departure(context)
    needed = length(departure)
    direction = horizontal(departure)
    velocity = flat(context.object_velocity)
    speed = (velocity * direction).sum(-1)
    drift = velocity - speed[:, None] * direction
    # The object is pushed during the next control step, and slows down only after it.
    needed_after_push = (needed**2 + (slowing * TIME_STEP) ** 2) ** 0.5 - slowing * TIME_STEP
    slowest = xp.minimum(0.4 * needed, FIRST_PUSH)
    wanted = xp.clip(speed + needed / STEPS_OF_PUSH, slowest, xp.minimum(needed_after_push, FASTEST_PUSH))
    steer = STEER * (1.0 - 2.0 * xp.astype(_rolls(context), needed.dtype)) / xp.maximum(needed, 0.05)
    aim = horizontal(direction - steer[:, None] * drift)
    ee_offset = ee - position
    ahead = (ee_offset * aim).sum(-1)
    aside = flat(ee_offset - ahead[:, None] * aim)
    is_behind = (ahead < -0.01) & (length(aside) < 0.035) & (ee_offset[:, 2] < 0.02)
    lead = PUSH_LEAD * (wanted[:, None] * direction + drift) - KEEP * aside
    push = with_height(ee + lead, context.start_object_position[:, 2])
    target = xp.where(is_behind[:, None], push, over_then_down(context, _launch_start(context)))
    return ArmCommand(xp.where((speed > needed)[:, None], ee, target), CLOSED)


SLIDE = Stage("slide", "", ("free", "near"), ("launched",), "push {object} so that it glides {goal}", _slide_potential,
              _slide_expert, ends=("near", "placed"), start_pose=_launch_start)  # fmt: skip


BACK, HEIGHT = 0.10, 0.47
"""m behind the middle of the work area, and above the table: start of the swing towards the goal."""

SWING = 0.10
"""m by which the target leads the hand in each control step of the swing: as fast as the arm can."""

DELAY = 0.02
"""s until commanded fingers release the object, measured: the middle of the control step."""

SHORT = 0.25
"""Share of the tolerance by which a throw is aimed short: the object rolls on, or meets a wall before the goal."""

WALLS = 0.16
"""m above the floor at which an object flies over the goal: the height of the walls of a basket."""

FLIGHT = 26
"""Points of a predicted flight, a control step apart: 1 s."""

NEAR_GOAL = 3.0
"""Tolerances of the goal within which the flight of a tossed object must pass: a first toss need not be precise."""

HELD, LYING, APART, FLYING = 0.5, 0.4, 0.5, 0.03
"""Shares of the progress that count while the object is in the hand, and lies on the table; share of the second that
depends on the hand's distance; m above its start beyond which an object does not lie. A throw that misses costs little
more than holding the object, else a policy never lets go."""


def _swing_start(context: StageContext) -> Array:
    """`(N, 3)` m: start of the swing, beyond the origin (the middle of the work area) as seen from the goal."""
    xp = namespace(context.goal)
    return with_height(-BACK * horizontal(context.goal), HEIGHT + xp.zeros_like(context.goal[:, 2]))


def _steps_of_swing(context: StageContext) -> Array:
    """Return the control steps since the object was at the start of the swing; 0 before."""
    ready = distance(context.object_position, _swing_start(context)) < 0.02
    return context.count + (ready | (context.count > 0))


def _height_at_goal(context: StageContext) -> Array:
    """`(N,)` m: height above the goal at which the object would pass if it were released now."""
    xp = namespace(context.goal)
    velocity = context.object_velocity
    direction = horizontal(context.goal - context.object_position)
    speed = xp.maximum((velocity * direction).sum(-1), 0.05)
    release = context.object_position + DELAY * velocity
    time = (planar_distance(context.goal, release) - SHORT * context.thresholds.tolerance) / speed
    return release[:, 2] - context.goal[:, 2] + velocity[:, 2] * time - 0.5 * GRAVITY * time**2


def _miss(context: StageContext) -> Array:
    """`(N,)` m: nearest approach of the object, if it flies freely from now on, to the goal or to a point over it."""
    xp = namespace(context.goal)
    aim = with_height(context.goal, xp.where(context.goal[:, 2] < WALLS, WALLS, context.goal[:, 2]))
    steps = xp.arange(FLIGHT, dtype=context.goal.dtype, device=device(context.goal))
    time = (TIME_STEP * steps)[:, None]
    fall = xp.concat([0.0 * time, 0.0 * time, 0.5 * GRAVITY * time**2], axis=-1)
    away = (aim - context.object_position)[:, None] - time * context.object_velocity[:, None] + fall
    start, along = away[:, :-1], away[:, :-1] - away[:, 1:]
    share = xp.clip((start * along).sum(-1) / xp.maximum((along * along).sum(-1), 1e-9), 0.0, 1.0)
    return xp.min(length(start - share[..., None] * along), axis=1)


def _flies_to_goal(context: StageContext, tolerances: float = 1.0) -> Array:
    """Return whether the object is high enough to fly over walls, and will pass within some tolerances of the goal."""
    return (context.object_position[:, 2] > WALLS) & (_miss(context) < tolerances * context.thresholds.tolerance)


def _lies(context: StageContext) -> Array:
    """Return whether the object is neither in the hand nor in flight: it has to be grasped again."""
    return _is_low(context) & ~context.finger_contact.any(-1)


def _is_low(context: StageContext) -> Array:
    return context.object_position[:, 2] < context.start_object_position[:, 2] + FLYING


def _throw_potential(context: StageContext) -> Array:
    """`(N,)`: progress to the goal of the nearest point of the object's flight.

    In flight it counts whole and in the hand half, so that the hand lets go. On the table it counts less than in the
    hand, and more if the hand is close.
    """
    xp = namespace(context.goal)
    progress = travel_progress(_miss(context), context.thresholds.tolerance)
    close = closeness(distance(context.ee_position, context.target), 0.1)
    lying = LYING * progress * (1.0 - APART + APART * close)
    released = xp.where(_is_low(context), lying, progress)
    return xp.where(context.finger_contact.any(-1), HELD * progress, released)


def _throw_expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Swing from behind the middle towards the goal, and open when the object would fly to the goal."""
    xp = namespace(context.goal)
    swings = context.count > 0
    ee, start = context.ee_position, _swing_start(context)
    to_start = limited(ee, start + ee - context.object_position, 0.04)
    swing = with_height(ee + SWING * horizontal(context.goal - context.object_position), start[:, 2])
    opens = swings & (_height_at_goal(context) > 0.0)
    return ArmCommand(xp.where(swings[:, None], swing, to_start), xp.where(opens, OPEN, CLOSED))


THROW = Stage("throw", "", ("held",), ("launched", "free"), "throw {object} {goal}", _throw_potential, _throw_expert,
              ends=("near", "placed"), complete=_flies_to_goal, count=_steps_of_swing, weight=CARRYING,
              needs_gripper=True)  # fmt: skip
TOSS = replace(THROW, name="toss", phrase="toss {object} {goal}", returns=_lies,
               complete=lambda context: _flies_to_goal(context, NEAR_GOAL))  # fmt: skip


def _lies_untouched(context: StageContext) -> Array:
    """Return whether the object is at rest and no link of the robot touches it."""
    return at_rest(context) & ~touched(context)


def _rest_potential(context: StageContext) -> Array:
    """`(N,)`: progress of the object to the goal."""
    return progress_to_goal(context, distance(context.object_position, context.goal))


FALL_SPEED, FALL_DISTANCE = 0.2, 0.12
"""m/s downwards, and m from the hand: an object that falls faster and is nearer is leaving the fingers."""


def _follow_through(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Move along with an object that falls out of the fingers until they are clear of it, else move up."""
    xp = namespace(context.goal)
    leaves = (context.object_velocity[:, 2] < -FALL_SPEED) & (
        distance(context.ee_position, context.object_position) < FALL_DISTANCE
    )
    along = context.ee_position + PUSH_LEAD * flat(context.object_velocity)
    return ArmCommand(xp.where(leaves[:, None], along, lifted(context.start_ee_position, 0.05)), OPEN)


SETTLE = Stage("settle", "", ("launched",), ("placed",), "let {object} come to rest there", _rest_potential,
               _follow_through, complete=_lies_untouched)  # fmt: skip
STRIKE = Stage("strike", "", ("launched",), ("struck", "hit"), "let {object} hit it", _rest_potential, _follow_through,
               ends=("launched",))  # fmt: skip

for _stage in (PUSH, POKE, SLIDE, THROW, TOSS, SETTLE, STRIKE):
    register_stage(_stage.name, _stage)
