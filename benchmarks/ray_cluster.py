"""Sweep on a Ray cluster of three simulated nodes that loses a node: all trials end, with the same weights.

    python benchmarks/ray_cluster.py > benchmarks/results/ray_cluster.md

The cluster is `ray.cluster_utils.Cluster` on this machine: a head without a CPU and three nodes with one CPU each. When
a trial on the node that will be lost has written a checkpoint, all processes of the node get SIGKILL. The weights of
all trials are compared with those of the same sweep in processes of this machine. Needs the extra `cluster`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import platform
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from mygym.errors import print_message
from mygym.training.result import versions_in_words

NODES = 3


def file(steps: int) -> dict[str, Any]:
    """Return the sweep: a grid of six settings of `ppo`."""
    return {
        "task": "reach",
        "algo": "ppo",
        "steps": steps,
        "n_envs": 2,
        "eval": {"every": steps, "episodes": 2, "final_episodes": 5},
        "checkpoint": {"every": steps // 8},
        "algo_params": {
            "n_steps": 64,
            "learning_rate": {"grid": [1e-4, 1e-3, 1e-2]},
            "n_epochs": {"grid": [2, 10]},
        },
        "sweep": {"objective": {"maximize": "mean_return"}},
    }


@contextlib.contextmanager
def simulated_cluster() -> Iterator[tuple[Any, list[Any]]]:
    """Yield a cluster, and its nodes besides the head."""
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield cluster, [cluster.add_node(num_cpus=1, memory=2_000_000_000) for _ in range(NODES)]
    finally:
        ray: Any = importlib.import_module("ray")
        ray.shutdown()
        cluster.shutdown()


def kill_a_node(cluster: Any, nodes: list[Any], folder: Path, log: list[str]) -> None:
    """Kill the node of a run that has a checkpoint, with all its processes."""
    while True:
        time.sleep(0.2)
        for node in nodes:
            raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
            family = raylet.children(recursive=True)
            logs = [log_of(process) for process in family]
            for path in filter(None, logs):
                if any(path.parent.glob(f"*/*/*/*/{path.stem}/checkpoints/step_*")):
                    log.append(f"{path.parent.name}/{path.stem}")
                    for process in [raylet, *family]:
                        process.send_signal(signal.SIGSTOP)  # none notices the death of another
                    cluster.remove_node(node, allow_graceful=False)
                    for process in family:
                        if process.is_running():
                            process.kill()
                    return


def log_of(process: psutil.Process) -> Path | None:
    """Return the log of the run that a process executes; None if it executes none."""
    try:
        text = process.environ().get("MYGYM_SWEEP_LOG")
    except psutil.Error:
        return None
    return Path(text) if text else None


def policies(folder: Path) -> dict[str, bytes]:
    """Return trial → weights of its run."""
    return {path.parts[-7]: path.read_bytes() for path in sorted(folder.glob("trials/*/*/*/*/*/*/policy.safetensors"))}


def compare(folder: Path, steps: int) -> list[dict[str, Any]]:
    """Execute the sweep on the cluster and on this machine; return a row for each trial."""
    from mygym.sweeps.executors import LocalExecutor, RayExecutor
    from mygym.sweeps.run import new_sweep

    lost: list[str] = []
    with simulated_cluster() as (cluster, nodes):
        killer = threading.Thread(target=kill_a_node, args=(cluster, nodes, folder, lost), daemon=True)
        killer.start()
        report = new_sweep(folder / "cluster", file(steps), {}, RayExecutor(cluster.address), print_message)
    new_sweep(folder / "local", file(steps), {}, LocalExecutor(1), print_message)
    on_cluster, here = policies(folder / "cluster"), policies(folder / "local")
    rows = []
    for row in sorted(report.rows, key=lambda row: int(row["trial"])):
        name = f"{row['trial']:04}"
        text = (folder / f"cluster/trials/{name}/seed_0.log").read_text(encoding="utf-8")
        rows.append(
            {
                "trial": row["trial"],
                "learning rate": row["algo_params.learning_rate"],
                "epochs": row["algo_params.n_epochs"],
                "state": row["state"],
                "node killed": "yes" if any(each.startswith(name) for each in lost) else "",
                "continued from": _between(text, "continues from ", " of "),
                "same weights": "yes" if on_cluster.get(name) == here[name] else "no",
            }
        )
    return rows


def _between(text: str, begin: str, end: str) -> str:
    return text.partition(begin)[2].partition(end)[0]


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8192, help="env steps of each run (default 8192)")
    options = parser.parse_args()
    from mygym.reporting.tables import as_markdown

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(Path(folder), options.steps)
    print(f"# A Ray cluster that loses a node\n\n{NODES} simulated nodes; runs of {options.steps:,} env steps.\n")
    print(as_markdown(rows))
    packages = versions_in_words("ray", "torch", "pybullet")
    machine = f"{len(os.sched_getaffinity(0))} cores of a shared machine"
    print(f"Made by `python benchmarks/ray_cluster.py`; Python {platform.python_version()}, {packages}, {machine}.")


if __name__ == "__main__":
    main()
