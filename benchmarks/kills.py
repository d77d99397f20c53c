"""Compare runs that are killed at random times and resumed with uninterrupted runs, bit by bit.

    python benchmarks/kills.py > benchmarks/results/kills.md

Each case is trained once without interruption. It is then trained again and killed with SIGKILL at a random time within
the duration of the first run, which includes building, evaluations and the video; `--resume` continues it; every second
run is killed twice. Compared at the end: weights, optimisers, replay buffer, normaliser and random generators of the
last checkpoint, the policies, model.zip, progress.jsonl, monitor.csv, TensorBoard events and result.json, all without
times. Both sides run `train.py` in a process that is forked from a process with all imports.
"""

from __future__ import annotations

import argparse
import csv
import gc
import hashlib
import io
import json
import multiprocessing
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]

SMALL: Mapping[str, Mapping[str, Any]] = {
    "ppo": {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "policy_kwargs": {"net_arch": [16]}},
    "sac": {"batch_size": 32, "gradient_steps": 1, "policy_kwargs": {"net_arch": [16]}},
    "tqc": {"batch_size": 32, "gradient_steps": 1, "policy_kwargs": {"net_arch": [16]}},
    "recurrent_ppo": {
        "n_steps": 32,
        "batch_size": 32,
        "n_epochs": 2,
        "policy_kwargs": {"net_arch": [16], "lstm_hidden_size": 8},
    },
    "td3": {"batch_size": 32, "gradient_steps": 2, "policy_kwargs": {"net_arch": [16]}, "action_noise": 0.1},
    "ddpg": {"batch_size": 32, "gradient_steps": 2, "policy_kwargs": {"net_arch": [16]}, "action_noise": 0.1},
    "crossq": {"batch_size": 32, "gradient_steps": 3, "policy_kwargs": {"net_arch": [16]}},
    "myalgo": {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "policy_kwargs": {"net_arch": [16]}},
}
"""Algorithms with small networks; `sac` and `tqc` use hindsight, `myalgo` is from `algos/`."""

SIDES = {"1": (1, False), "3": (3, False), "2 processes": (2, True)}
"""Name → number of environments, and whether each environment runs in a process."""


@dataclass(frozen=True)
class Case:
    """Short run of an algorithm."""

    algo: str
    side: str
    """Key of `SIDES`."""
    video: bool = False
    seed: int = 0
    framework: str = "pytorch"

    def __str__(self) -> str:
        return f"{self.algo}{'' if self.framework == 'pytorch' else f' of {self.framework}'}, {self.side}"

    def config(self, logdir: Path) -> dict[str, Any]:
        """Return the config of the run."""
        n_envs, processes = SIDES[self.side]
        return {
            "algo": self.algo,
            "framework": self.framework,
            "algo_params": dict(SMALL[self.algo]),
            "task_params": {"horizon": 20},
            "reward": "dense",
            "her": self.algo in ("sac", "tqc"),
            "steps": 360,
            "n_envs": n_envs,
            "env_processes": processes,
            "seed": self.seed,
            "stop_at_success": None,
            "eval": {"every": 120, "episodes": 2, "final_episodes": 2},
            "checkpoint": {"every": 50, "keep": 2},
            "video": {"episodes": int(self.video), "width": 64, "height": 48},
            "logdir": str(logdir),
        }


CASES = (
    *(
        Case(algo, side, video=side == "1")
        for algo in ("ppo", "sac", "tqc", "recurrent_ppo", "myalgo")
        for side in SIDES
    ),
    *(
        Case(algo, side, framework="jax")
        for algo, side in zip(("ppo", "sac", "tqc", "td3", "ddpg", "crossq"), [*SIDES, *SIDES], strict=True)
    ),
)


def _train(arguments: Sequence[str], folder: str) -> None:
    """Run `train.py` in the child process, with its output in files."""
    gc.freeze()  # otherwise the first garbage collection copies all memory that is shared with the parent
    os.chdir(ROOT)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
    from mygym.cli.main import run

    run("train", arguments)


