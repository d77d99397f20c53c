"""A custom reward: `mygym train --task reach --reward quadratic`."""

from mygym.tasks.rewards import register_reward
from mygym.types import Array


@register_reward("quadratic")
def quadratic(achieved_goal: Array, desired_goal: Array) -> Array:
    """Minus the squared distance of the goal vectors."""
    return -((achieved_goal - desired_goal) ** 2).sum(-1)
