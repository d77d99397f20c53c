"""`mygym train` and `python train.py`: train a robot arm."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.cli.arguments import CONFIG_FLAGS, config_layers, flag_value, parse_count
from mygym.cli.command import argument, command
from mygym.cli.output import print_note, print_table
from mygym.cli.seeds import parse_seeds, resume_seeds, train_seeds
from mygym.config import Resolved, merge_configs
from mygym.errors import ConfigError, MygymError, bad_value
from mygym.nested import at, has
from mygym.registry import register_dictionary
from mygym.training.directory import is_run

if TYPE_CHECKING:
    from mygym.planning.plan import RunPlan
    from mygym.training.result import Result

PARSER = command(
    "train.py",
    "Train a robot arm in PyBullet; save, evaluate and record videos of the policy.",
    argument("-h", "--help", action="store_true", help="print this help; with --algo also its hyperparameters"),
    argument("--resume", metavar="RUN", help="continue a run that was stopped, or extend it with more --steps"),
    argument("--network-of", metavar="RUN", help="train the network that a mixture run has selected, from scratch"),
    argument(
        "--seeds", metavar="SEEDS", help="train several seeds: 5 (0 to 4), 0..4, or 0,2,5; with --resume SETTING too"
    ),
    argument("--jobs", metavar="N", help="with --seeds: processes side by side (default 1)"),
    argument(
        "--finetune-steps",
        metavar="N",
        help="with an engine such as fused: then train the policy for N env steps in PyBullet",
    ),
    argument("--gui", action="store_true", help="show the first training environment in a window"),
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
python train.py --network-of runs/reach/panda/a2c/1a2b3c4d/seed_0 --steps 40000
python train.py --engine fused --task reach --finetune-steps 10000
python train.py --resume runs/reach/panda/sac/1a2b3c4d/seed_0 --steps 40000
python train.py --algo ppo --seeds 5 --jobs 2          five seeds, two at a time; prints their mean with an interval
python train.py --resume runs/reach/panda/ppo/1a2b3c4d --seeds 0..9      the missing runs of ten seeds
""",
    notes="""
`mygym train` is the same program. The last line printed is `run: PATH`; PATH/config.yaml repeats the run.
Ctrl-C, SIGTERM and SIGHUP save a checkpoint and stop; --resume continues from the newest checkpoint, also after a
crash, and ends with the same weights as a run without a stop. Keys that may change then: steps, stop_at_success, eval,
checkpoint, video, tensorboard, env_processes.
""",
)


ENGINE_KEYS = ("engine", "steps", "n_envs", "learners", "algo_params")
"""Keys of a fused run whose values do not suit PyBullet, where the defaults of the algorithm apply."""

POLICY_KEYS = ("policy", "policy_kwargs", "gamma")
"""Hyperparameters that the weights of a policy and a critic depend on."""


def main(arguments: Sequence[str], train: Callable[..., Result] | None = None) -> None:
    """Run the command.

    Args:
        arguments: Arguments of the command line.
        train: Trains a run; None: `mygym.train`.
    """
    options = PARSER.parse(arguments)
    if train is not None:
        register_dictionary(sys.modules[train.__module__])
    if options.help:
        _print_help(options)
        return
    seeds = options.seeds
    if options.seed and ("," in options.seed or ".." in options.seed):
        seeds, options.seed = options.seed, None
    numbers = parse_seeds(seeds) if seeds else None
    program = [sys.executable, *([sys.argv[0]] if train else ["-m", "mygym", "train"])]
    if options.resume and (numbers or not is_run(Path(options.resume))) and Path(options.resume).is_dir():
        if words := _without(arguments, "--resume", "--seeds", "--seed", "--jobs"):
            why = "cannot be combined with --resume SETTING"
            raise ConfigError(bad_value("train.py", words[0], "--seeds and --jobs", why))
        resume_seeds(program, Path(options.resume), numbers, _jobs(options))
        return
    file, flags = config_layers(options)
    file_origin = "file"
    if options.network_of:
        for flag in ("config", "resume"):
            if getattr(options, flag):
                allowed = "--network-of alone: the config is that of RUN"
                raise ConfigError(bad_value(f"--{flag}", getattr(options, flag), allowed, "excludes --network-of"))
        from mygym.api import network_of

        file, file_origin = network_of(options.network_of), f"network of {options.network_of}"
    if options.resume and (options.explain or options.dry_run):
        flag = "--explain" if options.explain else "--dry-run"
        allowed = "--config RUN/config.yaml in place of --resume RUN"
        raise ConfigError(bad_value("train.py", flag, allowed, "is for new runs"))

    from mygym.planning.plan import make_plan

    plan = None if options.resume else make_plan(file, flags, file_origin=file_origin)
    if plan and options.network_of:
        print_note(f"{file_origin}: net_arch {plan.config.algo_params['policy_kwargs']['net_arch']}")
    finetuning = _finetuning(options, plan, file, flags)
    if plan and options.explain:
        from mygym.training.model_factory import explained

        explain(explained(plan))
    elif plan and options.dry_run:
        from mygym.cli.dry_run import dry_run

        dry_run(plan)
    elif numbers:
        train_seeds(program, _without(arguments, "--seeds", "--seed", "--jobs"), numbers, _jobs(options))
    else:
        from mygym import api

        flags.pop("imports", None)  # the config of the run names them
        train = train or api.train
        window: dict[str, Any] = {"gui": True} if options.gui else {}  # a copy of train.py may lack the parameter
        with _naming_the_run():
            result = train(plan or merge_configs(file, flags), resume=options.resume, **window)
            _print_result(result)
            if finetuning:
                _print_result(train({**finetuning, "pretrained": str(result.path)}, resume=None, **window))


