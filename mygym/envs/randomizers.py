"""Randomizers: functions by name that draw fields of an `EpisodeRandomization`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mygym.config.parameter_checks import Range
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import decorator, registry
from mygym.registry.signatures import checked_registration, source_location, wrong_result
from mygym.robotics.episode_randomization import CameraShift, EpisodeRandomization, Light

Bounds = tuple[float, float]
"""Lowest and highest value."""

SIZES = 33
"""Number of sizes within a range: each is a collision shape, which Bullet never frees."""


LIMITS = {
    **dict.fromkeys(("object_size", "object_mass"), Range(0, open_low=True)),
    **dict.fromkeys(("object_friction", "object_damping", "joint_friction"), Range(0)),
    **dict.fromkeys(("action_delay", "action_noise", "observation_noise"), Range(0)),
    **dict.fromkeys(("joint_gain", "color_change", "texture_contrast"), Range()),
}
"""Fields of `EpisodeRandomization` with numbers, and their ranges."""


@dataclass(frozen=True)
class Draw:
    """Input of a randomizer in one episode."""

    range: Bounds
    """Lowest and highest value of the config."""
    rng: np.random.Generator
    """Generator of this randomizer in this episode only."""
    objects: int
    """`k`: number of the task's objects and distractors."""
    joints: int
    """`J`: number of joints of all arms."""

    def value(self) -> float:
        """Draw a value uniformly from the range."""
        low, high = self.range
        return low + (high - low) * self.rng.random()

    def each(self, count: int) -> tuple[float, ...]:
        """Draw `count` independent values."""
        return tuple(self.value() for _ in range(count))


Function = Callable[[EpisodeRandomization, Draw], EpisodeRandomization]


@dataclass(frozen=True)
class Randomizer:
    """A registered randomizer."""

    function: Function
    unit: str
    default: Bounds
    """Bounds for `true` in a config."""
    allowed: Bounds
    """Limits of ranges in a config."""
    whole: bool
    """Whether values are integers."""

    def draw(self, randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
        """Return `randomization` with the randomizer's field set.

        Raises:
            RegistryError: The function returns something else, or a field has a value that no world can have.
        """
        result: Any = self.function(randomization, draw)
        key = f"randomizer {getattr(self.function, '__name__', '')}"
        if not isinstance(result, EpisodeRandomization):
            raise wrong_result(key, self.function, result, "replace(randomization, FIELD=…)")
        for name, allowed in _wrong_fields(result, draw):
            why = f"is not possible ({source_location(self.function)})"
            raise RegistryError(bad_value(f"{key}: {name}", getattr(result, name), allowed, why))
        return result


def _wrong_fields(randomization: EpisodeRandomization, draw: Draw) -> Iterator[tuple[str, str]]:
    """Yield the fields in `LIMITS` whose value has a wrong type, length or range, and what is allowed."""
    counts = {"object": draw.objects, "joint": draw.joints}
    for name, limits in LIMITS.items():
        value, of = getattr(randomization, name), name.partition("_")[0]
        kinds: Any = int | np.integer if name == "action_delay" else int | float | np.number
        allowed = f"{'a whole' if name == 'action_delay' else 'a finite'} number"
        allowed += "" if limits == Range() else f", {limits}"
        numbers = [value]
        if of in counts:
            allowed = f"a tuple with {allowed}, for each of the {counts[of]} {of}s"
            fits = isinstance(value, Sequence | np.ndarray) and len(value) in (0, counts[of])
            numbers = list(value) if fits else [None]
        if not all(isinstance(each, kinds) and math.isfinite(each) and each in limits for each in numbers):
            yield name, allowed


@checked_registration
def register_randomizer(
    name: str, unit: str, default: Bounds, allowed: Bounds, whole: bool = False, *, override: bool = False
) -> Callable[[Function], Function]:
    """Decorator that registers a randomizer; the first line of its docstring is its help.

    The function is called at the start of each episode if the config's `randomize` names it, and returns the
    randomization with the randomizer's field set: `replace(randomization, object_mass=draw.each(draw.objects))`.

    Args:
        name: Name in configs.
        unit: Unit of its values, in words.
        default: Lowest and highest value for `true` in a config.
        allowed: Limits of ranges in a config.
        whole: Whether values are integers.
        override: Replace a randomizer of the same name.

    Raises:
        RegistryError: The name is taken, the function takes other arguments, or the bounds do not fit each other.
    """
    if not allowed[0] <= default[0] <= default[1] <= allowed[1]:
        within = f"lowest and highest value, within {allowed}"
        raise RegistryError(bad_value("register_randomizer: default", default, within))
    return decorator(
        "randomizer",
        name,
        build=lambda function: Randomizer(function, unit, default, allowed, whole),
        form=Function,
        override=override,
    )


def find_randomizer(name: str) -> Randomizer:
    """Return a registered randomizer.

    Raises:
        ConfigError: Unknown name.
    """
    try:
        randomizer: Randomizer = registry("randomizer").get(name, "randomize").load()
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    return randomizer


def ranges(config: Mapping[str, Any]) -> dict[str, Bounds]:
    """Return randomizer → range of its values, for active randomizers, sorted by name.

    Args:
        config: Name → `[low, high]`; a number, for a constant; `true` for the default; `false` or null for off.

    Raises:
        ConfigError: Unknown name, or an invalid range.
    """
    result = {}
    for name, value in sorted(config.items()):
        randomizer = find_randomizer(name)
        if value is not None and value is not False:
            result[name] = randomizer.default if value is True else _range(f"randomize.{name}", value, randomizer)
    return result


def _range(key: str, value: Any, randomizer: Randomizer) -> Bounds:
    low, high = randomizer.allowed
    kind = "whole numbers" if randomizer.whole else "numbers"
    allowed = f"true, a number or [low, high] with {kind} from {low:g} to {high:g} ({randomizer.unit})"
    pair = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(pair) != 2 or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in pair):
        raise ConfigError(bad_value(key, value, allowed, "is not a range"))
    if pair[0] > pair[1]:
        raise ConfigError(bad_value(key, value, f"[{pair[1]:g}, {pair[0]:g}]", "is reversed: the lowest comes first"))
    if not low <= pair[0] <= pair[1] <= high or (randomizer.whole and any(end != int(end) for end in pair)):
        raise ConfigError(bad_value(key, value, allowed))
    return pair[0], pair[1]


