"""Rewards: functions of goal vectors alone, which hindsight can relabel, or of the whole episode context.

`register_reward` adds a reward. A function of `(achieved_goal, desired_goal)` gets goal vectors `(…, size)` and may
take the goal space as `space`. A function of `(context)` gets the `EpisodeContext` after the step, and may take
`sparse` (the sparse reward), `gamma` (the discount of the algorithm), `failed` (`(N,)` bool: the step ends the episode
by a failure), and inputs. An input is a function of the context, in `INPUTS` or in `register_reward(…, inputs=…)`: a
parameter of its name has its value after the step, `previous_NAME` its value before the step. Rewards return `(…)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mygym.errors import RegistryError, bad_value, did_you_mean
from mygym.registry import decorator, registry
from mygym.registry.signatures import checked_registration, signature, wrong_result
from mygym.tasks import episode
from mygym.tasks.episode import EpisodeContext, weighted_potential
from mygym.tasks.goals import GoalSpace, goal_distance, goal_reached
from mygym.tasks.state import namespace
from mygym.tasks.task import actions_within
from mygym.types import Array

Function = Callable[..., Array]

Memory = Mapping[str, Array]
"""`previous_NAME` of an input → its value `(N, …)` before the next step, of the inputs whose value a reward takes."""

_STEP = ("sparse", "gamma", "failed")
"""Optional parameters of a function of the context that are no inputs."""

_GOAL_PARAMETERS, _CONTEXT_PARAMETERS, _PREVIOUS = ("achieved_goal", "desired_goal"), ("context",), "previous_"


def potential(context: EpisodeContext) -> Array:
    """`(N,)`: the task's potential, see `mygym.tasks.episode.potential`."""
    return episode.potential(context.task, context.progress, context.state, context.goals)


INPUTS: tuple[Function, ...] = (potential,)
"""Inputs that every reward may take."""


@dataclass(frozen=True)
class Input:
    """A quantity `(N, …)` that rewards, and the inputs after it, take by its name."""

    name: str
    function: Function
    takes: frozenset[str]
    """Names of the inputs, or `previous_NAME`, that the function takes besides the context."""


@dataclass(frozen=True)
class Reward:
    """A registered reward."""

    function: Function
    depends_on_goals_only: bool
    """Whether the reward is a function of goal vectors alone, so that hindsight can relabel it."""
    takes: frozenset[str] = frozenset()
    """Optional parameters that the function takes."""
    inputs: tuple[Input, ...] = ()
    """Inputs that the reward needs, in the order in which they are computed."""

    @property
    def uses_goal_reward(self) -> bool:
        """Whether a step's reward depends on the goal vectors."""
        return self.depends_on_goals_only or "sparse" in self.takes

    @property
    def includes_failure(self) -> bool:
        """Whether the reward includes the cost of a failure, so that a failure terminates the episode."""
        return "failed" in self.takes

    def goal_reward(self, space: GoalSpace, achieved: Array, desired: Array) -> Array:
        """`(…)`: reward of goal vectors `(…, size)`.

        A reward of the context has no value for goal vectors: the result is the sparse reward. Runs do not relabel it.
        """
        if not self.depends_on_goals_only:
            return sparse(achieved, desired, space)
        result = self.function(achieved, desired, **({"space": space} if "space" in self.takes else {}))
        return self._of_shape(result, achieved.shape[:-1])

    def begin(self, context: EpisodeContext) -> Memory:
        """Return the memory of episodes that begin in `context`; before it, the inputs have had the same values."""
        return self._remembered(self._inputs(context, {}))

    def step_reward(
        self, context: EpisodeContext, memory: Memory, *, sparse: Array | None, gamma: float, failed: Array
    ) -> tuple[Array, Memory]:
        """Return the reward `(N,)` after a step, for rewards of the context, and the memory of the next step.

        Args:
            context: The context after the step.
            memory: Of the step before, or of `begin`.
            sparse: `(N,)`: sparse reward; None if the function does not take it.
            gamma: Discount of the algorithm.
            failed: `(N,)` bool: the step ends the episode by a failure.
        """
        values = {**self._inputs(context, memory), "sparse": sparse, "gamma": gamma, "failed": failed}
        result = self.function(context, **{name: values[name] for name in self.takes})
        return self._of_shape(result, context.goals.shape[:1]), self._remembered(values)

    def _of_shape(self, result: Any, shape: tuple[int, ...]) -> Any:
        """Return the result of the function; refuse one that is not one number for each goal vector or episode."""
        if getattr(result, "shape", () if isinstance(result, int | float) else None) == shape:
            return result
        of = "goal vector" if self.depends_on_goals_only else "episode"
        key = f"reward {getattr(self.function, '__name__', '')}"
        raise wrong_result(key, self.function, result, f"shape {tuple(shape)}, a number for each {of}")

    def _inputs(self, context: EpisodeContext, memory: Memory) -> dict[str, Array]:
        """Return the values of the inputs, and of those in `memory`; without a memory both are the same."""
        values = dict(memory)
        for each in self.inputs:
            value = each.function(context, **{name: values[name] for name in each.takes})
            if getattr(value, "shape", ())[:1] != context.goals.shape[:1]:
                raise wrong_result(f"input {each.name} of rewards", each.function, value, "an array of shape (N, …)")
            values[each.name] = value
            values.setdefault(_PREVIOUS + each.name, value)
        return values

    def _remembered(self, values: Mapping[str, Array]) -> Memory:
        """Return copies of the inputs whose previous values are taken: the engine refills the arrays of its state."""
        return {
            _PREVIOUS + name: namespace(values[name]).asarray(values[name], copy=True)
            for name in self._names_remembered
        }

    @cached_property
    def _names_remembered(self) -> list[str]:
        taken = self.takes.union(*(each.takes for each in self.inputs))
        return [each.name for each in self.inputs if _PREVIOUS + each.name in taken]


