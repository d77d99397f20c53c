"""Schedules in a run: what an algorithm is constructed with, and what it reads, step by step, while it learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise

from mygym.config.schedulable import may_be_scheduled
from mygym.config.schedules import OfProgress, Schedule
from mygym.errors import ConfigError, bad_value


def arguments(cls: type, schedules: Mapping[str, Schedule], total_steps: int) -> dict[str, Any]:
    """Constructor arguments for scheduled hyperparameters: a function where the class calls one, else the first value.

    Args:
        cls: The algorithm's class.
        schedules: By name of the hyperparameter.
        total_steps: Env steps of the run.
    """
    ways = may_be_scheduled(cls)
    return {
        name: OfProgress(schedule, total_steps) if ways[name] == "called" else schedule.value(0, total_steps)
        for name, schedule in schedules.items()
    }


def check_held(model: Any, schedules: Mapping[str, Schedule], total_steps: int) -> None:
    """Refuse schedules of what the algorithm does not keep, so that changing it would change nothing.

    Raises:
        ConfigError: Names the first.
    """
    ways = may_be_scheduled(type(model))
    for name, schedule in schedules.items():
        first = schedule.value(0, total_steps)
        if ways[name] == "held" and not _holds(model, name, first):
            why = f"is scheduled, but {type(model).__name__} does not keep it in an attribute of this name"
            raise ConfigError(bad_value(f"algo_params.{name}", first, "a number", why))


def _holds(model: Any, name: str, value: float) -> bool:
    held = vars(model).get(name)
    noises = _noises(held)
    if noises:
        return all(bool(np.all(noise._sigma == value)) for noise in noises)
    return isinstance(held, int | float) and not isinstance(held, bool) and held == value


def hold(model: Any, name: str, value: float) -> None:
    """Let the algorithm read `value` from now on."""
    noises = _noises(vars(model).get(name))
    for noise in noises:
        noise._sigma = np.full_like(noise._sigma, value)
    if noises:
        return
    setattr(model, name, value)
    tensor = vars(model).get(f"{name}_tensor")  # SAC and its kin read the entropy coefficient from there
    if tensor is not None:
        tensor.fill_(value)


def _noises(held: Any) -> list[NormalActionNoise]:
    """The noise of each environment, if that is what is held."""
    noises = held.noises if isinstance(held, VectorizedActionNoise) else [held]
    return [noise for noise in noises if isinstance(noise, NormalActionNoise)]


class ScheduleCallback(BaseCallback):
    """Sets what follows a schedule, at the start of each rollout and after each step, and logs it as `schedule/NAME`.

    The values follow from the number of env steps alone, so a resumed run has them without a state of their own.

    Args:
        schedules: By name of the hyperparameter.
        total_steps: Env steps of the run.
    """

    def __init__(self, schedules: Mapping[str, Schedule], total_steps: int) -> None:
        super().__init__()
        self.schedules = schedules
        self.total_steps = total_steps
        self.held: frozenset[str] = frozenset()
        self.last: dict[str, float] = {}
        """What the algorithm was given in this process."""

    def _init_callback(self) -> None:
        ways = may_be_scheduled(type(self.model))
        self.held = frozenset(name for name in self.schedules if ways[name] == "held")

    def _on_rollout_start(self) -> None:
        refresh = getattr(self.model, "_update_current_progress_remaining", None)
        if refresh is not None:  # a checkpoint has the progress towards the end that the run had then
            refresh(self.model.num_timesteps, self.total_steps)
        for name, value in self.last.items():
            if not _holds(self.model, name, value):
                why = f"follows a schedule, but {type(self.model).__name__} sets it itself while training"
                raise ConfigError(bad_value(f"algo_params.{name}", value, "no schedule", why))
        self._set()

    def _on_step(self) -> bool:
        self._set()
        return True

    def _on_training_end(self) -> None:
        self._set()  # there may be another dump

    def _set(self) -> None:
        steps = self.model.num_timesteps
        for name, schedule in self.schedules.items():
            value = schedule.value(steps, self.total_steps)
            if name in self.held:
                hold(self.model, name, value)
                self.last[name] = value
            self.logger.record(f"schedule/{name}", value)
