"""Schedules: numbers that change during training, written as `{schedule: cosine, from: 3e-4, to: 1e-5}`.

A schedule is a function of env steps. Its shape is a registered function whose parameters are the other keys. A
hyperparameter may follow one if the algorithm's class reads it repeatedly: `READS` lists them for the libraries'
classes. For other classes the annotation decides: a `float | Schedule` parameter is called with the remaining progress;
a `float` parameter must be stored in the attribute of the same name.
"""

from __future__ import annotations

import difflib
import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any, TypeVar

from mygym.config.parameter_checks import MAX_FLOAT32, RUN_PARAMETERS, Range, range_of, refusal_of_type
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.nested import is_schedule
from mygym.registry import decorator, of_user, registry
from mygym.registry.signatures import Parameter, checked_registration, fits, parameters, signature

KEY = "schedule"
"""The key that makes a mapping a schedule; its value is the name of a shape."""

TRIALS = 100
"""Number of intervals at which the values of a schedule are checked before a run starts."""

Shape = TypeVar("Shape", bound=Callable[..., float])


@checked_registration
def register_schedule(name: str, *, help: str = "", override: bool = False) -> Callable[[Shape], Shape]:
    """Return a decorator that registers a function as the shape of schedules `{schedule: NAME, …}`.

    The first parameter is `progress`, in [0, 1] between `start` and `until`, or `env_steps`. All other parameters are
    keys of the schedule: numbers, unless annotated otherwise; `from_` stands for `from`. The function may raise
    ValueError for invalid values::

        @register_schedule("square")
        def square(progress: float, from_: float, to: float) -> float:
            "Falls as a parabola."
            return to + (from_ - to) * (1 - progress) ** 2

    Args:
        name: Value of the key `schedule` in configs.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a schedule of the same name.

    Raises:
        RegistryError: The decorated object is no function, or the name is taken.
    """
    return decorator(KEY, name, allowed="a function", help=help, override=override)


@dataclass(frozen=True)
class Schedule:
    """A number as a function of env steps."""

    name: str
    shape: Callable[..., float]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the shape."""
    start: int = 0
    """Env steps at which the change begins; before, the first value is kept."""
    until: int | None = None
    """Env steps at which the change ends; afterwards, the last value is kept; None: the steps of the run."""

    def value(self, env_steps: int, total_steps: int) -> float:
        """Return the value after `env_steps` in a run of `total_steps`."""
        first = _first_parameter(self.shape)
        if first == "env_steps":
            return float(self.shape(env_steps, **self.parameters))
        if first != "progress":
            return float(self.shape(**self.parameters))
        until = total_steps if self.until is None else self.until
        share = (env_steps - self.start) / max(until - self.start, 1)
        return float(self.shape(min(max(share, 0.0), 1.0), **self.parameters))

    def trials(self, total_steps: int | None = None) -> list[tuple[int, float]]:
        """Return env steps and values for a check: at both ends, at the points, and at `TRIALS` intervals."""
        total = total_steps or (self.until or self.start) + TRIALS
        until = total if self.until is None else self.until
        steps = {self.start + round((until - self.start) * index / TRIALS) for index in range(TRIALS + 1)}
        steps |= {point[0] for point in self.parameters.get("points", ())}
        return [(step, self.value(step, until)) for step in sorted(steps)]


@dataclass(frozen=True)
class OfProgress:
    """Adapter of a schedule for Stable-Baselines3, which calls it and pickles it into `model.zip`."""

    schedule: Schedule
    total_steps: int

    def __call__(self, progress_remaining: float) -> float:
        """Return the value for the remaining share of the run's steps, from 1 to 0."""
        # a whole number, so that rounding errors have no effect
        env_steps = round((1.0 - progress_remaining) * self.total_steps)
        return self.schedule.value(env_steps, self.total_steps)


