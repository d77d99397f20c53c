"""Runs that are killed at random moments and resumed, against runs that never stopped: the same to the bit?

    python benchmarks/kills.py > benchmarks/results/kills.md

Each case is trained once without a stop. Then it is trained again and killed with SIGKILL at a moment drawn from the
whole time that the first took, building, evaluations and the film included; `--resume` goes on; every second run is
killed a second time. Compared at the end: weights, optimisers, replay buffer, normaliser and random generators of the
last checkpoint, the three policies, model.zip, progress.jsonl, monitor.csv, TensorBoard's events and result.json; all
but what tells the time. Both sides are `train.py`'s own code in a process forked from one that has imported it.
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
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

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
"""Algorithms, with networks that are quick; `sac` and `tqc` with hindsight, `myalgo` from `algos/`."""

SIDES = {"1": (1, False), "3": (3, False), "2 workers": (2, True)}
"""Environments: how many, and whether each has a process of its own."""


@dataclass(frozen=True)
class Case:
    """A short run."""

    algo: str
    side: str
    """Which of `SIDES`."""
    film: bool = False
    seed: int = 0
    framework: str = "pytorch"

    def __str__(self) -> str:
        return f"{self.algo}{'' if self.framework == 'pytorch' else f' of {self.framework}'}, {self.side}"

    def config(self, logdir: Path) -> dict[str, Any]:
        """Its config."""
        n_envs, workers = SIDES[self.side]
        return {
            "algo": self.algo,
            "framework": self.framework,
            "algo_params": dict(SMALL[self.algo]),
            "task_params": {"horizon": 20},
            "reward": "dense",
            "her": self.algo in ("sac", "tqc"),
            "steps": 360,
            "n_envs": n_envs,
            "subprocesses": workers,
            "seed": self.seed,
            "stop_at_success": None,
            "eval": {"every": 120, "episodes": 2, "final_episodes": 2},
            "checkpoint": {"every": 50, "keep": 2},
            "video": {"episodes": int(self.film), "width": 64, "height": 48},
            "logdir": str(logdir),
        }


CASES = (
    *(
        Case(algo, side, film=side == "1")
        for algo in ("ppo", "sac", "tqc", "recurrent_ppo", "myalgo")
        for side in SIDES
    ),
    *(
        Case(algo, side, framework="jax")
        for algo, side in zip(("ppo", "sac", "tqc", "td3", "ddpg", "crossq"), [*SIDES, *SIDES], strict=True)
    ),
)


def _train(arguments: Sequence[str], folder: str) -> None:
    """In the child: `train.py` in the repository, its words into files."""
    gc.freeze()  # else its first collection of garbage touches, and so copies, all that the parent has imported
    os.chdir(ROOT)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
    from mygym.cli.main import run

    run("train", arguments)


class Trainer:
    """Starts `train.py` in processes that need not import torch again."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["mygym.api", "mygym.runs.session", "sb3_contrib", "torch._dynamo", "sbx"])

    def start(self, arguments: Sequence[str], folder: Path) -> Any:
        """A process that runs `train.py ARGUMENTS`."""
        process = self.context.Process(target=_train, args=(list(arguments), str(folder)))
        process.start()
        return process

    def run(self, arguments: Sequence[str], folder: Path) -> float:
        """Run it to its end; returns the seconds.

        Raises:
            RuntimeError: It failed.
        """
        begin = time.perf_counter()
        process = self.start(arguments, folder)
        process.join()
        if process.exitcode:
            raise RuntimeError(f"train.py {' '.join(arguments)} ended with {process.exitcode}: {_words(folder)}")
        return time.perf_counter() - begin


def _words(folder: Path) -> str:
    return (folder / "err").read_text(errors="replace")[-2000:] if (folder / "err").exists() else ""


def find_run(logdir: Path) -> Path | None:
    """The only run in `logdir`, if it has come so far."""
    return next((path.parent for path in logdir.glob("*/*/*/*/*/config.yaml")), None)


def never_stopped(trainer: Trainer, case: Case, folder: Path) -> tuple[Path, float]:
    """A run of `case` and the seconds that it took."""
    logdir = folder / "runs"
    file = folder / "config.json"
    file.write_text(json.dumps(case.config(logdir)))
    seconds = trainer.run(["--config", str(file)], folder)
    run = find_run(logdir)
    assert run is not None
    return run, seconds


def killed(trainer: Trainer, case: Case, folder: Path, moments: Sequence[float]) -> tuple[Path, list[str]]:
    """A run of `case` that is killed after each of `moments` seconds and then resumed to its end.

    A first moment that comes after the end is halved, in a new run; a later one ends the killing.

    Returns:
        The run and, for each kill, what had been reached.
    """
    logdir = folder / "runs"
    file = folder / "config.json"
    file.write_text(json.dumps(case.config(logdir)))

    def words() -> list[str]:
        run = find_run(logdir)
        return ["--resume", str(run)] if run else ["--config", str(file)]

    reached: list[str] = []
    waiting = list(moments)
    while waiting:
        process = trainer.start(words(), folder)
        process.join(waiting[0])
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            reached.append(_where(find_run(logdir)))
            del waiting[0]
        elif reached:
            break
        else:
            shutil.rmtree(logdir)
            waiting[0] /= 2
    if find_run(logdir) is None:
        shutil.rmtree(logdir, ignore_errors=True)  # folders without a run
    trainer.run(words(), folder)
    run = find_run(logdir)
    assert run is not None
    return run, reached


def _where(run: Path | None) -> str:
    if run is None:
        return "building"
    if (run / "result.json").exists():
        return "leaving"
    if (run / "policy.safetensors").exists():
        return "final evaluation or film"
    if any((run / "checkpoints").glob(".*")):
        return "writing a checkpoint"
    return "learning, after a checkpoint" if any((run / "checkpoints").glob("step_*")) else "before a checkpoint"


