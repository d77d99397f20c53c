"""`mygym train` and `python train.py`: train a robot arm."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mygym.cli.arguments import CONFIG_FLAGS, config_layers
from mygym.cli.command import argument, command
from mygym.cli.output import print_note, print_table
from mygym.config import merged
from mygym.errors import ConfigError, MygymError, bad_value

if TYPE_CHECKING:
    from mygym.runs.result import Result

PARSER = command(
    "train.py",
    "Train a robot arm in PyBullet; save, evaluate and record videos of the policy.",
    argument("-h", "--help", action="store_true", help="print this help; with --algo also its hyperparameters"),
    argument("--resume", metavar="RUN", help="continue a run that was stopped, or extend it with more --steps"),
    argument("--explain", action="store_true", help="print every value of the config and its origin, then stop"),
    argument("--dry-run", action="store_true", help="build everything, print sizes and timings, then stop"),
    config_flags=CONFIG_FLAGS,
    add_help=False,
    examples="""
python train.py                                        a Panda learns to reach in a few seconds
python train.py --robot kuka --seed 1
python train.py --algo ppo --task push --steps 300000
python train.py --strategy curriculum --task AGM --algo tqc
python train.py --strategy multitask --set 'strategy_params.tasks=[reach, push, AGM]'
python train.py --task AGMDW --set reward=shaped --n-envs 8
python train.py --config configs/push.yaml --set algo_params.learning_rate=3e-4
python train.py --algo tqc --explain                   every value of the config and its origin
python train.py --algo tqc --help                      hyperparameters of TQC: type, default, help
python train.py --algo my_algo --import my.module      an algorithm of your module
python train.py --task push --pretrained runs/reach/panda/sac/1a2b3c4d/seed_0 --set spaces=shared
python train.py --resume runs/reach/panda/sac/1a2b3c4d/seed_0 --steps 40000
""",
    notes="""
`mygym train` is the same program. The last line printed is `run: PATH`; PATH/config.yaml repeats the run.
Ctrl-C and SIGTERM save a checkpoint and stop; --resume continues from the newest checkpoint, also after a crash, and
ends with the same weights as a run without a stop. Keys that may change then: steps, stop_at_success, eval, checkpoint,
video, tensorboard.
""",
)


def main(arguments: Sequence[str], train: Callable[..., Result] | None = None) -> None:
    """Run the command.

    Args:
        arguments: Arguments of the command line.
        train: Trains a run; None: `mygym.train`.
    """
    options = PARSER.parse(arguments)
    if options.help:
        _print_help(options)
        return
    file, flags = config_layers(options)
    if options.resume and (options.explain or options.dry_run):
        flag = "--explain" if options.explain else "--dry-run"
        allowed = "--config RUN/config.yaml in place of --resume RUN"
        raise ConfigError(bad_value("train.py", flag, allowed, "is for new runs"))

    from mygym.runs.plan import make_plan

    plan = None if options.resume else make_plan(file, flags)
    if plan and options.explain:
        from mygym.cli.explain import explain
        from mygym.runs.factory import explained

        explain(explained(plan))
    elif plan and options.dry_run:
        from mygym.cli.dry_run import dry_run

        dry_run(plan)
    else:
        flags.pop("imports", None)  # the config of the run names them
        _train(train, plan or merged(file, flags), options.resume)


def _train(train: Callable[..., Result] | None, config: Any, resume: str | None) -> None:
    """Train, and print the result and the path of the run, also of a failed run."""
    from mygym import api
    from mygym.runs.strategy_callback import outcome_texts

    try:
        result = (train or api.train)(config, resume=resume)
    except MygymError as error:
        if error.run is not None:
            print(f"run: {error.run}", flush=True)
        raise
    cost = f"{result.steps:,} steps, {result.wall_time_s:.1f} s"
    success = f"success {result.success_rate:.1%} of fresh episodes after {cost}"
    by_task = ", ".join(f"{task} {rate:.0%}" for task, rate in result.success_by_task.items())
    print_note("; ".join(filter(None, (success, by_task, *outcome_texts(result.strategy)))))
    print(f"run: {result.path}")


def _print_help(options: argparse.Namespace) -> None:
    """Print the flags, and the parameters of the chosen algorithm and strategies."""
    print(PARSER.format_help())
    if options.strategy:
        _print_strategies(options.strategy)
    if options.algo or options.config:
        file, flags = config_layers(options)
        _print_algorithm({"algo": "sac", "framework": "pytorch", **file, **flags})
    elif not options.strategy:
        print("With --algo A, --help also lists the hyperparameters of A; with --strategy S the parameters of S.")


def _print_strategies(strategy: str) -> None:
    from mygym.cli.parameters import strategy_parameters
    from mygym.runs.strategies import sections

    for name, (section, _) in sections(strategy, {}).items():
        if rows := strategy_parameters(name):
            print(f"strategy_params of {name}: --set {section}.NAME=VALUE")
            print_table(rows)


def _print_algorithm(config: Mapping[str, Any]) -> None:
    from mygym.cli.parameters import hyperparameters, training_parameters
    from mygym.registry import algorithm

    entry = algorithm(config["algo"], config["framework"])
    tables = {"algo_params": hyperparameters(entry), "training_params": training_parameters(entry)}
    for section, rows in tables.items():
        if rows:
            print(f"{section} of {entry.name} ({entry.framework}): --set {section}.NAME=VALUE")
            print_table(rows)