class Trainer:
    """Starts `train.py` in processes that have already imported torch.

    Args:
        jax: Whether they have also imported JAX, which takes seconds.
    """

    def __init__(self, jax: bool = True) -> None:
        self.context = multiprocessing.get_context("forkserver")
        imported = ["mygym.api", "mygym.training.session", "sb3_contrib", "torch._dynamo", *(["sbx"] if jax else [])]
        self.context.set_forkserver_preload(imported)

    def start(self, arguments: Sequence[str], folder: Path) -> Any:
        """Start a process that runs `train.py ARGUMENTS`."""
        process = self.context.Process(target=_train, args=(list(arguments), str(folder)))
        process.start()
        return process

    def run(self, arguments: Sequence[str], folder: Path) -> float:
        """Run `train.py` to its end and return the seconds.

        Raises:
            RuntimeError: `train.py` failed.
        """
        start = time.perf_counter()
        process = self.start(arguments, folder)
        process.join()
        if process.exitcode:
            raise RuntimeError(f"train.py {' '.join(arguments)} ended with {process.exitcode}: {_error_output(folder)}")
        return time.perf_counter() - start


def _error_output(folder: Path) -> str:
    return (folder / "err").read_text(errors="replace")[-2000:] if (folder / "err").exists() else ""


def find_run(logdir: Path) -> Path | None:
    """Return the only run in `logdir`, or None if its directory does not exist yet."""
    return next((path.parent for path in logdir.glob("*/*/*/*/*/config.yaml")), None)


def uninterrupted(trainer: Trainer, case: Case, folder: Path) -> tuple[Path, float]:
    """Train `case` without interruption; return the run and its seconds."""
    logdir = folder / "runs"
    file = folder / "config.json"
    file.write_text(json.dumps(case.config(logdir)))
    seconds = trainer.run(["--config", str(file)], folder)
    run = find_run(logdir)
    assert run is not None
    return run, seconds


def killed(trainer: Trainer, case: Case, folder: Path, delays: Sequence[float]) -> tuple[Path, list[str]]:
    """Train `case`, kill it after each of `delays` seconds, and resume it to its end.

    If the first delay exceeds the duration, it is halved and a new run begins; later delays that do so end the kills.

    Returns:
        The run and, for each kill, the phase of the run.
    """
    logdir = folder / "runs"
    file = folder / "config.json"
    file.write_text(json.dumps(case.config(logdir)))

    def arguments() -> list[str]:
        run = find_run(logdir)
        return ["--resume", str(run)] if run else ["--config", str(file)]

    reached: list[str] = []
    waiting = list(delays)
    while waiting:
        process = trainer.start(arguments(), folder)
        process.join(waiting[0])
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            reached.append(_phase(find_run(logdir)))
            del waiting[0]
        elif reached:
            break
        else:
            shutil.rmtree(logdir)
            waiting[0] /= 2
    if find_run(logdir) is None:
        shutil.rmtree(logdir, ignore_errors=True)  # folders without a run
    trainer.run(arguments(), folder)
    run = find_run(logdir)
    assert run is not None
    return run, reached


def _phase(run: Path | None) -> str:
    if run is None:
        return "building"
    if (run / "result.json").exists():
        return "leaving"
    if (run / "policy.safetensors").exists():
        return "final evaluation or video"
    if any((run / "checkpoints").glob(".*")):
        return "writing a checkpoint"
    return "learning, after a checkpoint" if any((run / "checkpoints").glob("step_*")) else "before a checkpoint"