def contents(run: Path) -> dict[str, Any]:
    """Everything that two runs of the same config have in common, to the bit."""
    import torch
    from safetensors.torch import load_file
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    from mygym.runs.checkpoints.checkpoints import Checkpoints
    from mygym.runs.checkpoints.serialization import to_files
    from mygym.runs.logs import EVENTS

    def timeless(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if not key.startswith("time/") and key != "wall_time_s"}

    checkpoint = Checkpoints(run, keep=1).newest(lambda message: None)
    assert checkpoint is not None
    state = {key: value for key, value in checkpoint.state.items() if key not in ("config", "seconds")}
    state["callbacks"]["evaluations"]["seconds"] = None
    for record in state["callbacks"]["evaluations"]["records"]:
        del record["wall_time_s"]
    for episode in state["algorithm"]["attributes"]["ep_info_buffer"]:
        episode.pop("t", None)
    state["logger"]["values"] = timeless(state["logger"]["values"])
    found: dict[str, Any] = {
        "checkpoint": to_files({"state": state, "replay": checkpoint.replay}),
        "replay buffer": _rows(run, checkpoint),
        "progress": [timeless(json.loads(line)) for line in (run / "progress.jsonl").read_text().splitlines()],
    }
    for name in ("policy", "best_policy"):
        found[name] = {key: value.numpy().tobytes() for key, value in load_file(run / f"{name}.safetensors").items()}
    with zipfile.ZipFile(run / "model.zip") as archive:
        for name in ("policy.pth", "policy.optimizer.pth", "actor.optimizer.pth", "critic.optimizer.pth"):
            if name in archive.namelist():
                content = torch.load(io.BytesIO(archive.read(name)), weights_only=True)
                found[name] = to_files(content)
    lines = (run / "monitor.csv").read_text().splitlines()[1:]
    found["monitor"] = [{k: v for k, v in row.items() if k != "t"} for row in csv.DictReader(lines)]
    found["events"] = [
        (event.step, value.tag, value.tensor.SerializeToString())
        for event in EventFileLoader(str(run / "tensorboard" / EVENTS)).Load()
        for value in event.summary.value
        if not value.tag.startswith("time/")
    ]
    result = json.loads((run / "result.json").read_text())
    result["evaluations"] = [timeless(record) for record in result["evaluations"]]
    reached = result["time_to_threshold"]
    result["time_to_threshold"] = {key: value and value["steps"] for key, value in reached.items()}
    found["result"] = {key: value for key, value in timeless(result).items() if key != "steps_per_second"}
    return found


def _rows(run: Path, checkpoint: Any) -> dict[str, str]:
    """Checksum of each array in the replay buffer; where chunks of it begin and end depends on the kills."""
    from safetensors.numpy import load_file

    parts = [load_file(run / "checkpoints" / "replay" / chunk["file"]) for chunk in checkpoint.chunks]
    found = {}
    for name in parts[0] if parts else ():
        rows = np.concatenate([part[name] for part in parts])[-checkpoint.replay["size"] :]
        found[name] = hashlib.sha256(rows.tobytes()).hexdigest()
    return found


def differences(one: Path, other: Path) -> list[str]:
    """Names of what is not the same in two runs."""
    first, second = contents(one), contents(other)
    return sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="how many, over all cases (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default 0)")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    trainer = Trainer()
    where: dict[str, int] = {}
    rows: dict[Case, list[int]] = {case: [0, 0, 0] for case in CASES}
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        references = {}
        for case in CASES:
            folder = top / str(case)
            folder.mkdir()
            references[case] = never_stopped(trainer, case, folder)
        done = number = 0
        while done < options.kills:
            case = CASES[number % len(CASES)]
            run, seconds = references[case]
            moments = [rng.uniform(0, seconds) for _ in range(min(1 + number % 2, options.kills - done))]
            folder = top / f"killed_{number}"
            folder.mkdir()
            other, reached = killed(trainer, case, folder, moments)
            unequal = differences(run, other)
            rows[case][0] += 1
            rows[case][1] += len(reached)
            rows[case][2] += not unequal
            for place in reached:
                where[place] = where.get(place, 0) + 1
            words = f"{case}: killed {', '.join(reached)}; {unequal or 'equal'}"
            print(words, file=sys.stderr, flush=True)
            done, number = done + len(reached), number + 1
            shutil.rmtree(folder)
    _print(rows, where, options)


def _print(rows: Mapping[Case, Sequence[int]], where: Mapping[str, int], options: argparse.Namespace) -> None:
    runs, kills, equal = (sum(row[index] for row in rows.values()) for index in range(3))
    print("# Killed and resumed\n")
    print(
        f"{equal} of {runs} runs, which were killed {kills} times, ended as the run that never stopped, to the bit.\n"
    )
    print("| algorithm | framework | environments | runs | kills | equal |\n|---|---|---|---|---|---|")
    for case, (count, times, same) in rows.items():
        print(f"| {case.algo} | {case.framework} | {case.side} | {count} | {times} | {same} |")
    print("\n| killed while | kills |\n|---|---|")
    for place, count in sorted(where.items()):
        print(f"| {place} | {count} |")
    packages = ", ".join(
        f"{package} {version(package)}" for package in ("torch", "stable-baselines3", "jax", "sbx-rl", "pybullet")
    )
    print(f"\nMade by `python benchmarks/kills.py --kills {options.kills} --seed {options.seed}`; ", end="")
    print(f"Python {platform.python_version()}, {packages}, {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
