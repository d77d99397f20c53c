"""A custom predicate, stage and task: lift an object straight up to the height of the goal."""

from mygym.tasks.context import ArmCommand, StageBinding, StageContext, StartPose
from mygym.tasks.predicates import GoalTerm, register_predicate
from mygym.tasks.stage import CLOSED, Stage, register_stage
from mygym.tasks.stages.motions import limited, progress_to_goal, with_height
from mygym.tasks.task import register_task
from mygym.types import Array


def height(context: StageContext) -> Array:
    """`(N, 1)` m: height of the object."""
    return context.object_position[:, 2:]


def goal_height(goals: Array, bound: StageBinding) -> Array:
    """`(N, 1)` m: height of the stage's goal point in `goals` `(N, G, 3)`."""
    return goals[:, bound.goal_slot, 2:]


def still_lifted(context: StageContext) -> Array:
    """`(N,)` bool: the object is no lower than the goal, with slack, so that a later stage may carry it higher."""
    slack = context.thresholds.slack * context.thresholds.tolerance
    return context.object_position[:, 2] > context.goal[:, 2] - slack


@register_predicate("lifted", keeps=still_lifted, moves_object=True, goal=GoalTerm("height", 1, height, goal_height))
def lifted(context: StageContext) -> Array:
    """The object is at the height of the goal."""
    return abs(context.object_position[:, 2] - context.goal[:, 2]) < context.thresholds.tolerance


def above_start(context: StageContext) -> Array:
    """`(N, 3)` m: above the position where the object was grasped, at the height of the goal."""
    return with_height(context.start_object_position, context.goal[:, 2])


def potential(context: StageContext) -> Array:
    """`(N,)`: progress of the object to the height of the goal."""
    return progress_to_goal(context, abs(context.goal[:, 2] - context.object_position[:, 2]))


def expert(context: StageContext, start_pose: StartPose) -> ArmCommand:
    """Move the closed hand up, by at most 4 cm per control step."""
    target = above_start(context) + context.ee_position - context.object_position
    return ArmCommand(limited(context.ee_position, target, 0.04), CLOSED)


register_stage(
    "lift",
    Stage(
        "lift",
        letter="",  # a capital letter would make it available in compositions such as AGM
        requires=("held",),  # so it comes after grasp
        gives=("lifted",),  # it is complete when this begins to hold
        phrase="lift {object} as high as the goal",
        potential=potential,
        expert=expert,
        waypoint=above_start,  # is observed, so that the policy knows the height
    ),
)

register_task(
    "lift",
    stages=["approach", "grasp", "lift"],
    help="lift an object straight up, as high as the goal",
    tolerance=0.03,
    run_defaults={"steps": 500_000, "eval": {"every": 10_000}},
)