def contents(run: Path) -> dict[str, Any]:
    """Return the contents that must be equal in two runs of the same config."""
    import torch
    from safetensors.torch import load_file
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    from mygym.training.checkpoints.checkpoints import Checkpoints
    from mygym.training.checkpoints.serialization import to_files
    from mygym.training.logs import events_file

    def timeless(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if not key.startswith("time/") and key != "wall_time_s"}

    checkpoint = Checkpoints(run, keep=1).newest(lambda message: None)
    assert checkpoint is not None
    state = {key: value for key, value in checkpoint.state.items() if key not in ("config", "seconds")}
    state["callbacks"]["evaluations"]["seconds"] = None
    for record in state["callbacks"]["evaluations"]["records"]:
        del record["wall_time_s"]
    others = state["callbacks"].get("workers", {}).get("processes", [])
    for process in (state, *others):
        for episode in process["algorithm"]["attributes"]["ep_info_buffer"]:
            episode.pop("t", None)
    state["logger"]["values"] = timeless(state["logger"]["values"])
    content: dict[str, Any] = {
        "checkpoint": to_files({"state": state, "replay": checkpoint.replay}),
        "replay buffer": _rows(run, checkpoint),
        "progress": [timeless(json.loads(line)) for line in (run / "progress.jsonl").read_text().splitlines()],
    }
    for name in ("policy", "best_policy"):
        content[name] = {key: value.numpy().tobytes() for key, value in load_file(run / f"{name}.safetensors").items()}
    with zipfile.ZipFile(run / "model.zip") as archive:
        for name in ("policy.pth", "policy.optimizer.pth", "actor.optimizer.pth", "critic.optimizer.pth"):
            if name in archive.namelist():
                state_dict = torch.load(io.BytesIO(archive.read(name)), weights_only=True)
                content[name] = to_files(state_dict)
    lines = (run / "monitor.csv").read_text().splitlines()[1:]
    content["monitor"] = [{k: v for k, v in row.items() if k != "t"} for row in csv.DictReader(lines)]
    content["events"] = [
        (event.step, value.tag, value.tensor.SerializeToString())
        for event in EventFileLoader(str(events_file(run / "tensorboard"))).Load()
        for value in event.summary.value
        if not value.tag.startswith(("time/", "config/", "_hparams_/"))  # the config has another logdir
    ]
    result = json.loads((run / "result.json").read_text())
    result["evaluations"] = [timeless(record) for record in result["evaluations"]]
    reached = result["time_to_threshold"]
    result["time_to_threshold"] = {key: value and value["steps"] for key, value in reached.items()}
    content["result"] = {key: value for key, value in timeless(result).items() if key != "steps_per_second"}
    return content


def _rows(run: Path, checkpoint: Any) -> dict[str, str]:
    """Return the checksum of each array of the replay buffer, whose chunk boundaries depend on the kills."""
    from safetensors.numpy import load_file

    chunks = [load_file(run / "checkpoints" / "replay" / chunk["file"]) for chunk in checkpoint.chunks]
    checksums = {}
    for name in {name for chunk in chunks for name in chunk}:
        rows = np.concatenate([chunk[name] for chunk in chunks])[-checkpoint.replay["size"] :]
        checksums[name] = hashlib.sha256(rows.tobytes()).hexdigest()
    return checksums


def differences(first: Path, second: Path) -> list[str]:
    """Return the names of the contents in which two runs differ."""
    a, b = contents(first), contents(second)
    return sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="number of kills over all cases (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the times (default 0)")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    trainer = Trainer()
    phases: dict[str, int] = {}
    rows: dict[Case, list[int]] = {case: [0, 0, 0] for case in CASES}
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        references = {}
        for case in CASES:
            folder = top / str(case)
            folder.mkdir()
            references[case] = uninterrupted(trainer, case, folder)
        done = number = 0
        while done < options.kills:
            case = CASES[number % len(CASES)]
            run, seconds = references[case]
            delays = [rng.uniform(0, seconds) for _ in range(min(1 + number % 2, options.kills - done))]
            folder = top / f"killed_{number}"
            folder.mkdir()
            other, reached = killed(trainer, case, folder, delays)
            unequal = differences(run, other)
            rows[case][0] += 1
            rows[case][1] += len(reached)
            rows[case][2] += not unequal
            for phase in reached:
                phases[phase] = phases.get(phase, 0) + 1
            message = f"{case}: killed {', '.join(reached)}; {unequal or 'equal'}"
            print(message, file=sys.stderr, flush=True)
            done, number = done + len(reached), number + 1
            shutil.rmtree(folder)
    _print(rows, phases, options)


def _print(rows: Mapping[Case, Sequence[int]], phases: Mapping[str, int], options: argparse.Namespace) -> None:
    runs, kills, equal = (sum(row[index] for row in rows.values()) for index in range(3))
    print("# Killed and resumed\n")
    print(f"{equal} of {runs} runs, which were killed {kills} times, ended bit-identical to the uninterrupted run.\n")
    print("| algorithm | framework | environments | runs | kills | equal |\n|---|---|---|---|---|---|")
    for case, (count, times, same) in rows.items():
        print(f"| {case.algo} | {case.framework} | {case.side} | {count} | {times} | {same} |")
    print("\n| killed while | kills |\n|---|---|")
    for phase, count in sorted(phases.items()):
        print(f"| {phase} | {count} |")
    packages = versions_in_words("torch", "stable-baselines3", "jax", "sbx-rl", "pybullet")
    print(f"\nMade by `python benchmarks/kills.py --kills {options.kills} --seed {options.seed}`; ", end="")
    print(f"Python {platform.python_version()}, {packages}, {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
