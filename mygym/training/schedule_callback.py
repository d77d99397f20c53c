"""Scheduled hyperparameters: constructor arguments of an algorithm, and its attributes during training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise

from mygym.config.schedules import OfProgress, Schedule, may_be_scheduled
from mygym.errors import ConfigError, bad_value


def arguments(cls: type, schedules: Mapping[str, Schedule], total_steps: int) -> dict[str, Any]:
    """Return the constructor arguments of scheduled hyperparameters: functions that the class calls, or numbers."""
    modes = may_be_scheduled(cls)
    return {
        name: OfProgress(schedule, total_steps) if modes[name] == "called" else schedule.value(0, total_steps)
        for name, schedule in schedules.items()
    }


def check_held(model: Any, schedules: Mapping[str, Schedule], total_steps: int) -> None:
    """Refuse schedules of hyperparameters that the algorithm does not store in attributes: they would do nothing."""
    modes = may_be_scheduled(type(model))
    for name, schedule in schedules.items():
        first = schedule.value(0, total_steps)
        if modes[name] == "held" and not _has_value(model, name, first):
            why = f"is scheduled, but {type(model).__name__} does not keep it in an attribute of this name"
            raise ConfigError(bad_value(f"algo_params.{name}", first, "a number", why))


def _has_value(model: Any, name: str, value: float) -> bool:
    """Return whether the attribute `name` has `value`."""
    current = vars(model).get(name)
    noises = _noises(current)
    if noises:
        return all(bool(np.all(noise._sigma == value)) for noise in noises)
    return isinstance(current, int | float) and not isinstance(current, bool) and current == value


def set_value(model: Any, name: str, value: float) -> None:
    """Set the attribute `name` of the algorithm; if it holds action noise, set the standard deviation of the noise."""
    noises = _noises(vars(model).get(name))
    for noise in noises:
        noise._sigma = np.full_like(noise._sigma, value)
    if noises:
        return
    setattr(model, name, value)
    tensor = vars(model).get(f"{name}_tensor")  # SAC and its variants read the entropy coefficient from this tensor
    if tensor is not None:
        tensor.fill_(value)


def noises_of(value: Any) -> list[Any]:
    """Return the action noise of each environment, or of all; empty if `value` is None."""
    return value.noises if isinstance(value, VectorizedActionNoise) else [] if value is None else [value]


def _noises(value: Any) -> list[NormalActionNoise]:
    """Return the Gaussian noises; empty if `value` is not such action noise."""
    return [noise for noise in noises_of(value) if isinstance(noise, NormalActionNoise)]


class ScheduleCallback(BaseCallback):
    """Sets scheduled hyperparameters at each rollout start and after each step, and logs them as `schedule/NAME`.

    The values depend on the number of env steps only, so the callback needs no state in checkpoints.
    """

    def __init__(self, schedules: Mapping[str, Schedule], total_steps: int) -> None:
        super().__init__()
        self.schedules = schedules
        self.total_steps = total_steps
        self.held: frozenset[str] = frozenset()
        """Names of the hyperparameters that are set as attributes."""
        self.last: dict[str, float] = {}
        """Last values that this process has set."""

    def _init_callback(self) -> None:
        modes = may_be_scheduled(type(self.model))
        self.held = frozenset(name for name in self.schedules if modes[name] == "held")

    def _on_rollout_start(self) -> None:
        refresh = getattr(self.model, "_update_current_progress_remaining", None)
        if refresh is not None:  # a checkpoint holds the progress towards the run's previous end
            refresh(self.model.num_timesteps, self.total_steps)
        for name, value in self.last.items():
            if not _has_value(self.model, name, value):
                why = f"follows a schedule, but {type(self.model).__name__} also sets it during training"
                raise ConfigError(bad_value(f"algo_params.{name}", value, "no schedule", why))
        self._set()

    def _on_step(self) -> bool:
        self._set()
        return True

    def _on_training_end(self) -> None:
        self._set()  # the log may be written once more

    def _set(self) -> None:
        steps = self.model.num_timesteps
        for name, schedule in self.schedules.items():
            value = schedule.value(steps, self.total_steps)
            if name in self.held:
                set_value(self.model, name, value)
                self.last[name] = value
            self.logger.record(f"schedule/{name}", value)
