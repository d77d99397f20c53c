"""State of a whole run: algorithm, environments, callbacks, logger, random generators, clock."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mygym.config.schedules import may_be_scheduled
from mygym.errors import RunError
from mygym.registry import algorithm
from mygym.training import directory, files, logs
from mygym.training.checkpoints import serialization
from mygym.training.checkpoints.checkpoints import Checkpoint, Checkpoints
from mygym.training.checkpoints.states import (
    Stateful,
    env_state,
    load_env_state,
    load_logger_state,
    load_model_state,
    load_random_state,
    logger_state,
    model_state,
    random_state,
    unsaved,
)
from mygym.training.loading import read_config
from mygym.training.schedule_callback import set_value


class RunClock:
    """Measures a run's wall time and learning time, including the time before the checkpoint of a resumed run.

    Args:
        started: `time.perf_counter()` when this process began the run.
        before: Seconds `run` and `learning` of the checkpoint that the run resumes from.
    """

    def __init__(self, started: float, before: Mapping[str, float] | None = None) -> None:
        before = before or {"run": 0.0, "learning": 0.0}
        self._started = started - before["run"]
        self._learning_before = before["learning"]
        self._learning_since: float | None = None

    def elapsed(self) -> float:
        """Return the seconds that the run has taken."""
        return time.perf_counter() - self._started

    def learning(self) -> float:
        """Return the seconds spent in `learn`."""
        since = 0.0 if self._learning_since is None else time.perf_counter() - self._learning_since
        return self._learning_before + since

    @contextmanager
    def measure_learning(self) -> Iterator[None]:
        """Count the time of the block as learning time."""
        self._learning_since = time.perf_counter()
        try:
            yield
        finally:
            self._learning_before, self._learning_since = self.learning(), None


def branch(run: Path, target: Path, values: Mapping[str, float]) -> None:
    """Copy a stopped run to a new directory with other values of hyperparameters; it appears when it is complete.

    Raises:
        RunError: The run has no undamaged checkpoint, or the copy cannot be written.
    """
    temporary = target.with_name(f".{target.name}.part")
    files.remove(temporary)
    with files.writing(target):
        shutil.copytree(run, temporary, ignore=shutil.ignore_patterns(directory.LOCK))
    config = _changed(read_config(run), values)
    files.write_yaml(temporary / directory.CONFIG, config)
    checkpoints = Checkpoints(temporary, keep=1)
    newest = checkpoints.newest(lambda message: None)
    if newest is None:
        raise RunError(f"{run}: has no checkpoint from which a copy could continue")
    state = {**newest.state, "config": _changed(newest.state["config"], values), "changed": dict(values)}
    checkpoints.rewrite(newest, state)
    with files.writing(target):
        temporary.rename(target)


def set_changed(model: Any, values: Mapping[str, float]) -> None:
    """Set the hyperparameters of a branch in a model that has been restored with the values of its origin.

    Hyperparameters that the algorithm calls as functions come from the config of the branch.
    """
    modes = may_be_scheduled(type(model))
    for name, value in values.items():
        if modes[name] == "held" or isinstance(vars(model).get(name), int | float):
            set_value(model, name, value)


def changeable(config: Mapping[str, Any]) -> list[str]:
    """Return the hyperparameters of a complete config that may change during training."""
    return sorted(may_be_scheduled(algorithm(config["algo"], config["framework"]).combo()[0]))


def _changed(config: Mapping[str, Any], values: Mapping[str, float]) -> dict[str, Any]:
    return {**config, "algo_params": {**config["algo_params"], **values}}


class RunState:
    """Writes and loads checkpoints of a run."""

    def __init__(
        self,
        config: Mapping[str, Any],
        model: Any,
        env: Any,
        callbacks: Mapping[str, Any],
        clock: RunClock,
        checkpoints: Checkpoints,
        notify: Callable[[str], None],
    ) -> None:
        self.config, self.model, self.env, self.callbacks = config, model, env, callbacks
        self.clock, self.checkpoints, self.notify = clock, checkpoints, notify
        self._reported: set[str] = set()

    def check(self) -> None:
        """Raise `RunError` if the algorithm's state contains an object that checkpoints cannot hold."""
        try:
            serialization.to_files(model_state(self.model))
        except TypeError as error:
            raise RunError(f"state_dict of {type(self.model).__name__}: {error}") from None
        self._report_unsaved()

    def write(self, folder: Path, finished: bool = False) -> Path:
        """Write a checkpoint of the current state."""
        self._report_unsaved()
        model, clock = self.model, self.clock
        sb3_seconds = (time.time_ns() - model.start_time) / 1e9
        tree = {
            "config": self.config,
            "algorithm": model_state(model),
            "postponed": model.postponed if self.config["overlap"] else [],
            "env": env_state(self.env),
            "callbacks": {name: callback.state_dict() for name, callback in self.callbacks.items()},
            "logger": logger_state(model.logger),
            "seconds": {"run": clock.elapsed(), "learning": clock.learning(), "sb3": sb3_seconds},
            "random": random_state(),
        }
        buffer = getattr(model, "replay_buffer", None)
        return self.checkpoints.write(int(model.num_timesteps), tree, logs.lengths(folder), buffer, finished)

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint, random generators last, because other parts draw random numbers."""
        state = checkpoint.state
        load_model_state(self.model, state["algorithm"])
        set_changed(self.model, state.get("changed", {}))
        if self.config["overlap"]:
            self.model.postponed = state["postponed"]
        if self.model.num_timesteps != checkpoint.steps:
            raise ValueError(f"num_timesteps is {self.model.num_timesteps}, not {checkpoint.steps}")
        if checkpoint.replay is not None:
            self.checkpoints.replay.load(
                self.model.replay_buffer, checkpoint.replay, checkpoint.chunks, checkpoint.steps
            )
        if not load_env_state(self.env, state["env"]):
            self.notify(
                "the replayed episodes differ from the recorded episodes (another machine?): the run continues, but "
                "its results will not be bit-identical"
            )
        for name, callback in self.callbacks.items():
            if getattr(callback, "model", None) is None:
                callback.init_callback(self.model)
            callback.load_state_dict(state["callbacks"][name])
        load_logger_state(self.model.logger, state["logger"])
        self.model.start_time = time.time_ns() - int(state["seconds"]["sb3"] * 1e9)
        load_random_state(state["random"])

    def _report_unsaved(self) -> None:
        """Report once each attribute that checkpoints cannot hold; some attributes appear only during training."""
        if getattr(type(self.model), "state_dict", Stateful.state_dict) is not Stateful.state_dict:
            return
        missing = [name for name in unsaved(self.model) if name not in self._reported]
        self._reported |= set(missing)
        if missing:
            self.notify(
                f"checkpoints do not hold {', '.join(missing)} of {type(self.model).__name__}: a resumed run starts "
                "with new values; give them state_dict and load_state_dict"
            )