@checked_registration
def register_reward(
    name: str, *, inputs: Sequence[Function] = (), help: str = "", override: bool = False
) -> Callable[[Function], Function]:
    """Decorator that registers a reward function; its parameters select what it gets, see the module.

    Args:
        name: Name for `--reward`.
        inputs: Functions of `(context)` that return `(N, …)`, which the reward takes by their names. They may take
            `INPUTS`, and the functions before them, in the same way.
        help: One line; by default the first line of the docstring.
        override: Replace a reward of the same name.

    Raises:
        RegistryError: Other parameters, an input whose name is taken, or the reward's name is taken.
    """

    def build(function: Function) -> Reward:
        names = _parameters(function)
        if names[:2] == _GOAL_PARAMETERS and set(names[2:]) <= {"space"}:
            return Reward(function, True, frozenset(names[2:]))
        known: dict[str, Input] = {}
        for each in (*INPUTS, *inputs):
            label = getattr(each, "__name__", "")
            if label in known or label in (*_STEP, *_CONTEXT_PARAMETERS) or not label.isidentifier():
                allowed = f"functions with names other than {', '.join((*_STEP, *known))}"
                raise RegistryError(bad_value(f"reward {name}: inputs", label, allowed))
            known[label] = Input(label, each, _taken(f"reward {name}: parameters of {label}", each, known))
        taken = _taken(f"reward {name}: parameters", function, known, _STEP, _GOAL_CHOICE)
        return Reward(function, False, taken, _needed(taken, known))

    return decorator("reward", name, build=build, allowed="a function", help=help, override=override)


_GOAL_CHOICE = "(achieved_goal, desired_goal[, space]) or "


def _parameters(function: Function) -> tuple[str, ...]:
    return tuple(signature(function).parameters)


def _taken(
    key: str, function: Function, known: Mapping[str, Input], further: Sequence[str] = (), otherwise: str = ""
) -> frozenset[str]:
    """Return the names of the parameters after `context`: inputs, their previous values, and those in `further`."""
    first, *names = _parameters(function) or ("",)
    optional = [*further, *known, *(_PREVIOUS + name for name in known)]
    unknown = [name for name in names if name not in optional]
    if first != "context" or unknown:
        hint = did_you_mean(unknown[0], optional) if unknown else ""
        allowed = f"{otherwise}(context[, {', '.join(optional)}]); further inputs stand in `inputs` of register_reward"
        raise RegistryError(bad_value(key, (first, *names), allowed) + hint)
    return frozenset(names)


def _needed(taken: frozenset[str], known: Mapping[str, Input]) -> tuple[Input, ...]:
    """Return the inputs that `taken` needs, each after those that it needs itself."""
    needed: list[Input] = []
    for each in reversed(list(known.values())):
        if not taken.isdisjoint({each.name, _PREVIOUS + each.name}):
            needed.insert(0, each)
            taken |= each.takes
    return tuple(needed)


def find_reward(name: str) -> Reward:
    """Return a registered reward; raise `RegistryError` if no reward has this name."""
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
    total = _progress(context)
    return namespace(total).where(failed, _without_progress(context, gamma), total)


TIME = 0.25
"""Share of the reward `timed` that is a cost of time."""


@register_reward("timed")
def timed(context: EpisodeContext, gamma: float, failed: Array) -> Array:
    """`shaped`, of which a quarter is a cost of time: 0 only after success, else at least −0.25.

    Near the end of a long task `shaped` is almost 0 in every step, so a policy that waits there loses little.
    """
    total = (1.0 - TIME) * _progress(context) - TIME
    xp = namespace(total)
    total = xp.where(episode.is_success(context.task, context.progress), 0.0, total)
    return xp.where(failed, _without_progress(context, gamma), total)


def _progress(context: EpisodeContext) -> Array:
    """`(N,)` in [−1, 0]: progress of all stages, which count by their weights."""
    weights = [stage.weight for stage in context.task.sequence.stages]
    return weighted_potential(context.task, context.progress, context.state, context.goals, weights) / sum(weights)


def _without_progress(context: EpisodeContext, gamma: float) -> float:
    """Return the return of a whole episode that earns −1 per action."""
    steps = actions_within(context.task.limit, context.action_repeat)
    return -float(steps) if gamma == 1.0 else -(1.0 - gamma**steps) / (1.0 - gamma)


@register_reward("staged")
def staged(context: EpisodeContext, sparse: Array, potential: Array, previous_potential: Array, gamma: float) -> Array:
    """Sparse reward plus γΦ′ − Φ of the stages' potential Φ (Ng, Harada and Russell, 1999).

    It cannot teach more than the sparse reward: with the same γ every policy keeps its rank, so a critic that knows Φ
    sees no advantage in progress before the first success. To learn several stages use `shaped`.
    """
    return sparse + (gamma * potential - previous_potential)
