"""`mygym train` and `python train.py`: train a robot arm, also with several seeds; `--dry-run` only builds it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from gymnasium import spaces

from mygym.cli.command import CONFIG_FLAGS, argument, chosen_flag, command, count, flag_value, parse_count, parse_seed
from mygym.cli.config_files import config_layers
from mygym.cli.output import print_table
from mygym.config import Resolved, merge_configs, parse_overrides
from mygym.config.hyperparameters import controller_rows, hyperparameter_rows, strategy_rows, training_rows
from mygym.engines.engine import judge_of
from mygym.errors import ConfigError, InterruptedRunError, MygymError, RunError, bad_value, print_message
from mygym.nested import at, has
from mygym.registry import algorithm, register_dictionary
from mygym.reporting.comparison import summary_in_words
from mygym.reporting.records import find_runs
from mygym.sweeps.executors import Job, LocalExecutor, execute, start
from mygym.training import directory, hosts
from mygym.training.directory import is_run
from mygym.training.stop_request import SEPARATE

if TYPE_CHECKING:
    from mygym.planning.plan import RunPlan
    from mygym.training.result import Result

RESUMED = ("interrupted", "stopped", "failed")
"""Statuses of runs that `--resume SETTING` continues."""

MAX_SEEDS = 1_000
"""Largest number of seeds of a command."""


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of `5` (0 to 4), `3..7` or `0,2,5`; refuse other forms, and too many seeds."""
    seeds: list[int] = []
    if match := re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", text):
        seeds = list(range(int(match[1]), min(int(match[2]), int(match[1]) + MAX_SEEDS) + 1))
    elif re.fullmatch(r"\d{1,9}", text):
        seeds = list(range(min(int(text), MAX_SEEDS + 1)))
    elif re.fullmatch(r"\d{1,9}(,\d{1,9})+", text):
        seeds = [int(number) for number in text.split(",")]
        if len(set(seeds)) < len(seeds):
            raise ConfigError(bad_value("--seeds", text, "each seed once", "has a seed twice"))
    if not 0 < len(seeds) <= MAX_SEEDS:
        raise ConfigError(bad_value("--seeds", text, f"a number such as 5, 0..4, or 0,2,5; at most {MAX_SEEDS} seeds"))
    return seeds


@dataclass
class SeedProcess:
    """A process that trains a seed."""

    process: subprocess.Popen[bytes]
    seed: int
    cores: Sequence[int]
    output: BinaryIO
    rest: bytes = b""
    """Begin of a line of its output."""


class SeedExecutor(LocalExecutor):
    """Processes with an equal share of the cores each; their output is printed as it comes.

    `program` has the words that start `train.py`, without flags.
    """

    def __init__(self, program: Sequence[str], jobs: int) -> None:
        super().__init__(jobs, program)
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._free: list[Sequence[int]] = [cores[job::jobs] for job in range(jobs)]
        self.runs: dict[int, str] = {}
        """Seed → run directory."""
        self.failed: dict[int, int] = {}
        """Seed → exit code of the processes that have ended with another than 0."""

    def submit(self, job: Job) -> SeedProcess:
        """Start the process of the seed that the name of the log has."""
        share = self._free.pop()
        process = start(self.program, job, max(1, len(share)) if self.jobs > 1 else None, **SEPARATE)
        if self.jobs > 1 and share:
            os.sched_setaffinity(process.pid, share)
        return SeedProcess(process, int(job.log.stem), share, job.log.open("rb"))

    def poll(self, handle: SeedProcess) -> int | None:
        """Print the new lines of the output of a process; return its exit code, or None while it is executing."""
        code = handle.process.poll()
        *lines, handle.rest = (handle.rest + handle.output.read()).split(b"\n")
        if code is not None and handle.rest:
            lines.append(handle.rest)
        for text in (line.decode(errors="replace").rstrip() for line in lines):
            if text.startswith("run: "):
                self.runs[handle.seed] = text.removeprefix("run: ")
            else:
                print_message(f"seed {handle.seed}: {text}")
        if code is not None:
            handle.output.close()
            self._free.append(handle.cores)
            if code:
                self.failed[handle.seed] = code
        return code

    def stop(self, handle: SeedProcess) -> None:
        """Request that a process stops with a checkpoint."""
        super().stop(handle.process)


