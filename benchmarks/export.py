"""Exported policies: duration of the export, latency and import time of the file, success beside the run's.

    python benchmarks/export.py > benchmarks/results/export.md

Each row trains a policy for `reach` with the defaults of its algorithm and few env steps. Export: the command from
launch to exit, with the verification. Latency: `ExportedPolicy.predict` for a single observation, in one thread; in a
row, and in `mygym run`, between the steps of the simulator, whose data push the policy out of the caches. Success:
`mygym run` and `mygym evaluate` on the same 100 episodes. Import: numpy and onnxruntime, and `ExportedPolicy`, each in
new processes. Ways: the default policy (`sac`) in several ways to call onnxruntime, between the steps of the simulator;
each way acts for `BLOCK` steps, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.training.result import versions_in_words

Arrays = Mapping[str, NDArray[Any]]

STEPS = {"sac": 20_000, "ppo": 20_000, "recurrent_ppo": 4_000}
"""Algorithm → env steps; SAC ends earlier, when it succeeds."""

CALLS = 20_000

BLOCK, TURNS = 250, 8
"""Steps in which a way acts without a change, of which the first 20 do not count; and number of its turns."""

IMPORTS = {
    "numpy, onnxruntime": "import numpy, onnxruntime",
    "`ExportedPolicy`": "from mygym.exporting.exported_policy import ExportedPolicy",
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="processes of each import (default 5)")
    options = parser.parse_args()
    print("# Exported policies\n")
    print("| algorithm | export | difference | latency in a row: median, 99 % | in `mygym run` | success: file, run |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for algo, steps in STEPS.items():
            print(row(algo, steps, Path(folder)), flush=True)
        print("\n| way, `sac` between the steps of the simulator | median, 99 % |\n|---|---|")
        for name, durations in ways(Path(folder) / "sac.onnx").items():
            print(f"| {name} | {np.median(durations):.1f} µs, {np.percentile(durations, 99):.1f} µs |", flush=True)
    print("\n| import | median, largest |\n|---|---|")
    for name, code in IMPORTS.items():
        seconds = [seconds_of_import(code) for _ in range(options.repeats)]
        print(f"| {name} | {statistics.median(seconds):.2f} s, {max(seconds):.2f} s |")
    packages = versions_in_words("torch", "onnx", "onnxruntime")
    print(f"\nMade by `python benchmarks/export.py`; Python {platform.python_version()}, {packages}, ", end="")
    print(f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}.")


def row(algo: str, steps: int, folder: Path) -> str:
    """Train, export and play a policy; return its row."""
    import mygym
    from mygym.exporting.playing import play

    evaluations = {"every": steps, "episodes": 25, "final_episodes": 1}
    config = {"algo": algo, "steps": steps, "video": {"episodes": 0}, "logdir": str(folder)}
    result = mygym.train(config if algo == "sac" else {**config, "eval": evaluations})
    file = folder / f"{algo}.onnx"
    start = time.perf_counter()
    command = [sys.executable, "-m", "mygym", "export", str(result.path), "-o", str(file)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = time.perf_counter() - start
    difference = printed.split("largest difference ")[1].split()[0]
    evaluation, durations = play(file, episodes=100)
    median_played, percentile_played = 1e6 * np.percentile(durations, [50, 99])
    median, percentile = latencies(file)
    return (
        f"| `{algo}` | {seconds:.1f} s | {difference} | {median:.1f} µs, {percentile:.1f} µs "
        f"| {median_played:.1f} µs, {percentile_played:.1f} µs "
        f"| {evaluation.success_rate:.0%}, {mygym.evaluate(result.path, episodes=100).success_rate:.0%} |"
    )


def latencies(file: Path) -> tuple[float, float]:
    """Return median and 99th percentile, in µs, of calls in a row."""
    from mygym.exporting.exported_policy import ExportedPolicy

    policy = ExportedPolicy(file)
    inputs = policy.description["observation"].items()
    observation, state = {name: np.zeros(entry["shape"], entry["dtype"]) for name, entry in inputs}, None
    seconds = []
    for _ in range(CALLS):
        start = time.perf_counter()
        _, state = policy.predict(observation, state)
        seconds.append(time.perf_counter() - start)
    return 1e6 * statistics.median(seconds), 1e6 * float(np.percentile(seconds, 99))


def ways(file: Path) -> dict[str, list[float]]:
    """Return the durations, in µs, of a call for a single observation in several ways."""
    from mygym.exporting.exported_policy import ExportedPolicy
    from mygym.training.env_factory import build_env

    onnxruntime: Any = import_module("onnxruntime")

    def session(**values: object) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        for name, value in values.items():
            setattr(options, name, value)
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    not_spinning = onnxruntime.SessionOptions()
    not_spinning.intra_op_num_threads = 1
    not_spinning.add_session_config_entry("session.intra_op.allow_spinning", "0")
    without_spinning = onnxruntime.InferenceSession(str(file), not_spinning, providers=["CPUExecutionProvider"])
    policy = ExportedPolicy(file)
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    acting: dict[str, Callable[[Arrays], Any]] = {
        "onnxruntime, one thread": partial(session().run, ["action"]),
        "without spinning": partial(without_spinning.run, ["action"]),
        "without arena and memory pattern": partial(
            session(enable_cpu_mem_arena=False, enable_mem_pattern=False).run, ["action"]
        ),
        "all optimisations of the graph": partial(session(graph_optimization_level=level).run, ["action"]),
        "inputs and output bound once (`io_binding`)": bound(session(), file),
    }
    durations: dict[str, list[float]] = {name: [] for name in acting}
    with contextlib.closing(build_env(policy.description["env"])) as env:
        observation: Any = env.reset(seed=0)[0]
        for _ in range(TURNS):
            for name, act in acting.items():
                for step in range(BLOCK):
                    inputs = {key: values[None] for key, values in observation.items()}
                    start = time.perf_counter()
                    (action,) = act(inputs)
                    if step >= 20:
                        durations[name].append(1e6 * (time.perf_counter() - start))
                    observation, _, terminated, truncated, _ = env.step(action[0])
                    if terminated or truncated:
                        observation, _ = env.reset()
    return durations


def bound(session: Any, file: Path) -> Callable[[Arrays], Any]:
    """Return a function that copies observations into arrays that onnxruntime knows already."""
    from mygym.exporting.exported_policy import ExportedPolicy

    description, binding = ExportedPolicy(file).description, session.io_binding()
    arrays = {
        name: np.zeros((1, *entry["shape"]), entry["dtype"]) for name, entry in description["observation"].items()
    }
    action = np.zeros((1, *description["action"]["shape"]), np.float32)
    for name, array in arrays.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("action", "cpu", 0, action.dtype, action.shape, action.ctypes.data)

    def act(inputs: Arrays) -> Any:
        for name, array in arrays.items():
            array[:] = inputs[name]
        session.run_with_iobinding(binding)
        return (action.copy(),)

    return act


def seconds_of_import(code: str) -> float:
    """Return the seconds that imports take in a new process."""
    timed = f"import time; start = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
