"""Resume a stopped run: its config, the allowed changes, and its newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mygym.config import Resolved
from mygym.config.layers import flatten
from mygym.errors import ConfigError, RunError, bad_value
from mygym.planning.resolve import resolve_config
from mygym.training import directory, logs, model_factory
from mygym.training.checkpoints.checkpoints import Checkpoint, Checkpoints
from mygym.training.loading import read_config
from mygym.training.result import Result

MAY_CHANGE = ("steps", "stop_at_success", "eval", "checkpoint", "video", "tensorboard", "subprocesses")
"""Config keys that do not affect the training so far."""

_IRRELEVANT = ("logdir", "strict")
"""Config keys without an effect on the training; `logdir` may not change, because a run stays in its directory."""


@dataclass(frozen=True)
class Rest:
    """The remaining part of a stopped run."""

    resolved: Resolved
    checkpoint: Checkpoint | None
    """Newest checkpoint; None: the run starts again from step 0, with the same results."""
    complete: Result | None = None
    """The result, if the run is complete."""


def resume(run: Path, changes: Mapping[str, Any], notify: Callable[[str], None]) -> Rest:
    """Return the remaining part of a run that this process has locked.

    Args:
        run: The run directory.
        changes: Config values that differ from now on.
        notify: Called with messages for the user.

    Raises:
        ConfigError: A change would invalidate the training so far, or the run cannot be resumed on this machine.
        RunError: The newest checkpoint was not written by a run, or a folder is in the place of a file.
    """
    logs.check(run)
    directory.check_files(run)
    directory.remove_partial_files(run)
    before = resolve_config(read_config(run))
    model_factory.use(before.config.framework, before.config.device, before.config.threads)  # before arrays are read
    result = Result.read(run)
    if result is not None and result.status == "diverged":
        why = "has diverged, and would diverge again"
        raise ConfigError(bad_value("resume", str(run), "a new run with another seed or other algo_params", why))
    checkpoint = Checkpoints(run, keep=1).newest(notify)
    trained_with = _config_at(checkpoint) if checkpoint else before.values()
    resolved = _changed(before, changes, checkpoint)
    steps = resolved.config.steps
    _refuse_changes(trained_with, resolved.values())
    if resolved.config.logdir != before.config.logdir:
        why = "cannot change: a resumed run stays in its directory"
        raise ConfigError(bad_value("logdir", resolved.config.logdir, repr(before.config.logdir), why))
    if checkpoint is None:
        notify("the run has no checkpoint yet: it starts again from step 0, with the same results")
        return Rest(resolved, None)
    wants_more = steps > trained_with["steps"] or resolved.config.stop_at_success != trained_with["stop_at_success"]
    if checkpoint.finished and wants_more and checkpoint.steps < steps:
        notify(f"learning continues from {checkpoint.steps:,} to {steps:,} steps, where schedules now end")
        return Rest(resolved, replace(checkpoint, finished=False))
    if checkpoint.finished:
        if steps != trained_with["steps"]:
            longest = max(checkpoint.steps, trained_with["steps"])
            why = "is no longer than the run, which is complete"
            raise ConfigError(bad_value("steps", steps, f"{trained_with['steps']}, or more than {longest}", why))
        done = result is not None and result.status == "done" and resolved.values() == before.values()
        whole = all((run / name).is_file() for name in (directory.MODEL, directory.POLICY))
        if done and whole:
            notify("the run is complete; --steps N makes it longer")
            return Rest(resolved, checkpoint, result)
        return Rest(resolved, checkpoint)
    if checkpoint.steps >= steps:
        raise ConfigError(bad_value("steps", steps, f"more than {checkpoint.steps}", "has been passed already"))
    notify(f"continues from {checkpoint.steps:,} of {steps:,} steps")
    return Rest(resolved, checkpoint)


def _config_at(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the config of the run at a checkpoint.

    Raises:
        RunError: The checkpoint is complete, but its content is not the state of a run.
    """
    replay = checkpoint.replay
    try:
        seconds = checkpoint.state["seconds"]
        numbers = [
            seconds["run"],
            seconds["learning"],
            *((replay["size"], replay["total"]) if replay is not None else ()),
        ]
        if all(isinstance(number, int | float) for number in numbers):
            return resolve_config(checkpoint.state["config"]).values()
        why = "times or sizes are not numbers"
    except (ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
        why = f"{type(error).__name__}: {error}"
    raise RunError(f"{checkpoint.path}: is not the checkpoint of a run: {why}")


def _changed(before: Resolved, changes: Mapping[str, Any], checkpoint: Checkpoint | None) -> Resolved:
    """Return the config with `changes`; a replay buffer with the size of the run's steps grows with the steps."""
    values = before.values()
    try:
        resolved = resolve_config(values, changes)
    except ConfigError:  # e.g. the hyperparameters of the run do not fit another algorithm
        named = [key for key in ("algo", "framework", "strategy", "robot", "task") if key in changes]
        _refuse_changes({key: values[key] for key in named}, {key: changes[key] for key in named})
        raise
    if resolved.config.steps <= before.config.steps or "buffer_size" not in values["algo_params"]:
        return resolved
    without_size = {key: value for key, value in values["algo_params"].items() if key != "buffer_size"}
    overwritten = (
        checkpoint is not None and checkpoint.replay and checkpoint.replay["total"] > checkpoint.replay["size"]
    )
    if overwritten or resolve_config({**values, "algo_params": without_size}).values() != values:
        return resolved
    return resolve_config({**values, "algo_params": without_size}, changes)


def _refuse_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a config with which the training so far would have been different.

    Raises:
        ConfigError: A key differs that may not change; the message names the first such key.
    """
    old, new = dict(flatten(before)), dict(flatten(after))
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        grown = key == "algo_params.buffer_size" and after["steps"] > before["steps"] and (now or 0) > (was or 0)
        if was != now and not grown and key.partition(".")[0] not in (*MAY_CHANGE, *_IRRELEVANT):
            why = "is not the value with which the run was trained so far"
            raise ConfigError(bad_value(key, now, f"{was!r}; of a resumed run {', '.join(MAY_CHANGE)} may change", why))
