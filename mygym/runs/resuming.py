"""What a run that was stopped goes on with: its config, what may be different in it, and a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mygym.config import Resolved, load_file
from mygym.config.layers import flatten
from mygym.errors import ConfigError, RunError, bad_value
from mygym.runs import devices, directory
from mygym.runs.checkpoints.checkpoints import Checkpoint, Checkpoints
from mygym.runs.resolve_config import resolve_config
from mygym.runs.result import Result

MAY_CHANGE = ("steps", "stop_at_success", "eval", "checkpoint", "video", "tensorboard")
"""Keys of the config that cannot change what has been learnt so far."""

_NO_MATTER = ("logdir", "strict")
"""Keys that say nothing of how the run goes on: it stays where it is."""


@dataclass(frozen=True)
class Plan:
    """How a run goes on."""

    resolved: Resolved
    checkpoint: Checkpoint | None
    """None: from the start, which comes to the same numbers."""
    complete: Result | None = None
    """The result, if there is nothing left to do."""


def plan(run: Path, changes: Mapping[str, Any], tell: Callable[[str], None]) -> Plan:
    """Decide how a run, which this process has locked, goes on.

    Args:
        run: The run directory.
        changes: What is to be different from now on.
        tell: Called with what the user should know.

    Raises:
        ConfigError: A change would change what was learnt so far, or the run cannot be resumed, or not here.
        RunError: The newest checkpoint was not written by a run.
    """
    directory.remove_partial_files(run)
    before = resolve_config(load_file(run / directory.CONFIG))
    devices.use(before.config.framework, before.config.device, before.config.threads)  # reading arrays may be the first
    result = Result.read(run)
    if result is not None and result.status == "diverged":
        why = "has diverged, and would again"
        raise ConfigError(bad_value("resume", str(run), "a new run with another seed or other algo_params", why))
    checkpoint = Checkpoints(run, keep=1).newest(tell)
    began_with = _config_at(checkpoint) if checkpoint else before.values()
    resolved = _changed(before, changes, checkpoint)
    steps = resolved.config.steps
    if checkpoint is None:
        _refuse_other(began_with, resolved.values())
        tell("there is no checkpoint yet: the run starts again from step 0, to the same numbers")
        return Plan(resolved, None)
    _refuse_other(began_with, resolved.values())
    wants_more = steps > began_with["steps"] or resolved.config.stop_at_success != began_with["stop_at_success"]
    if checkpoint.finished and wants_more and checkpoint.steps < steps:
        tell(f"learning goes on from {checkpoint.steps:,} to {steps:,} steps, where schedules now end")
        return Plan(resolved, replace(checkpoint, finished=False))
    if checkpoint.finished:
        done = result is not None and result.status == "done" and resolved.values() == before.values()
        whole = all((run / name).is_file() for name in (directory.MODEL, directory.POLICY))
        if done and whole:
            tell("the run is complete; --steps N makes it longer")
            return Plan(resolved, checkpoint, result)
        return Plan(resolved, checkpoint)
    if checkpoint.steps >= steps:
        raise ConfigError(bad_value("steps", steps, f"more than {checkpoint.steps}", "has been passed already"))
    tell(f"goes on from {checkpoint.steps:,} of {steps:,} steps")
    return Plan(resolved, checkpoint)


def _config_at(checkpoint: Checkpoint) -> dict[str, Any]:
    """The config that the run had then.

    Raises:
        RunError: The checkpoint is whole, but not what a run saves.
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
        why = "times or sizes are no numbers"
    except (ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
        why = f"{type(error).__name__}: {error}"
    raise RunError(f"{checkpoint.path}: is not what a run saves: {why}")


def _changed(before: Resolved, changes: Mapping[str, Any], checkpoint: Checkpoint | None) -> Resolved:
    """The config with `changes`; a replay buffer that was as large as the run's steps grows with them."""
    values = before.values()
    resolved = resolve_config(values, changes)
    if resolved.config.steps <= before.config.steps or "buffer_size" not in values["algo_params"]:
        return resolved
    unsaid = {key: value for key, value in values["algo_params"].items() if key != "buffer_size"}
    overwritten = (
        checkpoint is not None and checkpoint.replay and checkpoint.replay["total"] > checkpoint.replay["size"]
    )
    if overwritten or resolve_config({**values, "algo_params": unsaid}).values() != values:
        return resolved
    return resolve_config({**values, "algo_params": unsaid}, changes)


def _refuse_other(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a config that would not have come to where the run is.

    Raises:
        ConfigError: Names the first key.
    """
    old, new = dict(flatten(before)), dict(flatten(after))
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        grown = key == "algo_params.buffer_size" and after["steps"] > before["steps"] and (now or 0) > (was or 0)
        if was != now and not grown and key.partition(".")[0] not in (*MAY_CHANGE, *_NO_MATTER):
            why = "is not what the run was trained with so far"
            raise ConfigError(bad_value(key, now, f"{was!r}; of a resumed run {', '.join(MAY_CHANGE)} may change", why))