def train_seeds(
    program: Sequence[str], words: Sequence[str], seeds: Sequence[int], jobs: int, imports: Sequence[str] = ()
) -> None:
    """Train a setting, which the flags `words` describe, with several seeds, `jobs` at a time.

    `imports` are the modules among the words, which the command that resumes the runs needs again.

    Raises:
        InterruptedRunError: A signal has stopped the runs; their checkpoints are saved.
        RunError: A run has failed.
    """
    _train(program, {seed: [*words, "--seed", str(seed)] for seed in seeds}, jobs, None, _import_flags(imports))


def _import_flags(modules: Sequence[str]) -> list[str]:
    """Return the flags that import modules: a config alone imports none."""
    return [word for module in modules for word in ("--import", module)]


def resume_seeds(
    program: Sequence[str],
    setting: Path,
    seeds: Sequence[int] | None,
    jobs: int,
    steps: int | None = None,
    imports: Sequence[str] = (),
) -> None:
    """Continue the stopped runs of a setting, and start those of `seeds` that are missing; or extend all to `steps`.

    `program` has the words that start `train.py`, without flags. Without seeds they are those that the setting has.
    Each run imports the modules `imports`.

    Raises:
        ConfigError: The folder has no run, a seed to extend has none, or a new run would be one of another setting.
        InterruptedRunError: A signal has stopped the runs; their checkpoints are saved.
        RunError: A run has failed.
    """
    found = find_runs(setting)
    records = {record.seed: record for record in found if record.setting == str(setting)}
    if not records:
        allowed = sorted({record.setting for record in found}) or "a run, or a setting with runs"
        why = "is a folder above settings" if found else "has no runs"
        raise ConfigError(bad_value("--resume", str(setting), allowed, why))
    folder = setting.resolve()  # its parents are folders, also of `..`
    digest = folder.name.rpartition("-")[2]  # that of the config changes when a run is extended
    origin = next((record for record in records.values() if record.config_hash == digest), None)
    logdir = str(folder.parents[3])  # LOGDIR/TASK/ROBOT/ALGO/SETTING; that of the config may be relative
    commands: dict[int, Sequence[str]] = {}
    flags = [*([] if steps is None else ["--steps", str(steps)]), *_import_flags(imports)]
    for seed in seeds if seeds is not None else sorted(seed for seed in records if seed is not None):
        record = records.get(seed)
        if record is None and steps is not None:  # with other steps, the run would be one of another setting
            raise ConfigError(bad_value("--steps", steps, f"first --seeds {seed} without --steps", "extends runs"))
        if record is None:
            if origin is None:
                config = Path(next(iter(records.values())).path) / directory.CONFIG
                allowed = f"a seed of {[*records]}; or --config {config} --seed {seed}"
                why = f"would be a run of another setting: those of {setting} were extended, or the folder was renamed"
                raise ConfigError(bad_value("--seeds", seed, allowed, why))
            config = Path(origin.path) / directory.CONFIG
            commands[seed] = ["--config", str(config), "--seed", str(seed), "--logdir", logdir, *flags]
        elif record.status in RESUMED or (steps is not None and record.status == "done" and record.steps < steps):
            commands[seed] = ["--resume", record.path, *flags]
    _train(program, commands, jobs, setting, flags)