def parse(key: str, data: Mapping[str, Any], limits: Range | None = None, total_steps: int | None = None) -> Schedule:
    """Return the schedule that `data` describes.

    Args:
        key: Dotted config key of the number, for messages.
        data: `{"schedule": NAME, …}`.
        limits: Range of every value. An excluded bound may be reached, but not for the whole run.
        total_steps: Env steps of the run, if known.

    Raises:
        ConfigError: An unknown name or key; a missing, invalid or out-of-range value; env steps in the wrong order.
    """
    name = data.get(KEY)
    if not isinstance(name, str):
        why = "is not a known schedule" if KEY in data else "is missing"
        names = ", ".join(registry(KEY).names())
        raise ConfigError(bad_value(f"{key}.{KEY}", name, names, why) + _misspelt(data))
    try:
        shape = registry(KEY).get(name, f"{key}.{KEY}").load()
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    keys = keys_of(shape)
    for inner in data:
        if inner != KEY and inner not in keys:
            raise ConfigError(bad_value(f"{key}.{inner}", inner, keys, f"is not a parameter of {name}"))
    for inner, parameter in keys.items():
        if inner not in data and parameter.default is parameter.empty:
            why = "is missing"
            if inner == _first_parameter(shape) and (user := of_user(KEY, [name])):
                why += f", unless the first parameter of {user} is to be named progress or env_steps"
            raise ConfigError(bad_value(f"{key}.{inner}", None, _type_in_words(inner, parameter), why))
    values = {inner: _read(f"{key}.{inner}", value, keys[inner]) for inner, value in data.items() if inner != KEY}
    start, until = values.pop("start", 0), values.pop("until", None)
    end = total_steps if until is None else until
    if end is not None and start >= end:
        limit = "the steps of the run" if until is None else "until"
        raise ConfigError(bad_value(f"{key}.start", start, f"less than {end} ({limit})", "is too late"))
    schedule = Schedule(name, shape, {keys[inner].name: value for inner, value in values.items()}, start, until)
    _check_values(key, data, schedule, limits, total_steps)
    return schedule


def keys_of(shape: Callable[..., float]) -> dict[str, inspect.Parameter]:
    """Return the keys of a schedule with this shape, besides `schedule`."""
    taken = signature(shape).parameters
    keys = {name.removesuffix("_"): parameter for name, parameter in taken.items() if name not in _ARGUMENTS}
    return keys | _INTERVAL if _first_parameter(shape) == "progress" else keys


def describe(shape: Callable[..., float]) -> dict[str, str]:
    """Return each key of a shape with its type and default in words."""
    words = {}
    for key, parameter in keys_of(shape).items():
        optional = (
            "" if parameter.default is parameter.empty else f", by default {_DEFAULTS.get(key, parameter.default)}"
        )
        words[key] = _type_in_words(key, parameter) + optional
    return words


_ARGUMENTS = ("progress", "env_steps")
_INTERVAL = {
    name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=int)
    for name in ("start", "until")
}
_DEFAULTS = {"start": "0", "until": "the steps of the run"}


def _first_parameter(shape: Callable[..., float]) -> str:
    """Return the name of the shape's first parameter."""
    code = getattr(shape, "__code__", None)  # inspect.signature takes 20 µs, and this runs in every step
    names: Sequence[str] = code.co_varnames if code is not None else tuple(signature(shape).parameters)
    return names[0] if names else ""


def _misspelt(data: Mapping[str, Any]) -> str:
    """Return a hint if a key is probably a misspelt `schedule`; else an empty text."""
    near = difflib.get_close_matches(KEY, [str(key) for key in data], n=1)
    return f"; {near[0]!r} is not a key of a schedule, did you mean {KEY!r}?" if near and KEY not in data else ""


def _type_in_words(key: str, parameter: inspect.Parameter) -> str:
    if key == "points":
        return "[[env steps, number], ...], the steps growing"
    return "env steps" if parameter.annotation in (int, "int") else "a number"


def _read(key: str, value: Any, parameter: inspect.Parameter) -> Any:
    if parameter.name == "points":
        return _points(key, value)
    if parameter.annotation in (int, "int"):
        return _env_steps(key, value)
    if parameter.annotation in (float, "float", parameter.empty):
        return _number(key, value)
    return value


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(bad_value(key, value, "a number", "is not a finite number"))
    return float(value)


