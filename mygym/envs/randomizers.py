"""What may differ between episodes, by name: functions that draw a part of a `EpisodeRandomization`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.models.episode_randomization import CameraShift, EpisodeRandomization, Light
from mygym.registry import registry
from mygym.registry.signatures import first_line

Range = tuple[float, float]

SIZES = 33
"""Sizes that an object may have within its range: each is a shape of its own, which Bullet keeps for good."""


@dataclass(frozen=True)
class Draw:
    """What a randomizer draws from."""

    range: Range
    """What the config says: lowest and highest value."""
    rng: np.random.Generator
    """Of this randomizer in this episode; no other draws from it."""
    objects: int
    """`k`: of the task, then distractors."""
    joints: int
    """`J`: of all arms."""

    def one(self) -> float:
        """A value of the range, all of them alike."""
        low, high = self.range
        return low + (high - low) * self.rng.random()

    def each(self, count: int) -> tuple[float, ...]:
        """As many values."""
        return tuple(self.one() for _ in range(count))


Function = Callable[[EpisodeRandomization, Draw], EpisodeRandomization]


@dataclass(frozen=True)
class Randomizer:
    """A range, and what is done with a value of it."""

    function: Function
    unit: str
    default: Range
    """What `true` means."""
    allowed: Range
    whole: bool
    """Whether values are whole numbers."""


def register_randomizer(
    name: str, unit: str, default: Range, allowed: Range, whole: bool = False, *, override: bool = False
) -> Callable[[Function], Function]:
    """Decorator that registers a randomizer; its first line of documentation is its help.

    It is called once at the start of each episode in which the config's `randomize` names it, and returns the variation
    with its own part in it: `replace(variation, object_mass=draw.each(draw.objects))`.

    Args:
        name: By which configs know it.
        unit: Of its values, in words.
        default: Lowest and highest value if the config says `true`.
        allowed: Beyond which a config is refused.
        whole: Whether values are whole numbers.
        override: Replace a randomizer of the same name.
    """

    def register_function(function: Function) -> Function:
        one = Randomizer(function, unit, default, allowed, whole)
        registry("randomizer").register(name, one, first_line(function), override=override)
        return function

    return register_function


def find_randomizer(name: str) -> Randomizer:
    """The registered randomizer.

    Raises:
        ConfigError: There is none of this name.
    """
    try:
        found: Randomizer = registry("randomizer").get(name, "randomize").load()
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    return found


def ranges(said: Mapping[str, Any]) -> dict[str, Range]:
    """Randomizer → range of its values, of those that are on, sorted by name.

    Args:
        said: Name → `[low, high]`; a number, for a range of this one value; `true` for the default; `false` or null.

    Raises:
        ConfigError: An unknown name, what is no range, or one beyond what is allowed.
    """
    found = {}
    for name, given in sorted(said.items()):
        one = find_randomizer(name)
        if given is not None and given is not False:
            found[name] = one.default if given is True else _range(f"randomize.{name}", given, one)
    return found


def _range(key: str, given: Any, one: Randomizer) -> Range:
    low, high = one.allowed
    kind = "whole numbers" if one.whole else "numbers"
    words = f"true, a number or [low, high] with {kind} from {low:g} to {high:g} ({one.unit})"
    pair = list(given) if isinstance(given, list | tuple) else [given, given]
    if len(pair) != 2 or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in pair):
        raise ConfigError(bad_value(key, given, words, "is no range"))
    if pair[0] > pair[1]:
        raise ConfigError(
            bad_value(key, given, f"[{pair[1]:g}, {pair[0]:g}]", "is the wrong way round: the lowest comes first")
        )
    if not low <= pair[0] <= pair[1] <= high or (one.whole and any(end != int(end) for end in pair)):
        raise ConfigError(bad_value(key, given, words))
    return pair[0], pair[1]


# Of objects ---------------------------------------------------------------------------------------------------------


@register_randomizer("object_size", "times its own", default=(0.8, 1.2), allowed=(0.2, 5.0))
def object_size(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Edges of each object; its mass stays. One of 33 sizes, evenly spread over the range."""
    low, high = draw.range
    steps = draw.rng.integers(SIZES, size=draw.objects) / (SIZES - 1)
    return replace(variation, object_size=tuple((low + (high - low) * steps).tolist()))


