"""Custom reward: train with `--reward quadratic`."""

from mygym.tasks.rewards import register_reward
from mygym.types import Array


@register_reward("quadratic")
def quadratic(achieved_goal: Array, desired_goal: Array) -> Array:
    """Minus the squared distance of the goal vectors.

    The arguments are `(..., size)`, of numpy or torch, so that hindsight can relabel the reward; a third argument
    `space`, a `GoalSpace`, tells which goals are reached (`mygym.tasks.goals.goal_reached`). A function of `(context)`,
    an `EpisodeContext`, can use the whole state instead, and the state before the step (`inputs` of `register_reward`);
    a run with such a reward has no hindsight replay.
    """
    return -((achieved_goal - desired_goal) ** 2).sum(-1)