def _train(
    program: Sequence[str],
    commands: Mapping[int, Sequence[str]],
    jobs: int,
    setting: Path | None,
    resume_flags: Sequence[str],
) -> None:
    executor, stopped = SeedExecutor(program, jobs), False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as logs:
        queue = [Job(partial(tuple, words), Path(logs, f"{seed}.log")) for seed, words in commands.items()]
        try:
            execute(executor, queue, lambda index: None, "")
        except InterruptedRunError:
            stopped = True
    folder = setting or next((Path(run).parent for run in executor.runs.values()), None)
    if folder is None:
        refused = set(executor.failed.values()) == {ConfigError.exit_code}
        raise (ConfigError if refused else RunError)("no run has begun")
    if summary := summary_in_words(folder):
        print_message(summary)
    print(f"runs: {folder}")
    if stopped:
        words = ["--resume", str(folder), "--seeds", ",".join(map(str, commands)), *resume_flags]
        raise InterruptedRunError(f"interrupted; go on with: python train.py {shlex.join(words)}")
    if executor.failed:
        failed = ", ".join(map(str, sorted(executor.failed)))
        raise RunError(f"the runs with the seeds {failed} have failed")


TIMED_STEPS = 200
"""Number of timed control steps."""


def compact(space: spaces.Space[Any]) -> str:
    """Return a description of a space in one line, even if its bounds differ."""
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{name}: {compact(subspace)}' for name, subspace in space.items())})"
    if isinstance(space, spaces.Box) and np.unique(space.high).size > 1:
        low, high = (f"{bound.min():g} to {bound.max():g}" for bound in (space.low, space.high))
        return f"Box({low}, {high}, {space.shape}, {space.dtype})"
    return str(space)


def dry_run(plan: RunPlan) -> None:
    """Print spaces, network sizes and the time of one step."""
    from mygym.api import print_notes
    from mygym.strategies.requirements import prepare_run
    from mygym.training.env_factory import make_vec_env
    from mygym.training.model_factory import buffer_bytes, build_model
    from mygym.training.policy import parameter_counts
    from mygym.training.pretrained import load_pretrained

    with contextlib.closing(make_vec_env(plan)) as env:
        model = build_model(plan, env)
        load_pretrained(plan, model, env)
        prepare_run(plan, env, model)  # raises if a teacher or a dataset does not fit
        print_notes(plan, model)
        print(f"observation: {compact(env.observation_space)}")
        slices = env.get_attr("components")[0].items()
        if slices:
            print(f"observed: {', '.join(f'{name} {columns.stop - columns.start}' for name, columns in slices)}")
        print(f"action: {compact(env.action_space)}")
        print(f"algorithm: {type(model).__name__} from {type(model).__module__}")
        for name, count in parameter_counts(model).items():
            print(f"network {name}: {count:,} parameters")
        size, rows = buffer_bytes(model)
        if rows:
            memory = f"memory: {size / 1e6:,.1f} MB for {rows:,} steps in the buffer of the algorithm"
            end = getattr(model.replay_buffer, "end_bytes", 0)
            print(memory + (f", and {end / 1e3:,.1f} kB for the last observation of each episode" if end else ""))
        env.reset()
        env.action_space.seed(plan.config.seed)
        actions = [np.array([env.action_space.sample() for _ in range(env.num_envs)]) for _ in range(TIMED_STEPS)]
        begin = time.perf_counter()
        for action in actions:
            env.step(action)
        seconds = (time.perf_counter() - begin) / TIMED_STEPS
        each = f" in each of {plan.config.learners} learners" if plan.config.learners > 1 else ""
        duration = f"{1e6 * seconds:.0f} µs, {env.num_envs / seconds:,.0f} env steps/s"
        print(f"step of {env.num_envs} environment(s){each}: {duration}")


ENGINE_KEYS = ("engine", "steps", "n_envs", "learners", "algo_params")
"""Keys of a fused run whose values do not suit PyBullet, where the defaults of the algorithm apply."""

POLICY_KEYS = ("policy", "policy_kwargs", "gamma")
"""Hyperparameters that the weights of a policy and a critic depend on."""