@register_randomizer("object_mass", "times its own", default=(0.5, 2.0), allowed=(0.01, 100.0))
def object_mass(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Mass of each object, with its moments of inertia."""
    return replace(variation, object_mass=draw.each(draw.objects))


@register_randomizer("object_friction", "times its own", default=(0.7, 1.3), allowed=(0.0, 10.0))
def object_friction(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Sliding, rolling and spinning friction of each object, alike."""
    return replace(variation, object_friction=draw.each(draw.objects))


@register_randomizer("object_damping", "part of its velocity", default=(0.0, 0.5), allowed=(0.0, 1.0))
def object_damping(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """What each object loses of its velocity and spin in a second while nothing touches it; 0 by itself."""
    return replace(variation, object_damping=draw.each(draw.objects))


# Of the robot -------------------------------------------------------------------------------------------------------


@register_randomizer("joint_friction", "part of the joint's largest torque", default=(0.0, 0.1), allowed=(0.0, 0.9))
def joint_friction(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Dry friction of each joint: torque control feels it, other motors have so much less to drive with."""
    return replace(variation, joint_friction=draw.each(draw.joints))


@register_randomizer("joint_gain", "times what is commanded", default=(0.8, 1.1), allowed=(0.1, 1.5))
def joint_gain(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Velocity (or torque) that each joint's motor goes for: below 1 it lags behind, above 1 it overshoots."""
    return replace(variation, joint_gain=draw.each(draw.joints))


@register_randomizer("action_delay", "control steps of 40 ms", default=(0, 2), allowed=(0, 25), whole=True)
def action_delay(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Steps from when an action is given to when it is carried out; until the first one the arm stays."""
    low, high = draw.range
    return replace(variation, action_delay=int(draw.rng.integers(int(low), int(high) + 1)))


@register_randomizer("action_noise", "of the action's range -1 to 1", default=(0.0, 0.05), allowed=(0.0, 1.0))
def action_noise(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Standard deviation of what is added to each action component in each step."""
    return replace(variation, action_noise=draw.one())


@register_randomizer("observation_noise", "m, rad, m/s, rad/s", default=(0.0, 0.002), allowed=(0.0, 0.1))
def observation_noise(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Standard deviation of what is added to each measured component in each step; goals and rewards stay exact."""
    return replace(variation, observation_noise=draw.one())


# Of pictures --------------------------------------------------------------------------------------------------------


@register_randomizer("light", "1: from any side and of any warmth", default=(1.0, 1.0), allowed=(0.0, 1.0))
def light(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Direction, colour and strength of the lamp."""
    change, rng = draw.one(), draw.rng
    around = math.radians(-19.0) + change * rng.uniform(-math.pi, math.pi)
    above = math.radians(58.0) + change * rng.uniform(math.radians(-33.0), math.radians(25.0))
    warmth = change * rng.uniform(-0.22, 0.22)
    total = 1.1 + change * rng.uniform(-0.3, 0.2)
    ambient = 0.55 + change * rng.uniform(-0.2, 0.15)
    flat = 2.0 * math.cos(above)
    return replace(
        variation,
        light=Light(
            direction=(flat * math.cos(around), flat * math.sin(around), 2.0 * math.sin(above)),
            color=(1.0 + min(0.0, warmth), 1.0 - 0.4 * abs(warmth), 1.0 - max(0.0, warmth)),
            ambient=total * ambient,
            diffuse=total * (1.0 - ambient),
        ),
    )


@register_randomizer("colors", "0: its own, 1: any", default=(1.0, 1.0), allowed=(0.0, 1.0))
def colors(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Colours of objects, robot, whatever stands about, and the background."""
    return replace(variation, colors=int(draw.rng.integers(2**32)), color_change=draw.one())


@register_randomizer("textures", "contrast, 0: none", default=(0.2, 0.6), allowed=(0.0, 1.0))
def textures(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """Patterns on objects and on whatever stands about: grain, stripes, checks, spots, noise."""
    return replace(variation, textures=int(draw.rng.integers(2**32)), texture_contrast=draw.one())


@register_randomizer("camera", "m", default=(0.05, 0.05), allowed=(0.0, 0.5))
def camera(variation: EpisodeRandomization, draw: Draw) -> EpisodeRandomization:
    """By how much, at most, each camera is moved to every side, and the point that it looks at along each axis."""
    most, rng = draw.one(), draw.rng
    x, y, z = rng.uniform(-most, most, size=3).tolist()
    return replace(variation, camera=CameraShift((x, y, z), *rng.uniform(-most, most, size=3).tolist()))
