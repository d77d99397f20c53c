"""CPU time of each phase of a training, and env steps per second with and without processes of environments.

    python benchmarks/throughput.py > benchmarks/results/throughput.md

Each config is trained in this process alone, with two processes of environments, and, if the algorithm is off-policy,
with `overlap` and one such process, in turn, by calls of `model.learn` (what a run adds to it: benchmarks/overhead.py).
The first call, with the warm-up of a replay buffer, is not counted. CPU times do not depend on what else the machine
does; steps per second do. *Environment* is stepping the environments, with processes only the messages; *replay* is
adding, drawing and relabelling of transitions; *rest* is monitoring, normalisation and rollout buffers.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from mygym.config import load_file
from mygym.planning.plan import make_plan
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]

CONFIGS: dict[str, tuple[dict[str, Any], int, int]] = {
    "--config configs/push_ppo.yaml": (load_file(ROOT / "configs" / "push_ppo.yaml"), 2_048, 2_048),
    "--config configs/push.yaml": (load_file(ROOT / "configs" / "push.yaml"), 420, 40),
    "--algo ppo": ({"algo": "ppo"}, 1_024, 1_024),
    "--algo sac": ({"algo": "sac"}, 400, 200),
    "--algo tqc": ({"algo": "tqc"}, 400, 200),
    "--task open_drawer": ({"task": "open_drawer"}, 5_600, 800),
    "--task throw": ({"task": "throw"}, 5_600, 1_600),
    "--framework jax --task open_drawer": ({"framework": "jax", "task": "open_drawer"}, 5_600, 1_600),
    "--config configs/push_hindsight.yaml": (load_file(ROOT / "configs" / "push_hindsight.yaml"), 5_600, 1_600),
}
"""Flags of `train.py` → config, env steps of the first call of `learn`, and of each further call."""

OVERLAP = "1, overlap"
"""In place of a number of processes: one process, and gradient steps while it steps the environments."""

PHASES = ("environment", "actions", "replay", "gradient steps", "rest")


@dataclass
class Measurement:
    """A call of `learn`; times per env step."""

    wall: float
    """s."""
    cpu: float
    """CPU time of this process, s."""
    cpu_of_processes: float
    """s."""
    phases: dict[str, float]
    """CPU time of this process by phase, s."""
    overlapped: float
    """CPU time of this process while processes step the environments (gradient steps, with the replay in them), s."""


class Training:
    """A training whose phases are measured.

    Args:
        name: A key of `CONFIGS`.
        processes: Number of processes of environments, or `OVERLAP`.
        stack: Closes the environments.
    """

    def __init__(self, name: str, processes: int | str, stack: contextlib.ExitStack) -> None:
        config, self.first, self.further = CONFIGS[name]
        overlap = processes == OVERLAP
        plan = make_plan(config, {"env_processes": 1 if overlap else processes, "overlap": overlap})
        self.model = model = build_model(plan, make_vec_env(plan, stack))
        self.envs = model.get_env().unwrapped
        self.seconds: dict[str, float] = {}
        self._inside: list[float] = []
        replay = getattr(model, "replay_buffer", None)
        chooser = (model.policy, "forward") if replay is None else (model, "_sample_action")
        phases = [(self.envs, "step_async", "environment"), (self.envs, "step_wait", "environment")]
        phases += [(*chooser, "actions"), (model, "train_now" if overlap else "train", "gradient steps")]
        phases += [] if replay is None else [(replay, "add", "replay"), (replay, "sample", "replay")]
        for owner, method, phase in phases:
            self._measure(owner, method, phase)
        self.learn(self.first)

    def learn(self, steps: int) -> Measurement:
        """Train for some env steps."""
        self.seconds, self.overlapped = dict.fromkeys(PHASES, 0.0), 0.0
        before, of_processes = self.model.num_timesteps, self._cpu_of_processes()
        wall, cpu = time.perf_counter(), time.process_time()
        self.model.learn(steps, reset_num_timesteps=False)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.seconds["rest"] = cpu - sum(self.seconds.values())
        done = self.model.num_timesteps - before
        phases = {phase: seconds / done for phase, seconds in self.seconds.items()}
        process_cpu = (self._cpu_of_processes() - of_processes) / done
        return Measurement(wall / done, cpu / done, process_cpu, phases, self.overlapped / done)

    def _measure(self, owner: Any, name: str, phase: str) -> None:
        """Replace a method by one that adds its CPU time, without the phases inside it, to `phase`."""
        usual = getattr(owner, name)

        def measured(*args: Any, **kwargs: Any) -> Any:
            begin = time.process_time()
            self._inside.append(0.0)
            try:
                return usual(*args, **kwargs)
            finally:
                duration = time.process_time() - begin
                self.overlapped += duration * (name == "train_now")
                self.seconds[phase] += duration - self._inside.pop()
                if self._inside:
                    self._inside[-1] += duration

        setattr(owner, name, measured)

    def _cpu_of_processes(self) -> float:
        times = [psutil.Process(process.pid).cpu_times() for process in getattr(self.envs, "processes", [])]
        return sum(each.user + each.system for each in times)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each row (default 5)")
    parser.add_argument("--processes", type=int, default=2, help="processes to compare with none (default 2)")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        pairs: list[tuple[str, int | str]] = []
        for name, (config, *_) in CONFIGS.items():
            overlap = [OVERLAP] if issubclass(make_plan(config).schema.cls, OffPolicyAlgorithm) else []
            pairs += [(name, processes) for processes in (0, options.processes, *overlap)]
        trainings = {pair: Training(*pair, stack) for pair in pairs}
        rows: dict[tuple[str, int | str], list[Measurement]] = {pair: [] for pair in pairs}
        for _ in range(options.repeats):
            for pair, training in trainings.items():
                rows[pair].append(training.learn(training.further))
    print("# Throughput of learning\n")
    print(f"Medians of {options.repeats} repeats, in turn; ratios are of one repeat, smallest to largest.\n")
    print("*With free cores* is the ratio that these CPU times give if each process has a core for itself.\n")
    columns = "env steps per second | ratio | CPU time, ms per env step | of the processes | with free cores"
    print(f"| flags | processes | {columns} |")
    print("|---|---|---|---|---|---|---|")
    for (name, processes), row in rows.items():
        ratios = [alone.wall / each.wall for alone, each in zip(rows[name, 0], row, strict=True)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if processes else "1"
        rate = statistics.median(1 / each.wall for each in row)
        cpu = statistics.median(each.cpu for each in row)
        process_cpu = statistics.median(each.cpu_of_processes for each in row)
        alone_cpu = statistics.median(each.cpu for each in rows[name, 0])
        free = "1"
        if processes:
            overlapped = statistics.median(each.overlapped for each in row)
            of_processes = process_cpu if processes == OVERLAP else process_cpu / int(processes)
            free = f"{alone_cpu / (cpu - overlapped + max(overlapped, of_processes)):.2f}"
        print(
            f"| `{name}` | {processes} | {rate:,.0f} | {ratio} | {1e3 * cpu:.3f} | {1e3 * process_cpu:.3f} | {free} |"
        )
    print("\nCPU time of the training process by phase:\n")
    print(f"| flags | processes | {' | '.join(PHASES)} |")
    print("|---" * (2 + len(PHASES)) + "|")
    for (name, processes), row in rows.items():
        shares = [statistics.median(each.phases[phase] / each.cpu for each in row) for phase in PHASES]
        print(f"| `{name}` | {processes} | {' | '.join(f'{share:.0%}' for share in shares)} |")
    packages = versions_in_words("torch", "stable-baselines3", "pybullet")
    print(f"\nMade by `python benchmarks/throughput.py`; Python {platform.python_version()}, {packages}, ", end="")
    print(f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