# Objects ---------------------------------------------------------------------------------------------------------


@register_randomizer("object_size", "factor", default=(0.8, 1.2), allowed=(0.2, 5.0))
def object_size(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Edges of each object, at constant mass; one of 33 sizes, evenly spaced over the range."""
    low, high = draw.range
    steps = draw.rng.integers(SIZES, size=draw.objects) / (SIZES - 1)
    return replace(randomization, object_size=tuple((low + (high - low) * steps).tolist()))


@register_randomizer("object_mass", "factor", default=(0.5, 2.0), allowed=(0.01, 100.0))
def object_mass(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Mass and moments of inertia of each object."""
    return replace(randomization, object_mass=draw.each(draw.objects))


@register_randomizer("object_friction", "factor", default=(0.7, 1.3), allowed=(0.0, 10.0))
def object_friction(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Sliding, rolling and spinning friction of each object, by the same factor."""
    return replace(randomization, object_friction=draw.each(draw.objects))


@register_randomizer("object_damping", "fraction of its velocity", default=(0.0, 0.5), allowed=(0.0, 1.0))
def object_damping(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Fraction of its velocity and spin that each free object loses per second; 0 without randomization."""
    return replace(randomization, object_damping=draw.each(draw.objects))


# Robot -------------------------------------------------------------------------------------------------------


@register_randomizer("joint_friction", "fraction of the joint's maximum torque", default=(0.0, 0.1), allowed=(0.0, 0.9))
def joint_friction(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Dry friction of each joint; except with torque control, it reduces the available torque."""
    return replace(randomization, joint_friction=draw.each(draw.joints))


@register_randomizer("joint_gain", "factor", default=(0.8, 1.1), allowed=(0.1, 1.5))
def joint_gain(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Commanded velocity (or torque) of each joint: below 1 it lags behind, above 1 it overshoots."""
    return replace(randomization, joint_gain=draw.each(draw.joints))


@register_randomizer("action_delay", "control steps of 40 ms", default=(0, 2), allowed=(0, 25), whole=True)
def action_delay(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Steps from an action to its effect; until the first effect, the arm holds its position."""
    low, high = draw.range
    return replace(randomization, action_delay=int(draw.rng.integers(int(low), int(high) + 1)))


@register_randomizer("action_noise", "on the action's range -1 to 1", default=(0.0, 0.05), allowed=(0.0, 1.0))
def action_noise(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Standard deviation of noise on each action component in each step."""
    return replace(randomization, action_noise=draw.value())


@register_randomizer("observation_noise", "m, rad, m/s, rad/s", default=(0.0, 0.002), allowed=(0.0, 0.1))
def observation_noise(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Standard deviation of noise on each measured component in each step; goals and rewards stay exact."""
    return replace(randomization, observation_noise=draw.value())


# Images --------------------------------------------------------------------------------------------------------


@register_randomizer("light", "1: any direction and warmth", default=(1.0, 1.0), allowed=(0.0, 1.0))
def light(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Direction, colour and intensity of the light."""
    change, rng = draw.value(), draw.rng
    around = math.radians(-19.0) + change * rng.uniform(-math.pi, math.pi)
    above = math.radians(58.0) + change * rng.uniform(math.radians(-33.0), math.radians(25.0))
    warmth = change * rng.uniform(-0.22, 0.22)
    total = 1.1 + change * rng.uniform(-0.3, 0.2)
    ambient = 0.55 + change * rng.uniform(-0.2, 0.15)
    flat = 2.0 * math.cos(above)
    return replace(
        randomization,
        light=Light(
            direction=(flat * math.cos(around), flat * math.sin(around), 2.0 * math.sin(above)),
            color=(1.0 + min(0.0, warmth), 1.0 - 0.4 * abs(warmth), 1.0 - max(0.0, warmth)),
            ambient=total * ambient,
            diffuse=total * (1.0 - ambient),
        ),
    )


@register_randomizer("colors", "0: original, 1: any", default=(1.0, 1.0), allowed=(0.0, 1.0))
def colors(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Colours of objects, robot, fixtures and background."""
    return replace(randomization, colors=int(draw.rng.integers(2**32)), color_change=draw.value())


@register_randomizer("textures", "contrast, 0: none", default=(0.2, 0.6), allowed=(0.0, 1.0))
def textures(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Textures of objects and fixtures: grain, stripes, checks, spots, noise."""
    return replace(randomization, textures=int(draw.rng.integers(2**32)), texture_contrast=draw.value())


@register_randomizer("camera", "m", default=(0.05, 0.05), allowed=(0.0, 0.5))
def camera(randomization: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Maximum displacement of each camera of the workspace in each direction, and of its target along each axis."""
    limit, rng = draw.value(), draw.rng
    x, y, z = rng.uniform(-limit, limit, size=3).tolist()
    return replace(randomization, camera=CameraShift((x, y, z), *rng.uniform(-limit, limit, size=3).tolist()))
