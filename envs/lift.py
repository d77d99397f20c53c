"""A stage of your own, and a task of it: an object is lifted straight up to the height of the goal."""

from mygym.tasks.context import ArmCommand, StageContext, StartPose
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.motions import limited, share_covered, with_height
from mygym.tasks.task import register_task
from mygym.types import Array


def above_start(context: StageContext) -> Array:
    """`(N, 3)` m: over the place where the object was grasped, as high as the goal."""
    return with_height(context.start_object_position, context.goal[:, 2])


def potential(context: StageContext) -> Array:
    """`(N,)`: share of the height that is done."""
    start, goal = context.start_object_position[:, 2], context.goal[:, 2]
    return share_covered(abs(goal - context.object_position[:, 2]), abs(goal - start))


def expert(context: StageContext, entry: StartPose) -> ArmCommand:
    """Up, 4 cm ahead of where the hand is, closed."""
    there = above_start(context) + context.ee_position - context.object_position
    return ArmCommand(limited(context.ee_position, there, 0.04), CLOSED)


def is_high_enough(context: StageContext) -> Array:
    """`(N,)` bool: the object is as high as the goal, within the tolerance."""
    return abs(context.object_position[:, 2] - context.goal[:, 2]) < context.thresholds.tolerance


register_stage(
    "lift",
    Stage(
        "lift",
        letter="",  # one capital letter would let it join the letters
        requires=("held",),  # so it comes after grasp
        gives=("traced",),  # an event, that the way was gone; `complete` says when
        phrase="lift {object} as high as the goal",
        potential=potential,
        expert=expert,
        complete=is_high_enough,
        waypoint=above_start,  # where the object should be meanwhile: so observations say how high
    ),
)

register_task(
    "lift",
    stages=["approach", "grasp", "lift"],
    help="lift an object straight up, as high as the goal",
    tolerance=0.03,
    run_defaults={"steps": 500_000, "eval": {"every": 10_000}},
)
