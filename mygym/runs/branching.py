"""Branches: copies of a stopped run that continue from its newest checkpoint with other hyperparameters."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mygym.config.schedulable import may_be_scheduled
from mygym.errors import RunError
from mygym.registry import algorithm
from mygym.runs import directory, files
from mygym.runs.checkpoints.checkpoints import Checkpoints
from mygym.runs.loading import read_config
from mygym.runs.schedule_callback import set_value


def branch(run: Path, target: Path, values: Mapping[str, float]) -> None:
    """Copy a stopped run to a new directory with other values of hyperparameters; it appears when it is complete.

    Args:
        run: The run, which no process is training.
        target: Directory of the copy.
        values: Name of a hyperparameter that may change during training → its value from the checkpoint on.

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