def _env_steps(key: str, value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value != int(value) or value < 0:
        raise ConfigError(bad_value(key, value, "a whole number, at least 0", "is not a number of env steps"))
    return int(value)


def _points(key: str, value: Any) -> tuple[tuple[int, float], ...]:
    pairs = isinstance(value, list | tuple) and all(
        isinstance(point, list | tuple) and len(point) == 2 for point in value
    )
    if not pairs or len(value) < 2:
        raise ConfigError(bad_value(key, value, "at least two pairs [env steps, number]", "are not points"))
    points = tuple(
        (_env_steps(f"{key}.{index}.0", step), _number(f"{key}.{index}.1", number))
        for index, (step, number) in enumerate(value)
    )
    for index, (before, after) in enumerate(pairwise(points), start=1):
        if after[0] <= before[0]:
            allowed = f"more than {before[0]}, the steps of the point before"
            raise ConfigError(bad_value(f"{key}.{index}.0", after[0], allowed, "is not in order"))
    return points


def _check_values(
    key: str, data: Mapping[str, Any], schedule: Schedule, limits: Range | None, total_steps: int | None
) -> None:
    """Check the values of a schedule over the run."""
    user = of_user(KEY, [schedule.name])
    by = f" by {user}" if user else ""
    try:
        trials = schedule.trials(total_steps)
    except (ValueError, TypeError, ArithmeticError) as error:
        allowed = f"numbers that {schedule.name} accepts"
        raise ConfigError(bad_value(key, dict(data), allowed, f"is refused{by}: {error}")) from error
    outside = [
        value
        for _, value in trials
        if not math.isfinite(value) or not (limits is None or limits.low <= value <= limits.high)
    ]
    if outside:
        allowed = "finite numbers" if limits is None else str(limits)
        source = next((entry for value in outside if (entry := _source(data, value))), None)
        if source is not None:
            raise ConfigError(bad_value(f"{key}.{source[0]}", source[1], allowed, "is out of range"))
        raise ConfigError(bad_value(key, dict(data), allowed, f"reaches {outside[0]:g}{by}, which is out of range"))
    if limits is not None and all(value not in limits for _, value in trials):
        raise ConfigError(bad_value(key, dict(data), str(limits), "is out of range for the whole run"))


def _source(data: Mapping[str, Any], value: float) -> tuple[str, Any] | None:
    """Return the key and the number in `data` that equal a value of the schedule, or None."""
    numbers = {key: number for key, number in data.items() if key not in (KEY, "points", *_INTERVAL)}
    numbers |= {f"points.{index}.1": point[1] for index, point in enumerate(data.get("points", ()))}
    return next(((key, number) for key, number in numbers.items() if number == value), None)


def _between(first: float, last: float, share: float) -> float:
    """Interpolate from `first` at 0 to `last` at 1; exact at both ends, and never outside them."""
    return last if share >= 1.0 else _clipped(first + (last - first) * share, first, last)


def _clipped(value: float, first: float, last: float) -> float:
    """Return `value` clipped to both ends, because rounding may exceed them."""
    return min(max(value, min(first, last)), max(first, last))


@register_schedule("constant")
def constant(value: float) -> float:
    """Constant value."""
    return value


@register_schedule("linear")
def linear(progress: float, from_: float, to: float) -> float:
    """Linear change: the same amount in each step."""
    return _between(from_, to, progress)


@register_schedule("exponential")
def exponential(progress: float, from_: float, to: float) -> float:
    """Exponential change: the same factor in each step; both ends above 0."""
    if from_ <= 0 or to <= 0:
        raise ValueError("needs ends above 0")
    if progress <= 0.0 or progress >= 1.0:  # exact at both ends
        return from_ if progress <= 0.0 else to
    return _clipped(math.exp(_between(math.log(from_), math.log(to), progress)), from_, to)


@register_schedule("cosine")
def cosine(progress: float, from_: float, to: float) -> float:
    """Half a cosine: slow at both ends, fast in the middle."""
    return _between(from_, to, (1.0 - math.cos(math.pi * progress)) / 2.0)


@register_schedule("inverse")
def inverse(progress: float, from_: float, to: float) -> float:
    """Decay as 1/(1 + k·steps) that ends at `to`: fast at first, then slow; both ends above 0."""
    if from_ <= 0 or to <= 0:
        raise ValueError("needs ends above 0")
    return to if progress >= 1.0 else _clipped(from_ / (1.0 + (from_ / to - 1.0) * progress), from_, to)


@register_schedule("piecewise")
def piecewise(env_steps: int, points: Sequence[tuple[int, float]]) -> float:
    """Linear interpolation between points [env steps, value]; constant before the first and after the last."""
    index = bisect_right(points, env_steps, key=lambda point: point[0])
    if index == 0:
        return points[0][1]
    if index == len(points):
        return points[-1][1]
    (before, first), (after, last) = points[index - 1], points[index]
    return _between(first, last, (env_steps - before) / (after - before))


LIBRARIES = ("stable_baselines3", "sb3_contrib", "sbx")
"""Packages whose classes can schedule only the parameters in `READS`."""

RUNNER = "mygym.Runner"
"""The base class of algorithms with a custom training loop."""

FIXED = frozenset({"gamma", "policy"})
"""Hyperparameters that cannot be scheduled: the environment also uses gamma, to shape rewards; a policy is a name, also
where the constructor of a user's class has no type hint."""


def _reads(called: str, held: str = "") -> dict[str, str]:
    return dict.fromkeys(called.split(), "called") | dict.fromkeys(held.split(), "held")


_PPO = _reads("learning_rate clip_range clip_range_vf", "ent_coef vf_coef max_grad_norm target_kl")
_SAC = _reads("learning_rate", "tau ent_coef target_entropy action_noise")
_DQN = _reads("learning_rate", "tau max_grad_norm")

READS: Mapping[str, Mapping[str, str]] = {
    "stable_baselines3.PPO": _PPO,
    "stable_baselines3.A2C": _reads("learning_rate", "ent_coef vf_coef max_grad_norm"),
    "stable_baselines3.SAC": _SAC,
    "stable_baselines3.TD3": _reads("learning_rate", "tau target_policy_noise target_noise_clip action_noise"),
    "stable_baselines3.DQN": _DQN,
    "sb3_contrib.QRDQN": _DQN,
    "sb3_contrib.TQC": _SAC,
    "sb3_contrib.CrossQ": _reads("learning_rate", "ent_coef target_entropy action_noise"),
    "sb3_contrib.TRPO": _reads("learning_rate", "target_kl cg_damping line_search_shrinking_factor"),
    "sb3_contrib.ARS": _reads("learning_rate delta_std"),  # a changing offset would favour some candidates
    "sb3_contrib.RecurrentPPO": _PPO,
    # SBX compiles all other hyperparameters into the update or the optimiser, once.
    "sbx.PPO": _reads("learning_rate clip_range", "ent_coef vf_coef"),
    "sbx.SAC": _reads("learning_rate", "tau target_entropy action_noise"),
    "sbx.TQC": _reads("learning_rate", "tau target_entropy action_noise"),
    "sbx.CrossQ": _reads("", "target_entropy action_noise"),
    "sbx.TD3": _reads("", "tau target_policy_noise target_noise_clip action_noise"),
}
"""Package and class → the hyperparameters that it reads repeatedly → the way; subclasses read the same.

It reads them by calling a function of the remaining progress at each update (`"called"`), or from the attribute of the
same name at each use (`"held"`).
"""


def schedules(cls: type, values: Mapping[str, Any], total_steps: int) -> dict[str, Schedule]:
    """Return the schedules among `values`, the complete hyperparameters of an algorithm.

    Raises:
        ConfigError: A schedule is wrong, does not fit the run's steps, or could have no effect.
    """
    known = parameters(cls, leave_out=RUN_PARAMETERS)
    scheduled = {}
    for name, value in values.items():
        if name in known and is_scheduled(value, known[name]):
            scheduled[name] = check_schedule(cls, value, known[name], total_steps)
            if why := _contradiction(cls, name, values):
                raise ConfigError(bad_value(f"algo_params.{name}", value, "no schedule", why))
    return scheduled


def may_be_scheduled(cls: type) -> dict[str, str]:
    """Return the hyperparameters that may follow a schedule → `"called"` or `"held"` (see `READS`)."""
    known = parameters(cls, leave_out=RUN_PARAMETERS)
    return {name: way for name, parameter in known.items() if (way := _way(cls, parameter)) is not None}


def is_scheduled(value: Any, parameter: Parameter) -> bool:
    """Return whether a mapping is a schedule of a number, rather than the value of a parameter that takes mappings."""
    if not isinstance(value, Mapping):
        return False
    takes_number = fits(0.5, parameter.annotation)
    if fits(value, parameter.annotation):
        return is_schedule(value) and takes_number
    return is_schedule(value) or takes_number


def check_schedule(
    cls: type, value: Mapping[str, Any], parameter: Parameter, total_steps: int | None = None
) -> Schedule:
    """Return the schedule of a hyperparameter; raise `ConfigError` if the class cannot follow it."""
    key = f"algo_params.{parameter.name}"
    if _way(cls, parameter) is None:
        names = ", ".join(may_be_scheduled(cls)) or "nothing"
        allowed = f"{parameter.type_in_words}; of {cls.__name__} may be scheduled: {names}"
        raise ConfigError(bad_value(key, value, allowed, "is fixed while training"))
    schedule = parse(key, value, range_of(parameter), total_steps)
    for _, number in schedule.trials(total_steps):
        if abs(number) > MAX_FLOAT32:
            raise ConfigError(bad_value(key, value, f"finite numbers of at most {MAX_FLOAT32:g}, as float32 has"))
        if refusal := refusal_of_type(number, parameter.annotation):
            raise ConfigError(bad_value(key, value, refusal, f"reaches {number:g}, which is out of range"))
    return schedule


def _way(cls: type, parameter: Parameter) -> str | None:
    """Return the way a class reads a parameter: `"called"` or `"held"`; None if the parameter may not be scheduled."""
    name, hint = parameter.name, parameter.annotation
    if name in FIXED or not fits(0.5, hint):
        return None
    takes_function = fits(abs, hint) and not fits(object(), hint)  # a parameter of type Any is not called
    reads: Mapping[str, str] = next((READS[key] for key in map(_key, cls.__mro__) if key in READS), {})
    if reads.get(name) == "called" or name in getattr(cls, "read_at_updates", ()):  # of classes of this package
        return "called" if takes_function else None
    if name in reads:
        return "held"
    if RUNNER in map(_key, cls.__mro__):  # a runner reads its constructor's parameters from its attributes
        if name in getattr(cls, "read_once", ()):
            return None
        subclasses = takewhile(lambda base: _key(base) != RUNNER, cls.__mro__)
        return "held" if any(name in _init_parameters(base) for base in subclasses) else None
    if any(_key(base).partition(".")[0] in LIBRARIES and name in _init_parameters(base) for base in cls.__mro__):
        return None
    return "called" if takes_function else "held"


def _contradiction(cls: type, name: str, values: Mapping[str, object]) -> str:
    """Return the reason why other hyperparameters make this hyperparameter ineffective; empty without a reason."""
    if name == "target_entropy" and not str(values.get("ent_coef", "")).startswith("auto"):
        return "is used with ent_coef auto only"
    adaptive = any(_key(base) == "sbx.PPO" for base in cls.__mro__)
    if name == "learning_rate" and adaptive and values.get("target_kl") is not None:
        return "is decided by target_kl in this algorithm"
    return ""


def _key(cls: type) -> str:
    return f"{cls.__module__.partition('.')[0]}.{cls.__name__}"


def _init_parameters(cls: type) -> Mapping[str, object]:
    """Return the parameters of a constructor that the class itself defines."""
    init = cls.__dict__.get("__init__")
    return {} if init is None else signature(init).parameters
