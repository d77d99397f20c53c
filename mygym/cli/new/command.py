"""`mygym new`: the files of a component of one's own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mygym.cli.arguments import Parser, add_import_flag, import_modules
from mygym.errors import ConfigError, bad_value

EXAMPLES = """\
examples:
  mygym new algo mine                       algos/mine.py, a PPO with a hyperparameter of its own
  mygym new algo mine --base sac --class MySAC
  mygym new algo mine --base runner         it writes the training loop itself
  mygym new policy wide --base sac          networks of your own for sac
  mygym new strategy widen                  algos/widen.py, which decides what trains next
  mygym new task tidy                       envs/tidy.py, a composition of stages
  mygym new stage hoist                     envs/hoist.py, a stage for compositions
  mygym new robot arm --urdf arm.urdf       envs/robots/arm.yaml; without --urdf a small arm is made
  mygym new workspace desk                  envs/workspaces/desk.yaml
  mygym new object stool                    envs/objects/stool.yaml; with --urdf FILE that of the URDF
  mygym new env workshop                    a task, its workspace and its object

Each comes with a config and a test, in configs/ and tests/ of the current folder. Nothing is overwritten, and either
all files are written or none.
"""

CHECKED = {"env": ("task", "workspace")}
"""Kind → what `mygym check` knows it as, where that is another."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    import_modules(options)
    from mygym.cli.new.kinds import KINDS, Request, new_files, train_command
    from mygym.cli.new.writing import write_new

    kind = {"algorithm": "algo"}.get(options.kind, options.kind)
    if kind not in KINDS:
        raise ConfigError(bad_value("new", options.kind, KINDS, "cannot be made"))
    given = {"--class": options.class_name, "--base": options.base, "--framework": options.framework}
    for flag, value in given.items():
        kinds = ["algo", "policy", *(["strategy"] if flag == "--class" else [])]
        if value is not None and kind not in kinds:
            raise ConfigError(bad_value(flag, value, kinds, f"is not for {kind}"))
    if options.urdf is not None and kind not in ("robot", "object"):
        raise ConfigError(bad_value("--urdf", options.urdf, ["robot", "object"], f"is not for {kind}"))
    place = Path.cwd()
    request = Request(
        options.name,
        place,
        options.class_name,
        options.base,
        options.framework or "pytorch",
        Path(options.urdf) if options.urdf is not None else None,
    )
    files = new_files(kind, request)
    write_new(files)
    for path in files:
        print(path.relative_to(place))
    if kind == "robot" and request.urdf is not None:
        _tell_inferred(request.urdf)
    train = train_command(place)
    print("\ntrain it, check it, test it:")
    print(f"  {train} --{kind} {options.name}" if kind in FLAGS else f"  {train} --config configs/{options.name}.yaml")
    for checked in CHECKED.get(kind, (kind,)):
        print(f"  mygym check {checked} {options.name}")
    print(f"  pytest tests/test_{options.name}.py")


def _tell_inferred(urdf: Path) -> None:
    """What the user has to look through, as the YAML file says it too."""
    from mygym.sim.inference import infer_robot

    print("\ninferred, for you to correct in the file:")
    for note in infer_robot(urdf).notes:
        print(f"  {note}")


FLAGS = ("algo", "task", "robot", "workspace")
"""Kinds that `train.py` has a flag for."""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "mygym new",
        description="Write the files of a component of your own, which trains as it is.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("kind", metavar="KIND", help="algo, policy, task, stage, robot, workspace, object or env")
    parser.add_argument("name", metavar="NAME", help="by which configs and flags will know it")
    parser.add_argument(
        "--class", dest="class_name", metavar="C", help="name of its class (default: NAME in CamelCase)"
    )
    parser.add_argument("--base", metavar="B", help="the algorithm to begin with (default ppo), or runner")
    parser.add_argument("--framework", metavar="F", help="of the base: pytorch, jax (default pytorch)")
    parser.add_argument("--urdf", metavar="FILE", help="of a robot or an object: its description; it stays where it is")
    add_import_flag(parser)
    return parser