def _finetuning(options: argparse.Namespace, plan: RunPlan | None, *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of the run that trains a policy on in the engine that judges it; empty without the flag.

    Raises:
        ConfigError: The engine of the run judges itself, or the number of steps is invalid.
    """
    if options.finetune_steps is None:
        return {}
    from mygym.engines.engine import judge_of

    if plan is None or judge_of(plan.config.engine) == plan.config.engine:
        needed = "needs an engine that another one judges, such as fused"
        why = "cannot be combined with --resume" if plan is None else f"{needed}, not {plan.config.engine}"
        raise ConfigError(bad_value("--finetune-steps", options.finetune_steps, "a new run with --engine fused", why))
    steps = parse_count(options.finetune_steps, "--finetune-steps")
    from mygym.planning.plan import make_plan

    kept = {key: value for key, value in merge_configs(*layers).items() if key not in ENGINE_KEYS}
    params = {key: plan.config.algo_params[key] for key in POLICY_KEYS if key in plan.config.algo_params}
    config = {**kept, "algo": plan.config.algo, "algo_params": params, "normalize": plan.config.normalize}
    config |= {"reward": plan.config.reward, "engine": judge_of(plan.config.engine), "steps": steps}
    make_plan(config)  # shows a mistake before the first training
    return config


def _jobs(options: argparse.Namespace) -> int:
    return parse_count(options.jobs, "--jobs") if options.jobs else 1


def _without(arguments: Sequence[str], *flags: str) -> list[str]:
    """Return the arguments without flags and their values."""
    words = iter(arguments)
    kept: list[str] = []
    for word in words:
        if word in flags:
            next(words, None)
        elif word.partition("=")[0] not in flags:
            kept.append(word)
    return kept


@contextlib.contextmanager
def _naming_the_run() -> Iterator[None]:
    """Print the path of a failed run as well."""
    try:
        yield
    except MygymError as error:
        if error.run is not None:
            print(f"run: {error.run}", flush=True)
        raise


def _print_result(result: Result) -> None:
    from mygym.training.run_callbacks import outcome_texts

    cost = f"{result.steps:,} steps, {result.wall_time_s:.1f} s"
    success = f"success {result.success_rate:.1%} of fresh episodes after {cost}"
    by_task = ", ".join(f"{task} {rate:.0%}" for task, rate in result.success_by_task.items())
    print_note("; ".join(filter(None, (success, by_task, *outcome_texts(result.strategy)))))
    print(f"run: {result.path}")


def _print_help(options: argparse.Namespace) -> None:
    """Print the flags, and the parameters of the algorithm and the strategies, with the values that the run takes."""
    print(PARSER.format_help())
    file, flags = config_layers(options)
    if options.control:
        _print_controller(options.control)
    if file or flags:
        _print_parameters(file, flags)
    else:
        print(
            "With a config, e.g. --task T or --algo A, --help also lists the hyperparameters of its algorithm and the"
        )
        print("parameters of its strategies, with the values that the run takes; with --control C those of C.")


def _print_parameters(file: Mapping[str, Any], flags: Mapping[str, Any]) -> None:
    from mygym.planning.parameter_tables import hyperparameters, strategy_parameters, training_parameters
    from mygym.planning.plan import make_plan
    from mygym.planning.strategies import sections
    from mygym.registry import algorithm

    resolved = make_plan(file, flags).resolved
    entry = algorithm(resolved.config.algo, resolved.config.framework)
    tables = [
        (f"algo_params of {entry.name} ({entry.framework})", "algo_params", hyperparameters(entry)),
        (f"training_params of {entry.name} ({entry.framework})", "training_params", training_parameters(entry)),
        *(
            (f"strategy_params of {name}", section, strategy_parameters(name))
            for name, (section, _) in sections(resolved.config.strategy, {}).items()
        ),
    ]
    for title, section, rows in tables:
        if rows:
            print(f"{title}, with the values of this run: --set {section}.NAME=VALUE")
            print_table([_with_value(row, f"{section}.{row['name']}", resolved) for row in rows])


def _with_value(row: Mapping[str, Any], key: str, resolved: Resolved) -> dict[str, Any]:
    """Return a row of a parameter with its value in the run in the place of the default."""
    values, path = resolved.values(), tuple(key.split("."))
    value = at(values, path) if has(values, path) else row["default"]
    return {"name": row["name"], "type": row["type"], "value": value, "help": row["help"]}


def _print_controller(control: str) -> None:
    from mygym.planning.parameter_tables import controller_parameters
    from mygym.robotics.controllers import find_controller

    name = find_controller(flag_value("control", control)).config.name
    print(f"control of {name}: --set control.NAME=VALUE")
    print_table(controller_parameters(name))


def explain(resolved: Resolved) -> None:
    """Print one line for each value: key, value, origin."""
    rows = [(key, json.dumps(value), origin) for key, value, origin in resolved.rows()]
    key_width = max(len(key) for key, _, _ in rows)
    value_width = min(40, max(len(text) for _, text, _ in rows))
    for key, text, origin in rows:
        print(f"{key:<{key_width}}  {text:<{value_width}}  {origin}")
