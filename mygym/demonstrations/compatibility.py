"""Whether demonstrations are of what a run is to learn."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium

from mygym.config import RunConfig
from mygym.demonstrations.episodes import Demonstrations
from mygym.errors import ConfigError, bad_value
from mygym.runs import factory
from mygym.runs.variants import judged, variants
from mygym.tasks.lookup import find_task

MEANING = ("task", "robot", "workspace", "control")
"""Keys of a config that say what observations and actions mean, be the spaces equal or not."""


def check_fits(demonstrations: Demonstrations, config: RunConfig, *, rewards: bool = True) -> None:
    """Refuse demonstrations of another task, robot, workspace or controller, of other rewards or of other spaces.

    A run of several tasks may have demonstrations of some. Numbers of the task, its objects and what is randomised may
    differ.

    Args:
        demonstrations: What is to be learned from.
        config: The run's complete config.
        rewards: Whether the stored rewards are used.

    Raises:
        ConfigError: The key, what the run has there, what they were recorded with, and what to do.
    """
    keys = (*MEANING, "reward") if rewards else MEANING
    played = [one.config for one in (*variants(config), *judged(config))]
    for shown in (one.config for one in judged(demonstrations.config)):
        lacking = [
            [key for key in keys if _value(one, key) != _value(shown, key)]
            for one in played  # what differs from each
        ]
        nearest = min(range(len(played)), key=lambda index: len(lacking[index]))
        if lacking[nearest]:
            key = lacking[nearest][0]
            why = f"is not what {demonstrations.path} was recorded with"
            allowed = f"{_value(shown, key)}, or demonstrations of your own: mygym demos"
            raise ConfigError(bad_value(key, _value(played[nearest], key), allowed, why))
    with contextlib.closing(factory.make_env(config)) as env:
        for name in ("observation_space", "action_space"):
            _check_space(demonstrations, name, getattr(env, name))


def played_as(demonstrations: Demonstrations, config: RunConfig) -> list[int]:
    """Of each demonstration the index among what the run plays (`variants`): that of its very config, or one that fits.

    Args:
        demonstrations: Those that `check_fits` lets pass.
        config: The run's complete config.
    """
    played = [one.config for one in variants(config)]
    shown = {one.label: one.config for one in judged(demonstrations.config)}
    found = {}
    for label, one in shown.items():
        fitting = [
            index for index, other in enumerate(played) if all(_value(one, k) == _value(other, k) for k in MEANING)
        ]
        same = [index for index in fitting if played[index] == one]
        found[label] = (same or fitting)[-1]  # of a curriculum the run's own config is the last
    return [found[one.task or next(iter(found))] for one in demonstrations.episodes]


def _check_space(demonstrations: Demonstrations, name: str, space: gymnasium.Space[Any]) -> None:
    recorded = getattr(demonstrations, name)
    if space == recorded:
        return
    why = f"is not that of {demonstrations.path}, {_shape(recorded)}"
    settings = "observations, spaces and randomize" if name == "observation_space" else "spaces"
    said = {key: demonstrations.values.get(key) for key in ("observations", "spaces")}
    allowed = f"{settings} as they were recorded with ({said}), or demonstrations of your own: mygym demos"
    raise ConfigError(bad_value(name, _shape(space), allowed, why))


def _value(config: RunConfig, key: str) -> Any:
    return find_task(config.task).name if key == "task" else getattr(config, key)


def _shape(space: gymnasium.Space[Any]) -> Any:
    """Shapes of a space, for a message; of a dictionary those of its parts."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: part.shape for key, part in space.spaces.items()}
    return space.shape
