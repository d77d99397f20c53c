"""`mygym export` and `run`: write a run for other programs, and play an exported policy without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mygym.cli.command import FORCE, JSON, TRUST, argument, check_output, command, count, parse_seed
from mygym.cli.output import print_json
from mygym.errors import ConfigError, bad_value, print_message
from mygym.exporting.exported_policy import FORMATS
from mygym.training.directory import find_policy

SUFFIXES = {**FORMATS, "zoo": ".yml", "envhub": ".py"}
"""Format → suffix of its files."""


@command(
    "mygym export",
    argument("run", metavar="RUN", help="a run directory, or a best_policy.safetensors or model.zip in it"),
    argument(
        "--format",
        metavar="F",
        help="onnx (default), or pt2: the policy, as a file that does not need mygym; zoo: an entry of RL Zoo's "
        "hyperparams; envhub: the env.py of a repository for LeRobot's EnvHub, also of a dataset of `mygym demos`",
    ),
    argument(
        "-o",
        "--out",
        metavar="FILE",
        help="the file (default policy.onnx, or another name by format, in the run directory); its suffix also "
        "selects the format",
    ),
    FORCE,
    TRUST,
    examples="""
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0 -o reach.onnx
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0 --format pt2
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0/best_policy.safetensors -o best.onnx --force
mygym export runs/reach/panda/sac/1a2b3c4d/seed_0 --format zoo -o hyperparams/sac.yml
mygym export demos/lerobot --format envhub -o repository/env.py
""",
    notes="""
The graph holds normaliser, network and action scaling: its inputs are the raw arrays of the observation by key. The
file is kept if its actions in seeded episodes are those of the policy. `mygym run FILE` plays it.
""",
)
def export(options: argparse.Namespace) -> None:
    """Write a run for other programs: its policy, verified, or its hyperparameters, or its environment."""
    suffix = Path(options.out or "").suffix
    format = options.format or next((name for name, ending in SUFFIXES.items() if ending == suffix), "onnx")
    if format not in SUFFIXES:
        raise ConfigError(bad_value("--format", format, SUFFIXES))
    out = Path(options.out) if options.out else None
    if out:
        check_output(out, "--out", [SUFFIXES[format]], options.force)
    file = (_export_policy if format in FORMATS else _export_text)(options, format, out)
    print(f"file: {file} ({file.stat().st_size / 1000:.0f} kB)")


def _export_policy(options: argparse.Namespace, format: str, out: Path | None) -> Path:
    """Write the policy, and return the path of its file."""
    from mygym.exporting.export import default_path, export

    path = out or default_path(find_policy(options.run)[0], format)
    check_output(path, "--out", [FORMATS[format]], options.force)
    exported = export(options.run, path, trust=options.trust)
    print(f"largest difference {exported.difference:.1e} in {exported.observations} observations")
    return path


def _export_text(options: argparse.Namespace, format: str, out: Path | None) -> Path:
    """Write an entry of RL Zoo or an `env.py`, print its notes, and return the path of the file."""
    from mygym.exporting import envhub, zoo
    from mygym.training.loading import plan_of_run

    folder = Path(options.run) if format == "envhub" else find_policy(options.run)[0]
    plan = envhub.plan_of_source(folder) if format == "envhub" else plan_of_run(folder)
    path = out or folder / (envhub.NAME if format == "envhub" else f"{zoo.zoo_name(plan)}.yml")
    check_output(path, "--out", [SUFFIXES[format]], options.force)
    for note in (envhub.write_env if format == "envhub" else zoo.write_entry)(plan, path):
        print_message(note)
    return path


@command(
    "mygym run",
    argument("file", metavar="FILE", help="a file that `mygym export` has written"),
    count("--episodes", "number of episodes", 100),
    argument("--seed", type=parse_seed, metavar="S", default=0, help="seed of the episodes (default 0)"),
    argument("--gui", action="store_true", help="play in a window, whose sliders move the goal"),
    argument("--trust", action="store_true", help="a .pt2 file, or a file that names modules: both can run any code"),
    JSON,
    examples="""
mygym run reach.onnx
mygym run reach.onnx --episodes 500 --seed 1
mygym run reach.onnx --gui
mygym run reach.onnx --json
""",
    notes="""
`mygym evaluate RUN` plays the same episodes. The latency is that of the policy for a single observation, in Python.
""",
)
def run(options: argparse.Namespace) -> None:
    """Play an exported policy in PyBullet, an ONNX file with numpy and onnxruntime alone, and measure its latency."""
    from mygym.exporting.playing import play
    from mygym.reporting.statistics import success_interval

    evaluation, latencies = play(options.file, options.episodes, options.seed, options.gui, trust=options.trust)
    median, highest = (1e6 * np.percentile(latencies, [50, 99])).tolist()
    interval = success_interval(evaluation.solved, len(evaluation.episodes))
    if options.json:
        latency = {"median": median, "percentile_99": highest}
        print_json({**evaluation.summary(), "interval": list(interval), "latency_us": latency})
        return
    print(f"episodes      {len(evaluation.episodes)}")
    print(f"success_rate  {evaluation.success_rate:.1%} (95 %: {interval.low:.1%} to {interval.high:.1%})")
    print(f"latency       median {median:.0f} µs, 99 % {highest:.0f} µs")