@command(
    "train.py",
    argument("-h", "--help", action="store_true", help="print this help; with --algo also its hyperparameters"),
    argument("--resume", metavar="RUN", help="continue a run that was stopped, or extend it with more --steps"),
    argument("--network-of", metavar="RUN", help="train the network that a mixture run has selected, from scratch"),
    argument(
        "--seeds", metavar="SEEDS", help="train several seeds: 5 (0 to 4), 0..4, or 0,2,5; with --resume SETTING too"
    ),
    count("--jobs", "with --seeds: processes side by side (default 1)"),
    count("--finetune-steps", "with an engine such as fused: then train the policy for N env steps in PyBullet"),
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
python train.py --resume runs/reach/panda/ppo/1a2b3c4d --steps 200000    extends all runs of the setting
""",
    notes="""
`mygym train` is the same program. The last line printed is `run: PATH`; PATH/config.yaml repeats the run.
Ctrl-C, SIGTERM and SIGHUP save a checkpoint and stop; --resume continues from the newest checkpoint, also after a
crash, and ends with the same weights as a run without a stop. Keys that may change then: steps, stop_at_success, eval,
checkpoint, video, tensorboard, env_processes.
""",
)
def train(options: argparse.Namespace, train: Callable[..., Result] | None = None) -> None:
    """Train a robot arm; save, evaluate and record videos of the policy.

    `train` is the function that trains a run, by default `mygym.train`.
    """
    if hosts.is_other():
        from mygym.training.learners import train_share

        hosts.serve(train_share)
        return
    with hosts.main_process():
        _run(options, train)


def _run(options: argparse.Namespace, train: Callable[..., Result] | None) -> None:
    if train is not None:
        register_dictionary(sys.modules[train.__module__])
    if options.help:
        _print_help(options)
        return
    seeds = options.seeds
    if options.seed and not seeds and ("," in options.seed or ".." in options.seed):
        seeds, options.seed = options.seed, None
    numbers = parse_seeds(seeds) if seeds else None
    if numbers and (options.seed is not None or "seed" in parse_overrides(options.set)):
        raise ConfigError(bad_value("--seeds", seeds, "--seeds alone, or one seed without it", "excludes one seed"))
    program = [sys.executable, *([sys.argv[0]] if train else ["-m", "mygym", "train"])]
    jobs = options.jobs or 1
    if options.resume and (numbers or not is_run(Path(options.resume))) and Path(options.resume).is_dir():
        if words := _without(options.words, "--resume", "--seeds", "--seed", "--jobs", "--steps", "--import"):
            why = "cannot be combined with --resume SETTING"
            raise ConfigError(bad_value("train.py", words[0], "--seeds, --seed, --jobs, --steps and --import", why))
        if options.seed is not None:
            numbers = [parse_seed(options.seed)]
        steps = parse_count(options.steps, "--steps") if options.steps else None
        resume_seeds(program, Path(options.resume), numbers, jobs, steps, options.imports)
        return
    if options.jobs and not numbers:
        raise ConfigError(
            bad_value("--jobs", options.jobs, "--seeds or --resume SETTING beside it", "is for several runs")
        )
    if hosts.size() is not None:
        if numbers:
            raise ConfigError(
                bad_value("--seeds", seeds, "a run for each torchrun", "cannot be combined with torchrun")
            )
        options.learners = options.learners or str(hosts.size())
    file, flags = config_layers(options)
    file_origin = "file"
    if options.network_of:
        for flag in ("config", "resume"):
            if getattr(options, flag):
                allowed = "--network-of alone: the config is that of RUN"
                raise ConfigError(bad_value(f"--{flag}", getattr(options, flag), allowed, "excludes --network-of"))
        from mygym.api import network_of

        file, file_origin = network_of(options.network_of), f"network of {options.network_of}"
    chosen = chosen_flag(options, "explain", "dry_run", "gui")
    if options.resume and chosen in ("explain", "dry_run"):
        allowed = "--config RUN/config.yaml in place of --resume RUN"
        raise ConfigError(bad_value("train.py", f"--{chosen.replace('_', '-')}", allowed, "is for new runs"))

    from mygym.planning.plan import make_plan

    plan = None if options.resume else make_plan(file, flags, file_origin=file_origin)
    if plan and options.network_of:
        print_message(f"{file_origin}: net_arch {plan.config.algo_params['policy_kwargs']['net_arch']}")
    finetuning = _finetuning(options, plan, file, flags)
    if plan and chosen == "explain":
        from mygym.training.model_factory import explained

        explain(explained(plan))
    elif plan and chosen == "dry_run":
        dry_run(plan)
    elif plan and numbers:
        from mygym.training.env_factory import try_worlds

        try_worlds(plan)  # else each process would fail
        words = _without(options.words, "--seeds", "--seed", "--jobs")
        train_seeds(program, words, numbers, jobs, options.imports)
    else:
        from mygym import api

        flags.pop("imports", None)  # the config of the run names them
        train = train or api.train
        window: dict[str, Any] = {"gui": True} if options.gui else {}  # a copy of train.py may lack the parameter
        try:
            result = train(plan or merge_configs(file, flags), resume=options.resume, **window)
            _print_result(result)
            if finetuning:
                _print_result(train({**finetuning, "pretrained": str(result.path)}, resume=None, **window))
        except MygymError as error:
            if error.run is not None:
                print(f"run: {error.run}", flush=True)
            raise


def _finetuning(options: argparse.Namespace, plan: RunPlan | None, *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of the run that trains a policy on in the engine that judges it; empty without the flag."""
    if options.finetune_steps is None:
        return {}

    if plan is None or judge_of(plan.config.engine) == plan.config.engine:
        needed = "needs an engine that another one judges, such as fused"
        why = "cannot be combined with --resume" if plan is None else f"{needed}, not {plan.config.engine}"
        raise ConfigError(bad_value("--finetune-steps", options.finetune_steps, "a new run with --engine fused", why))
    from mygym.planning.plan import make_plan

    kept = {key: value for key, value in merge_configs(*layers).items() if key not in ENGINE_KEYS}
    params = {key: plan.config.algo_params[key] for key in POLICY_KEYS if key in plan.config.algo_params}
    config = {**kept, "algo": plan.config.algo, "algo_params": params, "normalize": plan.config.normalize}
    config |= {"reward": plan.config.reward, "engine": judge_of(plan.config.engine), "steps": options.finetune_steps}
    make_plan(config)  # shows a mistake before the first training
    return config


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


def _print_result(result: Result) -> None:
    from mygym.training.run_callbacks import outcome_texts

    cost = f"{result.steps:,} steps, {result.wall_time_s:.1f} s"
    success = f"success {result.success_rate:.1%} of fresh episodes after {cost}"
    by_task = ", ".join(f"{task} {rate:.0%}" for task, rate in result.success_by_task.items())
    print_message("; ".join(filter(None, (success, by_task, *outcome_texts(result.strategy)))))
    print(f"run: {result.path}")


def _print_help(options: argparse.Namespace) -> None:
    """Print the flags, and the parameters of the algorithm and the strategies, with the values that the run takes."""
    print(train.format_help())
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
    from mygym.planning.plan import make_plan
    from mygym.planning.strategies import sections

    resolved = make_plan(file, flags).resolved
    entry = algorithm(resolved.config.algo, resolved.config.framework)
    tables = [
        (f"algo_params of {entry.name} ({entry.framework})", "algo_params", hyperparameter_rows(entry)),
        (f"training_params of {entry.name} ({entry.framework})", "training_params", training_rows(entry)),
        *(
            (f"strategy_params of {name}", section, strategy_rows(name))
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
    from mygym.robotics.controllers import find_controller

    name = find_controller(flag_value("control", control)).config.name
    print(f"control of {name}: --set control.NAME=VALUE")
    print_table(controller_rows(name))


def explain(resolved: Resolved) -> None:
    """Print one line for each value: key, value, origin."""
    rows = [(key, json.dumps(value), origin) for key, value, origin in resolved.rows()]
    key_width = max(len(key) for key, _, _ in rows)
    value_width = min(40, max(len(text) for _, text, _ in rows))
    for key, text, origin in rows:
        print(f"{key:<{key_width}}  {text:<{value_width}}  {origin}")
