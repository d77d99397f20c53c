"""`mygym train`, which `python train.py` is too."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mygym.cli.arguments import Parser, add_config_flags, config_layers, import_modules
from mygym.cli.main import say
from mygym.config import merged
from mygym.errors import ConfigError, MygymError, bad_value

if TYPE_CHECKING:
    from mygym.runs.result import Result

EXAMPLES = """\
examples:
  python train.py                                        a Panda learns to reach, in seconds
  python train.py --robot kuka --seed 1
  python train.py --algo ppo --task push --steps 300000
  python train.py --strategy curriculum --task AGM --algo tqc
  python train.py --strategy multitask --set 'strategy_params.tasks=[reach, push, AGM]'
  python train.py --task AGMDW --set reward=staged --n-envs 8
  python train.py --config configs/push.yaml --set algo_params.learning_rate=3e-4
  python train.py --algo tqc --explain                   every value and where it came from
  python train.py --algo tqc --help                      its hyperparameters, with type, default and text
  python train.py --algo mine --import my.module         an algorithm of a module of yours
  python train.py --resume runs/reach/panda/sac/1a2b3c4d/seed_0 --steps 40000

The last line printed is `run: PATH`; PATH/config.yaml repeats the run.
Ctrl-C and SIGTERM stop a run with a checkpoint; --resume goes on from the newest, after a crash too, and ends with the
same weights as if the run had never stopped. What may be set with it: steps, stop_at_success, eval, checkpoint, video,
tensorboard.
"""


def main(arguments: Sequence[str], train: Callable[..., Result] | None = None) -> None:
    """Run the command.

    Args:
        arguments: Those of the command line.
        train: Trains a run; None: `mygym.train`.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.help:
        _help(parser, options)
        return
    file, flags = config_layers(options)
    if options.resume and (options.explain or options.dry_run):
        wrong = "--explain" if options.explain else "--dry-run"
        raise ConfigError(
            bad_value("train.py", wrong, "--config RUN/config.yaml in place of --resume RUN", "is for new runs")
        )

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
        from mygym import api
        from mygym.runs.strategy_callback import in_words

        try:
            flags.pop("imports", None)  # of the run, whose config names them
            result = (train or api.train)(plan or merged(file, flags), resume=options.resume)
        except MygymError as error:
            if error.run is not None:
                print(f"run: {error.run}", flush=True)
            raise
        after = f"after {result.steps:,} steps, {result.wall_time_s:.1f} s"
        said = f"success {result.success_rate:.1%} of fresh episodes {after}"
        by_task = ", ".join(f"{task} {rate:.0%}" for task, rate in result.success_by_task.items())
        say("; ".join(filter(None, (said, by_task, *in_words(result.strategy)))))
        print(f"run: {result.path}")


def _help(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """The flags, and the parameters of the algorithm and the strategies that are named."""
    print(parser.format_help())
    if options.strategy:
        from mygym.cli.tables import print_table, strategy_parameters
        from mygym.runs.strategies import sections

        import_modules(options)
        for name, (section, _) in sections(options.strategy, {}).items():
            if rows := strategy_parameters(name):
                print(f"strategy_params of {name}: --set {section}.NAME=VALUE")
                print_table(rows)
    if options.algo or options.config:
        from mygym.cli.tables import hyperparameters, print_table, training_parameters
        from mygym.registry import algorithm

        file, flags = config_layers(options)
        said = {"algo": "sac", "framework": "pytorch", **file, **flags}
        entry = algorithm(said["algo"], said["framework"])
        tables = {"algo_params": hyperparameters(entry), "training_params": training_parameters(entry)}
        for section, rows in tables.items():
            if rows:
                print(f"{section} of {entry.name} ({entry.framework}): --set {section}.NAME=VALUE")
                print_table(rows)
    elif not options.strategy:
        print("With --algo A, --help lists the hyperparameters of A too; with --strategy S the parameters of S.")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "train.py",
        description="Train a robot arm in PyBullet; evaluate, film and save it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="print this, with --algo its hyperparameters too")
    add_config_flags(parser)
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was stopped, or that is to be longer")
    parser.add_argument("--explain", action="store_true", help="print every value and where it came from, then stop")
    parser.add_argument("--dry-run", action="store_true", help="build everything, print sizes and timings, then stop")
    return parser
