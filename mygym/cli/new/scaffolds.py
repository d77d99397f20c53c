"""Kinds that `mygym new` scaffolds, and the files of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mygym.cli.new import asset_files, learning_files, robot_files, task_files
from mygym.cli.new.naming import check_folder, check_identifier
from mygym.cli.new.request import Request

SCAFFOLDS: Mapping[str, Callable[[Request], Mapping[str, str | bytes]]] = {
    "algo": learning_files.algorithm_files,
    "policy": learning_files.policy_files,
    "strategy": learning_files.strategy_files,
    "sampler": learning_files.sampler_files,
    "callback": learning_files.callback_files,
    "task": task_files.task_files,
    "stage": task_files.stage_files,
    "predicate": task_files.predicate_files,
    "reward": task_files.reward_files,
    "observation": task_files.observation_files,
    "controller": task_files.controller_files,
    "robot": asset_files.robot_files,
    "workspace": asset_files.workspace_files,
    "object": asset_files.object_files,
    "env": task_files.env_files,
}
"""Kind on the command line → function that returns path and content of the files."""

PACKAGES: Mapping[str, Callable[[Request], Mapping[str, str | bytes]]] = {"ros2-node": robot_files.ros2_files}
"""Further kinds, which are not components: packages for a robot."""

KINDS_TO_CHECK: Mapping[str, tuple[str, ...]] = {"predicate": ("predicate", "stage"), "env": ("task", "workspace")}
"""Kind → kinds for `mygym check`, if they differ from the kind."""


def new_files(kind: str, request: Request) -> dict[Path, str | bytes]:
    """Return path and content of every file of a new component.

    Args:
        kind: One of `SCAFFOLDS` or `PACKAGES`.
        request: Name, folder and base of the component.

    Raises:
        ConfigError: A name is invalid or already registered, or the base is not suitable.
    """
    check_identifier("name", request.name)
    if request.class_name is not None:
        check_identifier("--class", request.class_name)
    check_folder(request.folder)
    return {request.folder / path: content for path, content in {**SCAFFOLDS, **PACKAGES}[kind](request).items()}
