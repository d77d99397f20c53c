"""Rewards: functions of goal vectors alone, which hindsight can relabel, or of the whole episode context.

`register_reward` adds a reward. A function of `(achieved_goal, desired_goal)` gets goal vectors `(…, size)` and may
take the goal space as `space`. A function of `(context)` gets the `EpisodeContext` after the step, and may take
`sparse` (the sparse reward), `potential` and `previous_potential` (the task's potential after and before the step),
`gamma` (the discount of the algorithm) and `failed` (`(N,)` bool: the step ends the episode by a failure). Both return
`(…)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from mygym.errors import RegistryError, bad_value
from mygym.registry import decorator, registry
from mygym.tasks.episode import EpisodeContext, potential, weighted_potential
from mygym.tasks.goals import GoalSpace, goal_distance, goal_reached
from mygym.tasks.state import namespace
from mygym.types import Array

Function = Callable[..., Array]

CONTEXT_EXTRAS = ("sparse", "potential", "previous_potential", "gamma", "failed")
"""Optional parameters of a function of the context."""

_GOAL_PARAMETERS, _CONTEXT_PARAMETERS = ("achieved_goal", "desired_goal"), ("context",)


@dataclass(frozen=True)
class Reward:
    """A registered reward."""

    function: Function
    depends_on_goals_only: bool
    """Whether the reward is a function of goal vectors alone, so that hindsight can relabel it."""
    extras: frozenset[str] = frozenset()
    """Optional parameters that the function takes: `space`; or some of `CONTEXT_EXTRAS`."""

    @property
    def uses_goal_reward(self) -> bool:
        """Whether a step's reward depends on the goal vectors."""
        return self.depends_on_goals_only or "sparse" in self.extras

    @property
    def uses_potential(self) -> bool:
        """Whether the function takes the task's potential, which costs time in every step."""
        return not self.extras.isdisjoint({"potential", "previous_potential"})

    @property
    def includes_failure(self) -> bool:
        """Whether the reward includes the cost of a failure, so that a failure terminates the episode."""
        return "failed" in self.extras

    def goal_reward(self, space: GoalSpace, achieved: Array, desired: Array) -> Array:
        """`(…)`: reward of goal vectors `(…, size)`.

        A reward of the context has no value for goal vectors: the result is the sparse reward. Runs do not relabel it.
        """
        if not self.depends_on_goals_only:
            return sparse(achieved, desired, space)
        return self.function(achieved, desired, **({"space": space} if "space" in self.extras else {}))

    def step_reward(
        self, context: EpisodeContext, *, sparse: Array | None, previous_potential: Array, gamma: float, failed: Array
    ) -> tuple[Array, Array]:
        """Return the reward `(N,)` after a step and the task's potential `(N,)`, for rewards of the context.

        Args:
            context: The context after the step.
            sparse: `(N,)`, or a number for all: sparse reward; None if the function does not take it.
            previous_potential: `(N,)`: potential before the step; also returned if the function takes no potential.
            gamma: Discount of the algorithm.
            failed: `(N,)` bool: the step ends the episode by a failure.
        """
        after = previous_potential
        if self.uses_potential:
            after = potential(context.task, context.progress, context.state, context.goals)
        values = {
            "sparse": sparse,
            "potential": after,
            "previous_potential": previous_potential,
            "gamma": gamma,
            "failed": failed,
        }
        return self.function(context, **{name: values[name] for name in self.extras}), after


def register_reward(name: str, *, help: str = "", override: bool = False) -> Callable[[Function], Function]:
    """Decorator that registers a reward function; its parameters select its inputs, see the module.

    Args:
        name: Name for `--reward`.
        help: One line; by default the first line of the docstring.
        override: Replace a reward of the same name.

    Raises:
        RegistryError: Other parameters, or the name is taken.
    """

    def build(function: Function) -> Reward:
        names = tuple(inspect.signature(function).parameters)
        for leading, optional in ((_GOAL_PARAMETERS, ("space",)), (_CONTEXT_PARAMETERS, CONTEXT_EXTRAS)):
            extras = frozenset(names[len(leading) :])
            if names[: len(leading)] == leading and extras.issubset(optional):
                return Reward(function, leading == _GOAL_PARAMETERS, extras)
        allowed = f"(achieved_goal, desired_goal[, space]) or (context[, {', '.join(CONTEXT_EXTRAS)}])"
        raise RegistryError(bad_value(f"reward {name}: parameters", names, allowed))

    return decorator("reward", name, build=build, allowed="a function", help=help, override=override)


def find_reward(name: str) -> Reward:
    """Return a registered reward.

    Raises:
        RegistryError: No reward has this name.
    """
    reward: Reward = registry("reward").get(name, "reward").load()
    return reward


@register_reward("sparse")
def sparse(achieved_goal: Array, desired_goal: Array, space: GoalSpace) -> Array:
    """0 if the goal is reached, else −1."""
    return namespace(achieved_goal).where(goal_reached(space, achieved_goal, desired_goal), 0.0, -1.0)


@register_reward("dense")
def dense(achieved_goal: Array, desired_goal: Array, space: GoalSpace) -> Array:
    """Minus the distance to the goal in metres."""
    return -goal_distance(space, achieved_goal, desired_goal)


@register_reward("shaped")
def shaped(context: EpisodeContext, gamma: float, failed: Array) -> Array:
    """Progress of all stages, from −1 to 0 when all are complete; a stage counts by its weight.

    A failure costs as much as no progress until the horizon. If it were a truncation, the critic would have to estimate
    a state that no episode continues from, and a policy would learn to lose the object.
    """
    weights = [stage.weight for stage in context.task.sequence.stages]
    total = weighted_potential(context.task, context.progress, context.state, context.goals, weights) / sum(weights)
    steps = context.task.horizon
    worst = -float(steps) if gamma == 1.0 else -(1.0 - gamma**steps) / (1.0 - gamma)
    return namespace(total).where(failed, worst, total)


@register_reward("staged")
def staged(context: EpisodeContext, sparse: Array, potential: Array, previous_potential: Array, gamma: float) -> Array:
    """Sparse reward plus γΦ′ − Φ of the stages' potential Φ (Ng, Harada and Russell, 1999).

    It cannot teach more than the sparse reward: with the same γ every policy keeps its rank, so a critic that knows Φ
    sees no advantage in progress before the first success. To learn several stages use `shaped`.
    """
    return sparse + (gamma * potential - previous_potential)
