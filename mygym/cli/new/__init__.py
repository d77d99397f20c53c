"""`mygym new`: scaffold a component; writes all files or none, and never over existing ones."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from pathlib import Path

from mygym.cli.command import argument, command, command_kind
from mygym.cli.new.robot_yaml import line_of, top_key
from mygym.cli.new.scaffolds import KINDS_TO_CHECK, PACKAGES, SCAFFOLDS, Request, new_files, train_command
from mygym.cli.output import print_table
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.registry.entries import FRAMEWORKS

KINDS_IN_WORDS = ", ".join([*SCAFFOLDS][:-1]) + f" or {[*SCAFFOLDS][-1]}"

TRAIN_FLAGS = {kind: kind for kind in ("algo", "task", "robot", "workspace", "reward")} | {"controller": "control"}
"""Kind → flag of `train.py`."""


@command(
    "mygym new",
    argument("kind", metavar="KIND", help=f"{KINDS_IN_WORDS}; or ros2-node"),
    argument("name", metavar="NAME", help="name in configs and flags, and of the files"),
    argument("--class", dest="class_name", metavar="C", help="name of the class (default: NAME in CamelCase)"),
    argument("--base", metavar="B", help="base algorithm of an algorithm or a policy (default ppo), or runner"),
    argument("--framework", metavar="F", help="framework of the base: pytorch or jax (default: its first)"),
    argument("--urdf", metavar="FILE", help="URDF of a robot or an object; the file is not copied"),
    argument("--policy", metavar="FILE", help="exported policy of a ros2-node; the file is not copied"),
    examples="""
mygym new algo my_algo                    algos/my_algo.py, PPO with one more hyperparameter
mygym new algo my_algo --base sac --class MySAC
mygym new algo my_algo --base runner      an algorithm with its training loop
mygym new policy wide --base sac          networks for SAC
mygym new strategy widen                  algos/widen.py, which chooses the next task
mygym new sampler in_turn                 algos/in_turn.py, which candidates of a super-network train
mygym new callback patience               algos/patience.py, an SB3 callback
mygym new task tidy                       envs/tidy.py, a composition of stages
mygym new stage hoist                     envs/hoist.py, a stage for compositions
mygym new predicate raised                envs/raised.py, a predicate, and a stage and a task that give it
mygym new reward bonus                    envs/bonus.py, a function of the goals
mygym new observation height              envs/height.py, a component of observations
mygym new controller fine                 envs/fine.py, end-effector control with smoothed actions
mygym new robot arm --urdf arm.urdf       envs/robots/arm.yaml, explained, with a picture; without --urdf a small arm
mygym new workspace desk                  envs/workspaces/desk.yaml, a bench with a lever
mygym new object stool                    envs/objects/stool.yaml; with --urdf FILE the object of the URDF
mygym new env workshop                    a task, its workspace and its object
mygym new ros2-node reach --policy reach.onnx
                                          ros2/reach, a ROS 2 package whose node drives a robot
""",
    notes="""
Every component gets a config and a test, in configs/ and tests/ of the current folder, and trains without a change; a
ros2-node is a package for `colcon build`.
No file is overwritten; on an error, no file is written.
""",
)
def new(options: argparse.Namespace) -> None:
    """Scaffold a component: working files to edit, with a config and a test."""
    kind = command_kind(options.kind)
    if kind not in {**SCAFFOLDS, **PACKAGES}:
        raise ConfigError(bad_value("new", options.kind, [*SCAFFOLDS, *PACKAGES], "cannot be scaffolded"))
    _check_flags(kind, options)
    folder = Path.cwd()
    request = Request(
        options.name,
        folder,
        options.class_name,
        options.base,
        options.framework or _framework(options.base),
        Path(options.urdf) if options.urdf is not None else None,
        Path(options.policy) if options.policy is not None else None,
    )
    files = new_files(kind, request)
    write_new(files)
    for path in files:
        print(path.relative_to(folder))
    if kind in PACKAGES:
        print(f"\nbuild and run it in a ROS 2 workspace:\n  colcon build --base-paths ros2/{options.name}")
        print(f"  ros2 run {options.name} node --ros-args -p speed_scale:=0.2")
        return
    if kind == "robot" and request.urdf is not None:
        _print_inferred(request.urdf, folder / "envs" / "robots" / f"{options.name}.yaml")
    train = train_command(folder)
    flag = f"--{TRAIN_FLAGS[kind]} {options.name}" if kind in TRAIN_FLAGS else f"--config configs/{options.name}.yaml"
    if kind == "algo" and request.framework != "pytorch":
        flag += f" --framework {request.framework}"
    checks = [f"mygym check {checked} {options.name}" for checked in KINDS_TO_CHECK.get(kind, (kind,))]
    print("\ntrain, check and test it:")
    for line in (f"{train} {flag}", *checks, f"pytest tests/test_{options.name}.py"):
        print(f"  {line}")


def _framework(base: str | None) -> str:
    """Return the framework of the base algorithm that is meant if none is named."""
    known = registry("algorithm")
    return known.get(base).framework if base is not None and base in known else FRAMEWORKS[0]


def _check_flags(kind: str, options: argparse.Namespace) -> None:
    """Refuse flags that do not apply to the kind."""
    values = {
        "--class": (options.class_name, ["algo", "policy", "strategy", "sampler", "callback", "controller"]),
        "--base": (options.base, ["algo", "policy"]),
        "--framework": (options.framework, ["algo", "policy"]),
        "--urdf": (options.urdf, ["robot", "object"]),
        "--policy": (options.policy, ["ros2-node"]),
    }
    for flag, (value, kinds) in values.items():
        if value is not None and kind not in kinds:
            raise ConfigError(bad_value(flag, value, kinds, f"is not for {kind}"))


def _print_inferred(urdf: Path, path: Path) -> None:
    """Print a table of the inferred properties of a robot, with the line of its YAML file that corrects each."""
    from mygym.robotics.robot import infer_robot

    text = path.read_text(encoding="utf-8")
    rows = []
    for finding in infer_robot(urdf).findings:
        line = line_of(text, top_key(finding))
        where = f"{finding.key}, line {line}" if line else finding.key
        rows.append({"to correct": where, "sure": finding.certainty, "inferred": finding.text, "why": finding.reason})
    print()
    print_table(rows, f"inferred from {urdf.name}; compare it with {path.stem}.png, and correct it in {path.name}")


def write_new(files: Mapping[Path, str | bytes]) -> None:
    """Write files that do not exist yet; if one cannot be written, the new files and folders are removed.

    Raises:
        ConfigError: A file exists or cannot be written; no file is left.
    """
    folders: list[Path] = []
    written: list[Path] = []
    try:
        for path, content in files.items():
            for folder in [parent for parent in path.parents if not parent.exists()][::-1]:
                folder.mkdir()
                folders.append(folder)
            with path.open("xb") as file:  # refuses a path that exists
                written.append(path)
                file.write(content.encode() if isinstance(content, str) else content)
    except BaseException as error:
        for new_file in written:
            new_file.unlink(missing_ok=True)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, FileExistsError | NotADirectoryError):
            why = "exists already, and nothing is overwritten"
            raise ConfigError(bad_value("file", str(path), "another NAME, or remove the file", why)) from None
        if isinstance(error, OSError):
            why = f"cannot be written ({error.strerror or error})"
            raise ConfigError(bad_value("file", str(path), "a file in a writable folder", why)) from None
        raise
